"""The five ports through which a shell reaches the world: Clock, Ids, Rng, Bus and Store.

A core reaches nothing. The simulation, the tests and the demo put their own implementations here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol


class Clock(Protocol):
    """Tells the time, for people and for time limits. Order never comes from it."""

    def now(self) -> datetime:
        """The present moment, aware, in UTC."""


class Ids(Protocol):
    """Makes names that nobody can guess and nobody has used."""

    def account(self) -> str:
        """An opaque account id."""

    def command(self) -> str:
        """An id for a command that came without one."""


class Rng(Protocol):
    """Makes secrets."""

    def token(self, size: int) -> bytes:
        """``size`` random bytes."""


@dataclass(frozen=True, slots=True)
class Record:
    """What is published: an event's bytes, with the key that keeps its stream in one partition."""

    topic: str
    key: str
    body: bytes
    signature: bytes | None = None
    """A header beside the bytes, for the producer's signature. Not hashed."""


class Delivery(NamedTuple):
    """A record as a consumer receives it. A tuple, since a replay makes millions of them."""

    topic: str
    partition: int
    offset: int
    key: str | None
    body: bytes
    signature: bytes | None = None


Offsets = Mapping[tuple[str, int], int]
"""The next offset to read, by topic and partition. A hint: the inbox knows what was applied."""


class BusUnavailable(Exception):
    """The bus cannot be reached, or did not acknowledge in time. Nothing is known to be published."""


class DatabaseUnavailable(Exception):
    """A database server cannot be reached or does not do what it is asked; says which and why, in words.

    Where a commit is interrupted by it, nobody knows whether that commit has happened.
    """


class TakenOver(Exception):
    """Another process reads in this one's name, and only one may. Who polls again takes the reading back."""


class Publication(Protocol):
    """Records on their way to the bus."""

    def done(self) -> bool:
        """Whether all of them are durable. Never waits.

        Raises:
            BusUnavailable: not all of them are known to be durable; publish them again.
        """


class Subscription(Protocol):
    """One consumer's reading of some topics, in the order of each partition."""

    @property
    def waiting(self) -> int:
        """Records that are known to be on the bus and that ``poll`` has not returned yet."""

    def poll(self, records_max: int) -> Sequence[Delivery]:
        """At most so many records that were not returned before; empty if there are none now. Never waits.

        Raises:
            BusUnavailable: the bus cannot be reached.
            TakenOver: somebody else reads in this consumer's name. Said once; a further poll takes it back.
        """

    def commit(self, offsets: Offsets) -> None:
        """Let others see how far this consumer is. A hint, which may be lost."""

    def close(self) -> None:
        """Stop reading."""


class Bus(Protocol):
    """A durable log of records. Order holds within a key's partition."""

    def publish(self, records: Sequence[Record]) -> None:
        """Append the records in this order, and return when all of them are durable.

        Raises:
            BusUnavailable: not all of them are known to be durable; publish them again.
        """

    def begin(self, records: Sequence[Record]) -> Publication:
        """Start to append the records in this order, and do not wait for the bus.

        Raises:
            BusUnavailable: the bus cannot be reached; publish them again.
        """

    def subscribe(
        self,
        group: str,
        topics: Sequence[str],
        start: Offsets,
        arrived: Callable[[], None] | None = None,
        *,
        at_once: bool = True,
    ) -> Subscription:
        """Read these topics from these offsets on, from the beginning where none is given.

        A ``group`` is one consumer: its name is the same whenever it comes back. ``arrived`` may be called,
        from any thread, when ``poll`` has something to return. Who need not have everything ``at_once`` is
        given more of it less often, where that spares work.
        """

    def read(self, topic: str, key: str | None = None) -> Iterator[Delivery]:
        """All that the topic holds at this moment, from its beginning: for replays.

        With a ``key``, only the records that were published with it, in their order.
        """

    def keys(self, topic: str) -> Sequence[str]:
        """The keys that the topic's records have, sorted."""

    def close(self) -> None:
        """Give back what the bus holds open."""
