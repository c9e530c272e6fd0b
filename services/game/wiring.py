"""How game is put together on this machine."""

from __future__ import annotations

from pathlib import Path

from schemas.commands import GameCommand
from services.game.service import GameService
from services.runtime.database import migrate, open_sqlite
from services.runtime.files import database_of
from services.runtime.ports import Bus, Clock, Ids, Rng
from services.runtime.settings import Settings
from services.runtime.writer import Writer

DATABASE = database_of("game")


def open_game(
    data: Path, bus: Bus, settings: Settings, *, clock: Clock, ids: Ids, rng: Rng
) -> Writer[GameCommand]:
    """Game's writer over ``data/game.db``, which is made and migrated as needed."""
    engine = open_sqlite(data / DATABASE, writer=True)
    migrate(engine, "game")
    service = GameService(rng, settings.seal_timeout_seconds)
    return Writer(service, engine, bus, clock=clock, ids=ids, calendar=settings.calendar)
