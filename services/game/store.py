"""Game's tables: projections of its events, and the undealt secrets.

``game_undealt_seed`` and ``game_undealt_cards`` are what no event may show yet; they are kept with the
events and never made again from them. All else is a projection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import sqlalchemy as sa
from pydantic import TypeAdapter
from sqlalchemy import Connection
from sqlmodel import Field, SQLModel

from schemas.house import House
from services.game.core.state import (
    Changes,
    CoupKey,
    EndedCoup,
    GameState,
    HouseKey,
    Result,
    Shoe,
    ShoeKey,
    Table,
    TableKey,
)
from services.runtime import bulk
from services.runtime.lookup import Lookup
from services.runtime.tables import KEEP, REPLACE, Access, table_of


class TableRow(SQLModel, table=True):
    """A table and what is in play on it, but for its houses."""

    __tablename__ = "game_table"

    operator: str = Field(primary_key=True)
    name: str = Field(primary_key=True)
    house_number: int
    state: str


class HouseRow(SQLModel, table=True):
    """A house that a table has played by. Number 1 is the one that it was opened with."""

    __tablename__ = "game_house"

    operator: str = Field(primary_key=True)
    table_name: str = Field(primary_key=True)
    number: int = Field(primary_key=True)
    house: str


class ShoeRow(SQLModel, table=True):
    """A shoe: how far it was dealt, and of a recorded one which cards came out."""

    __tablename__ = "game_shoe"

    operator: str = Field(primary_key=True)
    table_name: str = Field(primary_key=True)
    shoe: str = Field(primary_key=True)
    state: str


class CoupRow(SQLModel, table=True):
    """A coup that is over."""

    __tablename__ = "game_coup"

    operator: str = Field(primary_key=True)
    table_name: str = Field(primary_key=True)
    shoe: str = Field(primary_key=True)
    coup: int = Field(primary_key=True)
    status: str
    cards: str
    dealer_seat: int | None = None
    house_number: int
    outcome: str | None = None
    player_total: int | None = None
    banker_total: int | None = None
    version: int = Field(default=1, sa_column_kwargs={"server_default": "1"})
    """Of what is in force; what stands before it here."""
    sequence: int | None = Field(default=None, sa_type=sa.BigInteger)
    """The event that said so: its place in the stream of the table, and its hash."""
    hash: str | None = Field(default=None, max_length=64)
    results: str | None = None
    """Where something else was in force before: all of it, as JSON."""


class UndealtSeedRow(SQLModel, table=True):
    """The seed of a virtual shoe that has not ended."""

    __tablename__ = "game_undealt_seed"

    operator: str = Field(primary_key=True)
    table_name: str = Field(primary_key=True)
    shoe: str = Field(primary_key=True)
    seed: bytes


class UndealtCardsRow(SQLModel, table=True):
    """The recorded cards of a coup that has not been dealt, or was voided before it was."""

    __tablename__ = "game_undealt_cards"

    operator: str = Field(primary_key=True)
    table_name: str = Field(primary_key=True)
    shoe: str = Field(primary_key=True)
    coup: int = Field(primary_key=True)
    cards: str


_TABLE: Final = table_of(TableRow)
_HOUSE: Final = table_of(HouseRow)
_SHOE: Final = table_of(ShoeRow)
_COUP: Final = table_of(CoupRow)
_SEED: Final = table_of(UndealtSeedRow)
_CARDS: Final = table_of(UndealtCardsRow)

PROJECTIONS: Final = (_TABLE, _HOUSE, _SHOE, _COUP)
"""What can be dropped and made again from events and secrets."""

ACCESS: Final = Access(
    own={
        "game_table": KEEP,
        "game_house": KEEP,
        "game_shoe": KEEP,
        "game_coup": KEEP,
        "game_undealt_seed": REPLACE,
        "game_undealt_cards": REPLACE,
    },
    secret=frozenset({"game_undealt_seed", "game_undealt_cards"}),
)

_TABLES: Final = TypeAdapter(Table)
_SHOES: Final = TypeAdapter(Shoe)
_RESULTS: Final = TypeAdapter(tuple[Result, ...])
_TABLES_APART: Final = TypeAdapter(dict[str, Any])
_HOUSES_APART: Final = {"house", "opened_with"}
_SHOE_LOOKUP: Final = Lookup(_SHOE, "operator", "table_name", "shoe")
_COUP_LOOKUP: Final = Lookup(_COUP, "operator", "table_name", "shoe", "coup")


def load_state(db: Connection) -> GameState:
    """The tables, and the secrets of what is in play."""
    state = GameState()
    houses = {
        (row.operator, row.table_name, row.number): House.model_validate_json(row.house)
        for row in db.execute(sa.select(_HOUSE))
    }
    for row in db.execute(sa.select(_TABLE)):
        state.tables[TableKey(row.operator, row.name)] = _table_of_row(row, houses)
    for row in db.execute(sa.select(_SEED)):
        state.undealt.seeds[ShoeKey(row.operator, row.table_name, row.shoe)] = row.seed
    for table in state.tables.values():
        if table.coup is not None:
            key = table.coup_key(table.coup.shoe, table.coup.number)
            if (cards := find_undealt_cards(db, key)) is not None:
                state.undealt.cards[key] = cards
    return state


def _table_of_row(row: Any, houses: Mapping[tuple[str, str, int], House]) -> Table:
    document = _TABLES_APART.validate_json(row.state)
    document["house"] = houses[row.operator, row.name, row.house_number]
    document["opened_with"] = houses[row.operator, row.name, 1]
    return _TABLES.validate_python(document)


def find_table(db: Connection, key: TableKey) -> Table | None:
    """The table of this name, as the last commit left it."""
    of_table = (_TABLE.c.operator == key.operator, _TABLE.c.name == key.table)
    row = db.execute(sa.select(_TABLE).where(*of_table)).one_or_none()
    if row is None:
        return None
    numbers = sa.select(_HOUSE).where(
        _HOUSE.c.operator == key.operator,
        _HOUSE.c.table_name == key.table,
        _HOUSE.c.number.in_((1, row.house_number)),
    )
    houses = {(*key, each.number): House.model_validate_json(each.house) for each in db.execute(numbers)}
    return _table_of_row(row, houses)


def find_undealt_cards(db: Connection, key: CoupKey) -> tuple[str, ...] | None:
    """The recorded cards of a coup that no event has shown."""
    query = sa.select(_CARDS.c.cards).where(
        _CARDS.c.operator == key.operator,
        _CARDS.c.table_name == key.table,
        _CARDS.c.shoe == key.shoe,
        _CARDS.c.coup == key.coup,
    )
    cards = db.scalar(query)
    return None if cards is None else tuple(cards.split())


def find_shoes(db: Connection, keys: Iterable[ShoeKey]) -> dict[ShoeKey, Shoe]:
    """The shoes among these keys that there are."""
    return {
        ShoeKey(row.operator, row.table_name, row.shoe): _SHOES.validate_json(row.state)
        for row in _SHOE_LOOKUP.find(db, keys)
    }


def find_coups(db: Connection, keys: Iterable[CoupKey]) -> dict[CoupKey, EndedCoup]:
    """The coups among these keys that are over."""
    return {
        CoupKey(row.operator, row.table_name, row.shoe, row.coup): EndedCoup(
            status=row.status,
            cards=tuple(row.cards.split()),
            dealer_seat=row.dealer_seat,
            house_number=row.house_number,
            results=_results_of_row(row),
        )
        for row in _COUP_LOOKUP.find(db, keys)
    }


def _results_of_row(row: Any) -> tuple[Result, ...]:
    """All that was said of a coup. Almost always that is one result, and then the row itself says it."""
    if row.results is not None:
        return _RESULTS.validate_json(row.results)
    cards = tuple(row.cards.split()) if row.status == "concluded" else ()
    return (
        Result(
            row.version,
            row.sequence,
            row.hash,
            cards,
            row.outcome,
            row.player_total,
            row.banker_total,
        ),
    )


def find_houses(db: Connection, keys: Iterable[HouseKey]) -> dict[HouseKey, House]:
    """The houses among these keys that there are."""
    return {key: house for key in keys if (house := find_house(db, *key)) is not None}


def find_house(db: Connection, operator: str, table: str, number: int) -> House | None:
    """A house that a table has played by."""
    query = sa.select(_HOUSE.c.house).where(
        _HOUSE.c.operator == operator, _HOUSE.c.table_name == table, _HOUSE.c.number == number
    )
    document = db.scalar(query)
    return None if document is None else House.model_validate_json(document)


def count_shoes(db: Connection, operator: str, table: str) -> int:
    """How many shoes a table has had."""
    query = sa.select(sa.func.count()).where(_SHOE.c.operator == operator, _SHOE.c.table_name == table)
    return db.scalar(query) or 0


def save_changes(db: Connection, changes: Changes) -> None:
    """Bring the tables up to the state."""
    if changes.tables:
        _save_tables(db, changes.tables)
    if changes.shoes:
        bulk.upsert(
            db,
            _SHOE,
            [
                {"operator": o, "table_name": t, "shoe": s, "state": _SHOES.dump_json(shoe).decode()}
                for (o, t, s), shoe in changes.shoes.items()
            ],
        )
    if changes.coups:
        bulk.upsert(db, _COUP, [_coup_row(key, coup) for key, coup in changes.coups.items()])
    _keep_or_drop(db, _SEED, changes.seeds)
    cards = {key: None if each is None else " ".join(each) for key, each in changes.cards.items()}
    _keep_or_drop(db, _CARDS, cards)


def _coup_row(key: CoupKey, coup: EndedCoup) -> dict[str, Any]:
    return {
        "operator": key.operator,
        "table_name": key.table,
        "shoe": key.shoe,
        "coup": key.coup,
        "status": coup.status,
        "cards": " ".join(coup.cards),
        "dealer_seat": coup.dealer_seat,
        "house_number": coup.house_number,
        "outcome": coup.outcome,
        "player_total": coup.player_total,
        "banker_total": coup.banker_total,
        "version": coup.in_force.version,
        "sequence": coup.in_force.sequence,
        "hash": coup.in_force.hash,
        "results": _RESULTS.dump_json(coup.results).decode() if len(coup.results) > 1 else None,
    }


def _save_tables(db: Connection, tables: dict[TableKey, Table]) -> None:
    bulk.upsert(
        db,
        _TABLE,
        [
            {
                "operator": key.operator,
                "name": key.table,
                "house_number": table.house_number,
                "state": _TABLES.dump_json(table, exclude=_HOUSES_APART).decode(),
            }
            for key, table in tables.items()
        ],
    )


def save_house(db: Connection, key: TableKey, number: int, house: House) -> None:
    """Write a house that a table begins to play by."""
    row = {
        "operator": key.operator,
        "table_name": key.table,
        "number": number,
        "house": house.model_dump_json(),
    }
    bulk.upsert(db, _HOUSE, [row])


def _keep_or_drop(
    db: Connection, table: sa.Table, secrets: Mapping[ShoeKey, Any] | Mapping[CoupKey, Any]
) -> None:
    """Write the secrets that there are, and remove those that are secrets no longer (None)."""
    *keys, secret = (column.name for column in table.columns)
    kept, gone = [], []
    for key, value in secrets.items():
        row = dict(zip(keys, key, strict=True))
        if value is None:
            gone.append(row)
        else:
            kept.append({**row, secret: value})
    bulk.delete(db, table, gone)
    bulk.upsert(db, table, kept)
