"""What a table lets people bet, worked out again when all of a coup's bets are known.

Wallet looks at a limit when a bet comes. Here the bets of a coup, and what was taken back of them, are gone
through once more in the order in which they stand in its stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Final, NamedTuple

from schemas.house import House
from schemas.money import exponent_of

_OTHER_SIDE: Final = {"player": "banker", "banker": "player"}


class Move(NamedTuple):
    """A stake that came (or, negative, went)."""

    sequence: int
    bet: str
    account: str
    spot: str
    currency: str
    amount: int


class Excess(NamedTuple):
    """A bet that should not have been taken."""

    sequence: int
    bet: str
    what: str
    """What is over its limit, in words."""
    amount: int
    limit: int
    currency: str


class TableLimits:
    """The limits of one house."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._limits: dict[tuple[str, str], list[tuple[str, int]]] | None = None

    def __bool__(self) -> bool:
        return bool(self._house.limits)

    def exceeded(self, moves: Iterable[Move]) -> Iterator[Excess]:
        """Every bet that was beyond a limit when it was taken, for each limit."""
        mine: dict[tuple[str, str, str], int] = {}
        all_of_spot: dict[tuple[str, str], int] = {}
        for move in sorted(moves):
            place = (move.currency, move.spot)
            before = all_of_spot.get(place, 0)
            own = mine[(*place, move.account)] = mine.get((*place, move.account), 0) + move.amount
            everybody = all_of_spot[place] = before + move.amount
            if move.amount < 0:
                continue
            other = all_of_spot.get((move.currency, _OTHER_SIDE.get(move.spot, "")), 0)
            for name, limit in self._of(*place):
                match name:
                    case "minimum":
                        amount, wrong, what = move.amount, move.amount < limit, "the stake"
                    case "maximum":
                        amount, wrong, what = own, own > limit, "the player's stakes on the spot"
                    case "coup_maximum":
                        amount, wrong, what = everybody, everybody > limit, "all stakes on the spot"
                    case _:
                        amount = everybody - other
                        wrong = move.spot in _OTHER_SIDE and amount > limit
                        what = "the difference between Player and Banker"
                if wrong:
                    yield Excess(move.sequence, move.bet, what, amount, limit, move.currency)

    def _of(self, currency: str, spot: str) -> list[tuple[str, int]]:
        if self._limits is None:
            self._limits = {}
        known = self._limits.get((currency, spot))
        if known is None:
            known = self._limits[currency, spot] = []
            for each in self._house.limits:
                if each.currency == currency and each.spot in (None, spot):
                    for name in ("minimum", "maximum", "coup_maximum", "differential"):
                        if (text := getattr(each, name)) is not None:
                            known.append((name, int(Decimal(text).scaleb(exponent_of(currency)))))
        return known
