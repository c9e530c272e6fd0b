"""Decisions about a table: opening and closing it, and its house.

A function here returns the events of one command, or refuses it; nothing is changed. A command that asks
for what is so already makes no events and is not refused.
"""

from __future__ import annotations

from schemas.commands.game import (
    CloseTable,
    OpenTable,
    SetHouse,
)
from schemas.events.base import Payload
from schemas.events.game import HouseSet, TableClosed, TableOpened
from schemas.house import House
from schemas.refusal import Refusal
from services.game.core.loading import end_shoe
from services.game.core.seating import first_dealer
from services.game.core.state import GameState, Table, TableKey


def open_table(state: GameState, command: OpenTable) -> list[Payload]:
    """Open a table under a house; nothing if it was opened with the same content.

    Raises:
        Refusal: TABLE_KNOWN, TABLE_CLOSED, SEATS.
    """
    seats = command.seats if command.seats is not None else command.house.table.seats[0]
    known = state.tables.get(TableKey(command.operator, command.table))
    if known is not None:
        _must_be_as_opened(known, command, seats)
        return []
    _must_allow(command.house, seats, "seats")
    return [
        TableOpened(
            operator=command.operator,
            table=command.table,
            shard=command.shard,
            seats=seats,
            source=command.source,
        ),
        HouseSet(operator=command.operator, table=command.table, house_number=1, house=command.house),
    ]


def _must_be_as_opened(known: Table, command: OpenTable, seats: int) -> None:
    if known.closed:
        raise Refusal(
            "TABLE_CLOSED", "table", f"table {known.name} was closed and stays so: open one under a new name"
        )
    differing = (
        ("house", known.opened_with != command.house),
        ("shard", known.shard != command.shard),
        ("seats", known.seats != seats),
        ("source", known.source != command.source),
    )
    for field, differs in differing:
        if differs:
            raise Refusal("TABLE_KNOWN", field, f"table {known.name} is open already, with another {field}")


def _must_allow(house: House, seats: int, field: str) -> None:
    if seats not in house.table.seats:
        allowed = " or ".join(map(str, house.table.seats))
        raise Refusal("SEATS", field, f"house {house.id} has tables of {allowed} seats, not of {seats}")


def set_house(state: GameState, command: SetHouse) -> list[Payload]:
    """Play by another house from the next coup on; nothing if it is in force already.

    Raises:
        Refusal: TABLE_UNKNOWN, TABLE_CLOSED, TABLE_BUSY, SEATS; SHOE_IN_PLAY where a shoe is committed or
            in play that the new house would have made up otherwise.
    """
    table = state.table(command.operator, command.table)
    if command.house == table.house:
        return []
    must_be_between_coups(table, "house")
    _must_allow(command.house, table.seats, "house.table.seats")
    if table.source == "virtual" and table.live and command.house.shoe != table.house.shoe:
        raise Refusal(
            "SHOE_IN_PLAY",
            "house.shoe",
            f"shoe {next(iter(table.live))} was made up by the present house: "
            "end it before a house with other shoe rules is set",
        )
    events: list[Payload] = [
        HouseSet(
            operator=table.operator,
            table=table.name,
            house_number=table.house_number + 1,
            house=command.house,
        )
    ]
    if command.house.deal.dealt_by == "players" and table.shoe is not None:
        events += first_dealer(table, table.shoe, table.taken)
    return events


def must_be_between_coups(table: Table, field: str) -> None:
    """Refuse with TABLE_BUSY where a coup is open."""
    if table.coup is not None:
        raise Refusal(
            "TABLE_BUSY",
            field,
            f"coup {table.coup.number} of shoe {table.coup.shoe} is still open at table {table.name}",
        )


def close_table(state: GameState, command: CloseTable) -> list[Payload]:
    """Close a table; nothing if it is closed. Its shoes end, and every seed it was committed to is revealed.

    Raises:
        Refusal: TABLE_UNKNOWN, TABLE_BUSY.
    """
    known = state.tables.get(TableKey(command.operator, command.table))
    if known is not None and known.closed:
        return []
    table = state.table(command.operator, command.table)
    must_be_between_coups(table, "table")
    return [
        *(end_shoe(state, table, shoe, "table_closed") for shoe in table.live.values()),
        TableClosed(operator=table.operator, table=table.name, reason=command.reason),
    ]
