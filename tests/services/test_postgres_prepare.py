"""Making a server ready: once, again, by whom, and what is said when it cannot be."""

from collections.abc import Iterator
from contextlib import closing
from itertools import count

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql

from services.runtime.ports import DatabaseUnavailable
from services.runtime.postgres import NotPrepared, check_migrated, open_postgres
from services.runtime.prepare import PreparationFailed, prepare
from services.runtime.store import EventStore
from tests.support.postgres import SERVICES, Postgres

_numbers = count(1)


class Site:
    """Names of an installation of its own on the server that there is."""

    def __init__(self, postgres: Postgres) -> None:
        self.name = f"site{next(_numbers)}"
        self.admin = postgres.admin
        self._url = sa.make_url(postgres.admin)

    def url(self, *, password: str | None = None) -> str:
        secret = f":{password}" if password else ""
        host = f"{self._url.host}:{self._url.port or 5432}"
        return f"postgresql://{self.name}_{{service}}{secret}@{host}/{self.name}_{{service}}"

    def open(self, service: str):
        return open_postgres(self.url().replace("{service}", service), writer=True, name="test")

    def execute(self, statement: str, database: str = "postgres") -> list:
        url = self._url.set(database=database).render_as_string(hide_password=False)
        with closing(psycopg.connect(url, autocommit=True)) as admin:
            cursor = admin.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def remove(self) -> None:
        like = f"LIKE '{self.name}\\_%'"
        for (name,) in self.execute(f"SELECT datname FROM pg_database WHERE datname {like}"):
            self.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)).as_string())
        for (name,) in self.execute(f"SELECT rolname FROM pg_roles WHERE rolname {like} ORDER BY 1 DESC"):
            self.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)).as_string())


@pytest.fixture
def site(postgres) -> Iterator[Site]:
    site = Site(postgres)
    yield site
    site.remove()


def test_the_second_time_everything_is_there_already(site):
    told: list[str] = []
    done = prepare(site.url(), site.admin, SERVICES, told.append)
    assert told == done
    assert sum(line.endswith(": made") for line in done) == 1 + 3 * 3
    again = prepare(site.url(), site.admin, SERVICES)
    assert [line.replace("made", "there already") for line in done] == again
    for service in SERVICES:
        engine = site.open(service)
        check_migrated(engine, service)
        with closing(EventStore(engine)) as store:
            assert store.position == 0


def test_what_somebody_granted_beside_it_is_taken_back(site):
    prepare(site.url(), site.admin, SERVICES)
    database, role = f"{site.name}_wallet", f"{site.name}_wallet"
    site.execute(f"GRANT ALL ON event TO {role}, PUBLIC", database)
    site.execute(f"GRANT CONNECT ON DATABASE {database} TO PUBLIC")
    prepare(site.url(), site.admin, SERVICES)
    rights = site.execute(f"SELECT has_table_privilege('{role}', 'event', 'DELETE')", database)
    assert rights == [(False,)]
    allowed = site.execute(f"SELECT has_database_privilege('{site.name}_game', '{database}', 'CONNECT')")
    assert allowed == [(False,)]


def test_the_password_of_the_url_becomes_that_of_the_roles(site):
    prepare(site.url(password="a%20secret"), site.admin, SERVICES)
    of_services = f"rolname LIKE '{site.name}%' AND rolcanlogin"
    stored = site.execute(f"SELECT rolpassword FROM pg_authid WHERE {of_services}")
    assert len(stored) == 4
    assert all(password.startswith("SCRAM-SHA-256$") for (password,) in stored)


def test_text_is_compared_as_in_sqlite(site):
    prepare(site.url(), site.admin, SERVICES)
    ordered = "SELECT name FROM (VALUES ('b'), ('A'), ('a'), ('B'), ('é')) AS names (name) ORDER BY name"
    assert [name for (name,) in site.execute(ordered, f"{site.name}_game")] == ["A", "B", "a", "b", "é"]


def test_an_administrator_need_not_be_a_superuser(site):
    site.execute(f"CREATE ROLE {site.name}_zadmin LOGIN CREATEDB CREATEROLE")
    admin = sa.make_url(site.admin).set(username=f"{site.name}_zadmin").render_as_string(hide_password=False)
    prepare(site.url(), admin, SERVICES)
    prepare(site.url(), admin, SERVICES)
    check_migrated(site.open("wallet"), "wallet")
    for service in SERVICES:  # what the administrator made belongs to the owners, but he granted it
        site.execute(f"DROP DATABASE {site.name}_{service}")
        site.execute(f"DROP OWNED BY {site.name}_{service}, {site.name}_{service}_owner, {site.name}_reader")


def test_who_may_not_is_told(site):
    site.execute(f"CREATE ROLE {site.name}_nobody LOGIN")
    admin = sa.make_url(site.admin).set(username=f"{site.name}_nobody").render_as_string(hide_password=False)
    with pytest.raises(PreparationFailed, match="permission denied to create role"):
        prepare(site.url(), admin, SERVICES)


def test_a_role_that_may_too_much_is_not_taken(site):
    site.execute(f"CREATE ROLE {site.name}_wallet LOGIN CREATEDB")
    with pytest.raises(PreparationFailed, match=f"role {site.name}_wallet is there and may do more"):
        prepare(site.url(), site.admin, SERVICES)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://sabot@127.0.0.1/sabot", "a database and a role of its own"),
        ("postgresql://sabot@127.0.0.1/sabot_{service}", "a database and a role of its own"),
        ("postgresql://sabot_{service}@127.0.0.1/sabot", "a database and a role of its own"),
        ("postgresql://127.0.0.1/sabot_{service}", "must name"),
        ("postgresql://sabot_{service}@127.0.0.1", "must name"),
    ],
)
def test_a_url_that_does_not_tell_the_services_apart(postgres, url, words):
    with pytest.raises(PreparationFailed, match=words):
        prepare(url, postgres.admin, SERVICES)


@pytest.mark.parametrize("url", ["mysql://sabot_{service}@127.0.0.1/sabot_{service}", "sabot", ""])
def test_a_url_that_is_none(postgres, url):
    with pytest.raises(ValueError, match="write postgresql://"):
        prepare(url, postgres.admin, SERVICES)


def test_a_server_that_is_not_there(site):
    admin = "postgresql://postgres:geheim@127.0.0.1:1/postgres"
    with pytest.raises(DatabaseUnavailable, match=r"127\.0\.0\.1:1.*refused") as failed:
        prepare(site.url(), admin, SERVICES)
    assert "geheim" not in str(failed.value)


# ----------------------------------------------------------------------------------------------- at a start


def test_a_service_does_not_start_on_a_database_of_another_version(site):
    prepare(site.url(), site.admin, SERVICES)
    engine, database = site.open("wallet"), f"{site.name}_wallet"
    check_migrated(engine, "wallet")
    site.execute("UPDATE alembic_version SET version_num = 'wallet_0001'", database)
    with pytest.raises(NotPrepared, match="earlier version; run `sabot prepare`"):
        check_migrated(engine, "wallet")
    site.execute("UPDATE alembic_version SET version_num = 'wallet_9999'", database)
    with pytest.raises(NotPrepared, match="later version; run the program that made them"):
        check_migrated(engine, "wallet")
    site.execute("DROP TABLE alembic_version", database)
    with pytest.raises(NotPrepared, match="no tables yet; run `sabot prepare`"):
        check_migrated(engine, "wallet")


def test_a_database_that_was_never_prepared(site):
    with pytest.raises(DatabaseUnavailable, match=r"does not exist; run `sabot prepare`"):
        check_migrated(site.open("wallet"), "wallet")
