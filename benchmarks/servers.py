"""A broker and a database server for measurements, on this machine, for as long as they take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

from deploy.kafka import available as kafka_lacks
from deploy.kafka import own
from deploy.postgres.server import Server
from deploy.postgres.server import available as postgres_lacks
from services.room.preparing import prepare_installation
from services.runtime.installation import Installation


class Servers:
    """Makes installations, each with topics and databases of its own."""

    def __init__(self, bootstrap: str, server: Server) -> None:
        self.bootstrap, self._server = bootstrap, server
        self._numbers = count(1)

    def installation(self, data: Path) -> Installation:
        """A new one, ready."""
        name = f"bench{next(self._numbers)}"
        database = f"postgresql://{name}_{{service}}@127.0.0.1:{self._server.port}/{name}_{{service}}"
        where = Installation(data, f"{self.bootstrap}/{name}", database)
        prepare_installation(where, self._server.url, lambda _: None)
        return where


def lacking() -> str | None:
    """What is missing on this machine, in words; None where both can be started."""
    return kafka_lacks() or postgres_lacks()


@contextmanager
def servers() -> Iterator[Servers]:
    """One broker, one database server."""
    with ExitStack() as stack:
        kafka = stack.enter_context(own())
        yield Servers(kafka.bootstrap, stack.enter_context(Server()))
