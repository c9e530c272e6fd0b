"""What a service can be asked to do. Commands come from outside and may be refused; events may not.

Amounts are already integers of minor units here: whoever takes them from a file or from HTTP converts
them with ``schemas.money`` and refuses what does not convert exactly.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from schemas.cards import Card
from schemas.events.base import CoupNumber, Currency, Model, Name, OperatorName, Seat, Spot
from schemas.events.wallet import Positive, TransactionId
from schemas.house import House

AccountReference = Annotated[
    str, StringConstraints(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]+$")
]
"""The operator's own name for a player's account. Wallet maps it to an opaque id; no event carries it."""


class TableCommand(Model):
    """Something asked of game, at one table."""

    operator: OperatorName
    table: Name


class OpenTable(TableCommand):
    """Open a table under a house. Asked again with the same content, it changes nothing."""

    house: House
    shard: Name
    seats: Annotated[int, Field(ge=1, le=99)] | None = None
    """None: the first size that the house names."""
    source: Literal["virtual", "recorded"]


class SetHouse(TableCommand):
    """Play by this house from the next coup on."""

    house: House


class TakeSeat(TableCommand):
    """Somebody sits down."""

    seat: Seat


class LeaveSeat(TableCommand):
    """Somebody gets up."""

    seat: Seat


class CommitShoe(TableCommand):
    """Choose a secret seed for a virtual shoe and publish its commitment."""

    shoe: Name


class LoadShoe(TableCommand):
    """Give a committed shoe its entropy; it is shuffled, burned and ready."""

    shoe: Name
    entropy: Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,64}$")]


class OpenCoup(TableCommand):
    """Open betting on the next coup.

    At a table with recorded cards ``cards`` holds the whole coup in the order in which the cards left
    the shoe; it is checked against the house before anything is written.
    """

    shoe: Name
    coup: CoupNumber
    cards: tuple[Card, ...] | None = None
    dealer_seat: Seat | None = None
    """Who dealt, as recorded. A virtual table knows that itself."""
    dealer: Name | None = None
    video: Annotated[str, StringConstraints(max_length=512)] | None = None


class CloseBetting(TableCommand):
    """No more bets; the seal is awaited."""

    shoe: Name
    coup: CoupNumber


class VoidCoup(TableCommand):
    """The coup does not count."""

    shoe: Name
    coup: CoupNumber
    reason: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    approver: Name | None = None


class VoidOverdue(Model):
    """Void every coup that still waits for a seal and closed its betting before ``closed_before``."""

    closed_before: str
    """An envelope's time: RFC 3339 in UTC with microseconds, which sorts as text."""


class EndShoe(TableCommand):
    """Take the shoe out of play between two coups."""

    shoe: Name
    reason: Literal["table_closed", "replaced"]


class CloseTable(TableCommand):
    """Close a table on which nothing is open."""

    reason: Annotated[str, StringConstraints(min_length=1, max_length=200)]


GameCommand = (
    OpenTable
    | SetHouse
    | TakeSeat
    | LeaveSeat
    | CommitShoe
    | LoadShoe
    | OpenCoup
    | CloseBetting
    | VoidCoup
    | VoidOverdue
    | EndShoe
    | CloseTable
)


class Deposit(Model):
    """Money comes in for a player; the account is opened by its first use."""

    operator: OperatorName
    account: AccountReference
    tx: TransactionId
    currency: Currency
    amount: Positive


class PlaceBet(Model):
    """A stake on one spot of an open coup."""

    operator: OperatorName
    table: Name
    shoe: Name
    coup: CoupNumber
    account: AccountReference
    tx: TransactionId
    seat: Seat | None = None
    spot: Spot
    currency: Currency
    stake: Positive


class RepairSettlement(Model):
    """Settle a coup again from game's own event, should it have been missed. Pays nobody twice."""

    operator: OperatorName
    table: Name
    shoe: Name
    coup: CoupNumber
    version: Annotated[int, Field(ge=1)]


WalletCommand = Deposit | PlaceBet | RepairSettlement
