"""What game can be asked to do."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from schemas.cards import Card
from schemas.events.base import CoupNumber, Model, Name, OperatorName, Seat
from schemas.house import House


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
    initiator: Annotated[str, StringConstraints(min_length=1, max_length=128)] | None = None
    approver: Name | None = None
    """Somebody else than the initiator. A coup that has a result is void only with both."""


class CorrectCoup(TableCommand):
    """The coup had another result than was announced: a card was misread, or the wrong result was said.

    ``cards`` are all of its cards as they lay, in dealing order; the result is worked out from them.
    """

    shoe: Name
    coup: CoupNumber
    cards: tuple[Card, ...]
    reason: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    initiator: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    approver: Annotated[str, StringConstraints(min_length=1, max_length=128)]


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
    | CorrectCoup
    | VoidOverdue
    | EndShoe
    | CloseTable
)
