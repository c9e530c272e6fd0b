"""``sabot ingest``: recorded coups as real input."""

from __future__ import annotations

import json as jsonlib
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Annotated, Any

import typer
from rich.table import Table

from schemas.money import format_amount
from schemas.refusal import Refusal
from services.cli.console import console, errors, fail, print_json, progress
from services.cli.data import (
    DatabaseOption,
    DataOption,
    GameOption,
    KafkaOption,
    WalletOption,
    drive_room,
    installation,
)
from services.room.calls import NoSuchService
from services.room.ingest import Ingest, IngestReport
from services.room.lines import LineError
from services.room.room import Room, Stalled
from services.room.settlements import SettlementsFile
from services.runtime.files import DATABASES
from services.runtime.writer import WriterStopped

_REJECTED_STATUS = 3


def ingest(
    file: Annotated[Path, typer.Argument(help="Recorded coups and deposits, JSON Lines.", dir_okay=False)],
    data: DataOption = Path("sabot-data"),
    kafka: KafkaOption = None,
    database: DatabaseOption = None,
    game: GameOption = None,
    wallet: WalletOption = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Where the settlements go (CSV, a row a bet). Default: settlements.csv in DATA."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Drive the three services with recorded coups, and write what every bet came to.

    Each line is a deposit or a coup:

    {"type":"deposit","account":"alice","amount":"1000.00","currency":"EUR","tx":"d1"}

    {"type":"coup","table":"T1","house":"nl","shoe":"S1","coup":1,"cards":["8C","8C","7C","5D","9D","QH"],
    "bets":[{"account":"alice","spot":"banker","stake":"25.00","currency":"EUR","tx":"b1"}]}

    Where the services are at work already (on PostgreSQL), they are asked over HTTP; otherwise they run in
    this process for as long as it takes.

    A line that cannot be is left out whole and goes, with its number, the field and the reason, to
    FILE.rejected.jsonl; the exit status is then 3. The same file again changes nothing.
    """
    if not file.is_file():
        fail(f"there is no file {file}", status=2)
    target = out or data / "settlements.csv"
    _refuse_to_overwrite(target, file, data)
    rejects = _Rejects(file.with_name(file.name + ".rejected.jsonl"))
    try:
        with drive_room(installation(data, kafka, database), game, wallet) as room:
            report = _run(file, room, target, rejects)
    except (WriterStopped, Stalled, Refusal, NoSuchService) as reason:
        fail(f"{reason}; what was committed is kept, and the same command goes on from there")
    finally:
        rejects.close()
    if json:
        print_json(_document(report, target, rejects.path if report.rejected else None))
    else:
        _print(report, target, rejects.path)
    if report.rejected:
        raise typer.Exit(_REJECTED_STATUS)


def _refuse_to_overwrite(target: Path, file: Path, data: Path) -> None:
    """The settlements must not take the place of what they are made from."""
    taken = [file, *(data / name for name in DATABASES)]
    if target.is_dir() or any(target.resolve() == each.resolve() for each in taken):
        fail(
            f"--out {target} would overwrite what the settlements are made from; name another file", status=2
        )


def _run(file: Path, room: Room, target: Path, rejects: _Rejects) -> IngestReport:
    with ExitStack() as stack:
        target.parent.mkdir(parents=True, exist_ok=True)
        # A file is written beside its place and moved when whole, so that nobody takes half of it for all. A
        # device, a pipe or a link is written to as it is.
        plain = not target.is_symlink() and (target.is_file() or not target.exists())
        unfinished = target.with_name(target.name + ".unfinished") if plain else target
        sheet = stack.enter_context(unfinished.open("w", encoding="utf-8", newline=""))
        source = stack.enter_context(file.open("rb"))
        bar = stack.enter_context(progress("Reading coups", file.stat().st_size, "bytes"))
        report = Ingest(room, SettlementsFile(sheet), rejects.write, bar).read(source)
        sheet.flush()
        if plain:
            os.fsync(sheet.fileno())
    if plain:
        unfinished.replace(target)
    return report


class _Rejects:
    """The file of rejected lines: made with the first of them, gone where there is none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[str] | None = None
        path.unlink(missing_ok=True)

    def write(self, number: int, error: LineError, raw: bytes) -> None:
        if self._file is None:
            self._file = self.path.open("w", encoding="utf-8")
        text = raw.rstrip(b"\r\n")[:10_000].decode("utf-8", "replace")
        row = {"line": number, "field": error.field, "reason": error.reason, "input": text}
        self._file.write(jsonlib.dumps(row, ensure_ascii=False) + "\n")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _document(report: IngestReport, target: Path, rejected: Path | None) -> dict[str, Any]:
    return {
        "lines": report.lines,
        "deposits": report.deposits,
        "coups": report.coups,
        "bets": report.bets,
        "refused_bets": report.refused_bets,
        "repeated_lines": report.repeated,
        "rejected_lines": report.rejected,
        "rejected_file": None if rejected is None else str(rejected),
        "settlements_file": str(target),
        "money": [
            {
                "currency": currency,
                "staked": format_amount(staked, currency),
                "returned": format_amount(report.returned[currency], currency),
                "commission": format_amount(report.commission[currency], currency),
                "house": format_amount(staked - report.returned[currency], currency),
            }
            for currency, staked in sorted(report.staked.items())
        ],
    }


def _print(report: IngestReport, target: Path, rejected: Path) -> None:
    document = _document(report, target, rejected)
    console.print(
        f"{report.coups:,} coups and {report.deposits:,} deposits from {report.lines:,} lines, "
        f"{report.bets:,} bets ({report.refused_bets:,} refused for lack of money)"
    )
    if report.repeated:
        console.print(f"{report.repeated:,} lines were known already and changed nothing")
    if document["money"]:
        table = Table()
        for column in ("currency", "staked", "returned", "house keeps", "of which commission"):
            table.add_column(column, justify="left" if column == "currency" else "right")
        for row in document["money"]:
            table.add_row(row["currency"], row["staked"], row["returned"], row["house"], row["commission"])
        console.print(table)
    console.print(f"Settlements: {target}", markup=False, soft_wrap=True)
    if report.rejected:
        errors.print(f"[red]{report.rejected:,} lines rejected[/red], with their reasons in:", soft_wrap=True)
        errors.print(str(rejected), markup=False, soft_wrap=True)
    sys.stdout.flush()
