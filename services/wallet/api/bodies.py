"""What is sent to wallet. Amounts are decimal strings; a JSON number is refused (W25). Unknown fields are
ignored (W31). ``operator`` may be left out: it is the caller's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from schemas.commands import wallet as commands
from schemas.commands.wallet import AccountReference
from schemas.events.accounts import GamingDay, LimitKind, LimitPeriod, TransactionId, Words
from schemas.events.base import CoupNumber, Currency, Name, OperatorName, Seat, Spot

Amount = Annotated[str, Field(examples=["25.00"], max_length=64)]

_EXAMPLES: Final[Mapping[str, Any]] = {
    "approve": True,
    "campaign": "spring",
    "fee": "0.50",
    "from": "2026-11-30",
    "reason": "a complaint",
    "table": "T1",
    "shoe": "S1",
    "coup": 1,
    "target": "b-2026-000017",
    "to": "2026-11-30",
    "transactions": [{"account": "alice", "tx": "b-2026-000017", "kind": "bet", "amount": "25.00"}],
    "tx": "2026-000017",
    "until": "2027-01-01",
    "value": "100.00",
}
"""Where a field has no example of its own."""


def _with_example(schema: dict[str, Any]) -> None:
    """Add an example of the whole body: what must be there, and in which currency."""
    example = {}
    for name, field in schema["properties"].items():
        if name in schema.get("required", ()) or name == "currency":
            values = field.get("examples") or field.get("enum") or [_EXAMPLES.get(name)]
            example[name] = "EUR" if name == "currency" else values[0]
    schema["examples"] = [example]


class Body(BaseModel):
    """What every request says."""

    model_config = ConfigDict(strict=True, extra="ignore", json_schema_extra=_with_example)

    COMMAND: ClassVar[type[commands.OperatorCommand]]
    """What it asks for."""
    ACTORS: ClassVar[tuple[str, ...]] = ()
    """Fields of the command that name who asks."""

    operator: OperatorName | None = None


class AccountBody(Body):
    """Something about one account. ``tx`` is your id of it: the same again moves nothing (W1 to W4)."""

    account: Annotated[AccountReference, Field(examples=["alice"])]
    tx: Annotated[TransactionId, Field(examples=["d-2026-000017"])]


class MovementBody(AccountBody):
    """An amount on an account."""

    currency: Annotated[Currency, Field(examples=["EUR"])]
    amount: Amount


class DepositBody(MovementBody):
    """Money that comes in for a player."""

    COMMAND = commands.Deposit


class WithdrawalBody(MovementBody):
    """Money that a player wants out."""

    COMMAND = commands.RequestWithdrawal


class BetBody(AccountBody):
    """A stake on a spot of an open coup."""

    COMMAND = commands.PlaceBet

    table: Annotated[Name, Field(examples=["T1"])]
    shoe: Annotated[Name, Field(examples=["S1"])]
    coup: Annotated[CoupNumber, Field(examples=[1])]
    seat: Seat | None = None
    spot: Annotated[Spot, Field(examples=["banker"])]
    currency: Annotated[Currency, Field(examples=["EUR"])]
    stake: Amount
    grant: Name | None = None
    """A free bet to use."""


class BetsBody(BaseModel):
    """Bets that are taken one by one, each with an answer of its own."""

    model_config = ConfigDict(
        strict=True,
        extra="ignore",
        json_schema_extra=lambda schema: schema.update(
            examples=[{"bets": BetBody.model_json_schema()["examples"]}]
        ),
    )

    bets: Annotated[list[Any], Field(min_length=1, max_length=1_000)]


class RollbackBody(AccountBody):
    """Take a bet back before the seal, or make sure that it is not taken when it comes (W13)."""

    COMMAND = commands.RollBack

    target: Annotated[TransactionId, Field(examples=["b-2026-000017"])]
    currency: Currency | None = None
    amount: Amount | None = None
    """Not needed: our record counts. If it is sent (with its currency), it must be the same."""


class RefundBody(AccountBody):
    """Take a part of a bet back before the seal (W16)."""

    COMMAND = commands.Refund

    target: Annotated[TransactionId, Field(examples=["b-2026-000017"])]
    currency: Currency
    amount: Amount


class StepBody(Body):
    """What happens to a withdrawal, a hold or a free bet."""

    tx: TransactionId
    reason: Words | None = None


class AdjustmentBody(MovementBody):
    """A manual correction, which somebody else must approve."""

    COMMAND = commands.ProposeAdjustment
    ACTORS = ("initiator",)

    direction: Literal["credit", "debit"]
    reason: Words
    relates_to: TransactionId | None = None


class DecisionBody(AccountBody):
    """The decision on one."""

    COMMAND = commands.DecideAdjustment
    ACTORS = ("approver",)

    target: TransactionId
    approve: bool
    reason: Words | None = None


class TipBody(MovementBody):
    """A tip for the dealers (W35)."""

    COMMAND = commands.Tip

    table: Name | None = None
    dealer: Name | None = None


class FreeBetBody(MovementBody):
    """A stake as a gift (W34)."""

    COMMAND = commands.GrantFreeBet
    ACTORS = ("by",)

    campaign: Name


class HoldBody(MovementBody):
    """Money that is put aside (W33)."""

    COMMAND = commands.HoldFunds
    ACTORS = ("by",)

    kind: Literal["withdrawal", "dispute", "risk"]
    reason: Words
    expires: GamingDay | None = None


class FreezeBody(AccountBody):
    """Lock an account."""

    COMMAND = commands.FreezeAccount
    ACTORS = ("by",)

    reason: Words


class UnfreezeBody(AccountBody):
    """Unlock an account."""

    COMMAND = commands.ReleaseAccount
    ACTORS = ("by",)

    reason: Words


class ChargebackBody(MovementBody):
    """A payer's bank takes a deposit back."""

    COMMAND = commands.ChargeBack
    ACTORS = ("by",)

    reason: Words


class RecoveryBody(MovementBody):
    """A player pays what he owes."""

    COMMAND = commands.RecoverReceivable
    ACTORS = ("by",)


class LimitBody(AccountBody):
    """A player's own limit (W37). ``value`` null removes it."""

    COMMAND = commands.SetLimit
    ACTORS = ("by",)

    kind: LimitKind
    period: LimitPeriod
    currency: Currency | None = None
    value: Annotated[str, Field(examples=["100.00"], max_length=64)] | None
    """An amount in the currency, or minutes."""


class ExclusionBody(AccountBody):
    """A player does not want to play before ``until``, or (null) ever again."""

    COMMAND = commands.SelfExclude
    ACTORS = ("by",)

    until: GamingDay | None


class CommissionBody(AccountBody):
    """Collect the commission that is marked on a seat."""

    COMMAND = commands.CollectCommission

    table: Name
    seat: Seat | None = None
    currency: Currency


class HouseBody(Body):
    """The house's own money."""

    ACTORS = ("by",)

    tx: TransactionId
    currency: Annotated[Currency, Field(examples=["EUR"])]
    amount: Amount


class FundingBody(HouseBody):
    """The house puts money in its bank."""

    COMMAND = commands.FundHouse


class PaymentBody(HouseBody):
    """The payment provider pays out deposits, less its fee."""

    COMMAND = commands.SettlePayment

    fee: Amount


class SegregationBody(HouseBody):
    """The house moves money into or out of the players' bank (I7)."""

    COMMAND = commands.SegregateFunds

    direction: Literal["to_players", "to_house"]


class RepairBody(Body):
    """A coup that somebody believes to be unpaid."""

    COMMAND = commands.RepairSettlement

    table: Name
    shoe: Name
    coup: CoupNumber
    version: int = Field(ge=1, default=1)


class CounterpartyRow(BaseModel):
    """A transaction as a counterparty has it."""

    model_config = ConfigDict(strict=True, extra="ignore")

    account: AccountReference
    tx: TransactionId
    kind: Annotated[str, Field(max_length=40)] | None = None
    currency: Currency | None = None
    amount: Amount | None = None


class ReconciliationBody(Body):
    """A counterparty's list of a gaming day, or of some days."""

    from_day: Annotated[GamingDay, Field(alias="from")]
    to_day: Annotated[GamingDay, Field(alias="to")]
    transactions: Annotated[list[CounterpartyRow], Field(max_length=10_000)]
