"""Game over HTTP: tables, shoes and coups.

A command answers when its events are committed, with their ids: ``OK``, or ``OK_REPLAY`` without any where
what was asked for is so already. Cards come from a virtual shoe, or with the opening of a coup at a table
whose cards are recorded; no answer shows a card before its coup is dealt.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from sqlalchemy import Engine

from schemas.cards import Card, parse_card
from schemas.commands.game import (
    CloseBetting,
    CloseTable,
    CommitShoe,
    CorrectCoup,
    EndShoe,
    GameCommand,
    LeaveSeat,
    LoadShoe,
    OpenCoup,
    OpenTable,
    SetHouse,
    TakeSeat,
    VoidCoup,
)
from schemas.events.base import CoupNumber, Name, OperatorName, Seat, game_stream
from schemas.house import House, HouseError, parse_house, shipped_houses
from schemas.refusal import Refusal
from services.game import store
from services.game.core.state import CoupKey, EndedCoup, Result, Table, TableKey
from services.runtime.http import ask, service_app
from services.runtime.writer import Writer

HouseDocument = Annotated[
    str | dict[str, Any],
    Field(description="The id of a shipped house, or a whole house document.", examples=["nl"]),
]

_CARDS_MAX: Final = 16
"""More than any coup has, so that a record with too many is refused in words and not by its length."""


class _Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")

    operator: OperatorName
    table: Name


class OpenTableBody(_Body):
    """A table, and the house that it opens under."""

    house: HouseDocument
    shard: Name
    seats: int | None = Field(ge=1, le=99, default=None)
    source: Literal["virtual", "recorded"]


class SetHouseBody(_Body):
    """The house to play by from the next coup on."""

    house: HouseDocument


class OpenCoupBody(_Body):
    """A coup; at a table with recorded cards with all of them, in the order in which they left the shoe."""

    shoe: Name
    coup: CoupNumber
    cards: list[str] | None = Field(max_length=_CARDS_MAX, default=None, examples=[["9S", "8H", "KS", "10H"]])
    dealer_seat: Seat | None = None
    dealer: Name | None = None
    video: str | None = Field(max_length=512, default=None)


class CorrectCoupBody(_Body):
    """A concluded coup, and all of its cards as they lay, in dealing order. Approver is not who asks."""

    shoe: Name
    coup: CoupNumber
    cards: list[str] = Field(max_length=_CARDS_MAX, examples=[["9S", "8H", "KS", "10H"]])
    reason: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    initiator: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    approver: Annotated[str, StringConstraints(min_length=1, max_length=128)]


def game_app(writer: Writer[GameCommand], reader: Engine) -> FastAPI:
    """The application. ``reader`` is an engine for queries."""
    app = service_app(writer, "Sabot game", "Tables, shoes and coups. It never sees a balance.")
    _table_routes(app, writer)
    _shoe_routes(app, writer)
    _coup_routes(app, writer)
    _queries(app, reader)
    return app


def _table_routes(app: FastAPI, writer: Writer[GameCommand]) -> None:
    @app.post("/v1/tables/open", tags=["tables"])
    async def open_table(body: OpenTableBody) -> dict[str, Any]:
        """Open a table under a house. Other content than at its first opening is refused."""
        command = OpenTable(
            operator=body.operator,
            table=body.table,
            house=_house(body.house),
            shard=body.shard,
            seats=body.seats,
            source=body.source,
        )
        return await _done(writer, command)

    @app.post("/v1/tables/close", tags=["tables"])
    async def close_table(body: CloseTable) -> dict[str, Any]:
        """Close a table for good. Every seed that it was committed to is revealed."""
        return await _done(writer, body)

    @app.post("/v1/houses/set", tags=["tables"])
    async def set_house(body: SetHouseBody) -> dict[str, Any]:
        """Play by another house from the next coup on."""
        command = SetHouse(operator=body.operator, table=body.table, house=_house(body.house))
        return await _done(writer, command)

    @app.post("/v1/seats/take", tags=["tables"])
    async def take_seat(body: TakeSeat) -> dict[str, Any]:
        """Somebody sits down."""
        return await _done(writer, body)

    @app.post("/v1/seats/leave", tags=["tables"])
    async def leave_seat(body: LeaveSeat) -> dict[str, Any]:
        """Somebody gets up; where players deal, a dealer passes the shoe on."""
        return await _done(writer, body)


def _shoe_routes(app: FastAPI, writer: Writer[GameCommand]) -> None:
    @app.post("/v1/shoes/commit", tags=["shoes"])
    async def commit_shoe(body: CommitShoe) -> dict[str, Any]:
        """Choose a secret seed for a virtual shoe and publish its commitment."""
        return await _done(writer, body)

    @app.post("/v1/shoes/load", tags=["shoes"])
    async def load_shoe(body: LoadShoe) -> dict[str, Any]:
        """Give a committed shoe somebody else's entropy: it is shuffled, burned and ready."""
        return await _done(writer, body)

    @app.post("/v1/shoes/end", tags=["shoes"])
    async def end_shoe(body: EndShoe) -> dict[str, Any]:
        """Take a shoe out of play between two coups; a virtual one's seed is revealed."""
        return await _done(writer, body)


def _coup_routes(app: FastAPI, writer: Writer[GameCommand]) -> None:
    @app.post("/v1/coups/open", tags=["coups"])
    async def open_coup(body: OpenCoupBody) -> dict[str, Any]:
        """Open betting. Recorded cards are checked against house and shoe before anything is written."""
        command = OpenCoup(
            operator=body.operator,
            table=body.table,
            shoe=body.shoe,
            coup=body.coup,
            cards=None if body.cards is None else _cards(body.cards),
            dealer_seat=body.dealer_seat,
            dealer=body.dealer,
            video=body.video,
        )
        return await _done(writer, command)

    @app.post("/v1/coups/close", tags=["coups"])
    async def close_betting(body: CloseBetting) -> dict[str, Any]:
        """No more bets. The coup is dealt as soon as wallet has sealed them."""
        return await _done(writer, body)

    @app.post("/v1/coups/void", tags=["coups"])
    async def void_coup(body: VoidCoup) -> dict[str, Any]:
        """The coup does not count: every stake goes back. If it has a result, two people must say so."""
        return await _done(writer, body)

    @app.post("/v1/coups/correct", tags=["coups"])
    async def correct_coup(body: CorrectCoupBody) -> dict[str, Any]:
        """The coup had another result, which is worked out from these cards: it is paid anew."""
        command = CorrectCoup(
            operator=body.operator,
            table=body.table,
            shoe=body.shoe,
            coup=body.coup,
            cards=_cards(body.cards),
            reason=body.reason,
            initiator=body.initiator,
            approver=body.approver,
        )
        return await _done(writer, command)


def _queries(app: FastAPI, reader: Engine) -> None:
    @app.get("/v1/tables/{operator}/{table}", tags=["tables"])
    def table_now(operator: str, table: str) -> dict[str, Any]:
        """A table, and what is in play on it."""
        with reader.connect() as db:
            found = store.find_table(db, TableKey(operator, table))
        if found is None:
            raise Refusal("TABLE_UNKNOWN", "table", f"operator {operator} has no table {table}")
        return _table_document(found)

    @app.get("/v1/coups/{operator}/{table}/{shoe}/{coup}", tags=["coups"])
    def coup_result(operator: str, table: str, shoe: str, coup: CoupNumber) -> dict[str, Any]:
        """A coup that is over: cards and outcome in force, or that it is void; and what was said before."""
        key = CoupKey(operator, table, shoe, coup)
        with reader.connect() as db:
            ended = store.find_coups(db, [key]).get(key)
        if ended is None:
            raise Refusal("COUP_UNKNOWN", "coup", f"no coup {coup} of shoe {shoe} at table {table} is over")
        return _coup_document(key, ended)


async def _done(writer: Writer[GameCommand], command: GameCommand) -> dict[str, Any]:
    events: list[str] = await ask(writer, command)
    return {"code": "OK" if events else "OK_REPLAY", "events": events}


def _house(asked: str | dict[str, Any]) -> House:
    if isinstance(asked, dict):
        try:
            return parse_house(asked, str(asked.get("id", "unnamed")))
        except HouseError as error:
            raise Refusal("HOUSE_INVALID", f"house.{error.problems[0][0]}", str(error)) from None
    shipped = shipped_houses()
    if asked not in shipped:
        words = f"there is no house {asked!r}: name one of {', '.join(shipped)}, or send a whole document"
        raise Refusal("HOUSE_UNKNOWN", "house", words)
    return shipped[asked]


def _cards(texts: list[str]) -> tuple[Card, ...]:
    cards = []
    for place, text in enumerate(texts):
        try:
            cards.append(parse_card(text))
        except ValueError as error:
            raise Refusal("INVALID", f"cards[{place}]", str(error)) from None
    return tuple(cards)


def _table_document(table: Table) -> dict[str, Any]:
    coup, shoe = table.coup, table.live.get(table.shoe) if table.shoe is not None else None
    return {
        "operator": table.operator,
        "table": table.name,
        "shard": table.shard,
        "source": table.source,
        "closed": table.closed,
        "house": table.house.id,
        "house_number": table.house_number,
        "seats": table.seats,
        "taken": list(table.taken),
        "dealer_seat": table.dealer,
        "shoe": None
        if shoe is None
        else {"shoe": shoe.name, "decks": shoe.decks, "cards_out": shoe.cards_out},
        "committed": [each.name for each in table.live.values() if not each.loaded],
        "coup": None
        if coup is None
        else {
            "shoe": coup.shoe,
            "coup": coup.number,
            "dealer_seat": coup.dealer_seat,
            "phase": "betting" if coup.closed_at is None else "sealing",
        },
    }


def _coup_document(key: CoupKey, coup: EndedCoup) -> dict[str, Any]:
    """Cards that were recorded and never dealt, because the coup is void, are not shown."""
    return {
        "operator": key.operator,
        "table": key.table,
        "shoe": key.shoe,
        "coup": key.coup,
        "status": coup.status,
        "house_number": coup.house_number,
        "dealer_seat": coup.dealer_seat,
        "cards": list(coup.in_force.cards),
        "outcome": coup.outcome,
        "player_total": coup.player_total,
        "banker_total": coup.banker_total,
        "version": coup.in_force.version,
        "history": [_result_document(key, result) for result in coup.results],
    }


def _result_document(key: CoupKey, result: Result) -> dict[str, Any]:
    """What was said of the coup, once, and by which event."""
    return {
        "version": result.version,
        "event": f"{game_stream(key.operator, key.table)}/{result.sequence}",
        "status": "voided" if result.outcome is None else "concluded",
        "cards": list(result.cards),
        "outcome": result.outcome,
        "player_total": result.player_total,
        "banker_total": result.banker_total,
        "reason": result.reason,
        "initiator": result.initiator,
        "approver": result.approver,
    }
