"""The files of a data directory."""

from __future__ import annotations

from typing import Final

SERVICES: Final = ("game", "wallet", "audit")
BUS_DATABASE: Final = "bus.db"


def database_of(service: str) -> str:
    """The name of a service's database file."""
    return f"{service}.db"


DATABASES: Final = (*map(database_of, SERVICES), BUS_DATABASE)
"""Every file of a data directory that holds what cannot be made again."""
