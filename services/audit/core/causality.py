"""An order in which every event comes after the one that caused it.

A bus with partitions has no order between them. Read one after the other, a replay would have to remember
every coup of one stream until it came to the other; merged by their causes they go hand in hand, and it
remembers the coups that are open. Nothing here decides what is right: the verifier comes to the same verdicts
in any order.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from services.audit.core.bytework import links_of

R = TypeVar("R")

_CAUSE: Final = re.compile(rb'"causationid":"([^"\\/]{1,20}/[^"\\]{1,180})/([1-9][0-9]{0,17})"')
_ENVELOPE_BYTES_MAX: Final = 1_500


def in_causal_order(partitions: Sequence[Iterable[R]], body: Callable[[R], bytes]) -> Iterator[R]:
    """All records, those of each partition in their order, each behind its cause where that is there.

    A partition waits at a record whose cause has not come. Where all wait, the causes are missing or in a
    ring, and the partition that has waited longest goes on.
    """
    merge = _Merge(partitions, body)
    while merge.ready or merge.waiting:
        yield from merge.run() if merge.ready else merge.run_the_longest_waiting()


class _Merge(Generic[R]):
    def __init__(self, partitions: Sequence[Iterable[R]], body: Callable[[R], bytes]) -> None:
        self._body = body
        self._come: dict[str, int] = {}
        """The last sequence of each stream that has come."""
        self._wanted: dict[str, list[_Partition[R]]] = defaultdict(list)
        """Partitions that wait for a stream."""
        self.ready = deque(_Partition(iter(each)) for each in partitions)
        self.waiting: dict[_Partition[R], tuple[str, int]] = {}
        """What each of the others waits for, the longest waiting first."""

    def run(self) -> Iterator[R]:
        """The records of one partition, up to the first that must wait."""
        partition = self.ready.popleft()
        while (record := partition.take()) is not None:
            cause = self._cause_of(record)
            if cause is not None and self._come.get(cause[0], 0) < cause[1]:
                partition.put_back(record)
                self.waiting[partition] = cause
                self._wanted[cause[0]].append(partition)
                return
            yield self._note(record)

    def run_the_longest_waiting(self) -> Iterator[R]:
        """One record whose cause did not come; its partition is ready then."""
        partition, (stream, _) = next(iter(self.waiting.items()))
        self._wanted[stream].remove(partition)
        self._release(partition)
        record = partition.take()
        assert record is not None, "it waits at a record"
        yield self._note(record)

    def _cause_of(self, record: R) -> tuple[str, int] | None:
        match = _CAUSE.search(self._body(record)[:_ENVELOPE_BYTES_MAX])
        if match is None:
            return None  # a command, or something on the bus
        return match[1].decode("utf-8", "replace"), int(match[2])

    def _note(self, record: R) -> R:
        links = links_of(self._body(record))
        if links is not None and links.sequence > self._come.get(links.stream, 0):
            self._come[links.stream] = links.sequence
            for partition in [
                each for each in self._wanted.get(links.stream, ()) if self.waiting[each][1] <= links.sequence
            ]:
                self._wanted[links.stream].remove(partition)
                self._release(partition)
        return record

    def _release(self, partition: _Partition[R]) -> None:
        del self.waiting[partition]
        self.ready.append(partition)


class _Partition(Generic[R]):
    """The records of one partition, with one that can be put back."""

    def __init__(self, records: Iterator[R]) -> None:
        self._records = records
        self._held: R | None = None

    def take(self) -> R | None:
        """The next record; None at the end."""
        if self._held is not None:
            record, self._held = self._held, None
            return record
        return next(self._records, None)

    def put_back(self, record: R) -> None:
        """It is the next one again."""
        self._held = record
