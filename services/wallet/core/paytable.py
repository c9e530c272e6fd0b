"""The paytable: what a tier of a spot returns, and the commission on it.

Integers only. Commission is a rate of the *winnings*, rounded bet by bet to the house's unit in the
house's mode (houses.md, *Money*; cases 11, 12 and 16).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd

from schemas.house import CommissionRules, House, RoundingMode, profit_per_unit


@dataclass(frozen=True, slots=True)
class Payment:
    """What a bet comes to, in minor units. ``returned`` includes the stake."""

    returned: int
    commission: int
    commission_exact: str
    """The commission before rounding, as a fraction in lowest terms."""


@dataclass(frozen=True, slots=True)
class _Rate:
    numerator: int
    denominator: int


class Paytable:
    """Prices and commission of one house, ready for counting."""

    def __init__(self, house: House) -> None:
        prices = house.prices
        self._profit = {
            "player": int(profit_per_unit(prices.player)),
            "banker": int(profit_per_unit(prices.banker)),
            "tie": int(profit_per_unit(prices.tie)),
        }
        self._commission = house.commission
        self.defers_commission = house.commission.collection == "deferred"
        rate = Fraction(house.commission.rate)
        self._rates = {"banker": _Rate(rate.numerator, rate.denominator)}

    def pay(self, spot: str, tier: str, stake: int, exponent: int) -> Payment:
        """What the stake comes to in this tier.

        Raises:
            KeyError: the house does not offer the spot.
            ValueError: the spot has no such tier.
        """
        profit = self._profit[spot]
        if tier == "lose":
            return Payment(0, 0, "0")
        if tier == "push":
            return Payment(stake, 0, "0")
        if tier != "win":
            raise ValueError(f"spot {spot} has no tier {tier!r}")
        winnings = stake * profit
        rate = self._rates.get(spot)
        if rate is None:
            return Payment(stake + winnings, 0, "0")
        above, below = winnings * rate.numerator, rate.denominator
        commission = min(winnings, round_commission(above, below, self._commission, exponent))
        divisor = gcd(above, below)
        exact = f"{above // divisor}" if below == divisor else f"{above // divisor}/{below // divisor}"
        return Payment(stake + winnings - commission, commission, exact)


def rounding_unit(rules: CommissionRules, exponent: int) -> int:
    """The rounding unit in minor units: the least multiple of the house's that is a whole number of them."""
    return 1 if rules.rounding_unit == "minor" else (Fraction(rules.rounding_unit) * 10**exponent).numerator


def round_commission(above: int, below: int, rules: CommissionRules, exponent: int) -> int:
    """``above / below`` minor units, rounded by the house's unit and mode."""
    unit = rounding_unit(rules, exponent)
    below *= unit
    units, rest = divmod(above, below)
    match rules.rounding_mode:
        case RoundingMode.DOWN:
            up = False
        case RoundingMode.UP:
            up = rest > 0
        case RoundingMode.HALF_UP:
            up = 2 * rest >= below
        case RoundingMode.HALF_EVEN:
            up = 2 * rest > below or (2 * rest == below and units % 2 == 1)
    return (units + up) * unit
