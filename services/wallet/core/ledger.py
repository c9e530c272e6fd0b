"""The ledger: balances that are a fold of journal entries, and of nothing else.

Amounts are integers of minor units; a debit is positive, a credit negative. An entry sums to zero in
each currency (I1), and no player's cash or bonus is overdrawn at any position (I5): looked at when the whole
entry is posted, since a correction reverses before it posts anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from schemas.chart import chart
from schemas.events.base import Posting
from services.wallet.core.postings import PLAYER_BONUS, PLAYER_CASH

Line = tuple[str, str, str | None, str]
"""What a balance belongs to: operator, account number, party (an account, a bet, …), currency."""

_NEVER_OVERDRAWN: Final = (PLAYER_CASH, PLAYER_BONUS)


class Unbalanced(AssertionError):
    """An entry that must not be written. A defect of ours, never of the input."""


class Ledger:
    """All balances that are not zero, debits positive."""

    def __init__(self, balances: Mapping[Line, int] | None = None) -> None:
        self._balances: dict[Line, int] = dict(balances or {})
        self.touched: set[Line] = set()
        """Lines that changed since somebody cleared this set."""

    def post(self, operator: str, entry: Iterable[Posting]) -> None:
        """Apply an entry to an operator's books.

        Raises:
            Unbalanced: it does not sum to zero, or would overdraw a player.
        """
        balances, touched = self._balances, self.touched
        sums: dict[str, int] = {}
        players: list[Line] = []
        for posting in entry:
            amount, currency, ledger = posting.amount, posting.currency, posting.ledger
            line = (operator, ledger, posting.party, currency)
            sums[currency] = sums.get(currency, 0) + amount
            balance = balances.get(line, 0) + amount
            if balance:
                balances[line] = balance
            else:
                balances.pop(line, None)
            touched.add(line)
            if balance > 0 and ledger in _NEVER_OVERDRAWN:
                players.append(line)
        for line in players:
            if (balance := balances.get(line, 0)) > 0:
                name = chart()[line[1]].name
                raise Unbalanced(f"{name} of {line[2]} would be overdrawn by {balance} {line[3]}")
        if any(sums.values()):
            raise Unbalanced(f"an entry does not sum to zero: {dict(sums)}")

    def balance(self, operator: str, ledger: str, party: str | None, currency: str) -> int:
        """Net debit of a line."""
        return self._balances.get((operator, ledger, party, currency), 0)

    def cash(self, operator: str, account: str, currency: str) -> int:
        """What a player can bet, in minor units."""
        return -self._balances.get((operator, PLAYER_CASH, account, currency), 0)

    def balances(self) -> Mapping[Line, int]:
        """Everything that is not zero."""
        return self._balances
