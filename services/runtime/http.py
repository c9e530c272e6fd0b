"""What every service's HTTP shell has: health, readiness, metrics, and refusals as problem documents.

There is no authentication yet, so a service listens on the loopback interface only (``process``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from schemas.refusal import Refusal
from services.runtime.ports import DatabaseUnavailable
from services.runtime.writer import Writer

C = TypeVar("C")

log = logging.getLogger(__name__)

_STATUS: Final[Mapping[str, int]] = {
    "TEMPORARY": 503,
    "BAD_SIGNATURE": 401,
    "TOKEN_INVALID": 401,
    "TOKEN_EXPIRED": 401,
    "FORBIDDEN": 403,
    "TOO_LARGE": 413,
    "RATE_LIMITED": 429,
    "OPERATOR_STOPPED": 423,
    "READ_ONLY": 503,
    "INVALID_REQUEST": 400,
    "NOT_FOUND": 404,
    "METHOD_NOT_ALLOWED": 405,
    "IDEMPOTENCY_CONFLICT": 409,
    "IN_PROGRESS": 503,
    "BET_SEALED": 409,
    "BET_ALREADY_SETTLED": 409,
    "ALREADY_ROLLED_BACK": 409,
    "BET_CANCELLED": 409,
    "BET_NOT_FOUND": 404,
    "ACCOUNT_LOCKED": 423,
    "SELF_EXCLUDED": 423,
    "FOUR_EYES": 403,
    "WITHDRAWAL_UNKNOWN": 404,
    "WITHDRAWAL_STATE": 409,
    "HOLD_UNKNOWN": 404,
    "GRANT_UNKNOWN": 404,
    "ADJUSTMENT_UNKNOWN": 404,
    "CALL_UNKNOWN": 404,
    "NOTHING_OWED": 404,
    "SEAMLESS": 409,
    "OPERATOR_REFUSED": 422,
    "DEBIT_UNKNOWN": 409,
    "NOTHING_TO_CORRECT": 409,
    "CORRECTION_SUPERSEDED": 409,
    "COUP_NOT_CONCLUDED": 409,
    "COUP_VOID": 409,
    "SHOE_KNOWN": 409,
    "SHOE_IN_PLAY": 409,
    "SHOE_ENDED": 409,
    "SHOE_NOT_LOADED": 409,
    "SHOES_WAITING": 409,
    "SHOE_DECKS": 409,
    "COUP_CONCLUDED": 409,
    "TABLE_CLOSED": 409,
    "SHOE_UNKNOWN": 404,
    "HOUSE_UNKNOWN": 404,
    "COUP_KNOWN": 409,
    "TABLE_KNOWN": 409,
    "TABLE_BUSY": 409,
    "ROUND_CLOSED": 409,
    "BETTING_CLOSED": 409,
    "RESULT_UNKNOWN": 409,
    "COUP_UNKNOWN": 404,
    "TABLE_UNKNOWN": 404,
    "ACCOUNT_UNKNOWN": 404,
}
_RETRYABLE: Final = frozenset({
    "TEMPORARY", "IN_PROGRESS", "COUP_UNKNOWN", "COUP_NOT_CONCLUDED", "TABLE_BUSY", "RESULT_UNKNOWN",
    "RATE_LIMITED", "READ_ONLY",
})  # fmt: skip
_PATIENCE_SECONDS: float = 5.0
_STUCK_SECONDS: float = 60.0
"""A service that looks alive and does nothing for so long, though there is something to do, is not ready."""
_PROBLEM: Final = "application/problem+json"


def problem(code: str, field: str, words: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """An RFC 9457 problem document with our code, the field, and whether to send the same again."""
    body = problem_body(code, field, words)
    status: int = body["status"]
    return JSONResponse(
        body,
        status_code=status,
        media_type=_PROBLEM,
        headers={**(headers or {}), **({"Retry-After": "1"} if status == 503 else {})},
    )


def problem_body(code: str, field: str, words: str) -> dict[str, Any]:
    """The problem document itself."""
    return {
        "type": "about:blank",
        "title": code.replace("_", " ").capitalize(),
        "status": _STATUS.get(code, 422),
        "detail": words,
        "code": code,
        "field": field or None,
        "retryable": code in _RETRYABLE,
    }


def invalid(error: RequestValidationError | ValidationError, before: int = 1) -> JSONResponse:
    """The problem document of a request that does not validate. ``before``: how deep its body lies."""
    first = error.errors()[0]
    # A body that is no JSON at all has a place in it instead of a field.
    loc = () if first["type"] == "json_invalid" else first["loc"][before:]
    field = ".".join(str(key) for key in loc)
    return problem("INVALID", field, str(first["msg"]).removeprefix("Value error, "))


def service_app(
    writer: Writer[Any], title: str, description: str, trouble: Callable[[], str | None] = lambda: None
) -> FastAPI:
    """An application with ``/healthz``, ``/readyz`` and ``/metrics``, to which a service adds its routes.

    ``trouble``: what else is wrong that somebody should see to, if anything is.
    """
    app = FastAPI(
        title=title,
        description=description,
        version="1",
        openapi_url="/v1/openapi.json",
        # The interactive pages load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
    )

    @app.exception_handler(Refusal)
    async def _refused(_: Request, refusal: Refusal) -> Response:
        return problem(refusal.code, refusal.field, refusal.words)

    @app.exception_handler(DatabaseUnavailable)
    async def _no_database(_: Request, error: DatabaseUnavailable) -> Response:
        log.error("a question could not be answered: %s", error)
        return problem("TEMPORARY", "", "the database cannot be asked at the moment; try again")

    @app.exception_handler(RequestValidationError)
    async def _invalid(_: Request, error: RequestValidationError) -> Response:
        return invalid(error)

    @app.exception_handler(HTTPException)
    async def _no_such_route(_: Request, error: HTTPException) -> Response:
        code = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}.get(error.status_code, "INVALID_REQUEST")
        return problem(code, "", str(error.detail), error.headers)

    @app.get("/healthz", tags=["operations"])
    async def healthz() -> dict[str, str]:
        """The process answers."""
        return {"status": "ok"}

    @app.get("/readyz", tags=["operations"])
    async def readyz() -> Response:
        """The service can do its work: its writer runs, the bus is there, no stream is held."""
        reasons = []
        if writer.stopped is not None:
            reasons.append(f"the writer stopped: {writer.stopped}")
        if writer.bus_fault is not None:
            reasons.append(f"the bus: {writer.bus_fault}")
        if writer.seconds_without_progress > _STUCK_SECONDS:
            reasons.append(
                f"nothing was read or committed for {_STUCK_SECONDS:g} s, and {writer.waiting} wait"
            )
        if (more := trouble()) is not None:
            reasons.append(more)
        reasons += [f"{stream}: {reason}" for stream, reason in writer.inbox.held.items()]
        body = {"status": "not ready" if reasons else "ready", "reasons": reasons}
        return JSONResponse(body, status_code=503 if reasons else 200)

    @app.get("/metrics", tags=["operations"])
    async def metrics() -> Response:
        """Everything that the service counts, for Prometheus."""
        return Response(generate_latest(writer.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return app


async def ask(writer: Writer[C], command: C) -> Any:
    """Submit a command and wait until it is committed.

    Raises:
        Refusal: it was refused, or could not be committed in time (``TEMPORARY``).
    """
    try:
        answer = asyncio.wrap_future(writer.submit(command))
        return await asyncio.wait_for(answer, timeout=_PATIENCE_SECONDS)
    except TimeoutError:
        words = f"no answer in {_PATIENCE_SECONDS:g} s: the outcome is unknown, ask again with the same id"
        raise Refusal("TEMPORARY", "", words) from None


async def ask_all(writer: Writer[C], commands: Sequence[C]) -> list[Any]:
    """Submit commands that follow one another, and wait until all are committed.

    A command that was refused has its ``Refusal`` in place of an answer.
    """
    if not commands:
        return []
    futures = [asyncio.wrap_future(each) for each in writer.submit_all(commands)]
    done, _ = await asyncio.wait(futures, timeout=_PATIENCE_SECONDS)
    words = f"no answer in {_PATIENCE_SECONDS:g} s: the outcome is unknown, ask again with the same id"
    return [_result(each) if each in done else Refusal("TEMPORARY", "", words) for each in futures]


def _result(future: asyncio.Future[Any]) -> Any:
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, Refusal):
        return error
    raise error
