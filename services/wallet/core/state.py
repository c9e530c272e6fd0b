"""What wallet knows while it works: its own ledger and bets, and what game said of tables and coups.

The state holds only what is open. Finished coups leave it; what a batch may ask of the past is brought
in by the shell before the batch (``known_coups``, ``transactions``) and dropped after it. ``Changes`` says
what the shell must write, so that the tables are a projection of the events and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from schemas.events.wallet import SettledBet
from schemas.house import House
from services.wallet.core.ledger import Ledger
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


@dataclass(frozen=True, slots=True)
class Transaction:
    """A final outcome, and the content by which a repeat is known from a conflict (W2)."""

    key: TransactionKey
    content: dict[str, str | int | None]
    code: str
    """``OK``, or why it was refused."""
    bet: str | None = None
    balance: int = 0
    """The player's cash in this currency right after it, which a repeat is told again (W3)."""


@dataclass(frozen=True, slots=True)
class Bet:
    """A bet, open or refused."""

    bet: str
    key: CoupKey
    account: str
    tx: str
    seat: int | None
    spot: str
    currency: str
    exponent: int
    stake: int
    code: str = "OK"
    sequence: int = 0
    """Place of the event that took it, in wallet's stream."""
    hash: str = ""


@dataclass(frozen=True, slots=True)
class BetEnd:
    """How a bet ended."""

    bet: str
    status: Literal["won", "lost", "push", "void"]
    returned: int
    commission: int


@dataclass(slots=True)
class Terms:
    """What a table plays by: its house documents, by number."""

    shard: str
    houses: dict[int, House] = field(default_factory=dict)
    paytables: dict[int, Paytable] = field(default_factory=dict)

    def set_house(self, number: int, house: House) -> None:
        self.houses[number] = house
        self.paytables[number] = Paytable(house)


Phase = Literal["open", "sealed", "settled", "returned"]


@dataclass(slots=True)
class Coup:
    """A coup that can be bet on, or waits for its result."""

    key: CoupKey
    house_number: int
    spots: tuple[str, ...]
    phase: Phase = "open"
    bets: list[Bet] = field(default_factory=list)
    last_bet: tuple[int, str] | None = None
    """Sequence and hash of the last accepted bet."""
    version: int = 0
    """Version of the result that was settled."""


@dataclass(slots=True)
class Changes:
    """What the tables do not show yet."""

    accounts: list[tuple[str, str]] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    bets: list[Bet] = field(default_factory=list)
    ends: list[BetEnd] = field(default_factory=list)
    coups: dict[CoupKey, Coup] = field(default_factory=dict)
    houses: list[tuple[str, str, int, House]] = field(default_factory=list)
    tables: dict[tuple[str, str], str] = field(default_factory=dict)


@dataclass(slots=True)
class WalletState:
    """All that wallet decides by."""

    shard: str
    ledger: Ledger = field(default_factory=Ledger)
    bets_taken: int = 0
    """Bets accepted and refused so far: the next bet's number is one more."""
    accounts: dict[str, str] = field(default_factory=dict)
    """Opaque account id to operator."""
    tables: dict[tuple[str, str], Terms] = field(default_factory=dict)
    coups: dict[CoupKey, Coup] = field(default_factory=dict)
    """Coups that are not finished."""
    head: str = "0" * 64
    """Hash of this stream's latest event, which a seal without bets takes as its digest."""
    known_coups: dict[CoupKey, tuple[Phase, int]] = field(default_factory=dict)
    """Finished coups that this batch may ask for: phase and version."""
    transactions: dict[TransactionKey, Transaction] = field(default_factory=dict)
    """Past transactions that this batch may repeat."""
    changes: Changes = field(default_factory=Changes)


def end_of(settled: SettledBet) -> BetEnd:
    """The status that a settlement gives a bet."""
    status: Literal["won", "lost", "push"]
    status = "lost" if settled.tier == "lose" else "push" if settled.tier == "push" else "won"
    return BetEnd(settled.bet, status, settled.returned, settled.commission)
