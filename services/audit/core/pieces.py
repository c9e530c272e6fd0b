"""Pieces of what audit remembers, which can be stored and read back: a row each.

Each ``Piece`` knows its place in a table of (kind, key) and its content as plain JSON. The live service
writes the pieces that a batch touched in the batch's own transaction and reads all of them when it starts;
nothing needs to be replayed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from schemas.envelope import FIRST_PREVIOUS

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
