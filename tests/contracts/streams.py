"""What tests feed to a bus: a chain of events in one stream, as its producer would have made them."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from schemas.envelope import FIRST_PREVIOUS, Recorded, encode
from schemas.events.base import Payload, game_stream
from schemas.events.game import SeatTaken
from services.runtime.ports import Record
from services.runtime.ports_system import ManualClock
from services.runtime.topics import key_of, topic_of

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOON = "2026-03-01T12:00:00.000000Z"


def clock() -> ManualClock:
    """A clock that stands at noon on 1 March 2026."""
    return ManualClock(START)


class Stream:
    """A producer, reduced to what its consumers see. It keeps all that it made."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.events: list[Recorded[Any]] = []

    def next(self, payload: Payload, *, cause: str = "test") -> Recorded[Any]:
        """The next event of the stream."""
        event = encode(
            payload,
            source="sabot/test",
            stream=self.name,
            sequence=len(self.events) + 1,
            previous=self.events[-1].hash if self.events else FIRST_PREVIOUS,
            time=NOON,
            gamingday="2026-03-01",
            causationid=cause,
            correlationid=cause,
        )
        self.events.append(event)
        return event

    def record(self, sequence: int) -> Record:
        """The record that carries an event that was made before."""
        return record_of(self.events[sequence - 1].body, self.name)


class Seats(Stream):
    """A table at which people only sit down: the simplest stream of game's there is."""

    def __init__(self, table: str = "T1", operator: str = "op") -> None:
        super().__init__(game_stream(operator, table))
        self.operator, self.table = operator, table

    def sit(self, count: int = 1) -> list[Record]:
        """So many further events, on seats 1, 2, 3, …, as records."""
        first = len(self.events) + 1
        for sequence in range(first, first + count):
            self.next(SeatTaken(operator=self.operator, table=self.table, seat=(sequence - 1) % 99 + 1))
        return [self.record(sequence) for sequence in range(first, first + count)]


def record_of(body: bytes, stream: str) -> Record:
    """Any bytes, as a record of a stream."""
    return Record(topic_of(stream), key_of(stream), body)


def bodies(deliveries: Iterable[Any]) -> list[bytes]:
    """The bytes of deliveries or records."""
    return [each.body for each in deliveries]
