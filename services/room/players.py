"""Players for a demonstration: they sit down, buy in, and bet as people do, from a seeded generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from schemas.commands.wallet import (
    Deposit,
    PlaceBet,
)
from services.room.room import Room
from services.runtime.ports_system import SeededRng

CURRENCY: Final = "EUR"
_BUY_IN_MINOR_UNITS: Final = 100_000
_CHIPS_MINOR_UNITS: Final = (500, 1_000, 2_500, 5_000, 10_000)


class Players:
    """The bettors of one table, a seat each."""

    def __init__(self, room: Room, table: str, seats: int, rng: SeededRng, session: str) -> None:
        self._room, self._table, self._rng, self._session = room, table, rng, session
        self.seats = range(1, seats + 1)
        self._bets = 0

    def account(self, seat: int) -> str:
        """The operator's reference of the player on a seat."""
        return f"{self._table}-player-{seat}"

    def buy_ins(self) -> list[Deposit]:
        """Everybody brings 1,000.00."""
        return [self._deposit(seat, f"{self._session}-buy-in") for seat in self.seats]

    def _deposit(self, seat: int, tx: str) -> Deposit:
        return Deposit(
            operator=self._room.settings.operator,
            account=self.account(seat),
            tx=tx,
            currency=CURRENCY,
            amount=_BUY_IN_MINOR_UNITS,
        )

    def bets(self, shoe: str, coup: int, dealer_seat: int | None) -> Sequence[PlaceBet]:
        """A bet of every seat on the coming coup. By custom a dealing player bets Banker."""
        placed = []
        for seat in self.seats:
            spot = "banker" if seat == dealer_seat else self._spot()
            stake = _CHIPS_MINOR_UNITS[self._rng.below(len(_CHIPS_MINOR_UNITS))]
            self._bets += 1
            placed.append(
                PlaceBet(
                    operator=self._room.settings.operator,
                    table=self._table,
                    shoe=shoe,
                    coup=coup,
                    account=self.account(seat),
                    tx=f"{self._session}-bet-{self._bets}",
                    seat=seat,
                    spot=spot,
                    currency=CURRENCY,
                    stake=stake,
                )
            )
        return placed

    def _spot(self) -> str:
        # Of twenty bets nine are on Banker, eight on Player and three on Tie.
        die = self._rng.below(20)
        return "banker" if die < 9 else "player" if die < 17 else "tie"

    def top_ups(self, shoe: str) -> list[Deposit]:
        """Whoever cannot cover the largest chip buys in again, at the latest between two shoes."""
        cash = self._room.cash([self.account(seat) for seat in self.seats], CURRENCY)
        return [
            self._deposit(seat, f"{self._session}-{shoe}-top-up")
            for seat in self.seats
            if cash[self.account(seat)] < _CHIPS_MINOR_UNITS[-1]
        ]
