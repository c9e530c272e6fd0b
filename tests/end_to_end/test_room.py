"""The room waits for a bus that is away, and says what it waits for when that takes too long."""

import pytest

from schemas.house import shipped_houses
from services.audit.verify import verify
from services.room import local
from services.room.local import LocalRoom
from services.room.room import Stalled
from services.room.tables import Plan, VirtualTable, play
from services.runtime.installation import Installation
from services.runtime.ports import BusUnavailable
from services.runtime.ports_system import SeededIds, SeededRng, SystemClock
from services.runtime.settings import Settings


@pytest.fixture
def room(tmp_path):
    ids, rng = SeededIds("room"), SeededRng("room")
    with LocalRoom(Installation(tmp_path), Settings(), clock=SystemClock(), ids=ids, rng=rng) as room:
        yield room


def table_of(room):
    plan = Plan(shoes=None, coups=3)
    return VirtualTable(room, "T1", shipped_houses()["nl"], seats=2, plan=plan, rng=SeededRng("bets"))


def test_a_bus_that_is_away_for_a_while_costs_nothing_but_time(room, monkeypatch):
    publish = room.bus.publish
    refused: list[object] = []

    def unsteady(records):
        if len(refused) % 30 != 29:
            refused.append(records)
            raise BusUnavailable("away")
        refused.append(records)
        publish(records)

    monkeypatch.setattr(room.bus, "publish", unsteady)
    play(room, [table_of(room)], lambda _: None)
    assert len(refused) > 30
    assert verify(room.installation).verified == 3


def test_a_bus_that_stays_away_is_named(room, monkeypatch):
    table = table_of(room)
    room.settle()

    def away(records):
        raise BusUnavailable("away")

    monkeypatch.setattr(room.bus, "publish", away)
    monkeypatch.setattr(local, "_STALLED_SECONDS", 0.2)
    with pytest.raises(Stalled, match=r"the bus does not take \d+ events of game"):
        play(room, [table], lambda _: None)
