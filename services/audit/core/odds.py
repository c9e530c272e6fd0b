"""How often each outcome must come: every ordered deal of six cards, counted through audit's own tableau.

Suits and ranks within a value change nothing, so that two unordered pairs of values with their
multiplicities, and two further cards, are all there is to enumerate. Six cards are always dealt in
thought; those that a coup does not need are whatever comes next.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from math import perm
from typing import Final

from schemas.events.base import Outcome
from schemas.house import Side
from services.audit.core.tableau import expected_play

_CARDS: Final = "TA23456789"
"""One card for each value from 0 to 9."""
_ORDER: Final[tuple[Side, ...]] = ("player", "player", "banker", "banker")


@cache
def outcome_shares(decks: int) -> dict[Outcome, Fraction]:
    """The probability of each outcome of a coup from so many full decks."""
    counts: dict[Outcome, int] = {"player": 0, "banker": 0, "tie": 0}
    left = [16 * decks] + [4 * decks] * 9
    cards = 52 * decks
    for player, player_ways in _pairs(left):
        for banker, banker_ways in _pairs(left):
            ways = player_ways * banker_ways
            dealt = [_CARDS[value] for value in (*player, *banker)]
            play = expected_play([*dealt, "T", "T"], _ORDER)
            if play.used == 4:
                counts[play.outcome] += ways * perm(cards - 4, 2)
                continue
            for fifth in range(10):
                for sixth in range(10):
                    further = left[fifth] * (left[sixth] - (fifth == sixth))
                    outcome = expected_play([*dealt, _CARDS[fifth], _CARDS[sixth]], _ORDER).outcome
                    counts[outcome] += ways * further
    total = perm(cards, 6)
    assert sum(counts.values()) == total, "every deal is counted once"
    return {outcome: Fraction(count, total) for outcome, count in counts.items()}


def _pairs(left: list[int]) -> Iterator[tuple[tuple[int, int], int]]:
    """Unordered pairs of values with the ordered ways to draw them; while one is out, ``left`` lacks it."""
    for one in range(10):
        for other in range(one, 10):
            ways = left[one] * (left[one] - 1) if one == other else 2 * left[one] * left[other]
            if ways:
                left[one] -= 1
                left[other] -= 1
                yield (one, other), ways
                left[one] += 1
                left[other] += 1
