"""The event store: a service's own events, appended in the transaction of the tables that they change.

One connection belongs to the writer. Readers open their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Connection, Engine

from schemas.envelope import FIRST_PREVIOUS, Recorded
from services.runtime import bulk
from services.runtime.tables import EventRow, OutboxRow, StreamRow, table_of

_EVENT: Final = table_of(EventRow)
_STREAM: Final = table_of(StreamRow)
_OUTBOX: Final = table_of(OutboxRow)

_LAST_POSITION: Final = sa.select(sa.func.max(_EVENT.c.position))
_TAKE: Final = sa.select(_OUTBOX).with_for_update()
_COUNT: Final = (
    sa.update(_OUTBOX).where(_OUTBOX.c.commits == sa.bindparam("mine")).values(commits=_OUTBOX.c.commits + 1)
)
_UNPUBLISHED: Final = (
    sa.select(_EVENT.c.position, _EVENT.c.body, _EVENT.c.signature, _STREAM.c.name)
    .join(_STREAM, _STREAM.c.id == _EVENT.c.stream_id)
    .where(_EVENT.c.position > sa.bindparam("after"))
    .order_by(_EVENT.c.position)
    .limit(sa.bindparam("most"))
)


_SECOND: Final = "another writer has written to this store"


class SecondWriter(Exception):
    """Somebody else writes to this store. This writer must stop: only one may be."""


@dataclass(slots=True)
class Head:
    """The end of a stream: its database id, last sequence and last hash."""

    id: int
    sequence: int
    hash: str


@dataclass(frozen=True, slots=True)
class Stored:
    """An event's bytes with their place in the store."""

    position: int
    stream: str
    body: bytes
    signature: bytes | None = None


class EventStore:
    """The events of one service, over the writer's connection.

    Writers are told apart by how many commits they know of (``outbox.commits``). Each transaction begins by
    counting itself: it changes that one row, if the count is still what this writer left. On SQLite the
    transaction has the whole file to itself from its beginning. On PostgreSQL it has that row: any other
    writer's transaction waits for this one to end, and then finds another count and changes nothing. That is
    why *read committed* is enough there: nobody else can commit between two statements of a transaction, and
    each statement sees all that was committed before it. It also settles what a lost connection leaves open:
    who comes after it waits until the server has committed or undone what was under way.
    """

    def __init__(self, engine: Engine) -> None:
        self._connection = engine.connect()
        self._heads: dict[str, Head] = {}
        self._opening = True
        try:
            with self._connection.begin():
                row = self._connection.execute(_TAKE).one()
                self._outbox: int = row.id
                self._commits: int = row.commits
                self.published: int = row.published
                """Position up to which the bus has acknowledged, as the store knows it."""
                self.position: int = self._connection.scalar(_LAST_POSITION) or 0
                """Position of the last committed event."""
                for each in self._connection.execute(sa.select(_STREAM)):
                    self._heads[each.name] = Head(each.id, each.sequence, each.hash)
        except BaseException:
            self._connection.close()
            raise

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """All or nothing. Leaving without an exception commits; there is no other commit.

        Raises:
            SecondWriter: the store is not as this writer left it, so what it knows of it is no longer true.
        """
        try:
            with self._connection.begin():
                if self._opening:
                    yield from self._opened()
                else:
                    self._count()
                    with bulk.together(self._connection):
                        yield self._connection
        except BaseException:
            # A commit that failed may have left its transaction open, and the database locked for others.
            self._connection.invalidate()
            raise
        self._opening = False

    def _opened(self) -> Iterator[Connection]:
        """A writer's first transaction, in which it loads its state.

        It waits and checks like any other, and counts only if it writes: to look at a store stops nobody.
        """
        if self._connection.execute(_TAKE).one().commits != self._commits:
            raise SecondWriter(_SECOND)
        before = self.position, self.published
        yield self._connection
        if (self.position, self.published) != before:
            self._count()

    def _count(self) -> None:
        if not self._connection.execute(_COUNT, {"mine": self._commits}).rowcount:
            raise SecondWriter(_SECOND)
        self._commits += 1

    def head(self, stream: str) -> tuple[int, str]:
        """Sequence and hash of the stream's last event; 0 and the first ``previous`` where it has none."""
        head = self._heads.get(stream)
        return (0, FIRST_PREVIOUS) if head is None else (head.sequence, head.hash)

    def ends(self) -> list[tuple[str, int]]:
        """Every stream with its last sequence."""
        return [(stream, head.sequence) for stream, head in self._heads.items()]

    def append(self, db: Connection, events: Sequence[Recorded[Any]]) -> list[Stored]:
        """Write events, each following its stream's head, inside the caller's transaction."""
        if not events:
            return []
        rows: list[dict[str, Any]] = []
        stored: list[Stored] = []
        moved: dict[str, Head] = {}
        for event in events:
            head = moved.get(event.stream) or self._open_head(db, event.stream)
            assert event.sequence == head.sequence + 1, "events are appended without gaps"
            moved[event.stream] = Head(head.id, event.sequence, event.hash)
            position = self.position + len(rows) + 1
            rows.append(
                {
                    "position": position,
                    "stream_id": head.id,
                    "sequence": event.sequence,
                    "body": event.body,
                    "signature": None,
                }
            )
            stored.append(Stored(position, event.stream, event.body))
        bulk.insert(db, _EVENT, rows)
        bulk.update(
            db,
            _STREAM,
            [{"id": head.id, "sequence": head.sequence, "hash": head.hash} for head in moved.values()],
        )
        self._heads.update(moved)
        self.position += len(rows)
        return stored

    def mark_published(self, db: Connection, position: int) -> None:
        """Remember that the bus has acknowledged everything up to this position."""
        bulk.update(db, _OUTBOX, [{"id": self._outbox, "published": position}])
        self.published = position

    def unpublished(self, after: int, most: int) -> list[Stored]:
        """Committed events behind a position, in order."""
        with self._connection.begin():
            rows = self._connection.execute(_UNPUBLISHED, {"after": after, "most": most})
            return [Stored(row.position, row.name, row.body, row.signature) for row in rows]

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()

    def _open_head(self, db: Connection, stream: str) -> Head:
        head = self._heads.get(stream)
        if head is None:
            bulk.flush(db)
            key = db.execute(
                sa.insert(_STREAM).values(name=stream, sequence=0, hash=FIRST_PREVIOUS)
            ).inserted_primary_key
            assert key is not None
            head = Head(int(key[0]), 0, FIRST_PREVIOUS)
        return head


@dataclass(frozen=True, slots=True)
class StreamHead:
    """What a store recorded as the end of a stream."""

    stream: str
    sequence: int
    hash: str


def read_heads(db: Connection) -> list[StreamHead]:
    """The recorded heads of all streams of a store, by name."""
    rows = db.execute(sa.select(_STREAM).order_by(_STREAM.c.name))
    return [StreamHead(row.name, row.sequence, row.hash) for row in rows]


def is_all_published(db: Connection) -> bool:
    """Whether the store knows that the bus has everything: not where a service is at work, or was cut off."""
    published = db.scalar(sa.select(_OUTBOX.c.published)) or 0
    return published >= (db.scalar(_LAST_POSITION) or 0)


def read_stream(db: Connection, stream: str, first: int = 1) -> Iterator[tuple[int, bytes]]:
    """Sequence and bytes of a stream's stored events from ``first`` on, in order, as they lie there."""
    stream_id = db.scalar(sa.select(_STREAM.c.id).where(_STREAM.c.name == stream))
    query = (
        sa.select(_EVENT.c.sequence, _EVENT.c.body)
        .where(_EVENT.c.stream_id == stream_id, _EVENT.c.sequence >= first)
        .order_by(_EVENT.c.sequence)
        .execution_options(yield_per=500)
    )
    with db.execute(query) as rows:  # who stops in the middle leaves no cursor open
        for sequence, body in rows:
            yield sequence, body if isinstance(body, bytes) else str(body).encode("utf-8", "surrogatepass")


def read_all(db: Connection, after: int = 0) -> Iterator[Stored]:
    """All stored events in the order in which they were committed."""
    query = (
        sa.select(_EVENT.c.position, _EVENT.c.body, _EVENT.c.signature, _STREAM.c.name)
        .join(_STREAM, _STREAM.c.id == _EVENT.c.stream_id)
        .where(_EVENT.c.position > after)
        .order_by(_EVENT.c.position)
        .execution_options(yield_per=500)
    )
    for row in db.execute(query):
        yield Stored(row.position, row.name, row.body, row.signature)
