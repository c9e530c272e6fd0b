"""What every bet must come to, in exact fractions from the house's document.

Wallet counts in integers from a paytable; here each figure is a ``Fraction`` until the one rounding that
the house states. Commission is a rate of the *winnings* of a winning Banker bet, rounded bet by bet, and
never more than the winnings themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Final, NamedTuple

from schemas.events.base import Outcome, Spot, Tier
from schemas.house import House, RoundingMode

_REMEMBERED_PAYOUTS: Final = 4_096
"""Stakes repeat, and fractions are slow: so many results are kept for one house."""

_NOTATION: Final = re.compile(r"(\d+(?:\.\d+)?) (to|for) (\d+)", re.ASCII)

TIERS: Final[dict[Outcome, dict[Spot, Tier]]] = {
    "player": {"player": "win", "banker": "lose", "tie": "lose"},
    "banker": {"player": "lose", "banker": "win", "tie": "lose"},
    "tie": {"player": "push", "banker": "push", "tie": "win"},
}
"""The tier that each spot reaches, by outcome: on a tie the Player and Banker stakes go back."""


class Payout(NamedTuple):
    """What one bet comes to, in minor units. ``returned`` includes the stake."""

    tier: Tier
    returned: int
    commission: int
    exact: Fraction
    """The commission before it was rounded."""


def of_free_bet(due: Payout, stake: int) -> int:
    """What a free bet returns where one out of cash comes to ``due``: its stake is no player's money."""
    return 0 if due.tier in ("lose", "push") else due.returned - stake


def profit(price: str) -> Fraction:
    """What a winning unit gains beside itself: ``8 to 1`` gains 8, and so does ``9 for 1``.

    Raises:
        ValueError: not a price in either notation.
    """
    match = _NOTATION.fullmatch(price)
    if match is None:
        raise ValueError(f"{price!r} is not a price")
    gain = Fraction(match[1]) / int(match[3])
    return gain if match[2] == "to" else gain - 1


def _half_up(units: Fraction) -> int:
    return (2 * units.numerator + units.denominator) // (2 * units.denominator)


def _down(units: Fraction) -> int:
    return units.numerator // units.denominator


def _up(units: Fraction) -> int:
    return -(-units.numerator // units.denominator)


ROUNDING: Final[dict[RoundingMode, Callable[[Fraction], int]]] = {
    RoundingMode.HALF_UP: _half_up,
    RoundingMode.HALF_EVEN: round,  # Python's own rounding of a Fraction is half to even
    RoundingMode.UP: _up,
    RoundingMode.DOWN: _down,
}
"""The whole number of units that a non-negative fraction of them is rounded to."""


def rounding_unit(unit: str, exponent: int) -> Fraction:
    """The house's rounding unit in minor units of a currency with so many decimals.

    A unit that is no whole number of minor units cannot be paid: then it is the least multiple of the
    unit that can (0.25 in a currency without decimals is 1).
    """
    if unit == "minor":
        return Fraction(1)
    in_minor_units: Fraction = Fraction(unit) * 10**exponent
    return in_minor_units * in_minor_units.denominator


class Payouts:
    """The payouts of one house."""

    def __init__(self, house: House) -> None:
        self._profits = {
            "player": profit(house.prices.player),
            "banker": profit(house.prices.banker),
            "tie": profit(house.prices.tie),
        }
        self._rate = Fraction(house.commission.rate)
        self._unit = house.commission.rounding_unit
        self._round = ROUNDING[house.commission.rounding_mode]
        self._known: dict[tuple[Spot, Outcome, int, int], Payout] = {}

    @property
    def spots(self) -> frozenset[Spot]:
        """What can be bet on."""
        return frozenset(self._profits)

    def tiers(self, outcome: Outcome) -> dict[Spot, Tier]:
        """The tier that each spot of the house reaches."""
        return TIERS[outcome]

    def pay(self, spot: Spot, outcome: Outcome, stake: int, exponent: int) -> Payout:
        """What a bet returns.

        Raises:
            KeyError: the house does not offer the spot.
        """
        asked = (spot, outcome, stake, exponent)
        payout = self._known.get(asked)
        if payout is None:
            if len(self._known) >= _REMEMBERED_PAYOUTS:
                self._known.clear()
            payout = self._known[asked] = self._pay(spot, outcome, stake, exponent)
        return payout

    def _pay(self, spot: Spot, outcome: Outcome, stake: int, exponent: int) -> Payout:
        tier = TIERS[outcome][spot]
        nothing = Fraction(0)
        if tier == "lose":
            return Payout(tier, 0, 0, nothing)
        if tier == "push":
            return Payout(tier, stake, 0, nothing)
        winnings = stake * self._profits[spot]
        exact = winnings * self._rate if spot == "banker" else nothing
        unit = rounding_unit(self._unit, exponent)
        commission = min(self._round(exact / unit) * unit, winnings)
        returned = stake + winnings - commission
        assert returned.denominator == 1, "a house's prices are whole multiples of the stake"
        return Payout(tier, int(returned), int(commission), exact)
