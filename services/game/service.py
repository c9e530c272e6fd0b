"""Game's core, plugged into the runtime."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from schemas.commands.game import (
    CommitShoe,
    GameCommand,
    VoidOverdue,
)
from schemas.envelope import Recorded, UnknownType
from schemas.events.base import Payload, TablePayload, game_stream
from schemas.events.game import HouseSet
from schemas.events.wallet import BetsSealed
from services.game import store
from services.game.core import table as core
from services.game.core.state import CoupKey, GameState, ShoeKey, TableKey
from services.runtime.calendar import rfc3339
from services.runtime.inbox import Irregularity
from services.runtime.ports import Rng

_SEED_BYTES = 32


class GameService:
    """All tables of this process."""

    name = "game"
    reads: Collection[type[Payload]] | None = (BetsSealed,)
    is_waited_for = True
    reactions_are_pure = True
    consumes: tuple[str, ...] = ("wallet.events",)

    def __init__(self, rng: Rng, seal_timeout_seconds: int) -> None:
        self._rng, self._seal_timeout = rng, timedelta(seconds=seal_timeout_seconds)
        self.state = GameState()
        self._houses: list[HouseSet] = []

    def load(self, db: Connection) -> None:
        self.state = store.load_state(db)

    def prepare(
        self, db: Connection, events: Sequence[Recorded[Any]], commands: Sequence[GameCommand]
    ) -> None:
        del events  # a seal speaks of a coup that is open, and those are in memory
        state = self.state
        shoes: list[ShoeKey] = []
        coups: list[CoupKey] = []
        for command in commands:
            needs = core.needs(command)
            shoes += needs.shoes
            coups += needs.coups
        if shoes:
            found = store.find_shoes(db, shoes)
            state.known_shoes.update((key, found.get(key)) for key in shoes)
        if coups:
            ended = store.find_coups(db, coups)
            state.known_coups.update((key, ended.get(key)) for key in coups)
        for command in commands:
            state.known_houses.update(store.find_houses(db, core.needs_houses(state, command)))

    def react(self, event: Recorded[Any]) -> Sequence[Payload]:
        return core.react(self.state, event)

    def skipped(self, event: UnknownType) -> None:
        """Nothing: what this program does not know changes nothing here."""

    def irregular(self, what: Irregularity) -> Sequence[Payload]:
        del what  # findings are audit's
        return ()

    def observe(self, event: Recorded[Any]) -> None:
        """Nothing: what wallet says changes game only by the events that game makes of it."""

    def decide(self, command: GameCommand) -> Sequence[Payload]:
        seed = self._rng.token(_SEED_BYTES) if isinstance(command, CommitShoe) else b""
        events = core.decide(self.state, command, seed)
        core.keep(self.state, command, events, seed)
        return events

    def evolve(self, event: Recorded[Any]) -> None:
        core.evolve(self.state, event)
        if isinstance(event.data, HouseSet):
            self._houses.append(event.data)

    def answer(self, command: GameCommand, events: Sequence[Recorded[Any]]) -> list[str]:
        """The ids of the events that the command made; none where all was so already."""
        del command
        return [event.envelope.id for event in events]

    def overdue(self, now: str) -> Sequence[GameCommand]:
        waiting = [
            table.coup.closed_at
            for table in self.state.tables.values()
            if table.source == "virtual" and table.coup is not None and table.coup.closed_at is not None
        ]
        if not waiting:
            return ()
        limit = rfc3339(datetime.fromisoformat(now) - self._seal_timeout)
        return [VoidOverdue(closed_before=limit)] if min(waiting) < limit else ()

    def stream_of(self, payload: Payload) -> str:
        assert isinstance(payload, TablePayload), "game speaks of tables only"
        return game_stream(payload.operator, payload.table)

    def save(self, db: Connection) -> None:
        for each in self._houses:
            store.save_house(db, TableKey(each.operator, each.table), each.house_number, each.house)
        self._houses.clear()
        store.save_changes(db, self.state.changes)
        self.state.forget()
