"""``make bench``: the whole room end to end on this machine, on files and on servers side by side.

On files (SQLite with ``synchronous=FULL``, the embedded bus): one table and sixteen, each at ten times the
length, and sixteen with audit as a process of its own. On servers (a Kafka broker and a PostgreSQL server,
started for this on the same machine): one table and sixteen in one process, with audit apart, and with
every service a process that is spoken to over HTTP. House ``nl``, seven bets a coup, audit verifying every
coup. Then whole topics are read from Kafka, by kafka-python and by librdkafka.

Every run is a process of its own, so that peak memory is its own. Times depend on the machine; the ratios
at the end do so much less.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks import replay
from benchmarks.servers import Servers, lacking, servers
from services.runtime.installation import Installation

_REPLAYED: Final = ((200_000, 216), (100_000, 1_200))
"""Records and their size: as in the figures of others, and as ours are."""


@dataclass(frozen=True)
class Case:
    """A run: how many tables, how many coups over all of them, and in how many processes."""

    tables: int
    coups: int
    processes: str = "here"
    """``here``: one; ``apart``: audit in another; ``http``: each service in its own."""


def main() -> int:
    """Run all cases and print them side by side."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--coups", type=int, default=1_600, help="coups of the short runs (default 1600)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    coups = options.coups
    console = Console(stderr=True)
    on_files = [
        _measure(console, case)
        for case in (
            Case(1, coups // 4),
            Case(1, coups * 10 // 4),
            Case(16, coups),
            Case(16, coups * 10),
            Case(16, coups, "apart"),
        )
    ]
    on_servers: list[dict[str, Any]] = []
    replayed: list[dict[str, Any]] = []
    if (reason := lacking()) is not None:
        console.print(f"Nothing is measured on servers: {reason}")
    else:
        with servers() as there:
            on_servers = [
                _measure(console, case, there)
                for case in (
                    Case(1, coups // 4),
                    Case(16, coups),
                    Case(16, coups, "apart"),
                    Case(1, coups // 8, "http"),
                    Case(16, coups // 2, "http"),
                )
            ]
            console.print("reading whole topics…")
            replayed = [replay.measure(there.bootstrap, *each) for each in _REPLAYED]
    if options.json:
        print(json.dumps({"rooms": on_files + on_servers, "replays": replayed}, indent=2))
    else:
        _print(on_files, on_servers)
        if replayed:
            _print_replays(replayed)
    return 0


def _measure(console: Console, case: Case, there: Servers | None = None) -> dict[str, Any]:
    where = "files" if there is None else "servers"
    console.print(f"{case.tables} table(s), {case.coups} coups, on {where}, {case.processes}…")
    program = ["benchmarks.served"] if case.processes == "http" else ["benchmarks.room"]
    arguments = [str(case.tables), str(case.coups)] + ([case.processes] if case.processes != "http" else [])
    with ExitStack() as stack:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SABOT_")}
        if there is not None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sabot-bench-")))
            environment |= _named(there.installation(folder))
        command = [sys.executable, "-m", *program, *arguments]
        finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    result: dict[str, Any] = json.loads(finished.stdout)
    return result


def _named(where: Installation) -> dict[str, str]:
    assert where.kafka is not None
    assert where.database is not None
    return {"SABOT_KAFKA": where.kafka, "SABOT_DATABASE": where.database}


def _print(on_files: list[dict[str, Any]], on_servers: list[dict[str, Any]]) -> None:
    table = Table(
        title="End to end: dealt, bet on, paid and verified",
        title_justify="left",
        caption="p50, p99: from coup concluded to coup settled; MiB: peak memory; KiB: on disk, a coup",
        caption_justify="left",
    )
    for column in (
        "on",
        "processes",
        "tables",
        "coups",
        "coups/s",
        "bets/s",
        "p50 ms",
        "p99 ms",
        "MiB",
        "KiB",
    ):
        table.add_column(column, justify="left" if column in ("on", "processes") else "right")
    for rows in (on_files, on_servers):
        for each in rows:
            disk = each["disk_bytes_per_coup"]
            table.add_row(
                each["on"],
                each["processes"],
                str(each["tables"]),
                f"{each['coups']:,}",
                f"{each['coups_per_second']:,.0f}",
                f"{each['bets_per_second']:,.0f}",
                f"{each['settle_ms_p50']:.1f}",
                f"{each['settle_ms_p99']:.1f}",
                f"{each['peak_memory_mib']:.0f}",
                f"{disk / 1024:.1f}" if disk else "",
            )
        table.add_section()
    console = Console()
    console.print(table)
    one, one_long, many, many_long, apart = on_files
    console.print(
        f"cost per coup at ten times the length: one table ×{_cost(one_long) / _cost(one):.2f}, "
        f"sixteen tables ×{_cost(many_long) / _cost(many):.2f}"
    )
    console.print(
        f"peak memory at ten times the length: one table ×{_memory(one_long, one):.2f}, "
        f"sixteen tables ×{_memory(many_long, many):.2f}"
    )
    console.print(f"sixteen tables against one: ×{_cost(one) / _cost(many):.1f} coups/s")
    console.print(
        f"audit as a process of its own against all in one: ×{_cost(many) / _cost(apart):.2f} coups/s"
    )
    if on_servers:
        s_one, s_many, s_apart = on_servers[:3]
        console.print(
            f"servers against files, in one process: one table ×{_cost(one) / _cost(s_one):.2f} coups/s, "
            f"sixteen ×{_cost(many) / _cost(s_many):.2f}; audit apart ×{_cost(apart) / _cost(s_apart):.2f}"
        )


def _print_replays(results: list[dict[str, Any]]) -> None:
    table = Table(title="Reading a whole topic from Kafka, records a second", title_justify="left")
    for column in ("records", "bytes", "kafka-python", "librdkafka", "ratio", "published"):
        table.add_column(column, justify="right")
    for each in results:
        live, fast = each["kafka_python_per_second"], each["librdkafka_per_second"]
        table.add_row(
            f"{each['records']:,}",
            f"{each['bytes']:,}",
            f"{live:,.0f}",
            f"{fast:,.0f}",
            f"×{fast / live:.1f}",
            f"{each['published_per_second']:,.0f}",
        )
    Console().print(table)


def _cost(result: dict[str, Any]) -> float:
    return 1 / float(result["coups_per_second"])


def _memory(long: dict[str, Any], short: dict[str, Any]) -> float:
    return float(long["peak_memory_mib"]) / float(short["peak_memory_mib"])


if __name__ == "__main__":
    sys.exit(main())
