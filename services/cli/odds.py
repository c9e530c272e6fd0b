"""``sabot odds``: the exact edges of a house."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from schemas.house import House, HouseError, load_house, parse_house, shipped_houses
from services.cli.console import console, fail, print_json
from services.game.core.odds import Statement, percent, statement


def odds(
    house: Annotated[str, typer.Argument(help="A house's id (nl, fr, de, dk, lt), or a house file (TOML).")],
    decks: Annotated[
        int | None, typer.Option(help="Another number of decks, 1 to 12.", min=1, max=12)
    ] = None,
    tie: Annotated[
        str | None, typer.Option(help='Another price of the tie, such as "9 to 1" or "9 for 1".')
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print integer counts and fractions as JSON.")] = False,
) -> None:
    """Work out a house's edges by counting every ordered deal without replacement. Nothing is quoted."""
    try:
        chosen = _house(house, decks, tie)
    except HouseError as error:
        fail(str(error), status=2)
    found = statement(chosen)
    if json:
        print_json(_document(chosen, found))
    else:
        _print(chosen, found)


def _house(name: str, decks: int | None, tie: str | None) -> House:
    shipped = shipped_houses()
    if name in shipped:
        house = shipped[name]
    elif Path(name).is_file():
        house = load_house(Path(name).read_text("utf-8"), name)
    else:
        fail(f"there is no house {name!r}; there are {', '.join(shipped)}, or name a house file", status=2)
    document = house.model_dump(mode="json", exclude_none=True)
    if decks is not None:
        document["shoe"]["decks"] = decks
    if tie is not None:
        document["prices"]["tie"] = tie
    return parse_house(document, name)


def _document(house: House, found: Statement) -> dict[str, Any]:
    counts = found.counts
    return {
        "house": house.id,
        "decks": counts.decks,
        "prices": house.prices.model_dump(),
        "commission_rate": house.commission.rate,
        "ordered_deals": counts.total,
        "wins": dict(counts.wins),
        "cards": {str(cards): number for cards, number in counts.cards.items()},
        "edges": {spot: _edge(edge) for spot, edge in found.edges.items()},
        "tie": {
            "in_force": f"{found.tie_profit} to 1",
            "edges": {f"{profit} to 1": _edge(edge) for profit, edge in found.tie_edges.items()},
        },
        "claims": [
            {
                "spot": claim.spot,
                "claimed_percent": claim.claimed_percent,
                "exact_percent": percent(claim.edge, 4),
                "agrees": claim.agrees,
            }
            for claim in found.claims
        ],
    }


def _edge(edge: Fraction) -> dict[str, Any]:
    return {
        "numerator": edge.numerator,
        "denominator": edge.denominator,
        "fraction": f"{edge.numerator}/{edge.denominator}",
        "percent": percent(edge, 4),
    }


def _print(house: House, found: Statement) -> None:
    counts = found.counts
    console.print(f"[b]{house.name}[/b], {counts.decks} decks, {counts.total:,} ordered deals")
    table = Table()
    table.add_column("bet")
    for column in ("pays", "wins in so many deals", "house edge"):
        table.add_column(column, justify="right", overflow="fold")
    pays = house.prices.model_dump()
    rate = percent(Fraction(house.commission.rate), 1).removesuffix(".0")
    for spot, edge in found.edges.items():
        price = pays[spot] + (f" less {rate} %" if spot == "banker" else "")
        table.add_row(spot, price, f"{counts.wins[spot]:,}", f"{percent(edge, 4)} %")  # type: ignore[index]
    console.print(table)
    for spot, edge in found.edges.items():
        console.print(f"{spot}: {edge.numerator}/{edge.denominator} of the stake")
    for profit, edge in found.tie_edges.items():
        mark = "in force here" if profit == found.tie_profit else "if the house paid that"
        console.print(f"tie at {profit} to 1 ({profit + 1} for 1): {percent(edge, 4)} %, {mark}")
    for claim in found.claims:
        verdict = "agrees" if claim.agrees else f"[b]is wrong[/b]: it is {percent(claim.edge, 2)} %"
        console.print(f"the sheet claims {claim.claimed_percent} % for {claim.spot}: {verdict}")
