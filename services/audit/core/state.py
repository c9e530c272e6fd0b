"""What audit must remember between two events, in pieces that can be stored and read back.

Only what is unfinished is here, and what has no end: heads of streams, balances, and of every recorded
shoe how often each card came out. A coup leaves with its verdict, a virtual shoe with its seed. So memory
grows with players and shoes, never with coups.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from operator import attrgetter
from typing import Any, ClassVar, Final, Literal

from schemas.house import House
from services.audit.core.fair import CODES
from services.audit.core.limits import TableLimits
from services.audit.core.money import Payouts
from services.audit.core.pieces import Piece, Place

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

Ref = tuple[str, int, str]
"""A place in a stream and the hash of what stands there."""
Result = tuple[str, int, int, str, bool]
"""Of a bet: tier, what was returned, commission, the same exactly, and whether it is owed (deferred)."""
CoupKey = tuple[str, str, str, int]
"""Operator, table, shoe, coup."""


class HouseRules:
    """A house document, ready for use."""

    __slots__ = ("deferred", "every_round", "house", "limits", "order", "payouts", "players_deal", "results")

    def __init__(self, house: House) -> None:
        self.house = house
        self.order = house.deal.order
        self.payouts = Payouts(house)
        self.every_round = house.shoe.shuffle == "every_round"
        self.players_deal = house.deal.dealt_by == "players"
        self.deferred = house.commission.collection == "deferred"
        self.limits = TableLimits(house)
        self.results: dict[tuple[str, str, int, int, str], Result] = {}
        """What bets come to, by spot, outcome, stake, exponent and funding, as far as that was asked for."""


@dataclass(slots=True, eq=False)
class PastHouse(Piece):
    """A house that is not in force any more: corrections go by the one in which the coup was played."""

    kind: ClassVar[str] = "house"
    table: str
    """The table's stream."""
    number: int
    rules: HouseRules

    @property
    def key(self) -> str:
        return f"{self.table}/{self.number}"

    def content(self) -> dict[str, Any]:
        house = self.rules.house.model_dump(mode="json")
        return {"table": self.table, "number": self.number, "house": house}


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
    """What is left of it in play."""
    sequence: int
    hash: str = ""
    """Of the event that accepted it."""
    tx: str = ""
    funding: str = "cash"
    grant: str | None = None
    taken_back: int = 0
    """What was staked and is not in play any more."""
    asked: int = 0
    """Sequence of the event that asked the operator's wallet for the stake."""
    late: bool = False
    """Accepted after the seal: a fault, but its stake was taken and must come back."""
    ended: int = 0
    """Sequence of the event that paid or returned it."""
    tier: str = ""
    returned: int = 0
    commission: int = 0
    exact: str = "0"
    deferred: bool = False

    @property
    def key(self) -> str:
        return f"{self.coup}/{self.bet}"

    @property
    def result(self) -> Result:
        """What it came to."""
        return self.tier, self.returned, self.commission, self.exact, self.deferred

    def set_result(self, result: Result) -> None:
        """Say what it came to."""
        self.tier, self.returned, self.commission, self.exact, self.deferred = result


@dataclass(slots=True)
class Correction:
    """What wallet says of another result of a coup, until game's side of it is there too."""

    version: int
    result: Ref
    corrects: Ref
    outcome: str
    """Empty: the coup is void."""
    house_number: int
    parts: int
    part: int = 0
    at: int = 0
    """Sequence of its latest part."""
    hash: str = ""
    bets: dict[str, Result] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether the last part was seen."""
        return self.part >= self.parts


@dataclass(slots=True)
class Announced:
    """A later result of game's: another outcome, or (empty) none."""

    version: int
    end: Ref
    outcome: str
    due_outcome: str
    faults: list[str] = field(default_factory=list)
    """What is wrong with it on game's side."""


@dataclass(slots=True, eq=False)
class Coup(Piece):
    """A coup that is not finished: what game said of it, and what wallet did."""

    kind: ClassVar[str] = "coup"
    apart: ClassVar[tuple[str, ...]] = ("bets", "corrections", "announced")
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
    debits: dict[str, list[Any]] = field(default_factory=dict)
    """What the operator's wallet was asked for, by bet, until the bet is taken or refused: account, id, seat,
    spot, currency, exponent, stake and sequence."""
    taken_back: list[list[Any]] = field(default_factory=list)
    """Stakes that came, and (negative) went, of bets that are not in play any more or not all of which is, as
    ``limits.Move`` has them."""
    # Both.
    faults: list[str] = field(default_factory=list)
    bets: dict[str, Bet] = field(default_factory=dict)
    # Later results.
    judged: int = 0
    """Results that were judged."""
    doubtful: bool = False
    """Something was found about the one that was judged last."""
    announced: list[Announced] = field(default_factory=list)
    """All later results of game's."""
    corrections: list[Correction] = field(default_factory=list)
    """What wallet paid anew and was not judged."""

    @property
    def key(self) -> str:
        return f"{self.operator}/{self.table}/{self.shoe}/{self.number}"

    @property
    def id(self) -> CoupKey:
        return self.operator, self.table, self.shoe, self.number

    def content(self) -> dict[str, Any]:
        return {
            **Piece.content(self),
            "corrections": [asdict(each) for each in self.corrections],
            "announced": [asdict(each) for each in self.announced],
        }

    def result_of(self, bet: Bet) -> Result:
        """What a bet was paid last."""
        for correction in reversed(self.corrections):
            if bet.bet in correction.bets:
                return correction.bets[bet.bet]
        return bet.result

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
class Finished(Piece):
    """A coup that was judged, in short: what a correction of its result must know, whenever it comes."""

    kind: ClassVar[str] = "finished"
    coup: Coup

    @property
    def key(self) -> str:
        return self.coup.key

    def content(self) -> dict[str, Any]:
        coup = self.coup
        return {
            "coup": _in_short(coup),
            "bets": [_bet_in_short(bet) for bet in coup.bets.values()],
            "corrections": [asdict(each) for each in coup.corrections],
            "announced": [asdict(each) for each in coup.announced],
        }


COUP_IN_SHORT: Final = (
    *("operator", "table", "shoe", "number", "opened", "house_number", "cards", "hands", "dealer"),
    *("dealer_seat", "ended", "end", "version", "outcome", "due_outcome", "natural", "wallet", "settled_as"),
    *("settled_result", "settled_version", "settlement", "paid", "judged", "doubtful"),
)
"""Fields of a finished coup."""
BET_IN_SHORT: Final = (
    *("bet", "account", "seat", "spot", "currency", "exponent", "stake", "sequence", "funding", "grant"),
    *("ended", "tier", "returned", "commission", "exact", "deferred"),
)
"""Fields of a bet of a finished coup."""
_in_short: Final = attrgetter(*COUP_IN_SHORT)
_bet_in_short: Final = attrgetter(*BET_IN_SHORT)


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
