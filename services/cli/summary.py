"""What ``demo`` and ``verify`` print of a verification: tables that sum, and the verdict in a sentence."""

from __future__ import annotations

from fractions import Fraction

from rich.console import Console
from rich.table import Table

from schemas.chart import chart
from schemas.house import House
from schemas.money import exponent_of, format_amount, format_units
from services.audit.verification import Verification
from services.cli.beads import BeadPlate
from services.cli.console import console, errors
from services.game.core.odds import count, percent

_FINDINGS_SHOWN = 20


def print_demonstration(result: Verification, house: House, beads: BeadPlate) -> None:
    """All of it: the bead plate, the tables, the verdict."""
    console.print(f"[b]{house.name}[/b], {house.shoe.decks} decks")
    console.print("Every coup: B Banker, P Player, T tie; ✗ one that audit did not verify")
    console.print(beads.text())
    print_outcomes(result, house)
    print_money(result)
    print_findings(result, errors)
    print_verdict(result)


def print_outcomes(result: Verification, house: House | None) -> None:
    """How the coups ended, beside what the house's shoe would give in the long run."""
    total = sum(result.outcomes.values())
    if not total:
        return
    table = Table(title="Outcomes", title_justify="left")
    columns = ["", "coups", "share"] + (["expected"] if house else [])
    for column in columns:
        table.add_column(column, justify="right" if column else "left")
    for outcome, colour in (("banker", "red"), ("player", "blue"), ("tie", "green")):
        seen = result.outcomes[outcome]
        row = [f"[{colour}]{outcome.title()}[/]", f"{seen:,}", f"{100 * seen / total:.1f} %"]
        if house:
            counts = count(house.shoe.decks)
            row.append(f"{percent(Fraction(counts.wins[outcome], counts.total), 2)} %")  # type: ignore[index]
        table.add_row(*row)
    table.add_section()
    table.add_row("all", f"{total:,}", "100.0 %", *(["100.00 %"] if house else []))
    console.print(table)


def print_money(result: Verification) -> None:
    """What was staked and came back, and the ledger that says the same."""
    if not result.turnover:
        return
    table = Table(title="Money", title_justify="left")
    for column in ("currency", "staked", "returned", "house keeps", "of which commission"):
        table.add_column(column, justify="left" if column == "currency" else "right")
    for _, row in sorted(result.turnover.items()):
        table.add_row(
            row.currency,
            format_units(row.staked, row.exponent),
            format_units(row.returned, row.exponent),
            format_units(row.staked - row.returned, row.exponent),
            format_units(row.commission, row.exponent),
        )
    console.print(table)
    console.print(_trial_balance(result))


def _trial_balance(result: Verification) -> Table:
    accounts = chart()
    table = Table(title="Trial balance", title_justify="left")
    for column in ("account", "", "debit", "credit", ""):
        table.add_column(column, justify="right" if column in ("debit", "credit") else "left")
    currencies = sorted({currency for _, currency in result.trial_balance})
    for currency in currencies:
        debits = credits_ = 0
        for (ledger, its_currency), amount in sorted(result.trial_balance.items()):
            if its_currency != currency:
                continue
            debits, credits_ = debits + max(amount, 0), credits_ + max(-amount, 0)
            table.add_row(
                ledger,
                accounts[ledger].name if ledger in accounts else "",
                format_amount(amount, currency) if amount > 0 else "",
                format_amount(-amount, currency) if amount < 0 else "",
                currency,
            )
        table.add_section()
        sums = (format_units(debits, exponent_of(currency)), format_units(credits_, exponent_of(currency)))
        table.add_row("", "sum", *sums, currency)
        table.add_section()
    return table


def print_findings(result: Verification, where: Console) -> None:
    """The findings in words, the first of them if there are many."""
    for finding in result.findings[:_FINDINGS_SHOWN]:
        place = f"{finding.stream}#{finding.sequence}" if finding.sequence else finding.stream
        if finding.coup is not None:
            place += f", coup {finding.coup} of shoe {finding.shoe} at {finding.table}"
        where.print(f"[red]finding[/red] ({finding.check}) ", end="")
        where.print(f"{place}: {finding.words}", markup=False, soft_wrap=True)
    if result.findings_count > _FINDINGS_SHOWN:
        where.print(f"… and {result.findings_count - _FINDINGS_SHOWN:,} more")
    if result.notices:
        for notice in result.notices[:_FINDINGS_SHOWN]:
            where.print(f"[yellow]notice[/yellow] ({notice.check}) ", end="")
            where.print(f"{notice.stream}: {notice.words}", markup=False, soft_wrap=True)
        where.print(
            "notices do not count: audit met this on the bus once, or services are at work or were "
            "interrupted and it may only not be there yet; start them, and verify again"
        )


def print_verdict(result: Verification) -> None:
    """One sentence."""
    coups = f"{result.verified:,} of {result.verified + result.discrepant:,} coups verified"
    if result.corrected:
        coups += f", {result.corrected:,} {'correction' if result.corrected == 1 else 'corrections'}"
    if result.open:
        coups += f", {result.open:,} still open"
    chain = f"{result.events:,} events in {result.streams} streams without a gap, hash chains intact"
    if result.ok:
        console.print(f"[green]✓[/green] {coups}; {chain}; the ledger balances")
    else:
        balance = "the ledger balances" if result.balanced else "the ledger does NOT balance"
        findings = "1 finding" if result.findings_count == 1 else f"{result.findings_count:,} findings"
        console.print(f"[red]✗[/red] {coups}; {findings}; {balance}")
