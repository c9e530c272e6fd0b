"""What wallet says of accounts and money beside the bets: deposits, withdrawals, adjustments, holds, limits.

Streams ``wallet/<shard>``. Every event that moves money carries its journal entry; ``schemas/postings.toml``
has them all. A ``tx`` is the caller's id of the transaction and counts for one account (W1); of what moves
only the house's own money it counts for the operator.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from schemas.events.base import Currency, Entry, Exponent, MinorUnits, Name, Payload

TransactionId = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""The operator's id of a transaction: opaque, case-sensitive, unique for a player (W1)."""

Positive = Annotated[int, Field(gt=0)]

Staff = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""Who of the operator's people or machines asked: the subject of a token, or the id of a key."""

Words = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""A reason, for people."""

GamingDay = Annotated[str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]


class AccountOpened(Payload):
    """An account of the operator's player. Events know only the opaque id."""

    NAME: ClassVar[str] = "sabot.wallet.account.opened"

    account: Name


class AccountFrozen(Payload):
    """The account takes no bets, deposits or withdrawals until it is released. What is sealed is still
    paid."""

    NAME: ClassVar[str] = "sabot.wallet.account.frozen"

    account: Name
    tx: TransactionId
    reason: Words
    by: Staff


class AccountReleased(Payload):
    """The account may be used again."""

    NAME: ClassVar[str] = "sabot.wallet.account.released"

    account: Name
    tx: TransactionId
    reason: Words
    by: Staff


class AccountMoney(Payload):
    """What every movement on a player's account says."""

    account: Name
    tx: TransactionId
    currency: Currency
    exponent: Exponent
    amount: Positive
    entry: Entry


class Deposited(AccountMoney):
    """Money comes in: 1030 to 2010 (posting 2)."""

    NAME: ClassVar[str] = "sabot.wallet.deposited"


class ChargedBack(AccountMoney):
    """A deposit is taken back by the payer's bank (posting 18). What the player no longer has is owed
    (1060)."""

    NAME: ClassVar[str] = "sabot.wallet.charged.back"

    shortfall: MinorUnits
    reason: Words
    by: Staff


class ReceivableRecovered(AccountMoney):
    """A player pays what he owed (1060) out of his cash (posting 22)."""

    NAME: ClassVar[str] = "sabot.wallet.receivable.recovered"

    by: Staff


class WithdrawalMoney(AccountMoney):
    """A step of a withdrawal, which has an id of its own."""

    withdrawal: Name


class WithdrawalRequested(WithdrawalMoney):
    """A player wants money out: 2010 to 2040 (posting 11)."""

    NAME: ClassVar[str] = "sabot.wallet.withdrawal.requested"


class WithdrawalApproved(WithdrawalMoney):
    """Approved and sent: 2040 to 1040 (posting 11b)."""

    NAME: ClassVar[str] = "sabot.wallet.withdrawal.approved"

    approver: Staff


class WithdrawalRejected(WithdrawalMoney):
    """Not approved: 2040 back to 2010 (posting 11d)."""

    NAME: ClassVar[str] = "sabot.wallet.withdrawal.rejected"

    approver: Staff
    reason: Words


class WithdrawalPaid(WithdrawalMoney):
    """The bank confirms: 1040 to 1010 (posting 11c)."""

    NAME: ClassVar[str] = "sabot.wallet.withdrawal.paid"

    by: Staff


class WithdrawalReturned(WithdrawalMoney):
    """The bank sends it back after it was paid: 1010 by way of 1040 to 2010 (posting 11e)."""

    NAME: ClassVar[str] = "sabot.wallet.withdrawal.returned"

    reason: Words
    by: Staff


class Adjusted(AccountMoney):
    """A manual correction: 5020 against 2010 (posting 12). Whoever asks for it is not who approves it."""

    NAME: ClassVar[str] = "sabot.wallet.adjusted"

    direction: Literal["credit", "debit"]
    """``credit``: to the player."""
    reason: Words
    initiator: Staff
    approver: Staff
    decision: TransactionId
    """The approver's own id of his decision; ``tx`` is that of the proposal."""
    relates_to: TransactionId | None = None


class AdjustmentProposed(Payload):
    """Somebody asks for a manual correction. Nothing moves before somebody else approves it."""

    NAME: ClassVar[str] = "sabot.wallet.adjustment.proposed"

    account: Name
    tx: TransactionId
    currency: Currency
    exponent: Exponent
    amount: Positive
    direction: Literal["credit", "debit"]
    reason: Words
    initiator: Staff
    relates_to: TransactionId | None = None


class AdjustmentDeclined(Payload):
    """A proposed correction that will not be made."""

    NAME: ClassVar[str] = "sabot.wallet.adjustment.declined"

    account: Name
    tx: TransactionId
    decision: TransactionId
    reason: Words
    approver: Staff


class Tipped(AccountMoney):
    """A tip: 2010 to 2080 (posting 15). It is not given back except by an adjustment (W35)."""

    NAME: ClassVar[str] = "sabot.wallet.tipped"

    table: Name | None = None
    dealer: Name | None = None


class FreeBetGranted(AccountMoney):
    """A stake that is a gift: 5010 to 2020 (posting 13)."""

    NAME: ClassVar[str] = "sabot.wallet.free.bet.granted"

    grant: Name
    campaign: Name
    by: Staff


class FreeBetWithdrawn(AccountMoney):
    """What is left of a gift goes back: 2020 to 5010 (posting 13f)."""

    NAME: ClassVar[str] = "sabot.wallet.free.bet.withdrawn"

    grant: Name
    reason: Literal["expired", "cancelled"]
    by: Staff


class FundsHeld(AccountMoney):
    """Money that a player may not use for now: 2010 to 2090 (W33, posting 21)."""

    NAME: ClassVar[str] = "sabot.wallet.funds.held"

    hold: Name
    kind: Literal["withdrawal", "dispute", "risk"]
    reason: Words
    expires: GamingDay | None
    """The gaming day on which it is released by itself; null: only when somebody says so."""
    by: Staff


class HoldReleased(AccountMoney):
    """A hold ends: 2090 to 2010 (posting 21b)."""

    NAME: ClassVar[str] = "sabot.wallet.hold.released"

    hold: Name
    reason: Words
    by: Staff


class HouseMoney(Payload):
    """What every movement of the house's own money says."""

    tx: TransactionId
    currency: Currency
    exponent: Exponent
    amount: Positive
    by: Staff
    entry: Entry


class HouseFunded(HouseMoney):
    """The house puts money in its bank: 1020 to 3010 (posting 1)."""

    NAME: ClassVar[str] = "sabot.wallet.house.funded"


class PaymentSettled(HouseMoney):
    """The payment provider pays out what players deposited, less its fee, which the house tops up (posting
    2b).

    ``amount`` is what players deposited.
    """

    NAME: ClassVar[str] = "sabot.wallet.payment.settled"

    fee: MinorUnits


class FundsSegregated(HouseMoney):
    """The house moves money between its own bank account and the players' segregated one (posting 23; I7)."""

    NAME: ClassVar[str] = "sabot.wallet.funds.segregated"

    direction: Literal["to_players", "to_house"]


LimitKind = Literal["stake", "loss", "deposit", "time"]
LimitPeriod = Literal["coup", "day", "week", "month"]


class LimitSet(Payload):
    """A player's limit from a gaming day on (W37): lowered at once, raised when the running period is
    over."""

    NAME: ClassVar[str] = "sabot.wallet.limit.set"

    account: Name
    tx: TransactionId
    kind: LimitKind
    """``stake`` a coup or a period, ``loss`` and ``deposit`` a period, ``time`` minutes of play a day."""
    period: LimitPeriod
    currency: Currency | None
    """Null for ``time``."""
    exponent: Exponent | None
    value: MinorUnits | None
    """In minor units, or minutes; null: no limit."""
    before: MinorUnits | None
    effective: GamingDay
    by: Staff


class SelfExcluded(Payload):
    """A player may not play before that gaming day (null: for ever). Unsealed bets are void, sealed ones
    stand."""

    NAME: ClassVar[str] = "sabot.wallet.self.excluded"

    account: Name
    tx: TransactionId
    until: GamingDay | None
    by: Staff


class TombstoneCreated(Payload):
    """A rollback came before its bet: the bet will be refused, whenever it comes (W13)."""

    NAME: ClassVar[str] = "sabot.wallet.tombstone.created"

    account: Name
    tx: TransactionId
    target: TransactionId


class TransactionRefused(Payload):
    """A transaction that was refused for good (W6): the same id gets the same answer, whatever happened
    since."""

    NAME: ClassVar[str] = "sabot.wallet.transaction.refused"

    account: Name
    tx: TransactionId
    operation: Annotated[str, StringConstraints(pattern=r"^[a-z_]{1,40}$")]
    asked: dict[str, str | int | None]
    """What makes a repeat of it the same (W2)."""
    code: Annotated[str, StringConstraints(pattern=r"^[A-Z_]{1,40}$")]
    field: str


class CommissionCollected(AccountMoney):
    """Deferred commission is paid: 2010, and 1060 for what the player lacks, to 1065 (posting 14).

    ``tx`` is made of the table, the seat and the reason; there is no caller's id where an event of game is
    obeyed.
    """

    NAME: ClassVar[str] = "sabot.wallet.commission.collected"

    table: Name
    seat: Annotated[int, Field(ge=1, le=99)] | None
    shortfall: MinorUnits
    reason: Literal["request", "seat_left", "shoe_ended", "table_closed"]


ACCOUNT_EVENTS = (
    AccountOpened,
    AccountFrozen,
    AccountReleased,
    Deposited,
    ChargedBack,
    ReceivableRecovered,
    WithdrawalRequested,
    WithdrawalApproved,
    WithdrawalRejected,
    WithdrawalPaid,
    WithdrawalReturned,
    AdjustmentProposed,
    AdjustmentDeclined,
    Adjusted,
    Tipped,
    FreeBetGranted,
    FreeBetWithdrawn,
    FundsHeld,
    HoldReleased,
    HouseFunded,
    PaymentSettled,
    FundsSegregated,
    LimitSet,
    SelfExcluded,
    TombstoneCreated,
    TransactionRefused,
    CommissionCollected,
)
