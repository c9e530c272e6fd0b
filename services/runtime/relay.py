"""The relay: publishes the store in order, and believes nothing published that was not acknowledged."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from services.runtime.ports import Bus, BusUnavailable, Record
from services.runtime.store import EventStore, Stored
from services.runtime.topics import key_of, topic_of

_BATCH: Final = 1_000
_MEMORY_MAX: Final = 10_000
"""Beyond so many waiting events memory lets go of them; they are read from the store again."""


class Relay:
    """Moves committed events to the bus."""

    def __init__(self, store: EventStore, bus: Bus) -> None:
        self._store, self._bus = store, bus
        self._waiting: deque[Stored] = deque()
        self.published = store.published
        """Position that the bus has acknowledged. The store learns it in the next transaction."""

    def offer(self, events: Sequence[Stored]) -> None:
        """Events that were just committed, so that they need not be read back."""
        follows = (self._waiting[-1].position if self._waiting else self.published) + 1
        if events and events[0].position == follows and len(self._waiting) + len(events) <= _MEMORY_MAX:
            self._waiting.extend(events)

    @property
    def backlog(self) -> int:
        """Events that wait to be published."""
        return self._store.position - self.published

    def pump(self) -> bool:
        """Publish what is waiting. False where the bus did not take it: try again later."""
        while self.backlog:
            if not self._waiting:
                self._waiting.extend(self._store.unpublished(self.published, _BATCH))
            batch = [self._waiting[index] for index in range(min(_BATCH, len(self._waiting)))]
            try:
                self._bus.publish([record_of(each) for each in batch])
            except BusUnavailable:
                return False
            self.published = batch[-1].position
            for _ in batch:
                self._waiting.popleft()
        return True


def record_of(event: Stored) -> Record:
    """The record that carries a stored event."""
    return Record(topic_of(event.stream), key_of(event.stream), event.body, event.signature)
