"""What a verification came to, and the counting of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from schemas.events.audit import DiscrepancyFound, Turnover
from schemas.events.base import operator_of
from schemas.house import House
from services.audit.core.facts import CorrectionListener, CoupAccount, Listener, ShoeAccount


@dataclass
class Verification:
    """What came of it. ``ok`` only if everything was read, agreed and balances."""

    streams: int = 0
    events: int = 0
    verified: int = 0
    void: int = 0
    """Among the verified: coups that were void, their stakes returned."""
    discrepant: int = 0
    open: int = 0
    corrected: int = 0
    """Later results that were paid anew, verified or not."""
    outcomes: Counter[str] = field(default_factory=Counter)
    turnover: dict[str, Turnover] = field(default_factory=dict)
    """Money of all finished coups, by currency."""
    bets: int = 0
    refused_bets: int = 0
    trial_balance: dict[tuple[str, str], int] = field(default_factory=dict)
    """Net debit in minor units by (account number, currency), over all wallet streams."""
    findings: list[DiscrepancyFound] = field(default_factory=list)
    findings_count: int = 0
    notices: list[DiscrepancyFound] = field(default_factory=list)
    """What does not count: what audit met on the bus while it ran, such as a gap that was filled since; and,
    where services are at work or were interrupted, what is missing from the end of a place, since it may only
    not be there yet."""

    @property
    def balanced(self) -> bool:
        """Debits and credits are equal in every currency."""
        sums: Counter[str] = Counter()
        for (_, currency), amount in self.trial_balance.items():
            sums[currency] += amount
        return not any(sums.values())

    @property
    def ok(self) -> bool:
        """Nothing was found, and the ledger balances."""
        return self.findings_count == 0 and self.balanced


class Tally:
    """Counts what the verifier tells, and passes it on."""

    def __init__(self, result: Verification, listener: Listener | None) -> None:
        self._result, self._listener = result, listener

    def house(self, operator: str, table: str, number: int, house: House) -> None:
        if self._listener is not None:
            self._listener.house(operator, table, number, house)

    def shoe(self, account: ShoeAccount) -> None:
        if self._listener is not None:
            self._listener.shoe(account)

    def coup(self, account: CoupAccount) -> None:
        result = self._result
        if account.verdict == "open":
            result.open += 1
        elif account.verdict == "verified":
            result.verified += 1
            result.void += account.status == "void"
        else:
            result.discrepant += 1
        if account.status == "settled" and account.outcome is not None:
            result.outcomes[account.outcome] += 1
        refused = sum(bet.status == "refused" for bet in account.bets)
        result.refused_bets += refused
        result.bets += len(account.bets) - refused
        if account.verdict != "open":
            for row in account.turnover:
                result.turnover[row.currency] = _sum(result.turnover.get(row.currency), row)
        if self._listener is not None:
            self._listener.coup(account)

    def correction(self, before: CoupAccount, after: CoupAccount) -> None:
        """What was counted of a coup counts no more, and what it comes to now does."""
        result = self._result
        result.corrected += 1
        if after.verdict == "discrepancy" and before.verdict == "verified":
            result.verified, result.discrepant = result.verified - 1, result.discrepant + 1
        result.void += (after.status == "void" and after.verdict == "verified") - (
            before.status == "void" and before.verdict == "verified"
        )
        for account, sign in ((before, -1), (after, 1)):
            if account.status == "settled" and account.outcome is not None:
                result.outcomes[account.outcome] += sign
            for row in account.turnover:
                result.turnover[row.currency] = _sum(result.turnover.get(row.currency), row, sign)
        if isinstance(self._listener, CorrectionListener):
            self._listener.correction(before, after)


def _sum(so_far: Turnover | None, row: Turnover, sign: int = 1) -> Turnover:
    if so_far is None:
        return row
    return row.model_copy(
        update={
            "staked": so_far.staked + sign * row.staked,
            "returned": so_far.returned + sign * row.returned,
            "commission": so_far.commission + sign * row.commission,
        }
    )


def fault(stream: str, check: str, words: str, sequence: int = 0) -> DiscrepancyFound:
    """A finding about a stream, or about a file."""
    return DiscrepancyFound(
        operator=operator_of(stream),
        check=check,
        stream=stream,
        sequence=sequence,
        recorded="",
        expected="",
        words=words,
    )
