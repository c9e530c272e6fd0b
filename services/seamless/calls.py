"""What is asked of an operator's wallet, and what can become of it. Amounts are integers of minor units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Debit:
    """Take money of a player."""

    tx: str
    account: str
    currency: str
    amount: int
    table: str | None = None
    shoe: str | None = None
    coup: int | None = None
    bet: str | None = None
    spot: str | None = None
    seat: int | None = None
    token: str | None = None
    kind: Literal["bet", "tip", "correction"] = "bet"
    bet_tx: str | None = None
    """For a correction: the ``tx`` of the debit that took the stake."""


@dataclass(frozen=True, slots=True)
class Credit:
    """Give money to a player."""

    tx: str
    account: str
    currency: str
    amount: int
    bet_tx: str | None
    """The ``tx`` of the debit that took the stake; a promotion may have none."""
    closes: bool = True
    kind: str = "win"
    """``win``, ``refund``, ``correction``, ``promo`` or ``promo_…``."""
    table: str | None = None
    shoe: str | None = None
    coup: int | None = None


@dataclass(frozen=True, slots=True)
class Rollback:
    """Give a debit back, or make sure that it never comes to count."""

    tx: str
    account: str
    currency: str
    target: str
    """The ``tx`` of the debit."""
    amount: int | None = None
    """What it was, where known. The operator goes by his own record."""
    table: str | None = None
    shoe: str | None = None
    coup: int | None = None


Movement = Debit | Credit | Rollback


@dataclass(frozen=True, slots=True)
class Play:
    """Several movements of one player, all of them or none."""

    account: str
    actions: tuple[Movement, ...]


@dataclass(frozen=True, slots=True)
class AskStatus:
    """What became of a transaction."""

    account: str
    tx: str


@dataclass(frozen=True, slots=True)
class AskBalance:
    """What a player has."""

    account: str
    currency: str
    token: str | None = None


@dataclass(frozen=True, slots=True)
class TellRound:
    """How far a coup is."""

    table: str
    shoe: str
    coup: int
    phase: Literal["bets_closed", "closed"]


@dataclass(frozen=True, slots=True)
class Ping:
    """Whether somebody answers."""


Call = Debit | Credit | Rollback | Play | AskStatus | AskBalance | TellRound | Ping


# --------------------------------------------------------------------------------------------- outcomes


@dataclass(frozen=True, slots=True)
class Done:
    """It was carried out."""

    balance: int | None
    """The player's, right after it; None where the answer has none."""
    code: str = "OK"
    """``OK``, or ``TOMBSTONED``: the debit was not known, and will be refused when it comes."""
    replayed: bool = False
    """It had been carried out before; nothing moved now."""


@dataclass(frozen=True, slots=True)
class Refused:
    """It was not carried out, and moved nothing."""

    code: str
    """Normalised (wallet reference, 1.3)."""
    words: str
    field: str = ""
    retryable: bool = False
    """Whether the same call may be answered otherwise later: a win that overtook its bet."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nobody here knows whether it was carried out. Ask for its status, repeat it, or roll it back."""

    reason: str
    sent: bool = True
    """False where nobody can have received this request. An earlier one with the same id may have arrived."""


Outcome = Done | Refused | Unknown


@dataclass(frozen=True, slots=True)
class Status:
    """What the operator knows of a transaction."""

    state: Literal["unknown", "in_progress", "final"]
    """``unknown`` is not *never*: the request may still be under way. A rollback makes it so."""
    outcome: Done | Refused | None = None
    """What was answered, if it is final."""
