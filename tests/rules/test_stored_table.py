"""Game's tables on disk hold all that the core needs: after every batch a fresh start knows the same."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from schemas.commands.game import (
    CloseTable,
    CommitShoe,
    GameCommand,
    LeaveSeat,
    SetHouse,
    VoidCoup,
)
from schemas.envelope import Recorded
from schemas.events.base import Payload, game_stream
from schemas.events.game import CoupConcluded, ShoeEnded
from schemas.refusal import Refusal
from services.game import store
from services.game.core.state import CoupKey, TableKey
from services.game.service import GameService
from services.runtime.database import migrate, open_sqlite
from services.runtime.ports_system import SeededRng
from tests.rules.room import AT, OPERATOR, TABLE, Room, of_type
from tests.rules.test_table_life import refused


class StoredRoom(Room):
    """The room with the real service and a real database, started anew after every batch."""

    def __init__(self, db: Connection) -> None:
        super().__init__()
        self.db = db
        self.rng = SeededRng("tests")
        self.service = GameService(self.rng, 30)
        self.start()

    def start(self) -> None:
        self.service = GameService(self.rng, 30)
        self.service.load(self.db)
        self.state = self.service.state

    def do(self, *commands: GameCommand) -> list[Any]:
        self.service.prepare(self.db, [], commands)
        made: list[Any] = []
        for command in commands:
            payloads = self.service.decide(command)
            for payload in payloads:
                self.fold(payload)
            made += payloads
        self.commit()
        return made

    def hear(self, event: Recorded[Any]) -> list[Any]:
        payloads = list(self.service.react(event))
        for payload in payloads:
            self.fold(payload)
        self.commit()
        return payloads

    def fold(self, payload: Payload) -> None:
        event = self._encoded(game_stream(OPERATOR, TABLE), payload)
        self.events.append(event)
        self.service.evolve(event)

    def commit(self) -> None:
        self.service.save(self.db)
        before = self.state
        self.start()
        assert self.state.tables == before.tables
        assert self.state.undealt.seeds == before.undealt.seeds
        assert self.state.undealt.cards == before.undealt.cards


@pytest.fixture
def room(tmp_path: Path) -> Iterator[StoredRoom]:
    engine = open_sqlite(tmp_path / "game.db", writer=True)
    migrate(engine, "game")
    with engine.begin() as db:
        yield StoredRoom(db)


def test_a_virtual_table(room):
    room.open_table("lt")
    room.sit(3, 7)
    room.load("shoe-1")
    room.do(CommitShoe(**AT, shoe="shoe-2"))
    coup = 0
    while not of_type(room.events[-1:], ShoeEnded):
        coup += 1
        room.play(coup)
    assert 74 <= coup <= 87
    with refused("SHOE_KNOWN", "shoe"):
        room.do(CommitShoe(**AT, shoe="shoe-1"))
    room.do(LeaveSeat(**AT, seat=3))
    room.do(CloseTable(**AT, reason="end of day"))
    assert room.state.undealt.seeds == {}


def test_a_recorded_table(room):
    natural, six = ("9S", "8H", "KS", "KH"), ("AS", "2H", "3D", "KC", "4S", "5H")
    room.open_table("nl", "recorded")
    for number in range(1, 7):
        room.play(number, natural, shoe="A")
        room.play(number, six, shoe="B")
    room.open(7, natural, shoe="A")
    assert room.open(7, natural, shoe="A") == []
    room.do(VoidCoup(**AT, shoe="A", coup=7, reason="misdeal"))
    assert store.find_undealt_cards(room.db, CoupKey(OPERATOR, TABLE, "A", 7)) == natural
    assert of_type(room.play(8, natural, shoe="A"), CoupConcluded)
    with pytest.raises(Refusal, match="9S would have come out 9 times"):
        room.open(9, natural, shoe="A")
    room.start()
    assert room.open(3, natural, shoe="A") == []
    with refused("COUP_KNOWN", "cards"):
        room.open(3, six, shoe="A")


def test_a_table_that_changed_its_house(room):
    from tests.rules.room import HOUSES

    room.open_table("nl")
    room.do(SetHouse(**AT, house=HOUSES["fr"]))
    assert room.open_table("nl") == []
    found = store.find_table(room.db, TableKey(OPERATOR, TABLE))
    assert found == room.table
    assert (room.table.house.id, room.table.opened_with.id) == ("fr", "nl")
    assert store.find_table(room.db, TableKey(OPERATOR, "T2")) is None
