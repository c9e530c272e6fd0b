"""The shoe as a pile of cards: what is burned, when the cut card is out, what can still be in it.

A virtual shoe is a known order of cards (``fair``). Before the first coup some are burned: the first card
is shown, and as many more as it is worth leave face down. The cut card lies before the last N cards. It is
*out* as soon as a card from behind it has left the shoe, and the coup in which that happens is the last.
If exactly N cards are left after a coup, the cut card is only next: one more coup is dealt, and with N = 6
it has just the cards that it may need. (Sources: rules/houses.md, "Defaults"; rules/baccarat.md 1.2, whose
least depth of six and whose mean of 80.48 coups are those of this reading.)

A recorded shoe was dealt elsewhere and its order is not known. But it is made of whole decks: no card can
come out more often than it is in them, and that is the cheapest strong check of a record that there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from schemas.cards import SUITS, Card, rank_of, suit_of
from schemas.house import Burn
from services.game.core.values import BURN_WORTH

DECK_CARDS: Final = 52


def burned(order: Sequence[Card], burn: Burn) -> tuple[Card | None, ...]:
    """The cards that leave before the first coup, as they are seen: ``None`` for one that stays face down."""
    if burn is Burn.NONE:
        return ()
    shown = order[0]
    return (shown, *(None for _ in range(BURN_WORTH[shown])))


def cut_card_is_out(decks: int, cut_cards_from_end: int, cards_out: int) -> bool:
    """Whether, with so many cards out of the shoe, one from behind the cut card is among them."""
    return decks * DECK_CARDS - cards_out < cut_cards_from_end


def with_cards(copies: Mapping[Card, int], cards: Iterable[Card]) -> dict[Card, int]:
    """Copies of each card, as it was written, after these came out too."""
    after = dict(copies)
    for card in cards:
        after[card] = after.get(card, 0) + 1
    return after


def without_cards(copies: Mapping[Card, int], cards: Iterable[Card]) -> dict[Card, int]:
    """Copies of each card, as if these, which were counted, had not come out."""
    others = dict(copies)
    for card in cards:
        others[card] -= 1
    return others


def impossible(copies: Mapping[Card, int], decks: int, changed: Iterable[Card]) -> str | None:
    """Why so many copies cannot come from so many decks, in words; ``None`` if they can.

    A suited card is in each deck once, a rank four times. A card without a recorded suit counts for its
    rank alone. Only the cards in ``changed`` are looked at.
    """
    for card in changed:
        if suit_of(card) is not None and copies.get(card, 0) > decks:
            return f"{card} would have come out {copies[card]} times, and {_hold(decks)} {decks}"
        rank = rank_of(card)
        of_rank = copies.get(rank, 0) + sum(copies.get(rank + suit, 0) for suit in SUITS)
        if of_rank > 4 * decks:
            return f"{rank} would have come out {of_rank} times, and {_hold(decks)} {4 * decks}"
    return None


def _hold(decks: int) -> str:
    return f"{decks} decks hold" if decks > 1 else "1 deck holds"
