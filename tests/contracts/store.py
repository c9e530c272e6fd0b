"""What the event store must do on every database. Its tests inherit the suite and say how it is opened."""

import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import Engine

from schemas.envelope import FIRST_PREVIOUS, decode, hash_of
from schemas.refusal import Refusal
from services.runtime.store import (
    EventStore,
    SecondWriter,
    Stored,
    StreamHead,
    read_all,
    read_heads,
    read_stream,
)
from services.runtime.tables import EventRow, table_of
from services.runtime.writer import WriterStopped
from tests.contracts.bus import ROOT
from tests.contracts.streams import Seats
from tests.services.guests import GUEST, Guests, names_in, open_bus, open_engine, open_guests, work

KILLED = -9

CHILD = """
import os, signal, sys
from pathlib import Path
import sqlalchemy as sa
from tests.services.guests import open_bus, open_guests
{opens}
folder, point = sys.argv[1:]

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

bus = open_bus(Path(folder))
writer = open_guests(engine, bus)
publish = bus.publish
if point == "before the commit":
    sa.event.listen(engine, "commit", die)
elif point == "before publishing":
    bus.publish = die
elif point == "before the mark":
    bus.publish = lambda records: (publish(records), die())
writer.submit("Ann")
writer.submit("Bea")
writer.step()
"""


@dataclass(frozen=True)
class Unsteady:
    """A database whose connection can be made to break at the next commit."""

    engine: Engine
    break_next: Callable[[], None]
    committed: bool
    """Whether that commit happens all the same."""
    error: type[Exception] | tuple[type[Exception], ...]
    """What the writer meets."""


class StoreContract(ABC):
    """The promises of ``services.runtime.store`` and of the writer's transaction."""

    @pytest.fixture
    @abstractmethod
    def connect(self, tmp_path: Path) -> Callable[[], Engine]:
        """Opens another writer's engine on the one database of this test, migrated."""

    @pytest.fixture
    @abstractmethod
    def program(self, tmp_path: Path) -> str:
        """Python that binds ``engine`` to the same database in another process."""

    @pytest.fixture
    @abstractmethod
    def unsteady(self, connect) -> Unsteady:
        """The same database on a connection that breaks, in every way in which it can (parametrised)."""

    @pytest.fixture
    def engine(self, connect) -> Engine:
        return connect()

    @pytest.fixture
    def store(self, engine) -> Iterator[EventStore]:
        with closing(EventStore(engine)) as store:
            yield store

    @pytest.fixture
    def bus(self, tmp_path):
        with closing(open_bus(tmp_path)) as bus:
            yield bus

    # ------------------------------------------------------------------------------------- the store alone

    def test_events_come_back_as_they_were_written(self, store, engine):
        one, two = Seats("T1"), Seats("T2")
        one.sit(2), two.sit(1), one.sit(1)
        mixed = [one.events[0], two.events[0], one.events[1], one.events[2]]
        with store.transaction() as db:
            store.append(db, mixed[:3])
        with store.transaction() as db:
            store.append(db, mixed[3:])
        with engine.connect() as db, db.begin():
            assert list(read_all(db)) == [
                Stored(position, event.stream, event.body) for position, event in enumerate(mixed, start=1)
            ]
            assert list(read_all(db, after=3)) == [Stored(4, one.name, one.events[2].body)]
            assert list(read_stream(db, one.name)) == [(n, one.events[n - 1].body) for n in (1, 2, 3)]
            assert list(read_stream(db, one.name, first=3)) == [(3, one.events[2].body)]
            assert list(read_stream(db, "game/op.T3")) == []
            assert read_heads(db) == [
                StreamHead("game/op.T1", 3, one.events[2].hash),
                StreamHead("game/op.T2", 1, two.events[0].hash),
            ]

    def test_an_exception_inside_the_transaction_leaves_nothing(self, connect, engine):
        seats = Seats()
        seats.sit(3)
        with closing(EventStore(engine)) as store:
            with store.transaction() as db:
                GUEST.create(db, checkfirst=True)
                store.append(db, seats.events[:1])

            def write_half() -> None:
                with store.transaction() as db:
                    store.append(db, seats.events[1:])
                    db.execute(sa.insert(GUEST), {"name": "half"})
                    store.mark_published(db, 3)
                    raise RuntimeError("in the middle")

            with pytest.raises(RuntimeError, match="in the middle"):
                write_half()
        assert names_in(connect()) == set()
        with closing(EventStore(connect())) as store:
            assert (store.position, store.published) == (1, 0)
            assert store.head(seats.name) == (1, seats.events[0].hash)
            with store.transaction() as db:
                assert store.append(db, seats.events[1:])[-1].position == 3

    def test_heads_and_positions_are_known_after_opening_again(self, connect):
        one, two = Seats("T1"), Seats("T2")
        one.sit(3), two.sit(2)
        with closing(EventStore(connect())) as store:
            assert (store.position, store.published) == (0, 0)
            assert store.head(one.name) == (0, FIRST_PREVIOUS)
            with store.transaction() as db:
                store.append(db, one.events + two.events)
                store.mark_published(db, 4)
        with closing(EventStore(connect())) as store:
            assert (store.position, store.published) == (5, 4)
            assert store.head(one.name) == (3, one.events[2].hash)
            assert store.head(two.name) == (2, two.events[1].hash)
            assert store.head("game/op.T3") == (0, FIRST_PREVIOUS)
            assert store.unpublished(store.published, 10) == [Stored(5, two.name, two.events[1].body)]
            assert [each.position for each in store.unpublished(0, 2)] == [1, 2]

    def test_the_database_itself_has_one_place_for_each_sequence(self, store):
        seats = Seats()
        seats.sit(1)
        with store.transaction() as db:
            store.append(db, seats.events)
        row = {"position": 99, "stream_id": 1, "sequence": 1, "body": b"another"}
        with pytest.raises(sa.exc.IntegrityError), store.transaction() as db:
            db.execute(sa.insert(table_of(EventRow)), row)

    def test_a_second_store_is_fenced_whichever_stream_it_writes(self, connect):
        mine, yours = Seats("T1"), Seats("T2")
        mine.sit(1), yours.sit(2)
        with closing(EventStore(connect())) as first, closing(EventStore(connect())) as second:
            with first.transaction() as db:
                first.append(db, mine.events)
            with pytest.raises(SecondWriter), second.transaction() as db:
                second.append(db, yours.events)
            with first.transaction() as db:
                assert first.append(db, yours.events)[-1].position == 3

    def test_a_second_store_waits_for_the_first_and_then_finds_itself_fenced(self, connect):
        mine, yours = Seats("T1"), Seats("T2")
        mine.sit(1), yours.sit(1)
        with (
            closing(EventStore(connect())) as first,
            closing(EventStore(connect())) as second,
            ThreadPoolExecutor(1) as elsewhere,
        ):
            for store in (first, second):
                with store.transaction():
                    pass  # loads its state

            def write() -> None:
                with second.transaction() as db:
                    second.append(db, yours.events)

            with first.transaction() as db:
                first.append(db, mine.events)
                waiting = elsewhere.submit(write)
                assert not wait([waiting], timeout=0.2).done
            assert isinstance(waiting.exception(), SecondWriter)
            with first.transaction() as db:
                assert first.append(db, yours.events)[-1].position == 2

    def test_who_opens_a_store_waits_for_what_is_under_way_and_sees_it(self, connect):
        seats = Seats("T1")
        seats.sit(1)
        with closing(EventStore(connect())) as first, ThreadPoolExecutor(1) as elsewhere:
            with first.transaction() as db:
                first.append(db, seats.events)
                opening = elsewhere.submit(lambda: EventStore(connect()))
                assert not wait([opening], timeout=0.2).done
            with closing(opening.result()) as second:
                assert second.head(seats.name) == (1, seats.events[0].hash)
                with second.transaction() as db:
                    seats.sit(1)
                    second.append(db, seats.events[1:])

    def test_to_open_a_store_fences_nobody(self, connect):
        seats = Seats()
        seats.sit(2)
        with closing(EventStore(connect())) as store:
            with store.transaction() as db:
                store.append(db, seats.events[:1])
            with closing(EventStore(connect())) as other, other.transaction():
                pass
            with store.transaction() as db:
                store.append(db, seats.events[1:])

    # ------------------------------------------------------------------------------- a connection that breaks

    def test_money_case_4_a_connection_that_breaks_at_a_commit_loses_nothing_and_repeats_nothing(
        self, unsteady, connect, bus
    ):
        """Whatever became of the commit: the writer stops and says that it does not know, the next one reads
        what is there, and who asks again under the same id gets one effect."""
        seats = Seats()
        writer = open_guests(unsteady.engine, bus)
        writer.submit("Ann")
        work(writer)
        bus.publish(seats.sit(2))
        bea = writer.submit("Bea")
        unsteady.break_next()
        with pytest.raises(WriterStopped) as stopped:
            work(writer)
        assert isinstance(stopped.value.__cause__, unsteady.error)
        assert (_refusal(bea).code, "the outcome is unknown" in str(_refusal(bea))) == ("TEMPORARY", True)
        assert _refusal(writer.submit("Bea")).code == "TEMPORARY"
        with pytest.raises(WriterStopped):
            writer.step()
        writer.close()

        new = open_guests(connect(), bus)
        seated = {"T1-seat-1", "T1-seat-2"}
        assert names_in(connect()) == {"Ann"} | ({"Bea", *seated} if unsteady.committed else set())
        again = new.submit("Bea")
        bus.publish(seats.sit(1))
        work(new)
        new.close()
        assert len(again.result(0)) == (0 if unsteady.committed else 1)
        everybody = {"Ann", "Bea", *seated, "T1-seat-3"}
        assert names_in(connect()) == everybody
        published = {event.envelope.id: event.data.account for event in _events_on(bus)}
        assert sorted(published.values()) == sorted(everybody)
        assert set(published) == {f"wallet/guests/{number}" for number in range(1, 6)}
        with connect().connect() as db, db.begin():
            bodies = [body for _, body in read_stream(db, "wallet/guests")]
        assert [decode(body).envelope.previous for body in bodies[1:]] == [
            hash_of(each) for each in bodies[:-1]
        ]

    def test_a_writer_whose_connection_broke_can_be_closed_and_leaves_nothing_locked(
        self, unsteady, connect, bus
    ):
        writer = open_guests(unsteady.engine, bus)
        writer.submit("Ann")
        unsteady.break_next()
        with pytest.raises(WriterStopped):
            writer.step()
        # Not closed yet: it may be hanging somewhere while its successor is at work.
        new = open_guests(connect(), bus)
        new.submit("Bea")
        work(new)
        new.close()
        writer.close()
        assert names_in(connect()) == {"Bea"} | ({"Ann"} if unsteady.committed else set())

    # ------------------------------------------------------------------------------------------ two writers

    def test_of_two_writers_one_stops_and_the_other_goes_on(self, connect, bus):
        first, second = open_guests(connect(), bus), open_guests(connect(), bus)
        ann, bea = first.submit("Ann"), second.submit("Bea")
        first.step()
        with pytest.raises(WriterStopped) as stopped:
            second.step()
        assert isinstance(stopped.value.__cause__, SecondWriter)
        assert ann.result(0) == ["wallet/guests/1"]
        assert _refusal(bea).code == "TEMPORARY"
        assert _refusal(second.submit("Bea")).code == "TEMPORARY"
        with pytest.raises(WriterStopped):
            second.step()
        bea = first.submit("Bea")
        work(first)
        assert bea.result(0) == ["wallet/guests/2"]
        first.close()
        second.close()
        assert names_in(connect()) == {"Ann", "Bea"}
        assert [decode(each.body).data.account for each in bus.read("wallet.events")] == ["Ann", "Bea"]

    def test_a_second_writer_is_stopped_even_by_a_batch_that_makes_no_event(self, connect, bus):
        first, second = open_guests(connect(), bus), open_guests(connect(), bus)
        first.submit("Ann")
        work(first)
        second.submit("nobody")  # would be refused, on a state that is no longer true
        with pytest.raises(WriterStopped):
            second.step()
        first.close()
        second.close()

    def test_the_new_writer_of_a_store_fences_the_old_one(self, connect, bus):
        old = open_guests(connect(), bus)
        old.submit("Ann")
        work(old)
        new = open_guests(connect(), bus)
        new.submit("Bea")
        work(new)
        old.submit("Cleo")
        with pytest.raises(WriterStopped):
            old.step()
        old.close()
        new.close()
        assert names_in(connect()) == {"Ann", "Bea"}

    # -------------------------------------------------------------------------------------------- a kill -9

    @pytest.fixture
    def killed(self, program: str, tmp_path: Path) -> Callable[[str], None]:
        """Runs a writer in another process that is killed at a point."""

        def run(point: str) -> None:
            child = subprocess.run(
                [sys.executable, "-c", CHILD.format(opens=program), str(tmp_path), point],
                cwd=ROOT,
                capture_output=True,
                timeout=60,
                check=False,
            )
            assert (child.returncode, child.stderr) == (KILLED, b"")

        return run

    def test_money_case_4_killed_before_the_commit_nothing_is_there(self, connect, bus, killed):
        connect()
        killed("before the commit")
        writer = open_guests(connect(), bus)
        work(writer)
        assert (writer.store.position, names_in(connect())) == (0, set())
        assert list(bus.read("wallet.events")) == []
        writer.submit("Ann")
        work(writer)
        writer.close()
        assert names_in(connect()) == {"Ann"}

    def test_money_case_10_killed_before_publishing_it_is_published_at_the_next_start(
        self, connect, bus, killed
    ):
        connect()
        killed("before publishing")
        assert names_in(connect()) == {"Ann", "Bea"}
        with closing(EventStore(connect())) as store:
            stored = store.unpublished(0, 10)
        assert [decode(each.body).data.account for each in stored] == ["Ann", "Bea"]
        assert list(bus.read("wallet.events")) == []
        writer = open_guests(connect(), bus)
        assert writer.relay.backlog == 2
        work(writer)
        writer.close()
        assert [each.body for each in bus.read("wallet.events")] == [each.body for each in stored]

    def test_money_case_20_killed_before_the_mark_the_consumer_skips_what_comes_again(
        self, connect, bus, killed, tmp_path
    ):
        connect()
        killed("before the mark")
        consumer_engine = open_engine(tmp_path / "consumer.db")
        consumer = open_guests(consumer_engine, bus, Guests("audit", ("wallet.events",)))
        work(consumer)
        before = (names_in(consumer_engine), consumer.store.head("audit/guests"))
        assert before[0] == {"friend-of-Ann", "friend-of-Bea"}
        writer = open_guests(connect(), bus)
        work(writer)
        writer.close()
        bodies = [each.body for each in bus.read("wallet.events")]
        assert bodies[2:] == bodies[:2], "the relay could not know that the bus had them"
        work(consumer)
        assert (names_in(consumer_engine), consumer.store.head("audit/guests")) == before
        assert consumer.inbox.held == {}
        consumer.close()

    def test_a_restart_without_a_crash_publishes_nothing_twice(self, connect, bus):
        writer = open_guests(connect(), bus)
        writer.submit("Ann")
        writer.step()
        writer.close()
        writer = open_guests(connect(), bus)
        work(writer)
        writer.close()
        assert len(list(bus.read("wallet.events"))) == 1

    def test_effects_and_inbox_stand_in_one_transaction(self, connect, bus):
        """If the commit fails, the event counts as not applied, and the next start applies it."""
        engine = connect()
        seats = Seats()
        bus.publish(seats.sit(3))

        def fail(_: object) -> None:
            raise RuntimeError("the disk is gone")

        writer = open_guests(engine, bus)
        sa.event.listen(engine, "commit", fail)
        with pytest.raises(WriterStopped, match="the disk is gone"):
            writer.step()
        sa.event.remove(engine, "commit", fail)
        writer.close()
        assert names_in(connect()) == set()
        writer = open_guests(connect(), bus)
        work(writer)
        writer.close()
        assert names_in(connect()) == {"T1-seat-1", "T1-seat-2", "T1-seat-3"}

    def test_the_chain_goes_through_what_was_written_before_a_restart(self, connect, bus):
        for name in ("Ann", "Bea", "Cleo"):
            writer = open_guests(connect(), bus)
            writer.submit(name)
            work(writer)
            writer.close()
        events = [decode(each.body) for each in bus.read("wallet.events")]
        assert [event.sequence for event in events] == [1, 2, 3]
        assert [event.envelope.previous for event in events] == [
            FIRST_PREVIOUS,
            *(hash_of(event.body) for event in events[:2]),
        ]

    def test_an_outbox_longer_than_memory_is_published_from_the_store(self, connect, bus, monkeypatch):
        monkeypatch.setattr("services.runtime.relay._MEMORY_MAX", 3)
        monkeypatch.setattr("services.runtime.relay._BATCH", 2)
        writer = open_guests(connect(), bus)
        for number in range(10):
            writer.submit(f"guest-{number}")
        work(writer)
        writer.close()
        accounts = [decode(each.body).data.account for each in bus.read("wallet.events")]
        assert accounts == [f"guest-{number}" for number in range(10)]


def _events_on(bus):
    return [decode(each.body) for each in bus.read("wallet.events")]


def _refusal(answer) -> Refusal:
    error = answer.exception(0)
    assert isinstance(error, Refusal)
    return error
