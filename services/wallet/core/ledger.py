"""The ledger: a chart of accounts, journal entries, and balances that are a fold of entries.

Amounts are integers of minor units; a debit is positive, a credit negative. An entry sums to zero in
each currency (I1), and a player's cash is never overdrawn at any position (I5). Account numbers and
sample postings: wallet reference, section 3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from schemas.events.base import Entry, Posting

PSP_DEPOSITS: Final = "1030"
PLAYER_CASH: Final = "2010"
BETS_IN_PLAY: Final = "2030"
COMMISSION_REVENUE: Final = "4020"

GAMING_WIN: Final[Mapping[str, str]] = {"player": "4010", "banker": "4011", "tie": "4012"}
"""The gaming-win account of each main spot."""

CHART: Final[Mapping[str, str]] = {
    PSP_DEPOSITS: "PSP deposits clearing",
    PLAYER_CASH: "Player cash",
    BETS_IN_PLAY: "Bets in play (escrow)",
    GAMING_WIN["player"]: "Gaming win: Player spot",
    GAMING_WIN["banker"]: "Gaming win: Banker spot, gross of commission",
    GAMING_WIN["tie"]: "Gaming win: Tie spot",
    COMMISSION_REVENUE: "Commission revenue",
}
"""The accounts in use, by number."""

Line = tuple[str, str | None, str]
"""What a balance belongs to: account number, party (a player's account, or a bet), currency."""


class Unbalanced(AssertionError):
    """An entry that must not be written. A defect of ours, never of the input."""


def entry_of(lines: Mapping[Line, int]) -> Entry:
    """The journal entry of net amounts, without the lines that came to nothing."""
    return tuple(
        Posting(ledger=ledger, party=party, currency=currency, amount=amount)
        for (ledger, party, currency), amount in lines.items()
        if amount
    )


def deposit_entry(account: str, currency: str, amount: int) -> Entry:
    """Posting 2: 1030 to 2010."""
    return entry_of({(PSP_DEPOSITS, None, currency): amount, (PLAYER_CASH, account, currency): -amount})


def stake_entry(account: str, bet: str, currency: str, stake: int) -> Entry:
    """Posting 3: 2010 to 2030."""
    return entry_of({(PLAYER_CASH, account, currency): stake, (BETS_IN_PLAY, bet, currency): -stake})


class Settling:
    """Collects the postings of several bets into one entry; the house's accounts are summed (4 to 9)."""

    def __init__(self) -> None:
        self._lines: defaultdict[Line, int] = defaultdict(int)

    def settle(
        self, bet: str, account: str, spot: str, currency: str, *, stake: int, returned: int, commission: int
    ) -> None:
        """Take the stake out of play, pay what is returned, and let the house's accounts take the rest."""
        self._lines[BETS_IN_PLAY, bet, currency] += stake
        self._lines[PLAYER_CASH, account, currency] -= returned
        self._lines[COMMISSION_REVENUE, None, currency] -= commission
        self._lines[GAMING_WIN[spot], None, currency] += returned + commission - stake

    def give_back(self, bet: str, account: str, currency: str, stake: int) -> None:
        """Posting 9: a stake goes back."""
        self._lines[BETS_IN_PLAY, bet, currency] += stake
        self._lines[PLAYER_CASH, account, currency] -= stake

    def entry(self) -> Entry:
        """The balanced entry."""
        return entry_of(self._lines)


class Ledger:
    """All balances that are not zero, debits positive. Changed by entries and by nothing else."""

    def __init__(self, balances: Mapping[Line, int] | None = None) -> None:
        self._balances: dict[Line, int] = dict(balances or {})
        self.touched: set[Line] = set()
        """Lines that changed since somebody cleared this set."""

    def post(self, entry: Iterable[Posting]) -> None:
        """Apply an entry.

        Raises:
            Unbalanced: it does not sum to zero, or would overdraw a player.
        """
        sums: defaultdict[str, int] = defaultdict(int)
        for posting in entry:
            line = (posting.ledger, posting.party, posting.currency)
            sums[posting.currency] += posting.amount
            balance = self._balances.get(line, 0) + posting.amount
            if balance:
                self._balances[line] = balance
            else:
                self._balances.pop(line, None)
            self.touched.add(line)
            if posting.ledger == PLAYER_CASH and balance > 0:
                raise Unbalanced(
                    f"player cash {posting.party} would be overdrawn by {balance} {posting.currency}"
                )
        if any(sums.values()):
            raise Unbalanced(f"an entry does not sum to zero: {dict(sums)}")

    def balance(self, line: Line) -> int:
        """Net debit of a line."""
        return self._balances.get(line, 0)

    def cash(self, account: str, currency: str) -> int:
        """What a player can bet, in minor units."""
        return -self.balance((PLAYER_CASH, account, currency))

    def balances(self) -> Mapping[Line, int]:
        """Everything that is not zero."""
        return self._balances
