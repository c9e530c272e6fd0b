"""Rows of a table by many keys at once, each found through the key's index.

``(a, b) IN ((…), (…))`` says the same and cannot be trusted: with several keys SQLite may read the whole
table. A join with the keys as a table of their own is an index look-up for every key. On PostgreSQL the keys
travel as arrays, so that one statement serves for any number of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Connection

from services.runtime.bulk import array_type, encoder_of

_KEYS_MAX: Final = 256


class Lookup:
    """Finds rows of ``table`` by the given columns, which an index must cover."""

    def __init__(self, table: sa.Table, *columns: str) -> None:
        self._table, self._columns = table, columns
        self._queries: dict[int, sa.TextualSelect] = {}
        self._arrays: sa.TextualSelect | None = None
        self._encoders = [encoder_of(table.c[column]) for column in columns]

    def find(self, db: Connection, keys: Iterable[Sequence[Any]]) -> Iterator[sa.Row[Any]]:
        """The rows that there are, in no order. Keys may repeat; a row comes once, and a key has one row."""
        seen = set()
        for found in self.find_all(db, keys):
            identity = tuple(getattr(found, column) for column in self._columns)
            if identity not in seen:
                seen.add(identity)
                yield found

    def find_all(self, db: Connection, keys: Iterable[Sequence[Any]]) -> Iterator[sa.Row[Any]]:
        """All rows that there are, in no order, where a key may have several. Keys may repeat."""
        wanted = list(dict.fromkeys(map(tuple, keys)))
        if db.dialect.name == "postgresql":
            if wanted:
                yield from self._find_by_arrays(db, wanted)
            return
        for start in range(0, len(wanted), _KEYS_MAX):
            some = wanted[start : start + _KEYS_MAX]
            # Statements for 1, 2, 4, … keys are few enough to be kept; keys of nothing fill up.
            size = 1 << (len(some) - 1).bit_length()
            filled = some + [(None,) * len(self._columns)] * (size - len(some))
            values = {
                f"k{row}_{place}": value for row, key in enumerate(filled) for place, value in enumerate(key)
            }
            yield from db.execute(self._query(size), values)

    def _find_by_arrays(self, db: Connection, wanted: Sequence[tuple[Any, ...]]) -> Iterator[sa.Row[Any]]:
        if self._arrays is None:
            types = (array_type(self._table.c[column]) for column in self._columns)
            keys = ", ".join(f"CAST(:k{place} AS {kind})" for place, kind in enumerate(types))
            self._arrays = self._select(f"SELECT * FROM unnest({keys})")
        columns = zip(self._encoders, zip(*wanted, strict=True), strict=True)
        arrays = {f"k{place}": encode(values) for place, (encode, values) in enumerate(columns)}
        yield from db.execute(self._arrays, arrays)

    def _query(self, size: int) -> sa.TextualSelect:
        query = self._queries.get(size)
        if query is None:
            places = range(len(self._columns))
            rows = ", ".join(f"({', '.join(f':k{row}_{place}' for place in places)})" for row in range(size))
            query = self._queries[size] = self._select(f"VALUES {rows}")
        return query

    def _select(self, wanted: str) -> sa.TextualSelect:
        match = " AND ".join(f"found.{column} = wanted.{column}" for column in self._columns)
        columns = ", ".join(f'found."{column.name}"' for column in self._table.columns)
        sql = (
            f"WITH wanted ({', '.join(self._columns)}) AS ({wanted}) "
            f"SELECT {columns} FROM wanted JOIN {self._table.name} AS found ON {match}"
        )
        return sa.text(sql).columns(*self._table.columns)
