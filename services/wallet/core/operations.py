"""What a transaction id was used for, and whether a request with it is a repeat or a conflict (W1 to W4).

An operation is known by the event that it made, and a repeat by the fields that it had (W2): not by headers,
times or fields that we do not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from schemas.commands import wallet as commands
from schemas.events import accounts, wallet
from schemas.events.base import Model, Payload

Asked = dict[str, str | int | None]


class Operation(NamedTuple):
    """One kind of transaction."""

    name: str
    events: tuple[type[Payload], ...]
    """What it makes, if it is carried out or (a bet) refused."""
    fields: tuple[str, ...]
    """What makes two of them the same. An event may call a field by another name."""


_MOVEMENT: Final = ("currency", "amount")

OPERATIONS: Final[Mapping[type[Model], Operation]] = {
    commands.Deposit: Operation("deposit", (accounts.Deposited,), _MOVEMENT),
    commands.PlaceBet: Operation(
        "bet",
        (wallet.BetAccepted, wallet.BetRefused, wallet.DebitRequested),
        ("table", "shoe", "coup", "seat", "spot", "currency", "stake", "grant"),
    ),
    commands.RollBack: Operation("rollback", (wallet.BetRolledBack, accounts.TombstoneCreated), ("target",)),
    commands.Refund: Operation("refund", (), ("target", "amount")),  # by the event's reason, below
    commands.RequestWithdrawal: Operation("withdrawal", (accounts.WithdrawalRequested,), _MOVEMENT),
    commands.WithdrawalStep: Operation(
        "withdrawal_step",
        (
            accounts.WithdrawalApproved,
            accounts.WithdrawalRejected,
            accounts.WithdrawalPaid,
            accounts.WithdrawalReturned,
        ),
        ("withdrawal", "step"),
    ),
    commands.ProposeAdjustment: Operation(
        "adjustment",
        (accounts.AdjustmentProposed,),
        (*_MOVEMENT, "direction", "reason", "relates_to"),
    ),
    commands.DecideAdjustment: Operation(
        "adjustment_decision", (accounts.Adjusted, accounts.AdjustmentDeclined), ("target", "approve")
    ),
    commands.Tip: Operation("tip", (accounts.Tipped,), (*_MOVEMENT, "table", "dealer")),
    commands.GrantFreeBet: Operation("free_bet", (accounts.FreeBetGranted,), (*_MOVEMENT, "campaign")),
    commands.WithdrawFreeBet: Operation("free_bet_end", (accounts.FreeBetWithdrawn,), ("grant", "reason")),
    commands.HoldFunds: Operation("hold", (accounts.FundsHeld,), (*_MOVEMENT, "kind", "reason", "expires")),
    commands.ReleaseHold: Operation("hold_release", (accounts.HoldReleased,), ("hold", "reason")),
    commands.FreezeAccount: Operation("freeze", (accounts.AccountFrozen,), ("reason",)),
    commands.ReleaseAccount: Operation("release", (accounts.AccountReleased,), ("reason",)),
    commands.ChargeBack: Operation("chargeback", (accounts.ChargedBack,), (*_MOVEMENT, "reason")),
    commands.RecoverReceivable: Operation("recovery", (accounts.ReceivableRecovered,), _MOVEMENT),
    commands.SetLimit: Operation("limit", (accounts.LimitSet,), ("kind", "period", "currency", "value")),
    commands.SelfExclude: Operation("self_exclusion", (accounts.SelfExcluded,), ("until",)),
    commands.FundHouse: Operation("house_funding", (accounts.HouseFunded,), _MOVEMENT),
    commands.SettlePayment: Operation("payment", (accounts.PaymentSettled,), (*_MOVEMENT, "fee")),
    commands.SegregateFunds: Operation("segregation", (accounts.FundsSegregated,), (*_MOVEMENT, "direction")),
    commands.CollectCommission: Operation(
        "commission", (accounts.CommissionCollected,), ("table", "seat", "currency")
    ),
}

NAMES: Final = {operation.name: operation for operation in OPERATIONS.values()}

_STEPS: Final[Mapping[type[Payload], str]] = {
    accounts.WithdrawalApproved: "approve",
    accounts.WithdrawalRejected: "reject",
    accounts.WithdrawalPaid: "pay",
    accounts.WithdrawalReturned: "return",
}


def house_account(operator: str) -> str:
    """In place of an account, where a transaction moves only the house's own money."""
    return f"@{operator}"


def operation_of(event: Payload) -> str:
    """The name of the operation that an event is the outcome of."""
    if isinstance(event, accounts.TransactionRefused):
        return event.operation
    if isinstance(event, wallet.BetRolledBack) and event.reason == "refund":
        return "refund"
    return _BY_EVENT[type(event)]


_BY_EVENT: Final = {event: each.name for each in OPERATIONS.values() for event in each.events}


def asked_of(command: Model) -> Asked:
    """What makes a repeat of this command the same."""
    return {name: getattr(command, name) for name in OPERATIONS[type(command)].fields}


def differing_fields(event: Payload, command: Model) -> tuple[str, ...]:
    """The fields in which a request with a used id differs from the first one; none for a repeat.

    A rollback without an amount is the same as one that names the amount that was rolled back (W12).
    """
    operation = OPERATIONS[type(command)]
    if operation_of(event) != operation.name:
        return ("operation",)
    asked = asked_of(command)
    if isinstance(event, accounts.TransactionRefused):
        return tuple(name for name, value in asked.items() if event.asked.get(name) != value)
    if isinstance(event, wallet.BetRefused):
        del asked["grant"]  # a bet that was not taken used none, and its event does not say it
    differing = tuple(name for name, value in asked.items() if _recorded(event, name) != value)
    if not differing and isinstance(command, commands.RollBack) and command.amount is not None:
        recorded = getattr(event, "amount", command.amount)
        return ("amount",) if recorded != command.amount else ()
    return differing


def _recorded(event: Payload, name: str) -> Any:
    if isinstance(event, accounts.Adjusted | accounts.AdjustmentDeclined):
        return event.tx if name == "target" else isinstance(event, accounts.Adjusted)
    if name == "step":
        return _STEPS[type(event)]
    return getattr(event, name, None)


def currency_of(event: Payload) -> str | None:
    """The currency of a transaction, from the event that is its outcome."""
    if isinstance(event, accounts.TransactionRefused):
        asked = event.asked.get("currency")
        return None if asked is None else str(asked)
    currency: str | None = getattr(event, "currency", None)
    return currency


def transaction_id_of(event: Payload) -> tuple[str, str] | None:
    """The account and the id under which an event is the outcome of a transaction; None where it is not.

    What the operator's people do to something that is open already (a withdrawal, a hold) counts for the
    operator.
    """
    if type(event) not in _OUTCOMES:
        return None
    if isinstance(event, accounts.Adjusted | accounts.AdjustmentDeclined):
        return event.account, event.decision
    if isinstance(event, wallet.BetRolledBack) and event.reason == "self_exclusion":
        return None
    if isinstance(event, _BY_STAFF):
        return house_account(event.operator), _tx(event)
    if isinstance(event, accounts.CommissionCollected) and event.reason != "request":
        return None
    if isinstance(event, accounts.HoldReleased) and event.by == "sabot":
        return None
    account: str = getattr(event, "account", "") or house_account(event.operator)
    return account, _tx(event)


def _tx(event: Payload) -> str:
    tx: str = getattr(event, "tx", "")
    return tx


_BY_STAFF: Final[tuple[type[Payload], ...]] = (*_STEPS, accounts.HoldReleased, accounts.FreeBetWithdrawn)
_OUTCOMES: Final = frozenset(_BY_EVENT) | {accounts.TransactionRefused}
