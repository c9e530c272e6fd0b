"""The data directory: how every command names and opens it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from services.cli.console import fail
from services.room.embedded import Room
from services.runtime.ports import Ids, Rng
from services.runtime.ports_system import SystemClock, SystemIds, SystemRng
from services.runtime.settings import Settings, SettingsError, settings_from

DataOption = Annotated[
    Path, typer.Option("--data", help="Directory of the services' databases and the embedded bus.")
]


def settings() -> Settings:
    """The settings of the environment; ends the command where they cannot be taken."""
    try:
        return settings_from(os.environ)
    except SettingsError as error:
        fail(str(error), status=2)


def open_room(data: Path, ids: Ids | None = None, rng: Rng | None = None) -> Room:
    """The room in a data directory, which is made as needed."""
    return Room(data, settings(), clock=SystemClock(), ids=ids or SystemIds(), rng=rng or SystemRng())
