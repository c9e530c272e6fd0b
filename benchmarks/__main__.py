"""``make bench``: the whole room end to end on this machine.

One table and sixteen, each at ten times the length, and sixteen with audit as a process of its own.

Every run is a process of its own (so that peak memory is its own) that plays house ``nl`` over the embedded
bus and SQLite with ``synchronous=FULL``: three services, seven bets a coup, audit verifying every coup. Times
depend on the machine; the ratios at the end do so much less.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Case:
    """A run: how many tables, how many coups over all of them, and whether audit is in the same process."""

    tables: int
    coups: int
    audit: str = "here"


def main() -> int:
    """Run all cases and print them side by side."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--coups", type=int, default=1_600, help="coups of the short runs (default 1600)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    coups = options.coups
    cases = [
        Case(1, coups // 4),
        Case(1, coups * 10 // 4),
        Case(16, coups),
        Case(16, coups * 10),
        Case(16, coups, "apart"),
    ]
    console = Console(stderr=True)
    results = []
    for case in cases:
        console.print(f"{case.tables} table(s), {case.coups} coups, audit {case.audit}…")
        results.append(_measure(case))
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        _print(results)
    return 0


def _measure(case: Case) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.room", str(case.tables), str(case.coups), case.audit]
    finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(finished.stdout)
    return result


def _print(results: list[dict[str, Any]]) -> None:
    table = Table(
        title="End to end: dealt, bet on, paid and verified",
        title_justify="left",
        caption="p50, p99: from coup concluded to coup settled; MiB: peak memory; KiB: on disk, a coup",
        caption_justify="left",
    )
    for column in ("tables", "audit", "coups", "coups/s", "bets/s", "p50 ms", "p99 ms", "MiB", "KiB"):
        table.add_column(column, justify="right")
    for each in results:
        table.add_row(
            str(each["tables"]),
            each["audit"],
            f"{each['coups']:,}",
            f"{each['coups_per_second']:,.0f}",
            f"{each['bets_per_second']:,.0f}",
            f"{each['settle_ms_p50']:.1f}",
            f"{each['settle_ms_p99']:.1f}",
            f"{each['peak_memory_mib']:.0f}",
            f"{each['disk_bytes_per_coup'] / 1024:.1f}",
        )
    console = Console()
    console.print(table)
    one, one_long, many, many_long, apart = results
    console.print(
        f"cost per coup at ten times the length: one table ×{_cost(one_long) / _cost(one):.2f}, "
        f"sixteen tables ×{_cost(many_long) / _cost(many):.2f}"
    )
    console.print(
        f"peak memory at ten times the length: one table ×{_memory(one_long, one):.2f}, "
        f"sixteen tables ×{_memory(many_long, many):.2f}"
    )
    batching = many["coups_per_second"] / one["coups_per_second"]
    spread = apart["coups_per_second"] / many["coups_per_second"]
    console.print(f"sixteen tables against one: ×{batching:.1f} coups/s")
    console.print(f"audit as a process of its own against all in one: ×{spread:.2f} coups/s")


def _cost(result: dict[str, Any]) -> float:
    return 1 / float(result["coups_per_second"])


def _memory(long: dict[str, Any], short: dict[str, Any]) -> float:
    return float(long["peak_memory_mib"]) / float(short["peak_memory_mib"])


if __name__ == "__main__":
    sys.exit(main())
