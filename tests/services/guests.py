"""The smallest service that can be plugged into the runtime: it opens an account for every guest.

A guest is named by a command (``"Ann"``), or takes a seat at one of game's tables, or was let in by another
such service. Its one table, ``guest``, is written in the batch's transaction like any service's.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Engine

from schemas.envelope import Recorded, UnknownType
from schemas.events.accounts import AccountOpened
from schemas.events.base import Payload
from schemas.events.game import SeatTaken
from schemas.refusal import Refusal
from services.runtime.bus.embedded import EmbeddedBus
from services.runtime.database import migrate, open_sqlite
from services.runtime.inbox import Irregularity
from services.runtime.ports import Bus
from services.runtime.ports_system import SeededIds
from services.runtime.writer import Limits, Writer
from tests.contracts.streams import clock
from tests.support.postgres import Databases

GUEST = sa.Table("guest", sa.MetaData(), sa.Column("name", sa.String, primary_key=True))

UNLUCKY_SEAT = 13
"""Nobody can be let in from here: ``react`` raises."""


class Guests:
    """Lets guests in."""

    def __init__(self, name: str = "wallet", consumes: tuple[str, ...] = ("game.events",)) -> None:
        self.name, self.consumes = name, consumes
        self.is_waited_for = True
        self.reactions_are_pure = True
        self.reads: Collection[type[Payload]] | None = None
        self.skipped_places: list[tuple[str, int]] = []
        self.irregularities: list[Irregularity] = []
        self.names: set[str] = set()
        self.due: list[str] = []
        """Guests who come by themselves at the next step."""
        self._new: list[str] = []

    def load(self, db: Connection) -> None:
        GUEST.create(db, checkfirst=True)
        self.names = set(db.scalars(sa.select(GUEST.c.name)))

    def prepare(self, db: Connection, events: Sequence[Recorded[Any]], commands: Sequence[str]) -> None:
        pass

    def react(self, event: Recorded[Any]) -> Sequence[Payload]:
        match event.data:
            case SeatTaken(seat=seat) if seat == UNLUCKY_SEAT:
                raise ValueError("nobody sits on 13")
            case SeatTaken(table=table, seat=seat):
                return self._welcome(f"{table}-seat-{seat}")
            case AccountOpened(account=account):
                return self._welcome(f"friend-of-{account}")
        return ()

    def skipped(self, event: UnknownType) -> None:
        self.skipped_places.append((event.envelope.stream, event.envelope.sequence))

    def irregular(self, what: Irregularity) -> Sequence[Payload]:
        self.irregularities.append(what)
        return ()

    def observe(self, event: Recorded[Any]) -> None:
        pass

    def decide(self, command: str) -> Sequence[Payload]:
        match command:
            case "nobody":
                raise Refusal("INVALID", "name", "a guest has a name")
            case "fault":
                raise RuntimeError("a defect of ours")
            case "couple":
                return [*self._welcome("Fred"), *self._welcome("Ginger")]
        return self._welcome(command)

    def evolve(self, event: Recorded[Any]) -> None:
        self.names.add(event.data.account)
        self._new.append(event.data.account)

    def answer(self, command: str, events: Sequence[Recorded[Any]]) -> list[str]:
        return [event.envelope.id for event in events]

    def overdue(self, now: str) -> Sequence[str]:
        due, self.due = self.due, []
        return due

    def stream_of(self, payload: Payload) -> str:
        return f"{self.name}/guests"

    def save(self, db: Connection) -> None:
        if self._new:
            db.execute(sa.insert(GUEST), [{"name": name} for name in self._new])
        self._new = []

    def _welcome(self, name: str) -> list[Payload]:
        return [] if name in self.names else [AccountOpened(operator="op", account=name)]


def open_engine(path: Path) -> Engine:
    """A database of a service's, over SQLite."""
    engine = open_sqlite(path, writer=True)
    migrate(engine, "wallet")
    return engine


def make_guests_table(databases: Databases) -> None:
    """Wallet's database on PostgreSQL, with the table of this service, which stands in for wallet."""
    with databases.open_as_owner("wallet").begin() as db:
        GUEST.create(db)
        db.execute(sa.text("GRANT SELECT, INSERT ON guest TO sabot_wallet"))


def open_guests(engine: Engine, bus: Bus, service: Guests | None = None, **limits: int) -> Writer[str]:
    """The service's writer."""
    return Writer(
        service or Guests(), engine, bus, clock=clock(), ids=SeededIds("guests"), limits=Limits(**limits)
    )


def names_in(engine: Engine) -> set[str]:
    """The guests that the table shows, committed."""
    with engine.connect() as db, db.begin():
        return set(db.scalars(sa.select(GUEST.c.name)))


def work(*writers: Writer[Any]) -> None:
    """Step the writers until none has anything left to do."""
    while sum(writer.step() for writer in writers):
        pass


def open_bus(folder: Path) -> EmbeddedBus:
    """The embedded bus of a folder."""
    return EmbeddedBus(folder / "bus.db")
