"""Virtual tables that play by themselves: shoe after shoe, coup after coup, with players who bet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from schemas.commands.game import (
    CommitShoe,
    LoadShoe,
    OpenCoup,
    OpenTable,
    TakeSeat,
)
from schemas.house import House, Shuffle
from services.game.core.state import Table
from services.room.flight import CoupFlight
from services.room.players import Players
from services.room.room import Room
from services.runtime.ports_system import SeededRng

_COUPS_A_SHOE: Final = 80
_COUPS_WITHOUT_A_SHOE: Final = 60


@dataclass(frozen=True)
class Plan:
    """How long a table plays: shoes to the cut card, or coups, whichever ends first."""

    shoes: int | None
    coups: int | None

    @property
    def expected(self) -> int:
        """About how many coups that are."""
        return self.coups or _COUPS_A_SHOE * (self.shoes or 1)


def plan_of(house: House, shoes: int, coups: int | None) -> Plan:
    """A plan for a house: one that shuffles every round has no shoe's end, and ends after some coups."""
    if house.shoe.shuffle is Shuffle.EVERY_ROUND:
        return Plan(shoes=None, coups=coups or _COUPS_WITHOUT_A_SHOE * shoes)
    return Plan(shoes=shoes, coups=coups)


class VirtualTable:
    """One table with its players. ``advance`` takes it on without waiting for anybody."""

    def __init__(
        self, room: Room, name: str, house: House, *, seats: int, plan: Plan, rng: SeededRng
    ) -> None:
        self.name, self.house, self.plan = name, house, plan
        self.coups = self.shoes = 0
        self._room, self._rng = room, rng
        self._first_shoe = room.shoes(name) + 1
        self._players = Players(room, name, seats, rng, session=f"{name}-s{self._first_shoe}")
        self._flight: CoupFlight | None = None
        self._asked: list[Future[Any]] = []
        self._number = 0
        self._shoe: str | None = None
        self._begin(seats)

    def _begin(self, seats: int) -> None:
        size = next((size for size in sorted(self.house.table.seats) if size >= seats), None)
        if size is None:
            raise ValueError(f"house {self.house.id} has no table for {seats} players")
        operator, game = self._room.settings.operator, self._room.game
        opening = OpenTable(
            operator=operator,
            table=self.name,
            house=self.house,
            shard=self._room.settings.shard,
            seats=size,
            source="virtual",
        )
        self._room.result(game.submit(opening))
        for seat in self._players.seats:
            self._asked.append(game.submit(TakeSeat(operator=operator, table=self.name, seat=seat)))
        self._asked += [self._room.wallet.submit(deposit) for deposit in self._players.buy_ins()]

    @property
    def finished(self) -> bool:
        """The plan is fulfilled and the last coup is paid."""
        return self._flight is None and not self._asked and self._enough()

    def _enough(self) -> bool:
        coups, shoes = self.plan.coups, self.plan.shoes
        return (coups is not None and self.coups >= coups) or (
            shoes is not None and self.shoes >= shoes and self._shoe is None
        )

    def advance(self) -> None:
        """Do what can be done now: load a shoe, open the next coup, take a coup on."""
        if self._flight is not None:
            self._flight.advance()
            if not self._flight.finished:
                return
            if self._flight.refusal is not None:
                raise self._flight.refusal
            self._flight = None
            self.coups += 1
            self._look_at_shoe()
        if not all(answer.done() for answer in self._asked):
            return
        for answer in self._asked:
            answer.result()
        self._asked = []
        if self._enough():
            return
        if self._shoe is None:
            self._new_shoe()
        else:
            self._open_coup(self._shoe)

    def _look_at_shoe(self) -> None:
        if self._table().shoe != self._shoe:
            self._shoe = None
            self.shoes += 1
            self._asked = [self._room.wallet.submit(each) for each in self._players.top_ups(f"{self.shoes}")]

    def _new_shoe(self) -> None:
        operator, game = self._room.settings.operator, self._room.game
        self._shoe = f"S{self._first_shoe + self.shoes}"
        if self.house.shoe.shuffle is Shuffle.PER_SHOE:
            self._number = 0
        entropy = self._rng.token(16).hex()
        self._asked = [
            game.submit(CommitShoe(operator=operator, table=self.name, shoe=self._shoe)),
            game.submit(LoadShoe(operator=operator, table=self.name, shoe=self._shoe, entropy=entropy)),
        ]

    def _open_coup(self, shoe: str) -> None:
        self._number += 1
        operator = self._room.settings.operator
        opening = OpenCoup(operator=operator, table=self.name, shoe=shoe, coup=self._number)
        bets = self._players.bets(shoe, self._number, self._table().dealer)
        self._flight = CoupFlight(self._room, opening, bets)
        self._flight.advance()

    def _table(self) -> Table:
        table = self._room.table(self.name)
        assert table is not None, "it was opened in the beginning"
        return table


def play(room: Room, tables: Sequence[VirtualTable], progress: Callable[[int], None]) -> None:
    """Play all tables to the end of their plans, and let audit see everything.

    Raises:
        Stalled: nothing moves and a table is not done.
    """
    while not all(table.finished for table in tables):
        for table in tables:
            table.advance()
        room.turn()
        progress(sum(table.coups for table in tables))
    room.settle()
