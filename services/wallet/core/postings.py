"""Journal entries from the table of postings (``postings.toml``), which can be read beside the reference.

A template is compiled once: for each line the account, whose sub-ledger, the side, and the quantities that
are added and subtracted. ``Booking`` adds up the lines of as many postings as belong into one entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from schemas.events.base import Entry, Posting
from schemas.postings import WIN, templates

PLAYER_CASH: Final = "2010"
PLAYER_BONUS: Final = "2020"
BETS_IN_PLAY: Final = "2030"
RECEIVABLE: Final = "1060"
COMMISSION_OWED: Final = "1065"
BONUS_COST: Final = "5010"
OPERATOR_CLEARING: Final = "1050"

GAMING_WIN: Final[Mapping[str, str]] = {"player": "4010", "banker": "4011", "tie": "4012"}
SIDE_BETS: Final = "4013"

LineKey = tuple[str, str | None, str]
"""Account number, party, currency."""


class Booking:
    """One journal entry in the making. Amounts of the same line are added up."""

    def __init__(self) -> None:
        self.lines: dict[LineKey, int] = {}

    def book(
        self,
        number: str,
        currency: str,
        quantities: Mapping[str, int],
        parties: Mapping[str, str],
        *,
        sign: int = 1,
        spot: str = "",
    ) -> Booking:
        """Add a posting; with ``sign`` -1 its reversal.

        Raises:
            KeyError: there is no such posting, or it has a quantity or party that is not given.
        """
        lines = self.lines
        for ledger, party, terms in templates()[number].lines:
            amount = 0
            for term_sign, name in terms:
                amount += term_sign * quantities[name]
            if amount:
                account = GAMING_WIN.get(spot, SIDE_BETS) if ledger == WIN else ledger
                key = (account, None if party is None else parties[party], currency)
                lines[key] = lines.get(key, 0) + sign * amount
        return self

    def add(self, line: LineKey, amount: int) -> None:
        """Add to one line: for what only the net of an entry shows (shortfalls)."""
        self.lines[line] = self.lines.get(line, 0) + amount

    def entry(self) -> Entry:
        """The journal entry, without the lines that came to nothing."""
        return tuple(
            Posting(ledger=ledger, party=party, currency=currency, amount=amount)
            for (ledger, party, currency), amount in self.lines.items()
            if amount
        )


def entry_of(
    number: str, currency: str, quantities: Mapping[str, int], parties: Mapping[str, str], *, spot: str = ""
) -> Entry:
    """The journal entry of a single posting. ``parties``: who ``account``, ``bet``, … are in the
    sub-ledgers."""
    return Booking().book(number, currency, quantities, parties, spot=spot).entry()
