"""The envelope: bytes are made once, say their place, and mean one thing only."""

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas.envelope import (
    EVENT_BYTES_MAX,
    FIRST_PREVIOUS,
    DecodeError,
    NewerVersion,
    NotOurs,
    TooLong,
    UnknownType,
    decode,
    encode,
    hash_of,
)
from schemas.events import EVENTS
from schemas.events.accounts import AccountOpened, Deposited
from schemas.events.game import CoupConcluded, CoupVoided, SeatLeft, SeatTaken
from schemas.events.wallet import (
    ConflictDetected,
)
from tests.contracts.streams import NOON, Stream

SEAT = SeatTaken(operator="op", table="T1", seat=1)


def made(payload=SEAT, **changes):
    attributes: dict[str, Any] = {
        "source": "sabot/test",
        "stream": "game/op.T1",
        "sequence": 1,
        "previous": FIRST_PREVIOUS,
        "time": NOON,
        "gamingday": "2026-03-01",
        "causationid": "c-1",
        "correlationid": "c-0",
    }
    return encode(payload, **(attributes | changes))


BODY = made().body


def changed(old: bytes, new: bytes) -> bytes:
    assert BODY.count(old) == 1
    return BODY.replace(old, new)


def test_an_event_is_a_cloud_event_in_structured_json():
    assert json.loads(BODY) == {
        "specversion": "1.0",
        "id": "game/op.T1/1",
        "source": "sabot/test",
        "type": "sabot.game.seat.taken.v1",
        "time": "2026-03-01T12:00:00.000000Z",
        "datacontenttype": "application/json",
        "stream": "game/op.T1",
        "sequence": 1,
        "previous": "0" * 64,
        "gamingday": "2026-03-01",
        "causationid": "c-1",
        "correlationid": "c-0",
        "data": {"operator": "op", "table": "T1", "seat": 1},
    }


@given(
    table=st.text(
        st.characters(codec="utf-8", exclude_categories=["Cc", "Zs", "Zl", "Zp"]), min_size=1, max_size=64
    ),
    sequence=st.integers(1, 2**63),
    amount=st.integers(1, 10**30),
    tx=st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=64),
)
def test_what_is_encoded_is_decoded_to_the_same(table, sequence, amount, tx):
    table = table.replace("/", "-")
    seat = made(SeatTaken(operator="op", table=table, seat=99), stream=f"game/op.{table}", sequence=sequence)
    money = made(
        Deposited(operator="op", account="a", tx=tx, currency="EUR", exponent=2, amount=amount, entry=())
    )
    for event in (seat, money):
        again = decode(event.body)
        assert again == event
        assert again.hash == hashlib.sha256(event.body).hexdigest() == hash_of(event.body)


def test_every_type_has_a_name_of_its_own_in_its_services_part():
    assert all(name == payload.type_name() for name, payload in EVENTS.items())
    assert all(name.split(".")[1] in ("game", "wallet", "audit") for name in EVENTS)


@pytest.mark.parametrize(
    "changes",
    [
        {"sequence": 0},
        {"previous": "0" * 63},
        {"previous": "G" * 64},
        {"gamingday": "1 March"},
        {"sequence": "1"},
        {"stream": None},
    ],
)
def test_an_envelope_that_cannot_be_is_not_written(changes):
    with pytest.raises(ValidationError):
        made(**changes)


# -------------------------------------------------------------------------------------------- tampered bytes


@given(place=st.integers(0, len(BODY) - 1), bit=st.integers(0, 7))
def test_any_changed_bit_changes_the_hash(place, bit):
    other = bytearray(BODY)
    other[place] ^= 1 << bit
    assert hash_of(bytes(other)) != hash_of(BODY)
    try:
        event = decode(bytes(other))
    except DecodeError:
        return
    assert event.hash != hash_of(BODY)
    assert event.body == bytes(other)


def test_other_bytes_of_the_same_content_have_another_hash():
    """What is hashed is what went over the wire, never a serialisation of what it means."""
    spaced = json.dumps(json.loads(BODY)).encode()
    assert decode(spaced).envelope == decode(BODY).envelope
    assert decode(spaced).hash != decode(BODY).hash
    assert decode(spaced).body == spaced


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not readable as JSON"),
        (b'{"amount":', "not readable as JSON"),
        (b"\xff\xfe", "not readable as JSON"),
        (b"\xef\xbb\xbf" + BODY, "not readable as JSON"),
        (BODY + b"}", "not readable as JSON"),
        (b"[" * 60_000, "not readable as JSON"),
        (b"[" * 100_000, "more than an event may measure"),
        (b"null", "event"),
        (b"[]", "event"),
        (b'"text"', "event"),
        (b"{}", "id: Field required"),
        (changed(b'"seat":1', b'"seat":"1"'), "data.seat: Input should be a valid integer"),
        (changed(b'"seat":1', b'"seat":1.0'), "data.seat: Input should be a valid integer"),
        (changed(b'"seat":1', b'"seat":true'), "data.seat: Input should be a valid integer"),
        (changed(b'"seat":1', b'"seat":100'), "data.seat: Input should be less than or equal to 99"),
        (changed(b'"seat":1', b'"seat":NaN'), "not readable as JSON"),
        (changed(b',"seat":1', b""), "data.seat: Field required"),
        (changed(b'"operator":"op"', b'"operator":"o.p"'), "data.operator"),
        (changed(b'"table":"T1"', rb'"table":"\ud800"'), "not readable as JSON"),
        (changed(b'"table":"T1"', b'"table":"a/b"'), "data.table"),
        (changed(b'"sequence":1', b'"sequence":-1'), "sequence"),
        (changed(b'"sequence":1', b'"sequence":"1"'), "sequence"),
        (changed(b'"specversion":"1.0"', b'"specversion":"2.0"'), "specversion"),
        (changed(b"sabot.game.seat.taken.v1", b"sabot.game.seat.taken"), "is not one of ours"),
        (changed(b"sabot.game.seat.taken.v1", b"com.example.seat.v1"), "is not one of ours"),
        (changed(b"sabot.game.seat.taken.v1", b"sabot.game.seat.taken.v1 "), "is not one of ours"),
    ],
)
def test_what_is_not_ours_says_why(body, reason):
    with pytest.raises(NotOurs, match=reason):
        decode(body)


# ---------------------------------------------------------------------------------------- types and versions


def test_an_unknown_type_of_ours_keeps_its_place():
    body = changed(b"sabot.game.seat.taken.v1", b"sabot.game.seat.warmed.v1")
    with pytest.raises(UnknownType) as unknown:
        decode(body)
    assert (unknown.value.envelope.stream, unknown.value.envelope.sequence) == ("game/op.T1", 1)
    assert unknown.value.hash == hash_of(body)


def test_a_newer_version_of_a_known_type_says_to_upgrade():
    with pytest.raises(NewerVersion, match="upgrade it") as newer:
        decode(changed(b"sabot.game.seat.taken.v1", b"sabot.game.seat.taken.v2"))
    assert (newer.value.envelope.stream, newer.value.envelope.sequence) == ("game/op.T1", 1)


def test_a_version_before_the_first_is_no_newer_one():
    with pytest.raises(UnknownType):
        decode(changed(b"sabot.game.seat.taken.v1", b"sabot.game.seat.taken.v0"))


def test_fields_that_a_later_version_added_are_tolerated():
    body = changed(b'"seat":1', b'"seat":1,"cushion":"red"').replace(
        b'{"spec', b'{"traceparent":"00","spec', 1
    )
    assert decode(body).data == SEAT


@pytest.mark.parametrize("place", ["before", "inside"])
def test_only_the_events_own_type_counts(place):
    """The first "type" in the bytes may be another's: of a payload, or in a text."""
    if place == "before":
        inner = b'{"operator":"op","table":"T1","seat":1,"type":"sabot.game.seat.left.v1"}'
        rest = BODY[1:].replace(b',"data":{"operator":"op","table":"T1","seat":1}', b"")
        body = b'{"data":' + inner + b"," + rest
    else:
        body = changed(b'"source":"sabot/test"', rb'"source":"\"type\":\"sabot.game.seat.left.v1\""')
    event = decode(body)
    assert type(event.data) is SeatTaken
    assert event.envelope.type == "sabot.game.seat.taken.v1"


def test_a_known_type_inside_the_data_of_a_stranger_does_not_make_it_ours():
    body = b'{"data":{"type":"sabot.game.seat.taken.v1"},' + changed(b"sabot.game.seat.taken.v1", b"x.v1")[1:]
    with pytest.raises(NotOurs, match=r"'x\.v1' is not one of ours"):
        decode(body)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"seat":1', b'"seat":2,"seat":1'),
        (b'"seat":1', b'"seat":"x","seat":1'),
        (b'"sequence":1', b'"sequence":9,"sequence":1'),
        (b'"stream":"game/op.T1"', b'"stream":"game/op.T2","stream":"game/op.T1"'),
        (
            b'"type":"sabot.game.seat.taken.v1"',
            b'"type":"sabot.game.seat.left.v1","type":"sabot.game.seat.taken.v1"',
        ),
        (b'"type":"sabot.game.seat.taken.v1"', b'"type":"x.v1","type":"sabot.game.seat.taken.v1"'),
        (b'"data":{', b'"data":{"seat":5},"data":{'),
    ],
)
def test_of_a_key_that_comes_twice_the_last_counts_as_for_everybody(old, new):
    """Two readers of one text must not read two things: Python, browsers and PostgreSQL take the last."""
    body = changed(old, new)
    event = decode(body)
    document = json.loads(body)
    assert (event.data, event.stream, event.sequence, event.envelope.type) == (
        SEAT,
        document["stream"],
        document["sequence"],
        document["type"],
    )
    assert document["data"]["seat"] == 1


def test_a_last_type_that_differs_from_the_first_decides():
    body = changed(
        b'"type":"sabot.game.seat.taken.v1"',
        b'"type":"sabot.game.seat.taken.v1","type":"sabot.game.seat.left.v1"',
    )
    assert type(decode(body).data) is SeatLeft


# ---------------------------------------------------------------------------------------------------- length


def test_an_event_may_be_as_long_as_a_log_can_take_and_no_longer():
    frame = len(made(CoupVoided(operator="op", table="T", shoe="S", coup=1, reason="")).body)
    longest = "x" * (EVENT_BYTES_MAX - frame)
    event = made(CoupVoided(operator="op", table="T", shoe="S", coup=1, reason=longest))
    assert len(event.body) == EVENT_BYTES_MAX == 65_535
    assert decode(event.body) == event
    with pytest.raises(TooLong, match="would measure 65536 bytes, 65535 at the most"):
        made(CoupVoided(operator="op", table="T", shoe="S", coup=1, reason=longest + "x"))


def test_length_is_counted_in_bytes():
    with pytest.raises(TooLong):
        made(CoupVoided(operator="op", table="T", shoe="S", coup=1, reason="ß" * 33_000))


# ------------------------------------------------------------------------------------------------- the chain


def test_previous_is_the_hash_of_the_bytes_before():
    stream = Stream("wallet/main")
    first, second = (stream.next(AccountOpened(operator="op", account=name)) for name in ("a", "b"))
    assert first.envelope.previous == FIRST_PREVIOUS
    assert second.envelope.previous == hashlib.sha256(first.body).hexdigest()
    assert (first.envelope.id, second.envelope.id) == ("wallet/main/1", "wallet/main/2")


def test_null_and_absent_are_the_same_for_what_may_be_left_out():
    conflict = ConflictDetected(operator="op", kind="idempotency", account="a", tx="t", fields=("spot",))
    body = made(conflict).body
    assert b'"coup":null' in body
    assert decode(body.replace(b'"coup":null,', b"")).data == conflict


def test_a_payload_cannot_be_changed():
    concluded = CoupConcluded(
        operator="op",
        table="T1",
        shoe="S1",
        coup=1,
        version=1,
        outcome="tie",
        player_total=6,
        banker_total=6,
        natural=False,
        cards=4,
        tiers={"tie": "win"},
    )
    with pytest.raises(ValidationError):
        concluded.outcome = "banker"  # type: ignore[misc]
