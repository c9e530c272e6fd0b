"""Gaps in a log that were filled further on, as those see them who wait at a gap.

A consumer lets every event pass by that comes too early, until the missing one has come and then those behind
it again: that is how a gap is filled. Who has nothing but the log must read it in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from services.audit.core.bytework import Links

R = TypeVar("R")


class Reach:
    """How far each stream goes without a gap, when every event has its turn."""

    def __init__(self) -> None:
        self._reached: dict[str, int] = {}
        self._furthest: dict[str, int] = {}

    def note(self, links: Links) -> None:
        """The next record of the log."""
        stream, sequence, _ = links
        if sequence == self.due(stream):
            self._reached[stream] = sequence
        self._furthest[stream] = max(sequence, self._furthest.get(stream, 0))

    def due(self, stream: str) -> int:
        """The sequence that is waited for."""
        return self._reached.get(stream, 0) + 1

    def is_whole(self, stream: str) -> bool:
        """Whether nothing is waited for but what comes next."""
        return self._reached.get(stream, 0) == self._furthest.get(stream, 0)


def without_early(records: Iterable[R], links_of: Callable[[R], Links | None], reach: Reach) -> Iterator[R]:
    """The records, less those that came too early and come again in their turn.

    ``reach`` is that of the whole log. A stream that is not whole in the end is left as it is.
    """
    come = Reach()
    for record in records:
        links = links_of(record)
        if links is not None:
            if links.sequence > come.due(links.stream) and reach.is_whole(links.stream):
                continue
            come.note(links)
        yield record
