"""``sabot wallet check``: every invariant of a wallet's books, worked out again from its events."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from sqlalchemy import Connection

from services.cli.console import console, fail
from services.cli.data import DatabaseOption, DataOption, installation, settings
from services.runtime.files import database_of

_SHOWN = 20


def add_check(commands: typer.Typer) -> None:
    """Add the command to those of wallet."""

    @commands.command("check")
    def check(
        data: DataOption = Path("sabot-data"),
        database: DatabaseOption = None,
        close: Annotated[
            bool,
            typer.Option("--close", help="Ask also for what holds at the close of a gaming day (I6, I7)."),
        ] = False,
        as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
    ) -> None:
        """Work the books out again from the events, and compare: invariants I1 to I12 and the transaction
        ids.

        Exit status 0: all holds; 1: something does not, and is named with its place.
        """
        where = installation(data, None, database)
        if where.database is None and not (data / database_of("wallet")).exists():
            fail(f"there is no wallet in {data}", status=2)
        engine = where.open_reader("wallet")
        try:
            with engine.connect() as db, db.begin():
                ok = _checked(db, close=close, as_json=as_json)
        finally:
            engine.dispose()
        raise typer.Exit(0 if ok else 1)


def _checked(db: Connection, *, close: bool, as_json: bool) -> bool:
    from services.wallet.check import AT_CLOSE, INVARIANTS, check
    from services.wallet.queries import trial_balance

    report = check(db, settings().shard, at_close=close)
    asked = [name for name in INVARIANTS if close or name not in AT_CLOSE]
    counts = report.counts()
    lines = trial_balance(db)
    if as_json:
        document: dict[str, Any] = {
            "ok": not report.findings,
            "events": report.events,
            "bets": len(report.bets),
            "findings": [each._asdict() for each in report.findings],
            "trial_balance": lines,
        }
        console.print_json(json.dumps(document))
        return not report.findings
    table = Table(title=f"{report.events:,} events, {len(report.bets):,} bets")
    table.add_column("invariant")
    table.add_column("says")
    table.add_column("", justify="right")
    for name in asked:
        number = counts[name]
        table.add_row(name, INVARIANTS[name], "✓" if not number else f"✗ {number}")
    console.print(table)
    for each in report.findings[:_SHOWN]:
        console.print(f"{each.invariant} {each.place}: {each.words}", markup=False)
    if len(report.findings) > _SHOWN:
        console.print(f"… and {len(report.findings) - _SHOWN} more")
    return not report.findings
