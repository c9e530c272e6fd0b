"""What wallet knows while it works: its own ledger and bets, and what game said of tables and coups.

The state holds only what is open. Finished coups leave it; what a batch may ask of the past is brought
in by the shell before the batch (``known_coups``, ``finished``, ``transactions``) and dropped after it.
``Changes`` says what the shell must write, so that the tables are a projection of the events and nothing
else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from schemas.events.base import EventRef, Payload
from schemas.events.wallet import Funding
from schemas.house import House
from services.wallet.core.items import Grant, Item, Items
from services.wallet.core.ledger import Ledger
from services.wallet.core.limits import Bound, Play, TableLimits, own_bounds
from services.wallet.core.paytable import Paytable


class CoupKey(NamedTuple):
    """Which coup."""

    operator: str
    table: str
    shoe: str
    coup: int


class TransactionKey(NamedTuple):
    """Which transaction: ids are unique for a player (W1)."""

    account: str
    tx: str


class Transaction(NamedTuple):
    """A final outcome: the event that says it, by which a repeat is known from a conflict (W2)."""

    event: Payload
    sequence: int
    """Place of the event in wallet's stream."""
    balance: int
    """The player's cash in its currency right after it, which a repeat is told again (W3)."""


@dataclass(slots=True)
class Bet:
    """A bet that was accepted, or asked of the operator's wallet."""

    number: int
    bet: str
    key: CoupKey
    account: str
    tx: str
    seat: int | None
    spot: str
    currency: str
    exponent: int
    stake: int
    left: int
    """What is in play: the stake less what was refunded."""
    funding: Funding
    grant: str | None
    sequence: int
    """Place of the event that took it, in wallet's stream."""
    hash: str
    status: str
    """``open``, ``pending`` (the operator's wallet was asked), ``won``, ``lost``, ``push``, ``void``,
    ``rolled_back``, ``refused``."""
    code: str = "OK"
    tier: str = ""
    """What it reached, once it is settled."""
    returned: int = 0
    commission: int = 0
    deferred: bool = False


@dataclass(slots=True)
class Terms:
    """What a table plays by: its house documents, by number."""

    shard: str
    houses: dict[int, House] = field(default_factory=dict)
    paytables: dict[int, Paytable] = field(default_factory=dict)
    limits: dict[int, TableLimits] = field(default_factory=dict)

    def set_house(self, number: int, house: House) -> None:
        self.houses[number] = house
        self.paytables[number] = Paytable(house)
        self.limits[number] = TableLimits(house)


Phase = Literal["open", "sealed", "settled", "returned"]


@dataclass(slots=True)
class Coup:
    """A coup that can be bet on, or waits for its result."""

    key: CoupKey
    house_number: int
    spots: tuple[str, ...]
    phase: Phase = "open"
    bets: dict[str, Bet] = field(default_factory=dict)
    """In play or pending, by id."""
    version: int = 0
    """Version of the result that was settled."""
    result: EventRef | None = None
    """The event of game that was obeyed last."""


@dataclass(slots=True)
class Account:
    """A player's account."""

    operator: str
    frozen: bool = False
    excluded_until: str = ""
    """The gaming day on which he may play again; empty: he is not excluded."""


FOR_EVER = "9999-12-31"


class Policy(NamedTuple):
    """What an operator's contract says, as far as decisions depend on it."""

    currencies: frozenset[str] | None = None
    """None: every currency that we know."""
    seamless: bool = False
    """Whether his players' balances are in a wallet of his own."""
    amount_max: Mapping[str, int] = {}
    """The largest single amount, by currency, in minor units."""
    deposit_max: Mapping[str, int] = {}
    withdrawal_max: Mapping[str, int] = {}
    stake_max: Mapping[str, int] = {}
    player_bounds: tuple[Bound, ...] = ()
    """Limits that every player has, unless he has set himself less."""
    blocks_on_recovery: bool = False
    """Whether a player may not bet while his operator's wallet has refused to give a correction back
    (W17)."""


@dataclass(slots=True)
class Changes:
    """What the tables do not show yet."""

    accounts: dict[str, Account] = field(default_factory=dict)
    transactions: dict[TransactionKey, Transaction] = field(default_factory=dict)
    bets: dict[str, Bet] = field(default_factory=dict)
    """New bets."""
    ends: dict[str, Bet] = field(default_factory=dict)
    """Bets of which something else changed."""
    coups: dict[CoupKey, Coup] = field(default_factory=dict)
    houses: list[tuple[str, str, int, House]] = field(default_factory=list)
    tables: dict[tuple[str, str], str] = field(default_factory=dict)
    items: dict[tuple[str, str], Item] = field(default_factory=dict)


def _first_day(operator: str) -> str:
    del operator
    return "1970-01-01"


@dataclass(slots=True)
class WalletState:
    """All that wallet decides by."""

    shard: str
    ledger: Ledger = field(default_factory=Ledger)
    bets_taken: int = 0
    """Bets accepted, refused or asked for so far: the next bet's number is one more."""
    accounts: dict[str, Account] = field(default_factory=dict)
    tables: dict[tuple[str, str], Terms] = field(default_factory=dict)
    coups: dict[CoupKey, Coup] = field(default_factory=dict)
    """Coups that are not finished."""
    open_bets: dict[TransactionKey, Bet] = field(default_factory=dict)
    """Bets of these coups, by transaction."""
    items: Items = field(default_factory=Items)
    """What stays open over days: withdrawals, holds, free bets, limits, calls."""
    head: str = "0" * 64
    """Hash of this stream's latest event, which a seal without bets takes as its digest."""
    plays: dict[str, dict[str, Play]] = field(default_factory=dict)
    """What players with limits have played, by account and currency. No part of what is kept: the shell looks
    it up in the events when a player first needs it, and from then on it goes along."""
    known_coups: dict[CoupKey, tuple[Phase, int]] = field(default_factory=dict)
    """Finished coups that this batch may ask for: phase and version."""
    finished: dict[CoupKey, Coup] = field(default_factory=dict)
    """Finished coups with their bets, which this batch may correct."""
    transactions: dict[TransactionKey, Transaction] = field(default_factory=dict)
    """Past transactions that this batch may repeat."""
    past_statuses: dict[TransactionKey, str] = field(default_factory=dict)
    """How bets ended that this batch wants to take back."""
    found_grants: dict[str, Grant] = field(default_factory=dict)
    """Used-up free bets of the coups that this batch may correct."""
    policies: Mapping[str, Policy] = field(default_factory=dict)
    now: str = "1970-01-01T00:00:00.000000Z"
    """The time of this batch, as its events carry it."""
    day_of: Callable[[str], str] = _first_day
    """The gaming day of this batch, by operator."""
    changes: Changes = field(default_factory=Changes)
    _policies: dict[str, Policy] = field(default_factory=dict)

    def forget_the_past(self) -> None:
        """Drop what the last batch was told of what is over."""
        for each in (
            self._policies,
            self.known_coups,
            self.finished,
            self.transactions,
            self.past_statuses,
            self.found_grants,
        ):
            each.clear()

    def bounds(self, operator: str, account: str) -> list[Bound]:
        """All limits of a player that hold today."""
        own = self.items.limits.get(account)
        every = self.policy(operator).player_bounds
        if own is None:
            return list(every)
        return [*every, *own_bounds(own.values(), self.day_of(operator))]

    def grant(self, grant: str) -> Grant | None:
        """A free bet, also one that is used up, as this batch has left it."""
        changed = self.changes.items.get((Grant.KIND, grant))
        if isinstance(changed, Grant):
            return changed
        return self.items.grants.get(grant) or self.found_grants.get(grant)

    def policy(self, operator: str) -> Policy:
        """What holds for an operator in this batch."""
        policy = self._policies.get(operator)
        if policy is None:
            policy = self._policies[operator] = self.policies.get(operator, _NO_POLICY)
        return policy


_NO_POLICY = Policy()
