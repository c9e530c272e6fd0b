"""``sabot demo``: a table plays, three services work, and audit says whether all was right."""

from __future__ import annotations

from datetime import UTC
from itertools import count
from pathlib import Path
from typing import Annotated

import typer

from schemas.commands import VoidCoup
from schemas.house import House, Shuffle, shipped_houses
from services.audit.reports.shoe_html import ShoeReport
from services.audit.verification import Verification
from services.cli.beads import BeadPlate
from services.cli.console import console, errors, fail, print_json, progress
from services.cli.data import open_room
from services.cli.summary import print_findings, print_money, print_outcomes, print_verdict
from services.cli.verify import Listeners, document, run_verification
from services.room.room import Room, Stalled
from services.room.tables import Plan, VirtualTable, play
from services.runtime.installation import Installation
from services.runtime.ports_system import SeededRng, SystemClock, SystemRng
from services.runtime.writer import WriterStopped

_COUPS_A_SHOE = 80
_COUPS_WITHOUT_A_SHOE = 60


def demo(
    house: Annotated[str, typer.Option(help="Which house: nl, fr, de, dk or lt.")] = "nl",
    shoes: Annotated[int, typer.Option(help="How many shoes.", min=1, max=10_000)] = 1,
    coups: Annotated[
        int | None,
        typer.Option(
            help="Stop after so many coups. Default 60 for a house without a shoe's end (de).", min=1
        ),
    ] = None,
    seats: Annotated[int, typer.Option(help="How many players bet on every coup.", min=1, max=14)] = 7,
    seed: Annotated[
        str | None, typer.Option(help="Play the same cards and bets again. Default: by chance.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Directory for the databases. Default: a new one in sabot-data.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Play a shoe with three services over the embedded bus, pay every bet, and verify every coup.

    Exit status 0 only if every coup was verified and the ledger balances.
    """
    chosen = shipped_houses().get(house)
    if chosen is None:
        fail(f"there is no house {house!r}; there are {', '.join(shipped_houses())}", status=2)
    if seats > max(chosen.table.seats):
        fail(f"house {house} has at most {max(chosen.table.seats)} seats", status=2)
    place = data or _new_place(Path("sabot-data"))
    try:
        _play(chosen, _plan(chosen, shoes, coups), seats=seats, seed=seed, place=place)
    except (WriterStopped, Stalled) as reason:
        fail(str(reason))
    page = place / "report.html"
    with page.open("w", encoding="utf-8") as target:
        report, beads = ShoeReport(target), BeadPlate()
        result = run_verification(Installation(place), Listeners([report, beads]))
        report.finish()
    if json:
        print_json({**document(result), "data": str(place), "report": str(page)})
    else:
        _print(result, chosen, beads)
        console.print(f"Data:   {place}", markup=False, soft_wrap=True)
        console.print(f"Report: {page}", markup=False, soft_wrap=True)
    raise typer.Exit(0 if result.ok and not result.open else 1)


def _plan(house: House, shoes: int, coups: int | None) -> Plan:
    if house.shoe.shuffle is Shuffle.EVERY_ROUND:
        return Plan(shoes=None, coups=coups or _COUPS_WITHOUT_A_SHOE * shoes)
    return Plan(shoes=shoes, coups=coups)


def _play(house: House, plan: Plan, *, seats: int, seed: str | None, place: Path) -> None:
    # The seed is of cards and bets alone. Ids always come by chance: played twice into one directory, a seed
    # would otherwise give new players the ids of old ones.
    rng = SystemRng() if seed is None else SeededRng("shoe/" + seed)
    bettors = SeededRng("bets/" + (seed if seed is not None else SystemRng().token(16).hex()))
    expected = plan.coups or _COUPS_A_SHOE * (plan.shoes or 1)
    with open_room(Installation(place), rng=rng) as room, progress("Playing", expected, "coups") as bar:
        _void_what_was_cut_off(room)
        table = VirtualTable(room, _table_name(room), house, seats=seats, plan=plan, rng=bettors)
        play(room, [table], bar)


def _void_what_was_cut_off(room: Room) -> None:
    """An earlier demonstration that was killed may have left a coup open: its stakes go back."""
    for table in room.tables():
        if table.source == "virtual" and table.coup is not None:
            voiding = VoidCoup(
                operator=table.operator,
                table=table.name,
                shoe=table.coup.shoe,
                coup=table.coup.number,
                reason="the demonstration was cut off",
            )
            room.result(room.game.submit(voiding))


def _table_name(room: Room) -> str:
    """A table of its own for every demonstration in one directory, since each may have another house."""
    taken = {each.name for each in room.tables()}
    return next(name for number in count(1) if (name := f"T{number}") not in taken)


def _new_place(parent: Path) -> Path:
    stamp = SystemClock().now().astimezone(UTC).strftime("%Y%m%d-%H%M%S")
    names = [f"demo-{stamp}", *(f"demo-{stamp}-{number}" for number in range(2, 100))]
    return next(parent / name for name in names if not (parent / name).exists())


def _print(result: Verification, house: House, beads: BeadPlate) -> None:
    console.print(f"[b]{house.name}[/b], {house.shoe.decks} decks")
    console.print("Every coup: B Banker, P Player, T tie; ✗ one that audit did not verify")
    console.print(beads.text())
    print_outcomes(result, house)
    print_money(result)
    print_findings(result, errors)
    print_verdict(result)
