"""The embedded bus keeps the contract, and some promises of its own."""

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from services.runtime.bus.embedded import EmbeddedBus
from services.runtime.ports import Bus, BusUnavailable, Record
from tests.contracts.bus import ROOT, BusContract, records, take
from tests.contracts.streams import bodies


def bus_file(tmp_path: Path) -> Path:
    return tmp_path / "bus.db"


@contextmanager
def full_disk(bus: EmbeddedBus) -> Iterator[None]:
    """While it lasts the file may not grow: SQLite fails as it does on a full disk, in mid-batch."""
    pages = bus._connection.execute("PRAGMA page_count").fetchone()[0]
    unlimited = bus._connection.execute("PRAGMA max_page_count").fetchone()[0]
    bus._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    yield
    bus._connection.execute(f"PRAGMA max_page_count = {unlimited}")


class TestEmbeddedBus(BusContract):
    @pytest.fixture
    def connect(self, tmp_path: Path) -> Iterator[Callable[[], Bus]]:
        opened: list[EmbeddedBus] = []

        def another() -> EmbeddedBus:
            opened.append(EmbeddedBus(bus_file(tmp_path)))
            return opened[-1]

        yield another
        for each in opened:
            each.close()

    def program_that_opens(self, tmp_path: Path) -> str:
        return (
            "from pathlib import Path\n"
            "from services.runtime.bus.embedded import EmbeddedBus\n"
            f"bus = EmbeddedBus(Path({str(bus_file(tmp_path))!r}))\n"
        )

    def unavailable(self, bus):
        return full_disk(bus)

    def test_a_batch_that_does_not_fit_is_not_half_published(self, bus, connect, topic):
        bus.publish(records(topic, "main", 2))
        with full_disk(bus), pytest.raises(BusUnavailable, match="does not take records"):
            bus.publish([*records(topic, "main", 3, first=2), Record(topic, "main", b"x" * 1_000_000)])
        assert bodies(list(bus.read(topic))) == bodies(records(topic, "main", 2))
        bus.publish(records(topic, "main", 3, first=2))
        assert bodies(list(connect().read(topic))) == bodies(records(topic, "main", 5))

    def test_a_batch_of_which_one_record_is_not_taken_is_not_half_published(self, bus, topic, tmp_path):
        """A fault that leaves the transaction open, unlike a full disk."""
        with closing(sqlite3.connect(bus_file(tmp_path))) as other:
            other.execute(
                "CREATE TRIGGER refuse BEFORE INSERT ON record WHEN NEW.body = x'00' "
                "BEGIN SELECT RAISE(ABORT, 'not this one'); END"
            )
        with pytest.raises(BusUnavailable, match="not this one"):
            bus.publish([*records(topic, "main", 2), Record(topic, "main", b"\0")])
        assert list(bus.read(topic)) == []
        bus.publish(records(topic, "main", 1))
        assert bodies(list(bus.read(topic))) == [b"main#0"]

    def test_who_waits_for_another_writer_is_served_when_that_one_is_done(self, bus, topic, tmp_path):
        other = sqlite3.connect(bus_file(tmp_path), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        bus._connection.execute("PRAGMA busy_timeout = 50")
        with pytest.raises(BusUnavailable, match="locked"):
            bus.publish(records(topic, "main", 1))
        other.execute("ROLLBACK")
        other.close()
        bus.publish(records(topic, "main", 1))
        assert bodies(list(bus.read(topic))) == [b"main#0"]

    def test_a_new_file_that_another_is_just_making_is_waited_for(self, topic, tmp_path):
        other = sqlite3.connect(bus_file(tmp_path), isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        later = threading.Timer(0.3, other.execute, ["COMMIT"])
        later.start()
        bus = EmbeddedBus(bus_file(tmp_path))
        bus.publish(records(topic, "main", 1))
        bus.close()
        later.join()
        other.close()

    def test_several_processes_may_make_the_file_at_once(self, connect, topic, tmp_path):
        program = (
            "import sys\n"
            "from services.runtime.ports import Record\n"
            "from services.runtime.bus.embedded import EmbeddedBus\n"
            "print('ready', flush=True)\n"
            "sys.stdin.readline()\n"
            f"{self.program_that_opens(tmp_path)}\n"
            f"bus.publish([Record({topic!r}, sys.argv[1], b'here')])\n"
            "bus.close()\n"
        )
        children = [
            subprocess.Popen(
                [sys.executable, "-c", program, f"game/op.T{number}"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for number in range(6)
        ]
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
        for child in children:
            assert child.stdin is not None
            child.stdin.write(b"\n")
            child.stdin.flush()
        ended = [(child.communicate(timeout=60)[1], child.returncode) for child in children]
        assert ended == [(b"", 0)] * 6
        assert len(list(connect().read(topic))) == 6

    def test_a_reader_that_may_not_write_reads_and_does_not_write(self, bus, topic, tmp_path):
        bus.publish(records(topic, "main", 3))
        reader = EmbeddedBus(bus_file(tmp_path), read_only=True)
        try:
            assert bodies(list(reader.read(topic))) == bodies(records(topic, "main", 3))
            with pytest.raises(BusUnavailable):
                reader.publish(records(topic, "main", 1))
        finally:
            reader.close()

    def test_a_file_that_is_not_there_is_not_made_by_a_reader(self, tmp_path):
        with pytest.raises(sqlite3.OperationalError):
            EmbeddedBus(tmp_path / "none.db", read_only=True)
        assert not (tmp_path / "none.db").exists()

    @pytest.mark.parametrize("name", ["what?.db", "a#b.db", "100%25.db", "two words.db"])
    def test_a_path_may_have_any_name(self, tmp_path, topic, name):
        bus = EmbeddedBus(tmp_path / name)
        bus.publish(records(topic, "main", 1))
        bus.close()
        reader = EmbeddedBus(tmp_path / name, read_only=True)
        assert bodies(list(reader.read(topic))) == [b"main#0"]
        reader.close()
        assert (tmp_path / name).exists()

    def test_a_body_that_a_tool_turned_into_text_is_still_its_bytes(self, bus, subscribe, topic):
        bus.publish([Record(topic, "main", "§ 5".encode())])
        bus._connection.execute("UPDATE record SET body = CAST(body AS TEXT)")
        assert bodies(take(subscribe(topic), 1)) == ["§ 5".encode()]

    def test_published_means_written_to_the_disk(self, bus):
        assert bus._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert bus._connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
