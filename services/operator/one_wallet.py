"""The sandbox in another protocol: debit, credit, cancel, with a status in every answer and JSON numbers."""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from schemas.money import format_amount
from schemas.refusal import Refusal
from services.operator.core import Answered, Credit, Debit, Movement, Rollback
from services.operator.door import Door
from services.operator.records import Account, Outcome
from services.operator.service import OperatorService
from services.runtime.ports import Rng

_LENGTH_MAX: Final = 64
_STATUS: Final[Mapping[str, str]] = {
    "OK": "OK",
    "TOMBSTONED": "BET_DOES_NOT_EXIST",
    "INSUFFICIENT_FUNDS": "INSUFFICIENT_FUNDS",
    "BET_CANCELLED": "FINAL_ERROR_ACTION_FAILED",
    "ROUND_CLOSED": "FINAL_ERROR_ACTION_FAILED",
    "BET_ALREADY_SETTLED": "BET_ALREADY_SETTLED",
    "BET_NOT_FOUND": "BET_DOES_NOT_EXIST",
    "PLAYER_LOCKED": "ACCOUNT_LOCKED",
    "LIMIT_REACHED": "CASINO_LIMIT_EXCEEDED_TURNOVER",
    "TOKEN_EXPIRED": "INVALID_SID",
    "BAD_SIGNATURE": "INVALID_TOKEN_ID",
    "IN_PROGRESS": "TEMPORARY_ERROR",
    "READ_ONLY": "TEMPORARY_ERROR",
    "TEMPORARY": "TEMPORARY_ERROR",
}
"""Everything else is ``INVALID_PARAMETER``."""


def add_protocol(app: FastAPI, service: OperatorService, door: Door, rng: Rng) -> None:
    """Add the routes of the dialect."""

    @app.post("/debit")
    async def debit(request: Request) -> Response:
        """Take a stake. The bet is named by its reference from now on."""
        return await moved(request, _debit)

    @app.post("/credit")
    async def credit(request: Request) -> Response:
        """Pay a bet, also nothing; it is over then."""
        return await moved(request, _credit)

    @app.post("/cancel")
    async def cancel(request: Request) -> Response:
        """Give a stake back."""
        return await moved(request, _cancel)

    @app.post("/promo_payout")
    async def promo_payout(request: Request) -> Response:
        """Pay a promotion, whatever its type."""
        return await moved(request, _promotion)

    async def moved(request: Request, reading: Any) -> Response:
        document: dict[str, Any] = {}
        try:
            document = await read(request)
            command: Movement = reading(document, _player(document))
            answered = (await service.play(command.account, [command])).answers[0]
        except Refusal as refusal:
            return refused(document, refusal)
        account = service.store.account(command.account)
        response = _answer(document, _status(command, answered), account, service.faults, answered)
        return await door.leave(request, response, crashed)

    @app.post("/balance")
    async def balance(request: Request) -> Response:
        """What a player has."""
        return await asked(request, rotates=False)

    @app.post("/check")
    async def check(request: Request) -> Response:
        """Whether a session is alive. It gets another name, and the old one ends."""
        return await asked(request, rotates=True)

    async def asked(request: Request, *, rotates: bool) -> Response:
        document: dict[str, Any] = {}
        try:
            document = await read(request)
            account = service.account(_player(document))
            sid = document.get("sid")
            if sid not in account.tokens:
                raise Refusal("TOKEN_EXPIRED", "sid", "the session is not alive")
        except Refusal as refusal:
            return refused(document, refusal)
        if rotates:
            sid = f"sid-{rng.token(8).hex()}"
            service.keep(replace(account, tokens=(sid,)))
        return door.close_if_faulty(_answer({**document, "sid": sid}, "OK", account, frozenset()))

    async def read(request: Request) -> dict[str, Any]:
        body = await door.body(request)
        given = request.query_params.get("authToken", "").encode()
        known = [hmac.compare_digest(given, key.secret) for key in door.keys.values()]
        if not any(known) and "ignores-signature" not in service.faults:
            raise Refusal("BAD_SIGNATURE", "authToken", "no such token")
        try:
            document = json.loads(body, parse_float=Decimal, parse_constant=str)
        except (ValueError, RecursionError):
            raise Refusal("INVALID", "", "the body is no JSON") from None
        if not isinstance(document, dict):
            raise Refusal("INVALID", "", "the body is no JSON object")
        return document

    def refused(document: Mapping[str, Any], refusal: Refusal) -> Response:
        account = service.store.account(str(document.get("userId", "")))
        return _answer(document, _STATUS.get(refusal.code, "INVALID_PARAMETER"), account, frozenset())

    async def crashed() -> Response:
        return JSONResponse({"status": "UNKNOWN_ERROR"}, status_code=500)


def _debit(document: Mapping[str, Any], account: str) -> Debit:
    transaction = _part(document, "transaction")
    shoe, _, coup = str(_part(document, "game").get("id", "")).rpartition("/")
    return Debit(
        # The bet's reference is its identity here: credit and cancel know it by nothing else.
        tx=_text(transaction, "refId"),
        account=account,
        currency=_text(document, "currency"),
        amount=_amount(transaction),
        shoe=shoe,
        coup=int(coup) if coup.isdigit() and len(coup) < 10 else None,
        token=document.get("sid"),
    )


def _credit(document: Mapping[str, Any], account: str) -> Credit:
    transaction = _part(document, "transaction")
    return Credit(
        tx=f"credit/{_text(transaction, 'id')}",
        account=account,
        currency=_text(document, "currency"),
        amount=_amount(transaction),
        bet_tx=_text(transaction, "refId"),
        closes=True,
    )


def _cancel(document: Mapping[str, Any], account: str) -> Rollback:
    transaction = _part(document, "transaction")
    return Rollback(
        tx=f"cancel/{_text(transaction, 'id')}",
        account=account,
        target=_text(transaction, "refId"),
        amount=_amount(transaction) if "amount" in transaction else None,
    )


def _promotion(document: Mapping[str, Any], account: str) -> Credit:
    promotion = _part(document, "promoTransaction")
    return Credit(
        tx=f"promo/{_text(promotion, 'id')}",
        account=account,
        currency=_text(document, "currency"),
        amount=_amount(promotion),
        kind=f"promo_{_text(promotion, 'type').lower()}",
    )


def _player(document: Mapping[str, Any]) -> str:
    return _text(document, "userId")


def _part(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = document.get(name)
    if not isinstance(part, dict):
        raise Refusal("INVALID", name, f"{name} is needed here")
    return part


def _text(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= _LENGTH_MAX or not value.isprintable():
        raise Refusal("INVALID", name, f"{name} is a text of 1 to {_LENGTH_MAX} characters")
    return value


def _amount(transaction: Mapping[str, Any]) -> str:
    """The decimal text of a JSON number, exactly as it was written."""
    value = transaction.get("amount")
    if (
        isinstance(value, bool)
        or not isinstance(value, int | Decimal)
        or not -40 < Decimal(value).adjusted() < 40
    ):
        raise Refusal("INVALID", "amount", "an amount is a number")
    return format(Decimal(value), "f")


def _status(command: Movement, answered: Answered) -> str:
    outcome: Outcome = answered.outcome
    if outcome.code == "IDEMPOTENCY_CONFLICT" or (answered.replayed and outcome.code == "OK"):
        return "BET_ALREADY_EXIST" if isinstance(command, Debit) else "BET_ALREADY_SETTLED"
    return _STATUS.get(outcome.code, "INVALID_PARAMETER")


def _answer(
    document: Mapping[str, Any],
    status: str,
    account: Account | None,
    faults: frozenset[str],
    answered: Answered | None = None,
) -> Response:
    """An answer. Its balance is the present one, also beside a repeat: so the pattern has it."""
    body = {"status": json.dumps(status), "uuid": json.dumps(str(document.get("uuid", ""))[:128])}
    if "sid" in document:
        body["sid"] = json.dumps(document["sid"])
    if account is not None:
        units = account.balance
        if answered is not None and answered.outcome.balance is not None and not answered.replayed:
            units = answered.outcome.balance
        # Digit by digit as the ledger has it: a float would be another number at 63 million.
        body |= {"balance": format_amount(units, account.currency), "bonus": "0"}
    del faults
    text = "{" + ",".join(f'"{name}":{value}' for name, value in body.items()) + "}"
    return Response(text, media_type="application/json")
