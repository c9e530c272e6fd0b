"""``sabot demo``: a table plays, three services work, and audit says whether all was right."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import Annotated

import typer

from schemas.house import House, shipped_houses
from services.audit.reports.shoe_html import ShoeReport
from services.cli.beads import BeadPlate
from services.cli.console import console, fail, print_json, progress
from services.cli.data import open_room
from services.cli.summary import print_demonstration
from services.cli.verify import Listeners, document, run_verification
from services.room.demonstration import demonstrate
from services.room.room import Stalled
from services.room.tables import Plan, plan_of
from services.runtime.installation import Installation
from services.runtime.ports_system import SeededRng, SystemClock, SystemRng
from services.runtime.writer import WriterStopped


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
        _play(chosen, plan_of(chosen, shoes, coups), seats=seats, seed=seed, place=place)
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
        print_demonstration(result, chosen, beads)
        console.print(f"Data:   {place}", markup=False, soft_wrap=True)
        console.print(f"Report: {page}", markup=False, soft_wrap=True)
    raise typer.Exit(0 if result.ok and not result.open else 1)


def _play(house: House, plan: Plan, *, seats: int, seed: str | None, place: Path) -> None:
    # The seed is of cards and bets alone. Ids always come by chance: played twice into one directory, a seed
    # would otherwise give new players the ids of old ones.
    rng = SystemRng() if seed is None else SeededRng("shoe/" + seed)
    bettors = SeededRng("bets/" + (seed if seed is not None else SystemRng().token(16).hex()))
    with open_room(Installation(place), rng=rng) as room, progress("Playing", plan.expected, "coups") as bar:
        demonstrate(room, house, plan, seats=seats, rng=bettors, progress=bar)


def _new_place(parent: Path) -> Path:
    stamp = SystemClock().now().astimezone(UTC).strftime("%Y%m%d-%H%M%S")
    names = [f"demo-{stamp}", *(f"demo-{stamp}-{number}" for number in range(2, 100))]
    return next(parent / name for name in names if not (parent / name).exists())
