"""Decisions about the seats, and who has the shoe where players deal.

There the shoe lies before one of the taken seats. It goes to the lowest of them when it is loaded and
nobody has it, and on to the next one up, round the table, when Player wins or its dealer gets up. Who has
it when a shoe ends has the next one too, unless he leaves in between. At a table with recorded cards none
of this is decided: the record says who dealt.
"""

from __future__ import annotations

from schemas.commands.game import (
    LeaveSeat,
    TakeSeat,
)
from schemas.events.base import Payload
from schemas.events.game import SeatLeft, SeatTaken, ShoePassed
from schemas.refusal import Refusal
from services.game.core.state import GameState, Table


def take_seat(state: GameState, command: TakeSeat) -> list[Payload]:
    """Somebody sits down; nothing if the seat is taken already.

    Raises:
        Refusal: TABLE_UNKNOWN, TABLE_CLOSED, SEAT.
    """
    table = state.table(command.operator, command.table)
    _must_exist(table, command.seat)
    if command.seat in table.taken:
        return []
    events: list[Payload] = [SeatTaken(operator=table.operator, table=table.name, seat=command.seat)]
    if table.players_deal and table.shoe is not None:
        events += first_dealer(table, table.shoe, (*table.taken, command.seat))
    return events


def leave_seat(state: GameState, command: LeaveSeat) -> list[Payload]:
    """Somebody gets up; nothing if the seat is free already. A dealer who leaves passes the shoe on.

    Raises:
        Refusal: TABLE_UNKNOWN, TABLE_CLOSED, SEAT.
    """
    table = state.table(command.operator, command.table)
    _must_exist(table, command.seat)
    if command.seat not in table.taken:
        return []
    events: list[Payload] = [SeatLeft(operator=table.operator, table=table.name, seat=command.seat)]
    if table.source == "virtual" and table.dealer == command.seat and table.shoe is not None:
        left = tuple(seat for seat in table.taken if seat != command.seat)
        heir = next_seat(left, command.seat)
        if heir is not None:
            events.append(
                ShoePassed(
                    operator=table.operator,
                    table=table.name,
                    shoe=table.shoe,
                    from_seat=command.seat,
                    to_seat=heir,
                    reason="dealer_left",
                )
            )
    return events


def _must_exist(table: Table, seat: int) -> None:
    if seat > table.seats:
        raise Refusal(
            "SEAT", "seat", f"table {table.name} has {table.seats} seats, and none is number {seat}"
        )


def first_dealer(table: Table, shoe: str, taken: tuple[int, ...]) -> list[Payload]:
    """The shoe goes to the lowest of these taken seats, if nobody has it."""
    if table.source == "recorded" or table.dealer is not None or not taken:
        return []
    return [
        ShoePassed(
            operator=table.operator,
            table=table.name,
            shoe=shoe,
            from_seat=None,
            to_seat=min(taken),
            reason="first_dealer",
        )
    ]


def next_seat(taken: tuple[int, ...], seat: int) -> int | None:
    """The next taken seat going up from ``seat`` and round the table; ``seat`` itself comes last."""
    return min(taken, key=lambda each: (each <= seat, each), default=None)
