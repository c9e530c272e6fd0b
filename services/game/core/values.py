"""What a card is worth: to a hand, and to the burn.

A hand counts an ace 1, 2 to 9 as they are, ten and courts 0, and is worth its sum modulo 10. The burn
counts the same cards otherwise: there a ten or a court card is 10. The two must never be mixed up, and
suits matter to neither. (Sources: rules/houses.md, "Card values everywhere" and "Defaults".)
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from schemas.cards import RANKS, SUITS, Card

_COURTS_AND_TEN: Final = "TJQK"


def _by_card(of_ten: int) -> Mapping[Card, int]:
    """A worth for every way of writing a card, so that the hot path is one look-up."""
    return MappingProxyType(
        {
            rank + suit: of_ten if rank in _COURTS_AND_TEN else pips
            for pips, rank in enumerate(RANKS, start=1)
            for suit in ("", *SUITS)
        }
    )


WORTH: Final = _by_card(of_ten=0)
"""Points of a card in a hand, 0 to 9, by the card as it stands in an event."""

BURN_WORTH: Final = _by_card(of_ten=10)
"""Cards that follow a first card, 1 to 10, where the burn goes by its value."""
