"""What one wallet stream holds: books and purses, withdrawals, holds, free bets, marks of commission.

Everything here is a ``Piece`` that can be stored. What is over leaves: a withdrawal that was rejected or came
back, a hold that was released, a free bet that was used up, a mark that was collected. So memory grows with
players and with what is under way, not with what they did.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from services.audit.core.pieces import Piece

IDS_REMEMBERED: Final = 32
"""Ids of transactions that an account keeps, to know one that is used twice. A repeat that comes through
comes soon after the first; from the beginning of time they are in wallet's own store."""

PAID_REMEMBERED: Final = 10_000
"""Withdrawals of one wallet stream that were paid and may still come back."""

FOR_EVER: Final = "9999-12-31"


def is_new(ids: dict[str, None], tx: str) -> bool:
    """Remember an id. False where it is remembered already."""
    if tx in ids:
        return False
    ids[tx] = None
    if len(ids) > IDS_REMEMBERED:
        del ids[next(iter(ids))]
    return True


@dataclass(slots=True, eq=False)
class Purse(Piece):
    """One player's money in one wallet stream, by currency."""

    kind: ClassVar[str] = "purse"
    wallet: str
    account: str
    operator: str = ""
    cash: dict[str, int] = field(default_factory=dict)
    """2010, as a credit."""
    others: dict[str, int] = field(default_factory=dict)
    """Net debit of his other accounts, by ``"1060 EUR"``."""
    recent: dict[str, None] = field(default_factory=dict)
    """The latest ids of his transactions."""

    @property
    def key(self) -> str:
        return f"{self.wallet}/{self.account}"

    def content(self) -> dict[str, Any]:
        return {**Piece.content(self), "recent": list(self.recent)}


@dataclass(slots=True, eq=False)
class Books(Piece):
    """The ledger of one operator in one wallet stream: totals by account and currency, and what is under
    way."""

    kind: ClassVar[str] = "books"
    wallet: str
    operator: str
    totals: dict[str, int] = field(default_factory=dict)
    """Net debit by ``"2010 EUR"``."""
    under_way: dict[str, int] = field(default_factory=dict)
    """What bets, withdrawals, holds, free bets and marks make accounts come to, by ``"2030 EUR"``."""
    known_gap: dict[str, int] = field(default_factory=dict)
    """By how much an account was found to differ from it already."""
    recent: dict[str, None] = field(default_factory=dict)
    """The latest ids of movements of the house's own money."""

    @property
    def key(self) -> str:
        return f"{self.wallet}/{self.operator}"

    def content(self) -> dict[str, Any]:
        return {**Piece.content(self), "recent": list(self.recent)}

    def move(self, ledger: str, currency: str, amount: int) -> None:
        """So much more (or less) is under way."""
        name = f"{ledger} {currency}"
        self.under_way[name] = self.under_way.get(name, 0) + amount


@dataclass(slots=True, eq=False)
class Standing(Piece):
    """What an account may not do, and what waits for somebody's decision on it."""

    kind: ClassVar[str] = "standing"
    wallet: str
    account: str
    frozen: bool = False
    excluded: str = ""
    """The gaming day before which the player may not play."""
    tombstones: list[str] = field(default_factory=list)
    """Ids of bets that must not be taken when they come."""
    proposals: dict[str, list[Any]] = field(default_factory=dict)
    """Adjustments that nobody decided on, by id: currency, amount, direction and who asked."""

    @property
    def key(self) -> str:
        return f"{self.wallet}/{self.account}"


@dataclass(slots=True, eq=False)
class Item(Piece):
    """Money with an id of its own."""

    wallet: str
    id: str
    operator: str
    account: str
    currency: str
    amount: int

    @property
    def key(self) -> str:
        return f"{self.wallet}/{self.id}"


@dataclass(slots=True, eq=False)
class Withdrawal(Item):
    """A withdrawal that is not over."""

    kind: ClassVar[str] = "withdrawal"
    phase: str = "requested"
    sequence: int = 0
    """Of the event that paid it."""


@dataclass(slots=True, eq=False)
class Hold(Item):
    """Money that a player may not use."""

    kind: ClassVar[str] = "hold"


@dataclass(slots=True, eq=False)
class Grant(Item):
    """A free bet; ``amount`` is what is left of it. One that is used up leaves, and comes again with a stake
    that goes back."""

    kind: ClassVar[str] = "grant"


@dataclass(slots=True, eq=False)
class Mark(Item):
    """Commission that is owed for a seat."""

    kind: ClassVar[str] = "mark"


class Holdings:
    """All of one wallet stream."""

    def __init__(self, wallet: str) -> None:
        self.wallet = wallet
        self.books: dict[str, Books] = {}
        """By operator."""
        self.purses: dict[str, Purse] = {}
        self.standings: dict[str, Standing] = {}
        self.withdrawals: dict[str, Withdrawal] = {}
        """Requested or approved."""
        self.paid: dict[str, Withdrawal] = {}
        """Paid, the earliest first."""
        self.holds: dict[str, Hold] = {}
        self.grants: dict[str, Grant] = {}
        self.marks: dict[str, Mark] = {}

    def add(self, piece: Piece) -> None:
        """Take up a piece that was stored."""
        match piece:
            case Books():
                self.books[piece.operator] = piece
            case Purse():
                self.purses[piece.account] = piece
            case Standing():
                self.standings[piece.account] = piece
            case Withdrawal():
                (self.paid if piece.phase == "paid" else self.withdrawals)[piece.id] = piece
            case Hold():
                self.holds[piece.id] = piece
            case Grant():
                self.grants[piece.id] = piece
            case Mark():
                self.marks[piece.id] = piece


PIECES: Final[tuple[type[Piece], ...]] = (Books, Purse, Standing, Withdrawal, Hold, Grant, Mark)
"""Kinds of pieces that belong to a wallet stream."""


def mark_id(operator: str, table: str, seat: int | None, account: str, currency: str) -> str:
    """What tells one mark from another."""
    return f"{operator}/{table}/{seat or ''}/{account}/{currency}"
