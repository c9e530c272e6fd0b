"""The sandbox over HTTP: the protocol of ours, and the switches of the sandbox itself.

``/sandbox/…`` is not signed: it is for whoever started the sandbox, and it listens on this machine only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import unquote

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException

from schemas.money import MoneyError, format_amount, parse_amount
from schemas.refusal import Refusal
from schemas.seamless import (
    CODES,
    CURRENT_BALANCE,
    REPLAYED,
    CreditBody,
    DebitBody,
    PlayBody,
    RollbackBody,
    RoundBody,
    SeamlessModel,
    problem_body,
)
from services.operator.core import Answered, Credit, Debit, Movement, Rollback
from services.operator.door import Door
from services.operator.faults import FAULTS, UnknownFault
from services.operator.records import Account, CoupKey, Outcome
from services.operator.service import OperatorService, Played

M = TypeVar("M", bound=SeamlessModel)

_PROBLEM: Final = "application/problem+json"
_COMMANDS: Final[Mapping[type[SeamlessModel], type[Debit | Credit | Rollback]]] = {
    DebitBody: Debit,
    CreditBody: Credit,
    RollbackBody: Rollback,
}


class FaultsBody(BaseModel):
    """The faults that are on from now on."""

    model_config = ConfigDict(extra="forbid")

    faults: list[str]
    delay_ms: int | None = Field(default=None, ge=0, le=60_000)


class PlayerBody(BaseModel):
    """A player as he shall be."""

    model_config = ConfigDict(extra="forbid")

    currency: Annotated[str, Field(examples=["EUR"])]
    balance: Annotated[str, Field(examples=["1000.00"])]
    locked: bool = False
    tokens: list[str] = []


def add_protocol(app: FastAPI, service: OperatorService, door: Door) -> None:
    """Add the routes of Sabot seamless v1."""

    @app.post("/v1/debit")
    async def debit(request: Request) -> Response:
        """Take money."""
        return await moved(request, DebitBody)

    @app.post("/v1/credit")
    async def credit(request: Request) -> Response:
        """Give money."""
        return await moved(request, CreditBody)

    @app.post("/v1/rollback")
    async def rollback(request: Request) -> Response:
        """Give a debit back, or see to it that it never counts."""
        return await moved(request, RollbackBody)

    async def moved(request: Request, model: type[SeamlessModel]) -> Response:
        wire = _read(model, await door.signed_body(request), service.faults)
        command = _command(wire)
        played = await service.play(command.account, [command])
        response = _answer(played.answers[0], service.faults)
        return await door.leave(request, response, _crashed)

    @app.post("/v1/play")
    async def play(request: Request) -> Response:
        """All of these, or none."""
        wire = _read(PlayBody, await door.signed_body(request), service.faults)
        commands = [_command(action) for action in wire.actions]
        played = await service.play(wire.account, commands)
        return await door.leave(request, _answer_all(played, service.faults), _crashed)

    @app.post("/v1/round")
    async def tell(request: Request) -> Response:
        """Hear how far a coup is."""
        wire = _read(RoundBody, await door.signed_body(request), service.faults)
        service.tell(CoupKey(wire.table, wire.shoe, wire.coup), wire.phase)
        return JSONResponse({"code": "OK"})

    @app.get("/v1/transactions/{place:path}")
    async def status(place: str, request: Request) -> Response:
        """What became of a transaction."""
        del place  # decoded; a slash in an id is told from one between ids only while it is escaped
        await door.signed_body(request)
        parts = request.scope["raw_path"].decode("latin-1").split("/")[3:]
        if len(parts) != 2:
            raise Refusal("NOT_FOUND", "", "write /v1/transactions/{account}/{tx}")
        account, tx = map(unquote, parts)
        service.account(account)
        state, outcome = service.status(account, tx)
        original = None
        if outcome is not None:
            code, body = _document(outcome)
            original = {"status": code, "body": body}
        return JSONResponse({"tx": tx, "account": account, "status": state, "response": original})

    @app.get("/v1/balance/{account:path}")
    async def balance(account: str, request: Request) -> Response:
        """What a player has."""
        await door.signed_body(request)
        known = service.account(account)
        wanted = request.query_params.get("currency", known.currency)
        if wanted != known.currency:
            raise Refusal("CURRENCY_MISMATCH", "currency", f"the player's currency is {known.currency}")
        return door.close_if_faulty(
            JSONResponse(
                {
                    "account": account,
                    "balance": format_amount(known.balance, known.currency),
                    "currency": known.currency,
                }
            )
        )

    @app.get("/v1/ping")
    async def ping(request: Request) -> Response:
        """We are here."""
        await door.signed_body(request)
        return JSONResponse({"code": "OK", "read_only": "read-only" in service.faults})


def add_switches(app: FastAPI, service: OperatorService) -> None:
    """Add the routes that change or show the sandbox itself, and the answers to what is refused."""

    @app.get("/sandbox/faults")
    async def faults() -> dict[str, Any]:
        """Every fault, and those that are on."""
        return {"faults": sorted(service.faults), "delay_ms": service.delay_ms, "known": FAULTS}

    @app.put("/sandbox/faults")
    async def switch(body: FaultsBody) -> dict[str, Any]:
        """Have these faults, and no others."""
        try:
            service.switch(body.faults, body.delay_ms)
        except UnknownFault as error:
            raise Refusal("INVALID", "faults", str(error)) from None
        return await faults()

    @app.put("/sandbox/players/{name}")
    async def keep(name: str, body: PlayerBody) -> dict[str, Any]:
        """Make a player, or give him another balance or other sessions."""
        try:
            units = parse_amount(body.balance, body.currency)
        except MoneyError as error:
            raise Refusal("INVALID", error.field, str(error)) from None
        service.keep(Account(name, body.currency, units, body.locked, tuple(body.tokens)))
        return {"name": name, **body.model_dump()}

    @app.get("/sandbox/players")
    async def players() -> list[dict[str, Any]]:
        """Every player."""
        return [
            {
                "name": each.name,
                "currency": each.currency,
                "balance": format_amount(each.balance, each.currency),
                "locked": each.locked,
                "tokens": list(each.tokens),
            }
            for each in service.store.accounts()
        ]

    @app.get("/sandbox/journal")
    async def journal() -> dict[str, Any]:
        """Everything that is final, in its order; and the conflicts."""
        rows = []
        for each in service.store.movements():
            _, answer = _document(each.outcome)
            rows.append({"account": each.account, "tx": each.tx, "asked": each.asked, "answer": answer})
        conflicts = [
            {"account": account, "tx": tx, "fields": fields.split()}
            for account, tx, fields in service.store.conflicts()
        ]
        return {"transactions": rows, "conflicts": conflicts}

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """The process answers."""
        return {"status": "ok"}

    @app.exception_handler(Refusal)
    async def _refused(_: Request, refusal: Refusal) -> Response:
        return problem(Outcome(refusal.code, "", field=refusal.field, words=refusal.words))

    @app.exception_handler(RequestValidationError)
    async def _invalid(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"][1:]))
        return problem(Outcome("INVALID", "", field=field, words=str(first["msg"])))

    @app.exception_handler(HTTPException)
    async def _no_such_route(_: Request, error: HTTPException) -> Response:
        code = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}.get(error.status_code, "INVALID")
        return problem(Outcome(code, "", words=str(error.detail)))


def problem(outcome: Outcome) -> JSONResponse:
    """A problem document (RFC 9457)."""
    status, body = _document(outcome)
    headers = {"Retry-After": "1"} if status == 503 else {}
    return JSONResponse(body, status_code=status, media_type=_PROBLEM, headers=headers)


async def _crashed() -> Response:
    return JSONResponse(
        {"title": "Internal server error", "status": 500, "code": "TEMPORARY", "detail": "a fault is on"},
        status_code=500,
        media_type=_PROBLEM,
    )


def _document(outcome: Outcome) -> tuple[int, dict[str, Any]]:
    """Status and body of an outcome. The same outcome always gives the same bytes (W3)."""
    if not outcome.done:
        body = problem_body(outcome.code, outcome.field, outcome.words, outcome.fields)
        return CODES[outcome.code].status, body
    balance = format_amount(outcome.balance or 0, outcome.currency)
    return 200, {"code": outcome.code, "tx": outcome.tx, "balance": balance, "currency": outcome.currency}


def _answer(answered: Answered, faults: frozenset[str]) -> Response:
    outcome = answered.outcome
    response = _json(_document(outcome)[1], faults) if outcome.done else problem(outcome)
    if answered.replayed and "hides-replays" not in faults:
        response.headers[REPLAYED] = "true"
        if answered.current is not None and outcome.currency:
            response.headers[CURRENT_BALANCE] = format_amount(answered.current, outcome.currency)
    return response


def _answer_all(played: Played, faults: frozenset[str]) -> Response:
    if played.failed is None:
        results = [_document(each.outcome)[1] for each in played.answers]
        response = _json({"code": "OK", "results": results}, faults)
        if all(each.replayed for each in played.answers):
            response.headers[REPLAYED] = "true"
        return response
    failed = played.answers[played.failed].outcome
    status, body = _document(failed)
    body["field"] = f"actions.{played.failed}" + (f".{failed.field}" if failed.field else "")
    return JSONResponse(body, status_code=status, media_type=_PROBLEM)


def _json(body: dict[str, Any], faults: frozenset[str]) -> Response:
    if "float-balance" in faults and "balance" in body:
        body = {**body, "balance": float(body["balance"])}
    return JSONResponse(body)


def _read(model: type[M], body: bytes, faults: frozenset[str]) -> M:
    """A body as the protocol has it.

    Raises:
        Refusal: ``INVALID``, ``KIND_UNKNOWN`` (W31).
    """
    if faults & {"accepts-numbers", "strict-fields"}:
        body = _strangely_read(model, body, faults)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        field = "" if first["type"] == "json_invalid" else ".".join(map(str, first["loc"]))
        code = "KIND_UNKNOWN" if field.rpartition(".")[2] == "kind" else "INVALID"
        words = str(first["msg"]).removeprefix("Value error, ")
        raise Refusal(code, field, words) from None


def _strangely_read(model: type[SeamlessModel], body: bytes, faults: frozenset[str]) -> bytes:
    try:
        document = json.loads(body)
    except ValueError:
        return body
    if "strict-fields" in faults and set(document) - set(model.model_fields):
        raise Refusal("INVALID", "", "there is a field that we do not know")
    if "accepts-numbers" in faults and isinstance(document.get("amount"), int | float):
        document["amount"] = str(document["amount"])
    return json.dumps(document).encode()


def _command(wire: SeamlessModel) -> Movement:
    kind = next(command for model, command in _COMMANDS.items() if isinstance(wire, model))
    known = kind.__dataclass_fields__
    return kind(**{name: value for name, value in wire.model_dump().items() if name in known})
