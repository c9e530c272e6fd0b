"""Sabot installed away from the checkout, and its services started as a file says."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from compileall import compile_dir
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from importlib.metadata import EntryPoint, PathDistribution
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any

from tests.deploy.files import ROOT, is_ignored, stages
from tests.end_to_end.support import Answer, eventually

_END_SECONDS = 30


# ------------------------------------------------------------------------------------------------ the wheel


@dataclass(frozen=True)
class Wheel:
    """The wheel of the image's build stage, unpacked."""

    path: Path
    unpacked: Path

    def names(self) -> list[str]:
        """The files in it."""
        with zipfile.ZipFile(self.path) as archive:
            return archive.namelist()

    def commands(self) -> dict[str, EntryPoint]:
        """The commands that it installs."""
        [info] = self.unpacked.glob("sabot-*.dist-info")
        points = PathDistribution(info).entry_points.select(group="console_scripts")
        return {point.name: point for point in points}

    def install(self, bin_folder: Path) -> None:
        """Put its commands and ``python`` into a folder, as they are in the image's environment.

        They see the unpacked wheel and this environment's packages, and not the checkout: without ``site``
        nobody reads the ``.pth`` file of the editable installation.
        """
        bin_folder.mkdir(parents=True)
        packages = {sysconfig.get_path(kind) for kind in ("purelib", "platlib")}
        path = os.pathsep.join([str(self.unpacked), *sorted(packages)])
        start = f"PYTHONPATH={shlex.quote(path)} exec {shlex.quote(sys.executable)} -S -P"
        scripts = {"python": f'{start} "$@"'}
        for name, point in self.commands().items():
            code = f"import sys; from {point.module} import {point.attr}; sys.exit({point.attr}())"
            scripts[name] = f'{start} -c {shlex.quote(code)} "$@"'
        for name, script in scripts.items():
            (bin_folder / name).write_text(f"#!/bin/sh\n{script}\n")
            (bin_folder / name).chmod(0o755)


def build_wheel(folder: Path) -> Wheel:
    """Build it from what the Containerfile's first stage copies and .dockerignore lets through."""
    context = folder / "src"
    for sources, target in stages()[0].copied():
        for source in sources:
            _copy(source, context, context / target / ("" if target != "./" else Path(source).name))
    how = "wheel --quiet --disable-pip-version-check --no-cache-dir --no-index --no-deps --no-build-isolation"
    command = [sys.executable, "-m", "pip", *how.split(), f"--wheel-dir={folder}", str(context)]
    subprocess.run(command, check=True, timeout=120)
    [wheel] = folder.glob("sabot-*.whl")
    unpacked = folder / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    compile_dir(unpacked, quiet=1)  # as pip does
    return Wheel(wheel, unpacked)


def _copy(source: str, context: Path, target: Path) -> None:
    """One COPY of a file or folder, without what .dockerignore keeps away."""
    origin = ROOT / source
    for path in sorted(origin.rglob("*")) if origin.is_dir() else [origin]:
        if path.is_file() and not is_ignored(path.relative_to(ROOT).as_posix()):
            copy = target / path.relative_to(origin) if origin.is_dir() else target
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


# -------------------------------------------------------------------------------------------- the processes


class Process:
    """A service, started with exactly this command and environment in a folder of its own."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._said = folder.with_suffix(".log")
        with self._said.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                env=dict(environment),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self._said.read_text("utf-8")

    @property
    def port(self) -> int:
        """Where it listens, once it does."""

        def found() -> re.Match[str] | None:
            assert self._process.poll() is None, self.said
            return re.search(r"is ready on http://[\d.]+:(\d+)", self.said)

        return int(eventually(found)[1])

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        """One request."""
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=20)) as connection:
            document = None if body is None else json.dumps(body)
            connection.request(method, path, document, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read().decode()
            is_json = "json" in response.headers.get_content_type()
            return Answer(response.status, json.loads(text) if is_json else text, dict(response.headers))

    def get(self, path: str) -> Any:
        """What it answers, when it answers well."""

        def answered() -> tuple[Any] | None:
            answer = self.ask("GET", path)
            return (answer.body,) if answer.status == 200 else None

        return eventually(answered)[0]

    def post(self, path: str, **body: Any) -> Any:
        """A command, again where it says so, until it is done."""

        def done() -> Answer | None:
            answer = self.ask("POST", path, {"operator": "main", **body})
            return None if answer.status != 200 and answer.body["retryable"] else answer

        answer = eventually(done)
        assert answer.status == 200, answer
        return answer.body

    def end(self) -> int:
        """SIGTERM, and the exit status."""
        self._process.send_signal(SIGTERM)
        return self._process.wait(_END_SECONDS)

    def close(self) -> None:
        """Whatever a test left running is ended."""
        if self._process.poll() is None:
            self._process.send_signal(SIGKILL)
            self._process.wait(_END_SECONDS)


@contextmanager
def started(
    commands: Mapping[str, tuple[Sequence[str], Mapping[str, str]]], folder: Path
) -> Iterator[dict[str, Process]]:
    """Services, all at once, for the time of a ``with``."""
    running: dict[str, Process] = {}
    try:
        for name, (command, environment) in commands.items():
            running[name] = Process(command, environment, folder / name)
        yield running
    finally:
        for process in running.values():
            process.close()


def play_a_coup(running: Mapping[str, Process]) -> None:
    """Open a table, bet on a coup, and see it dealt, paid and verified."""
    game, wallet, audit = running["game"], running["wallet"], running["audit"]
    game.post("/v1/tables/open", table="T1", house="nl", shard="main", source="virtual")
    game.post("/v1/seats/take", table="T1", seat=1)
    wallet.post("/v1/deposits", account="alice", tx="d1", currency="EUR", amount="100.00")
    game.post("/v1/shoes/commit", table="T1", shoe="S1")
    game.post("/v1/shoes/load", table="T1", shoe="S1", entropy="anything")
    coup = {"table": "T1", "shoe": "S1", "coup": 1}
    game.post("/v1/coups/open", **coup)
    bet = {"account": "alice", "tx": "b1", "seat": 1, "spot": "banker", "currency": "EUR", "stake": "10.00"}
    wallet.post("/v1/bets", **coup, **bet)
    game.post("/v1/coups/close", **coup)

    result = game.get("/v1/coups/main/T1/S1/1")
    assert result["status"] == "concluded"
    paid = eventually(lambda: _paid(wallet))
    assert paid["returned"] == {"banker": "19.50", "tie": "10.00", "player": "0.00"}[result["outcome"]]
    eventually(lambda: audit.get("/v1/verdicts") == {"verified": 1, "discrepancy": 0})


def _paid(wallet: Process) -> Any:
    [bet] = wallet.get("/v1/coups/main/T1/S1/1/bets")
    return None if bet["status"] == "open" else bet
