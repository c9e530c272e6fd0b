"""Databases: how they are opened, and brought up to date by each service's Alembic migrations."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event

from services.runtime.sqlite import BUSY_SECONDS, address_to_inspect, configure


def open_sqlite(path: Path, *, writer: bool) -> Engine:
    """An engine on a SQLite file: WAL and ``synchronous=FULL``.

    A writer's transactions take the lock when they begin, so that two writers meet at once and not at
    the commit. A reader's never block it.
    """
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        poolclass=NullPool,
        connect_args={"check_same_thread": False, "timeout": BUSY_SECONDS},
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: sqlite3.Connection, _: Any) -> None:
        connection.isolation_level = None  # the driver's own transaction handling is switched off
        configure(connection)
        connection.execute("PRAGMA foreign_keys=ON")
        if not writer:
            connection.execute("PRAGMA query_only=ON")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writer else "BEGIN")

    return engine


def open_sqlite_to_inspect(path: Path) -> Engine:
    """An engine that cannot write, not even a setting: for whoever checks files that may be evidence."""
    target = address_to_inspect(path)

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(target, uri=True, isolation_level=None, check_same_thread=False)

    return create_engine("sqlite://", creator=connect, poolclass=NullPool)


def migrate(engine: Engine, service: str, to: str = "head") -> None:
    """Bring the database of a service to a version, the newest, of ``services/<service>/migrations``."""
    config = Config()
    config.set_main_option("script_location", f"services.{service}:migrations")
    config.set_main_option("path_separator", "os")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, to)
