"""The inbox is a number: what is skipped, what holds a stream, and what ends a hold."""

from collections.abc import Iterator
from contextlib import closing
from typing import ClassVar

import pytest
import sqlalchemy as sa

from schemas.envelope import Recorded, decode, hash_of
from schemas.events import EVENTS
from schemas.events.accounts import AccountOpened
from schemas.events.game import SeatLeft, SeatTaken
from services.runtime.database import open_sqlite
from services.runtime.inbox import Irregularity, Verdict
from services.runtime.ports import Record
from services.runtime.republish import UnknownStream, republish
from services.runtime.tables import DeadLetterRow, table_of
from services.runtime.writer import Writer
from tests.contracts.streams import Seats, Stream, record_of
from tests.services.guests import (
    UNLUCKY_SEAT,
    Guests,
    make_guests_table,
    names_in,
    open_bus,
    open_engine,
    open_guests,
    work,
)

TOPIC = "game.events"


class Consumer:
    """A service that consumes, over one database through all its restarts."""

    def __init__(self, folder, engine: sa.Engine | None = None) -> None:
        self.engine = engine or open_engine(folder / "consumer.db")
        self.bus = open_bus(folder)
        self.writer: Writer[str] = open_guests(self.engine, self.bus)

    def hear(self, *records: Record) -> None:
        """Publish these, and let the service do what it can with them."""
        self.bus.publish(records)
        work(self.writer)

    def restart(self) -> None:
        self.writer.close()
        self.writer = open_guests(self.engine, self.bus)
        work(self.writer)

    def close(self) -> None:
        self.writer.close()
        self.bus.close()

    @property
    def told(self) -> list[Irregularity]:
        """What the service was told of since the last start."""
        service = self.writer.service
        assert isinstance(service, Guests)
        return service.irregularities

    @property
    def names(self) -> set[str]:
        """Who was let in: what was applied."""
        return names_in(self.engine)

    @property
    def held(self) -> dict[str, str]:
        return self.writer.inbox.held

    def count(self, verdict: Verdict) -> float:
        """How many records were found to be this since the last start."""
        labels = {"topic": TOPIC, "verdict": verdict.value}
        value = self.writer.metrics.registry.get_sample_value("wallet_records_consumed_total", labels)
        assert value is not None
        return value

    def dead_letters(self) -> list[tuple[int, bytes, str]]:
        table = table_of(DeadLetterRow)
        with self.engine.connect() as db, db.begin():
            rows = db.execute(
                sa.select(table.c.offset, table.c.body, table.c.reason).order_by(table.c.offset)
            )
            return [tuple(row) for row in rows]


@pytest.fixture
def consumer(tmp_path) -> Iterator[Consumer]:
    with closing(Consumer(tmp_path)) as consumer:
        yield consumer


def seats_of(table: str, *numbers: int) -> set[str]:
    return {f"{table}-seat-{number}" for number in numbers}


# ------------------------------------------------------------------------------------------------ duplicates


def test_a_duplicate_is_skipped_wherever_it_comes(consumer):
    seats = Seats()
    first, second, third = seats.sit(3)
    consumer.hear(first, first, second)
    consumer.hear(first, second, third, third)
    assert consumer.names == seats_of("T1", 1, 2, 3)
    assert (consumer.count(Verdict.APPLIED), consumer.count(Verdict.DUPLICATE)) == (3, 4)
    consumer.restart()
    consumer.hear(third)
    assert consumer.count(Verdict.DUPLICATE) == 1
    assert consumer.names == seats_of("T1", 1, 2, 3)
    assert consumer.held == {}


def test_a_restart_that_reads_everything_again_applies_nothing_twice(consumer):
    """The offsets are a hint: without them reading begins at the beginning, and the inbox still knows."""
    consumer.hear(*Seats().sit(5))
    consumer.writer.close()
    with consumer.engine.begin() as db:
        db.execute(sa.text("DELETE FROM consumer_offset"))
    consumer.writer = open_guests(consumer.engine, consumer.bus)
    work(consumer.writer)
    assert consumer.count(Verdict.DUPLICATE) == 5
    assert consumer.writer.store.head("wallet/guests")[0] == 5


def test_other_bytes_at_the_place_of_the_last_event_are_told_from_a_duplicate(consumer):
    seats, other = Seats(), Seats()
    first = seats.sit(1)[0]
    other.next(SeatTaken(operator="op", table="T1", seat=7))
    consumer.hear(first)
    consumer.hear(other.record(1))
    assert (consumer.count(Verdict.OTHER_BYTES), consumer.count(Verdict.DUPLICATE)) == (1, 0)
    assert consumer.names == seats_of("T1", 1)
    consumer.hear(*seats.sit(1))
    assert consumer.names == seats_of("T1", 1, 2), "what was true first stays true, and goes on"


# ------------------------------------------------------------------------------------------------------ gaps


def test_a_gap_holds_its_stream_and_no_other(consumer):
    one, two = Seats("T1"), Seats("T2")
    first, _, third = one.sit(3)
    consumer.hear(first, third, *two.sit(3))
    assert consumer.names == seats_of("T1", 1) | seats_of("T2", 1, 2, 3)
    assert consumer.held == {"game/op.T1": "event 2 is missing"}
    consumer.hear(*one.sit(1), *two.sit(1))
    assert consumer.names == seats_of("T1", 1) | seats_of("T2", 1, 2, 3, 4)
    assert list(consumer.held) == ["game/op.T1"]
    assert consumer.writer.metrics.registry.get_sample_value("wallet_held_streams") == 1


def test_a_gap_in_the_same_batch_takes_nothing_from_the_events_before_it(consumer):
    first, second, _, fourth = Seats().sit(4)
    consumer.hear(first, second, fourth)
    assert consumer.names == seats_of("T1", 1, 2)
    assert consumer.held == {"game/op.T1": "event 3 is missing"}


def test_a_gap_is_filled_by_publishing_the_producers_bytes_again(consumer):
    seats = Seats()
    first, second, third, fourth = seats.sit(4)
    consumer.hear(first, third, fourth)
    consumer.hear(second, third, fourth)
    assert consumer.held == {}
    assert consumer.names == seats_of("T1", 1, 2, 3, 4)
    consumer.restart()
    consumer.hear(*seats.sit(1))
    assert consumer.names == seats_of("T1", 1, 2, 3, 4, 5)


def test_republishing_a_stream_fills_a_gap_in_it(tmp_path):
    """The producer's own command, from its store to the consumer, after the bus lost a record."""
    engine, consumer_engine = open_engine(tmp_path / "producer.db"), open_engine(tmp_path / "consumer.db")
    with closing(open_bus(tmp_path)) as bus, closing(open_guests(engine, bus)) as producer:
        for name in ("Ann", "Bea", "Cleo"):
            producer.submit(name)
        work(producer)
        bus._connection.execute('DELETE FROM record WHERE "offset" = 2')
        with closing(open_guests(consumer_engine, bus, Guests("audit", ("wallet.events",)))) as consumer:
            work(consumer)
            assert consumer.inbox.held == {"wallet/guests": "event 2 is missing"}
            assert names_in(consumer_engine) == {"friend-of-Ann"}
            reader = open_sqlite(tmp_path / "producer.db", writer=False)
            assert republish(reader, bus, "wallet/guests", 2) == 2
            work(consumer)
            assert consumer.inbox.held == {}
        assert names_in(consumer_engine) == {"friend-of-Ann", "friend-of-Bea", "friend-of-Cleo"}
        with pytest.raises(UnknownStream, match="no stream 'wallet/other' here; there are wallet/guests"):
            republish(reader, bus, "wallet/other", 1)


def test_a_gap_that_is_filled_by_half_stays_a_gap(consumer):
    """Those that came too early were not kept. Until they come again nobody may call the stream whole."""
    first, second, third, fourth = Seats().sit(4)
    consumer.hear(first, third, fourth)
    consumer.hear(second)
    assert consumer.names == seats_of("T1", 1, 2)
    assert consumer.held == {"game/op.T1": "events 3 to 4 are missing"}
    consumer.restart()  # which reads from the held place on
    assert consumer.held == {}
    assert consumer.names == seats_of("T1", 1, 2, 3, 4)


def test_a_hold_outlives_a_restart(consumer):
    seats = Seats()
    first, second, third = seats.sit(3)
    consumer.hear(first, third)
    consumer.restart()
    assert consumer.held == {"game/op.T1": "event 2 is missing"}
    consumer.hear(second, third)
    assert (consumer.held, consumer.names) == ({}, seats_of("T1", 1, 2, 3))
    consumer.restart()
    assert consumer.held == {}


def test_a_gap_at_the_beginning_of_a_stream(consumer):
    first, second = Seats().sit(2)
    consumer.hear(second)
    assert consumer.held == {"game/op.T1": "event 1 is missing"}
    consumer.hear(first, second)
    assert consumer.names == seats_of("T1", 1, 2)


def test_an_event_that_does_not_follow_the_bytes_before_it_holds_its_stream(consumer):
    seats, forged = Seats(), Seats()
    first, second = seats.sit(2)
    forged.next(SeatTaken(operator="op", table="T1", seat=50))
    forged.next(SeatTaken(operator="op", table="T1", seat=51))
    consumer.hear(first, forged.record(2))
    assert consumer.held == {"game/op.T1": "event 2 does not follow the bytes of event 1"}
    assert consumer.count(Verdict.CHAIN_BREAK) == 1
    consumer.hear(second)
    assert (consumer.held, consumer.names) == ({}, seats_of("T1", 1, 2))


# --------------------------------------------------------------------- what this program does not understand


class SeatTakenV2(SeatTaken):
    """As a later version of the program knows it."""

    VERSION: ClassVar[int] = 2


class SeatWarmed(SeatTaken):
    """An event that a later version of the program has."""

    NAME: ClassVar[str] = "sabot.game.seat.warmed"


def test_an_unknown_type_keeps_its_place_and_is_skipped(consumer):
    seats = Seats()
    seats.sit(1)
    seats.next(SeatWarmed(operator="op", table="T1", seat=2))
    seats.sit(1)
    consumer.hear(*(seats.record(sequence) for sequence in (1, 2, 3)))
    assert (consumer.held, consumer.names) == ({}, seats_of("T1", 1, 3))
    assert (consumer.count(Verdict.SKIPPED), consumer.count(Verdict.APPLIED)) == (1, 2)
    assert consumer.dead_letters() == []


def test_an_unknown_type_must_follow_its_stream_like_any_other(consumer):
    seats = Seats()
    seats.sit(2)
    seats.next(SeatWarmed(operator="op", table="T1", seat=3))
    consumer.hear(seats.record(1), seats.record(3))
    assert consumer.held == {"game/op.T1": "event 2 is missing"}


def test_a_newer_version_holds_its_stream_until_a_program_that_knows_it_starts(consumer, monkeypatch):
    seats, others = Seats("T1"), Seats("T2")
    seats.sit(1)
    seats.next(SeatTakenV2(operator="op", table="T1", seat=2))
    seats.sit(1)
    consumer.hear(*(seats.record(sequence) for sequence in (1, 2, 3)), *others.sit(2))
    consumer.hear(*others.sit(1))
    assert consumer.names == seats_of("T1", 1) | seats_of("T2", 1, 2, 3)
    assert "sabot.game.seat.taken.v2 is newer than this program" in consumer.held["game/op.T1"]
    assert consumer.count(Verdict.NEWER) == 1
    consumer.restart()
    assert list(consumer.held) == ["game/op.T1"], "the same program is no wiser"
    monkeypatch.setitem(EVENTS, SeatTakenV2.type_name(), SeatTakenV2)
    consumer.restart()
    assert (consumer.held, consumer.names) == ({}, seats_of("T1", 1, 2, 3) | seats_of("T2", 1, 2, 3))
    assert consumer.dead_letters() == []


# ---------------------------------------------------------------------------- what cannot be applied by rule


def test_an_event_that_cannot_be_applied_holds_its_stream_and_no_other(consumer):
    one, two = Seats("T1"), Seats("T2")
    one.sit(UNLUCKY_SEAT - 2)
    unlucky = [one.sit(1)[0], *one.sit(3)]  # seats 12, 13, 14 and 15
    consumer.hear(*(one.record(number) for number in range(1, UNLUCKY_SEAT - 1)), *unlucky, *two.sit(2))
    assert consumer.names == seats_of("T1", *range(1, UNLUCKY_SEAT)) | seats_of("T2", 1, 2)
    assert consumer.held == {"game/op.T1": "game/op.T1/13 cannot be applied: nobody sits on 13"}
    consumer.hear(*two.sit(1))
    assert consumer.names == seats_of("T1", *range(1, UNLUCKY_SEAT)) | seats_of("T2", 1, 2, 3)


def test_a_corrected_program_goes_on_from_the_event_that_could_not_be_applied(consumer, monkeypatch):
    seats = Seats("T1")
    # A gap in the same batch, behind the fault: reading must begin again at the fault.
    consumer.hear(*seats.sit(UNLUCKY_SEAT), *seats.sit(1), *seats.sit(2)[1:])
    consumer.restart()
    assert consumer.names == seats_of("T1", *range(1, UNLUCKY_SEAT))
    monkeypatch.setattr("tests.services.guests.UNLUCKY_SEAT", 0)
    consumer.restart()
    assert consumer.names == seats_of("T1", *range(1, UNLUCKY_SEAT + 2))
    assert consumer.held == {"game/op.T1": "event 15 is missing"}


def test_a_reaction_that_does_not_fit_in_an_event_holds_its_stream(consumer, monkeypatch):
    """It is found out before anything moves, so that it can neither stop the service nor be half written."""
    react = Guests.react

    def two_of_which_the_second_is_too_long(self, event):
        if event.data.seat != 2:
            return react(self, event)
        return [*react(self, event), AccountOpened.model_construct(operator="op", account="x" * 70_000)]

    monkeypatch.setattr(Guests, "react", two_of_which_the_second_is_too_long)
    consumer.hear(*Seats("T1").sit(3), *Seats("T2").sit(1))
    assert consumer.names == seats_of("T1", 1) | seats_of("T2", 1)
    assert "would measure" in consumer.held["game/op.T1"]
    monkeypatch.undo()
    consumer.restart()
    assert consumer.names == seats_of("T1", 1, 2, 3) | seats_of("T2", 1)
    events = [decode(each.body) for each in consumer.bus.read("wallet.events")]
    assert [event.envelope.previous for event in events[1:]] == [event.hash for event in events[:-1]]


# --------------------------------------------------------------------------------------------- dead letters


def test_money_case_21_an_undecodable_record_between_two_good_ones(consumer):
    seats = Seats()
    first, second = seats.sit(2)
    consumer.hear(first, record_of(b'{"amount":', seats.name), second)
    assert (consumer.names, consumer.held) == (seats_of("T1", 1, 2), {})
    ((offset, body, reason),) = consumer.dead_letters()
    assert (offset, body) == (2, b'{"amount":')
    assert reason.startswith("not readable as JSON")
    assert consumer.count(Verdict.NOT_OURS) == 1
    (said,) = consumer.told
    assert (said.verdict, said.topic, said.offset, said.stream) == (Verdict.NOT_OURS, TOPIC, 2, None)
    consumer.writer.close()
    with consumer.engine.begin() as db:
        db.execute(sa.text("DELETE FROM consumer_offset"))
    consumer.writer = open_guests(consumer.engine, consumer.bus)
    work(consumer.writer)
    assert len(consumer.dead_letters()) == 1, "read again, it is the same dead letter"
    assert consumer.told == [], "and nothing new"


def _tampered(event: Recorded, old: bytes, new: bytes) -> bytes:
    assert event.body.count(old) == 1
    return event.body.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b'"type":"sabot.game.seat.taken.v1"', b'"type":"com.example.seat"', "is not one of ours"),
        (b'"seat":1', b'"seat":"1"', "data.seat: Input should be a valid integer"),
        (b'"seat":1', b'"place":1', "data.seat: Field required"),
        (b'"sequence":1', b'"sequence":0', "sequence: Input should be greater than or equal to 1"),
        (b'"stream":"game/op.T1"', b'"stream":"wallet/main"', "wallet/main has no place on game.events"),
        (b'"stream":"game/op.T1"', b'"stream":""', "has no place on game.events"),
        (b'"specversion":"1.0"', b'"specversion":"0.3"', "specversion"),
        (b"{", b"[{", "not readable as JSON"),
        (b'"seat":1', b'"seat":NaN', "not readable as JSON"),
        (b'"seat":1', b'"seat":\xff', "not readable as JSON"),
    ],
)
def test_what_is_not_ours_is_a_dead_letter_and_holds_no_place(consumer, old, new, reason):
    seats = Seats()
    record = seats.sit(1)[0]
    event = seats.events[0]
    body = event.body.replace(old, new, 1) if old == b"{" else _tampered(event, old, new)
    consumer.hear(record_of(body, seats.name), record)
    assert (consumer.names, consumer.held) == (seats_of("T1", 1), {})
    ((_, letter, said),) = consumer.dead_letters()
    assert letter == body
    assert reason in said


@pytest.mark.parametrize("kind", [SeatWarmed, SeatTakenV2])
def test_an_event_of_another_topic_has_no_place_here_even_if_its_type_is_not_known(consumer, kind):
    stranger = Stream("audit/op")
    stranger.next(kind(operator="op", table="T1", seat=1))
    consumer.hear(Record(TOPIC, "op", stranger.events[0].body))
    assert consumer.held == {}
    ((_, _, reason),) = consumer.dead_letters()
    assert reason == "an event of stream audit/op has no place on game.events"


def test_the_place_of_an_event_is_in_its_bytes_whatever_key_it_came_under(consumer):
    seats = Seats()
    seats.sit(2)
    consumer.hear(*(Record(TOPIC, "another-key", event.body) for event in seats.events))
    assert consumer.names == seats_of("T1", 1, 2)


def test_the_inbox_keeps_the_hash_of_the_bytes_that_came(consumer):
    seats = Seats()
    consumer.hear(*seats.sit(3))
    with consumer.engine.connect() as db, db.begin():
        row = db.execute(sa.text("SELECT stream, sequence, hash FROM inbox")).one()
    assert tuple(row) == ("game/op.T1", 3, hash_of(seats.events[2].body))


# ----------------------------------------------------------------------- what the service is told, and not


def test_a_service_is_told_once_of_a_stream_that_waits(consumer):
    one, two = Seats("T1"), Seats("T2")
    first, _, third, fourth = one.sit(4)
    consumer.hear(first, third, fourth)
    consumer.hear(*one.sit(2), *two.sit(2))
    (said,) = consumer.told
    assert (said.verdict, said.stream, said.sequence) == (Verdict.GAP, "game/op.T1", 3)
    assert said.words == "game/op.T1 waits: event 2 is missing"


def test_a_service_is_told_of_what_it_could_not_apply_and_of_other_bytes(consumer):
    seats, other = Seats(), Seats()
    consumer.hear(*seats.sit(UNLUCKY_SEAT - 1))
    for _ in range(UNLUCKY_SEAT - 1):
        other.next(SeatTaken(operator="op", table="T1", seat=50))
    consumer.hear(other.record(UNLUCKY_SEAT - 1), *seats.sit(1))
    consumer.hear(*seats.sit(1))
    assert [(each.verdict, each.sequence) for each in consumer.told] == [
        (Verdict.OTHER_BYTES, UNLUCKY_SEAT - 1),
        (Verdict.FAILED, UNLUCKY_SEAT),
    ]


def test_events_of_no_concern_keep_their_place_unread(tmp_path):
    seats, service = Seats(), Guests()
    service.reads = (SeatTaken,)
    seats.sit(1)
    seats.next(SeatLeft(operator="op", table="T1", seat=1))
    seats.sit(1)
    seats.next(SeatWarmed(operator="op", table="T1", seat=4))
    seats.next(SeatLeft(operator="op", table="T1", seat=1))
    seats.sit(1)
    engine = open_engine(tmp_path / "consumer.db")
    with closing(open_bus(tmp_path)) as bus, closing(open_guests(engine, bus, service)) as writer:
        bus.publish([seats.record(sequence) for sequence in (1, 2, 2, 3, 4, 6)])
        work(writer)
        assert writer.inbox.held == {"game/op.T1": "event 5 is missing"}, "they count like any others"
        bus.publish([seats.record(sequence) for sequence in (5, 6)])
        work(writer)
        assert writer.inbox.held == {}
        counted = {
            verdict: writer.metrics.consumed[TOPIC, verdict]._value.get()
            for verdict in (Verdict.APPLIED, Verdict.PASSED, Verdict.SKIPPED, Verdict.DUPLICATE, Verdict.GAP)
        }
    assert names_in(engine) == seats_of("T1", 1, 3, 6)
    assert list(counted.values()) == [3, 2, 1, 1, 1]
    assert service.skipped_places == [("game/op.T1", 4)]


def strange_records() -> list[Record]:
    """Bytes of somebody else's, of which no database may choke."""
    seats = Seats()
    seats.sit(1)
    body = seats.events[0].body
    name = b'"stream":"game/op.T1"'
    assert name in body
    strange = [body.replace(name, b'"stream":"game/' + other + b'"') for other in STRANGE_NAMES]
    strange += [
        body.replace(b'"sequence":1', b'"sequence":' + b"9" * 30),
        body.replace(b"seat.taken", b"\\u0000"),
        body.replace(b"op.T1", b"op.\\ud800"),
        b"\x00",
        b"\xff\xfe",
        b'"\\u0000"',
        b"",
    ]
    return [Record(TOPIC, "game/op.T1", each) for each in strange]


STRANGE_NAMES = (rb"a\u0000b", b"a\x00b", rb"a\u001fb", b"a" * 300, "é".encode() * 250, rb"\ud800")


@pytest.fixture(params=["sqlite", "postgres"])
def consumer_of_each_kind(request, tmp_path) -> Iterator[Consumer]:
    engine = None
    if request.param == "postgres":
        databases = request.getfixturevalue("databases")
        make_guests_table(databases)
        engine = databases.open("wallet")
    with closing(Consumer(tmp_path, engine)) as consumer:
        yield consumer


def test_no_strange_record_stops_a_service(consumer_of_each_kind):
    consumer, records = consumer_of_each_kind, strange_records()
    consumer.hear(*records)
    consumer.restart()
    assert consumer.names == set()
    # One has a place in a stream, however far away; all others are dead letters.
    assert list(consumer.held) == ["game/op.T1"]
    far_away = [record.body for record in records if b"9" * 30 in record.body]
    buried = consumer.dead_letters()
    assert sorted([body for _, body, _ in buried] + far_away) == sorted(record.body for record in records)
    assert not any("\0" in said for *_, said in buried)
