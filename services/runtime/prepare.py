"""Making a PostgreSQL server ready: a database and a role for each service, with the rights that it needs.

An administrator does this once, and again after each upgrade; doing it again changes nothing that is so
already. The names follow from the URL that the services are given. For
``postgresql://sabot_{service}@HOST/sabot_{service}``:

- databases ``sabot_game``, ``sabot_wallet``, ``sabot_audit``, closed to everybody who is not named here;
- roles of the same names, as which the services work: they own nothing, and may do with each table what their
  ``Access`` says;
- roles ``sabot_game_owner``, …, as which nobody logs in: they own the tables, and migrations run as them;
- ``sabot_reader``, which may read everything but secrets, in all the databases: for `sabot verify`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import psycopg
import sqlalchemy as sa
from psycopg import sql

from services.runtime.database import migrate
from services.runtime.ports import DatabaseUnavailable
from services.runtime.postgres import (
    CONNECT_SECONDS,
    address,
    in_words,
    open_as_owner,
    url_of,
)
from services.runtime.tables import Access

_NAME: Final = "sabot prepare"
_LOCK: Final = 0x5AB07
"""Two who prepare the same server at the same time take turns."""
_OLDEST: Final = 150_000
READER: Final = "reader"
"""What stands in a role's name where a service's would."""

Say = Callable[[str], None]
"""Told in words of everything that was made or found."""


class PreparationFailed(Exception):
    """What keeps a server from being made ready, in words."""


@dataclass(frozen=True, slots=True)
class Place:
    """The database of one service, and who has to do with it."""

    service: str
    database: str
    role: str
    password: str | None

    @property
    def owner(self) -> str:
        """Owner of the database and of its tables."""
        return f"{self.role}_owner"


def prepare(
    database: str,
    admin: str,
    services: Mapping[str, Access],
    say: Say | None = None,
    passwords: Mapping[str, str] | None = None,
) -> list[str]:
    """Make the server behind ``admin`` ready for the services at ``database``. Returns what was done.

    ``admin`` is the URL of a role that may make databases and roles; ``database`` that of the services' own
    databases, with ``{service}`` in it. A password in it becomes that of the roles, except of those that
    ``passwords`` gives one of their own, by service or ``reader``. ``say`` is told of each step when it is
    done.

    Raises:
        PreparationFailed: a name or a role that cannot be, or a refusal of the server's.
        DatabaseUnavailable: the server cannot be reached.
        ValueError: one of the URLs is none.
    """
    done: list[str] = []

    def note(words: str) -> None:
        done.append(words)
        if say is not None:
            say(words)

    places, reader = places_of(database, services, passwords)
    with _administrator(admin) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
        if connection.info.server_version < _OLDEST:
            raise PreparationFailed(f"{in_words(address(admin))} is older than PostgreSQL 15")
        note(_make_role(connection, reader.role, reader.password))
        connection.execute(_with(_READ_ONLY, role=reader.role))
        for place in places:
            note(_make_role(connection, place.role, place.password))
            note(_make_owner(connection, place.owner))
            note(_make_database(connection, place.database, place.owner))
            close_to_others(connection, place, reader.role)
            url = address(admin).set(database=place.database).render_as_string(hide_password=False)
            note(_make_tables(url, place, reader.role, services[place.service]))
    return done


def places_of(
    database: str, services: Mapping[str, Access], passwords: Mapping[str, str] | None = None
) -> tuple[list[Place], Place]:
    """The places that a URL with ``{service}`` in it names; and the reader's, who is of no service.

    Raises:
        PreparationFailed: two services would share a database or a role.
    """
    *places, reader = (
        _place(database, service, (passwords or {}).get(service)) for service in (*services, READER)
    )
    for names in ([each.database for each in places], [each.role for each in (*places, reader)]):
        if len(set(names)) < len(names):
            raise PreparationFailed(
                "each service needs a database and a role of its own: write {service} in both their names, "
                "as in postgresql://sabot_{service}@HOST:5432/sabot_{service}"
            )
    return places, reader


def close_to_others(connection: psycopg.Connection[Any], place: Place, reader: str) -> None:
    """Let nobody connect to a database but its service and the reader."""
    connection.execute(_with(_CLOSE, database=place.database, owner=place.owner))
    connection.execute(_with(_OPEN, database=place.database, role=place.role, reader=reader))


_READ_ONLY: Final = "ALTER ROLE {role} SET default_transaction_read_only = on"
_CLOSE: Final = "REVOKE ALL ON DATABASE {database} FROM PUBLIC"
_OPEN: Final = "GRANT CONNECT ON DATABASE {database} TO {role}, {reader}"
_DATABASE: Final = (
    # Text is compared by its bytes, as in SQLite, whatever the server's language is.
    "CREATE DATABASE {database} OWNER {owner} TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'"
)
_PUBLIC: Final = (
    "REVOKE ALL ON SCHEMA public FROM PUBLIC",
    "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM PUBLIC, {role}, {reader}",
    "REVOKE ALL ON ALL SEQUENCES IN SCHEMA public FROM PUBLIC, {role}, {reader}",
    "GRANT USAGE ON SCHEMA public TO {role}, {reader}",
    "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}",
)


@contextmanager
def _administrator(admin: str) -> Iterator[psycopg.Connection[Any]]:
    url = address(admin)
    try:
        connection = psycopg.connect(
            url.set(drivername="postgresql").render_as_string(hide_password=False),
            autocommit=True,  # a database cannot be made inside a transaction
            application_name=_NAME,
            connect_timeout=CONNECT_SECONDS,
        )
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(f"{in_words(url)}: {_brief(error)}") from error
    with connection:
        try:
            yield connection
        except psycopg.Error as error:
            raise PreparationFailed(f"{in_words(url)}: {_brief(error)}") from error
        except sa.exc.DBAPIError as error:
            raise PreparationFailed(f"{in_words(url)}: {_brief(error.orig)}") from error


def _place(database: str, service: str, password: str | None) -> Place:
    url = address(url_of(database, service))
    if not url.database or not url.username:
        raise PreparationFailed(
            "the services' URL must name their databases and roles, "
            "as in postgresql://sabot_{service}@HOST:5432/sabot_{service}"
        )
    return Place(service, url.database, url.username, password or url.password)


def _make_role(connection: psycopg.Connection[Any], role: str, password: str | None) -> str:
    row = connection.execute(
        "SELECT rolsuper OR rolcreatedb OR rolcreaterole OR rolbypassrls OR rolreplication"
        " FROM pg_roles WHERE rolname = %s",
        [role],
    ).fetchone()
    if row is not None and row[0]:
        raise PreparationFailed(
            f"role {role} is there and may do more than a service should (superuser, databases, roles): "
            "take that from it, or name another"
        )
    if row is None:
        connection.execute(_with("CREATE ROLE {role} LOGIN", role=role))
    if password is not None:
        # As a verifier and not as it is, so that no log of the server's ever has it.
        verifier = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256")
        connection.execute(_with("ALTER ROLE {role} PASSWORD ", role=role) + sql.Literal(verifier.decode()))
    return _said("role", role, row is None)


def _make_owner(connection: psycopg.Connection[Any], owner: str) -> str:
    found = connection.execute("SELECT rolcanlogin FROM pg_roles WHERE rolname = %s", [owner]).fetchone()
    if found is None:
        connection.execute(_with("CREATE ROLE {owner} NOLOGIN", owner=owner))
    member = connection.execute("SELECT pg_has_role(current_user, %s, 'MEMBER')", [owner]).fetchone()
    if member == (False,):  # an administrator who is no superuser must belong to it to act as it
        connection.execute(_with("GRANT {owner} TO CURRENT_USER", owner=owner))
    return _said("role", owner, found is None)


def _make_database(connection: psycopg.Connection[Any], database: str, owner: str) -> str:
    found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [database]).fetchone()
    if found is None:
        connection.execute(_with(_DATABASE, database=database, owner=owner))
    return _said("database", database, found is None)


def _make_tables(url: str, place: Place, reader: str, access: Access) -> str:
    engine = open_as_owner(url, place.owner, name=_NAME)
    migrate(engine, place.service)
    with engine.begin() as db:
        cursor = db.connection.driver_connection
        assert isinstance(cursor, psycopg.Connection)
        for statement in _PUBLIC:
            cursor.execute(_with(statement, role=place.role, reader=reader))
        for table, rights in access.rights.items():
            granting = sql.SQL("GRANT {} ON {{table}} TO {{role}}".format(", ".join(rights)))
            cursor.execute(granting.format(table=sql.Identifier(table), role=sql.Identifier(place.role)))
            if table not in access.secret:
                cursor.execute(_with("GRANT SELECT ON {table} TO {reader}", table=table, reader=reader))
        version = db.scalar(sa.text("SELECT version_num FROM alembic_version"))
    return f"tables of {place.service}: at version {version}, with the rights of {place.role} and {reader}"


def _said(kind: str, name: str, made: bool) -> str:
    return f"{kind} {name}: {'made' if made else 'there already'}"


def _with(statement: str, **names: str) -> sql.Composed:
    """A statement with names in it, quoted as they must be."""
    return sql.SQL(statement).format(**{place: sql.Identifier(name) for place, name in names.items()})


def _brief(error: BaseException | None) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
