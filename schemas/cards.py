"""How a card is written: rank ``A 2..9 T J Q K``, then suit ``S H D C`` where it was recorded.

Only the notation lives here. What a card is *worth* is a rule, and each service that needs it has a
formulation of its own (design: "two formulations of every rule").
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import StringConstraints

RANKS: Final = "A23456789TJQK"
SUITS: Final = "SHDC"

CARD_PATTERN: Final = rf"^[{RANKS}][{SUITS}]?$"

Card = Annotated[str, StringConstraints(pattern=CARD_PATTERN, strict=True)]
"""A card as it stands in an event: ``"8C"``, or ``"8"`` where the suit was not recorded."""

_KNOWN: Final[dict[str, Card]] = {rank + suit: rank + suit for rank in RANKS for suit in ("", *SUITS)} | {
    "10" + suit: "T" + suit for suit in ("", *SUITS)
}


def parse_card(text: str) -> Card:
    """The card that ``text`` names, in the notation of the events (``10H`` becomes ``TH``).

    Raises:
        ValueError: in words for the person who typed it.
    """
    try:
        return _KNOWN[text]
    except (KeyError, TypeError):
        raise ValueError(
            f"{text!r} is not a card: write the rank (A 2 3 4 5 6 7 8 9 T J Q K, or 10) "
            "and then the suit (S H D C), or the rank alone if the suit was not recorded"
        ) from None


def rank_of(card: Card) -> str:
    """The rank letter of a card."""
    return card[0]


def suit_of(card: Card) -> str | None:
    """The suit letter, or ``None`` where it was not recorded."""
    return card[1] if len(card) == 2 else None
