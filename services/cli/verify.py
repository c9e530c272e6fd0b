"""``sabot verify``: everything worked out again from the event streams alone."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Annotated, Any

import typer
from rich.box import SIMPLE
from rich.table import Table

from schemas.events.audit import DiscrepancyFound
from schemas.house import House
from schemas.money import format_units
from services.audit.core.facts import CorrectionListener, CoupAccount, Listener, ShoeAccount
from services.audit.places import NothingToVerify
from services.audit.verification import Verification
from services.audit.verify import verify as verify_installation
from services.cli.console import console, errors, fail, print_json, progress
from services.cli.data import DatabaseOption, DataOption, KafkaOption, check_bus, installation
from services.cli.summary import print_findings, print_money, print_outcomes, print_verdict
from services.runtime.installation import Installation
from services.runtime.ports import BusUnavailable, DatabaseUnavailable

_LINES_BY_THEMSELVES_MAX = 100


def verify(
    data: DataOption = Path("sabot-data"),
    kafka: KafkaOption = None,
    database: DatabaseOption = None,
    coups: Annotated[
        bool | None,
        typer.Option("--coups/--no-coups", help="A line for every coup. Default: if there are at most 100."),
    ] = None,
    details: Annotated[
        Path | None, typer.Option(help="Write every coup with its bets and verdict to a file (JSON Lines).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Verify everything: cards, draws, totals, outcomes, payouts, commission, postings, chains.

    Audit's own formulation of the rules (the tableau by Player's third card, money in exact fractions) is run
    over the events, and the three places of every event (its producer's store, the bus, audit's record) are
    held against each other. Exit status 0 only if nothing was found; 1 if something was; 2 if that cannot be
    said, because a place cannot be reached.

    With --kafka and --database these are the places of an installation on servers; with --kafka alone its
    topics are replayed and nothing else is asked.
    """
    lines = _Lines(shown=False if json else coups)
    try:
        with ExitStack() as stack:
            listeners: list[Listener] = [lines]
            if details is not None:
                listeners.append(_Details(stack.enter_context(details.open("w", encoding="utf-8"))))
            where = installation(data, kafka, database)
            check_bus(where)
            result = run_verification(where, Listeners(listeners))
    except (NothingToVerify, BusUnavailable, DatabaseUnavailable) as error:
        fail(str(error), status=2)  # 1 says that something was found
    if json:
        print_json(document(result))
    else:
        lines.print()
        _print(result)
    raise typer.Exit(0 if result.ok else 1)


def run_verification(where: Installation, listener: Listener) -> Verification:
    """Verify with a progress bar."""
    with progress("Verifying", None, "events") as bar:
        return verify_installation(where, listener, bar, copied=bar)


class Listeners:
    """Tells several listeners the same."""

    def __init__(self, listeners: Iterable[Listener]) -> None:
        self._listeners = tuple(listeners)

    def house(self, operator: str, table: str, number: int, house: House) -> None:
        for each in self._listeners:
            each.house(operator, table, number, house)

    def shoe(self, account: ShoeAccount) -> None:
        for each in self._listeners:
            each.shoe(account)

    def coup(self, account: CoupAccount) -> None:
        for each in self._listeners:
            each.coup(account)

    def correction(self, before: CoupAccount, after: CoupAccount) -> None:
        for each in self._listeners:
            if isinstance(each, CorrectionListener):
                each.correction(before, after)


class _Lines:
    """A line a coup: at once if they were asked for, at the end if there are few enough to look at."""

    def __init__(self, *, shown: bool | None) -> None:
        self._shown = shown
        self._kept: list[tuple[str, ...]] = []

    def house(self, operator: str, table: str, number: int, house: House) -> None:
        """Not shown here."""

    def shoe(self, account: ShoeAccount) -> None:
        """Not shown here."""

    def coup(self, account: CoupAccount) -> None:
        if self._shown is False:
            return
        result: str = account.outcome or account.status
        if account.player_total is not None:
            result = f"{account.player_total}-{account.banker_total} {result}"
        money = account.turnover
        version = f" v{account.version}" if account.version > 1 else ""
        line = (
            f"{account.table} {account.shoe}/{account.coup}{version}",
            " ".join(account.player),
            " ".join(account.banker),
            result,
            str(sum(bet.status != "refused" for bet in account.bets)),
            "\n".join(format_units(row.staked, row.exponent) for row in money),
            "\n".join(format_units(row.returned, row.exponent) for row in money),
            "\n".join(row.currency for row in money),
            {"verified": "✓", "discrepancy": "✗"}.get(account.verdict, "open"),
        )
        if self._shown:
            console.print("  ".join(cell.replace("\n", "+") for cell in line), markup=False, soft_wrap=True)
            return
        self._keep(line)

    def correction(self, before: CoupAccount, after: CoupAccount) -> None:
        """Another line, after those of the coups before it."""
        self.coup(after)

    def _keep(self, line: tuple[str, ...]) -> None:
        self._kept.append(line)
        if len(self._kept) > _LINES_BY_THEMSELVES_MAX:
            self._kept.clear()
            self._shown = False  # too many to look at: the sums must do

    def print(self) -> None:
        """What was kept, as a table."""
        if not self._kept:
            return
        table = Table(box=SIMPLE, padding=(0, 1, 0, 0))
        for column in ("coup", "Player", "Banker", "result", "bets", "staked", "returned", "", ""):
            table.add_column(column, justify="right" if column in ("bets", "staked", "returned") else "left")
        for line in self._kept:
            table.add_row(*line)
        console.print(table)


class _Details:
    """Writes a JSON document a coup."""

    def __init__(self, target: IO[str]) -> None:
        self._target = target

    def house(self, operator: str, table: str, number: int, house: House) -> None:
        """A coup names its house."""

    def shoe(self, account: ShoeAccount) -> None:
        """A coup names its shoe."""

    def coup(self, account: CoupAccount) -> None:
        self._write(account)

    def correction(self, before: CoupAccount, after: CoupAccount) -> None:
        """Another row, with the next version."""
        self._write(after)

    def _write(self, account: CoupAccount) -> None:
        row = {
            "operator": account.operator,
            "table": account.table,
            "shoe": account.shoe,
            "coup": account.coup,
            "version": account.version,
            "house": account.house,
            "status": account.status,
            "player": list(account.player),
            "banker": list(account.banker),
            "player_total": account.player_total,
            "banker_total": account.banker_total,
            "outcome": account.outcome,
            "natural": account.natural,
            "bets": [
                {
                    "bet": bet.bet,
                    "account": bet.account,
                    "seat": bet.seat,
                    "spot": bet.spot,
                    "stake": format_units(bet.stake, bet.exponent),
                    "returned": format_units(bet.returned, bet.exponent),
                    "commission": format_units(bet.commission, bet.exponent),
                    "currency": bet.currency,
                    "status": bet.status,
                }
                for bet in account.bets
            ],
            "verdict": account.verdict,
            "findings": list(account.findings),
        }
        self._target.write(jsonlib.dumps(row, ensure_ascii=False) + "\n")


def document(result: Verification) -> dict[str, Any]:
    """The result for machines. Amounts are decimal strings."""
    return {
        "ok": result.ok,
        "streams": result.streams,
        "events": result.events,
        "coups": {
            "verified": result.verified,
            "of_these_void": result.void,
            "discrepancy": result.discrepant,
            "open": result.open,
        },
        "corrections": result.corrected,
        "outcomes": {outcome: result.outcomes[outcome] for outcome in ("banker", "player", "tie")},
        "bets": result.bets,
        "refused_bets": result.refused_bets,
        "money": [
            {
                "currency": row.currency,
                "staked": format_units(row.staked, row.exponent),
                "returned": format_units(row.returned, row.exponent),
                "commission": format_units(row.commission, row.exponent),
                "house": format_units(row.staked - row.returned, row.exponent),
            }
            for _, row in sorted(result.turnover.items())
        ],
        "ledger_balances": result.balanced,
        "findings_count": result.findings_count,
        "findings": [_finding(finding) for finding in result.findings],
        "notices": [_finding(finding) for finding in result.notices],
    }


def _finding(finding: DiscrepancyFound) -> dict[str, Any]:
    return {
        "check": finding.check,
        "stream": finding.stream,
        "sequence": finding.sequence,
        "table": finding.table,
        "shoe": finding.shoe,
        "coup": finding.coup,
        "recorded": finding.recorded,
        "expected": finding.expected,
        "words": finding.words,
    }


def _print(result: Verification) -> None:
    print_outcomes(result, None)
    print_money(result)
    print_findings(result, errors)
    print_verdict(result)
