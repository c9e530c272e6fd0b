"""Connections to PostgreSQL: what is set on them, and that a database in trouble gives words, not silence."""

import gc
from contextlib import closing
from time import sleep

import pytest
import sqlalchemy as sa

from services.runtime import postgres as runtime
from services.runtime.ports import DatabaseUnavailable
from services.runtime.postgres import address, in_words, open_postgres, url_of

WAIT = sa.text("SELECT pg_sleep(60)")


def setting(db: sa.Connection, name: str) -> str:
    return str(db.scalar(sa.text(f"SHOW {name}")))


def test_a_writer_is_durable_and_impatient(databases):
    with databases.open("wallet").connect() as db, db.begin():
        for name, value in {
            "synchronous_commit": "on",
            "transaction_isolation": "read committed",
            "transaction_read_only": "off",
            "statement_timeout": "30s",
            "lock_timeout": "10s",
            "idle_in_transaction_session_timeout": "30s",
            "application_name": "test-wallet",
        }.items():
            assert setting(db, name) == value


def test_a_reader_reads_only_and_keeps_few_connections(databases):
    engine = databases.open("wallet", writer=False)
    with engine.connect() as db, db.begin():
        assert setting(db, "transaction_read_only") == "on"
        process = db.scalar(sa.text("SELECT pg_backend_pid()"))
    with engine.connect() as db, db.begin():
        assert db.scalar(sa.text("SELECT pg_backend_pid()")) == process
        with pytest.raises(sa.exc.DBAPIError, match="read-only"):
            db.execute(sa.text("UPDATE outbox SET commits = commits"))


def test_a_reader_finds_the_server_again_after_a_restart(databases, own_postgres):
    engine = databases.open("wallet", writer=False)
    for _ in range(2):
        with engine.connect() as db, db.begin():
            assert db.scalar(sa.text("SELECT published FROM outbox")) == 0
        own_postgres.stop("fast")
        own_postgres.start()
    with engine.connect() as db, db.begin():
        assert db.scalar(sa.text("SELECT published FROM outbox")) == 0


def test_a_session_that_is_ended_in_between_is_named(databases, own_postgres):
    with databases.open("wallet").connect() as db:
        with db.begin():
            db.execute(sa.text("SELECT 1"))
        own_postgres.stop("fast")
        with pytest.raises(DatabaseUnavailable, match="was lost: terminating connection"), db.begin():
            db.execute(sa.text("SELECT 1"))
        own_postgres.start()


def test_a_server_that_hangs_is_given_up(databases, own_postgres, monkeypatch):
    monkeypatch.setattr(runtime, "ANSWER_SECONDS", 0.3)
    with databases.open("wallet").connect() as db:
        own_postgres.pause()
        with pytest.raises(DatabaseUnavailable, match=r"no answer for 0\.3 seconds"), db.begin():
            db.execute(sa.text("SELECT 1"))
    own_postgres.resume()


def test_a_statement_that_takes_too_long_is_given_up_by_the_server(databases, monkeypatch):
    monkeypatch.setattr(runtime, "STATEMENT_SECONDS", 1)
    with (
        databases.open("wallet").connect() as db,
        pytest.raises(DatabaseUnavailable, match="canceling statement due to statement timeout"),
        db.begin(),
    ):
        db.execute(WAIT)


def test_a_transaction_that_nobody_goes_on_with_is_ended(databases, monkeypatch):
    monkeypatch.setattr(runtime, "IDLE_SECONDS", 1)
    with databases.open("wallet").connect() as db:
        transaction = db.begin()
        db.execute(sa.text("SELECT 1"))
        sleep(1.5)
        with pytest.raises(DatabaseUnavailable, match="idle-in-transaction timeout"):
            db.execute(sa.text("SELECT 1"))
        transaction.close()


def test_a_lock_that_is_not_given_up_is_named(databases, monkeypatch):
    monkeypatch.setattr(runtime, "LOCK_SECONDS", 1)
    lock = sa.text("SELECT commits FROM outbox FOR UPDATE")
    holder, waiting = databases.open("wallet").connect(), databases.open("wallet").connect()
    with holder, waiting, holder.begin():
        holder.execute(lock)
        with pytest.raises(DatabaseUnavailable, match="another session has held what we"), waiting.begin():
            waiting.execute(lock)


def test_other_errors_stay_what_they_are(databases):
    with databases.open("wallet").connect() as db:
        with pytest.raises(sa.exc.ProgrammingError), db.begin():
            db.execute(sa.text("SELECT nothing FROM nowhere"))
        with pytest.raises(sa.exc.IntegrityError), db.begin():
            db.execute(sa.text("INSERT INTO inbox VALUES ('game/a.T', 1, 'no hash')"))


@pytest.mark.parametrize("user", ["nobody-of-that-name", "sabot_game"])
def test_who_is_not_let_in_is_told_where_and_never_the_password(databases, user):
    url = sa.make_url(databases.url_of("wallet")).set(username=user, password="geheim")
    engine = open_postgres(url.render_as_string(hide_password=False), writer=True, name="test")
    with pytest.raises(DatabaseUnavailable) as refused:
        engine.connect()
    said = str(refused.value)
    assert f"{url.host}:{url.port}, database {url.database}, user {user}: " in said
    assert "sabot prepare" in said
    assert "geheim" not in said
    assert "geheim" not in str(engine)


@pytest.mark.parametrize("url", ["", "sabot", "sqlite:///a.db", "mysql://geheim@host/db", "http://geheim@x"])
def test_what_is_no_address(url):
    with pytest.raises(ValueError, match=r"write postgresql://USER@HOST:5432/DATABASE") as refused:
        address(url)
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_how_an_address_may_begin(scheme):
    url = address(url_of(f"{scheme}://sabot_{{service}}:secret@db:5433/sabot_{{service}}", "game"))
    assert (url.drivername, url.database, url.username) == ("postgresql+psycopg", "sabot_game", "sabot_game")
    assert in_words(url) == "PostgreSQL at db:5433, database sabot_game, user sabot_game"


def test_an_address_may_bring_settings_of_its_own(databases):
    url = databases.url_of("wallet") + "?options=-c%20work_mem%3D7MB%20-c%20statement_timeout%3D5s"
    with closing(open_postgres(url, writer=True, name="test").connect()) as db, db.begin():
        assert (setting(db, "work_mem"), setting(db, "statement_timeout")) == ("7MB", "5s")
        assert setting(db, "lock_timeout") == "10s"


def test_an_engine_that_is_dropped_closes_its_connections(databases):
    engine = open_postgres(databases.url_of("wallet"), writer=False, name="dropped")
    with engine.connect() as db:
        process = db.scalar(sa.text("SELECT pg_backend_pid()"))
    del engine, db
    gc.collect()
    still = sa.text("SELECT count(*) FROM pg_stat_activity WHERE pid = :pid")
    with databases.open("wallet").connect() as db:
        for _ in range(200):
            with db.begin():
                if not db.scalar(still, {"pid": process}):
                    return
            sleep(0.02)
    pytest.fail("the connection stayed open")
