"""What the bets of a house cost: exact counts over every ordered deal, and the edges that follow.

A shoe of d decks holds 4·d cards of each of the values 1 to 9 and 16·d of value 0. We count ordered
sequences of six cards drawn without replacement, for all deals alike: where a coup needs only four or five
cards, the others are whatever comes next. Suits and ranks within a value change nothing, so that two
unordered pairs of values, their multiplicities, and at most two third cards are all there is to enumerate.

The counts are integers and the edges fractions: nothing is quoted and nothing is estimated. An edge is
what the house keeps of a stake on average, pushes included, with the commission unrounded.
(Source of the published figures that the tests compare: rules/houses.md, "Exact figures".)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import perm
from typing import Final

from schemas.events.base import Outcome, Spot
from schemas.house import House, profit_per_unit
from services.game.core.tableau import banker_draws, is_natural, player_draws

TIE_PROFITS: Final = (8, 9)
"""The two readings of the tie's price that sheets are confused about: 8 to 1 (9 for 1), and 9 to 1."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Ordered six-card deals from a shoe, by what they come to."""

    decks: int
    total: int
    wins: Mapping[Outcome, int]
    cards: Mapping[int, int]
    """By the number of cards that the coup uses."""
    totals: Mapping[tuple[int, int], int]
    """By final totals, Player's first."""


@dataclass(frozen=True, slots=True)
class ClaimedEdge:
    """An edge that a rule sheet states, beside the one that its own rules have."""

    spot: Spot
    claimed_percent: str
    edge: Fraction
    agrees: bool
    """Whether ours, rounded to as many digits as the sheet gives, is what it says."""


@dataclass(frozen=True, slots=True)
class Statement:
    """The odds of a house: an edge for each spot, and which of the two tie prices is in force."""

    counts: Counts
    edges: Mapping[Spot, Fraction]
    tie_profit: int
    """What a winning tie gains per unit at this house."""
    tie_edges: Mapping[int, Fraction]
    """The tie's edge at a profit of 8 and at one of 9, side by side, and at the house's own."""
    claims: tuple[ClaimedEdge, ...]


@cache
def count(decks: int) -> Counts:
    """Every ordered deal of six cards from so many decks, counted."""
    cards = 52 * decks
    totals = [0] * 100
    used = {4: 0, 5: 0, 6: 0}
    for final, cards_used, deals in _coups(decks):
        # A coup of four or five cards stands for all the sequences that go on from it.
        sequences = deals * perm(cards - cards_used, 6 - cards_used)
        totals[final] += sequences
        used[cards_used] += sequences
    wins: dict[Outcome, int] = {"player": 0, "banker": 0, "tie": 0}
    for final, sequences in enumerate(totals):
        player, banker = divmod(final, 10)
        wins["tie" if player == banker else "player" if player > banker else "banker"] += sequences
    total = perm(cards, 6)
    assert sum(wins.values()) == sum(used.values()) == total, "a deal was lost or counted twice"
    by_totals = {divmod(final, 10): sequences for final, sequences in enumerate(totals)}
    return Counts(decks, total, wins, used, by_totals)


def _pairs(left: list[int]) -> Iterator[tuple[int, int, int]]:
    """Unordered pairs of values with the number of ordered ways to draw them from what is left."""
    for one in range(10):
        for other in range(one, 10):
            ways = left[one] * (left[one] - 1) if one == other else 2 * left[one] * left[other]
            if ways > 0:
                yield one, other, ways


def _coups(decks: int) -> Iterator[tuple[int, int, int]]:
    """Coups as (10 · Player's total + Banker's, cards used, ordered ways to deal just these cards)."""
    left = [16 * decks] + [4 * decks] * 9
    for player_one, player_other, player_ways in _pairs(list(left)):
        left[player_one] -= 1
        left[player_other] -= 1
        player = (player_one + player_other) % 10
        for banker_one, banker_other, banker_ways in _pairs(left):
            banker = (banker_one + banker_other) % 10
            ways = player_ways * banker_ways
            if is_natural(player, banker):
                yield 10 * player + banker, 4, ways
                continue
            left[banker_one] -= 1
            left[banker_other] -= 1
            yield from _third_cards(left, player, banker, ways)
            left[banker_one] += 1
            left[banker_other] += 1
        left[player_one] += 1
        left[player_other] += 1


def _third_cards(left: list[int], player: int, banker: int, ways: int) -> Iterator[tuple[int, int, int]]:
    if not player_draws(player):
        if not banker_draws(banker, None):
            yield 10 * player + banker, 4, ways
            return
        for third in range(10):
            yield 10 * player + (banker + third) % 10, 5, ways * left[third]
        return
    for player_third in range(10):
        drawn = ways * left[player_third]
        ten_player = 10 * ((player + player_third) % 10)
        if not banker_draws(banker, player_third):
            yield ten_player + banker, 5, drawn
            continue
        for third in range(10):
            copies = left[third] - (third == player_third)
            yield ten_player + (banker + third) % 10, 6, drawn * copies


def edges(house: House) -> dict[Spot, Fraction]:
    """What the house keeps of a stake on each spot, on average, as a fraction of the stake."""
    counts = count(house.shoe.decks)
    won = counts.wins
    player = profit_per_unit(house.prices.player)
    banker = profit_per_unit(house.prices.banker) * (1 - Fraction(house.commission.rate))
    return {
        "player": (won["banker"] - player * won["player"]) / counts.total,
        "banker": (won["player"] - banker * won["banker"]) / counts.total,
        "tie": tie_edge(counts, profit_per_unit(house.prices.tie)),
    }


def tie_edge(counts: Counts, profit: Fraction) -> Fraction:
    """The edge of a bet that wins on a tie alone, at this profit per unit."""
    return 1 - (1 + profit) * Fraction(counts.wins["tie"], counts.total)


def statement(house: House) -> Statement:
    """The odds of a house as they can be shown to a player, every figure worked out here."""
    counts = count(house.shoe.decks)
    own = edges(house)
    profit = profit_per_unit(house.prices.tie)
    assert profit.denominator == 1, "a house's prices are whole multiples of the stake"
    claims = tuple(
        ClaimedEdge(
            claim.spot, claim.edge_percent, own[claim.spot], _agrees(own[claim.spot], claim.edge_percent)
        )
        for claim in house.claims
    )
    at = {each: tie_edge(counts, Fraction(each)) for each in sorted({*TIE_PROFITS, profit.numerator})}
    return Statement(counts, own, profit.numerator, at, claims)


def percent(fraction: Fraction, decimals: int = 4) -> str:
    """The fraction in per cent, rounded half away from zero: ``percent(Fraction(1, 8), 1) == "12.5"``."""
    scaled = abs(fraction) * 100 * 10**decimals
    units = (2 * scaled.numerator + scaled.denominator) // (2 * scaled.denominator)
    digits = str(units).rjust(decimals + 1, "0")
    sign = "-" if fraction < 0 and units else ""
    return sign + (f"{digits[:-decimals]}.{digits[-decimals:]}" if decimals else digits)


def _agrees(edge: Fraction, claimed_percent: str) -> bool:
    decimals = len(claimed_percent.partition(".")[2])
    return percent(edge, decimals) == claimed_percent
