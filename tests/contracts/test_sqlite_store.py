"""The event store over SQLite keeps the contract."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tests.contracts.store import StoreContract
from tests.services.guests import open_engine


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def connect(self, tmp_path: Path) -> Callable[[], Engine]:
        return lambda: open_engine(tmp_path / "service.db")

    def program_that_opens(self, tmp_path: Path) -> str:
        return (
            "from services.runtime.database import open_sqlite\n"
            f"engine = open_sqlite(Path({str(tmp_path / 'service.db')!r}), writer=True)\n"
        )

    def test_committed_means_written_to_the_disk(self, engine):
        with engine.connect() as db, db.begin():
            assert db.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
            assert db.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
            assert db.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1

    @pytest.mark.parametrize("name", ["what?.db", "a#b.db", "100%25.db"])
    def test_a_path_may_have_any_name(self, tmp_path, name):
        open_engine(tmp_path / name)
        assert (tmp_path / name).exists()
