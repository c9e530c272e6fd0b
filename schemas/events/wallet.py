"""What wallet says of bets: taken, sealed, settled, corrected. Streams ``wallet/<shard>``.

Every event that moves money carries its journal entry, so that the ledger is a fold of the stream.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from schemas.events.accounts import ACCOUNT_EVENTS, Positive, TransactionId
from schemas.events.base import (
    CoupPayload,
    Currency,
    Entry,
    EventRef,
    Exponent,
    Hash,
    MinorUnits,
    Model,
    Name,
    Outcome,
    Payload,
    Seat,
    Spot,
    Tier,
)

BETS_PER_PART = 100
"""Bets in one settlement event at the most, so that it stays below 65,535 bytes."""

Funding = Literal["cash", "free", "operator"]
"""Where a stake comes from: the player's cash here (2010), a free bet (2020), or his balance at the operator
(1050)."""


class BetAccepted(CoupPayload):
    """A stake goes into play: from 2010, 2020 or 1050 to 2030 (postings 3, 13b, 17)."""

    NAME: ClassVar[str] = "sabot.wallet.bet.accepted"

    bet: Name
    account: Name
    tx: TransactionId
    seat: Seat | None
    spot: Spot
    currency: Currency
    exponent: Exponent
    stake: Positive
    entry: Entry
    funding: Funding = "cash"
    grant: Name | None = None
    """The free bet that it uses."""


RefusalCode = Literal[
    "INSUFFICIENT_FUNDS",
    "ROUND_CLOSED",
    "BETTING_CLOSED",
    "SPOT_UNKNOWN",
    "BET_CANCELLED",
    "LIMIT_REACHED",
    "ACCOUNT_LOCKED",
    "SELF_EXCLUDED",
    "CURRENCY_MISMATCH",
    "GRANT_UNKNOWN",
    "OPERATOR_REFUSED",
    "DEBIT_UNKNOWN",
]
"""Why a bet is refused for good. ``DEBIT_UNKNOWN``: betting closed before the operator's wallet had
answered."""


class BetRefused(CoupPayload):
    """A bet that was not taken, and why. Nothing moved."""

    NAME: ClassVar[str] = "sabot.wallet.bet.refused"

    bet: Name
    account: Name
    tx: TransactionId
    seat: Seat | None
    spot: Spot
    currency: Currency
    exponent: Exponent
    stake: Positive
    code: RefusalCode
    field: str = ""
    """What of the bet was in the way."""


class BetRolledBack(CoupPayload):
    """A bet is taken back before the seal: 2030 back to where it came from (postings 9, 13e, 17c, 20)."""

    NAME: ClassVar[str] = "sabot.wallet.bet.rolled.back"

    bet: Name
    account: Name
    tx: TransactionId
    """Of the rollback; where nobody asked for it, the bet's own."""
    target: TransactionId
    """The bet's."""
    spot: Spot
    currency: Currency
    exponent: Exponent
    amount: Positive
    """What goes back: a part of the stake in a refund."""
    left: MinorUnits
    """What stays in play."""
    funding: Funding
    reason: Literal["requested", "refund", "self_exclusion"]
    entry: Entry


class SpotTotal(Model):
    """What lies on one spot in one currency."""

    spot: Spot
    currency: Currency
    exponent: Exponent
    bets: Positive
    stake: Positive


class LargestPlayerBet(Model):
    """The seats that tie for the largest Player total in one currency; game breaks the tie."""

    currency: Currency
    exponent: Exponent
    stake: Positive
    seats: Annotated[tuple[Seat, ...], Field(min_length=1)]


class BetsSealed(CoupPayload):
    """No bet of this coup can be added or taken back from here on. Only now may a card leave the shoe."""

    NAME: ClassVar[str] = "sabot.wallet.bets.sealed"

    first: Annotated[int, Field(ge=1)] | None
    """Sequence of the first sealed bet in this stream; null without bets."""
    last: Annotated[int, Field(ge=1)] | None
    bets: Annotated[int, Field(ge=0)]
    totals: tuple[SpotTotal, ...]
    largest_player: tuple[LargestPlayerBet, ...]
    digest: Hash
    """The chain's hash at the last sealed bet; without bets, of the stream's latest event."""


class SettledBet(Model):
    """How one bet ended. ``returned`` includes the stake."""

    bet: Name
    account: Name
    spot: Spot
    tier: Tier
    currency: Currency
    exponent: Exponent
    stake: Positive
    returned: MinorUnits
    commission: MinorUnits
    commission_exact: Annotated[str, StringConstraints(pattern=r"^[0-9]+(/[0-9]+)?$")]
    """The commission before rounding, in minor units, as a fraction such as ``101/2``."""
    funding: Funding = "cash"
    deferred: bool = False
    """Whether the commission is owed (1065) and not kept back; ``returned`` then has it in it."""
    seat: Seat | None = None
    """Where the commission is marked, if it is deferred."""


class CoupSettled(CoupPayload):
    """The bets of a concluded coup are paid, in parts of at most 100, each a balanced entry."""

    NAME: ClassVar[str] = "sabot.wallet.coup.settled"

    version: Annotated[int, Field(ge=1)]
    result: EventRef
    """The event of game that this settlement obeys."""
    house_number: Annotated[int, Field(ge=1)]
    outcome: Outcome
    part: Annotated[int, Field(ge=1)]
    parts: Annotated[int, Field(ge=1)]
    bets: tuple[SettledBet, ...]
    entry: Entry


class ReturnedBet(Model):
    """A stake that goes back."""

    bet: Name
    account: Name
    spot: Spot
    currency: Currency
    exponent: Exponent
    stake: Positive
    funding: Funding = "cash"


class CoupReturned(CoupPayload):
    """The stakes of a void coup go back: 2030 to 2010."""

    NAME: ClassVar[str] = "sabot.wallet.coup.returned"

    result: EventRef
    reason: str
    part: Annotated[int, Field(ge=1)]
    parts: Annotated[int, Field(ge=1)]
    bets: tuple[ReturnedBet, ...]
    entry: Entry


class BetResult(Model):
    """What a bet came to under one version of a result. ``void``: the stake went back."""

    tier: Tier | Literal["void"]
    returned: MinorUnits
    commission: MinorUnits
    commission_exact: Annotated[str, StringConstraints(pattern=r"^[0-9]+(/[0-9]+)?$")]
    deferred: bool = False


class CorrectedBet(Model):
    """A bet whose result was another one than it was paid for."""

    bet: Name
    account: Name
    spot: Spot
    seat: Seat | None
    currency: Currency
    exponent: Exponent
    stake: Positive
    funding: Funding
    before: BetResult
    after: BetResult


class Shortfall(Model):
    """What a player must give back and does not have: it is owed (1060)."""

    account: Name
    currency: Currency
    amount: Positive


class SettlementCorrected(CoupPayload):
    """A coup has another result, or none: the old settlement is reversed and the new one posted, in one
    entry.

    Shortfalls are worked out on its net, a player's bets of this part taken together.
    """

    NAME: ClassVar[str] = "sabot.wallet.settlement.corrected"

    version: Annotated[int, Field(ge=2)]
    result: EventRef
    """The event of game that this correction obeys: ``coup corrected``, or ``coup voided``."""
    corrects: EventRef
    """The event of game that the settlement obeyed which is corrected."""
    house_number: Annotated[int, Field(ge=1)]
    outcome: Outcome | None
    """Null where the coup is void."""
    reason: str
    approver: str
    part: Annotated[int, Field(ge=1)]
    parts: Annotated[int, Field(ge=1)]
    bets: tuple[CorrectedBet, ...]
    shortfalls: tuple[Shortfall, ...]
    entry: Entry


class DebitRequested(CoupPayload):
    """The operator's wallet is asked for a stake. The bet is not taken before it answers, and not after the
    seal."""

    NAME: ClassVar[str] = "sabot.wallet.debit.requested"

    bet: Name
    account: Name
    tx: TransactionId
    seat: Seat | None
    spot: Spot
    currency: Currency
    exponent: Exponent
    stake: Positive


class CallAnswered(Payload):
    """The operator's wallet answered, and a call is over, or stays open as pending recovery.

    Calls are named after what caused them: ``<bet>/debit``, ``<bet>/rollback``, ``<bet>/<version>``.
    """

    NAME: ClassVar[str] = "sabot.wallet.call.answered"

    call: Annotated[str, StringConstraints(min_length=3, max_length=96)]
    account: Name
    status: Literal["done", "refused", "pending_recovery"]
    code: str
    """The operator's code, normalised (wallet reference, 1.3)."""


class ConflictDetected(Payload):
    """Something asked for money twice, or with two different bodies. Nothing moved; audit makes a finding."""

    NAME: ClassVar[str] = "sabot.wallet.conflict.detected"

    kind: Literal["idempotency", "repeated_settlement"]
    account: Name | None = None
    tx: TransactionId | None = None
    table: Name | None = None
    shoe: Name | None = None
    coup: Annotated[int, Field(ge=0)] | None = None
    fields: tuple[str, ...]
    """Names of what differed, never the values."""


WALLET_EVENTS = (
    *ACCOUNT_EVENTS,
    BetAccepted,
    BetRefused,
    BetRolledBack,
    BetsSealed,
    CoupSettled,
    CoupReturned,
    SettlementCorrected,
    DebitRequested,
    CallAnswered,
    ConflictDetected,
)
