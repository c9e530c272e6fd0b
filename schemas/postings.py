"""Every journal entry that wallet writes, as data (``postings.toml``), compiled for adding up.

Wallet books by this table. Audit has a formulation of its own and does not read it: an import contract holds
that.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from schemas.chart import chart

WIN: Final = "win"
"""In place of an account's number: the gaming-win account of the bet's spot."""
_TERM: Final = re.compile(r"\s*([+-]?)\s*([a-z]+)\s*")


class Line(NamedTuple):
    """One line of a posting."""

    ledger: str
    """A number of the chart, or ``win``."""
    party: str | None
    """Whose sub-ledger: the name of the argument that says it."""
    terms: tuple[tuple[int, str], ...]
    """Sign and quantity; a debit is positive."""


class Template(NamedTuple):
    """One numbered posting."""

    event: str
    lines: tuple[Line, ...]
    sample: Mapping[str, int | str]


@cache
def templates() -> Mapping[str, Template]:
    """All postings, by number.

    Raises:
        ValueError: the table names an account that the chart does not have, or a side is not a sum.
    """
    table = tomllib.loads((files("schemas") / "postings.toml").read_text("utf-8"))
    return {
        number: Template(
            each["event"],
            tuple(
                _line(number, ledger, formula, sign)
                for side, sign in (("debit", 1), ("credit", -1))
                for ledger, formula in each[side].items()
            ),
            each["sample"],
        )
        for number, each in table.items()
    }


def _line(number: str, ledger: str, formula: str, sign: int) -> Line:
    if ledger != WIN and ledger not in chart():
        raise ValueError(f"posting {number} names account {ledger}, which the chart does not have")
    terms, at = [], 0
    while at < len(formula):
        found = _TERM.match(formula, at)
        if found is None or (at and not found[1]):
            raise ValueError(f"posting {number}: {formula!r} is not a sum of quantities")
        terms.append((-sign if found[1] == "-" else sign, found[2]))
        at = found.end()
    return Line(ledger, None if ledger == WIN else chart()[ledger].party, tuple(terms))
