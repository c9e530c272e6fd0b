"""The inbox is a number: the last sequence applied of each incoming stream.

A smaller one is a duplicate and is skipped. A gap, a break in the hash chain, or an event that this
program is too old for *holds* that stream, and only that one, until the right next event arrives, which
only the producer's original bytes can be. What is not ours, or cannot be read, goes to the dead letters
and never counts as a place in a stream.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Connection

from schemas.envelope import (
    FIRST_PREVIOUS,
    Attributes,
    NewerVersion,
    NotOurs,
    Recorded,
    UnknownType,
    attributes_of,
    decode,
    hash_of,
)
from schemas.events import EVENTS
from schemas.events.base import Payload
from services.runtime import bulk
from services.runtime.ports import Delivery
from services.runtime.tables import ConsumerOffsetRow, DeadLetterRow, InboxRow, storable, table_of
from services.runtime.topics import topic_of

_INBOX: Final = table_of(InboxRow)
_OFFSET: Final = table_of(ConsumerOffsetRow)
_DEAD: Final = table_of(DeadLetterRow)

_STREAM_NAME: Final = re.compile(r"[^\x00-\x1f\x7f]{0,200}")
"""What a stream may be called: not every database takes a longer key, or one with a NUL in it."""


class Verdict(StrEnum):
    """What became of a delivery."""

    APPLIED = "applied"
    PASSED = "passed"
    """Of no concern to this service: it keeps its place."""
    SKIPPED = "skipped"
    """Of a type that this program does not know: it keeps its place."""
    DUPLICATE = "duplicate"
    OTHER_BYTES = "other_bytes"
    """The place of the last applied event, with other bytes: evidence that something was changed."""
    GAP = "gap"
    CHAIN_BREAK = "chain_break"
    NEWER = "newer"
    NOT_OURS = "not_ours"
    FAILED = "failed"
    """In its place, and our own rules cannot follow it: its stream is held."""


@dataclass(frozen=True, slots=True)
class Irregularity:
    """Something on the bus that should not be. A stream that waits is told of once, not for every record."""

    verdict: Verdict
    topic: str
    partition: int
    offset: int
    stream: str | None
    sequence: int | None
    words: str


@dataclass(slots=True)
class _Place:
    sequence: int = 0
    hash: str = FIRST_PREVIOUS
    held_at: tuple[str, int, int] | None = None
    held_reason: str | None = None
    seen: int = 0
    """The furthest event that came and could not be applied yet. Known to this process only: after a restart
    the records are read again from ``held_at`` on."""


class Inbox:
    """What was applied of every incoming stream. In memory; ``save`` writes it with the effects."""

    def __init__(self, db: Connection, reads: Collection[type[Payload]] | None = None) -> None:
        """``reads``: the events that are of concern here; the data of others are not looked at."""
        self._passed_over = (
            frozenset(EVENTS).difference(each.type_name() for each in reads) if reads is not None else None
        )
        self._places: dict[str, _Place] = {}
        self._offsets: dict[tuple[str, int], int] = {}
        self._touched: set[str] = set()
        self._moved: set[tuple[str, int]] = set()
        self._dead: list[dict[str, Any]] = []
        self._irregular: list[Irregularity] = []
        self.unsaved_offsets = 0
        """Deliveries since the offsets were last written."""
        for row in db.execute(sa.select(_INBOX)):
            held = None if row.held_reason is None else (row.held_topic, row.held_partition, row.held_offset)
            self._places[row.stream] = _Place(row.sequence, row.hash, held, row.held_reason)
        for row in db.execute(sa.select(_OFFSET)):
            self._offsets[row.topic, row.partition] = row.next
        start = self.start
        self._buried = {
            (row.topic, row.partition, row.offset)
            for row in db.execute(sa.select(_DEAD.c.topic, _DEAD.c.partition, _DEAD.c.offset))
            if row.offset >= start.get((row.topic, row.partition), 0)
        }
        """Dead letters that will be read again."""

    @property
    def start(self) -> dict[tuple[str, int], int]:
        """Where to start reading: behind what was seen, but not behind a held stream's place."""
        start = dict(self._offsets)
        for place in self._places.values():
            if place.held_at is not None:
                topic, partition, offset = place.held_at
                start[topic, partition] = min(offset, start.get((topic, partition), offset))
        return start

    @property
    def held(self) -> dict[str, str]:
        """Streams that wait for an event, and why."""
        return {stream: place.held_reason for stream, place in self._places.items() if place.held_reason}

    def reached(self, stream: str) -> int:
        """The last sequence applied of a stream."""
        place = self._places.get(stream)
        return 0 if place is None else place.sequence

    def admit(self, delivery: Delivery, received_at: str) -> tuple[Verdict, Recorded[Any] | None]:
        """What this delivery is; with the event, where it is the next of its stream and must be applied."""
        partition = (delivery.topic, delivery.partition)
        self._offsets[partition] = delivery.offset + 1
        self._moved.add(partition)
        self.unsaved_offsets += 1
        if self._passed_over:
            passing = attributes_of(delivery.body)
            if (
                passing is not None
                and passing.type in self._passed_over
                and topic_of(passing.stream) == delivery.topic
                and _STREAM_NAME.fullmatch(passing.stream)
            ):
                return self._pass(delivery, passing), None
        event, newer = None, None
        try:
            event = decode(delivery.body)
            envelope, hash_ = event.envelope, event.hash
        except UnknownType as unknown:
            envelope, hash_ = unknown.envelope, unknown.hash
        except NewerVersion as error:
            envelope, hash_, newer = error.envelope, hash_of(delivery.body), str(error)
        except NotOurs as stranger:
            return self._bury(delivery, str(stranger), received_at)
        stream, sequence = envelope.stream, envelope.sequence
        if not _STREAM_NAME.fullmatch(stream):
            return self._bury(delivery, f"{stream[:200]!r} is no name of a stream", received_at)
        if topic_of(stream) != delivery.topic:
            reason = f"an event of stream {stream} has no place on {delivery.topic}"
            return self._bury(delivery, reason, received_at)
        if newer is not None and sequence == self._last(stream).sequence + 1:
            return self._hold(delivery, stream, sequence, Verdict.NEWER, newer), None
        verdict = self._place(delivery, stream, sequence, envelope.previous, hash_)
        if verdict is Verdict.APPLIED and event is None:
            return Verdict.SKIPPED, None
        return verdict, event if verdict is Verdict.APPLIED else None

    def _pass(self, delivery: Delivery, event: Attributes) -> Verdict:
        """An event of ours that is of no concern here takes its place in its stream."""
        verdict = self._place(delivery, event.stream, event.sequence, event.previous, hash_of(delivery.body))
        return Verdict.PASSED if verdict is Verdict.APPLIED else verdict

    def hold(self, delivery: Delivery, event: Recorded[Any], reason: str) -> None:
        """Take back that an event was applied: it cannot be, and its stream waits at its place."""
        place = self._last(event.stream)
        place.sequence, place.hash = event.sequence - 1, event.envelope.previous
        self._hold(delivery, event.stream, event.sequence, Verdict.FAILED, reason)

    def take_irregularities(self) -> list[Irregularity]:
        """What came to light since the last time this was asked."""
        found, self._irregular = self._irregular, []
        return found

    def save(self, db: Connection) -> None:
        """Write what changed, in the transaction of the effects."""
        if self._touched:
            rows = []
            for stream in sorted(self._touched):
                place = self._places[stream]
                topic, partition, offset = place.held_at or (None, None, None)
                rows.append(
                    {
                        "stream": stream,
                        "sequence": place.sequence,
                        "hash": place.hash,
                        "held_topic": topic,
                        "held_partition": partition,
                        "held_offset": offset,
                        "held_reason": place.held_reason and storable(place.held_reason),
                    }
                )
            bulk.upsert(db, _INBOX, rows)
            self._touched.clear()
        if self._dead:
            bulk.insert_new(db, _DEAD, self._dead)
            self._dead.clear()

    def save_offsets(self, db: Connection) -> None:
        """Write where to start reading. Only a hint: may be left out of a transaction."""
        if self._moved:
            bulk.upsert(
                db,
                _OFFSET,
                [{"topic": t, "partition": p, "next": self._offsets[t, p]} for t, p in sorted(self._moved)],
            )
            self._moved.clear()
        self.unsaved_offsets = 0

    def _last(self, stream: str) -> _Place:
        return self._places.setdefault(stream, _Place())

    def _place(self, delivery: Delivery, stream: str, sequence: int, previous: str, hash_: str) -> Verdict:
        place = self._last(stream)
        if sequence <= place.sequence:
            if sequence != place.sequence or hash_ == place.hash:
                return Verdict.DUPLICATE
            words = f"event {sequence} of {stream} came again with other bytes"
            return self._say(delivery, stream, sequence, Verdict.OTHER_BYTES, words)
        if sequence > place.sequence + 1:
            return self._hold(
                delivery, stream, sequence, Verdict.GAP, _missing(place.sequence + 1, sequence - 1)
            )
        if previous != place.hash:
            reason = f"event {sequence} does not follow the bytes of event {place.sequence}"
            return self._hold(delivery, stream, sequence, Verdict.CHAIN_BREAK, reason)
        place.sequence, place.hash = sequence, hash_
        if sequence >= place.seen:
            place.held_at, place.held_reason = None, None
        else:
            # Those that came too early were not kept: they must come again, or the stream is not whole.
            place.held_reason = _missing(sequence + 1, place.seen)
        self._touched.add(stream)
        return Verdict.APPLIED

    def _hold(self, delivery: Delivery, stream: str, sequence: int, verdict: Verdict, reason: str) -> Verdict:
        place, at = self._last(stream), (delivery.topic, delivery.partition, delivery.offset)
        place.seen = max(place.seen, sequence)
        # Reading must begin again at the first record that is still needed, not at the latest.
        if place.held_reason is None:
            self._say(delivery, stream, sequence, verdict, f"{stream} waits: {reason}")
        if place.held_at is None or (at[:2] == place.held_at[:2] and at[2] < place.held_at[2]):
            place.held_at, place.held_reason = at, reason
        self._touched.add(stream)
        return verdict

    def _say(
        self, delivery: Delivery, stream: str | None, sequence: int | None, verdict: Verdict, words: str
    ) -> Verdict:
        place = (delivery.topic, delivery.partition, delivery.offset)
        self._irregular.append(Irregularity(verdict, *place, stream, sequence, storable(words)))
        return verdict

    def _bury(self, delivery: Delivery, reason: str, received_at: str) -> tuple[Verdict, None]:
        if (delivery.topic, delivery.partition, delivery.offset) in self._buried:
            return Verdict.NOT_OURS, None
        self._dead.append(
            {
                "topic": delivery.topic,
                "partition": delivery.partition,
                "offset": delivery.offset,
                "reason": storable(reason),
                "body": delivery.body,
                "received_at": received_at,
            }
        )
        words = f"record {delivery.offset} of {delivery.topic} is not ours: {reason}"
        return self._say(delivery, None, None, Verdict.NOT_OURS, words), None


def _missing(first: int, last: int) -> str:
    return f"event {first} is missing" if first == last else f"events {first} to {last} are missing"
