"""An order in which every event comes after the one that caused it, and otherwise the earlier one first.

A bus with partitions has no order between them. Read one after the other, a replay would have to remember
every coup of one stream until it came to the other; merged by their causes they go hand in hand, and it
remembers the coups that are open. Nothing here decides what is right: the verifier comes to the same verdicts
in any order.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Final, Generic, TypeVar

from services.audit.core.bytework import links_of

R = TypeVar("R")

_TIME: Final = re.compile(rb'"time":"([0-9TZ:.+-]{1,40})"')
_CAUSE: Final = re.compile(rb'"causationid":"([^"\\/]{1,20}/[^"\\]{1,180})/([1-9][0-9]{0,17})"')
_ENVELOPE_BYTES_MAX: Final = 1_500


def in_causal_order(partitions: Sequence[Iterable[R]], body: Callable[[R], bytes]) -> Iterator[R]:
    """All records, those of each partition in their order, each behind its cause where that is there.

    A partition waits at a record whose cause has not come. Of those that need not wait, the one with the
    earliest record goes on; and where all wait, because causes are missing or in a ring, the earliest of all:
    that one can only wait for something that is not there, unless a clock was wrong.
    """
    return _Merge(partitions, body).records()


class _Merge(Generic[R]):
    def __init__(self, partitions: Sequence[Iterable[R]], body: Callable[[R], bytes]) -> None:
        self._body = body
        self._come: dict[str, int] = {}
        """The last sequence of each stream that has come."""
        self._waiting: dict[str, list[_Partition[R]]] = defaultdict(list)
        """Partitions that wait, by the stream that they wait for."""
        self._ready: list[tuple[bytes, int, _Partition[R]]] = []
        """A heap of the others, the earliest record first."""
        for number, records in enumerate(partitions):
            self._go_on(_Partition(number, iter(records)))

    def records(self) -> Iterator[R]:
        while (partition := self._earliest_ready() or self._earliest_waiting()) is not None:
            record = partition.record
            yield record
            self._note(record)
            self._go_on(partition)

    def _go_on(self, partition: _Partition[R]) -> None:
        """To the partition's next record, if it has one."""
        for record in partition.records:
            partition.record = record
            body = self._body(record)
            time = _TIME.search(body, 0, _ENVELOPE_BYTES_MAX)
            cause = _CAUSE.search(body, 0, _ENVELOPE_BYTES_MAX)
            # What is no event of ours has neither, and waits for nobody.
            partition.time = b"" if time is None else time[1]
            partition.cause = None if cause is None else (cause[1].decode("utf-8", "replace"), int(cause[2]))
            self._release(partition)
            break

    def _release(self, partition: _Partition[R]) -> None:
        heappush(self._ready, (partition.time, partition.number, partition))

    def _earliest_ready(self) -> _Partition[R] | None:
        """The earliest whose cause has come. Those before it wait from now on."""
        while self._ready:
            _, _, partition = heappop(self._ready)
            cause = partition.cause
            if cause is None or self._come.get(cause[0], 0) >= cause[1]:
                return partition
            self._waiting[cause[0]].append(partition)
        return None

    def _earliest_waiting(self) -> _Partition[R] | None:
        waiting = [(each.time, each.number, each) for every in self._waiting.values() for each in every]
        if not waiting:
            return None
        _, _, partition = min(waiting)
        assert partition.cause is not None, "it waits for it"
        self._waiting[partition.cause[0]].remove(partition)
        return partition

    def _note(self, record: R) -> None:
        """A record has come, and perhaps somebody has waited for it."""
        links = links_of(self._body(record))
        if links is None or links.sequence <= self._come.get(links.stream, 0):
            return
        self._come[links.stream] = links.sequence
        for partition in self._waiting.pop(links.stream, ()):
            self._release(partition)  # if it waits for a later one, it will wait again


class _Partition(Generic[R]):
    """The records of one partition that have not come yet, and what the next of them says of itself."""

    def __init__(self, number: int, records: Iterator[R]) -> None:
        self.number, self.records = number, records
        self.record: R
        self.time = b""
        self.cause: tuple[str, int] | None = None
        """Stream and sequence."""
