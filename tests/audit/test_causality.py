"""The order in which a verifier reads a bus of many partitions: causes first, and nothing is lost by it."""

import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.envelope import FIRST_PREVIOUS, Recorded, decode, encode
from schemas.events.accounts import AccountOpened
from schemas.house import shipped_houses
from services.audit.core.causality import in_causal_order
from services.audit.core.verifier import Verifier
from services.room.local import LocalRoom
from services.room.tables import Plan, VirtualTable, play
from services.runtime.installation import Installation
from services.runtime.ports import Delivery
from services.runtime.ports_system import SeededIds, SeededRng, SystemClock
from services.runtime.settings import Settings
from services.runtime.topics import TOPICS
from tests.audit.builder import OPERATOR, Bet, Story

STREAMS = ("game/op.T1", "game/op.T2", "wallet/main", "audit/op")


class Record(NamedTuple):
    """A record with its place, by which it is told from every other."""

    partition: int
    number: int
    body: bytes


class Happened(NamedTuple):
    """What Hypothesis decides of one event of a history."""

    stream: str
    cause: int
    """So many events ago; 0: a command."""
    minute: int
    """What its producer's clock shows, where clocks are wrong."""
    is_lost: bool


happened = st.builds(
    Happened,
    st.sampled_from(STREAMS),
    st.integers(0, 12),
    st.integers(0, 59),
    st.integers(0, 5).map(lambda n: n == 5),
)
histories = st.lists(happened, max_size=40)
partitionings = st.lists(st.integers(0, 3), min_size=len(STREAMS), max_size=len(STREAMS))
"""The partition of each stream. Some partitions have none."""


def event(stream: str, sequence: int, cause: str = "a-command", *, minute: int = 0, second: int = 0) -> bytes:
    return encode(
        AccountOpened(operator="op", account="a"),
        source="sabot/test",
        stream=stream,
        sequence=sequence,
        previous=FIRST_PREVIOUS,
        time=f"2026-01-02T20:{minute:02}:{second:02}.000000Z",
        gamingday="2026-01-02",
        causationid=cause,
        correlationid="c",
    ).body


def told(history: Sequence[Happened], *, wrong_clocks: bool = False) -> list[tuple[str, bytes]]:
    """Stream and bytes of every event, as they happened."""
    sequences: Counter[str] = Counter()
    ids: list[str] = []
    events = []
    for number, each in enumerate(history):
        cause = ids[number - each.cause] if 0 < each.cause <= number else "a-command"
        sequences[each.stream] += 1
        clock = {"minute": each.minute} if wrong_clocks else {"second": number}
        events.append((each.stream, event(each.stream, sequences[each.stream], cause, **clock)))
        ids.append(f"{each.stream}/{sequences[each.stream]}")
    return events


def split(events: Sequence[tuple[str, bytes]], partitioning: Sequence[int]) -> list[list[Record]]:
    partitions: list[list[Record]] = [[] for _ in range(4)]
    for stream, body in events:
        place = partitioning[STREAMS.index(stream)]
        partitions[place].append(Record(place, len(partitions[place]), body))
    return partitions


def records(*partitions: Sequence[bytes]) -> list[list[Record]]:
    return [
        [Record(place, number, body) for number, body in enumerate(bodies)]
        for place, bodies in enumerate(partitions)
    ]


def ordered(partitions: Sequence[Sequence[Record]]) -> list[Record]:
    """The order; whatever it is, every record is there once, and behind those before it in its partition."""
    order = list(in_causal_order(partitions, lambda record: record.body))
    assert sorted(order) == sorted(chain.from_iterable(partitions))
    for place, partition in enumerate(partitions):
        assert [record for record in order if record.partition == place] == list(partition)
    return order


def assert_causes_come_first(order: Sequence[Record]) -> None:
    known = {document["id"] for document in map(json.loads, (record.body for record in order))}
    come = set()
    for record in order:
        document = json.loads(record.body)
        cause = document["causationid"]
        assert cause in come or cause not in known, f"{document['id']} comes before {cause}"
        come.add(document["id"])


# ----------------------------------------------------------------------------------------------- any history


@given(histories, partitionings)
def test_an_event_comes_behind_its_cause_however_wrong_the_clocks_are(history, partitioning):
    assert_causes_come_first(ordered(split(told(history, wrong_clocks=True), partitioning)))


@given(histories, partitionings)
def test_an_event_comes_behind_its_cause_also_where_others_were_lost(history, partitioning):
    kept = [each for each, what in zip(told(history), history, strict=True) if not what.is_lost]
    assert_causes_come_first(ordered(split(kept, partitioning)))


@given(histories, partitionings)
def test_with_right_clocks_the_order_is_that_in_which_it_happened(history, partitioning):
    events = told(history)
    assert [record.body for record in ordered(split(events, partitioning))] == [body for _, body in events]


rubbish = st.one_of(
    st.binary(max_size=40),
    st.just(b'{"time":"2026-01-02T20:00:00.000000Z","causationid":"wallet/main/7"'),
    st.just(b'{"stream":"wallet/main","sequence":"many","previous":null,"causationid":"game/op.T1/0"}'),
    # Somebody else's: rings, and causes that never were.
    st.builds(
        event,
        st.sampled_from(STREAMS),
        st.integers(1, 50),
        st.sampled_from([f"{stream}/{sequence}" for stream in STREAMS for sequence in (1, 2, 3, 50, 10**17)]),
    ),
)


@given(
    histories, partitionings, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40), rubbish), max_size=12)
)
@example([], [0, 0, 0, 0], [])
def test_whatever_else_is_on_the_bus_nothing_is_lost_and_nothing_waits_for_ever(
    history, partitioning, strewn
):
    kept = [
        each for each, what in zip(told(history, wrong_clocks=True), history, strict=True) if not what.is_lost
    ]
    bodies = [[record.body for record in partition] for partition in split(kept, partitioning)]
    for place, at, body in strewn:
        bodies[place].insert(at, body)
    ordered(records(*bodies))


# ------------------------------------------------------------------------------------------- one thing each


def test_no_partitions_and_empty_ones_are_an_empty_order():
    assert ordered([]) == []
    assert ordered(records([], [], [])) == []


def test_causes_in_a_ring_are_broken_where_it_is_earliest():
    one = event("game/op.T1", 1, "wallet/main/1", second=2)
    other = event("wallet/main", 1, "game/op.T1/1", second=1)
    behind = event("wallet/main", 2, "game/op.T1/1", second=3)
    assert [record.body for record in ordered(records([one], [other, behind]))] == [other, one, behind]


def test_an_event_that_names_itself_or_a_later_one_of_its_own_stream_is_not_waited_for():
    bodies = [
        event("game/op.T1", 1, "game/op.T1/1"),
        event("game/op.T1", 2, "game/op.T1/3"),
        event("game/op.T1", 3),
    ]
    assert [record.body for record in ordered(records(bodies))] == bodies


def test_a_missing_cause_holds_up_nobody_but_who_names_it():
    card = event("game/op.T1", 1, "wallet/main/9", second=1)
    seal = event("wallet/main", 1, second=2)
    other_card = event("game/op.T2", 1, "wallet/main/1", second=3)
    assert [record.body for record in ordered(records([card], [seal], [other_card]))] == [
        seal,
        other_card,
        card,
    ]


def test_a_hole_at_one_table_does_not_put_the_other_out_of_order():
    """Wallet's first event was lost. Who waits for it goes on, and not who waits for one that is to come."""
    one = [
        event("game/op.T1", 1, "wallet/main/1", second=2),
        event("game/op.T1", 2, "wallet/main/1", second=3),
    ]
    other = [event("game/op.T2", 1, "wallet/main/3", second=6), event("game/op.T2", 2, second=7)]
    wallet = [
        event("wallet/main", 2, "game/op.T1/2", second=4),
        event("wallet/main", 3, "game/op.T2/9", second=5),
    ]
    order = [record.body for record in ordered(records(other, one, wallet))]
    assert order == [*one, *wallet, *other]


def test_a_later_event_of_a_stream_says_that_the_cause_will_not_come_any_more():
    card = event("game/op.T1", 1, "wallet/main/2", second=1)
    wallet = [
        event("wallet/main", 1, second=2),
        event("wallet/main", 3, second=3),
        event("wallet/main", 4, second=4),
    ]
    order = [record.body for record in ordered(records([card], wallet))]
    assert order == [*wallet[:2], card, wallet[2]]


def test_a_record_that_cannot_be_read_waits_for_nobody():
    waiting = event("game/op.T1", 1, "wallet/main/1")
    order = ordered(records([waiting], [b"\xff\xfe", b"", b"[]"], [event("wallet/main", 1)]))
    assert [record.body for record in order][:3] == [b"\xff\xfe", b"", b"[]"]
    assert order[-1].body == waiting


def test_what_was_published_twice_comes_twice():
    seal, card = event("wallet/main", 1, second=1), event("game/op.T1", 1, "wallet/main/1", second=2)
    order = [record.body for record in ordered(records([card, card], [seal, seal]))]
    assert order == [seal, seal, card, card]


def test_a_longer_number_than_any_stream_has_is_no_cause():
    body = event("game/op.T1", 1, "wallet/main/" + "9" * 60)
    assert ordered(records([body]))[0].body == body


def test_no_more_than_one_record_of_a_partition_is_read_ahead():
    """So memory does not grow with the partitions' length, whatever waits for what."""
    read = 0

    def counted(partition: Sequence[Record]) -> Iterator[Record]:
        nonlocal read
        for record in partition:
            read += 1
            yield record

    history = [Happened(STREAMS[n % 4], n % 7, n * 7 % 60, n % 9 == 0) for n in range(50)]
    partitions = split(told(history, wrong_clocks=True), [0, 1, 2, 3])
    for come, _ in enumerate(in_causal_order([counted(each) for each in partitions], lambda each: each.body)):
        assert read <= come + 4


# ------------------------------------------------------------------------- what a verifier has to remember


BETS = (Bet("player", 1_000), Bet("banker", 2_000, account="bob", seat=2))


def dealt(coups: int) -> Story:
    story = Story().open()
    for number in range(1, coups + 1):
        story.coup("KS 2H 9C 5D", BETS, number=number, shoe=f"S{number // 8}")
    return story


def voided(coups: int) -> Story:
    """Nobody waits for anybody: what game says of a coup that is void has no cause at wallet's."""
    story = Story().open()
    for number in range(1, coups + 1):
        story.coup("", BETS, number=number, void="misdeal")
    return story


def most_open(events: Iterator[Recorded[Any]]) -> int:
    verifier = Verifier()
    most = 0
    for each in events:
        assert not [said for said in verifier.observe(each) if "discrepancy" in said.type_name()]
        most = max(most, verifier.open_coups)
    assert verifier.open_coups == 0
    return most


def by_stream(story: Story, body: Callable[[Recorded[Any]], bytes]) -> Iterator[Recorded[Any]]:
    return in_causal_order([story.stream(story.game), story.stream(story.wallet)], body)


@pytest.mark.parametrize("coups", [20, 400])
@pytest.mark.parametrize("tell", [dealt, voided])
def test_one_table_never_has_more_than_one_coup_open(tell, coups):
    assert most_open(by_stream(tell(coups), lambda each: each.body)) == 1


@pytest.mark.parametrize("coups", [20, 400])
@pytest.mark.parametrize(("slow", "most"), [("game/", 2), ("wallet/", 1)])
def test_a_service_whose_clock_is_an_hour_slow_is_at_most_one_coup_ahead(slow, most, coups):
    def as_its_clock_says(each: Recorded[Any]) -> bytes:
        return each.body.replace(b"T20:", b"T19:", 1) if each.stream.startswith(slow) else each.body

    assert most_open(by_stream(dealt(coups), as_its_clock_says)) == most


def test_read_one_stream_after_the_other_a_verifier_would_have_to_remember_them_all():
    story = dealt(20)
    assert most_open(chain(story.stream(story.game), story.stream(story.wallet))) == 20


TABLES = 4


@pytest.mark.parametrize("coups", [8, 32])
def test_four_tables_of_a_room_have_at_most_two_coups_each_open(tmp_path, coups):
    deliveries = played(tmp_path, coups)
    for partitions in (1, 3):
        merged = in_causal_order(spread(deliveries, partitions), lambda each: each.body)
        decoded = (decode(each.body) for each in merged if each.topic != "audit.events")
        assert TABLES <= most_open(decoded) <= 2 * TABLES


def played(data, coups: int) -> list[Delivery]:
    """What a room of four tables has published."""
    ids, rng = SeededIds("causality"), SeededRng("causality")
    with LocalRoom(
        Installation(data), Settings(operator=OPERATOR), clock=SystemClock(), ids=ids, rng=rng
    ) as room:
        plan = Plan(shoes=None, coups=coups)
        tables = [
            VirtualTable(room, f"T{n}", shipped_houses()["nl"], seats=2, plan=plan, rng=SeededRng(str(n)))
            for n in range(TABLES)
        ]
        play(room, tables, lambda _: None)
        return [delivery for topic in TOPICS for delivery in room.bus.read(topic)]


def spread(deliveries: Sequence[Delivery], partitions: int) -> list[list[Delivery]]:
    """Over so many partitions of each topic, by key, as Kafka does it."""
    found: dict[tuple[str, int], list[Delivery]] = defaultdict(list)
    for each in deliveries:
        found[each.topic, zlib.crc32((each.key or "").encode()) % partitions].append(each)
    return list(found.values())
