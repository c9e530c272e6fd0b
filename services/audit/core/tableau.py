"""The drawing rules as the Lithuanian sheet writes them: by Player's third card.

Game draws by Banker's total. Here the same rule is turned the other way round, with card values of its
own, so that neither can copy the other's mistake. A hand is worth the sum of its cards modulo 10; 8 or 9
on two cards of either hand is a natural, and then both stand.

========================  =======================
Player's third card       Banker draws on
========================  =======================
2, 3                      0 to 4
4, 5                      0 to 5
6, 7                      0 to 6
8                         0 to 2
A, 9, 10, J, Q, K         0 to 3
none (Player stood)       0 to 5
========================  =======================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from schemas.events.base import Outcome
from schemas.house import Side

_POINTS_BY_RANK: Final = {
    "A": 1, "2": 2, "3": 3, "4": 4, "5": 5, "6": 6, "7": 7, "8": 8, "9": 9, "T": 0, "J": 0, "Q": 0, "K": 0,
}  # fmt: skip

POINTS: Final[Mapping[str, int]] = MappingProxyType(
    {rank + suit: points for rank, points in _POINTS_BY_RANK.items() for suit in ("", "S", "H", "D", "C")}
)
"""What each card counts, with or without its suit."""

PLAYER_DRAWS_UP_TO: Final = 5
BANKER_DRAWS_UP_TO_IF_PLAYER_STOOD: Final = 5

BANKER_DRAWS_UP_TO: Final[Mapping[str, int]] = MappingProxyType({
    "2": 4, "3": 4,
    "4": 5, "5": 5,
    "6": 6, "7": 6,
    "8": 2,
    "A": 3, "9": 3, "T": 3, "J": 3, "Q": 3, "K": 3,
})  # fmt: skip
"""The highest two-card total on which Banker draws, by the rank of Player's third card."""

_LIMIT: Final = {
    rank + suit: limit for rank, limit in BANKER_DRAWS_UP_TO.items() for suit in ("", "S", "H", "D", "C")
}

_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth")


class Play(NamedTuple):
    """How a coup must go, from the cards in the order in which they came."""

    used: int
    """How many of the given cards the rules use; those behind them may not be drawn."""
    player: tuple[str, ...]
    banker: tuple[str, ...]
    player_total: int
    banker_total: int
    outcome: Outcome
    natural: bool


class TooFewCards(ValueError):
    """The rules ask for a card that is not there. ``hand`` is whose, and the message says why."""

    def __init__(self, hand: Side, words: str) -> None:
        super().__init__(words)
        self.hand = hand


def expected_play(cards: Sequence[str], order: tuple[Side, ...]) -> Play:
    """The coup that these cards make when the first four go out in this order.

    Raises:
        TooFewCards: somebody must draw and no card is left.
    """
    if len(cards) < 4:
        hand = order[len(cards)]
        raise TooFewCards(hand, f"{_name(hand)} must get two cards, and only {len(cards)} were dealt")
    points = POINTS
    first, second, third, fourth = cards[:4]
    player: tuple[str, ...]
    banker: tuple[str, ...]
    if order[0] != order[1]:
        if order[0] == order[2]:  # one, other, one, other
            player, banker = (first, third), (second, fourth)
        else:  # one, other, other, one
            player, banker = (first, fourth), (second, third)
    else:
        player, banker = (first, second), (third, fourth)
    if order[0] == "banker":
        player, banker = banker, player
    player_total = (points[player[0]] + points[player[1]]) % 10
    banker_total = (points[banker[0]] + points[banker[1]]) % 10
    used = 4
    natural = player_total >= 8 or banker_total >= 8
    if not natural:
        limit = BANKER_DRAWS_UP_TO_IF_PLAYER_STOOD
        banker_two = banker_total
        if player_total <= PLAYER_DRAWS_UP_TO:
            if len(cards) == 4:
                raise TooFewCards("player", f"Player had {player_total} and must draw a third card")
            card = cards[4]
            limit = _LIMIT[card]
            player = (*player, card)
            player_total = (player_total + points[card]) % 10
            used = 5
        if banker_two <= limit:
            if len(cards) == used:
                raise TooFewCards(
                    "banker", f"{_why_banker_draws(player, banker_two)} and must draw a third card"
                )
            card = cards[used]
            banker = (*banker, card)
            banker_total = (banker_two + points[card]) % 10
            used += 1
    outcome: Outcome = (
        "player" if player_total > banker_total else "banker" if banker_total > player_total else "tie"
    )
    return Play(used, player, banker, player_total, banker_total, outcome, natural)


def entitled(player: Sequence[str], banker: Sequence[str], order: tuple[Side, ...]) -> Side | None:
    """Who must get the next card, when the hands hold these; ``None`` when nobody may draw any more."""
    dealt = len(player) + len(banker)
    if dealt < 4:
        return order[dealt]
    player_two = two_card_total(player)
    banker_two = two_card_total(banker)
    if len(banker) > 2 or player_two >= 8 or banker_two >= 8:
        return None
    if len(player) == 2 and player_two <= PLAYER_DRAWS_UP_TO:
        return "player"
    limit = _LIMIT[player[2]] if len(player) > 2 else BANKER_DRAWS_UP_TO_IF_PLAYER_STOOD
    return "banker" if banker_two <= limit else None


def total(cards: Sequence[str]) -> int:
    """What a hand is worth."""
    return sum(POINTS[card] for card in cards) % 10


def two_card_total(cards: Sequence[str]) -> int:
    """What a hand was worth before its third card."""
    return (POINTS[cards[0]] + POINTS[cards[1]]) % 10


def why_nobody_draws(player: Sequence[str], banker: Sequence[str], card: str) -> str:
    """Why ``card`` may not be drawn to these hands, in words."""
    player_two, banker_two = two_card_total(player), two_card_total(banker)
    ordinal = _ORDINALS[len(player) + len(banker)] if len(player) + len(banker) < 6 else "seventh"
    forbidden = f"the {ordinal} card {card} may not be drawn"
    if player_two >= 8 or banker_two >= 8:
        hands = [
            f"{name} had a natural {two}"
            for name, two in (("Player", player_two), ("Banker", banker_two))
            if two >= 8
        ]
        return f"{' and '.join(hands)}, so both hands stand: {forbidden}"
    if len(banker) > 2:
        return f"Banker has his third card already: {forbidden}"
    if banker_two == 7:
        return f"Banker had 7 and stands: {forbidden}"
    if len(player) > 2:
        return f"Banker had {banker_two} and stands against a third card {player[2]}: {forbidden}"
    return f"Player stood on {player_two} and Banker had {banker_two}, so both stand: {forbidden}"


def rule_in_words(play: Play) -> str:
    """The row of the tableau that a coup went by, in a sentence."""
    player_two, banker_two = two_card_total(play.player), two_card_total(play.banker)
    if play.natural:
        hands = [
            f"{name} has a natural {two}"
            for name, two in (("Player", player_two), ("Banker", banker_two))
            if two >= 8
        ]
        return f"{' and '.join(hands)}: both hands stand."
    if len(play.player) > 2:
        third = play.player[2]
        limit = BANKER_DRAWS_UP_TO[third[0]]
        said = (
            f"Player {player_two} draws; against a third card {spelled(third)} Banker draws on 0 to {limit}"
        )
    else:
        limit = BANKER_DRAWS_UP_TO_IF_PLAYER_STOOD
        said = f"Player {player_two} stands; then Banker draws on 0 to {limit}"
    return f"{said}: Banker {banker_two} {'draws' if banker_two <= limit else 'stands'}."


def spelled(card: str) -> str:
    """A rank as it is printed on the card: ``T`` is the ten."""
    return "10" if card[0] == "T" else card[0]


def _why_banker_draws(player: Sequence[str], banker_two: int) -> str:
    if len(player) > 2:
        return f"Banker had {banker_two} against a third card {player[2]}"
    return f"Player stood and Banker had {banker_two}"


def _name(hand: Side) -> str:
    return "Player" if hand == "player" else "Banker"
