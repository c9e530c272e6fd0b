"""Many rows in one go: the same on both databases, whatever stands in them."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection

from services.runtime import bulk
from services.runtime.database import open_sqlite
from services.runtime.lookup import Lookup
from services.runtime.ports import DatabaseUnavailable
from services.runtime.tables import MinorUnits
from tests.support.postgres import Databases

THINGS = sa.Table(
    "things",
    sa.MetaData(),
    sa.Column("kind", sa.String, primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True),
    sa.Column("check", sa.String),
    sa.Column("seat", sa.Integer),
    sa.Column("amount", MinorUnits),
    sa.Column("body", sa.LargeBinary),
)
BARE = sa.Table("bare", sa.MetaData(), sa.Column("name", sa.String, primary_key=True))


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def database(request, tmp_path_factory) -> Iterator[sa.Engine]:
    opened = ExitStack()
    if request.param == "sqlite":
        engine = open_sqlite(tmp_path_factory.mktemp("bulk") / "bulk.db", writer=True)
    else:
        databases = opened.enter_context(closing(Databases(request.getfixturevalue("postgres"))))
        engine = databases.open_as_owner("game")
    with engine.begin() as connection:
        THINGS.create(connection)
        BARE.create(connection)
    with opened:
        yield engine


@pytest.fixture
def db(database) -> Iterator[Connection]:
    with database.connect() as connection:
        transaction = connection.begin()
        yield connection
        transaction.rollback()


def thing(kind: str, number: int, check: str | None = None, **more: Any) -> dict[str, Any]:
    row = {"kind": kind, "number": number, "check": check, "seat": None, "amount": None, "body": None}
    return {**row, **more}


def everything(db: Connection, table: sa.Table = THINGS) -> list[dict[str, Any]]:
    query = sa.select(table).order_by(*table.primary_key)
    return [dict(row) for row in db.execute(query).mappings()]


STRANGE = [
    *(
        "",
        " ",
        "NULL",
        "null",
        "{}",
        "{a,b}",
        ",",
        '"',
        "\\",
        '\\"',
        "\\x41",
        "a\nb\r\t",
        "'",
        "''",
        "é",
        "😀",
    ),
    *("%s", "%(a)s", ":a", "\x01\x7f", "x" * 10_000),
]


def test_whatever_is_written_comes_back(db):
    rows = [thing("text", number, text) for number, text in enumerate(STRANGE)]
    rows += [thing("text", 1000), thing("bytes", 1, body=bytes(range(256))), thing("bytes", 2, body=b"")]
    rows += [
        thing("big", number, amount=amount, seat=2**31 - 1)
        for number, amount in ((2**63 - 1, 10**37), (-(2**63), -(10**37)), (0, 0))
    ]
    bulk.insert(db, THINGS, rows)
    assert everything(db) == sorted(rows, key=lambda row: (row["kind"], row["number"]))
    assert {type(row["amount"]) for row in everything(db) if row["kind"] == "big"} == {int}
    assert {type(row["body"]) for row in everything(db) if row["kind"] == "bytes"} == {bytes}


def test_strange_keys_are_found(db):
    bulk.insert(db, THINGS, [thing(text, number) for number, text in enumerate(STRANGE)])
    lookup = Lookup(THINGS, "kind", "number")
    asked = [(text, number) for number, text in enumerate(STRANGE)]
    found = {(row.kind, row.number) for row in lookup.find(db, [*asked, ("nothing", 1), *asked])}
    assert found == set(asked)
    assert list(lookup.find(db, [])) == []


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
            st.one_of(st.none(), st.binary()),
            st.one_of(st.none(), st.integers(-(10**38) + 1, 10**38 - 1)),
        )
    )
)
def test_anything_comes_back(database, written):
    with database.connect() as db:
        transaction = db.begin()
        rows = [
            thing("any", number, text, body=body, amount=amount)
            for number, (text, body, amount) in enumerate(written)
        ]
        bulk.insert(db, THINGS, rows)
        assert everything(db) == rows
        transaction.rollback()


def test_an_upsert_replaces_and_of_equal_keys_the_last_counts(db):
    bulk.insert(db, THINGS, [thing("a", 1, "old", seat=1), thing("a", 2, "stays")])
    bulk.upsert(db, THINGS, [thing("a", 1, "new"), thing("b", 1, "first"), thing("b", 1, "last")])
    assert everything(db) == [thing("a", 1, "new"), thing("a", 2, "stays"), thing("b", 1, "last")]
    bulk.upsert(db, BARE, [{"name": "x"}])
    bulk.upsert(db, BARE, [{"name": "x"}, {"name": "y"}])
    assert everything(db, BARE) == [{"name": "x"}, {"name": "y"}]


def test_what_is_there_already_is_passed_over(db):
    bulk.insert(db, THINGS, [thing("a", 1, "old")])
    bulk.insert_new(db, THINGS, [thing("a", 1, "new"), thing("a", 2, "first"), thing("a", 2, "second")])
    assert everything(db) == [thing("a", 1, "old"), thing("a", 2, "first")]


def test_an_update_changes_what_it_names(db):
    bulk.insert(db, THINGS, [thing("a", n, f"old {n}", seat=n) for n in range(4)])
    bulk.update(db, THINGS, [{"kind": "a", "number": n, "check": f"new {n}"} for n in (1, 3, 9)])
    assert [(row["check"], row["seat"]) for row in everything(db)] == [
        ("old 0", 0),
        ("new 1", 1),
        ("old 2", 2),
        ("new 3", 3),
    ]
    bulk.update(db, THINGS, [{"kind": "a", "number": 0, "seat": None, "amount": 5}])
    assert everything(db)[0] == thing("a", 0, "old 0", amount=5)


def test_a_delete_removes_what_is_there(db):
    bulk.insert(db, THINGS, [thing("a", n) for n in range(4)])
    bulk.delete(db, THINGS, [{"kind": "a", "number": n} for n in (0, 2, 7)] + [{"kind": "b", "number": 1}])
    assert [row["number"] for row in everything(db)] == [1, 3]


@pytest.mark.parametrize("write", [bulk.insert, bulk.insert_new, bulk.upsert, bulk.update, bulk.delete])
def test_no_rows_are_no_work(db, write):
    write(db, THINGS, [])
    assert everything(db) == []


def test_a_key_that_is_there_is_an_error_of_integrity(db):
    bulk.insert(db, BARE, [{"name": "x"}])
    with pytest.raises(sa.exc.IntegrityError):
        bulk.insert(db, BARE, [{"name": "y"}, {"name": "x"}])


def test_what_is_written_together_is_there_at_the_end(db):
    with bulk.together(db):
        bulk.insert(db, THINGS, [thing("a", n, "old") for n in range(3)])
        bulk.update(db, THINGS, [{"kind": "a", "number": 1, "check": "new"}])
        bulk.delete(db, THINGS, [{"kind": "a", "number": 2}])
        bulk.upsert(db, THINGS, [thing("a", 0, "newer"), thing("b", 0)])
    assert everything(db) == [thing("a", 0, "newer"), thing("a", 1, "new"), thing("b", 0)]


def test_a_fault_in_what_is_written_together_comes_at_the_end(db):
    def write() -> None:
        with bulk.together(db):
            bulk.insert(db, BARE, [{"name": "x"}])
            bulk.insert(db, BARE, [{"name": "x"}])
            bulk.insert(db, BARE, [{"name": "y"}])

    with pytest.raises(sa.exc.IntegrityError):
        write()


def test_what_was_given_up_is_undone_with_its_transaction(db):
    def write() -> None:
        with bulk.together(db):
            bulk.insert(db, BARE, [{"name": "x"}])
            raise RuntimeError("in the middle")

    point = db.begin_nested()
    with pytest.raises(RuntimeError, match="in the middle"):
        write()
    point.rollback()
    assert everything(db, BARE) == []  # and the connection can be used


def test_who_wants_to_read_in_between_says_so(db):
    with bulk.together(db):
        bulk.insert(db, BARE, [{"name": "x"}])
        bulk.flush(db)
        assert everything(db, BARE) == [{"name": "x"}]
        bulk.insert(db, BARE, [{"name": "y"}])
    assert everything(db, BARE) == [{"name": "x"}, {"name": "y"}]


def test_a_type_that_no_row_has_is_a_defect():
    table = sa.Table("odd", sa.MetaData(), sa.Column("price", sa.Float))
    with pytest.raises(TypeError, match=r"odd\.price"):
        bulk.encoder_of(table.c.price)


# ---------------------------------------------------------------------------------------- on PostgreSQL alone


def test_one_statement_serves_for_any_number_of_rows(databases):
    """What is prepared on the server does not grow with the batches."""
    with databases.open_as_owner("game").connect() as db, db.begin():
        THINGS.create(db)
        lookup, next_number = Lookup(THINGS, "kind", "number"), 0
        for size in range(1, 40):
            numbers = range(next_number, next_number := next_number + size)
            bulk.insert(db, THINGS, [thing("a", number, seat=number) for number in numbers])
            bulk.upsert(db, THINGS, [thing("a", number, amount=number) for number in numbers])
            keys = [{"kind": "a", "number": number} for number in numbers]
            bulk.update(db, THINGS, [{**key, "seat": 10**size % 2**31} for key in keys])
            assert len(list(lookup.find(db, [("a", number) for number in numbers]))) == size
            bulk.delete(db, THINGS, keys)
        prepared = db.execute(sa.text("SELECT statement FROM pg_prepared_statements")).scalars().all()
        assert sum("things" in statement for statement in prepared) == 5


def test_a_connection_that_breaks_meanwhile_is_named(databases):
    with databases.open("game").connect() as db:
        process = db.scalar(sa.text("SELECT pg_backend_pid()"))
        with databases.open("game").connect() as other, other.begin():
            other.execute(sa.text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": process})
        rows = [{"topic": "game.events", "partition": 0, "next": 1}]
        table = sa.Table(
            "consumer_offset",
            sa.MetaData(),
            sa.Column("topic", sa.String, primary_key=True),
            sa.Column("partition", sa.Integer, primary_key=True),
            sa.Column("next", sa.BigInteger),
        )

        def write() -> None:
            with bulk.together(db):
                bulk.upsert(db, table, rows)

        with pytest.raises(DatabaseUnavailable, match="the connection was lost"):
            write()
        db.invalidate()
