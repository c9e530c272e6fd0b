"""What people and machines may do, as data: rights, and which role has which.

A role gives rights within one operator; no role reaches another operator (``callers.require``). The reading
rights are those whose name ends in ``:read``: what is not the caller's is then answered as what is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """What somebody is in a room."""

    CASHIER = "cashier"
    """Takes money in and pays it out."""
    PIT_BOSS = "pit_boss"
    """Runs tables."""
    APPROVER = "approver"
    """The second pair of eyes: approves what others propose, and closes the day."""
    AUDITOR = "auditor"
    """Sees everything of the operator and moves nothing."""


class Right(StrEnum):
    """One thing that somebody may do."""

    ACCOUNTS_READ = "accounts:read"
    """Accounts, balances, limits."""
    BETS_READ = "bets:read"
    LEDGER_READ = "ledger:read"
    """The feed of transactions, the status of one, trial balance, reconciliation."""
    TABLES_READ = "tables:read"
    """Tables, shoes and coups."""
    AUDIT_READ = "audit:read"
    """Verdicts, findings, reports."""
    ACCOUNTS_MANAGE = "accounts:manage"
    """Open, freeze and close accounts."""
    DEPOSIT = "deposits:make"
    WITHDRAW = "withdrawals:request"
    WITHDRAWAL_APPROVE = "withdrawals:approve"
    WITHDRAWAL_PAY = "withdrawals:pay"
    """Say that one was paid, or that it came back."""
    BET = "bets:place"
    ROLL_BACK = "bets:roll_back"
    TIP = "tips:give"
    BONUS = "bonuses:grant"
    """Free bets."""
    ADJUST = "adjustments:propose"
    ADJUSTMENT_APPROVE = "adjustments:approve"
    LIMITS = "limits:set"
    EXCLUDE = "exclusions:set"
    TABLES_RUN = "tables:run"
    """Open and close tables, shoes and coups."""
    CORRECT = "corrections:propose"
    """Voids and corrections of coups."""
    CORRECTION_APPROVE = "corrections:approve"
    REVIEW = "findings:review"
    DAY_CLOSE = "days:close"
    HOUSE = "house:move"
    """The house's own money: funding, payouts of the payment provider, segregation."""
    REPAIR = "repairs:make"
    """Have a coup settled again that seems to have been missed."""

    @property
    def reads(self) -> bool:
        """Whether it changes nothing."""
        return self.value.endswith(":read")


READING: Final = frozenset(right for right in Right if right.reads)

_EYES: Final = frozenset({
    Right.ADJUSTMENT_APPROVE, Right.CORRECTION_APPROVE, Right.REVIEW, Right.DAY_CLOSE,
})  # fmt: skip
"""What takes a person with a name."""

ROLE_RIGHTS: Final[Mapping[Role, frozenset[Right]]] = {
    Role.CASHIER: frozenset({
        Right.ACCOUNTS_READ, Right.BETS_READ, Right.TABLES_READ, Right.ACCOUNTS_MANAGE, Right.DEPOSIT,
        Right.WITHDRAW, Right.WITHDRAWAL_PAY, Right.TIP, Right.ADJUST, Right.LIMITS, Right.EXCLUDE,
    }),
    Role.PIT_BOSS: frozenset({
        Right.ACCOUNTS_READ, Right.BETS_READ, Right.TABLES_READ, Right.TABLES_RUN, Right.BET, Right.ROLL_BACK,
        Right.TIP, Right.ADJUST, Right.CORRECT, Right.EXCLUDE, Right.REPAIR,
    }),
    Role.APPROVER: READING | _EYES - {Right.REVIEW} | {Right.WITHDRAWAL_APPROVE},
    Role.AUDITOR: READING | {Right.REVIEW},
}  # fmt: skip

MACHINE_RIGHTS: Final = frozenset(Right) - _EYES
"""What an operator's own systems may do with a key: all but what takes a person with a name."""

EVERY_RIGHT: Final = frozenset(Right)
