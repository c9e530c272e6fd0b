"""The tables that every service's database has: its events, and the bookkeeping around them.

``stream`` and ``event`` hold the truth; ``outbox``, ``inbox``, ``consumer_offset`` and ``dead_letter`` say
how far it has travelled. Everything else in a database is a projection.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

_Big = sa.BigInteger().with_variant(sa.Integer, "sqlite")


class StreamRow(SQLModel, table=True):
    """A stream of this service and its head."""

    __tablename__ = "stream"

    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(unique=True)
    sequence: int = Field(sa_type=sa.BigInteger)
    hash: str = Field(max_length=64)


class EventRow(SQLModel, table=True):
    """An event. ``position`` orders all of the service's events as they were committed.

    (stream, sequence) is unique. Streams have integer ids because a text key in that index makes batches six
    times slower on SQLite.
    """

    __tablename__ = "event"
    __table_args__ = (sa.UniqueConstraint("stream_id", "sequence"),)

    position: int = Field(sa_type=_Big, primary_key=True)
    stream_id: int = Field(foreign_key="stream.id")
    sequence: int = Field(sa_type=sa.BigInteger)
    body: bytes
    signature: bytes | None = None


class OutboxRow(SQLModel, table=True):
    """One row: the position up to which the bus has acknowledged everything, and what fences a writer."""

    __tablename__ = "outbox"

    id: int | None = Field(default=None, primary_key=True)
    published: int = Field(sa_type=sa.BigInteger)
    commits: int = Field(sa_type=sa.BigInteger)
    """So many transactions of writers were committed."""


class InboxRow(SQLModel, table=True):
    """The last event applied of an incoming stream, and where the stream is held, if it is."""

    __tablename__ = "inbox"

    stream: str = Field(primary_key=True)
    sequence: int = Field(sa_type=sa.BigInteger)
    hash: str = Field(max_length=64)
    held_topic: str | None = None
    held_partition: int | None = None
    held_offset: int | None = Field(default=None, sa_type=sa.BigInteger)
    held_reason: str | None = None


class ConsumerOffsetRow(SQLModel, table=True):
    """Where to start reading a partition: a hint."""

    __tablename__ = "consumer_offset"

    topic: str = Field(primary_key=True)
    partition: int = Field(primary_key=True)
    next: int = Field(sa_type=sa.BigInteger)


class DeadLetterRow(SQLModel, table=True):
    """A record that is not ours or cannot be read. It holds no place in a stream."""

    __tablename__ = "dead_letter"
    __table_args__ = (sa.UniqueConstraint("topic", "partition", "offset"),)

    id: int | None = Field(default=None, primary_key=True)
    topic: str
    partition: int
    offset: int = Field(sa_type=sa.BigInteger)
    reason: str
    body: bytes
    received_at: str


READ: Final = ("SELECT",)
APPEND: Final = ("SELECT", "INSERT")
CHANGE: Final = ("SELECT", "UPDATE")
KEEP: Final = ("SELECT", "INSERT", "UPDATE")
REPLACE: Final = ("SELECT", "INSERT", "UPDATE", "DELETE")

_RUNTIME_RIGHTS: Final[Mapping[str, tuple[str, ...]]] = {
    "stream": KEEP,
    "event": APPEND,
    "outbox": CHANGE,
    "inbox": KEEP,
    "consumer_offset": KEEP,
    "dead_letter": APPEND,
    "alembic_version": READ,
}


@dataclass(frozen=True)
class Access:
    """What a service may do with the tables of its database, where a database server holds it to that."""

    own: Mapping[str, tuple[str, ...]]
    """What it may do with the tables that are its own, by their names."""
    secret: frozenset[str] = frozenset()
    """Those that nobody else may read."""

    @property
    def rights(self) -> Mapping[str, tuple[str, ...]]:
        """What it may do with all tables, those of the runtime among them."""
        return {**_RUNTIME_RIGHTS, **self.own}


def table_of(model: type[SQLModel]) -> sa.Table:
    """The SQLAlchemy table behind a model, for statements over whole batches."""
    table = model.__table__  # type: ignore[attr-defined]
    assert isinstance(table, sa.Table)
    return table


def storable(words: str) -> str:
    """Words in which somebody else's bytes may be quoted, as every database takes them.

    PostgreSQL has no NUL in a text, and neither a half of a surrogate pair; they are written as escapes.
    """
    return _UNSTORABLE.sub(lambda found: ascii(found[0])[1:-1], words)


_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


class MinorUnits(sa.types.TypeDecorator[int]):
    """A total of minor units that 64 bits may not hold: NUMERIC(38) on PostgreSQL, text on SQLite."""

    impl = sa.Numeric(38, 0)
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        chosen = sa.String(40) if dialect.name == "sqlite" else sa.Numeric(38, 0)
        return dialect.type_descriptor(chosen)

    def process_bind_param(self, value: int | None, dialect: sa.Dialect) -> Any:
        return str(value) if value is not None and dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> int | None:
        return None if value is None else int(value)
