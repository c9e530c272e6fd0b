"""What wallet says: accounts, bets, seals and settlements. Streams ``wallet/<shard>``.

Every event that moves money carries its journal entry, so that the ledger is a fold of the stream.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

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

TransactionId = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""The operator's id of a transaction: opaque, case-sensitive, unique for a player (W1)."""

Positive = Annotated[int, Field(gt=0)]


class AccountOpened(Payload):
    """An account of the operator's player. Events know only the opaque id."""

    NAME: ClassVar[str] = "sabot.wallet.account.opened"

    account: Name


class Deposited(Payload):
    """Money comes in: 1030 to 2010."""

    NAME: ClassVar[str] = "sabot.wallet.deposited"

    account: Name
    tx: TransactionId
    currency: Currency
    exponent: Exponent
    amount: Positive
    entry: Entry


class BetAccepted(CoupPayload):
    """A stake moves from the player's cash into play: 2010 to 2030."""

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


RefusalCode = Literal["INSUFFICIENT_FUNDS", "ROUND_CLOSED", "BETTING_CLOSED", "SPOT_UNKNOWN"]


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


class CoupReturned(CoupPayload):
    """The stakes of a void coup go back: 2030 to 2010."""

    NAME: ClassVar[str] = "sabot.wallet.coup.returned"

    result: EventRef
    reason: str
    part: Annotated[int, Field(ge=1)]
    parts: Annotated[int, Field(ge=1)]
    bets: tuple[ReturnedBet, ...]
    entry: Entry


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
    AccountOpened,
    Deposited,
    BetAccepted,
    BetRefused,
    BetsSealed,
    CoupSettled,
    CoupReturned,
    ConflictDetected,
)
