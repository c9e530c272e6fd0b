"""What the sandbox remembers, in SQLite: a file that stays, or memory. One writer."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from services.operator.records import Account, Bet, CoupKey, Draft, Key, Outcome, Transaction
from services.runtime.sqlite import configure

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS account (name TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS bet (
  account TEXT, tx TEXT, body TEXT NOT NULL, PRIMARY KEY (account, tx)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS movement (
  number INTEGER PRIMARY KEY, account TEXT NOT NULL, tx TEXT NOT NULL, body TEXT NOT NULL,
  UNIQUE (account, tx)
);
CREATE TABLE IF NOT EXISTS tombstone (
  account TEXT, target TEXT, tx TEXT NOT NULL, PRIMARY KEY (account, target)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS phase (
  place TEXT, shoe TEXT, coup INTEGER, phase TEXT NOT NULL, PRIMARY KEY (place, shoe, coup)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS conflict (number INTEGER PRIMARY KEY, account TEXT, tx TEXT, fields TEXT);
"""


class Store:
    """Implements ``Records``. Texts compare byte by byte, so ids are case-sensitive (W1)."""

    def __init__(self, path: Path | None = None) -> None:
        """``path``: a file; without, everything is in memory and ends with the process."""
        # Whoever holds the service's lock uses it, from whichever thread.
        self._db = sqlite3.connect(
            ":memory:" if path is None else path, isolation_level=None, check_same_thread=False
        )
        if path is not None:
            configure(self._db)
        self._db.executescript(_TABLES)

    def account(self, name: str) -> Account | None:
        """The player of that name."""
        row = self._row("SELECT body FROM account WHERE name = ?", name)
        return None if row is None else _account(json.loads(row[0]))

    def accounts(self) -> Iterator[Account]:
        """Every player, by name."""
        for (body,) in self._db.execute("SELECT body FROM account ORDER BY name"):
            yield _account(json.loads(body))

    def bet(self, key: Key) -> Bet | None:
        """The bet that a debit placed."""
        row = self._row("SELECT body FROM bet WHERE account = ? AND tx = ?", *key)
        return None if row is None else Bet(**json.loads(row[0]))

    def transaction(self, key: Key) -> Transaction | None:
        """The transaction with that id, if it is final."""
        row = self._row("SELECT body FROM movement WHERE account = ? AND tx = ?", *key)
        return None if row is None else _transaction(key, json.loads(row[0]))

    def movements(self) -> Iterator[Transaction]:
        """Everything that is final, in its order."""
        for account, tx, body in self._db.execute("SELECT account, tx, body FROM movement ORDER BY number"):
            yield _transaction((account, tx), json.loads(body))

    def conflicts(self) -> list[tuple[str, str, str]]:
        """Every conflict there was: account, id, names of what differed."""
        return self._db.execute("SELECT account, tx, fields FROM conflict ORDER BY number").fetchall()

    def tombstone(self, key: Key) -> str | None:
        """The rollback that came before this debit."""
        row = self._row("SELECT tx FROM tombstone WHERE account = ? AND target = ?", *key)
        return None if row is None else str(row[0])

    def phase(self, coup: CoupKey) -> str | None:
        """How far a coup is, as it was told."""
        row = self._row("SELECT phase FROM phase WHERE place = ? AND shoe = ? AND coup = ?", *coup)
        return None if row is None else str(row[0])

    def write(self, draft: Draft) -> None:
        """Make a draft's changes durable, all in one transaction."""
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            db.executemany(
                "INSERT OR REPLACE INTO account VALUES (?, ?)",
                [(each.name, json.dumps(asdict(each))) for each in draft.accounts.values()],
            )
            db.executemany(
                "INSERT OR REPLACE INTO bet VALUES (?, ?, ?)",
                [(*key, json.dumps(asdict(each))) for key, each in draft.bets.items()],
            )
            db.executemany(
                "INSERT OR REPLACE INTO movement (account, tx, body) VALUES (?, ?, ?)",
                [
                    (*key, json.dumps({"asked": dict(each.asked), "outcome": asdict(each.outcome)}))
                    for key, each in draft.transactions.items()
                ],
            )
            db.executemany(
                "INSERT OR REPLACE INTO tombstone VALUES (?, ?, ?)",
                [(*key, tx) for key, tx in draft.tombstones.items()],
            )
            db.executemany(
                "INSERT OR REPLACE INTO phase VALUES (?, ?, ?, ?)",
                [(*coup, phase) for coup, phase in draft.phases.items()],
            )
            db.executemany("INSERT INTO conflict (account, tx, fields) VALUES (?, ?, ?)", draft.conflicts)
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def _row(self, query: str, *values: Any) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._db.execute(query, values).fetchone()
        return row


def _account(body: dict[str, Any]) -> Account:
    return Account(**{**body, "tokens": tuple(body["tokens"])})


def _transaction(key: Key, body: dict[str, Any]) -> Transaction:
    outcome = Outcome(**{**body["outcome"], "fields": tuple(body["outcome"]["fields"])})
    return Transaction(*key, body["asked"], outcome)
