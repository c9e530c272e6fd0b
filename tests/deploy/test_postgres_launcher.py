"""The PostgreSQL server for tests and for trying things out: it starts, is what it says, leaves nothing."""

import os
import pwd
import signal
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep

import psycopg
import pytest

from deploy.postgres import keeper, server
from deploy.postgres.server import Server, ServerFailed, available, find_binaries
from tests.contracts.bus import ROOT
from tests.support import requires

PATIENCE_SECONDS = 30.0


@pytest.fixture(autouse=True)
def _possible() -> None:
    reason = available()
    requires("postgres", reason is None, str(reason))


@pytest.fixture(scope="module")
def running():
    requires("postgres", available() is None, str(available()))
    with Server() as server:
        yield server


def ask(running: Server, question: str) -> str:
    with closing(psycopg.connect(running.url, autocommit=True)) as connection:
        row = connection.execute(question).fetchone()
    assert row is not None
    return str(row[0])


def gone(path: Path) -> bool:
    until = monotonic() + PATIENCE_SECONDS
    while path.exists() and monotonic() < until:
        sleep(0.02)
    return not path.exists()


def test_it_keeps_what_it_commits_and_is_for_this_machine_only(running):
    assert int(ask(running, "SHOW server_version_num")) >= server.OLDEST * 10_000
    for setting, value in {
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": str(running.folder),
        "server_encoding": "UTF8",
    }.items():
        assert ask(running, f"SHOW {setting}") == value


def test_it_runs_as_nobody_in_particular(running):
    owner = (running.folder / "data").stat()
    assert owner.st_uid != 0
    assert stat.S_IMODE(owner.st_mode) == 0o700
    if os.geteuid() == 0:
        assert pwd.getpwuid(owner.st_uid).pw_name in server._UNPRIVILEGED
    else:
        assert owner.st_uid == os.geteuid()


@pytest.mark.parametrize("how", ["smart", "fast", "immediate", "kill"])
def test_it_starts_again_with_what_it_had(running, how):
    with psycopg.connect(running.url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (number serial)")
        connection.execute("INSERT INTO kept DEFAULT VALUES")
    before, port = ask(running, "SELECT count(*) FROM kept"), running.port
    if how == "kill":
        running.kill()
    else:
        running.stop(how)
    assert not running.runs()
    with pytest.raises(psycopg.OperationalError):
        ask(running, "SELECT 1")
    running.start()
    assert running.port == port
    assert ask(running, "SELECT count(*) FROM kept") == before


def test_killed_it_takes_its_sessions_along(running):
    with closing(psycopg.connect(running.url)) as connection:
        process = connection.info.backend_pid
        assert keeper.is_alive(process)
        running.kill()
        assert not keeper.is_alive(process)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    running.start()


def test_paused_it_does_not_answer_and_resumed_it_does(running):
    with closing(psycopg.connect(running.url, autocommit=True)) as connection:
        running.pause()
        connection.pgconn.send_query(b"SELECT 7")
        sleep(0.1)
        connection.pgconn.consume_input()
        assert connection.pgconn.is_busy()
        running.resume()
        result = connection.pgconn.get_result()
        assert result is not None
        assert result.get_value(0, 0) == b"7"


def test_two_run_beside_one_another_and_nothing_stays():
    with Server() as one, Server() as two:
        assert one.port != two.port
        assert ask(one, "SELECT 1") == ask(two, "SELECT 1") == "1"
        folders = one.folder, two.folder
    assert not any(folder.exists() for folder in folders)


def test_a_server_that_does_not_start_says_why(running):
    running.stop()
    settings = running.folder / "data" / "postgresql.conf"
    before = settings.read_text()
    settings.write_text(before + "\nno_such_setting = 1\n")
    with pytest.raises(ServerFailed, match="no_such_setting"):
        running.start()
    settings.write_text(before)
    running.start()


CHILD = """
import os, signal, sys
from deploy.postgres.server import Server
server = Server()
print(server.folder, flush=True)
sys.stdin.read()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_killed_with_its_owner_it_ends_and_leaves_nothing():
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        folder = Path(child.stdout.readline().strip())
        process = keeper.postmaster_of(folder)
        assert process is not None
        sessions = keeper.children_of(process)
        assert sessions
        child.communicate()
    assert child.returncode == -signal.SIGKILL
    assert gone(folder)
    assert not any(map(keeper.is_alive, [process, *sessions]))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_what_to_export_and_ends_in_order(number):
    with subprocess.Popen(
        [sys.executable, "-m", "deploy.postgres"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as command:
        assert command.stdout is not None
        line = command.stdout.readline().strip()
        assert line.startswith("export SABOT_DATABASE='postgresql://sabot_{service}@127.0.0.1:")
        url = line.split("'")[1]
        with closing(psycopg.connect(url.replace("{service}", "wallet"))) as connection:
            assert connection.execute("SELECT count(*) FROM event").fetchone() == (0,)
        command.send_signal(number)
        command.communicate()
    assert command.returncode == 0
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url.replace("{service}", "wallet"))


# ------------------------------------------------------------------------------------------ what there is not


def fake(folder: Path, version: str) -> Path:
    folder.mkdir()
    for name in ("postgres", "initdb"):
        program = folder / name
        program.write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
        program.chmod(0o755)
    return folder


@pytest.fixture
def only(monkeypatch, tmp_path):
    """Nothing is installed but what a test makes."""
    monkeypatch.setattr(server, "_USUAL_PLACES", (str(tmp_path / "*"),))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    return tmp_path


def test_the_newest_that_is_there_is_taken(only):
    fake(only / "15", "15.3 (Debian 15.3-1)"), fake(only / "9.6", "9.6.24")
    newest = fake(only / "16", "16beta1")
    assert find_binaries() == newest


def test_an_old_one_is_none(only, monkeypatch):
    fake(only / "14", "14.9")
    assert find_binaries() is None
    assert "no PostgreSQL 15 or newer" in (available() or "")
    with pytest.raises(ServerFailed, match="no PostgreSQL 15 or newer"):
        Server()


def test_root_needs_somebody_to_run_it_as(monkeypatch):
    monkeypatch.setattr(server, "_UNPRIVILEGED", ("no-such-user",))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "root may not run PostgreSQL" in (available() or "")
