"""A durable log in one SQLite file: the bus of a single machine.

A topic has one partition. Offsets rise through the whole file, so a topic's offsets have gaps, as
Kafka's may. Several processes can share the file. A publish is one transaction with
``synchronous=FULL``: when it returns, the records survive a power cut.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from services.runtime.ports import BusUnavailable, Delivery, Offsets, Record
from services.runtime.sqlite import BUSY_SECONDS, address_to_inspect, configure

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS topic (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);
CREATE TABLE IF NOT EXISTS record (
    "offset" INTEGER PRIMARY KEY,
    topic_id INTEGER NOT NULL REFERENCES topic (id),
    "key" TEXT NOT NULL,
    body BLOB NOT NULL,
    signature BLOB
);
"""
_SELECT: Final = 'SELECT "offset", topic_id, "key", body, signature FROM record WHERE "offset" > ?'
_KEY_PLACES: Final = """
CREATE TEMP TABLE IF NOT EXISTS key_place (
    topic_id INTEGER, "key" TEXT, "offset" INTEGER, PRIMARY KEY (topic_id, "key", "offset")
) WITHOUT ROWID;
"""
_NOTE_KEYS: Final = """
INSERT INTO key_place
SELECT topic_id, "key", "offset" FROM record WHERE "offset" > ? AND "offset" <= ?
"""
_SELECT_OF_KEY: Final = """
SELECT record."offset", record.topic_id, record."key", body, signature
FROM key_place JOIN record ON record."offset" = key_place."offset"
WHERE key_place."offset" > ? AND key_place."offset" <= ? AND key_place.topic_id = ? AND key_place."key" = ?
ORDER BY 1 LIMIT ?
"""
_READ_PAGE: Final = 1_000


class EmbeddedBus:
    """The log in ``path``, made if it is not there. ``read_only`` never writes, not even the schema."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._path, self._read_only = path, read_only
        self._connection = self._connect()
        self._publishing = threading.Lock()
        """Threads may share a bus; a transaction belongs to one of them."""
        self._topics: dict[str, int] = {}
        self._keys_noted = 0
        """Offset up to which it is known which records have which key."""
        if not read_only:
            self._connection.executescript(_SCHEMA)

    def _connect(self) -> sqlite3.Connection:
        target = address_to_inspect(self._path) if self._read_only else str(self._path)
        connection = sqlite3.connect(
            target, uri=self._read_only, isolation_level=None, timeout=BUSY_SECONDS, check_same_thread=False
        )
        if not self._read_only:
            configure(connection)
        return connection

    def publish(self, records: Sequence[Record]) -> None:
        if not records:
            return
        try:
            with self._publishing:
                self._append(records)
        except sqlite3.Error as error:
            words = f"the embedded bus {self._path.name} does not take records: {error}"
            raise BusUnavailable(words) from error

    def _append(self, records: Sequence[Record]) -> None:
        rows = [(self._topic_id(each.topic), each.key, each.body, each.signature) for each in records]
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._connection.executemany(
                'INSERT INTO record (topic_id, "key", body, signature) VALUES (?, ?, ?, ?)', rows
            )
            self._connection.execute("COMMIT")
        except BaseException:
            # Some faults, such as a full disk, have ended the transaction already.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def begin(self, records: Sequence[Record]) -> Published:
        self.publish(records)  # it takes one disk's time, less than it would to come back for the answer
        return Published()

    def subscribe(
        self,
        group: str,
        topics: Sequence[str],
        start: Offsets,
        arrived: Callable[[], None] | None = None,
        *,
        at_once: bool = True,
    ) -> EmbeddedSubscription:
        # A consumer's positions live in its own store; and who reads a file has to look for what is new.
        del group, arrived, at_once
        with self._publishing:
            wanted = {self._topic_id(topic): (topic, start.get((topic, 0), 0)) for topic in topics}
        return EmbeddedSubscription(self._connect(), wanted)

    def read(self, topic: str, key: str | None = None) -> Iterator[Delivery]:
        known = self._known_topic(topic)
        after = -1
        if known is None:
            return
        # What comes while this is read is not of this moment; it could keep a reader here for ever.
        newest = self._newest()
        query = f'{_SELECT} AND "offset" <= ? AND topic_id = ? ORDER BY 1 LIMIT ?'
        wanted: tuple[int | str, ...] = (newest, known)
        if key is not None:
            self._index_keys()
            query, wanted = _SELECT_OF_KEY, (newest, known, key)
        while True:
            page = self._connection.execute(query, (after, *wanted, _READ_PAGE)).fetchall()
            if not page:
                return
            for offset, _, its_key, body, signature in page:
                yield Delivery(topic, 0, offset, its_key, bytes_of(body), signature)
            after = page[-1][0]

    def keys(self, topic: str) -> Sequence[str]:
        self._index_keys()
        rows = self._connection.execute(
            'SELECT DISTINCT "key" FROM key_place WHERE topic_id = ? ORDER BY 1', (self._known_topic(topic),)
        )
        return [str(key) for (key,) in rows]

    def _index_keys(self) -> None:
        """Note where each key's records are: aside, since an index in the log would slow every publish."""
        self._connection.execute(_KEY_PLACES)
        newest = self._newest()
        self._connection.execute(_NOTE_KEYS, (self._keys_noted, newest))
        self._keys_noted = newest

    def _newest(self) -> int:
        (newest,) = self._connection.execute('SELECT coalesce(max("offset"), 0) FROM record').fetchone()
        return int(newest)

    def count(self) -> int:
        """How many records the log has."""
        (records,) = self._connection.execute("SELECT count(*) FROM record").fetchone()
        return int(records)

    def hold_still(self) -> None:
        """From here on see the log as it is at this moment. For readers only."""
        self._connection.execute("BEGIN")
        self._connection.execute("SELECT count(*) FROM topic")

    def close(self) -> None:
        self._connection.close()

    def _known_topic(self, name: str) -> int | None:
        row = self._connection.execute("SELECT id FROM topic WHERE name = ?", (name,)).fetchone()
        return None if row is None else int(row[0])

    def _topic_id(self, name: str) -> int:
        if name not in self._topics:
            known = self._known_topic(name)  # who only reads must not have to wait for whoever writes
            if known is None:
                self._connection.execute("INSERT OR IGNORE INTO topic (name) VALUES (?)", (name,))
                known = self._known_topic(name)
            assert known is not None, "a topic that was just inserted is there"
            self._topics[name] = known
        return self._topics[name]


class Published:
    """Records that are durable."""

    def done(self) -> bool:
        return True


class EmbeddedSubscription:
    """Reads on from each topic's offset, over a connection of its own."""

    waiting = 0
    """Nothing is read ahead."""

    def __init__(self, connection: sqlite3.Connection, topics: dict[int, tuple[str, int]]) -> None:
        self._connection = connection
        self._topics = {topic_id: name for topic_id, (name, _) in topics.items()}
        self._after = min((first for _, first in topics.values()), default=0) - 1
        wanted = " OR ".join(['(topic_id = ? AND "offset" >= ?)'] * len(topics)) or "FALSE"
        self._query = f"{_SELECT} AND ({wanted}) ORDER BY 1 LIMIT ?"
        self._wanted = [number for topic_id, (_, first) in topics.items() for number in (topic_id, first)]

    def poll(self, records_max: int) -> Sequence[Delivery]:
        try:
            page = self._connection.execute(self._query, (self._after, *self._wanted, records_max)).fetchall()
        except sqlite3.Error as error:
            raise BusUnavailable(f"the embedded bus cannot be read: {error}") from error
        if page:
            self._after = page[-1][0]
        topics = self._topics
        return [
            Delivery(topics[topic_id], 0, offset, key, bytes_of(body), signature)
            for offset, topic_id, key, body, signature in page
        ]

    def commit(self, offsets: Offsets) -> None:
        """Nothing to do: nobody else looks."""

    def close(self) -> None:
        self._connection.close()


def bytes_of(value: object) -> bytes:
    """The bytes of a stored body, also where somebody's tool has turned the blob into text."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
