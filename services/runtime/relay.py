"""The relay: publishes the store in order, and believes nothing published that was not acknowledged.

It never waits for the bus. What was handed over and not acknowledged in time is handed over again, with all
that came behind it, so that no stream is left with a gap for longer than that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Final

from services.runtime.ports import Bus, BusUnavailable, Publication, Record
from services.runtime.store import EventStore, Stored
from services.runtime.topics import key_of, topic_of

_BATCH: Final = 1_000
_ON_THEIR_WAY_MAX: Final = 8
"""Batches that the bus has been given and has not acknowledged."""
_MEMORY_MAX: Final = 10_000
"""Beyond so many waiting events memory lets go of them; they are read from the store again."""
_LOOK_AGAIN_SECONDS: Final = 0.002


@dataclass(frozen=True, slots=True)
class _Sent:
    publication: Publication
    position: int
    """Position of its last event."""


class Relay:
    """Moves committed events to the bus."""

    def __init__(self, store: EventStore, bus: Bus) -> None:
        self._store, self._bus = store, bus
        self._waiting: deque[Stored] = deque()
        """The next events to hand over, as far as they are in memory."""
        self._on_their_way: deque[_Sent] = deque()
        self._handed_over = store.published
        """Position up to which the bus was given everything."""
        self.published = store.published
        """Position that the bus has acknowledged. The store learns it in the next transaction."""
        self.fault: str | None = None
        """Why the bus did not take what it was given last, if it did not."""

    def offer(self, events: Sequence[Stored]) -> None:
        """Events that were just committed, so that they need not be read back."""
        follows = (self._waiting[-1].position if self._waiting else self._handed_over) + 1
        if events and events[0].position == follows and len(self._waiting) + len(events) <= _MEMORY_MAX:
            self._waiting.extend(events)

    @property
    def backlog(self) -> int:
        """Events that wait to be published."""
        return self._store.position - self.published

    def pump(self) -> bool:
        """Hand over what is waiting, and take note of what was acknowledged.

        False where the bus did not take it: try again later.
        """
        try:
            self._note_acknowledged()
            while self._handed_over < self._store.position and len(self._on_their_way) < _ON_THEIR_WAY_MAX:
                self._hand_over()
                self._note_acknowledged()  # a bus that does not make one wait has it already
        except BusUnavailable as reason:
            self.fault = str(reason)
            self._waiting.clear()
            self._on_their_way.clear()
            self._handed_over = self.published
            return False
        self.fault = None
        return True

    def finish(self, seconds: float) -> None:
        """Give what is on its way some time to be acknowledged, so that it need not be published again."""
        until = monotonic() + seconds
        while self.backlog and self.pump() and monotonic() < until:
            sleep(_LOOK_AGAIN_SECONDS)

    def _hand_over(self) -> None:
        if not self._waiting:
            self._waiting.extend(self._store.unpublished(self._handed_over, _BATCH))
        batch = [self._waiting[index] for index in range(min(_BATCH, len(self._waiting)))]
        publication = self._bus.begin([record_of(each) for each in batch])
        for _ in batch:
            self._waiting.popleft()
        self._handed_over = batch[-1].position
        self._on_their_way.append(_Sent(publication, self._handed_over))

    def _note_acknowledged(self) -> None:
        while self._on_their_way and self._on_their_way[0].publication.done():
            self.published = self._on_their_way.popleft().position


def record_of(event: Stored) -> Record:
    """The record that carries a stored event."""
    return Record(topic_of(event.stream), key_of(event.stream), event.body, event.signature)
