"""Playing cards as inline SVG, drawn here: one symbol a card, used wherever the card lies.

Faces show rank and suit; hearts and diamonds are red, clubs and spades black. A card whose suit was not
recorded shows its rank alone, in grey: we draw what is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

SUIT_NAMES: Final = {"S": "spades", "H": "hearts", "D": "diamonds", "C": "clubs"}
RANK_NAMES: Final = {
    "A": "ace", "2": "two", "3": "three", "4": "four", "5": "five", "6": "six", "7": "seven",
    "8": "eight", "9": "nine", "T": "ten", "J": "jack", "Q": "queen", "K": "king",
}  # fmt: skip

_SUIT_PATHS: Final = {
    "S": "M12 2C8.5 7 3 10 3 14.6a4.6 4.6 0 0 0 7.7 3.4C10.5 20 9.6 21.4 8 22h8c-1.6-.6-2.5-2-2.7-4"
    "A4.6 4.6 0 0 0 21 14.6C21 10 15.5 7 12 2Z",
    "H": "M12 21.5C7 16.8 2.5 13.2 2.5 8.4a4.9 4.9 0 0 1 9.5-1.9 4.9 4.9 0 0 1 9.5 1.9"
    "C21.5 13.2 17 16.8 12 21.5Z",
    "D": "M12 1.5C14 5.5 17 9 20 12c-3 3-6 6.5-8 10.5C10 18.5 7 15 4 12c3-3 6-6.5 8-10.5Z",
    "C": "M12 2a4.6 4.6 0 0 0-3.5 7.6 4.6 4.6 0 1 0 2.3 6.7C10.6 19 9.8 21 8 22h8"
    "c-1.8-1-2.6-3-2.8-5.7a4.6 4.6 0 1 0 2.3-6.7A4.6 4.6 0 0 0 12 2Z",
}

_LEFT, _MIDDLE, _RIGHT = 22, 30, 38
_PIPS: Final[dict[str, tuple[tuple[int, int], ...]]] = {
    "2": ((_MIDDLE, 19), (_MIDDLE, 65)),
    "3": ((_MIDDLE, 19), (_MIDDLE, 42), (_MIDDLE, 65)),
    "4": ((_LEFT, 19), (_RIGHT, 19), (_LEFT, 65), (_RIGHT, 65)),
    "5": ((_LEFT, 19), (_RIGHT, 19), (_MIDDLE, 42), (_LEFT, 65), (_RIGHT, 65)),
    "6": ((_LEFT, 19), (_RIGHT, 19), (_LEFT, 42), (_RIGHT, 42), (_LEFT, 65), (_RIGHT, 65)),
    "7": ((_LEFT, 19), (_RIGHT, 19), (_MIDDLE, 30), (_LEFT, 42), (_RIGHT, 42), (_LEFT, 65), (_RIGHT, 65)),
    "8": (
        (_LEFT, 19), (_RIGHT, 19), (_MIDDLE, 30), (_LEFT, 42), (_RIGHT, 42), (_MIDDLE, 54),
        (_LEFT, 65), (_RIGHT, 65),
    ),
    "9": (
        (_LEFT, 18), (_RIGHT, 18), (_LEFT, 34), (_RIGHT, 34), (_MIDDLE, 42), (_LEFT, 50), (_RIGHT, 50),
        (_LEFT, 66), (_RIGHT, 66),
    ),
    "T": (
        (_LEFT, 18), (_RIGHT, 18), (_MIDDLE, 26), (_LEFT, 34), (_RIGHT, 34), (_LEFT, 50), (_RIGHT, 50),
        (_MIDDLE, 58), (_LEFT, 66), (_RIGHT, 66),
    ),
}  # fmt: skip

_FACE: Final = '<rect x=".75" y=".75" width="58.5" height="82.5" rx="5.5" class="kf"/>'
_HEADWEAR: Final = {
    "K": "M20 33v-9l5 4 5-7 5 7 5-4v9Z",
    "Q": "M20 33c0-4-1-6-2-8 4 1 6 0 8-4 1 3 2 4 4 4s3-1 4-4c2 4 4 5 8 4-1 2-2 4-2 8Z",
    "J": "M19 33c1-8 6-11 12-11 5 0 8 3 9 6-3-1-5-1-6 1 1 1 4 3 5 4Z",
}
"""Crown, coronet and cap, above the letter of a court card."""


def name_of(card: str) -> str:
    """The card in words: ``eight of clubs``, or ``eight`` where the suit was not recorded."""
    rank = RANK_NAMES[card[0]]
    return f"{rank} of {SUIT_NAMES[card[1]]}" if len(card) == 2 else rank


def symbols(cards: Iterable[str]) -> str:
    """SVG symbols for these cards and for the suits they need, for ``<use href="#k8C"/>``."""
    asked = sorted(set(cards))
    suits = sorted({card[1] for card in asked if len(card) == 2})
    parts = [
        f'<symbol id="s{suit}" viewBox="0 0 24 24"><path d="{_SUIT_PATHS[suit]}"/></symbol>' for suit in suits
    ]
    parts.append(f'<symbol id="kf" viewBox="0 0 60 84">{_FACE}</symbol>')
    parts += [_symbol(card) for card in asked]
    return "\n".join(parts)


def _symbol(card: str) -> str:
    rank, suit = card[0], card[1:]
    printed = "10" if rank == "T" else rank
    colour = "n" if not suit else "r" if suit in "HD" else "b"
    corner = f'<text x="8" y="14.5" class="kr">{printed}</text>'
    if suit:
        corner += _suit(suit, 8, 21.5, 8.5)
    half = f'<g id="h{card}">{corner}{_upper_half(rank, suit)}</g>'
    whole = _centre(rank, suit, printed)
    return (
        f'<symbol id="k{card}" viewBox="0 0 60 84"><use href="#kf"/><g class="k{colour}">'
        f'{half}<use href="#h{card}" transform="rotate(180 30 42)"/>{whole}</g></symbol>'
    )


def _upper_half(rank: str, suit: str) -> str:
    """What stands in the upper half and, turned round, in the lower one."""
    pips = _PIPS.get(rank, ()) if suit else ()
    return "".join(_suit(suit, x, y, 11) for x, y in pips if y < 42 and (60 - x, 84 - y) in pips)


def _centre(rank: str, suit: str, printed: str) -> str:
    """What stands on the card once."""
    if not suit:
        return f'<text x="30" y="53" class="kb">{printed}</text>'
    if rank == "A":
        return _suit(suit, 30, 42, 30)
    if rank in _HEADWEAR:
        return (
            '<rect x="16" y="14" width="28" height="56" rx="3" class="kc"/>'
            f'<path d="{_HEADWEAR[rank]}" class="kh"/><text x="30" y="56" class="kl">{rank}</text>'
            f"{_suit(suit, 22, 64, 8)}{_suit(suit, 38, 64, 8)}"
        )
    pips = _PIPS[rank]
    return "".join(_suit(suit, x, y, 11) for x, y in pips if y == 42 or (60 - x, 84 - y) not in pips)


def _suit(suit: str, x: float, y: float, size: float) -> str:
    half = size / 2
    return f'<use href="#s{suit}" x="{x - half:g}" y="{y - half:g}" width="{size:g}" height="{size:g}"/>'
