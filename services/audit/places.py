"""Where the events of an installation lie, opened for somebody who looks and never touches.

A directory has all three places in files. Otherwise the bus is copied from Kafka first (``snapshot``), and
the stores and audit's record are PostgreSQL databases, or are not looked at: the topics alone tell the whole
story too, and only what was changed at their very end cannot be seen then.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Connection

from services.audit.snapshot import snapshot
from services.runtime.bus.embedded import EmbeddedBus
from services.runtime.database import open_sqlite_to_inspect
from services.runtime.files import BUS_DATABASE, DATABASES, SERVICES, database_of
from services.runtime.installation import Installation, is_written
from services.runtime.sqlite import is_in_use
from services.runtime.store import is_all_published, read_heads
from services.runtime.topics import TOPICS


class NothingToVerify(ValueError):
    """An installation that is not there, or lacks a part."""


@dataclass
class Places:
    """The bus, and the databases that are looked at."""

    bus: EmbeddedBus
    bus_name: str
    stores: Mapping[str, Connection]
    """A connection for each service, or none at all. Each sees one moment, audit's the first: where services
    are at work meanwhile, a place then has all that audit had seen of it."""
    names: Mapping[str, str]
    """What each service's database is called, to say which one is damaged."""
    at_work: bool
    """Whether services may be writing at this moment, or were cut off."""


@contextmanager
def open_places(where: Installation, copied: Callable[[int], None] | None = None) -> Iterator[Places]:
    """The places of an installation. ``copied`` is told how many records were copied from Kafka so far.

    Raises:
        NothingToVerify: it is not there, or lacks a part.
        BusUnavailable, DatabaseUnavailable: it cannot be reached.
    """
    with ExitStack() as stack:
        if where.kafka is None and where.database is None:
            yield _files(stack, where.data)
        elif where.kafka is None:
            raise NothingToVerify("the databases are in PostgreSQL; say with --kafka where the bus is")
        elif where.database is None:
            yield Places(_copy(stack, where, copied), f"Kafka at {where.kafka}", {}, {}, at_work=False)
        else:
            yield _servers(stack, where, copied)


def _files(stack: ExitStack, data: Path) -> Places:
    missing = [name for name in DATABASES if not (data / name).is_file()]
    if len(missing) == len(DATABASES):
        raise NothingToVerify(f"{data} has no {missing[0]}: run 'sabot demo' or 'sabot ingest' there first")
    if missing:
        lost = f"{data} has lost {' and '.join(missing)}, and has the other databases"
        raise NothingToVerify(f"{lost}: without all of them nothing can be compared")
    at_work = any(is_in_use(data / name) for name in DATABASES)
    stores = {"audit": _file(stack, data / database_of("audit"))}
    bus = EmbeddedBus(data / BUS_DATABASE, read_only=True)
    stack.callback(bus.close)
    with suppress(sqlite3.DatabaseError):
        bus.hold_still()
    stores |= {producer: _file(stack, data / database_of(producer)) for producer in ("wallet", "game")}
    names = {service: database_of(service) for service in SERVICES}
    return Places(bus, BUS_DATABASE, stores, names, at_work)


def _file(stack: ExitStack, path: Path) -> Connection:
    """A connection that sees one moment. A file that cannot be read is named by who reads it first."""
    connection = stack.enter_context(open_sqlite_to_inspect(path).connect())
    with suppress(sa.exc.DatabaseError):
        connection.exec_driver_sql("BEGIN")
        connection.exec_driver_sql("SELECT count(*) FROM sqlite_master")
    return connection


def _servers(stack: ExitStack, where: Installation, copied: Callable[[int], None] | None) -> Places:
    stores = {"audit": _server(stack, where, "audit")}
    bus = _copy(stack, where, copied)
    stores |= {producer: _server(stack, where, producer) for producer in ("wallet", "game")}
    names = {service: f"{service}'s database" for service in SERVICES}
    at_work = any(
        is_written(connection, service) or not is_all_published(connection)
        for service, connection in stores.items()
    )
    return Places(bus, f"Kafka at {where.kafka}", stores, names, at_work)


def _server(stack: ExitStack, where: Installation, service: str) -> Connection:
    """A connection that sees one moment."""
    from services.runtime.postgres import check_migrated  # noqa: PLC0415 - files can be verified without

    engine = where.open_reader(service)
    stack.callback(engine.dispose)
    try:
        check_migrated(engine, service)
        connection = engine.connect().execution_options(isolation_level="REPEATABLE READ")
        stack.enter_context(connection)
        read_heads(connection)  # the moment is that of the first question
    except sa.exc.DBAPIError as error:
        reason = str(error.orig).splitlines()[0]
        raise NothingToVerify(f"{service}'s database cannot be read: {reason}") from error
    return connection


def _copy(stack: ExitStack, where: Installation, copied: Callable[[int], None] | None) -> EmbeddedBus:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sabot-verify-")))
    source = stack.enter_context(closing(where.open_bus()))
    copy = snapshot(source, TOPICS, folder, copied, is_all_there_is=where.database is None)
    return stack.enter_context(closing(copy))
