"""What game knows while it decides: the tables that are open, and as little as possible beside them.

Everything here is a fold of game's own events (``evolve``), but for the *undealt* secrets: the seeds of
committed shoes and the recorded cards that no event has shown yet. Those cannot be in an event before
their time, so the shell keeps them, and the fold reads them. The cards of a recorded coup that was voided
never come into an event; they stay among the secrets, for they have left the shoe for good.

Memory does not grow with what is finished. A table holds the coup and the shoes that are in play. A coup
that ended, and a shoe that did, are kept by the shell: it asks ``needs`` which of them a command or an
event may ask for, looks them up, and puts them (or ``None``: there is none) into ``known_coups`` and
``known_shoes``; then it asks ``needs_houses``, for a coup is corrected by the house that it was played by. A
key that nobody looked up is a defect of the shell and raises ``KeyError``; it never reads as "there is none".
After a batch the shell writes all that ``changes`` lists and calls ``forget``.
A rebuild is nothing else: fold all events, with the same ``needs``, the same ``changes``, the same secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from schemas.cards import Card
from schemas.commands.game import (
    CloseBetting,
    CommitShoe,
    CorrectCoup,
    EndShoe,
    GameCommand,
    LoadShoe,
    OpenCoup,
    VoidCoup,
)
from schemas.envelope import Recorded
from schemas.events.base import EventRef, Outcome, ShoePayload
from schemas.events.game import CardSource, CoupCorrected, CoupOpened, CoupVoided, TableOpened
from schemas.house import House
from schemas.refusal import Refusal


class TableKey(NamedTuple):
    """Which table."""

    operator: str
    table: str


class ShoeKey(NamedTuple):
    """Which shoe: its name is used once at its table, for ever."""

    operator: str
    table: str
    shoe: str


class CoupKey(NamedTuple):
    """Which coup."""

    operator: str
    table: str
    shoe: str
    coup: int


class HouseKey(NamedTuple):
    """Which house: those of a table are numbered."""

    operator: str
    table: str
    number: int


@dataclass(slots=True)
class Shoe:
    """A shoe: of a virtual one what is needed to deal on from it, of a recorded one what came out."""

    name: str
    source: CardSource
    decks: int
    entropy: str | None = None
    """Of a virtual shoe, once it was taken."""
    loaded: bool = False
    ended: bool = False
    cut_cards_from_end: int | None = None
    cards_out: int = 0
    """Place of the last card that an event showed or burned."""
    last_coup: int = -1
    """Of a virtual shoe: the highest number that was opened."""
    copies: Mapping[Card, int] = field(default_factory=dict)
    """Of a recorded shoe: how often each card came out, those of voided coups included."""


@dataclass(slots=True)
class Coup:
    """The coup that is open at a table. Its house is the table's, which cannot change meanwhile."""

    shoe: str
    number: int
    dealer_seat: int | None
    closed_at: str | None = None
    """When betting closed (an envelope's time); from then on the coup waits for wallet's seal."""
    dealt: tuple[Card, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """What an event said of a coup: its result, or that it is void (then there is no outcome)."""

    version: int
    sequence: int
    """The event's place in the stream of the table."""
    hash: str
    cards: tuple[Card, ...] = ()
    """Those that the result was worked out from."""
    outcome: Outcome | None = None
    player_total: int | None = None
    banker_total: int | None = None
    reason: str | None = None
    """Of a correction, and of the void of a coup that had a result."""
    initiator: str | None = None
    approver: str | None = None


@dataclass(frozen=True, slots=True)
class EndedCoup:
    """A coup that is over: what it takes to know it again, and to say how it ended."""

    status: Literal["concluded", "voided"]
    cards: tuple[Card, ...]
    """As they left the shoe, or were recorded to have; a correction does not change them. Of a coup that was
    voided before it was dealt those of its record, if it had one."""
    dealer_seat: int | None
    house_number: int
    results: tuple[Result, ...]
    """All that was said of it, in this order: the last one is in force."""

    @property
    def in_force(self) -> Result:
        return self.results[-1]

    @property
    def outcome(self) -> Outcome | None:
        return self.in_force.outcome

    @property
    def player_total(self) -> int | None:
        return self.in_force.player_total

    @property
    def banker_total(self) -> int | None:
        return self.in_force.banker_total


@dataclass(slots=True)
class Table:
    """A table, and what is in play on it."""

    operator: str
    name: str
    shard: str
    seats: int
    source: CardSource
    house: House
    """The one in force."""
    house_number: int
    opened_with: House
    """The one that the table was opened with, so that the same opening is known again."""
    closed: bool = False
    taken: tuple[int, ...] = ()
    """Seats that somebody sits on, rising."""
    dealer: int | None = None
    """The seat that the shoe lies before, where players deal."""
    live: dict[str, Shoe] = field(default_factory=dict)
    """By name: shoes that are committed or in play; at a recorded table the one last dealt from."""
    shoe: str | None = None
    """The live shoe that is in play."""
    coup: Coup | None = None

    @property
    def key(self) -> TableKey:
        return TableKey(self.operator, self.name)

    def shoe_key(self, shoe: str) -> ShoeKey:
        return ShoeKey(self.operator, self.name, shoe)

    def coup_key(self, shoe: str, number: int) -> CoupKey:
        return CoupKey(self.operator, self.name, shoe, number)

    @property
    def players_deal(self) -> bool:
        return self.house.deal.dealt_by == "players"


@dataclass(slots=True)
class Undealt:
    """The secrets: all that game must persist beside its events."""

    seeds: dict[ShoeKey, bytes] = field(default_factory=dict)
    """Of virtual shoes that did not end."""
    cards: dict[CoupKey, tuple[Card, ...]] = field(default_factory=dict)
    """Of recorded coups that are open."""
    orders: dict[ShoeKey, tuple[Card, ...]] = field(default_factory=dict)
    """Of virtual shoes in play, once they were asked for: seed and entropy say them, nobody stores them."""


@dataclass(slots=True)
class Changes:
    """What a batch changed. Each value is what must stand in the store afterwards; ``None``: nothing."""

    tables: dict[TableKey, Table] = field(default_factory=dict)
    shoes: dict[ShoeKey, Shoe] = field(default_factory=dict)
    coups: dict[CoupKey, EndedCoup] = field(default_factory=dict)
    seeds: dict[ShoeKey, bytes | None] = field(default_factory=dict)
    cards: dict[CoupKey, tuple[Card, ...] | None] = field(default_factory=dict)


class Needs(NamedTuple):
    """Keys that the shell must look up before a command is decided, or an event folded."""

    shoes: tuple[ShoeKey, ...] = ()
    coups: tuple[CoupKey, ...] = ()
    cards: tuple[CoupKey, ...] = ()
    """Undealt cards. Only a rebuild asks: the coup that it sees opened may be one that was voided."""


@dataclass(slots=True)
class GameState:
    """All tables, and what a batch brought along."""

    tables: dict[TableKey, Table] = field(default_factory=dict)
    opening: dict[TableKey, TableOpened] = field(default_factory=dict)
    """Tables between the two events of their opening, of which the second brings the house."""
    undealt: Undealt = field(default_factory=Undealt)
    known_shoes: dict[ShoeKey, Shoe | None] = field(default_factory=dict)
    """Looked up: shoes that are not live. ``None``: there is none of this name."""
    known_coups: dict[CoupKey, EndedCoup | None] = field(default_factory=dict)
    """Looked up: coups that are over. ``None``: no coup of this number is."""
    known_houses: dict[HouseKey, House] = field(default_factory=dict)
    """Looked up: houses that coups to be corrected may have been played by."""
    changes: Changes = field(default_factory=Changes)

    def table(self, operator: str, name: str) -> Table:
        """The open table of this name.

        Raises:
            Refusal: TABLE_UNKNOWN, TABLE_CLOSED.
        """
        table = self.table_of_old(operator, name)
        if table.closed:
            raise Refusal("TABLE_CLOSED", "table", f"table {name} is closed")
        return table

    def table_of_old(self, operator: str, name: str) -> Table:
        """The table of this name, also one that was closed: what was played there can still be corrected.

        Raises:
            Refusal: TABLE_UNKNOWN.
        """
        table = self.tables.get(TableKey(operator, name))
        if table is None:
            raise Refusal("TABLE_UNKNOWN", "table", f"operator {operator} has no table {name}: open it first")
        return table

    def find_shoe(self, table: Table, name: str) -> Shoe | None:
        """The shoe of this name, live or looked up."""
        live = table.live.get(name)
        return live if live is not None else self.known_shoes[table.shoe_key(name)]

    def find_ended(self, table: Table, shoe: str, number: int) -> EndedCoup | None:
        """The coup of this number, if it is over."""
        return self.known_coups[table.coup_key(shoe, number)]

    def forget(self) -> None:
        """Drop what was looked up, and the list of changes: to be called when they are written."""
        self.known_shoes.clear()
        self.known_coups.clear()
        self.known_houses.clear()
        self.changes = Changes()


def needs(item: GameCommand | Recorded[Any]) -> Needs:
    """What deciding this command, or folding this event of game in a rebuild, may ask for."""
    match item:
        case CommitShoe() | LoadShoe() | EndShoe():
            return Needs(shoes=(ShoeKey(item.operator, item.table, item.shoe),))
        case OpenCoup() | CloseBetting() | VoidCoup() | CorrectCoup():
            shoe = ShoeKey(item.operator, item.table, item.shoe)
            return Needs(shoes=(shoe,), coups=(CoupKey(*shoe, item.coup),))
        case Recorded(data=CoupOpened() as opened):
            shoe = ShoeKey(opened.operator, opened.table, opened.shoe)
            return Needs(shoes=(shoe,), cards=(CoupKey(*shoe, opened.coup),))
        case Recorded(data=CoupCorrected() | CoupVoided(corrects=EventRef())):
            over = item.data
            return Needs(coups=(CoupKey(over.operator, over.table, over.shoe, over.coup),))
        case Recorded(data=ShoePayload() as of_shoe):
            return Needs(shoes=(ShoeKey(of_shoe.operator, of_shoe.table, of_shoe.shoe),))
        case _:
            return Needs()


def needs_houses(state: GameState, command: GameCommand) -> tuple[HouseKey, ...]:
    """The houses that this command may ask for, once its coup was looked up.

    A coup that is still open may be over before the command's turn comes. Then it is played by the house that
    is in force now; by its turn another one may be.
    """
    if not isinstance(command, CorrectCoup):
        return ()
    table = state.tables.get(TableKey(command.operator, command.table))
    if table is None:
        return ()
    ended = state.find_ended(table, command.shoe, command.coup)
    number = table.house_number if ended is None else ended.house_number
    return (HouseKey(table.operator, table.name, number),)
