"""``sabot houses``: the shipped houses, and whether a house file of one's own can run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from schemas.house import House, HouseError, Shuffle, load_house, shipped_houses
from services.cli.console import console, fail, print_json


def houses(
    check: Annotated[
        Path | None, typer.Option(help="Check a house file of your own (TOML) instead.", exists=True)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print whole house documents as JSON.")] = False,
) -> None:
    """Show the houses: decks, deal order, shuffle, burn and cut, prices, commission and rounding."""
    try:
        known = shipped_houses() if check is None else _checked(check)
    except HouseError as error:
        for path, reason in error.problems:
            console.print(f"{path}: {reason}", markup=False)
        fail(f"{check} is not a house that can run ({len(error.problems)} problems)")
    if json:
        print_json([house.model_dump(mode="json") for house in known.values()])
        return
    table = Table(title="Houses", title_justify="left")
    for column in ("id", "name", "decks", "first four cards", "shuffle", "burn", "cut", "tie", "commission"):
        table.add_column(column, overflow="fold")
    for house in known.values():
        table.add_row(*_row(house))
    console.print(table)


def _checked(path: Path) -> dict[str, House]:
    house = load_house(path.read_text("utf-8"), path.name)
    return {house.id: house}


def _row(house: House) -> tuple[str, ...]:
    shoe, commission = house.shoe, house.commission
    mode = commission.rounding_mode.value.replace("_", " ")
    return (
        house.id,
        house.name,
        str(shoe.decks),
        " ".join(side[0].upper() for side in house.deal.order),
        "every round" if shoe.shuffle is Shuffle.EVERY_ROUND else "per shoe",
        shoe.burn.value.replace("_", " "),
        "-" if shoe.cut_cards_from_end is None else f"{shoe.cut_cards_from_end} from end",
        house.prices.tie,
        f"{commission.rate}, {mode} to {commission.rounding_unit}",
    )
