"""``sabot houses``: the shipped houses, and whether a house file of one's own can run."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer
from rich.padding import Padding

from schemas.house import Burn, House, HouseError, Shuffle, load_house, shipped_houses
from services.cli.console import console, fail, print_json
from services.game.core.odds import edges, percent


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
    for house in known.values():
        _print(house)


def _checked(path: Path) -> dict[str, House]:
    house = load_house(path.read_text("utf-8"), path.name)
    return {house.id: house}


def _print(house: House) -> None:
    shoe, deal, prices, commission = house.shoe, house.deal, house.prices, house.commission
    console.print(f"[b]{house.id}[/b]  {house.name}")
    shuffled = "shuffled for every round" if shoe.shuffle is Shuffle.EVERY_ROUND else "shuffled once a shoe"
    burned = "no burn" if shoe.burn is Burn.NONE else "the first card and as many as its value burned"
    cut = (
        "no cut card"
        if shoe.cut_cards_from_end is None
        else f"cut card {shoe.cut_cards_from_end} from the end"
    )
    _line("cards", f"{shoe.decks} decks, {shuffled}, {burned}, {cut}")
    order = " ".join(side[0].upper() for side in deal.order)
    dealt = (
        "dealt by the players, passed on a Player win"
        if deal.dealt_by == "players"
        else "dealt by a croupier"
    )
    squeeze = "" if deal.squeeze == "none" else "; the largest Player bet looks at Player's cards"
    _line("deal", f"{order}, {dealt}{squeeze}; tables of {' or '.join(map(str, house.table.seats))} seats")
    rate = percent(Fraction(commission.rate), 1).removesuffix(".0")
    unit = "the minor unit" if commission.rounding_unit == "minor" else commission.rounding_unit
    mode = commission.rounding_mode.value.replace("_", " ")
    _line(
        "pays",
        f"Player {prices.player}, Banker {prices.banker} less {rate} % ({mode} to {unit}), Tie {prices.tie}",
    )
    found = edges(house)
    _line("edge", ", ".join(f"{spot.title()} {percent(edge)} %" for spot, edge in found.items()))
    for note in house.notes:
        _line("note", note)
    console.print()


def _line(label: str, text: str) -> None:
    console.print(Padding(f"[dim]{label:6}[/dim]{text}", (0, 0, 0, 4)))
