"""What the migrations make is what the code believes in: every table of every service, column by column."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection
from sqlmodel import SQLModel

from services.runtime.database import migrate, open_sqlite
from tests.contracts.bus import ROOT

SERVICES = sorted(folder.parent.name for folder in ROOT.glob("services/*/migrations"))
RUNTIME = {"stream", "event", "outbox", "inbox", "consumer_offset", "dead_letter"}
KEPT_BY_TRIGGERS = {"wallet_books"}
"""On PostgreSQL only; nothing of ours reads or writes there."""


@pytest.fixture(params=SERVICES)
def service(request) -> str:
    import_module(f"services.{request.param}.store")
    return request.param


@pytest.fixture(params=["sqlite", "postgres"])
def db(request, tmp_path, service) -> Iterator[Connection]:
    if request.param == "postgres":
        engine = request.getfixturevalue("databases").open_as_owner(service)
    else:
        engine = open_sqlite(tmp_path / f"{service}.db", writer=True)
        migrate(engine, service)
    with engine.connect() as db, db.begin():
        yield db


def is_of(service: str, name: str | None) -> bool:
    return name in RUNTIME or (name or "").startswith(f"{service}_")


def differences(db: Connection, service: str, metadata: sa.MetaData) -> list[Any]:
    """What Alembic would change in the database to make it what the models say."""

    def include(thing: Any, name: str | None, kind: str, *_: Any) -> bool:
        if kind == "table":
            return is_of(service, name) and name not in KEPT_BY_TRIGGERS
        return name != "outbox_one_row"  # a guard of PostgreSQL's

    context = MigrationContext.configure(db, opts={"include_object": include, "compare_type": True})
    return compare_metadata(context, metadata)


def test_there_is_something_to_compare():
    assert {"game", "wallet"} <= set(SERVICES)


def test_the_migrations_make_what_the_models_say(db, service):
    assert differences(db, service, SQLModel.metadata) == []
    made = set(sa.inspect(db).get_table_names()) - {"alembic_version"} - KEPT_BY_TRIGGERS
    assert made == {name for name in SQLModel.metadata.tables if is_of(service, name)}
    assert made >= RUNTIME


def test_primary_keys_and_nulls_are_the_same_as_well(db, service):
    """Alembic does not look at these."""
    inspector = sa.inspect(db)
    for name, table in SQLModel.metadata.tables.items():
        if is_of(service, name):
            there = inspector.get_pk_constraint(name)["constrained_columns"]
            assert there == [column.name for column in table.primary_key], name
            nullable = {column["name"]: column["nullable"] for column in inspector.get_columns(name)}
            keys = set(there)
            assert {n: null for n, null in nullable.items() if n not in keys} == {
                column.name: column.nullable for column in table.columns if column.name not in keys
            }, name


@pytest.mark.parametrize("planted", ["column", "index", "table"])
def test_a_difference_would_be_found(db, service, planted):
    other = sa.MetaData()
    for table in SQLModel.metadata.tables.values():
        table.to_metadata(other)
    event = other.tables["event"]
    if planted == "column":
        event.append_column(sa.Column("planted", sa.String))
    elif planted == "index":
        sa.Index("planted", event.c.body)
    else:
        sa.Table(f"{service}_planted", other, sa.Column("id", sa.Integer, primary_key=True))
    assert len(differences(db, service, other)) == 1


def test_migrating_again_changes_nothing(tmp_path, service):
    engine = open_sqlite(tmp_path / "again.db", writer=True)
    migrate(engine, service)
    with engine.connect() as db, db.begin():
        before = db.execute(sa.text("SELECT name, sql FROM sqlite_master ORDER BY 1")).all()
        version = db.execute(sa.text("SELECT version_num FROM alembic_version")).all()
    migrate(engine, service)
    with engine.connect() as db, db.begin():
        assert db.execute(sa.text("SELECT name, sql FROM sqlite_master ORDER BY 1")).all() == before
        assert db.execute(sa.text("SELECT version_num FROM alembic_version")).all() == version
    assert len(version) == 1


def test_a_migration_that_fails_half_way_leaves_nothing(tmp_path, service):
    engine = open_sqlite(tmp_path / "half.db", writer=True)
    in_the_way = next(name for name in SQLModel.metadata.tables if name.startswith(f"{service}_"))
    with engine.begin() as db:
        db.execute(sa.text(f"CREATE TABLE {in_the_way} (id INTEGER)"))
    with pytest.raises(sa.exc.OperationalError, match="already exists"):
        migrate(engine, service)
    with engine.connect() as db, db.begin():
        assert sa.inspect(db).get_table_names() == [in_the_way]


@pytest.mark.parametrize("published", [None, 7])
def test_a_first_version_with_events_comes_along(tmp_path, service, published):
    """The first version had no count of commits, and no row in the outbox before the first mark."""
    engine = open_sqlite(tmp_path / "old.db", writer=True)
    migrate(engine, service, to=f"{service}_0001")
    with engine.begin() as db:
        assert "commits" not in {column["name"] for column in sa.inspect(db).get_columns("outbox")}
        if published is not None:
            db.execute(sa.text("INSERT INTO outbox (published) VALUES (:it)"), {"it": published})
    migrate(engine, service)
    with engine.begin() as db:
        assert db.execute(sa.text("SELECT published, commits FROM outbox")).all() == [(published or 0, 0)]
