"""A flipped byte at any of the three places is found, and the place is named."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.envelope import Recorded, hash_of
from schemas.events.audit import CoupVerified
from schemas.events.wallet import BetAccepted
from services.audit.core.bytework import difference_in_words, links_of, place_in, place_records
from services.audit.core.integrity import (
    BUS,
    EVERYWHERE,
    RECORD,
    UNDECIDED,
    Difference,
    Head,
    compare,
    store_of,
)
from tests.audit.builder import Story
from tests.audit.stories import plain, said


class Places:
    """The places of one stream, each to be damaged by itself."""

    def __init__(self, events: list[Recorded[Any]], *, record: bool = True) -> None:
        self.stream = events[0].stream
        self.events = events
        self.store = [(event.sequence, event.body) for event in events]
        self.bus = [event.body for event in events]
        self.record = [(event.sequence, event.hash) for event in events] if record else None
        self.store_head = self.record_head = Head(events[-1].sequence, events[-1].hash)

    def compare(self) -> list[Difference]:
        known = {event.sequence: event.hash for event in self.events}
        return list(
            compare(
                self.stream,
                store=self.store,
                bus=place_records(self.stream, self.bus),
                record=self.record,
                store_head=self.store_head,
                record_head=self.record_head,
                known=known.get,
            )
        )

    @property
    def own_store(self) -> str:
        return store_of(self.stream)


def flipped(body: bytes, at: int, bit: int) -> bytes:
    changed = bytearray(body)
    changed[at] ^= 1 << bit
    return bytes(changed)


STORY = plain()
GAME, WALLET = STORY.stream(STORY.game), STORY.stream(STORY.wallet)


def audit_stream() -> list[Recorded[Any]]:
    story = Story()
    for verdict in said(STORY.events):
        if isinstance(verdict, CoupVerified):
            story.write(verdict, "audit/op")
    return story.events


def positions(length: int, chance: random.Random) -> Iterator[tuple[int, int]]:
    """The ends, and a sample of everything in between."""
    for at in {0, 1, length - 2, length - 1, *(chance.randrange(length) for _ in range(8))}:
        yield at, chance.randrange(8)


# ------------------------------------------------------------------------------------- one flipped byte


def test_nothing_is_found_where_nothing_is_wrong():
    for events in (GAME, WALLET, GAME[:1], WALLET[:2], audit_stream()):
        assert Places(events).compare() == []
        assert Places(events, record=False).compare() == []


@pytest.mark.parametrize("record", [True, False], ids=["three places", "two places"])
@pytest.mark.parametrize("events", [GAME, WALLET, GAME[:1], GAME[:2]], ids=["game", "wallet", "one", "two"])
def test_a_flipped_byte_in_any_event_of_the_store(events, record):
    chance = random.Random(1)
    for index, event in enumerate(events):
        for at, bit in positions(len(event.body), chance):
            places = Places(events, record=record)
            places.store[index] = (event.sequence, flipped(event.body, at, bit))
            (found,) = places.compare()
            assert (found.place, found.kind, found.sequence) == (places.own_store, "changed", event.sequence)
            assert not found.harmless


@pytest.mark.parametrize("record", [True, False], ids=["three places", "two places"])
@pytest.mark.parametrize("events", [GAME, WALLET, GAME[:1], GAME[:2]], ids=["game", "wallet", "one", "two"])
def test_a_flipped_byte_in_any_event_of_the_bus(events, record):
    chance = random.Random(2)
    for index, event in enumerate(events):
        for at, bit in positions(len(event.body), chance):
            places = Places(events, record=record)
            places.bus[index] = flipped(event.body, at, bit)
            found = places.compare()
            assert {each.place for each in found} == {BUS}, (index, at, bit, found)
            assert event.sequence in {each.sequence for each in found}
            assert not all(each.harmless for each in found)


@pytest.mark.parametrize("events", [GAME, WALLET, GAME[:1], GAME[:2]], ids=["game", "wallet", "one", "two"])
def test_a_flipped_digit_in_any_hash_of_the_record(events):
    for index, event in enumerate(events):
        for digit in range(0, 64, 9):
            places = Places(events)
            other = "0" if event.hash[digit] != "0" else "1"
            assert places.record is not None
            places.record[index] = (event.sequence, event.hash[:digit] + other + event.hash[digit + 1 :])
            (found,) = places.compare()
            assert (found.place, found.kind, found.sequence) == (RECORD, "changed", event.sequence)


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("bit", [0, 3, 7])
def test_every_single_byte_of_a_short_stream(index, bit):
    events = GAME[:2]
    for at in range(len(events[index].body)):
        changed = flipped(events[index].body, at, bit)
        places = Places(events)
        places.store[index] = (index + 1, changed)
        assert [(each.place, each.sequence) for each in places.compare()] == [("game's store", index + 1)]
        places = Places(events)
        places.bus[index] = changed
        found = places.compare()
        assert {each.place for each in found} == {BUS}, (at, found)
        assert index + 1 in {each.sequence for each in found}


def test_a_finding_says_the_coup_and_what_differs():
    bet = STORY.of(BetAccepted)[1]
    places = Places(WALLET)
    places.store[bet.sequence - 1] = (bet.sequence, bet.body.replace(b'"stake":2050', b'"stake":9050'))
    (found,) = places.compare()
    assert found.about == ("T1", "S1", 1)
    assert found.words == (
        f"wallet's store has another event {bet.sequence} of wallet/main: data.stake is 9050 instead of 2050"
    )
    payload = found.finding("op")
    assert (payload.check, payload.table, payload.shoe, payload.coup) == ("integrity_changed", "T1", "S1", 1)
    assert (payload.recorded, payload.expected) == (hash_of(places.store[bet.sequence - 1][1]), bet.hash)


# -------------------------------------------------------------------------- events too few and too many


@pytest.mark.parametrize("events", [GAME, GAME[:1], GAME[:2]], ids=["game", "one", "two"])
def test_a_missing_event(events):
    for index, event in enumerate(events):
        for name in ("store", "bus", "record"):
            places = Places(events)
            del getattr(places, name)[index]
            (found,) = places.compare()
            where = {"store": "game's store", "bus": BUS, "record": RECORD}[name]
            assert (found.place, found.kind, found.sequence) == (where, "missing", event.sequence)
            assert found.tail is (index == len(events) - 1)
            assert "is missing from" in found.words


def test_a_missing_stretch_is_one_finding():
    for name in ("store", "bus", "record"):
        places = Places(GAME)
        del getattr(places, name)[4:9]
        (found,) = places.compare()
        assert (found.kind, found.sequence, found.about) == ("missing", 5, ("T1", "S1", 1))
        assert found.words.startswith("events 5 to 9 are missing from")
        places = Places(GAME)
        del getattr(places, name)[4:]
        (found,) = places.compare()
        assert found.tail


def test_an_event_that_is_missing_everywhere():
    places = Places(GAME)
    assert places.record is not None
    del places.store[6], places.bus[6], places.record[6]
    assert [(each.place, each.kind, each.words) for each in places.compare()] == [
        (EVERYWHERE, "missing", "event 7 is missing from game/op.T1, at every place")
    ]


def test_an_event_too_many_at_the_end():
    for name, where in (("store", "game's store"), ("bus", BUS), ("record", RECORD)):
        places = Places(GAME[:-1])
        last = GAME[-1]
        item = {"store": (last.sequence, last.body), "bus": last.body, "record": (last.sequence, last.hash)}[
            name
        ]
        getattr(places, name).append(item)
        (found,) = places.compare()
        assert (found.place, found.kind, found.sequence) == (where, "extra", last.sequence)


def test_what_only_the_store_has_and_its_head_names_is_missing_elsewhere():
    places = Places(GAME[:-1])
    places.store.append((GAME[-1].sequence, GAME[-1].body))
    places.store_head = Head(GAME[-1].sequence, GAME[-1].hash)
    found = places.compare()
    assert [(each.place, each.kind, each.tail) for each in found] == [
        (BUS, "missing", True),
        (RECORD, "missing", True),
        (RECORD, "head", False),
    ]


def test_a_repeated_record_on_the_bus_is_said_and_harmless():
    for copies in (GAME[6:7], GAME[3:9]):
        places = Places(GAME)
        places.bus[12:12] = [event.body for event in copies]
        found = places.compare()
        assert [(each.place, each.kind, each.sequence) for each in found] == [
            (BUS, "repeated", event.sequence) for event in copies
        ]
        assert all(each.harmless for each in found)


def test_the_last_event_repeated():
    places = Places(GAME)
    places.bus.append(GAME[-1].body)
    (found,) = places.compare()
    assert (found.kind, found.sequence, found.harmless) == ("repeated", GAME[-1].sequence, True)


def test_a_repeated_row_in_the_store_is_not_harmless():
    places = Places(GAME)
    places.store.insert(6, places.store[6])
    (found,) = places.compare()
    assert (found.place, found.kind, found.sequence, found.harmless) == ("game's store", "repeated", 7, False)


def test_a_repeated_record_with_other_bytes():
    places = Places(GAME)
    places.bus.insert(12, GAME[4].body.replace(b'"coup":1', b'"coup":2'))
    (found,) = places.compare()
    assert (found.place, found.kind, found.sequence) == (BUS, "extra", 5)
    assert not found.harmless
    assert "with other bytes" in found.words


@pytest.mark.parametrize(
    "garbage", [b"", b"\xff\xfe", b'{"amount":', b"null", b'{"stream":5}', WALLET[3].body]
)
def test_a_record_that_is_none_of_the_stream(garbage):
    for at in (0, 5, len(GAME)):
        places = Places(GAME)
        places.bus.insert(at, garbage)
        found = places.compare()
        assert {each.place for each in found} == {BUS}
        assert {each.kind for each in found} <= {"extra"}


# ---------------------------------------------------------------------------- heads, and larger damage


def test_a_changed_head():
    for name, where in (("store_head", "game's store"), ("record_head", RECORD)):
        for head, words in (
            (Head(GAME[-1].sequence, "0" * 64), "with another hash than it has"),
            (
                Head(3, GAME[2].hash),
                f"recorded event 3 as the last of game/op.T1, and the last is {len(GAME)}",
            ),
        ):
            places = Places(GAME)
            setattr(places, name, head)
            (found,) = places.compare()
            assert (found.place, found.kind) == (where, "head")
            assert words in found.words


def test_a_store_that_was_cut_off_together_with_its_head():
    places = Places(GAME)
    del places.store[-2:]
    places.store_head = Head(GAME[-3].sequence, GAME[-3].hash)
    assert [(each.place, each.kind) for each in places.compare()] == [
        ("game's store", "missing"),
        ("game's store", "head"),
    ]


def test_the_same_change_in_store_and_bus_against_the_record():
    places = Places(GAME)
    changed = GAME[4].body.replace(b'"coup":1', b'"coup":2')
    places.store[4], places.bus[4] = (5, changed), changed
    found = places.compare()
    assert [(each.place, each.kind, each.sequence) for each in found] == [
        ("game's store", "changed", 5),
        (BUS, "changed", 5),
    ]
    assert "with other bytes than those that were hashed" in found[0].words


def test_a_store_that_was_written_anew_from_some_event_on():
    """Somebody changes a payout and chains everything behind it again: the bus and the record know better."""
    other = plain(
        lambda payload: (
            payload.model_copy(update={"stake": 7}) if isinstance(payload, BetAccepted) else payload
        )
    )
    rewritten = other.stream(other.wallet)
    places = Places(WALLET)
    places.store = [(event.sequence, event.body) for event in rewritten]
    places.store_head = Head(rewritten[-1].sequence, rewritten[-1].hash)
    found = places.compare()
    assert {each.place for each in found} == {"wallet's store"}
    assert found[0].sequence == STORY.of(BetAccepted)[0].sequence
    assert found[-1].kind == "head"


def test_three_different_last_events_are_not_decided():
    places = Places(GAME)
    assert places.record is not None
    places.store[-1] = (len(GAME), GAME[-1].body + b" ")
    places.bus[-1] = GAME[-1].body + b"  "
    places.store_head = Head(len(GAME), "1" * 64)
    places.record_head = Head(len(GAME), "2" * 64)
    places.record[-1] = (len(GAME), "3" * 64)
    assert places.compare()[0].place == UNDECIDED


def test_a_chain_that_is_broken_in_all_places():
    places = Places(GAME)
    wrong = GAME[5].body.replace(GAME[5].envelope.previous.encode(), b"0" * 64)
    assert places.record is not None
    places.store[5], places.bus[5], places.record[5] = (6, wrong), wrong, (6, hash_of(wrong))
    found = places.compare()
    assert [(each.place, each.kind, each.sequence) for each in found][:1] == [(EVERYWHERE, "chain", 6)]


def test_what_cannot_be_read_at_any_place():
    places = Places(GAME[:1])
    junk = b"\x00\xff" * 20
    places.store, places.bus, places.record = [(1, junk)], [junk], [(1, hash_of(junk))]
    places.store_head = places.record_head = Head(1, hash_of(junk))
    (found,) = places.compare()
    assert (found.place, found.kind) == (EVERYWHERE, "unreadable")


def test_an_event_that_calls_itself_another():
    places = Places(GAME[:1])
    other = GAME[0].body.replace(b'"stream":"game/op.T1"', b'"stream":"game/op.T2"')
    places.store, places.record = [(1, other)], [(1, hash_of(other))]
    places.store_head = places.record_head = Head(1, hash_of(other))
    found = list(
        compare(
            places.stream,
            store=places.store,
            bus=[(1, other)],
            record=places.record,
            store_head=places.store_head,
        )
    )
    assert [each.kind for each in found] == ["chain"]
    assert found[0].words == "event 1 of game/op.T1 calls itself event 1 of game/op.T2"


@given(st.data())
def test_any_damage_is_survived_and_named(data):
    """Random bytes over random events of one place: it never fails, and no other place is blamed."""
    places = Places(GAME)
    where = data.draw(st.sampled_from(["store", "bus"]))
    for _ in range(data.draw(st.integers(1, 4))):
        index = data.draw(st.integers(0, len(GAME) - 1))
        body = data.draw(st.binary(max_size=40) | st.just(b"[" * 100_000) | st.just(b'{"data":' * 5_000))
        if where == "store":
            places.store[index] = (index + 1, body)
        else:
            places.bus[index] = body
    found = places.compare()
    assert found
    assert {each.place for each in found} == {"game's store" if where == "store" else BUS}
    for each in found:
        each.finding("op")


# ------------------------------------------------------------------------------------------- small parts


def test_places_in_a_log_are_those_of_the_stream():
    bodies = [event.body for event in GAME]
    assert list(place_records(STORY.game, bodies)) == [(event.sequence, event.body) for event in GAME]
    assert list(place_records("game/other", bodies[:3])) == [(1, bodies[0]), (2, bodies[1]), (3, bodies[2])]
    garbage = [b"x"] * 1_001
    assert [place for place, _ in place_records(STORY.game, [*garbage, *bodies])] == [0] * 1_001 + list(
        range(1, len(bodies) + 1)
    )


def test_what_bytes_say_of_themselves():
    event = GAME[4]
    assert links_of(event.body) == (event.stream, 5, event.envelope.previous)
    assert links_of(b'{"sequence": 5, "previous": "a", "stream": "s"}') == ("s", 5, "a")
    assert links_of(b'{"sequence": "5"}') is None
    assert place_in(event.body) == ("T1", "S1", 1)
    assert place_in(b'{"data": {"table": "no spaces", "shoe": 7, "coup": true}}') == (None, None, None)
    assert place_in(b'{"data": []}') == place_in(b"junk") == place_in(None) == (None, None, None)


@pytest.mark.parametrize(
    ("good", "bad", "words"),
    [
        (b'{"a": 1}', b'{"a": 2}', "a is 2 instead of 1"),
        (b'{"a": {"b": [1, 2]}}', b'{"a": {"b": [1, 3]}}', "a.b[1] is 3 instead of 2"),
        (b'{"a": {"b": [1, 2]}}', b'{"a": {"b": [1]}}', "a.b is [1] instead of [1, 2]"),
        (b'{"a": 1}', b'{"b": 1}', "a is absent instead of 1; b is 1 instead of absent"),
        (b'{"a": 1}', b'{"a": true}', "a is true instead of 1"),
        (b'{"a": 1}', b'{"a":  1}', "the same content is written in other bytes"),
        (b'{"a": 1}', b'{"a": 1', "it has 7 bytes instead of 8"),
        (b'{"a": 1}', b'{"a\xff: 1}', "byte 4 is 0xff instead of 0x22"),
        (
            b'{"a": 1, "b": 1, "c": 1, "d": 1}',
            b'{"a": 2, "b": 2, "c": 2, "d": 2}',
            "a is 2 instead of 1; b is 2 instead of 1; c is 2 instead of 1; and 1 more",
        ),
        (b'{"a": "%s"}' % (b"x" * 99), b'{"a": 1}', f'a is 1 instead of "{"x" * 76}…'),
    ],
)
def test_differences_in_words(good, bad, words):
    assert difference_in_words(good, bad) == words
