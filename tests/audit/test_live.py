"""Audit at work: what should not be on the bus is a finding, and what it does not know is still evidence."""

import json
import sqlite3
from contextlib import closing

import pytest

from schemas.commands.game import VoidCoup
from schemas.envelope import decode, encode, hash_of
from schemas.events.audit import DiscrepancyFound
from schemas.events.game import CoupConcluded, SeatTaken
from schemas.house import shipped_houses
from services.audit.store import read_evidence
from services.audit.verify import verify
from services.room.local import LocalRoom
from services.room.tables import Plan, VirtualTable, play
from services.runtime.database import open_sqlite
from services.runtime.installation import Installation
from services.runtime.ports import Record
from services.runtime.ports_system import SeededIds, SeededRng, SystemClock
from services.runtime.settings import Settings


@pytest.fixture
def room(tmp_path):
    ids, rng = SeededIds("live"), SeededRng("live")
    with LocalRoom(Installation(tmp_path), Settings(), clock=SystemClock(), ids=ids, rng=rng) as room:
        yield room


def play_coups(room, coups):
    table = VirtualTable(
        room,
        f"T{coups}",
        shipped_houses()["nl"],
        seats=2,
        plan=Plan(shoes=None, coups=coups),
        rng=SeededRng("bets"),
    )
    play(room, [table], lambda _: None)


def findings(room):
    said = (decode(each.body).data for each in room.bus.read("audit.events"))
    return [(each.check, each.stream, each.sequence) for each in said if isinstance(each, DiscrepancyFound)]


def waiting(room):
    assert room.audit is not None
    return room.audit.inbox.held


def last_of(room, topic):
    return decode(list(room.bus.read(topic))[-1].body)


def following(event, seat=5, type_name=None):
    """An event that continues a stream of game, as bytes."""
    made = encode(
        SeatTaken(operator="main", table=event.data.table, seat=seat),
        source="sabot/game",
        stream=event.stream,
        sequence=event.sequence + 1,
        previous=event.hash,
        time=event.envelope.time,
        gamingday=event.envelope.gamingday,
        causationid="c",
        correlationid="c",
    )
    return made.body if type_name is None else made.body.replace(b"sabot.game.seat.taken.v1", type_name)


def publish(room, event, body):
    room.bus.publish([Record("game.events", event.stream, body)])
    room.settle()


def test_money_case_21_junk_between_good_events_is_one_finding_and_both_are_applied(room):
    play_coups(room, 2)
    room.bus.publish([Record("wallet.events", "main", b'{"amount":')])
    play_coups(room, 3)
    assert [check for check, _, _ in findings(room)] == ["bus_not_ours"]
    assert waiting(room) == {}
    assert verify(room.installation).verified == 5


def test_what_audit_met_on_the_bus_once_is_told_and_does_not_count_for_ever(room):
    play_coups(room, 2)
    room.bus.publish([Record("wallet.events", "main", b"junk")])
    play_coups(room, 3)
    assert [finding.check for finding in verify(room.installation).findings] == ["integrity_extra"]
    with closing(sqlite3.connect(room.installation.data / "bus.db")) as bus:
        bus.execute("DELETE FROM record WHERE body = ?", (b"junk",))
        bus.commit()
    result = verify(room.installation)
    assert (result.ok, [notice.check for notice in result.notices]) == (True, ["bus_not_ours"])


def test_an_event_that_came_again_with_other_bytes_is_a_finding(room):
    play_coups(room, 1)
    last = last_of(room, "game.events")
    document = json.loads(last.body)
    document["time"] = "2020-01-01T00:00:00.000000Z"
    publish(room, last, json.dumps(document, separators=(",", ":")).encode())
    assert findings(room) == [("bus_other_bytes", last.stream, last.sequence)]


def test_a_gap_is_said_once_and_holds_that_stream_only(room):
    play_coups(room, 1)
    last = last_of(room, "game.events")
    second = decode(following(last))
    third = decode(following(second, seat=6))
    publish(room, last, third.body)
    publish(room, last, following(third, seat=7))
    assert findings(room) == [("bus_gap", last.stream, third.sequence)]
    assert list(waiting(room)) == [last.stream]
    play_coups(room, 2)
    assert waiting(room).keys() == {last.stream}


def test_an_event_that_does_not_follow_the_bytes_before_it_is_a_finding(room):
    play_coups(room, 1)
    last = last_of(room, "game.events")
    publish(room, last, following(last).replace(last.hash.encode(), b"0" * 64))
    assert findings(room) == [("bus_chain_break", last.stream, last.sequence + 1)]


def test_a_newer_version_pauses_its_stream_with_a_finding(room):
    play_coups(room, 1)
    last = last_of(room, "game.events")
    publish(room, last, following(last, type_name=b"sabot.game.seat.taken.v2"))
    assert findings(room) == [("bus_newer", last.stream, last.sequence + 1)]
    assert "upgrade" in waiting(room)[last.stream]


def test_an_unknown_type_keeps_its_place_and_stands_in_audits_record(room):
    play_coups(room, 1)
    last = last_of(room, "game.events")
    body = following(last, type_name=b"sabot.game.seat.warmed.v1")
    publish(room, last, body)
    assert findings(room) == []
    with open_sqlite(room.installation.data / "audit.db", writer=False).connect() as db:
        recorded = dict(read_evidence(db, last.stream))
    assert recorded[last.sequence + 1] == hash_of(body)


def test_what_is_missing_from_an_end_is_a_finding_only_where_nobody_is_at_work(room, tmp_path_factory):
    play_coups(room, 2)
    at_rest = tmp_path_factory.mktemp("rest")
    for name in ("game.db", "wallet.db", "audit.db", "bus.db"):
        with (
            closing(sqlite3.connect(room.installation.data / name)) as source,
            closing(sqlite3.connect(at_rest / name)) as copy,
        ):
            source.backup(copy)
    with closing(sqlite3.connect(at_rest / "bus.db")) as bus:
        bus.execute('DELETE FROM record WHERE "offset" = (SELECT max("offset") FROM record)')
        bus.commit()
    assert [finding.check for finding in verify(Installation(at_rest)).findings] == ["integrity_missing"]
    (at_rest / "wallet.db-wal").touch()  # as an interrupted service leaves it
    result = verify(Installation(at_rest))
    assert (result.ok, [notice.check for notice in result.notices]) == (True, ["integrity_missing"])


def test_a_coup_that_was_judged_long_ago_is_corrected(tmp_path):
    """What live audit must know of it comes back from its database; a replay keeps only such coups."""
    ids, rng = SeededIds("live"), SeededRng("live")
    with LocalRoom(Installation(tmp_path), Settings(), clock=SystemClock(), ids=ids, rng=rng) as room:
        play_coups(room, 3)
        ended = [event.data for event in events(room, "game.events") if isinstance(event.data, CoupConcluded)]
    with LocalRoom(Installation(tmp_path), Settings(), clock=SystemClock(), ids=ids, rng=rng) as room:
        names = {"operator": "main", "table": "T3", "shoe": ended[1].shoe, "coup": ended[1].coup}
        names |= {"reason": "a card was exposed", "initiator": "ann", "approver": "bob"}
        room.result(room.game.submit(VoidCoup.model_validate(names)))
        room.settle()
        verdicts = [event.data for event in events(room, "audit.events")]
        assert findings(room) == []
    assert [(each.coup, each.version, each.status) for each in verdicts][-1] == (ended[1].coup, 2, "void")
    result = verify(Installation(tmp_path))
    assert result.findings == []
    assert (result.ok, result.verified, result.void, result.corrected) == (True, 3, 1, 1)


def events(room, topic):
    return [decode(each.body) for each in room.bus.read(topic)]
