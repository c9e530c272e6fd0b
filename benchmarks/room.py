"""One run of the room: ``python -m benchmarks.room TABLES COUPS`` prints its figures as JSON."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import Any

from schemas.envelope import Recorded
from schemas.events.game import CoupConcluded
from schemas.events.wallet import CoupSettled
from schemas.house import shipped_houses
from services.room.embedded import Room
from services.room.tables import Plan, VirtualTable, play
from services.runtime.memory import calm_collector
from services.runtime.ports_system import SeededIds, SeededRng, SystemClock
from services.runtime.settings import Settings

_BETS_A_COUP = 7


class _Settling:
    """Time from the commit of *coup concluded* to the commit of *coup settled*, for every coup."""

    def __init__(self, room: Room) -> None:
        self.milliseconds: list[float] = []
        self.events = 0
        self._concluded: dict[str, float] = {}
        room.game.on_commit = self._game
        room.wallet.on_commit = self._wallet
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


def run(tables: int, coups: int, data: Path) -> dict[str, Any]:
    """Play so many coups over so many tables, and measure."""
    house = shipped_houses()["nl"]
    plan = Plan(shoes=None, coups=coups // tables)
    ids, rng = SeededIds("bench"), SeededRng("bench")
    with Room(data, Settings(), clock=SystemClock(), ids=ids, rng=rng) as room:
        settling = _Settling(room)
        playing = [
            VirtualTable(
                room, f"T{number}", house, seats=_BETS_A_COUP, plan=plan, rng=SeededRng(f"bench/{number}")
            )
            for number in range(1, tables + 1)
        ]
        started = perf_counter()
        play(room, playing, lambda _: None)
        seconds = perf_counter() - started
    played = sum(table.coups for table in playing)
    percentiles = quantiles(settling.milliseconds, n=100)
    return {
        "tables": tables,
        "coups": played,
        "seconds": seconds,
        "coups_per_second": played / seconds,
        "bets_per_second": played * _BETS_A_COUP / seconds,
        "events_per_second": settling.events / seconds,
        "settle_ms_p50": percentiles[49],
        "settle_ms_p99": percentiles[98],
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "disk_bytes_per_coup": sum(file.stat().st_size for file in data.iterdir()) / played,
    }


def main() -> None:
    """Read the arguments, run in a temporary folder, print."""
    calm_collector()
    tables, coups = int(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="sabot-bench-") as folder:
        print(json.dumps(run(tables, coups, Path(folder))))


if __name__ == "__main__":
    main()
