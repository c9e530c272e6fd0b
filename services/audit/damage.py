"""Databases that cannot be read, told apart from everything else that may go wrong."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import sqlalchemy as sa

T = TypeVar("T")


class Damaged(Exception):
    """A database with something in it that cannot be read. ``file`` is its name."""

    def __init__(self, file: str, error: Exception) -> None:
        super().__init__(f"{file} is damaged: {str(error).splitlines()[0]}")
        self.file = file


@contextmanager
def reading(file: str) -> Iterator[None]:
    """Errors in here are damage to this file: the database's own, and what cannot stand there.

    A server that went away is no damage; that error goes on as it is.
    """
    try:
        yield
    except (sa.exc.DatabaseError, sqlite3.DatabaseError, ValueError) as error:
        if isinstance(error, sa.exc.DBAPIError) and error.connection_invalidated:
            raise
        raise Damaged(file, error) from error


def read(file: str, rows: Iterable[T]) -> Iterator[T]:
    """Rows that are read from this file as they are asked for."""
    with reading(file):
        yield from rows


def numbered(file: str, rows: Iterable[tuple[int, T]]) -> Iterator[tuple[int, T]]:
    """As ``read``, of rows with a sequence: SQLite would keep anything in its place."""
    for row in read(file, rows):
        if type(row[0]) is not int or row[0] < 0:
            raise Damaged(file, ValueError(f"an event has {row[0]!r:.40} for its sequence"))
        yield row
