"""A bus as it is at one moment, copied into a file that can be read by key, again and again.

Kafka is read once, from beginning to end; whoever verifies a thousand streams cannot ask it for each of them.
Memory does not grow with the topics: the records lie on disk, first by partition, then in the order of their
causes.

Where no store can be asked for what a gap lacks, the copy is that of somebody who waits at each: what came
too early, and again in its turn, is there once.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import IO, Final

from services.audit.core.bytework import Links, links_of
from services.audit.core.causality import in_causal_order
from services.audit.core.gaps import Reach, without_early
from services.runtime.bus.embedded import EmbeddedBus
from services.runtime.ports import Bus, Delivery, Record
from services.runtime.topics import key_of, topic_of

_BATCH: Final = 5_000


def snapshot(
    bus: Bus,
    topics: Sequence[str],
    folder: Path,
    progress: Callable[[int], None] | None = None,
    *,
    is_all_there_is: bool,
) -> EmbeddedBus:
    """Copy ``topics`` into an embedded bus in ``folder``. ``progress`` is told how many records were read.

    ``is_all_there_is``: no store can be asked for what the bus lacks.

    Raises:
        BusUnavailable: the bus cannot be read.
    """
    tell = progress or (lambda _: None)
    copy = EmbeddedBus(folder / "bus.db")
    try:
        with ExitStack() as opened:
            partitions, reach = _Partitions(folder, opened), Reach()
            for number, delivery in enumerate(_all_of(bus, topics), start=1):
                partitions.write(delivery)
                if (links := _links_in_place(delivery)) is not None:
                    reach.note(links)
                if number % _BATCH == 0:
                    tell(number)
            read = partitions.read()
            if is_all_there_is:
                read = [without_early(records, _links_in_place, reach) for records in read]
            records = in_causal_order(read, lambda record: record.body)
            while batch := list(islice(records, _BATCH)):
                copy.publish(batch)
    except BaseException:
        copy.close()
        raise
    return copy


def _links_in_place(record: Record | Delivery) -> Links | None:
    """What a record says of its place, where it lies in that stream's."""
    links = links_of(record.body)
    if links is None or (topic_of(links.stream), key_of(links.stream)) != (record.topic, record.key):
        return None
    return links


def _all_of(bus: Bus, topics: Iterable[str]) -> Iterator[Delivery]:
    for topic in topics:
        yield from bus.read(topic)


class _Partitions:
    """A file for each partition, written and read by this process alone."""

    def __init__(self, folder: Path, opened: ExitStack) -> None:
        self._folder, self._opened = folder, opened
        self._files: dict[tuple[str, int], IO[bytes]] = {}

    def write(self, delivery: Delivery) -> None:
        place = (delivery.topic, delivery.partition)
        file = self._files.get(place)
        if file is None:
            path = self._folder / f"{len(self._files)}.partition"
            file = self._files[place] = self._opened.enter_context(path.open("w+b"))
        # A record without a key belongs to no stream; on an embedded bus every record has one.
        pickle.dump((delivery.topic, delivery.key or "", delivery.body, delivery.signature), file)

    def read(self) -> list[Iterator[Record]]:
        return [_records(file) for _, file in sorted(self._files.items())]


def _records(file: IO[bytes]) -> Iterator[Record]:
    end = file.tell()
    file.seek(0)
    while file.tell() < end:
        yield Record(*pickle.load(file))
