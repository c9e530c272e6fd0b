"""The draw rules, by *Banker's two-card total*: how a coup goes once its cards come.

Each hand gets two cards. An 8 or 9 on either of these two-card totals is a *natural*: both hands stand,
whatever else would apply. Otherwise Player draws on 0 to 5 and stands on 6 and 7. If Player stood,
Banker draws on 0 to 5. If Player drew, Banker's row of the table below says to which third cards of
Player's he draws: the value of that one card counts, not Player's new total. Nobody ever has more than
three cards. Nearest to 9 wins, and equal totals tie.

Audit checks the same coups by *Player's third card*, from a table of its own, so that a mistake here
cannot agree with a mistake there. Nothing of this module may be used by it. (Source: rules/houses.md.)

Two questions are asked of this module. A virtual shoe asks ``play``: here are the next cards, how many
are used, and who won? A record of cards that were dealt elsewhere asks ``check``: are these the cards of
one whole coup, none missing and none that nobody was allowed to draw?
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from schemas.cards import Card
from schemas.events.base import Hand, Outcome
from services.game.core.values import WORTH

Order = tuple[Hand, Hand, Hand, Hand]
"""The hands that the first four cards go to, in the order in which the cards leave the shoe."""

COUP_CARDS_MAX: Final = 6

BANKER_DRAWS_TO: Final[dict[int, str]] = {
    0: "0123456789",
    1: "0123456789",
    2: "0123456789",
    3: "01234567 9",
    4: "  234567  ",
    5: "    4567  ",
    6: "      67  ",
    7: "          ",
}
"""By Banker's two-card total: the values of Player's third card to which Banker draws."""

_BANKER_DRAWS: Final = [[str(third) in BANKER_DRAWS_TO[total] for third in range(10)] for total in range(8)]
_NATURALS: Final = (8, 9)


class CoupResult(NamedTuple):
    """How a coup ended. ``used`` counts the cards that left the shoe for it, 4 to 6."""

    player: tuple[Card, ...]
    banker: tuple[Card, ...]
    player_total: int
    banker_total: int
    outcome: Outcome
    natural: bool
    """Either hand had an 8 or 9 on two cards. A three-card 8 or 9 is none."""
    used: int


class CoupUnfinished(ValueError):
    """The cards ran out before the coup was over."""


class CardsIllegal(ValueError):
    """Recorded cards that are not one whole coup. The message says why, in words for a person."""


def is_natural(player_total: int, banker_total: int) -> bool:
    """Whether either of these two-card totals makes both hands stand."""
    return player_total in _NATURALS or banker_total in _NATURALS


def player_draws(player_total: int) -> bool:
    """Whether Player draws on this two-card total, where neither hand has a natural."""
    return player_total <= 5


def banker_draws(banker_total: int, player_third: int | None) -> bool:
    """Whether Banker draws on this two-card total, where neither hand has a natural.

    ``player_third`` is the value of Player's third card, 0 to 9, or ``None`` if Player stood. A court
    card is worth 0 and is a card: 0 is not the same as ``None``.
    """
    if player_third is None:
        return banker_total <= 5
    return _BANKER_DRAWS[banker_total][player_third]


def play(cards: Sequence[Card], order: Order) -> CoupResult:
    """The coup that these cards make, in the order in which they leave the shoe; more may follow it.

    Raises:
        CoupUnfinished: there are fewer cards than the coup needs.
    """
    first, second, third, fourth = _SEATING[order]
    try:
        player: tuple[Card, ...] = (cards[first], cards[second])
        banker: tuple[Card, ...] = (cards[third], cards[fourth])
        player_total = (WORTH[player[0]] + WORTH[player[1]]) % 10
        banker_total = (WORTH[banker[0]] + WORTH[banker[1]]) % 10
        natural = player_total >= 8 or banker_total >= 8
        used = 4
        if not natural:
            # A third card of the coup before must not linger, and a third card worth 0 is one.
            player_third = None
            if player_total <= 5:
                player += (cards[used],)
                used += 1
                player_third = WORTH[player[2]]
                player_total = (player_total + player_third) % 10
            if banker_draws(banker_total, player_third):
                banker += (cards[used],)
                used += 1
                banker_total = (banker_total + WORTH[banker[2]]) % 10
    except IndexError:
        raise CoupUnfinished(f"{len(cards)} cards are not a whole coup") from None
    outcome: Outcome = "tie"
    if player_total != banker_total:
        outcome = "player" if player_total > banker_total else "banker"
    return CoupResult(player, banker, player_total, banker_total, outcome, natural, used)


def _all_orders() -> list[Order]:
    """The six ways of giving each hand two of the first four cards."""
    orders: list[Order] = []
    for first in range(4):
        for second in range(first + 1, 4):
            hands: list[Hand] = ["player" if place in (first, second) else "banker" for place in range(4)]
            orders.append((hands[0], hands[1], hands[2], hands[3]))
    return orders


def _seating(order: Order) -> tuple[int, int, int, int]:
    """Where among the first four cards Player's two and then Banker's two are found."""
    players = [place for place, hand in enumerate(order) if hand == "player"]
    bankers = [place for place, hand in enumerate(order) if hand == "banker"]
    return players[0], players[1], bankers[0], bankers[1]


_SEATING: Final = {order: _seating(order) for order in _all_orders()}


def places(result: CoupResult, order: Order) -> list[tuple[Hand, int, Card]]:
    """The cards of a coup as they left the shoe, each with its hand and its place there (1 to 3)."""
    dealt: list[tuple[Hand, int, Card]] = []
    seen: dict[Hand, int] = {"player": 0, "banker": 0}
    hands: dict[Hand, tuple[Card, ...]] = {"player": result.player, "banker": result.banker}
    for hand in (*order, "player", "banker"):
        place = seen[hand]
        # The last two rounds of this loop are the third cards: a hand that stood has none.
        if place < len(hands[hand]):
            dealt.append((hand, place + 1, hands[hand][place]))
            seen[hand] = place + 1
    return dealt


# ------------------------------------------------------------------------------------------- recorded coups

_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh")


def check(cards: Sequence[Card], order: Order) -> CoupResult:
    """The coup that a complete record of cards makes, in the order in which they left the shoe.

    Raises:
        CardsIllegal: a card is missing, or there is one that nobody was allowed to draw.
    """
    if len(cards) < 4:
        hand = order[len(cards)]
        nth = order[: len(cards) + 1].count(hand)
        raise CardsIllegal(
            f"{_named(hand)} still needs his {_ORDINALS[nth - 1]} card: "
            f"a coup has at least four cards and {len(cards)} were recorded"
        )
    try:
        result = play(cards, order)
    except CoupUnfinished:
        raise CardsIllegal(_who_still_draws(cards, order)) from None
    if len(cards) > result.used:
        raise CardsIllegal(_why_nobody_draws(result))
    return result


def _named(hand: Hand) -> str:
    return "Player" if hand == "player" else "Banker"


def _two_card_totals(cards: Sequence[Card], order: Order) -> tuple[int, int]:
    first, second, third, fourth = (WORTH[cards[place]] for place in _SEATING[order])
    return (first + second) % 10, (third + fourth) % 10


def _who_still_draws(cards: Sequence[Card], order: Order) -> str:
    player_total, banker_total = _two_card_totals(cards, order)
    missing = f"the {_ORDINALS[len(cards)]} card is missing"
    if not player_draws(player_total):
        return f"Player stood on {player_total} and Banker must draw on {banker_total}: {missing}"
    if len(cards) == 4:
        return f"Player must draw on {player_total}: {missing}"
    return f"Banker must draw on {banker_total} to Player's third card, {_spelled(cards[4])}: {missing}"


def _why_nobody_draws(result: CoupResult) -> str:
    surplus = f"nobody may draw a {_ORDINALS[result.used]} card"
    player_drew, banker_drew = len(result.player) == 3, len(result.banker) == 3
    player_two = (WORTH[result.player[0]] + WORTH[result.player[1]]) % 10
    banker_two = (WORTH[result.banker[0]] + WORTH[result.banker[1]]) % 10
    if result.natural:
        holders = [
            f"{name} has a natural {total}"
            for name, total in (("Player", player_two), ("Banker", banker_two))
            if total in _NATURALS
        ]
        return f"{' and '.join(holders)}: {surplus}"
    if player_drew and banker_drew:
        return f"both hands have drawn their third card: {surplus}"
    if player_drew:
        to_card = f" to Player's third card, {_spelled(result.player[2])}" if banker_two != 7 else ""
        return f"Banker stands on {banker_two}{to_card}: {surplus}"
    if banker_drew:
        return f"Player stood on {player_two} and Banker has drawn: {surplus}"
    return f"Player stood on {player_two} and Banker stands on {banker_two}: {surplus}"


def _spelled(card: Card) -> str:
    """The card, and its worth where that is not what is printed on it."""
    return card if str(WORTH[card]) == card[0] else f"{card} (worth {WORTH[card]})"
