"""What a service gives to the runtime: a pure core, and how its tables are read and written.

The writer (``services.runtime.writer``) calls these methods, always from one thread, in the order:
``load`` once; then for each batch ``prepare``, ``react`` and ``decide`` for what came in, ``evolve`` for
every event that this made, and ``save``. All of a batch is one database transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from sqlalchemy import Connection

from schemas.envelope import Recorded, UnknownType
from schemas.events.base import Payload
from services.runtime.inbox import Irregularity

C = TypeVar("C")


class Service(Protocol[C]):
    """One service, without the world around it."""

    name: str
    """``game``, ``wallet`` or ``audit``: its topic is ``<name>.events``."""
    consumes: tuple[str, ...]
    """The topics that it reads."""
    reads: Collection[type[Payload]] | None
    """The events that are of concern to it; ``None``: all. Of others it only keeps the place."""
    is_waited_for: bool
    """Whether others wait for what it says. One that nobody waits for reads more at a time, less often."""
    reactions_are_pure: bool
    """Whether ``react`` leaves the state alone. An event that makes a pure reaction fail is held, and the
    other streams go on; a failure of one that is not leaves a state that cannot be trusted, and stops the
    writer."""

    def load(self, db: Connection) -> None:
        """Make the state from the tables, at the start."""

    def prepare(self, db: Connection, events: Sequence[Recorded[Any]], commands: Sequence[C]) -> None:
        """Bring into the state what this batch may ask for and memory does not hold."""

    def react(self, event: Recorded[Any]) -> Sequence[Payload]:
        """What another service's event makes this one say; called before ``observe``."""

    def skipped(self, event: UnknownType) -> None:
        """An event of a type that this program does not know has taken its place."""

    def irregular(self, what: Irregularity) -> Sequence[Payload]:
        """What something that should not be on the bus makes this service say."""

    def observe(self, event: Recorded[Any]) -> None:
        """Fold another service's event into the state, before what it made this service say."""

    def decide(self, command: C) -> Sequence[Payload]:
        """What a command makes this service say. Pure.

        Raises:
            schemas.refusal.Refusal: the command cannot be carried out; nothing happens.
        """

    def evolve(self, event: Recorded[Any]) -> None:
        """Fold an event of this service into the state."""

    def answer(self, command: C, events: Sequence[Recorded[Any]]) -> Any:
        """The reply to a command, after its events were folded in.

        Raises:
            schemas.refusal.Refusal: the events say that the command was refused.
        """

    def overdue(self, now: str) -> Sequence[C]:
        """Commands that are due by themselves at this time (an envelope's time), such as time limits."""

    def stream_of(self, payload: Payload) -> str:
        """The stream that an event of this service belongs to."""

    def save(self, db: Connection) -> None:
        """Write to the tables what this batch changed in the state."""


@runtime_checkable
class Timed(Protocol):
    """A service whose decisions depend on the time, which it is told and does not look up."""

    def begin(self, now: str, day_of: Callable[[str], str]) -> None:
        """A batch begins. ``now``: the time in its events; ``day_of``: an operator's gaming day in them."""
