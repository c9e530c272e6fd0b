"""Starts a PostgreSQL server in a temporary folder, on a free port of the loopback interface.

It is a real one: what it has committed is on the disk, and who kills it finds that there again. It asks for
no password, so only this machine can reach it, and it ends with the process that started it.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Final, Literal

from deploy.postgres import keeper

OLDEST: Final = 15
"""Before this version everybody may make tables in every database."""

SUPERUSER: Final = "postgres"
_PATIENCE_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.02
_PORTS_TRIED: Final = 5
_UNPRIVILEGED: Final = ("postgres", "nobody")
_USUAL_PLACES: Final = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin")

Stop = Literal["smart", "fast", "immediate"]
_SIGNALS: Final[dict[Stop, signal.Signals]] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}


class ServerFailed(Exception):
    """A server that does not start, or does not stop; with what it said."""


def find_binaries() -> Path | None:
    """The folder with ``initdb`` and ``postgres`` of the newest version that is new enough."""
    folders = [Path(folder) for folder in os.get_exec_path()]
    with suppress(OSError, subprocess.CalledProcessError):
        asked = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=True)
        folders.append(Path(asked.stdout.strip()))
    folders += (folder for pattern in _USUAL_PLACES for folder in Path("/").glob(pattern.lstrip("/")))
    # A link on the PATH stands for the folder that it leads to, where the rest of the installation is.
    homes = {(folder / "postgres").resolve().parent for folder in folders if (folder / "postgres").is_file()}
    versions = [(version, home) for home in homes if (version := _version(home)) >= OLDEST]
    return max(versions)[1] if versions else None


def available() -> str | None:
    """None where a server can be started here; otherwise the reason why not, in words."""
    if find_binaries() is None:
        return f"no PostgreSQL {OLDEST} or newer is installed (on Debian: apt-get install postgresql)"
    if _user() is None and os.geteuid() == 0:
        return f"root may not run PostgreSQL, and none of the users {', '.join(_UNPRIVILEGED)} is here"
    return None


class Server:
    """A server of one's own. A context manager: leaving ends it and removes everything."""

    def __init__(self) -> None:
        """Make a database cluster and start it.

        Raises:
            ServerFailed: with what PostgreSQL said.
        """
        if (reason := available()) is not None:
            raise ServerFailed(reason)
        found = find_binaries()
        assert found is not None, "it is available"
        self._binaries, self._account = found, _user()
        self.folder = _folder(self._account)
        """Everything that the server keeps: ``data``, its socket, its ``log``."""
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", keeper.__file__, str(self.folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            self._run(
                "initdb",
                f"--pgdata={self.folder / 'data'}",
                f"--username={SUPERUSER}",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
            )
            self._start_anywhere()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The superuser's URL."""
        return f"postgresql://{SUPERUSER}@127.0.0.1:{self.port}/postgres"

    def runs(self) -> bool:
        """Whether the server's first process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it again on the same data and port, after ``stop`` or ``kill``.

        Raises:
            ServerFailed: with what PostgreSQL said.
        """
        assert not self.runs(), "it runs already"
        said = self.folder / "log"
        before = said.stat().st_size if said.exists() else 0
        with said.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._binaries / "postgres",
                    "-D",
                    self.folder / "data",
                    "-p",
                    str(self.port),
                    *_options(self.folder),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,  # Ctrl-C is for whoever started us, who then ends it in order
                **self._as_user(),
            )
        until = monotonic() + _PATIENCE_SECONDS
        while not self._ready():
            if not self.runs() or monotonic() > until:
                self.kill()
                with said.open("rb") as log:
                    log.seek(before)
                    raise ServerFailed(f"PostgreSQL did not start: {log.read().decode(errors='replace')}")
            sleep(_POLL_SECONDS)

    def stop(self, mode: Stop = "fast") -> None:
        """Stop it: ``smart`` waits for clients, ``fast`` ends their sessions, ``immediate`` is a crash.

        Raises:
            ServerFailed: it went on for a minute.
        """
        if self._process is None:
            return
        self._process.send_signal(_SIGNALS[mode])
        try:
            self._process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise ServerFailed(f"PostgreSQL did not stop ({mode})") from None
        self._process = None

    def kill(self) -> None:
        """Kill every process of the server, as a power failure would."""
        if self._process is None:
            return
        children = keeper.kill_all(self._process.pid)
        self._process.wait()
        self._process = None
        # The memory that they shared must be given back before another server may begin on the data.
        until = monotonic() + _PATIENCE_SECONDS
        while any(map(keeper.is_alive, children)) and monotonic() < until:
            sleep(_POLL_SECONDS)

    def pause(self) -> None:
        """Hold every process still: connections stay open, and nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let them go on after ``pause``."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """End the server, whatever it does, and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._keeper.poll() is None:
            self._keeper.communicate(b"removed\n")

    def _start_anywhere(self) -> None:
        for attempt in range(1, _PORTS_TRIED + 1):
            self.port = _free_port()
            try:
                self.start()
                return
            except ServerFailed:
                # Somebody else may have taken the port between the question and the answer.
                if attempt == _PORTS_TRIED:
                    raise

    def _ready(self) -> bool:
        # The eighth line of this file is what ``pg_ctl --wait`` looks at as well.
        with suppress(OSError):
            lines = (self.folder / "data" / "postmaster.pid").read_text().splitlines()
            mine = self._process is not None and lines[:1] == [str(self._process.pid)]
            return mine and len(lines) > 7 and lines[7].strip() == "ready"
        return False

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "it does not run"
        for process in (self._process.pid, *keeper.children_of(self._process.pid)):
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._binaries / program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            check=False,
            **self._as_user(),
        )
        if done.returncode:
            raise ServerFailed(f"{program} failed: {done.stdout.decode(errors='replace')}")

    def _as_user(self) -> dict[str, Any]:
        # A home that is not ours, and settings of libpq's, are no business of a server's.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        if self._account is None:
            return {"env": environment}
        environment["HOME"] = str(self.folder)
        account = self._account
        return {"env": environment, "user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _version(home: Path) -> int:
    if not (home / "initdb").is_file():
        return 0
    try:
        said = subprocess.run([home / "postgres", "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0
    number = re.search(r"(\d+)", said.stdout)
    return int(number[1]) if number else 0


def _user() -> pwd.struct_passwd | None:
    """Whom the server runs as, where we are root; otherwise it runs as ourselves (None)."""
    if os.geteuid() != 0:
        return None
    for name in _UNPRIVILEGED:
        with suppress(KeyError):
            return pwd.getpwnam(name)
    return None


def _folder(account: pwd.struct_passwd | None) -> Path:
    """A new folder that belongs to the server's user and that he can reach."""
    place = Path(tempfile.gettempdir()).resolve()
    if account is not None and not all(
        each.stat().st_mode & stat.S_IXOTH for each in (place, *place.parents)
    ):
        place = Path("/tmp")
    folder = Path(tempfile.mkdtemp(prefix="sabot-postgres-", dir=place))
    if account is not None:
        os.chown(folder, account.pw_uid, account.pw_gid)
    return folder


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _options(folder: Path) -> list[str]:
    settings = {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": str(folder),
        "fsync": "on",
        "synchronous_commit": "on",
        "max_connections": "200",
        # Small: several servers may run beside one another in tests.
        "shared_buffers": "64MB",
        "log_min_messages": "warning",
    }
    return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
