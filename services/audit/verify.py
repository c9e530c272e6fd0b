"""Verification of a whole installation, from the event streams alone.

Two passes. The first holds the three places of every stream against each other (the producer's store, the
bus, audit's own record) and says where one of them is not what it was. The second replays all streams
through the verifier: every draw, total, outcome, payout, commission and posting is worked out again. Where
the bus was changed, the second pass reads the producer's copy, so that one flipped byte is one finding. Over
Kafka's topics alone there is one place, and its hash chains.

Nothing is written, and memory does not grow with the number of coups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from heapq import merge
from itertools import chain
from operator import attrgetter
from typing import Any, Final, TypeVar

from sqlalchemy import Connection

from schemas.envelope import DecodeError, Recorded, UnknownType, decode, hash_of
from schemas.events.audit import CoupVerified, DiscrepancyFound
from schemas.events.base import Payload, audit_stream, operator_of
from services.audit import store
from services.audit.core.bytework import links_of, place_records
from services.audit.core.facts import Listener
from services.audit.core.integrity import BUS, Difference, Head, compare
from services.audit.core.state import CoupKey
from services.audit.core.verifier import Verifier, corrected_by
from services.audit.damage import Damaged, numbered, read, reading
from services.audit.places import Places, open_places
from services.audit.service import MET_ON_THE_BUS
from services.audit.verdicts import Verdicts
from services.audit.verification import Tally, Verification, fault
from services.runtime.files import SERVICES
from services.runtime.installation import Installation
from services.runtime.ports import Delivery
from services.runtime.store import StreamHead, read_heads, read_stream
from services.runtime.topics import key_of, topic_of

FINDINGS_KEPT: Final = 1_000
"""So many findings are kept in full; all are counted."""

_CORRECTS: Final = b'"corrects":{'
"""What stands in an event that corrects a result, and in few others."""

T = TypeVar("T")


Progress = Callable[[int, int], None]
"""Told how many events of how many were read. Every event is read twice."""


def verify(
    where: Installation,
    listener: Listener | None = None,
    progress: Progress | None = None,
    copied: Callable[[int], None] | None = None,
) -> Verification:
    """Verify everything. ``listener`` is told of every coup, shoe and house as it is judged.

    Where only Kafka is named, the topics alone are replayed. ``copied`` is told how many of their records
    were read, before ``progress`` hears of the events.

    Raises:
        NothingToVerify: the installation is not there, or lacks a part.
        BusUnavailable, DatabaseUnavailable: it cannot be reached.
    """
    with open_places(where, copied) as places:
        return _Run(places, listener, progress or (lambda done, total: None)).run()


class _Run:
    def __init__(self, places: Places, listener: Listener | None, progress: Progress) -> None:
        self._bus, self._stores, self._at_work = places.bus, places.stores, places.at_work
        self._names, self._bus_name = places.names, places.bus_name
        self._progress = progress
        self.result = Verification()
        self._corrected: set[CoupKey] = set()
        """Coups whose results game corrected, which the first pass comes to know."""
        self._verifier = Verifier(Tally(self.result, listener), corrected=self._corrected.__contains__)
        self._heads: dict[str, StreamHead] = {}
        self._streams: list[str] = []
        self._not_as_written: set[str] = set()
        """Hashes of what the bus has instead of what was written, or beside it."""
        self._passed: dict[str, int] = {}
        """The last sequence of each stream that the verifier has seen."""
        self._found: set[tuple[str, str, int, str]] = set()
        """Every finding in brief, so that audit's own, when the replay comes to it, is not counted again."""
        self._verdicts = Verdicts()
        self._unreadable: set[str] = set()
        """Names of damaged files."""
        self._done = self._observed = 0

    def run(self) -> Verification:
        result = self.result
        for producer, db in self._stores.items():
            for head in self._all_of(self._names[producer], partial(_checked_heads, db)):
                self._heads[str(head.stream)] = head
        self._streams = streams = self._all_streams()
        result.streams = len(streams)
        result.events = (
            sum(head.sequence for head in self._heads.values()) if self._stores else self._bus.count()
        )
        for stream in streams:
            self._compare(stream)
        self._replay()
        if not self._stores:
            result.events = self._observed  # so far the records counted, of which some may be there twice
        for stream in streams:
            if stream.startswith("wallet/"):
                for line, amount in self._verifier.trial_balance(stream).items():
                    result.trial_balance[line] = result.trial_balance.get(line, 0) + amount
        return result

    # The first pass: three places.

    def _all_streams(self) -> list[str]:
        streams = set(self._heads)
        if self._stores:
            recorded = partial(store.evidence_streams, self._stores["audit"])
            streams.update(map(str, self._all_of(self._names["audit"], recorded)))
        for producer in SERVICES:
            for key in self._all_of(self._bus_name, partial(self._bus.keys, f"{producer}.events")):
                streams.add(key if producer == "game" else f"{producer}/{key}")
        return sorted(streams)

    def _compare(self, stream: str) -> None:
        producer = stream.split("/", 1)[0]
        if producer not in SERVICES:
            self._find(fault(stream, "stream", f"{stream} is no stream of game, wallet or audit"))
            return
        if self._names.get(producer) in self._unreadable:
            return
        head = self._heads.get(stream)
        try:
            differences = compare(
                stream,
                store=self._stored(producer, stream),
                bus=self._published(stream),
                record=self._evidence(stream),
                store_head=None if head is None else Head(head.sequence, head.hash),
                known=partial(self._recorded_hash, stream),
            )
            for difference in differences:
                self._differs(difference)
        except Damaged as damage:
            self._damaged(damage)

    def _stored(self, producer: str, stream: str) -> Iterator[tuple[int, bytes]] | None:
        if not self._stores:
            return None
        events = numbered(self._names[producer], read_stream(self._stores[producer], stream))
        return self._counted(self._looked_at(stream, events))

    def _published(self, stream: str) -> Iterator[tuple[int, bytes]] | None:
        if self._bus_name in self._unreadable:
            return None
        records = read(self._bus_name, self._bus.read(topic_of(stream), key_of(stream)))
        placed = self._looked_at(stream, place_records(stream, (each.body for each in records)))
        return placed if self._stores else self._counted(placed)

    def _looked_at(self, stream: str, events: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """The same events; corrections among them are remembered, for the second pass."""
        return map(self._look, events) if stream.startswith("game/") else events

    def _look(self, event: tuple[int, bytes]) -> tuple[int, bytes]:
        if _CORRECTS in event[1]:
            with suppress(DecodeError):
                if (key := corrected_by(decode(event[1]).data)) is not None:
                    self._corrected.add(key)
        return event

    def _evidence(self, stream: str) -> Iterator[tuple[int, str]] | None:
        if not self._has_record:
            return None
        return numbered(self._names["audit"], store.read_evidence(self._stores["audit"], stream))

    @property
    def _has_record(self) -> bool:
        return bool(self._stores) and self._names["audit"] not in self._unreadable

    def _recorded_hash(self, stream: str, sequence: int) -> str | None:
        if not self._has_record:
            return None
        with reading(self._names["audit"]):
            return store.evidence_of(self._stores["audit"], stream, sequence)

    def _differs(self, difference: Difference) -> None:
        if difference.harmless:
            return
        if difference.place == BUS and difference.recorded:
            self._not_as_written.add(difference.recorded)
        finding = difference.finding(operator_of(difference.stream))
        if self._at_work and self._may_be_on_its_way(difference):
            if len(self.result.notices) < FINDINGS_KEPT:
                self.result.notices.append(finding)
        else:
            self._find(finding)

    def _may_be_on_its_way(self, difference: Difference) -> bool:
        """Whether it is missing from the end of a place, or ahead of the moment at which audit was read."""
        head = self._heads.get(difference.stream)
        ahead = difference.kind == "extra" and head is not None and difference.sequence > head.sequence
        return difference.tail or (ahead and difference.stream.startswith("audit/"))

    # The second pass: what the events say.

    def _replay(self) -> None:
        try:
            for delivery in read(self._bus_name, self._in_order()):
                self._take(delivery)
        except Damaged as damage:
            self._damaged(damage)
        for stream, head in sorted(self._heads.items()):
            self._fill(stream, head.sequence + 1)
        for payload in chain(self._verifier.finish(), self._verdicts.left()):
            self._said(payload)

    def _in_order(self) -> Iterator[Delivery]:
        topics = (self._bus.read(f"{producer}.events") for producer in SERVICES)
        return merge(*topics, key=attrgetter("offset"))

    def _take(self, delivery: Delivery) -> None:
        """Observe the next event of its stream; whatever else is there, the first pass has named."""
        links = links_of(delivery.body)
        if links is None or (topic_of(links.stream), key_of(links.stream)) != (delivery.topic, delivery.key):
            return
        stream, sequence, _ = links
        due = self._passed.get(stream, 0) + 1
        if self._not_as_written and hash_of(delivery.body) in self._not_as_written:
            return
        if sequence > due:
            self._fill(stream, sequence)
        if self._passed.get(stream, 0) < sequence:
            self._observe(stream, sequence, delivery.body)

    def _fill(self, stream: str, before: int) -> None:
        """Read from the producer's store what the bus does not have, up to a sequence."""
        due = self._passed.get(stream, 0) + 1
        name = stream.split("/", 1)[0]
        if due >= before or name not in self._stores or self._names[name] in self._unreadable:
            return
        try:
            events = read_stream(self._stores[name], stream, due)
            for sequence, body in numbered(self._names[name], events):
                if sequence >= before:
                    break
                self._observe(stream, sequence, body)
        except Damaged as damage:
            self._damaged(damage)

    def _observe(self, stream: str, sequence: int, body: bytes) -> None:
        self._passed[stream] = sequence
        self._observed += 1
        self._tick()
        payloads: Iterable[Payload]
        try:
            event = decode(body)
        except UnknownType as unknown:
            payloads = self._verifier.observe_unknown(unknown.envelope, unknown.hash)
        except DecodeError as reason:
            self._find(fault(stream, "unreadable", f"event {sequence} of {stream}: {reason}", sequence))
            return
        else:
            payloads = chain(self._verifier.observe(event), self._recorded(event))
        for payload in payloads:
            self._said(payload)

    def _recorded(self, event: Recorded[Any]) -> Iterator[Payload]:
        """What audit said while it ran: a finding, unless this replay comes to it by itself; a verdict."""
        if isinstance(event.data, DiscrepancyFound):
            if event.data.check.startswith(MET_ON_THE_BUS):
                if len(self.result.notices) < FINDINGS_KEPT:
                    self.result.notices.append(event.data)
            elif not self._known(event.data):
                yield event.data
        elif isinstance(event.data, CoupVerified):
            yield from self._verdicts.read(event)
        if event.stream.startswith("audit/") and not self._goes_on(event.stream):
            self._verdicts.forget(operator_of(event.stream))

    def _goes_on(self, stream: str) -> bool:
        """Whether more of a stream is to come; where nobody tells its end, any place that has it counts."""
        head = self._heads.get(stream)
        return stream in self._streams if head is None else self._passed.get(stream, 0) < head.sequence

    def _known(self, finding: DiscrepancyFound) -> bool:
        return (finding.check, finding.stream, finding.sequence, finding.words) in self._found

    def _said(self, payload: Payload) -> None:
        if isinstance(payload, DiscrepancyFound):
            self._find(payload)
        else:
            assert isinstance(payload, CoupVerified), "the verifier says nothing else"
            more = self._goes_on(audit_stream(payload.operator))
            for finding in self._verdicts.come_to(payload, more=more):
                self._find(finding)

    # Helpers.

    def _find(self, finding: DiscrepancyFound) -> None:
        self._found.add((finding.check, finding.stream, finding.sequence, finding.words))
        self.result.findings_count += 1
        if len(self.result.findings) < FINDINGS_KEPT:
            self.result.findings.append(finding)

    def _damaged(self, damage: Damaged) -> None:
        """One finding a file, however often it cannot be read."""
        if damage.file not in self._unreadable:
            self._unreadable.add(damage.file)
            self._find(fault(damage.file, "database", str(damage)))

    def _all_of(self, file: str, read: Callable[[], Iterable[T]]) -> list[T]:
        """Everything that is asked for; nothing where the file is damaged, which is then found."""
        if file in self._unreadable:
            return []
        try:
            with reading(file):
                return list(read())
        except Damaged as damage:
            self._damaged(damage)
            return []

    def _counted(self, events: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        for event in events:
            self._tick()
            yield event

    def _tick(self) -> None:
        self._done += 1
        if self._done % 500 == 0:
            self._progress(self._done, 2 * self.result.events)


def _checked_heads(db: Connection) -> list[StreamHead]:
    heads = read_heads(db)
    for head in heads:
        if type(head.sequence) is not int or head.sequence < 0:
            raise ValueError(f"stream {head.stream} has {head.sequence!r:.40} for its last sequence")
    return heads
