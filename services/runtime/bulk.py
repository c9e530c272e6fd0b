"""Many rows in one go, on both databases.

On SQLite, which is in our own process, a statement is carried out for every row. On PostgreSQL a statement is
a journey to the server, so the rows travel as arrays, one for each column: one statement for a table and
batch, however many rows, and all the statements of a batch without waiting in between (``together``). The
text of a statement never changes, so that it is prepared once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final, cast

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

Row = Mapping[str, Any]
"""A row by column names. All rows of one call name the same columns."""

Columns = Mapping[str, Sequence[Any]]
"""Rows as columns, all of the same length."""

Encoder = Callable[[Sequence[Any]], str]

_Key = tuple[str, str, tuple[str, ...]]
"""What is done, the table, the columns."""

_statements: dict[_Key, sa.Executable] = {}
_plans: dict[_Key, tuple[str, list[tuple[str, Encoder]]]] = {}
_TOGETHER: Final = "sabot.together"
"""Where a connection keeps the pipeline that it is in."""

SAY: Final = "sabot_say"
"""Execution option of an engine: says what an error of the driver's means, told whether it was the last."""


def insert(db: Connection, table: sa.Table, rows: Sequence[Row]) -> None:
    """Insert new rows."""
    _execute(db, "insert", table, rows)


def insert_columns(db: Connection, table: sa.Table, columns: Columns) -> None:
    """Insert new rows that are given column by column: where there are many, making rows costs more than
    writing them."""
    if db.dialect.name == "postgresql":
        _send_columns(db, "insert", table, columns)
        return
    names = tuple(columns)
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    _execute(db, "insert", table, rows)


def insert_new(db: Connection, table: sa.Table, rows: Sequence[Row]) -> None:
    """Insert those of the rows whose keys are not there yet; pass over the others."""
    _execute(db, "insert_new", table, rows)


def upsert(db: Connection, table: sa.Table, rows: Sequence[Row]) -> None:
    """Insert rows, or replace those with the same primary key. Of equal keys the last counts."""
    if db.dialect.name == "postgresql":  # which does not touch a row twice in one statement
        keys = [column.name for column in table.primary_key]
        rows = list({tuple(row[key] for key in keys): row for row in rows}.values())
    _execute(db, "upsert", table, rows)


def update(db: Connection, table: sa.Table, rows: Sequence[Row]) -> None:
    """Change rows: each names its primary key, and the columns to change."""
    _execute(db, "update", table, rows)


def delete(db: Connection, table: sa.Table, keys: Sequence[Row]) -> None:
    """Remove the rows of these primary keys, where they are."""
    _execute(db, "delete", table, keys)


@contextmanager
def together(db: Connection) -> Iterator[None]:
    """Send what is written in here without waiting for each statement: on PostgreSQL a pipeline.

    The server works on what it has while we make the next. Who wants to read in between must ``flush`` first.
    What is wrong with any of it is raised at the end, or before.
    """
    if db.dialect.name != "postgresql":
        yield
        return
    sending = _Sending(db)
    kept = db.info  # which cannot be asked for any more when the connection is lost
    kept[_TOGETHER] = sending
    try:
        yield
    except BaseException:
        sending.give_up()
        raise
    else:
        sending.finish()
    finally:
        del kept[_TOGETHER]


def flush(db: Connection) -> None:
    """Wait until all that was sent is carried out: before anything is read on this connection."""
    sending = db.info.get(_TOGETHER)
    if sending is not None:
        sending.finish()


class _Sending:
    """A pipeline of the driver's, begun by the first write: whoever only reads needs none."""

    def __init__(self, db: Connection) -> None:
        self._db = db
        self._driver = cast("Any", db.connection.driver_connection)
        self._errors = cast("Any", db.dialect.loaded_dbapi).Error
        self._opened: ExitStack | None = None
        self._cursor: Any = None
        self._text = ""

    def send(self, text: str, arrays: tuple[str, ...]) -> None:
        """Send a statement."""
        self._text = text
        with self._in_words():
            if self._opened is None:
                self._opened = ExitStack()
                self._opened.enter_context(self._driver.pipeline())
                self._cursor = self._opened.enter_context(self._driver.cursor())
            self._cursor.execute(text, arrays)

    def finish(self) -> None:
        """Wait until all of it is carried out."""
        if self._opened is not None:
            opened, self._opened = self._opened, None
            with self._in_words():
                opened.close()

    def give_up(self) -> None:
        """Leave the pipeline, whatever the server says to what was sent."""
        if self._opened is not None:
            with suppress(self._errors):
                self._opened.close()

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            # It went past SQLAlchemy, which would have said it so; or the engine's own words for it.
            say = self._db.get_execution_options().get(SAY)
            said = None if say is None else say(error, self._driver.closed)
            raise said or sa.exc.DBAPIError.instance(self._text, None, error, self._errors) from error


def encoder_of(column: sa.Column[Any]) -> Encoder:
    """Writes a column's values as the literal of a PostgreSQL array, for a parameter of type ``array_type``.

    A server reads these literals as quickly as any other form, and Python writes them several times faster
    than the driver writes a list.
    """
    return _ENCODERS[_type_of(column)]


def array_type(column: sa.Column[Any]) -> str:
    """The type of an array of a column's values."""
    return _type_of(column) + "[]"


def _execute(db: Connection, kind: str, table: sa.Table, rows: Sequence[Row]) -> None:
    if not rows:
        return
    names = tuple(rows[0])
    if db.dialect.name == "postgresql":
        _send_columns(db, kind, table, {name: [row[name] for row in rows] for name in names})
        return
    key = (kind, table.name, names)
    statement = _statements.get(key)
    if statement is None:
        statement = _statements[key] = _SQLITE[kind](table, names)
    if kind in ("update", "delete"):
        rows = [{f"_{name}": value for name, value in row.items()} for row in rows]
    db.execute(statement, cast("Any", rows))


def _send_columns(db: Connection, kind: str, table: sa.Table, columns: Columns) -> None:
    names = tuple(columns)
    if not columns[names[0]]:
        return
    key = (kind, table.name, names)
    plan = _plans.get(key)
    if plan is None:
        text = _POSTGRES[kind](db.dialect.identifier_preparer.quote, table, names)
        plan = _plans[key] = text, [(name, encoder_of(table.c[name])) for name in names]
    text, encoders = plan
    arrays = tuple(encode(columns[name]) for name, encode in encoders)
    writes = db.info.get(_TOGETHER)
    if writes is None:
        db.exec_driver_sql(text, arrays)
    else:
        writes.send(text, arrays)


# ------------------------------------------------------------------------------------------------- SQLite


def _sqlite_insert(table: sa.Table, names: Sequence[str]) -> sa.Executable:
    return sa.insert(table)


def _sqlite_insert_new(table: sa.Table, names: Sequence[str]) -> sa.Executable:
    return sqlite_insert(table).on_conflict_do_nothing()


def _sqlite_upsert(table: sa.Table, names: Sequence[str]) -> sa.Executable:
    statement = sqlite_insert(table)
    keys, others = _split(table, names)
    if not others:
        return statement.on_conflict_do_nothing()
    changed = {name: statement.excluded[name] for name in others}
    return statement.on_conflict_do_update(index_elements=keys, set_=changed)


def _sqlite_update(table: sa.Table, names: Sequence[str]) -> sa.Executable:
    keys, others = _split(table, names)
    return sa.update(table).where(*_found(table, keys)).values({name: _parameter(name) for name in others})


def _sqlite_delete(table: sa.Table, names: Sequence[str]) -> sa.Executable:
    return sa.delete(table).where(*_found(table, names))


def _found(table: sa.Table, keys: Iterable[str]) -> list[sa.ColumnElement[bool]]:
    return [table.c[key] == _parameter(key) for key in keys]


def _parameter(name: str) -> sa.BindParameter[Any]:
    return sa.bindparam(f"_{name}")  # SQLAlchemy keeps the bare name to itself


# --------------------------------------------------------------------------------------------- PostgreSQL

_Quote = Callable[[str], str]


def _unnest(table: sa.Table, names: Sequence[str]) -> str:
    return f"unnest({', '.join(f'%s::{array_type(table.c[name])}' for name in names)})"


def _postgres_insert(quote: _Quote, table: sa.Table, names: Sequence[str]) -> str:
    columns = ", ".join(map(quote, names))
    return f"INSERT INTO {quote(table.name)} ({columns}) SELECT * FROM {_unnest(table, names)}"


def _postgres_insert_new(quote: _Quote, table: sa.Table, names: Sequence[str]) -> str:
    return f"{_postgres_insert(quote, table, names)} ON CONFLICT DO NOTHING"


def _postgres_upsert(quote: _Quote, table: sa.Table, names: Sequence[str]) -> str:
    keys, others = _split(table, names)
    if not others:
        return _postgres_insert_new(quote, table, names)
    changed = ", ".join(f"{quote(name)} = excluded.{quote(name)}" for name in others)
    found = ", ".join(map(quote, keys))
    return f"{_postgres_insert(quote, table, names)} ON CONFLICT ({found}) DO UPDATE SET {changed}"


def _postgres_update(quote: _Quote, table: sa.Table, names: Sequence[str]) -> str:
    keys, others = _split(table, names)
    changed = ", ".join(f"{quote(name)} = new.{quote(name)}" for name in others)
    return f"UPDATE {quote(table.name)} AS old SET {changed} FROM {_as_new(quote, table, names, keys)}"


def _postgres_delete(quote: _Quote, table: sa.Table, names: Sequence[str]) -> str:
    return f"DELETE FROM {quote(table.name)} AS old USING {_as_new(quote, table, names, names)}"


def _as_new(quote: _Quote, table: sa.Table, names: Sequence[str], keys: Iterable[str]) -> str:
    found = " AND ".join(f"old.{quote(key)} = new.{quote(key)}" for key in keys)
    return f"{_unnest(table, names)} AS new ({', '.join(map(quote, names))}) WHERE {found}"


def _type_of(column: sa.Column[Any]) -> str:
    kind = column.type
    if isinstance(kind, sa.types.TypeDecorator):
        kind = kind.impl_instance
    match kind:
        case sa.LargeBinary():
            return "bytea"
        case sa.BigInteger():
            return "bigint"
        case sa.Integer():
            return "integer"
        case sa.Numeric():
            return "numeric"
        case sa.String():
            return "text"  # a length is for the column to check: a cast would cut off
    raise TypeError(f"{column} is of a type that no row of ours has")


def _numbers(values: Sequence[int | None]) -> str:
    return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"


def _strings(values: Sequence[str | None]) -> str:
    quoted = [
        "NULL" if value is None else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        for value in values
    ]
    return "{" + ",".join(quoted) + "}"


def _bytes(values: Sequence[bytes | None]) -> str:
    return "{" + ",".join(["NULL" if value is None else rf'"\\x{value.hex()}"' for value in values]) + "}"


_ENCODERS: Final[Mapping[str, Encoder]] = {
    "bytea": _bytes,
    "bigint": _numbers,
    "integer": _numbers,
    "numeric": _numbers,
    "text": _strings,
}


def _split(table: sa.Table, names: Iterable[str]) -> tuple[list[str], list[str]]:
    """The columns of the primary key, and the others that the rows name."""
    keys = [column.name for column in table.primary_key]
    return keys, [name for name in names if name not in keys]


_SQLITE: Final[Mapping[str, Callable[[sa.Table, Sequence[str]], sa.Executable]]] = {
    "insert": _sqlite_insert,
    "insert_new": _sqlite_insert_new,
    "upsert": _sqlite_upsert,
    "update": _sqlite_update,
    "delete": _sqlite_delete,
}
_POSTGRES: Final[Mapping[str, Callable[[_Quote, sa.Table, Sequence[str]], str]]] = {
    "insert": _postgres_insert,
    "insert_new": _postgres_insert_new,
    "upsert": _postgres_upsert,
    "update": _postgres_update,
    "delete": _postgres_delete,
}
