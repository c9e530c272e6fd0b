"""What wallet can be asked to do.

Amounts are already integers of minor units here: whoever takes them from a file or from HTTP converts
them with ``schemas.money`` and refuses what does not convert exactly. ``by``, ``initiator`` and ``approver``
are who was authenticated, never what a body claims.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from schemas.events.accounts import (
    GamingDay,
    LimitKind,
    LimitPeriod,
    Positive,
    Staff,
    TransactionId,
    Words,
)
from schemas.events.base import CoupNumber, Currency, MinorUnits, Model, Name, OperatorName, Seat, Spot

AccountReference = Annotated[
    str, StringConstraints(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]+$")
]
"""The operator's own name for a player's account. Wallet maps it to an opaque id; no event carries it."""


class OperatorCommand(Model):
    """Something that one of an operator's machines or people asks."""

    operator: OperatorName


class AccountCommand(OperatorCommand):
    """Something about one account. The account is opened by its first use."""

    account: AccountReference
    tx: TransactionId


class Movement(AccountCommand):
    """An amount on an account."""

    currency: Currency
    amount: Positive


class Deposit(Movement):
    """Money comes in for a player."""


class PlaceBet(AccountCommand):
    """A stake on one spot of an open coup."""

    table: Name
    shoe: Name
    coup: CoupNumber
    seat: Seat | None = None
    spot: Spot
    currency: Currency
    stake: Positive
    grant: Name | None = None
    """The free bet that it uses."""


class RollBack(AccountCommand):
    """Take a bet back before the seal. The amount is ours (W12): if it is sent, it must be the same."""

    target: TransactionId
    currency: Currency | None = None
    """Of the amount, if one is sent: it must be the bet's."""
    amount: Positive | None = None


class Refund(AccountCommand):
    """Take a part of a bet back before the seal (W16)."""

    target: TransactionId
    currency: Currency | None = None
    amount: Positive


class RequestWithdrawal(Movement):
    """A player wants money out."""


class WithdrawalStep(OperatorCommand):
    """What happens next to a withdrawal."""

    tx: TransactionId
    withdrawal: Name
    step: Literal["approve", "reject", "pay", "return"]
    reason: Words | None = None
    by: Staff


class ProposeAdjustment(Movement):
    """Ask for a manual correction."""

    direction: Literal["credit", "debit"]
    reason: Words
    initiator: Staff
    relates_to: TransactionId | None = None


class DecideAdjustment(AccountCommand):
    """Approve or decline a proposed correction. Not by who proposed it."""

    target: TransactionId
    """The proposal's ``tx``."""
    approve: bool
    reason: Words | None = None
    approver: Staff


class Tip(Movement):
    """A tip for the dealers."""

    table: Name | None = None
    dealer: Name | None = None


class GrantFreeBet(Movement):
    """A stake as a gift."""

    campaign: Name
    by: Staff


class WithdrawFreeBet(OperatorCommand):
    """Take back what is left of a gift."""

    tx: TransactionId
    grant: Name
    reason: Literal["expired", "cancelled"]
    by: Staff


class HoldFunds(Movement):
    """Put money of a player's aside."""

    kind: Literal["withdrawal", "dispute", "risk"]
    reason: Words
    expires: GamingDay | None = None
    by: Staff


class ReleaseHold(OperatorCommand):
    """Give held money back."""

    tx: TransactionId
    hold: Name
    reason: Words
    by: Staff


class FreezeAccount(AccountCommand):
    """No bets, deposits or withdrawals until further notice."""

    reason: Words
    by: Staff


class ReleaseAccount(AccountCommand):
    """The account may be used again."""

    reason: Words
    by: Staff


class ChargeBack(Movement):
    """A payer's bank takes a deposit back."""

    reason: Words
    by: Staff


class RecoverReceivable(Movement):
    """Let a player pay what he owes out of his cash."""

    by: Staff


class SetLimit(AccountCommand):
    """A player's limit. ``value`` null: none any more."""

    kind: LimitKind
    period: LimitPeriod
    currency: Currency | None = None
    value: MinorUnits | None
    by: Staff


class SelfExclude(AccountCommand):
    """A player does not want to play before ``until``, or ever again."""

    until: GamingDay | None
    by: Staff


class HouseMovement(OperatorCommand):
    """The house's own money."""

    tx: TransactionId
    currency: Currency
    amount: Positive
    by: Staff


class FundHouse(HouseMovement):
    """The house puts money in its bank."""


class SettlePayment(HouseMovement):
    """The payment provider pays out deposits, less its fee."""

    fee: MinorUnits


class SegregateFunds(HouseMovement):
    """The house moves money into or out of the players' bank."""

    direction: Literal["to_players", "to_house"]


class CollectCommission(AccountCommand):
    """Collect the commission that is marked on a seat for an account."""

    table: Name
    seat: Seat | None
    currency: Currency


class AnswerDebit(OperatorCommand):
    """What the operator's wallet said to the debit for a bet."""

    bet: Name
    status: Literal["done", "refused"]
    code: str


class AnswerCall(OperatorCommand):
    """What the operator's wallet said to a credit, a rollback or a correction."""

    call: str
    status: Literal["done", "refused"]
    code: str


class ExpireHolds(Model):
    """Release every hold whose gaming day has come."""


class RepairSettlement(OperatorCommand):
    """Settle a coup again from game's own event, should it have been missed. Pays nobody twice."""

    table: Name
    shoe: Name
    coup: CoupNumber
    version: Annotated[int, Field(ge=1)]


WalletCommand = (
    Deposit
    | PlaceBet
    | RollBack
    | Refund
    | RequestWithdrawal
    | WithdrawalStep
    | ProposeAdjustment
    | DecideAdjustment
    | Tip
    | GrantFreeBet
    | WithdrawFreeBet
    | HoldFunds
    | ReleaseHold
    | FreezeAccount
    | ReleaseAccount
    | ChargeBack
    | RecoverReceivable
    | SetLimit
    | SelfExclude
    | FundHouse
    | SettlePayment
    | SegregateFunds
    | CollectCommission
    | AnswerDebit
    | AnswerCall
    | ExpireHolds
    | RepairSettlement
)
