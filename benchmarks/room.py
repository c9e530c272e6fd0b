"""One run of the room: ``python -m benchmarks.room TABLES COUPS here|apart`` prints its figures as JSON.

Over files, or over the servers that ``SABOT_KAFKA`` and ``SABOT_DATABASE`` name, which must be prepared.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import quantiles
from time import perf_counter, sleep
from typing import Any

from sqlalchemy import Engine

from schemas.envelope import Recorded
from schemas.events.game import CoupConcluded
from schemas.events.wallet import CoupSettled
from schemas.house import shipped_houses
from services.audit.store import count_verdicts
from services.room.local import LocalRoom
from services.room.tables import Plan, VirtualTable, play
from services.runtime.installation import Installation
from services.runtime.memory import calm_collector
from services.runtime.ports_system import SeededIds, SeededRng, SystemClock
from services.runtime.settings import Settings

_BETS_A_COUP = 7


class _Settling:
    """Time from the commit of *coup concluded* to the commit of *coup settled*, for every coup."""

    def __init__(self, room: LocalRoom) -> None:
        self.milliseconds: list[float] = []
        self.events = 0
        self._concluded: dict[str, float] = {}
        room.game.on_commit = self._game
        room.wallet.on_commit = self._wallet
        if room.audit is not None:
            room.audit.on_commit = self._count

    def _game(self, events: Sequence[Recorded[Any]]) -> None:
        now = perf_counter()
        self._count(events)
        for event in events:
            if isinstance(event.data, CoupConcluded):
                self._concluded[event.envelope.correlationid] = now

    def _wallet(self, events: Sequence[Recorded[Any]]) -> None:
        now = perf_counter()
        self._count(events)
        for event in events:
            if isinstance(event.data, CoupSettled) and event.data.part == event.data.parts:
                since = self._concluded.pop(event.envelope.correlationid)
                self.milliseconds.append((now - since) * 1000)

    def _count(self, events: Sequence[Recorded[Any]]) -> None:
        self.events += len(events)


@contextmanager
def _audit_apart(where: Installation) -> Iterator[None]:
    """Audit as a process of its own over the same installation."""
    command = [sys.executable, "-m", "benchmarks.audit", str(where.data)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()  # it is ready
        try:
            yield
        finally:
            process.stdin.close()  # and it ends


def _wait_for_verdicts(where: Installation, coups: int) -> None:
    with closing_engine(where.open_reader("audit")) as engine:
        while True:
            with engine.connect() as db:
                if sum(count_verdicts(db).values()) >= coups:
                    return
            sleep(0.01)


@contextmanager
def closing_engine(engine: Engine) -> Iterator[Engine]:
    """An engine whose connections are closed at the end."""
    try:
        yield engine
    finally:
        engine.dispose()


def run(tables: int, coups: int, where: Installation, *, audit_here: bool) -> dict[str, Any]:
    """Play so many coups over so many tables until audit has verified all of them, and measure."""
    house = shipped_houses()["nl"]
    plan = Plan(shoes=None, coups=coups // tables)
    ids, rng = SeededIds("bench"), SeededRng("bench")
    with ExitStack() as stack:
        room = stack.enter_context(
            LocalRoom(where, Settings(), clock=SystemClock(), ids=ids, rng=rng, audit_here=audit_here)
        )
        if not audit_here:
            stack.enter_context(_audit_apart(where))
        settling = _Settling(room)
        playing = [
            VirtualTable(
                room, f"T{number}", house, seats=_BETS_A_COUP, plan=plan, rng=SeededRng(f"bench/{number}")
            )
            for number in range(1, tables + 1)
        ]
        started = perf_counter()
        play(room, playing, lambda _: None)
        _wait_for_verdicts(where, sum(table.coups for table in playing))
        seconds = perf_counter() - started
    played = sum(table.coups for table in playing)
    percentiles = quantiles(settling.milliseconds, n=100)
    return {
        "on": "files" if where.kafka is None else "servers",
        "processes": "one" if audit_here else "audit apart",
        "tables": tables,
        "coups": played,
        "seconds": seconds,
        "coups_per_second": played / seconds,
        "bets_per_second": played * _BETS_A_COUP / seconds,
        "events_per_second": settling.events / seconds,
        "settle_ms_p50": percentiles[49],
        "settle_ms_p99": percentiles[98],
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "disk_bytes_per_coup": _disk_bytes(where) / played,
    }


def _disk_bytes(where: Installation) -> int:
    """What the installation's own files measure."""
    return sum(file.stat().st_size for file in where.data.iterdir())


def main() -> None:
    """Read the arguments, run in a temporary folder, print."""
    calm_collector()
    tables, coups, audit = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    with tempfile.TemporaryDirectory(prefix="sabot-bench-") as folder:
        where = Installation(Path(folder), os.environ.get("SABOT_KAFKA"), os.environ.get("SABOT_DATABASE"))
        print(json.dumps(run(tables, coups, where, audit_here=audit == "here")))


if __name__ == "__main__":
    main()
