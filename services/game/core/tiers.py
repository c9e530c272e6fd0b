"""Which tier each spot of a coup reached: all that wallet is ever told about the cards.

A spot is something that can be bet on. For each of them there is one function from the finished coup to a
tier, a word that the wallet's paytable has a price for: ``lose``, ``push`` (the stake goes back), ``win``,
and for side bets names of their own. A new bet is a new row of ``TIERS`` and a price in the house; no
house is named here, and nothing here knows an amount.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from schemas.events.base import Outcome, Spot, Tier
from schemas.house import House
from services.game.core.tableau import CoupResult


def _side(side: Outcome) -> Callable[[CoupResult], Tier]:
    """A bet on one hand: a tie returns the stake (it does not lose, and it is not halved)."""
    by_outcome: dict[Outcome, Tier] = {"player": "lose", "banker": "lose", "tie": "push"}
    by_outcome[side] = "win"

    def tier(result: CoupResult) -> Tier:
        return by_outcome[result.outcome]

    return tier


def _tie(result: CoupResult) -> Tier:
    return "win" if result.outcome == "tie" else "lose"


TIERS: Final[Mapping[Spot, Callable[[CoupResult], Tier]]] = MappingProxyType(
    {"player": _side("player"), "banker": _side("banker"), "tie": _tie}
)
"""By spot: the tier that a finished coup gives it."""


def spots_of(house: House) -> tuple[Spot, ...]:
    """The spots that a house takes bets on: those that it has a price for."""
    return tuple(spot for spot in TIERS if getattr(house.prices, spot, None) is not None)


def tiers_of(result: CoupResult, spots: Iterable[Spot]) -> dict[Spot, Tier]:
    """The tier of each of these spots."""
    return {spot: TIERS[spot](result) for spot in spots}
