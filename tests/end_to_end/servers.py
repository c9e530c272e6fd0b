"""An installation on servers for a test: topics and databases of its own, looked at and tampered with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa

from schemas.envelope import DecodeError, Recorded, decode
from services.runtime.bus.kafka import KafkaBus
from services.runtime.bus.kafka.topics import create_topics
from services.runtime.installation import Installation
from services.runtime.ports import Delivery, Record
from services.runtime.topics import TOPICS
from tests.support.postgres import Databases

NOWHERE = Path("there-is-no-such-directory")
"""The data directory of an installation that keeps nothing in files."""

_numbers = count(1)


class Topics:
    """Topics of their own on a broker that others use, too."""

    def __init__(self, bootstrap: str) -> None:
        self.address = f"{bootstrap}/whole-{next(_numbers)}"
        create_topics(self.address)

    def records(self) -> list[Delivery]:
        """Everything on them."""
        with closing(KafkaBus(self.address)) as bus:
            return [record for topic in TOPICS for record in bus.read(topic)]

    def events(self) -> list[Recorded[Any]]:
        """Every event on them. Repeated records count once."""
        found: dict[tuple[str, int], Recorded[Any]] = {}
        for record in self.records():
            try:
                event = decode(record.body)
            except DecodeError:
                continue
            found.setdefault((event.stream, event.sequence), event)
        return list(found.values())

    def publish(self, records: Iterable[Delivery | Record]) -> None:
        """Put records there, whoever they are from."""
        with closing(KafkaBus(self.address)) as bus:
            bus.publish([Record(each.topic, each.key or "", each.body, each.signature) for each in records])


class Servers:
    """An installation: topics, and databases."""

    def __init__(self, topics: Topics, databases: Databases) -> None:
        self.topics, self._databases = topics, databases
        self.kafka, self.database = topics.address, databases.url
        self.prefix = databases.prefix
        """How the names of its databases begin."""

    @property
    def options(self) -> Sequence[str]:
        """What names it on a command line."""
        return ["--kafka", self.kafka, "--database", self.database]

    @property
    def as_reader(self) -> str:
        """Its databases' URL, in the name of who may only read."""
        return self.database.replace("{service}", "reader", 1)

    @property
    def where(self) -> Installation:
        return Installation(NOWHERE, self.kafka, self.database)

    def events(self) -> list[Recorded[Any]]:
        return self.topics.events()

    @contextmanager
    def tampered(self, service: str, table: str) -> Iterator[psycopg.Cursor[Any]]:
        """A table of a service's database in the hands of the superuser, whom no trigger stops.

        What he changes is there until the end, and then as it was.
        """
        admin = sa.make_url(self._databases.postgres.admin)
        url = admin.set(database=self.prefix + service).render_as_string(hide_password=False)
        with psycopg.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
            cursor.execute(f"CREATE TEMPORARY TABLE as_it_was AS TABLE {table}")
            try:
                yield cursor
            finally:
                cursor.execute(f"DELETE FROM {table}")
                cursor.execute(f"INSERT INTO {table} SELECT * FROM as_it_was")
                cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER ALL")
