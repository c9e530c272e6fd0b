"""SQLite as all our files use it: a write-ahead log, and commits that are on the disk when they return."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from time import monotonic, sleep
from typing import Final

BUSY_SECONDS: Final = 10.0
"""So long one connection waits for another's transaction."""

CHECKPOINT_PAGES: Final = 8_000
"""Pages of 4 KiB in the write-ahead log before they move to the database. A checkpoint waits for the disk,
and one every thousand pages, the default, comes with every few batches."""

_AGAIN_SECONDS: Final = 0.01
_PRIMARY_CODE: Final = 0xFF
"""Why a file is busy (somebody recovers it, somebody closes it) stands in the bits above."""


def configure(connection: sqlite3.Connection) -> None:
    """Make a connection durable, on a file that may just have come into being."""
    _to_write_ahead_log(connection)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")


def address_to_inspect(path: Path) -> str:
    """The URI of a file that is looked at and not touched: it may be evidence.

    A file that nobody has open is read as it lies there; otherwise SQLite would leave two files beside it.
    """
    address = path.absolute().as_uri() + "?mode=ro"
    return address if is_in_use(path) else address + "&immutable=1"


def is_in_use(path: Path) -> bool:
    """Whether somebody has the file open, or was interrupted while he had."""
    return any(path.with_name(path.name + suffix).exists() for suffix in ("-wal", "-shm"))


def _to_write_ahead_log(connection: sqlite3.Connection) -> None:
    # A new file is switched over by whoever comes first. SQLite does not wait for that as it does for a
    # transaction, so who comes second at the same moment must ask again.
    until = monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & _PRIMARY_CODE == sqlite3.SQLITE_BUSY
            if not busy or monotonic() > until:
                raise
            sleep(_AGAIN_SECONDS)
