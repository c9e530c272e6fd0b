"""What audit must remember between two events, in pieces that can be stored and read back.

Only what is unfinished is here, and what has no end: heads of streams, balances, and of every recorded
shoe how often each card came out. A coup leaves with its verdict, a virtual shoe with its seed. So memory
grows with players and shoes, never with coups.

Each ``Piece`` knows its place in a table of (kind, key) and its content as plain JSON. The live service
writes the pieces that a batch touched in the batch's own transaction and reads all of them when it starts;
nothing needs to be replayed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, Literal

from schemas.envelope import FIRST_PREVIOUS
from schemas.house import House
from services.audit.core.fair import CODES
from services.audit.core.money import Payouts

ENDED_SHOES_REMEMBERED: Final = 128
"""Names of ended shoes that a table keeps, to tell what comes too late from what comes too early."""

RANK_COUNTS: Final = 52
"""Where in a shoe's counts the thirteen ranks begin; the 52 cards are before them."""
_RANKS: Final = "A23456789TJQK"
RANK_PLACES: Final = {
    rank + suit: RANK_COUNTS + place for place, rank in enumerate(_RANKS) for suit in ("", "S", "H", "D", "C")
}

FACE_DOWN: Final = 255
"""In the record of a virtual shoe: a card that left it unseen."""
UNSUITED: Final = 254
"""A card without a suit, which a virtual shoe does not have."""

CoupKey = tuple[str, str, str, int]
"""Operator, table, shoe, coup."""
Place = tuple[str | None, str | None, int | None]
"""Table, shoe and coup, as far as an event names them."""


@dataclass(slots=True, eq=False)
class Piece:
    """A part of the state that is stored as one row."""

    kind: ClassVar[str] = ""
    apart: ClassVar[tuple[str, ...]] = ()
    """Fields that are pieces of their own, or are written in another form."""
    stored: bool = field(default=False, init=False)
    """Whether there is a row of it."""
    gone: bool = field(default=False, init=False)
    """Finished: its row, if there is one, must go too."""

    @property
    def key(self) -> str:
        """What tells it from others of its kind."""
        raise NotImplementedError

    def content(self) -> dict[str, Any]:
        """All that it holds, as plain JSON."""
        return {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.init and each.name not in self.apart
        }


@dataclass(slots=True, eq=False)
class Stream(Piece):
    """How far a stream was followed."""

    kind: ClassVar[str] = "stream"
    apart: ClassVar[tuple[str, ...]] = ("last",)
    name: str
    sequence: int = 0
    hash: str = FIRST_PREVIOUS
    operator: str = ""
    last: object = None
    """The payload of its last event, or its place: a broken chain must say what was there."""

    @property
    def key(self) -> str:
        return self.name

    @property
    def place(self) -> Place:
        """What its last event was about."""
        return place_of(self.last)

    def content(self) -> dict[str, Any]:
        return {**Piece.content(self), "place": list(self.place)}


@dataclass(frozen=True, slots=True)
class About:
    """Stands in for a payload of which only its place is known any more."""

    table: str | None
    shoe: str | None
    coup: int | None


def place_of(payload: object) -> Place:
    """Table, shoe and coup of an event, as far as it has them."""
    return getattr(payload, "table", None), getattr(payload, "shoe", None), getattr(payload, "coup", None)


class HouseRules:
    """A house document, ready for use."""

    __slots__ = ("every_round", "house", "order", "payouts", "players_deal")

    def __init__(self, house: House) -> None:
        self.house = house
        self.order = house.deal.order
        self.payouts = Payouts(house)
        self.every_round = house.shoe.shuffle == "every_round"
        self.players_deal = house.deal.dealt_by == "players"


@dataclass(slots=True, eq=False)
class Shoe(Piece):
    """A shoe that cards may still come from."""

    kind: ClassVar[str] = "shoe"
    table: str
    """The table's stream."""
    name: str
    source: str = "virtual"
    decks: int = 0
    cut: int | None = None
    commitment: str | None = None
    entropy: str | None = None
    nonce: int = 0
    loaded: bool = False
    counts: bytearray = field(default_factory=lambda: bytearray(RANK_COUNTS + 13))
    out: int = 0
    """Place of the last card that left it."""
    burn_due: int | None = None
    """Cards that must be burned in all, once the first has said so."""
    burned: int = 0
    codes: bytearray = field(default_factory=bytearray)
    """Of a virtual shoe: every card that left it, to be held against the seed."""
    starts: list[list[int]] = field(default_factory=list)
    """Of a virtual shoe: the place at which each coup began, and its number."""
    opened: list[list[int]] = field(default_factory=list)
    """Numbers of the coups opened so far, as first and last of unbroken runs."""

    @property
    def key(self) -> str:
        return f"{self.table}/{self.name}"

    def content(self) -> dict[str, Any]:
        return {**Piece.content(self), "counts": self.counts.hex(), "codes": self.codes.hex()}

    def was_opened(self, coup: int) -> bool:
        """Whether a coup of this number was opened."""
        return any(first <= coup <= last for first, last in reversed(self.opened))

    def open(self, coup: int) -> None:
        """Remember that a coup of this number was opened."""
        for run in reversed(self.opened):
            if run[1] == coup - 1:
                run[1] = coup
                return
            if run[0] == coup + 1:
                run[0] = coup
                return
        self.opened.append([coup, coup])

    def coup_at(self, place: int) -> int | None:
        """The coup that the card at this place of a virtual shoe went to."""
        numbers = [coup for first, coup in self.starts if first <= place]
        return numbers[-1] if numbers else None

    def note(self, card: str | None) -> None:
        """Remember a card of a virtual shoe."""
        self.codes.append(FACE_DOWN if card is None else CODES.get(card, UNSUITED))


@dataclass(slots=True, eq=False)
class Bet(Piece):
    """An accepted bet of a coup that is not finished."""

    kind: ClassVar[str] = "bet"
    coup: str
    """The key of its coup."""
    bet: str
    account: str
    seat: int | None
    spot: str
    currency: str
    exponent: int
    stake: int
    sequence: int
    late: bool = False
    """Accepted after the seal: a fault, but its stake was taken and must come back."""
    ended: int = 0
    """Sequence of the event that paid or returned it."""
    tier: str = ""
    returned: int = 0
    commission: int = 0
    exact: str = "0"

    @property
    def key(self) -> str:
        return f"{self.coup}/{self.bet}"


Ref = tuple[str, int, str]
"""A place in a stream and the hash of what stands there."""


@dataclass(slots=True, eq=False)
class Coup(Piece):
    """A coup that is not finished: what game said of it, and what wallet did."""

    kind: ClassVar[str] = "coup"
    apart: ClassVar[tuple[str, ...]] = ("bets",)
    operator: str
    table: str
    shoe: str
    number: int
    # Game's side.
    opened: int = 0
    """Sequence of its opening in game's stream; 0 while only wallet spoke of it."""
    house_number: int = 0
    spots: list[str] = field(default_factory=list)
    dealer: str | None = None
    dealer_seat: int | None = None
    closed: bool = False
    seal_named: Ref | None = None
    cards: list[str] = field(default_factory=list)
    hands: list[Literal["player", "banker"]] = field(default_factory=list)
    first_card: int = 0
    """Sequence of the first card's event."""
    squeezed: int = 0
    """Sequence of the event that said who looks at Player's cards."""
    squeezed_by: int | None = None
    ended: Literal["", "concluded", "voided"] = ""
    end: Ref | None = None
    version: int = 1
    outcome: str = ""
    """As game announced it."""
    due_outcome: str = ""
    """As the cards have it."""
    player_total: int = 0
    banker_total: int = 0
    natural: bool = False
    # Wallet's side.
    wallet: str = ""
    """The stream in which its money moves."""
    last_bet_hash: str = ""
    seal: Ref | None = None
    settled_as: Literal["", "settled", "returned"] = ""
    settled_result: Ref | None = None
    settled_version: int = 1
    settled_outcome: str = ""
    settled_house: int = 0
    part: int = 0
    parts: int = 0
    paid: bool = False
    """The last part was seen."""
    settlement: Ref | None = None
    refused: list[list[Any]] = field(default_factory=list)
    """Bet, account, seat, spot, currency, exponent, stake and code of bets that were not taken."""
    # Both.
    faults: list[str] = field(default_factory=list)
    bets: dict[str, Bet] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.operator}/{self.table}/{self.shoe}/{self.number}"

    @property
    def place(self) -> Place:
        return self.table, self.shoe, self.number

    @property
    def stream(self) -> str:
        return f"game/{self.operator}.{self.table}"

    def hand(self, hand: str) -> list[str]:
        """The cards that a hand got."""
        return [card for card, got in zip(self.cards, self.hands, strict=True) if got == hand]


@dataclass(slots=True, eq=False)
class Table(Piece):
    """A table, its houses and who deals."""

    kind: ClassVar[str] = "table"
    apart: ClassVar[tuple[str, ...]] = ("rules", "taken", "shoes", "current")
    operator: str
    name: str
    shard: str = ""
    seats: int = 99
    source: str = ""
    opened: bool = False
    closed: bool = False
    house_number: int = 0
    rules: dict[int, HouseRules] = field(default_factory=dict)
    """The house in force, and those that unfinished coups are played by."""
    taken: set[int] = field(default_factory=set)
    holder: int | None = None
    """The seat that the shoe lies before, where players deal."""
    due_holder: int | None = None
    """Player won: the seat that the shoe must go to before the next coup."""
    left_holder: int | None = None
    """The seat of a dealer who got up, until the shoe is passed on."""
    ended_shoes: list[str] = field(default_factory=list)
    shoes: dict[str, Shoe] = field(default_factory=dict)
    current: Coup | None = None
    """The coup that is open in game's stream."""

    @property
    def key(self) -> str:
        return self.stream

    @property
    def stream(self) -> str:
        return f"game/{self.operator}.{self.name}"

    def content(self) -> dict[str, Any]:
        return {
            **Piece.content(self),
            "rules": {number: rules.house.model_dump(mode="json") for number, rules in self.rules.items()},
            "taken": sorted(self.taken),
            "current": None if self.current is None else [self.current.shoe, self.current.number],
        }


@dataclass(slots=True, eq=False)
class Purse(Piece):
    """One player's cash in one wallet stream, by currency."""

    kind: ClassVar[str] = "purse"
    wallet: str
    account: str
    operator: str = ""
    cash: dict[str, int] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.wallet}/{self.account}"


@dataclass(slots=True, eq=False)
class Books(Piece):
    """The ledger of one wallet stream: totals by account and currency, and what is in play."""

    kind: ClassVar[str] = "books"
    apart: ClassVar[tuple[str, ...]] = ("purses",)
    wallet: str
    totals: dict[str, int] = field(default_factory=dict)
    """Net debit by ``"2010 EUR"``."""
    open_stakes: dict[str, int] = field(default_factory=dict)
    known_gap: dict[str, int] = field(default_factory=dict)
    """By currency: by how much 2030 was found to differ from the open stakes already."""
    purses: dict[str, Purse] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return self.wallet
