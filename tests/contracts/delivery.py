"""What delivery must be on every bus: nothing is lost, nothing is applied twice, and the rest goes on.

A writer over a store of its own stands at each end: one says events, the other applies them. The numbers are
those of ``cases/money.md``. A bus's own test inherits the suite and says how it is opened, and how it fails.
"""

import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from schemas.envelope import Recorded, decode
from schemas.events.accounts import AccountOpened
from schemas.events.base import Payload, game_stream
from schemas.events.game import SeatTaken
from services.runtime import http
from services.runtime.database import open_sqlite
from services.runtime.inbox import Verdict
from services.runtime.ports import Bus
from services.runtime.process import WriterThread
from services.runtime.republish import republish
from services.runtime.store import SecondWriter, read_stream
from services.runtime.tables import DeadLetterRow, table_of
from services.runtime.writer import Writer, WriterStopped
from tests.contracts.bus import ROOT
from tests.contracts.streams import Seats, record_of
from tests.services.guests import Guests, open_engine, open_guests

PATIENCE_SECONDS = 30.0
GUESTS = "wallet/guests"
"""The stream of the producer, and what its consumer writes."""
NOTES = "audit/guests"
KILLED = -9
FOREIGN = (
    b'{"specversion":"1.0","id":"A-1","source":"/elsewhere","type":"com.example.order.placed",'
    b'"datacontenttype":"application/json","data":{"amount":12}}'
)
UNDECODABLE = b'{"amount":'

CHILD = """
import logging, os, signal, sys
from pathlib import Path
from tests.services.guests import open_engine, open_guests
{opens}
point, database, first = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
logging.getLogger().addHandler(logging.NullHandler())

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def step():
    if not writer.step():
        writer.wait(0.002)

def let_in(*numbers):
    asked = [writer.submit(f"guest-{{number}}") for number in numbers]
    while not all(each.done() for each in asked):
        step()

writer = open_guests(open_engine(database), bus)
let_in(first)
while writer.relay.backlog:
    step()
begin = bus.begin
if point == "before publishing":
    bus.begin = die
elif point == "before the acknowledgement":
    bus.begin = lambda records: (begin(records), die())
if point != "anywhere":
    let_in(*range(first + 1, first + 10))
for number in range(first + 1, first + 100_000):
    let_in(number)
    print(number, flush=True)
"""


class Journal(Guests):
    """Applies an event by noting it, as an event of its own. What comes twice would be noted twice."""

    def __init__(self, *consumes: str) -> None:
        super().__init__("audit", consumes)
        self.in_a_batch: Callable[[str], object] = lambda _: None
        """Called before an event is noted, inside the transaction."""
        self.between_batches: Callable[[], object] = lambda: None
        """Called when records have been taken from the bus, outside of a transaction."""

    def react(self, event: Recorded[Any]) -> Sequence[Payload]:
        note = _note(event.stream, event.sequence)
        self.in_a_batch(note)
        return [AccountOpened(operator="op", account=note)]

    def overdue(self, now: str) -> Sequence[str]:
        self.between_batches()
        return ()

    def save(self, db: sa.Connection) -> None:
        self._new = []  # the notes in its stream are all it has


class Tables(Guests):
    """Seats people at game's tables: a command names the table."""

    def __init__(self) -> None:
        super().__init__("game", ("wallet.events",))
        self._seated: dict[str, int] = defaultdict(int)

    def decide(self, command: str) -> Sequence[Payload]:
        self._seated[command] += 1
        return [SeatTaken(operator="op", table=command, seat=(self._seated[command] - 1) % 99 + 1)]

    def evolve(self, event: Recorded[Any]) -> None:
        pass

    def stream_of(self, payload: Payload) -> str:
        assert isinstance(payload, SeatTaken)
        return game_stream(payload.operator, payload.table)


def _note(stream: str, sequence: int) -> str:
    return f"{stream.replace('/', ':')}#{sequence}"


def notes(stream: str, *sequences: int) -> list[str]:
    """What a journal has when it applied these events of a stream, each once, in this order."""
    return [_note(stream, each) for each in sequences]


def up_to(last: int) -> range:
    """1, 2, 3, … and ``last``."""
    return range(1, last + 1)


def seen_in(notes_: Sequence[str]) -> dict[str, list[int]]:
    """The sequences that were noted of each stream, in the order in which they were."""
    seen: dict[str, list[int]] = defaultdict(list)
    for each in notes_:
        stream, _, sequence = each.rpartition("#")
        seen[stream].append(int(sequence))
    return dict(seen)


def work_until(done: Callable[[], bool], *writers: Writer[Any]) -> None:
    """Step the writers until it is so."""
    until = monotonic() + PATIENCE_SECONDS
    while not done():
        assert monotonic() < until, [_state(each) for each in writers]
        if not sum(each.step() for each in writers):
            sleep(0.002)


def work_with_casualties(done: Callable[[], bool], *writers: Writer[Any]) -> None:
    """The same, and go on without those that stop."""
    until = monotonic() + PATIENCE_SECONDS
    while not done():
        assert monotonic() < until, [_state(each) for each in writers]
        for each in writers:
            if each.stopped is None:
                try:
                    each.step()
                except WriterStopped:
                    assert isinstance(each.stopped, str)
        sleep(0.001)


def _state(writer: Writer[Any]) -> str:
    """Where a writer is that does not come to what is expected of it."""
    ends = [writer.store.position, writer.relay.published, writer.waiting]
    return f"{writer.service.name} {ends} {writer.bus_fault} {writer.stopped} {writer.inbox.held}"


def wait_until(done: Callable[[], bool]) -> None:
    """While other threads work."""
    work_until(done)


def reached(writer: Writer[Any], stream: str = GUESTS) -> int:
    """How far a consumer has applied a stream, committed or not."""
    return writer.inbox.reached(stream)


def sample(writer: Writer[Any], name: str, **labels: str) -> float:
    value = writer.metrics.registry.get_sample_value(name, labels)
    assert value is not None
    return value


def taken(writer: Writer[Any], topic: str, verdict: Verdict) -> float:
    """How many records of a topic this writer has judged so."""
    return sample(writer, f"{writer.service.name}_records_consumed_total", topic=topic, verdict=verdict)


def told_apart(bus: Bus, topic: str) -> list[str]:
    """The ids of a topic's events in the order in which each came first."""
    return list(dict.fromkeys(decode(each.body).envelope.id for each in bus.read(topic)))


class DeliveryContract(ABC):
    """Promises of bus, relay, inbox and writer together. A subclass provides what is abstract here."""

    has_one_reader_of_a_name = False
    """Whether the bus itself notices that two read under one name, before there is anything to read."""

    @pytest.fixture
    @abstractmethod
    def connect(self, tmp_path: Path) -> Iterator[Callable[[], Bus]]:
        """Opens another client of the one bus of this test; all are closed at the end."""

    @pytest.fixture
    @abstractmethod
    def outage(self, connect) -> Callable[[], AbstractContextManager[object]]:
        """While it lasts the clients opened so far cannot publish (parametrised: in every way)."""

    @abstractmethod
    def program_that_opens(self, tmp_path: Path) -> str:
        """Python that binds ``bus`` to a client of the same bus in another process."""

    @abstractmethod
    def wait_until_thrown_out(self, group: str) -> None:
        """Wait until the bus no longer takes a consumer that does not ask for records for one at work."""

    @pytest.fixture
    def bus(self, connect) -> Bus:
        """A client for whoever is no writer."""
        return connect()

    @pytest.fixture
    def start(self, connect, tmp_path) -> Iterator[Callable[..., Writer[str]]]:
        """Starts the writer of a service over its database, on a client of its own or another bus."""
        with ExitStack() as stack:

            def start(service: Guests, another: Bus | None = None, **limits: int) -> Writer[str]:
                engine = open_engine(tmp_path / f"{service.name}.db")
                writer = open_guests(engine, another or connect(), service, **limits)
                stack.callback(writer.close)
                return writer

            yield start

    @pytest.fixture
    def run(self) -> Iterator[Callable[[Writer[str]], None]]:
        """Runs a writer in a thread, until the end."""
        with ExitStack() as stack:

            def run(writer: Writer[str]) -> None:
                thread = WriterThread(writer, threading.Event())
                thread.start()
                stack.callback(thread.finish)

            yield run

    @pytest.fixture
    def applied(self, tmp_path) -> Callable[[], list[str]]:
        """What a journal has noted, committed, in its order."""

        def read() -> list[str]:
            engine = open_sqlite(tmp_path / "audit.db", writer=False)
            with engine.connect() as db, db.begin():
                return [decode(body).data.account for _, body in read_stream(db, NOTES)]

        return read

    # ------------------------------------------------------------------------------------- a bus that is away

    def test_money_case_19_ten_commands_while_the_bus_is_away(self, start, outage, bus, applied, caplog):
        caplog.set_level("INFO", "services.runtime.writer")
        producer, consumer = start(Guests()), start(Journal("wallet.events"))
        producer.submit("early")
        work_until(lambda: reached(consumer) == 1 and producer.bus_fault is None, producer, consumer)
        with outage():
            answers = []
            for number in range(10):
                answers.append(producer.submit(f"guest-{number}"))
                assert producer.step() == 1
            assert [each.result(0) for each in answers] == [[f"{GUESTS}/{n}"] for n in range(2, 12)]
            work_until(lambda: producer.relay.fault is not None, producer, consumer)
            assert producer.bus_fault is not None
            assert self.words_of_an_outage(producer.bus_fault)
            assert producer.relay.backlog == sample(producer, "wallet_outbox_backlog_events") == 10
            assert applied() == notes(GUESTS, 1)
            work_until(lambda: "wallet goes on without the bus" in caplog.text, producer, consumer)
            assert caplog.text.count("wallet goes on without the bus") == 1
        work_until(lambda: reached(consumer) == 11 and producer.relay.backlog == 0, producer, consumer)
        work_until(lambda: producer.bus_fault is None and consumer.bus_fault is None, producer, consumer)
        assert sample(producer, "wallet_outbox_backlog_events") == 0
        assert caplog.text.count("wallet has the bus again") == 1
        producer.submit("late")
        work_until(lambda: reached(consumer) == 12, producer, consumer)
        assert applied() == notes(GUESTS, *up_to(12))
        assert told_apart(bus, "wallet.events") == [f"{GUESTS}/{n}" for n in up_to(12)]

    def words_of_an_outage(self, fault: str) -> bool:
        """Whether these say why."""
        return "bus.db does not take records: " in fault

    def test_a_bus_that_is_away_in_the_middle_of_a_stream(self, start, outage, applied):
        """Both ends are in the middle of it: half is not published yet, and half of the rest not applied."""
        producer, consumer = start(Guests(), commands=100), start(Journal("wallet.events"), records=50)
        for number in range(1_000):
            producer.submit(f"guest-{number}")
        work_until(lambda: reached(consumer) >= 200, producer, consumer)
        with outage():
            before = producer.store.position
            for number in range(1_000, 1_500):
                producer.submit(f"guest-{number}")
            work_until(lambda: producer.relay.fault is not None, producer, consumer)
            work_until(lambda: producer.store.position == before + 500, producer, consumer)
            assert reached(consumer) < 1_500
        work_until(lambda: reached(consumer) == 1_500, producer, consumer)
        work_until(lambda: not (producer.bus_fault or consumer.bus_fault), producer, consumer)
        producer.submit("late")
        work_until(lambda: reached(consumer) == 1_501, producer, consumer)
        assert applied() == notes(GUESTS, *up_to(1_501))
        assert consumer.inbox.held == {}

    # ------------------------------------------------------------------------------ a producer that is killed

    @pytest.fixture
    def child(self, tmp_path: Path) -> Callable[..., subprocess.Popen[Any]]:
        """Starts a producer in another process: at which point it dies, and the number of its first guest."""

        def start(point: str, first: int = 0) -> subprocess.Popen[Any]:
            program = CHILD.format(opens=self.program_that_opens(tmp_path))
            arguments = [point, str(tmp_path / "wallet.db"), str(first)]
            pipe = subprocess.PIPE
            return subprocess.Popen(
                [sys.executable, "-c", program, *arguments], cwd=ROOT, stdout=pipe, stderr=pipe
            )

        return start

    @pytest.mark.parametrize("point", ["before publishing", "before the acknowledgement"])
    def test_money_case_10_a_producer_that_is_killed_publishes_at_its_next_start(
        self, start, bus, applied, child, point
    ):
        died = child(point)
        errors = died.communicate(timeout=60)[1]
        assert (died.returncode, errors) == (KILLED, b"")
        consumer = start(Journal("wallet.events"))
        if point == "before publishing":
            assert told_apart(bus, "wallet.events") == [f"{GUESTS}/1"]
            work_until(lambda: reached(consumer) == 1, consumer)
        producer = start(Guests())
        assert producer.store.position == 10, "they were committed"
        producer.submit("late")
        work_until(lambda: reached(consumer) == 11, producer, consumer)
        assert applied() == notes(GUESTS, *up_to(11))
        assert told_apart(bus, "wallet.events") == [f"{GUESTS}/{n}" for n in up_to(11)]

    def test_a_producer_that_is_killed_again_and_again_loses_nothing_that_it_answered(
        self, start, applied, child, bus
    ):
        consumer = start(Journal("wallet.events"))
        answered: list[int] = []
        for kill_after in (7, 40, 1):
            first = answered[-1] + 1 if answered else 0
            with child("anywhere", first) as died:
                answered.append(first)
                for _ in range(kill_after):
                    answered.append(int(died.stdout.readline()))
                    consumer.step()
                died.kill()
                answered += map(int, died.stdout)  # what it answered before it died counts as well
            assert died.returncode == KILLED
        producer = start(Guests())
        # A guest who was let in and whose answer was lost is let in once: nobody has two events.
        again = [producer.submit(f"guest-{number}") for number in answered]
        producer.submit("late")
        work_until(lambda: producer.relay.backlog == 0 and again[-1].done(), producer, consumer)
        assert [each.result(0) for each in again] == [[]] * len(answered)
        last = producer.store.position
        work_until(lambda: reached(consumer) == last, producer, consumer)
        assert applied() == notes(GUESTS, *up_to(last))
        assert told_apart(bus, "wallet.events") == [f"{GUESTS}/{n}" for n in up_to(last)]

    # --------------------------------------------------------------- a consumer that is slow, and two of them

    def test_money_case_18_a_batch_that_takes_longer_than_the_bus_waits(self, start, bus, applied):
        """The consumer is thrown out, and its records are handed out again, while it works on them."""
        seats = Seats()
        bus.publish(seats.sit(600))
        journal = Journal("game.events")
        consumer = start(journal, records=100)

        def dawdle(note: str) -> None:
            if note == _note(seats.name, 150):
                self.wait_until_thrown_out("sabot-audit")

        journal.in_a_batch = dawdle
        work_until(lambda: reached(consumer, seats.name) == 600, consumer)
        work_until(lambda: consumer.bus_fault is None, consumer)
        bus.publish(seats.sit(1))
        work_until(lambda: reached(consumer, seats.name) == 601, consumer)
        assert applied() == notes(seats.name, *up_to(601))

    def test_money_case_18_who_hangs_is_replaced_and_stops_when_it_comes_to(self, start, run, bus, applied):
        seats = Seats()
        bus.publish(seats.sit(100))
        slow, hangs, may_go_on = Journal("game.events"), threading.Event(), threading.Event()
        first = start(slow, records=10)

        def hang() -> None:
            if reached(first, seats.name) >= 20:
                hangs.set()
                may_go_on.wait(PATIENCE_SECONDS)

        slow.between_batches = hang
        run(first)
        assert hangs.wait(PATIENCE_SECONDS)
        assert reached(first, seats.name) == 20
        self.wait_until_thrown_out("sabot-audit")
        second = start(Journal("game.events"), records=10)
        assert reached(second, seats.name) == 20
        work_until(lambda: reached(second, seats.name) == 100, second)
        may_go_on.set()
        wait_until(lambda: first.stopped is not None)
        assert first.stopped == "SecondWriter: another writer has written to this store"
        bus.publish(seats.sit(5))
        work_until(lambda: reached(second, seats.name) == 105, second)
        assert applied() == notes(seats.name, *up_to(105))

    def test_money_case_18_of_two_slow_consumers_exactly_one_goes_on(self, start, run, bus, applied):
        """The second one starts while the first is in the middle of a batch. Neither waits for the other."""
        seats = Seats()
        bus.publish(seats.sit(200))
        first = start(_slow(), records=10)
        run(first)
        wait_until(lambda: reached(first, seats.name) >= 20)
        second = _as_a_supervisor(lambda: start(_slow(), records=10))
        run(second)
        wait_until(lambda: (first.stopped or second.stopped) is not None)
        goes_on = first if first.stopped is None else second
        wait_until(lambda: len(applied()) >= 200)
        wait_until(lambda: goes_on.bus_fault is None)
        bus.publish(seats.sit(5))
        wait_until(lambda: len(applied()) >= 205)
        assert applied() == notes(seats.name, *up_to(205))
        stopped = [each.stopped for each in (first, second) if each.stopped is not None]
        assert stopped == ["SecondWriter: another writer has written to this store"]

    def test_of_two_consumers_that_have_nothing_to_do_exactly_one_goes_on(self, start, bus, applied):
        seats = Seats()
        bus.publish(seats.sit(5))
        first = start(Journal("game.events"))
        work_until(lambda: reached(first, seats.name) == 5 and first.inbox.unsaved_offsets == 0, first)
        second = start(Journal("game.events"))
        both = (first, second)
        if not self.has_one_reader_of_a_name:
            bus.publish(seats.sit(1))
        work_with_casualties(lambda: any(each.stopped for each in both), *both)
        [goes_on] = [each for each in both if each.stopped is None]
        for _ in range(3):
            work_until(lambda: len(applied()) >= len(seats.events), goes_on)
            work_until(lambda: goes_on.bus_fault is None, goes_on)
            bus.publish(seats.sit(1))
        work_until(lambda: len(applied()) >= len(seats.events), goes_on)
        assert applied() == notes(seats.name, *up_to(len(seats.events)))

    # --------------------------------------------------------------------------------- what cannot be applied

    def test_money_case_21_what_is_undecodable_or_not_ours_is_a_dead_letter_and_the_rest_goes_on(
        self, start, bus, applied, dead_letters
    ):
        seats, journal = Seats(), Journal("game.events")
        one, two, three = seats.sit(3)
        strange = [record_of(body, seats.name) for body in (UNDECODABLE, FOREIGN)]
        bus.publish([one, strange[0], two, strange[1], three])
        consumer = start(journal)
        work_until(lambda: reached(consumer, seats.name) == 3, consumer)
        assert applied() == notes(seats.name, 1, 2, 3)
        buried = dead_letters()
        there = {each.body: (each.topic, each.partition, each.offset) for each in bus.read("game.events")}
        assert [(place, body) for *place, body, _ in buried] == [
            ([*there[each.body]], each.body) for each in strange
        ]
        assert "not JSON" in buried[0][4] or "EOF" in buried[0][4], buried[0]
        assert [(each.verdict, each.offset) for each in journal.irregularities] == [
            (Verdict.NOT_OURS, there[each.body][2]) for each in strange
        ]
        assert consumer.inbox.held == {}

    def test_dead_letters_that_are_read_again_after_a_crash_are_not_buried_twice(
        self, start, bus, applied, dead_letters
    ):
        seats = Seats()
        one, two = seats.sit(2)
        bus.publish([one, record_of(UNDECODABLE, seats.name), record_of(FOREIGN, seats.name), two])
        crashed = start(Journal("game.events"))
        work_until(lambda: reached(crashed, seats.name) == 2, crashed)
        buried = dead_letters()
        assert len(buried) == 2
        # How far it was is not noted yet, so everything is read again.
        journal = Journal("game.events")
        consumer = start(journal)
        assert consumer.inbox.start == {}
        bus.publish(seats.sit(1))
        work_until(lambda: reached(consumer, seats.name) == 3, consumer)
        assert taken(consumer, "game.events", Verdict.NOT_OURS) == 2
        assert taken(consumer, "game.events", Verdict.DUPLICATE) == 2
        assert dead_letters() == buried
        assert journal.irregularities == []
        assert applied() == notes(seats.name, 1, 2, 3)

    @pytest.fixture
    def dead_letters(self, tmp_path) -> Callable[[], list[tuple[Any, ...]]]:
        """Topic, partition, offset, bytes and reason of what the journal buried, in its order."""
        table = table_of(DeadLetterRow)

        def read() -> list[tuple[Any, ...]]:
            engine = open_sqlite(tmp_path / "audit.db", writer=False)
            columns = (table.c.topic, table.c.partition, table.c.offset, table.c.body, table.c.reason)
            with engine.connect() as db, db.begin():
                return [tuple(row) for row in db.execute(sa.select(*columns).order_by(table.c.id))]

        return read

    # --------------------------------------------------------------------------------------- a consumer stuck

    def test_money_case_22_lag_without_a_commit_is_not_ready(self, start, run, bus, applied, monkeypatch):
        monkeypatch.setattr(http, "_STUCK_SECONDS", 0.3)
        seats, journal, hangs, may_go_on = Seats(), Journal("game.events"), *(threading.Event() for _ in "12")
        consumer = start(journal, records=5)

        def hang(note: str) -> None:
            if note == _note(seats.name, 3):
                hangs.set()
                may_go_on.wait(PATIENCE_SECONDS)

        journal.in_a_batch = hang
        bus.publish(seats.sit(1))
        run(consumer)
        wait_until(lambda: len(applied()) == 1 and consumer.bus_fault is None)
        with TestClient(http.service_app(consumer, "Audit", "of a test")) as client:

            def readiness() -> tuple[int, list[str]]:
                answer = client.get("/readyz")
                return answer.status_code, answer.json()["reasons"]

            wait_until(lambda: readiness() == (200, []))
            bus.publish(seats.sit(19))
            assert hangs.wait(PATIENCE_SECONDS)
            wait_until(lambda: readiness()[0] == 503)
            [reason] = readiness()[1]
            assert reason.startswith("nothing was read or committed for 0.3 s, and "), reason
            assert reason.endswith(f"{consumer.waiting} wait")
            assert consumer.waiting >= 5, "those in hand at the least"
            assert client.get("/healthz").status_code == 200
            may_go_on.set()
            wait_until(lambda: len(applied()) >= 20)
            wait_until(lambda: readiness() == (200, []))
        assert applied() == notes(seats.name, *up_to(20))

    # ------------------------------------------------------------------------- restarts, repetition and order

    def test_a_consumer_that_starts_again_goes_on_where_it_was(self, start, bus, applied):
        seats = Seats()
        bus.publish(seats.sit(100))
        first = start(Journal("game.events"), records=8)
        work_until(lambda: reached(first, seats.name) >= 40, first)
        stopped_at = reached(first, seats.name)
        first.close()
        bus.publish(seats.sit(10))
        second = start(Journal("game.events"), records=8)
        assert reached(second, seats.name) == stopped_at < 100
        work_until(lambda: reached(second, seats.name) == 110, second)
        assert taken(second, "game.events", Verdict.APPLIED) == 110 - stopped_at
        assert taken(second, "game.events", Verdict.DUPLICATE) == 0, "it began behind what it had"
        assert applied() == notes(seats.name, *up_to(110))

    def test_a_stream_that_is_published_again_is_applied_once(self, start, bus, applied, tmp_path):
        producer, journal = start(Guests()), Journal("wallet.events")
        consumer = start(journal)
        for number in range(700):
            producer.submit(f"guest-{number}")
        work_until(lambda: reached(consumer) == 700, producer, consumer)
        reader = open_sqlite(tmp_path / "wallet.db", writer=False)
        assert republish(reader, bus, GUESTS, 1) == 700
        assert republish(reader, bus, GUESTS, 690) == 11
        producer.submit("late")
        work_until(lambda: reached(consumer) == 701, producer, consumer)
        assert taken(consumer, "wallet.events", Verdict.DUPLICATE) >= 711
        assert applied() == notes(GUESTS, *up_to(701))
        assert (journal.irregularities, consumer.inbox.held) == ([], {})

    def test_a_gap_holds_its_stream_until_the_original_bytes_fill_it(self, start, bus, applied):
        held, other, journal = Seats("T1"), Seats("T2"), Journal("game.events")
        held.sit(5)
        consumer = start(journal)
        bus.publish([held.record(1), held.record(2), held.record(4), held.record(5), *other.sit(3)])
        work_until(lambda: (reached(consumer, other.name), consumer.inbox.held) == (3, GAP), consumer)
        assert seen_in(applied()) == {"game:op.T1": [1, 2], "game:op.T2": [1, 2, 3]}
        consumer.close()
        consumer = start(Journal("game.events"))
        bus.publish(other.sit(1))
        work_until(lambda: reached(consumer, other.name) == 4, consumer)
        assert consumer.inbox.held == GAP, "a restart fills no gap"
        bus.publish([held.record(sequence) for sequence in (3, 4, 5)])
        work_until(lambda: reached(consumer, held.name) == 5, consumer)
        assert consumer.inbox.held == {}
        assert seen_in(applied()) == {"game:op.T1": [1, 2, 3, 4, 5], "game:op.T2": [1, 2, 3, 4]}
        assert [each.words for each in journal.irregularities] == ["game/op.T1 waits: event 3 is missing"]

    def test_every_stream_is_applied_in_its_order_however_many_there_are(self, start, bus, applied):
        producer, consumer = start(Tables(), commands=7), start(Journal("game.events"), records=11)
        tables = ["T1", "T2", "T3", "VIP"]
        for number in range(400):
            producer.submit(tables[(number + number // 4) % 4])
        streams = [game_stream("op", each) for each in tables]

        def all_there() -> bool:
            return sum(reached(consumer, each) for each in streams) == 400

        work_until(all_there, producer, consumer)
        assert [producer.store.head(each)[0] for each in streams] == [100, 100, 100, 100]
        said = {each.replace("/", ":"): list(up_to(producer.store.head(each)[0])) for each in streams}
        assert seen_in(applied()) == said
        self.check_spread({each.partition for each in bus.read("game.events")})

    def check_spread(self, partitions: set[int]) -> None:
        """Whether several streams lay where they should."""
        assert partitions == {0}


GAP = {"game/op.T1": "event 3 is missing"}


def _slow() -> Journal:
    """Takes some time over an event, with the database locked, and leaves it to others for as long."""
    journal = Journal("game.events")
    journal.in_a_batch, journal.between_batches = lambda _: sleep(0.002), lambda: sleep(0.02)
    return journal


def _as_a_supervisor(start: Callable[[], Writer[str]]) -> Writer[str]:
    """Start a service until it runs: it may find that somebody wrote to its store in that very moment."""
    while True:
        try:
            return start()
        except SecondWriter:
            sleep(0.01)
