"""What the sandbox's wallet remembers, and changes that are not written yet. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from schemas.seamless import CODES


@dataclass(frozen=True, slots=True)
class Account:
    """A player: one balance, in one currency."""

    name: str
    currency: str
    balance: int
    locked: bool = False
    tokens: tuple[str, ...] = ()
    """The sessions that are alive."""


@dataclass(frozen=True, slots=True)
class Bet:
    """What one debit took, and what became of it. OPEN becomes SETTLED or CANCELLED, once (W11)."""

    account: str
    tx: str
    kind: str
    stake: int
    status: Literal["open", "settled", "cancelled"] = "open"
    refunded: int = 0
    won: int = 0
    rolled_back_by: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a transaction came to. An answer is made of it and of nothing else, so a repeat has its bytes."""

    code: str
    tx: str
    balance: int | None = None
    currency: str = ""
    field: str = ""
    words: str = ""
    fields: tuple[str, ...] = ()
    """Names of what differs, at a conflict."""

    @property
    def done(self) -> bool:
        """Whether it was carried out."""
        return CODES[self.code].status == 200


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction whose outcome is final, by what it asked (W2)."""

    account: str
    tx: str
    asked: Mapping[str, str | int | bool | None]
    outcome: Outcome


class CoupKey(NamedTuple):
    """A coup."""

    table: str
    shoe: str
    coup: int


Key = tuple[str, str]
"""A player and an id of his: ids count for one player (W1)."""


class Records(Protocol):
    """What is remembered."""

    def account(self, name: str) -> Account | None:
        """The player of that name."""

    def bet(self, key: Key) -> Bet | None:
        """The bet that a debit placed."""

    def transaction(self, key: Key) -> Transaction | None:
        """The transaction with that id, if it is final."""

    def tombstone(self, key: Key) -> str | None:
        """The rollback that came before this debit."""

    def phase(self, coup: CoupKey) -> str | None:
        """How far a coup is, as it was told."""


@dataclass(slots=True)
class Draft:
    """Changes on top of what is remembered: written together, or forgotten."""

    below: Records
    accounts: dict[str, Account] = field(default_factory=dict)
    bets: dict[Key, Bet] = field(default_factory=dict)
    transactions: dict[Key, Transaction] = field(default_factory=dict)
    tombstones: dict[Key, str] = field(default_factory=dict)
    phases: dict[CoupKey, str] = field(default_factory=dict)
    conflicts: list[tuple[str, str, str]] = field(default_factory=list)
    """Account, id and the names of what differs: the operator's people look at these (W4)."""

    def account(self, name: str) -> Account | None:
        """The player of that name."""
        return self.accounts.get(name) or self.below.account(name)

    def bet(self, key: Key) -> Bet | None:
        """The bet that a debit placed."""
        return self.bets.get(key) or self.below.bet(key)

    def transaction(self, key: Key) -> Transaction | None:
        """The transaction with that id, if it is final."""
        return self.transactions.get(key) or self.below.transaction(key)

    def tombstone(self, key: Key) -> str | None:
        """The rollback that came before this debit."""
        return self.tombstones.get(key) or self.below.tombstone(key)

    def phase(self, coup: CoupKey) -> str | None:
        """How far a coup is, as it was told."""
        return self.phases.get(coup) or self.below.phase(coup)

    def take_over(self, other: Draft) -> None:
        """Make another draft's changes ours."""
        for mine, theirs in zip(self._parts(), other._parts(), strict=True):
            mine.update(theirs)
        self.conflicts += other.conflicts

    def _parts(self) -> Iterator[dict]:  # type: ignore[type-arg]
        yield from (self.accounts, self.bets, self.transactions, self.tombstones, self.phases)
