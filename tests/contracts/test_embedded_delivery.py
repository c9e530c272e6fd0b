"""Delivery over the embedded bus keeps the contract."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path

import pytest

from services.runtime.bus.embedded import EmbeddedBus
from services.runtime.ports import Bus, BusUnavailable, Record
from tests.contracts.delivery import DeliveryContract
from tests.contracts.test_embedded_bus import bus_file

PAGES_MAX = 0xFFFFFFFE


@contextmanager
def full_disk(clients: Sequence[EmbeddedBus]) -> Iterator[None]:
    """While it lasts there is no room in the file for even one more event."""
    connections = [each._connection for each in clients]
    for each in connections:
        pages = each.execute("PRAGMA page_count").fetchone()[0]
        each.execute(f"PRAGMA max_page_count = {pages}")
    with suppress(BusUnavailable):
        while True:
            clients[0].publish([Record("filler", "", b"x" * 100)])
    yield
    for each in connections:
        each.execute(f"PRAGMA max_page_count = {PAGES_MAX}")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """While it lasts somebody else is writing to the file and does not come to an end."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


class TestEmbeddedDelivery(DeliveryContract):
    @pytest.fixture
    def opened(self) -> list[EmbeddedBus]:
        return []

    @pytest.fixture
    def connect(self, tmp_path: Path, opened: list[EmbeddedBus]) -> Iterator[Callable[[], Bus]]:
        def another() -> EmbeddedBus:
            opened.append(EmbeddedBus(bus_file(tmp_path)))
            opened[-1]._connection.execute("PRAGMA busy_timeout = 20")  # not ten seconds, as in earnest
            return opened[-1]

        yield another
        for each in opened:
            each.close()

    @pytest.fixture(params=["a full disk", "a file that another holds"])
    def outage(
        self, request, tmp_path: Path, opened: list[EmbeddedBus]
    ) -> Callable[[], AbstractContextManager[object]]:
        """Nobody is kept from reading: a file does not go away from under those who have it open."""

        if request.param == "a full disk":
            return lambda: full_disk(opened)
        return lambda: locked(bus_file(tmp_path))

    def program_that_opens(self, tmp_path: Path) -> str:
        return (
            "from services.runtime.bus.embedded import EmbeddedBus\n"
            f"bus = EmbeddedBus(Path({str(bus_file(tmp_path))!r}))\n"
        )

    def wait_until_thrown_out(self, group: str) -> None:
        """Nobody is: this bus does not know who reads it."""
