"""What stays open over days beside the bets: withdrawals, holds, free bets, proposals, limits, calls.

Each is a small record with an id. All open ones are in memory; the shell keeps every one of them as a row.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Final, TypeVar

from schemas.events.accounts import LimitKind, LimitPeriod
from schemas.events.wallet import Funding


@dataclass(slots=True)
class Item:
    """Anything of this kind."""

    KIND: ClassVar[str]

    id: str
    operator: str
    account: str

    @property
    def is_open(self) -> bool:
        """Whether something can still happen to it."""
        return True

    def document(self) -> dict[str, Any]:
        """All of its fields."""
        return asdict(self)


_I = TypeVar("_I", bound=Item)


@dataclass(slots=True)
class Withdrawal(Item):
    """Money on its way out."""

    KIND: ClassVar[str] = "withdrawal"

    tx: str
    currency: str
    exponent: int
    amount: int
    phase: str = "requested"
    """``requested``, ``approved``, ``rejected``, ``paid``, ``returned``."""
    requested_at: str = ""

    @property
    def is_open(self) -> bool:
        return self.phase not in ("rejected", "returned")


@dataclass(slots=True)
class Hold(Item):
    """Money that is put aside."""

    KIND: ClassVar[str] = "hold"

    tx: str
    currency: str
    exponent: int
    amount: int
    kind: str
    reason: str
    expires: str | None
    released: bool = False

    @property
    def is_open(self) -> bool:
        return not self.released


@dataclass(slots=True)
class Grant(Item):
    """A free bet."""

    KIND: ClassVar[str] = "grant"

    tx: str
    campaign: str
    currency: str
    exponent: int
    amount: int
    left: int
    staked: int = 0
    """What is in play of it and may come back."""

    @property
    def is_open(self) -> bool:
        return self.left > 0 or self.staked > 0


@dataclass(slots=True)
class Proposal(Item):
    """An adjustment that waits for somebody else's approval. Its id is account and transaction."""

    KIND: ClassVar[str] = "proposal"

    tx: str
    currency: str
    exponent: int
    amount: int
    direction: str
    reason: str
    initiator: str
    relates_to: str | None
    decided: str = ""
    """``approved``, ``declined``, or nothing yet."""

    @property
    def is_open(self) -> bool:
        return not self.decided


@dataclass(slots=True)
class PlayerLimit(Item):
    """What a player has limited himself to; its id is account, kind, period and currency."""

    KIND: ClassVar[str] = "limit"

    kind: LimitKind
    period: LimitPeriod
    currency: str | None
    steps: list[tuple[str, int | None]] = field(default_factory=list)
    """From which gaming day on which value holds, in order."""

    def value(self, day: str) -> int | None:
        """What holds on a gaming day; None: no limit."""
        held = None
        for since, value in self.steps:
            if since <= day:
                held = value
        return held


@dataclass(slots=True)
class Owed(Item):
    """Commission that is marked on a seat; its id is operator, table, seat, account and currency."""

    KIND: ClassVar[str] = "owed"

    table: str
    seat: int | None
    currency: str
    exponent: int
    amount: int = 0

    @property
    def is_open(self) -> bool:
        return self.amount != 0


@dataclass(slots=True)
class Call(Item):
    """Something that the operator's wallet has to be told, until it has answered."""

    KIND: ClassVar[str] = "call"

    kind: str
    """``debit``, ``credit``, ``refund``, ``rollback``, ``correction_debit``, ``correction_credit``."""
    bet: str
    tx: str
    """The bet's transaction id, which the operator gave."""
    table: str
    shoe: str
    coup: int
    spot: str
    currency: str
    exponent: int
    amount: int
    funding: Funding = "operator"
    status: str = "open"
    """``open``, ``done``, ``refused``, ``pending_recovery``."""
    code: str = ""

    @property
    def is_open(self) -> bool:
        return self.status in ("open", "pending_recovery")


KINDS: Final[dict[str, type[Item]]] = {
    each.KIND: each for each in (Withdrawal, Hold, Grant, Proposal, PlayerLimit, Owed, Call)
}


def item_of(kind: str, document: dict[str, Any]) -> Item:
    """The item that a document describes."""
    made = KINDS[kind](**document)
    if isinstance(made, PlayerLimit):
        made.steps = [(day, value) for day, value in made.steps]
    return made


@dataclass(slots=True)
class Items:
    """The open items, by kind and id."""

    made: int = 0
    """Items that were numbered so far."""
    withdrawals: dict[str, Withdrawal] = field(default_factory=dict)
    holds: dict[str, Hold] = field(default_factory=dict)
    grants: dict[str, Grant] = field(default_factory=dict)
    proposals: dict[str, Proposal] = field(default_factory=dict)
    limits: dict[str, dict[str, PlayerLimit]] = field(default_factory=dict)
    """By account, then by id."""
    owed: dict[str, Owed] = field(default_factory=dict)
    calls: dict[str, Call] = field(default_factory=dict)
    new_calls: list[Call] = field(default_factory=list, compare=False)
    """Calls that were opened since somebody emptied this list."""

    def put(self, item: Item) -> None:
        """Keep an item, or let go of one in which nothing can happen any more."""
        match item:
            case PlayerLimit():
                self.limits.setdefault(item.account, {})[item.id] = item
            case Withdrawal():
                _shelve(self.withdrawals, item)
            case Hold():
                _shelve(self.holds, item)
            case Grant():
                _shelve(self.grants, item)
            case Proposal():
                _shelve(self.proposals, item)
            case Owed():
                _shelve(self.owed, item)
            case Call():
                if item.id not in self.calls and item.is_open:
                    self.new_calls.append(item)
                _shelve(self.calls, item)
            case _:
                raise TypeError(f"{type(item).__name__} has no shelf")


def _shelve(shelf: dict[str, _I], item: _I) -> None:
    if item.is_open:
        shelf[item.id] = item
    else:
        shelf.pop(item.id, None)
