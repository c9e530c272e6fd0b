"""One table that plays by itself in a room, beside whatever is there already."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from schemas.commands.game import (
    VoidCoup,
)
from schemas.house import House
from services.room.room import Room
from services.room.tables import Plan, VirtualTable, play
from services.runtime.ports_system import SeededRng


def demonstrate(
    room: Room, house: House, plan: Plan, *, seats: int, rng: SeededRng, progress: Callable[[int], None]
) -> None:
    """Play a table of its own. ``progress`` is told how many coups were played.

    Raises:
        Stalled: nothing moves and the table is not done.
    """
    _void_what_was_cut_off(room)
    table = VirtualTable(room, _table_name(room), house, seats=seats, plan=plan, rng=rng)
    play(room, [table], progress)


def _void_what_was_cut_off(room: Room) -> None:
    """An earlier demonstration that was killed may have left a coup open: its stakes go back."""
    for table in room.tables():
        if table.source == "virtual" and table.coup is not None:
            voiding = VoidCoup(
                operator=table.operator,
                table=table.name,
                shoe=table.coup.shoe,
                coup=table.coup.number,
                reason="the demonstration was cut off",
            )
            room.result(room.game.submit(voiding))


def _table_name(room: Room) -> str:
    """A table of its own for every demonstration in one place, since each may have another house."""
    taken = {each.name for each in room.tables()}
    return next(name for number in count(1) if (name := f"T{number}") not in taken)
