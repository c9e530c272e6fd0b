"""Small pieces of HTML that several parts of a report use. Whoever passes text in has escaped it."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

NAMES: Final = {"player": "Player", "banker": "Banker", "tie": "Tie"}


def badge(outcome: str) -> str:
    """A letter on its colour: B, P or T."""
    letter = outcome[0].upper()
    return f'<span class="o o{letter}">{letter}</span>'


def spot_name(spot: str) -> str:
    """A spot with its badge; one that we do not know by its name alone."""
    return f"{badge(spot)} {NAMES[spot]}" if spot in NAMES else escape(spot)


def number(text: str, more: str = "") -> str:
    """A table cell with a number, to the right."""
    return f'<td class="m{more}">{text}</td>'


def coloured(units: int) -> str:
    """The class that colours a gain or a loss; the sign says the same without colour."""
    return " plus" if units > 0 else " minus" if units < 0 else ""


def header_row(words: Iterable[str], numbers: Iterable[str]) -> str:
    """The head of a table: columns of words, then columns of numbers."""
    cells = [f'<th scope="col">{each}</th>' for each in words]
    cells += [f'<th scope="col" class="m">{each}</th>' for each in numbers]
    return f"<thead><tr>{''.join(cells)}</tr></thead>"
