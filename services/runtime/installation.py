"""An installation: where its events are kept and how they travel.

On one machine that is a directory, with a SQLite file for each service and an embedded bus. Elsewhere the bus
is Apache Kafka, and each service has a PostgreSQL database. Either can be chosen without the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from sqlalchemy import Connection, Engine

from services.runtime.bus.address import AddressError, parse_address
from services.runtime.bus.embedded import EmbeddedBus
from services.runtime.database import migrate, open_sqlite
from services.runtime.files import BUS_DATABASE, database_of
from services.runtime.ports import Bus

_WRITERS: Final = sa.text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = :name"
)


class InstallationError(ValueError):
    """An address that cannot be, in words."""


_SERVICES: Final = ("game", "wallet", "audit")


@dataclass(frozen=True)
class Installation:
    """What every service of an installation is told.

    Raises:
        InstallationError: an address is none.
    """

    data: Path
    """Directory of what is kept in files."""
    kafka: str | None = None
    """Address of the brokers (``services.runtime.bus.address``); None: the embedded bus in ``data``."""
    database: str | None = None
    """URL of the PostgreSQL databases, with ``{service}`` in it; None: SQLite files in ``data``."""

    def __post_init__(self) -> None:
        if self.kafka is not None:
            try:
                parse_address(self.kafka)
            except AddressError as error:
                raise InstallationError(f"kafka: {error}") from error
        if self.database is not None and not self.database.startswith(("postgresql://", "postgres://")):
            raise InstallationError(
                f"database: {self.database.partition('://')[0]!r} is not PostgreSQL; "
                "write postgresql://sabot_{service}@HOST:5432/sabot_{service}"
            )

    def open_bus(self) -> Bus:
        """The bus. It may not be reachable yet; who uses it is told."""
        if self.kafka is None:
            self.data.mkdir(parents=True, exist_ok=True)
            return EmbeddedBus(self.data / BUS_DATABASE)
        # Loaded where it is needed: nobody else should wait for two client libraries.
        from services.runtime.bus.kafka import KafkaBus

        return KafkaBus(self.kafka)

    def open_database(self, service: str) -> Engine:
        """The database of a service, for its writer. A file is made and migrated as needed.

        Raises:
            DatabaseUnavailable: PostgreSQL cannot be reached, or was not prepared.
        """
        if self.database is None:
            self.data.mkdir(parents=True, exist_ok=True)
            engine = open_sqlite(self.data / database_of(service), writer=True)
            migrate(engine, service)
            return engine
        from services.runtime.postgres import check_migrated, open_postgres, url_of

        engine = open_postgres(url_of(self.database, service), writer=True, name=writer_name(service))
        check_migrated(engine, service)
        return engine

    def at_work(self) -> Sequence[str]:
        """Which services are at work on their PostgreSQL databases at this moment.

        Raises:
            DatabaseUnavailable: PostgreSQL cannot be reached.
        """
        return [] if self.database is None else [each for each in _SERVICES if self._has_writer(each)]

    def _has_writer(self, service: str) -> bool:
        engine = self.open_reader(service)
        try:
            with engine.connect() as db:
                return is_written(db, service)
        finally:
            engine.dispose()

    def open_reader(self, service: str) -> Engine:
        """The database of a service, for questions."""
        if self.database is None:
            return open_sqlite(self.data / database_of(service), writer=False)
        from services.runtime.postgres import open_postgres, url_of

        return open_postgres(url_of(self.database, service), writer=False, name=f"sabot-{service}-reader")


def is_written(db: Connection, service: str) -> bool:
    """Whether a writer of the service has a session on this PostgreSQL database."""
    return bool(db.scalar(_WRITERS, {"name": writer_name(service)}))


def writer_name(service: str) -> str:
    """What a writer calls itself to the database server."""
    return f"sabot-{service}"
