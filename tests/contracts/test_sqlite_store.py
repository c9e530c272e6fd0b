"""The event store over SQLite keeps the contract."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Engine

from tests.contracts.store import StoreContract, Unsteady
from tests.services.guests import open_engine


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def connect(self, tmp_path: Path) -> Callable[[], Engine]:
        return lambda: open_engine(tmp_path / "service.db")

    @pytest.fixture
    def program(self, tmp_path: Path) -> str:
        return (
            "from services.runtime.database import open_sqlite\n"
            f"engine = open_sqlite(Path({str(tmp_path / 'service.db')!r}), writer=True)\n"
        )

    @pytest.fixture(params=["before the commit", "the commit fails", "the commit is not known to be done"])
    def unsteady(self, request, connect) -> Unsteady:
        """SQLite is in our own process: what breaks here is a disk, or a program in the middle of a call."""
        engine = connect()
        commit = engine.dialect.do_commit

        def fail(connection: Any) -> None:
            if request.param == "the commit is not known to be done":
                commit(connection)
            raise sqlite3.OperationalError("disk I/O error")

        def break_next() -> None:
            if request.param == "before the commit":
                sa.event.listen(engine, "commit", fail)
            else:
                engine.dialect.do_commit = fail

        committed = request.param == "the commit is not known to be done"
        return Unsteady(engine, break_next, committed, (sqlite3.OperationalError, sa.exc.OperationalError))

    def test_committed_means_written_to_the_disk(self, engine):
        with engine.connect() as db, db.begin():
            assert db.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
            assert db.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
            assert db.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1

    @pytest.mark.parametrize("name", ["what?.db", "a#b.db", "100%25.db"])
    def test_a_path_may_have_any_name(self, tmp_path, name):
        open_engine(tmp_path / name)
        assert (tmp_path / name).exists()
