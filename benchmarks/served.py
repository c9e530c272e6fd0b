"""One run with every service a process of its own: ``python -m benchmarks.served TABLES COUPS``.

Over the servers that ``SABOT_KAFKA`` and ``SABOT_DATABASE`` name, which must be prepared. Commands go over
HTTP, as an operator's would. The figures are printed as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack, closing
from datetime import datetime
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from deploy.processes import ServiceProcess
from schemas.envelope import decode
from schemas.events.game import CoupConcluded
from schemas.events.wallet import CoupSettled
from schemas.house import shipped_houses
from services.room.remote import RemoteRoom
from services.room.tables import Plan, VirtualTable, play
from services.runtime.files import SERVICES
from services.runtime.installation import Installation
from services.runtime.memory import calm_collector
from services.runtime.ports_system import SeededRng
from services.runtime.settings import Settings

BETS_A_COUP = 7


def run(tables: int, coups: int, where: Installation) -> dict[str, Any]:
    """Play so many coups over so many tables until audit has read all of them, and measure."""
    assert where.kafka is not None
    assert where.database is not None
    house, plan = shipped_houses()["nl"], Plan(shoes=None, coups=coups // tables)
    options = ["--kafka", where.kafka, "--database", where.database]
    with ExitStack() as stack:
        services = {name: stack.enter_context(closing(ServiceProcess(name, options))) for name in SERVICES}
        room = stack.enter_context(
            RemoteRoom(where, Settings(), game=services["game"].url, wallet=services["wallet"].url)
        )
        playing = [
            VirtualTable(
                room, f"T{number}", house, seats=BETS_A_COUP, plan=plan, rng=SeededRng(f"bench/{number}")
            )
            for number in range(1, tables + 1)
        ]
        started = perf_counter()
        play(room, playing, lambda _: None)
        seconds = perf_counter() - started
        memory = sum(_peak_memory_mib(service.pid) for service in services.values())
    played = sum(table.coups for table in playing)
    percentiles = quantiles(_settling(where), n=100)
    return {
        "on": "servers",
        "processes": "three, HTTP",
        "tables": tables,
        "coups": played,
        "seconds": seconds,
        "coups_per_second": played / seconds,
        "bets_per_second": played * BETS_A_COUP / seconds,
        "settle_ms_p50": percentiles[49],
        "settle_ms_p99": percentiles[98],
        "peak_memory_mib": memory,
        "disk_bytes_per_coup": None,
    }


def _settling(where: Installation) -> list[float]:
    """Milliseconds from the batch that concluded a coup to the one that settled it, by the events' times."""
    concluded: dict[str, float] = {}
    settled: dict[str, float] = {}
    with closing(where.open_bus()) as bus:
        for topic in ("game.events", "wallet.events"):
            for record in bus.read(topic):
                event = decode(record.body)
                at = datetime.fromisoformat(event.envelope.time).timestamp() * 1000
                if isinstance(event.data, CoupConcluded):
                    concluded[event.envelope.correlationid] = at
                elif isinstance(event.data, CoupSettled):
                    settled[event.envelope.correlationid] = at
    return [at - concluded[coup] for coup, at in settled.items()]


def _peak_memory_mib(pid: int) -> float:
    """The most memory that a process has had (Linux)."""
    status = Path(f"/proc/{pid}/status").read_text("utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> None:
    """Read the arguments, run, print."""
    calm_collector()
    with TemporaryDirectory(prefix="sabot-bench-") as folder:
        where = Installation(Path(folder), os.environ["SABOT_KAFKA"], os.environ["SABOT_DATABASE"])
        print(json.dumps(run(int(sys.argv[1]), int(sys.argv[2]), where)))


if __name__ == "__main__":
    main()
