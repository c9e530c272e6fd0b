"""Bets over HTTP: one by one, and in batches.

These two routes carry nearly all that comes. They read the body once, by the same models as the others, and
write the answer's bytes themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from pydantic import ValidationError
from pydantic_core import to_json
from sqlalchemy import Engine

from schemas.commands.wallet import PlaceBet, WalletCommand
from schemas.events.base import CoupNumber, Name, OperatorName
from schemas.money import format_amount
from schemas.refusal import Refusal
from services.runtime.callers import Caller, require
from services.runtime.http import ask, ask_all, invalid, problem_body
from services.runtime.roles import Right
from services.runtime.security import Asking
from services.runtime.writer import Writer
from services.wallet import queries
from services.wallet.api.asking import WORDS, body_of, command_of, response_of
from services.wallet.api.bodies import BetBody, BetsBody
from services.wallet.api.documents import problems, responses
from services.wallet.core.state import CoupKey
from services.wallet.dispatch import Dispatcher
from services.wallet.service import Answer

_REPEAT_SECONDS: Final = 0.5
_DEBIT_SECONDS: Final = 10.0
_ASK_AGAIN_SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.2)
"""A coup that wallet has not heard of yet is waited for: whoever bets as soon as game has opened one may be
quicker than game's word to wallet."""


def add_routes(
    app: FastAPI, writer: Writer[WalletCommand], reader: Engine, dispatcher: Dispatcher | None
) -> None:
    """Add them to the application."""

    @app.post(
        "/v1/bets",
        tags=["bets"],
        response_model=None,
        responses=responses(
            {
                "code": "OK",
                "tx": "b-2026-000017",
                "bet": "main.1",
                "balance": "75.00",
                "currency": "EUR",
            }
        ),
        openapi_extra=_json_body("BetBody"),
    )
    async def bet(request: Request, caller: Asking) -> Response:
        """Place a bet. A refusal for lack of money is final: another try needs another ``tx``."""
        try:
            body = BetBody.model_validate_json(await request.body())
        except ValidationError as error:
            return invalid(error, before=0)
        command = _command(body, caller)
        return response_of(await _answered(writer, command, dispatcher), command.tx)

    @app.post(
        "/v1/bets/batch",
        tags=["bets"],
        response_model=None,
        responses=_batch_responses(),
        openapi_extra=_json_body("BetsBody"),
    )
    async def batch(request: Request, caller: Asking) -> Response:
        """Place up to 1,000 bets. Each is taken or refused by itself, in their order; the answer has a row
        each.

        A row is what the bet alone would have been answered: its body, or its problem document.
        """
        try:
            rows = BetsBody.model_validate_json(await request.body()).bets
        except ValidationError as error:
            return invalid(error, before=0)
        answers = await _answers(writer, rows, caller, dispatcher)
        return Response(to_json({"code": "OK", "bets": answers}), media_type="application/json")

    @app.get("/v1/coups/{operator}/{table}/{shoe}/{coup}/bets", tags=["bets"], responses=problems())
    def bets(
        operator: OperatorName, table: Name, shoe: Name, coup: CoupNumber, caller: Asking
    ) -> list[dict[str, Any]]:
        """The bets of a coup and how they ended."""
        require(caller, Right.BETS_READ, operator)
        with reader.connect() as db:
            records = queries.bets_of_coup(db, CoupKey(operator, table, shoe, coup))
        return [
            {
                "account": each.account,
                "tx": each.tx,
                "seat": each.seat,
                "spot": each.spot,
                "stake": format_amount(each.stake, each.currency),
                "returned": format_amount(each.returned, each.currency),
                "commission": format_amount(each.commission, each.currency),
                "currency": each.currency,
                "status": each.status,
                "funding": each.funding,
            }
            for each in records
        ]


def _command(body: BetBody, caller: Caller) -> PlaceBet:
    operator = body.operator or caller.operator
    require(caller, Right.BET, operator)
    command: PlaceBet = command_of(body, operator, caller.actor)
    return command


async def _ask_patiently(writer: Writer[WalletCommand], command: PlaceBet) -> Answer:
    for seconds in _ASK_AGAIN_SECONDS:
        try:
            answer: Answer = await ask(writer, command)
        except Refusal as refusal:
            if refusal.code != "COUP_UNKNOWN":
                raise
            await asyncio.sleep(seconds)
        else:
            return answer
    last: Answer = await ask(writer, command)
    return last


async def _answered(
    writer: Writer[WalletCommand], command: PlaceBet, dispatcher: Dispatcher | None
) -> Answer:
    """The answer to a bet, for which the operator's wallet may have to be asked first."""
    answer = await _ask_patiently(writer, command)
    if answer.code != "IN_PROGRESS" or dispatcher is None:
        return answer
    # Who asks again while the first request is under way waits half a second (W5); the first one, longer.
    seconds = _REPEAT_SECONDS if answer.replayed else _DEBIT_SECONDS
    ended = asyncio.wrap_future(dispatcher.wait_for(f"{answer.bet}/debit"))
    try:
        await asyncio.wait_for(asyncio.shield(ended), seconds)
    except TimeoutError:
        return answer
    return replace(await _ask_patiently(writer, command), replayed=answer.replayed)


async def _answers(
    writer: Writer[WalletCommand], rows: Sequence[Any], caller: Caller, dispatcher: Dispatcher | None
) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = [{}] * len(rows)
    places, commands = [], []
    for place, row in enumerate(rows):
        try:
            commands.append(_command(BetBody.model_validate(row), caller))
        except ValidationError as error:
            answers[place] = invalid_body(error)
        except Refusal as refusal:
            answers[place] = problem_body(refusal.code, refusal.field, refusal.words)
        else:
            places.append(place)
    results = await ask_all(writer, commands)
    pending = [
        place for place, each in enumerate(results) if isinstance(each, Answer) and each.code == "IN_PROGRESS"
    ]
    if pending:
        later = await asyncio.gather(*(_answered(writer, commands[place], dispatcher) for place in pending))
        for place, answer in zip(pending, later, strict=True):
            results[place] = replace(answer, replayed=results[place].replayed)
    for place, command, result in zip(places, commands, results, strict=True):
        if isinstance(result, Refusal):
            answers[place] = problem_body(result.code, result.field, result.words) | {"tx": command.tx}
        elif result.code == "OK":
            answers[place] = body_of(result, command.tx)
        else:
            answers[place] = problem_body(result.code, result.field, WORDS[result.code]) | {"tx": command.tx}
    return answers


def invalid_body(error: ValidationError) -> dict[str, Any]:
    """The problem document of a row that is not one."""
    first = error.errors()[0]
    field = ".".join(str(key) for key in first["loc"])
    return problem_body("INVALID", field, str(first["msg"]).removeprefix("Value error, "))


def _json_body(name: str) -> dict[str, Any]:
    schema = (BetBody if name == "BetBody" else BetsBody).model_json_schema()
    if name == "BetsBody":
        schema["properties"]["bets"]["items"] = BetBody.model_json_schema()
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _batch_responses() -> dict[int | str, dict[str, Any]]:
    example = {
        "code": "OK",
        "bets": [{"code": "OK", "tx": "b1", "bet": "main.1", "balance": "75.00", "currency": "EUR"}],
    }
    schema = {
        "type": "object",
        "required": ["code", "bets"],
        "properties": {"code": {"const": "OK"}, "bets": {"type": "array", "items": {"type": "object"}}},
    }
    content = {"application/json": {"schema": schema, "example": example}}
    return {200: {"description": "A row for each bet", "content": content}, **problems()}
