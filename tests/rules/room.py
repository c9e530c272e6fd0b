"""A room in memory: the game core with a shell of dictionaries around it.

It does what the real shell does and no more: looks up what ``needs`` names, decides, keeps the secrets,
encodes each event and folds it in, then writes ``changes`` and forgets. Forgetting after every command is
deliberate: a core that leaned on what it happened to remember would fail here.
"""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from schemas.commands.game import (
    CloseBetting,
    CommitShoe,
    GameCommand,
    LoadShoe,
    OpenCoup,
    OpenTable,
    TakeSeat,
)
from schemas.envelope import FIRST_PREVIOUS, Recorded, encode
from schemas.events.base import Payload, game_stream, wallet_stream
from schemas.events.game import HouseSet
from schemas.events.wallet import BetsSealed, LargestPlayerBet
from schemas.house import House, shipped_houses
from services.game.core.state import CoupKey, EndedCoup, GameState, HouseKey, Shoe, ShoeKey, Table, TableKey
from services.game.core.table import decide, evolve, keep, needs, needs_houses, react
from services.game.core.tableau import Order

HOUSES = shipped_houses()
OPERATOR, TABLE, SHARD = "op", "T1", "S1"
AT: dict[str, Any] = {"operator": OPERATOR, "table": TABLE}
PUNTO: Order = ("player", "banker", "player", "banker")
BIG_TABLE: Order = ("banker", "banker", "player", "player")
LETTERS = {0: "K", 1: "A", **{pips: str(pips) for pips in range(2, 10)}}


def cards(points: str) -> tuple[str, ...]:
    """Cards worth these points, in the order in which they are written: ``cards("9 0") == ("9", "K")``."""
    return tuple(LETTERS[int(point)] for point in points.split())


def coup_cards(points: str) -> tuple[str, ...]:
    """A coup from ``P1,B1,P2,B2,P3,B3`` with ``-`` for a card that was not drawn."""
    return tuple(LETTERS[int(point)] for point in points.split(",") if point != "-")


@dataclass
class Store:
    """What a real shell has in its tables, beside the events."""

    shoes: dict[ShoeKey, Shoe] = field(default_factory=dict)
    coups: dict[CoupKey, EndedCoup] = field(default_factory=dict)
    houses: dict[HouseKey, House] = field(default_factory=dict)
    seeds: dict[ShoeKey, bytes] = field(default_factory=dict)
    cards: dict[CoupKey, tuple[str, ...]] = field(default_factory=dict)


class Room:
    """One game service, in memory."""

    def __init__(self) -> None:
        self.state = GameState()
        self.store = Store()
        self.events: list[Recorded[Any]] = []
        self.now = 0
        self.seeds = 0
        self.heads: dict[str, tuple[int, str]] = {}

    # ------------------------------------------------------------------------------------- the shell

    def do(self, *commands: GameCommand) -> list[Any]:
        """Carry these commands out as one batch; the events that they made."""
        self._look_up(commands)
        made: list[Any] = []
        for command in commands:
            seed = self._next_seed()
            payloads = decide(self.state, command, seed)
            keep(self.state, command, payloads, seed)
            for payload in payloads:
                self._append(payload)
            made += payloads
        self._save()
        return made

    def hear(self, event: Recorded[Any]) -> list[Any]:
        """Take in an event of wallet's."""
        payloads = react(self.state, event)
        for payload in payloads:
            self._append(payload)
        self._save()
        return payloads

    def _next_seed(self) -> bytes:
        self.seeds += 1
        return sha256(self.seeds.to_bytes(8, "big")).digest()

    def _look_up(self, items: Iterable[GameCommand | Recorded[Any]]) -> None:
        # One object for a key, however often it is asked for: two would each have their own changes.
        for item in items:
            wanted = needs(item)
            for shoe in wanted.shoes:
                if shoe not in self.state.known_shoes:
                    self.state.known_shoes[shoe] = deepcopy(self.store.shoes.get(shoe))
            for coup in wanted.coups:
                if coup not in self.state.known_coups:
                    self.state.known_coups[coup] = self.store.coups.get(coup)
        for item in items:
            if not isinstance(item, Recorded):
                houses = {key: self.store.houses[key] for key in needs_houses(self.state, item)}
                self.state.known_houses.update(houses)

    def _append(self, payload: Payload) -> None:
        operator, table = payload.operator, getattr(payload, "table")  # noqa: B009
        event = self._encoded(game_stream(operator, table), payload)
        self.events.append(event)
        self._evolve(event)

    def _evolve(self, event: Recorded[Any]) -> None:
        evolve(self.state, event)
        if isinstance(event.data, HouseSet):
            data = event.data
            self.store.houses[HouseKey(data.operator, data.table, data.house_number)] = data.house

    def _encoded(self, stream: str, payload: Payload) -> Recorded[Any]:
        self.now += 1
        sequence, previous = self.heads.get(stream, (0, FIRST_PREVIOUS))
        event = encode(
            payload,
            source="tests",
            stream=stream,
            sequence=sequence + 1,
            previous=previous,
            time=self.clock(self.now),
            gamingday="2026-01-01",
            causationid="c",
            correlationid="c",
        )
        self.heads[stream] = (event.sequence, event.hash)
        return event

    def clock(self, seconds: int) -> str:
        """An envelope's time, so many seconds after the beginning."""
        hours, rest = divmod(seconds, 3600)
        return f"2026-01-01T{hours:02}:{rest // 60:02}:{rest % 60:02}.000000Z"

    def _save(self) -> None:
        save(self.state, self.store)

    # ----------------------------------------------------------------------------------- short hands

    @property
    def table(self) -> Table:
        return self.state.tables[TableKey(OPERATOR, TABLE)]

    def seed_of(self, shoe: str) -> bytes:
        return self.store.seeds[ShoeKey(OPERATOR, TABLE, shoe)]

    def open_table(self, house: str | House = "nl", source: str = "virtual", **other: Any) -> list[Any]:
        document = HOUSES[house] if isinstance(house, str) else house
        command = OpenTable(
            operator=OPERATOR,
            table=other.pop("table", TABLE),
            house=document,
            shard=SHARD,
            source=source,  # type: ignore[arg-type]
            **other,
        )
        return self.do(command)

    def load(self, shoe: str = "shoe-1", entropy: str = "lucky") -> list[Any]:
        """Commit a shoe and load it."""
        committed = self.do(CommitShoe(operator=OPERATOR, table=TABLE, shoe=shoe))
        return committed + self.do(LoadShoe(operator=OPERATOR, table=TABLE, shoe=shoe, entropy=entropy))

    def sit(self, *seats: int) -> None:
        for seat in seats:
            self.do(TakeSeat(operator=OPERATOR, table=TABLE, seat=seat))

    def open(
        self,
        coup: int,
        recorded: Sequence[str] | None = None,
        *,
        shoe: str = "shoe-1",
        dealer_seat: int | None = None,
    ) -> list[Any]:
        return self.do(
            OpenCoup(
                operator=OPERATOR,
                table=TABLE,
                shoe=shoe,
                coup=coup,
                cards=None if recorded is None else tuple(recorded),
                dealer_seat=dealer_seat,
            )
        )

    def close(self, coup: int, shoe: str = "shoe-1") -> list[Any]:
        return self.do(CloseBetting(operator=OPERATOR, table=TABLE, shoe=shoe, coup=coup))

    def sealed(
        self,
        coup: int,
        *largest: LargestPlayerBet,
        shoe: str = "shoe-1",
        table: str = TABLE,
        shard: str = SHARD,
    ) -> Recorded[Any]:
        """Wallet's seal of a coup, as it comes over the bus."""
        return self._encoded(
            wallet_stream(shard),
            BetsSealed(
                operator=OPERATOR,
                table=table,
                shoe=shoe,
                coup=coup,
                first=None,
                last=None,
                bets=0,
                totals=(),
                largest_player=largest,
                digest="0" * 64,
            ),
        )

    def seal(self, coup: int, *largest: LargestPlayerBet, shoe: str = "shoe-1") -> list[Any]:
        return self.hear(self.sealed(coup, *largest, shoe=shoe))

    def play(
        self,
        coup: int,
        recorded: Sequence[str] | None = None,
        *,
        shoe: str = "shoe-1",
        dealer_seat: int | None = None,
    ) -> list[Any]:
        """A whole coup: opened, closed, sealed without bets, dealt."""
        events = self.open(coup, recorded, shoe=shoe, dealer_seat=dealer_seat)
        return events + self.close(coup, shoe) + self.seal(coup, shoe=shoe)

    def rebuilt(self) -> "Room":
        """The same room, made again from the events and the secrets that are still kept."""
        other = Room()
        other.store.seeds, other.store.cards = dict(self.store.seeds), dict(self.store.cards)
        other.state.undealt.seeds.update(self.store.seeds)
        for event in self.events:
            other._look_up([event])
            for coup in needs(event).cards:
                if coup in other.store.cards:
                    other.state.undealt.cards[coup] = other.store.cards[coup]
            other._evolve(event)
            other._save()
        return other


def save(state: GameState, store: Store) -> None:
    """Write what a batch changed, and forget what was looked up for it."""
    changes = state.changes
    store.shoes.update(deepcopy(changes.shoes))
    store.coups.update(changes.coups)
    for shoe, seed in changes.seeds.items():
        if seed is None:
            store.seeds.pop(shoe, None)
        else:
            store.seeds[shoe] = seed
    for coup, secret in changes.cards.items():
        if secret is None:
            store.cards.pop(coup, None)
        else:
            store.cards[coup] = secret
    state.forget()


def of_type(events: Iterable[Any], *kinds: type) -> list[Any]:
    """The payloads of these types among payloads or recorded events."""
    payloads = (event.data if isinstance(event, Recorded) else event for event in events)
    return [payload for payload in payloads if isinstance(payload, kinds)]
