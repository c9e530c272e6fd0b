"""Who may do what in which database: every table and right, tried by the roles themselves."""

from collections.abc import Callable, Iterator
from contextlib import closing

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql
from sqlmodel import SQLModel

from services.runtime.ports import DatabaseUnavailable
from services.runtime.postgres import open_postgres
from services.runtime.tables import READ
from tests.support.postgres import SERVICES, Databases

Connect = Callable[..., psycopg.Connection]

ATTEMPTS = {
    "SELECT": "SELECT FROM {table} LIMIT 0",
    "INSERT": "INSERT INTO {table} SELECT * FROM {table} WHERE false",
    "UPDATE": "UPDATE {table} SET {column} = {column} WHERE false",
    "DELETE": "DELETE FROM {table} WHERE false",
    "TRUNCATE": "TRUNCATE {table}",
}


@pytest.fixture(scope="module")
def shared(postgres) -> Iterator[Databases]:
    databases = Databases(postgres)
    yield databases
    databases.close()


@pytest.fixture
def connect(shared: Databases) -> Iterator[Connect]:
    """Connects as a service, or as the ``reader``, to a service's database."""
    opened = []

    def connect(service: str, role: str | None = None) -> psycopg.Connection:
        connection = psycopg.connect(shared.url_of(service, role=role), autocommit=True)
        opened.append(connection)
        return connection

    yield connect
    for connection in opened:
        connection.close()


def tables_of(connection: psycopg.Connection) -> dict[str, list[str]]:
    """Every table of a database with its columns, whatever our own code knows of them."""
    rows = connection.execute(
        "SELECT relname, array_agg(attname::text ORDER BY attnum) FROM pg_class"
        " JOIN pg_attribute ON attrelid = pg_class.oid"
        " WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND attnum > 0 GROUP BY relname"
    ).fetchall()
    return dict(rows)


def may(connection: psycopg.Connection, right: str, table: str, column: str) -> bool:
    statement = sql.SQL(ATTEMPTS[right]).format(table=sql.Identifier(table), column=sql.Identifier(column))
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(statement)
    except psycopg.errors.InsufficientPrivilege:
        return False
    return True


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_may_do_what_it_needs_and_nothing_else(connect, service):
    connection, rights = connect(service), SERVICES[service].rights
    tables = tables_of(connection)
    assert set(tables) == set(rights)
    for table, columns in tables.items():
        for right in ("SELECT", "INSERT", "DELETE", "TRUNCATE"):
            assert may(connection, right, table, columns[0]) is (right in rights[table]), (table, right)
        some = [right for right in rights[table] if right.startswith("UPDATE (")]
        for column in columns:
            expected = "UPDATE" in rights[table] or any(column in right for right in some)
            assert may(connection, "UPDATE", table, column) is expected, (table, column)


@pytest.mark.parametrize("service", SERVICES)
def test_nobody_changes_what_was_written(connect, service):
    """Said once more without our own lists: the truth can only grow."""
    connection = connect(service)
    truths = ["event", "dead_letter"] + (["audit_evidence", "audit_stream"] if service == "audit" else [])
    for table in truths:
        assert may(connection, "INSERT", table, "")
        for right in ("UPDATE", "DELETE", "TRUNCATE"):
            for column in tables_of(connection)[table]:
                assert not may(connection, right, table, column)


@pytest.mark.parametrize("service", SERVICES)
def test_the_reader_reads_all_but_secrets_and_writes_nothing(connect, service):
    connection, secret = connect(service, "reader"), SERVICES[service].secret
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        connection.execute("CREATE TABLE mine (number integer)")
    connection.execute("SET default_transaction_read_only = off")
    tables = tables_of(connection)
    assert secret <= set(tables)
    for table, columns in tables.items():
        assert may(connection, "SELECT", table, columns[0]) is (table not in secret), table
        for right in ("INSERT", "UPDATE", "DELETE", "TRUNCATE"):
            assert not may(connection, right, table, columns[0]), (table, right)


def test_what_is_secret(shared):
    assert {service: set(access.secret) for service, access in SERVICES.items()} == {
        "game": {"game_undealt_seed", "game_undealt_cards"},
        "wallet": {"wallet_reference"},
        "audit": set(),
    }


def test_every_table_of_the_code_has_its_rights():
    """A new table is not forgotten: without rights its service could do nothing with it."""
    known = {table for access in SERVICES.values() for table in access.rights}
    assert set(SQLModel.metadata.tables) <= known
    assert known - set(SQLModel.metadata.tables) == {"alembic_version", "wallet_books"}
    assert all(access.rights["alembic_version"] == READ for access in SERVICES.values())


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("other", SERVICES)
def test_no_service_connects_to_anothers_database(shared, service, other):
    shared.url_of(service)
    engine = open_postgres(shared.url_of(other, role=service), writer=True, name="a stranger")
    if service == other:
        engine.connect().close()
    else:
        with pytest.raises(DatabaseUnavailable, match="permission denied for database"):
            engine.connect()


@pytest.mark.parametrize("role", [None, "reader"])
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE mine (number integer)",
        "CREATE TEMPORARY TABLE event (number integer)",
        "CREATE SCHEMA mine",
        "CREATE FUNCTION mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
        "SET ROLE sabot_wallet_owner",
        "SET session_replication_role = replica",
        "ALTER TABLE event DISABLE TRIGGER ALL",
        "DROP TRIGGER event_append_only ON event",
        "ALTER TABLE event OWNER TO CURRENT_USER",
        "DROP TABLE event",
        "GRANT SELECT ON event TO PUBLIC",
        "SELECT sabot_book('EUR', 1, 1)",
        "CREATE ROLE another",
        "CREATE DATABASE another",
        "COPY event TO PROGRAM 'cat'",
    ],
)
def test_nor_is_there_a_way_around(connect, role, statement):
    connection = connect("wallet", role)
    connection.execute("SET default_transaction_read_only = off")
    if statement.startswith("GRANT"):  # which is answered with a warning, and without effect
        connection.execute(statement)
        granted = connection.execute(
            "SELECT 1 FROM information_schema.table_privileges"
            " WHERE grantee = 'PUBLIC' AND table_name = 'event'"
        )
        assert granted.fetchall() == []
    else:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement)


def test_a_readers_engine_cannot_write_even_as_the_service(shared):
    reader = open_postgres(shared.url_of("wallet"), writer=False, name="reader")
    with reader.connect() as db, pytest.raises(sa.exc.DBAPIError, match="read-only transaction"):
        db.execute(sa.text("UPDATE outbox SET commits = commits"))


def test_the_roles_are_what_they_seem(shared):
    with closing(psycopg.connect(shared.postgres.admin)) as admin:
        rows = admin.execute(
            "SELECT rolname, rolcanlogin, rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication"
            " OR rolbypassrls FROM pg_roles WHERE rolname LIKE 'sabot\\_%'"
        ).fetchall()
    names = {f"sabot_{service}" for service in SERVICES}
    owners = {f"{name}_owner" for name in names}
    expected = {name: (name not in owners, False) for name in names | owners | {"sabot_reader"}}
    assert {name: (logs_in, mighty) for name, logs_in, mighty in rows if name in expected} == expected
