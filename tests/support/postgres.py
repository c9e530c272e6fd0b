"""Fixtures: a real PostgreSQL server, and databases on it that are a test's own.

Under xdist every worker starts a server with the first test that wants one. ``SABOT_TEST_POSTGRES`` may name
another instead, by the URL of its superuser; tests that stop a server are then left out.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql
from sqlalchemy import Engine

from deploy.postgres.server import Server, available
from services.audit import store as audit_store
from services.game import store as game_store
from services.runtime.postgres import open_as_owner, open_postgres
from services.runtime.prepare import close_to_others, places_of, prepare
from services.wallet import tables as wallet_tables
from tests.support import requires

SERVICES = {"game": game_store.ACCESS, "wallet": wallet_tables.ACCESS, "audit": audit_store.ACCESS}
_PASSWORD = "for-tests"  # where nobody asks for one it does no harm


class Postgres:
    """A server, and templates of prepared databases from which a test gets its own within milliseconds."""

    def __init__(self, admin: str, ours: Server | None) -> None:
        self.admin, self.server = admin, ours
        self._prefix = f"sabot_test_{os.getpid()}_"
        self._made = 0
        prepare(self.template(self._prefix), admin, SERVICES)

    def template(self, prefix: str, port: int | None = None) -> str:
        """The URL, with ``{service}`` in it, of databases whose names begin so."""
        url = sa.make_url(self.admin)
        host = f"{url.host}:{port or url.port or 5432}"
        return f"postgresql://sabot_{{service}}:{_PASSWORD}@{host}/{prefix}{{service}}"

    def make(self, prefix: str, service: str) -> None:
        """One prepared database."""
        places, reader = places_of(self.template(prefix), {service: SERVICES[service]})
        with psycopg.connect(self.admin, autocommit=True) as connection:
            connection.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER {}").format(
                    *map(sql.Identifier, (places[0].database, self._prefix + service, places[0].owner))
                )
            )
            close_to_others(connection, places[0], reader.role)

    def drop(self, database: str) -> None:
        """Remove it, whoever is connected."""
        with psycopg.connect(self.admin, autocommit=True) as connection:
            connection.execute(
                sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database))
            )

    def new_prefix(self) -> str:
        """How a test's databases begin."""
        self._made += 1
        return f"{self._prefix}{self._made}_"

    def close(self) -> None:
        """Remove the templates."""
        for service in SERVICES:
            self.drop(self._prefix + service)


class Databases:
    """The databases of one test, each made when it is first asked for."""

    def __init__(self, postgres: Postgres) -> None:
        self.postgres, self.prefix = postgres, postgres.new_prefix()
        self._made: set[str] = set()
        self._opened = ExitStack()

    @property
    def url(self) -> str:
        """The URL of all three, with ``{service}`` in it."""
        for service in SERVICES:
            self._make(service)
        return self.postgres.template(self.prefix)

    def url_of(self, service: str, *, role: str | None = None, port: int | None = None) -> str:
        """The URL of one, as its service or as the service, or ``reader``, ``role``."""
        self._make(service)
        url = self.postgres.template(self.prefix, port)
        return url.replace("{service}", role or service, 1).replace("{service}", service)

    def open(self, service: str, *, writer: bool = True, port: int | None = None) -> Engine:
        """An engine as the service, which is disposed of after the test."""
        engine = open_postgres(self.url_of(service, port=port), writer=writer, name=f"test-{service}")
        self._opened.callback(engine.dispose)
        return engine

    def open_as_owner(self, service: str) -> Engine:
        """An engine as the owner of the tables."""
        self._make(service)
        url = sa.make_url(self.postgres.admin).set(database=self.prefix + service)
        engine = open_as_owner(
            url.render_as_string(hide_password=False), f"sabot_{service}_owner", name="test-owner"
        )
        self._opened.callback(engine.dispose)
        return engine

    def close(self) -> None:
        """Remove them."""
        self._opened.close()
        for service in self._made:
            self.postgres.drop(self.prefix + service)

    def _make(self, service: str) -> None:
        if service not in self._made:
            self.postgres.make(self.prefix, service)
            self._made.add(service)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Whatever server there is."""
    with ExitStack() as stack:
        admin, ours = os.environ.get("SABOT_TEST_POSTGRES"), None
        if admin is None:
            lacking = available()
            requires("postgres", lacking is None, str(lacking))
            ours = stack.enter_context(Server())
            admin = ours.url
        postgres = Postgres(admin, ours)
        if ours is None:
            stack.callback(postgres.close)
        yield postgres


@pytest.fixture
def own_postgres(postgres: Postgres) -> Iterator[Server]:
    """The same server, for a test that stops, kills or pauses it; after the test it runs again."""
    requires("postgres", postgres.server is not None, "the server that there is may not be stopped")
    assert postgres.server is not None
    yield postgres.server
    if postgres.server.runs():
        postgres.server.resume()
    else:
        postgres.server.start()


@pytest.fixture
def databases(postgres: Postgres) -> Iterator[Databases]:
    """Fresh databases, prepared as an administrator does it."""
    databases = Databases(postgres)
    try:
        yield databases
    finally:
        databases.close()
