"""How game is put together."""

from __future__ import annotations

from schemas.commands.game import (
    GameCommand,
)
from services.game.service import GameService
from services.runtime.installation import Installation
from services.runtime.ports import Bus, Clock, Ids, Rng
from services.runtime.settings import Settings
from services.runtime.writer import Writer


def open_game(
    installation: Installation, bus: Bus, settings: Settings, *, clock: Clock, ids: Ids, rng: Rng
) -> Writer[GameCommand]:
    """Game's writer over its database."""
    engine = installation.open_database("game")
    service = GameService(rng, settings.seal_timeout_seconds)
    return Writer(service, engine, bus, clock=clock, ids=ids, calendar=settings.calendar)
