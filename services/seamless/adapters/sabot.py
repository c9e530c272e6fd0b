"""The protocol of ours, version 1."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final
from urllib.parse import quote, urlencode

from pydantic import ValidationError

from schemas.money import MoneyError
from schemas.seamless import (
    CODES,
    CURRENT_BALANCE,
    REPLAYED,
    BalanceBody,
    OkBody,
    PlayOkBody,
    ProblemBody,
    StatusBody,
)
from services.runtime.signing import Key, signed_headers
from services.seamless.adapter import DecimalTexts, HttpAnswer, HttpRequest, Reply, Unreadable
from services.seamless.calls import (
    AskBalance,
    AskStatus,
    Call,
    Credit,
    Debit,
    Done,
    Movement,
    Outcome,
    Ping,
    Play,
    Refused,
    Rollback,
    Status,
    TellRound,
    Unknown,
)

_AMOUNTS: Final = DecimalTexts()
_PATHS: Final[Mapping[type, str]] = {Debit: "/v1/debit", Credit: "/v1/credit", Rollback: "/v1/rollback"}
_UNDECIDED: Final = frozenset({"IN_PROGRESS", "TEMPORARY"})
"""Nothing is known of what the first request with this id came to, or will come to."""


class Sabot:
    """Sabot seamless v1: decimal strings, problem documents, signatures."""

    name = "sabot"
    has_status = True

    def request(self, call: Call) -> HttpRequest:
        """The request that makes a call."""
        match call:
            case Debit() | Credit() | Rollback():
                return _post(_PATHS[type(call)], _document(call))
            case Play():
                actions = [
                    {"action": type(each).__name__.lower(), **_document(each)} for each in call.actions
                ]
                return _post("/v1/play", {"account": call.account, "actions": actions})
            case TellRound():
                return _post("/v1/round", asdict(call))
            case AskStatus():
                return HttpRequest("GET", f"/v1/transactions/{quote(call.account, '')}/{quote(call.tx, '')}")
            case AskBalance():
                query = urlencode({"currency": call.currency})
                return HttpRequest("GET", f"/v1/balance/{quote(call.account, '')}", query)
            case Ping():
                return HttpRequest("GET", "/v1/ping")

    def authenticate(self, request: HttpRequest, key: Key, timestamp: int, nonce: str) -> HttpRequest:
        """Sign it; the nonce names the request, too."""
        signature = signed_headers(
            key, request.method, request.path, request.query, request.body, timestamp=timestamp, nonce=nonce
        )
        return request.with_headers({**signature, "Sabot-Request": nonce})

    def reply(self, call: Call, answer: HttpAnswer) -> Reply:
        """What an answer means."""
        try:
            if answer.status != 200:
                return _problem(answer.status, answer.body)
            match call:
                case Ping() | TellRound():
                    return _plain(answer.body)
                case AskBalance():
                    return _balance(call, answer.body)
                case AskStatus():
                    return _status(call, answer.body)
                case Play():
                    return _played(call, answer)
                case Debit() | Credit() | Rollback():
                    body = OkBody.model_validate_json(answer.body)
                    return _moved(call, body, answer.headers)
        except (ValidationError, MoneyError) as error:
            raise Unreadable(f"the answer is not one of the protocol: {_first(error)}") from error

    def codes(self, code: str, call: Call) -> frozenset[str]:
        """Our own codes."""
        del call
        return frozenset({"OK"} if code == "OK_REPLAY" else {code})


def _post(path: str, document: dict[str, Any]) -> HttpRequest:
    body = json.dumps(document, separators=(",", ":")).encode()
    return HttpRequest("POST", path, body=body, headers={"Content-Type": "application/json"})


def _document(call: Movement) -> dict[str, Any]:
    document = {name: value for name, value in asdict(call).items() if value is not None}
    if "amount" in document:
        document["amount"] = _AMOUNTS.write(document["amount"], call.currency)
    if isinstance(call, Rollback):
        # The operator knows in what he took the stake, and for which coup.
        for name in ("currency", "table", "shoe", "coup"):
            document.pop(name, None)
    return document


def _moved(call: Movement, body: OkBody, headers: Mapping[str, str]) -> Reply:
    # A second rollback of the same debit is answered as the first was, with the first one's id (W15).
    if body.tx != call.tx and not isinstance(call, Rollback):
        raise Unreadable(f"the answer is to {body.tx!r} and not to {call.tx!r}")
    if body.currency != call.currency:
        raise Unreadable(f"the answer is in {body.currency} and not in {call.currency}")
    replayed = headers.get(REPLAYED.lower()) == "true"
    current = headers.get(CURRENT_BALANCE.lower())
    return Reply(
        _done(body, replayed),
        body.code,
        current=None if current is None else _AMOUNTS.read(current, body.currency),
    )


def _done(body: OkBody, replayed: bool) -> Done:
    return Done(_AMOUNTS.read(body.balance, body.currency), body.code, replayed)


def _played(call: Play, answer: HttpAnswer) -> Reply:
    body = PlayOkBody.model_validate_json(answer.body)
    if len(body.results) != len(call.actions):
        raise Unreadable(f"{len(call.actions)} actions have {len(body.results)} results")
    results = tuple(
        _moved(action, result, answer.headers).outcome
        for action, result in zip(call.actions, body.results, strict=True)
    )
    last = results[-1]
    balance = last.balance if isinstance(last, Done) else None
    return Reply(Done(balance, replayed=answer.headers.get(REPLAYED.lower()) == "true"), body.code, results)


def _plain(body: bytes) -> Reply:
    if b'"OK"' not in body:
        raise Unreadable(f"the answer is {body[:60]!r}")
    return Reply(Done(None), "OK")


def _balance(call: AskBalance, body: bytes) -> Reply:
    answer = BalanceBody.model_validate_json(body)
    if (answer.account, answer.currency) != (call.account, call.currency):
        raise Unreadable(f"the answer is of {answer.account!r} in {answer.currency}")
    return Reply(Done(_AMOUNTS.read(answer.balance, answer.currency)), "OK")


def _status(call: AskStatus, body: bytes) -> Reply:
    answer = StatusBody.model_validate_json(body)
    if (answer.account, answer.tx) != (call.account, call.tx):
        raise Unreadable(f"the answer is of {answer.tx!r} of {answer.account!r}")
    if answer.status != "final":
        return Reply(Done(None), answer.status, status=Status(answer.status))
    if answer.response is None:
        raise Unreadable("a transaction that is final has no response")
    original = json.dumps(answer.response.body).encode()
    outcome: Outcome
    if answer.response.status == 200:
        outcome = _done(OkBody.model_validate_json(original), True)
    else:
        outcome = _problem(answer.response.status, original).outcome
    if isinstance(outcome, Unknown):
        raise Unreadable("a transaction that is final has a response that is not")
    return Reply(Done(None), "final", status=Status("final", outcome))


def _problem(status: int, body: bytes) -> Reply:
    problem = ProblemBody.model_validate_json(body)
    known = CODES.get(problem.code)
    if problem.code in _UNDECIDED or (status >= 500 and problem.code != "READ_ONLY"):
        return Reply(Unknown(f"{problem.code}: {problem.detail}"), problem.code)
    retryable = problem.retryable if known is None else known.retryable
    refused = Refused(problem.code, problem.detail, problem.field or "", retryable)
    return Reply(refused, problem.code, fields=problem.fields)


def _first(error: ValidationError | MoneyError) -> str:
    if isinstance(error, MoneyError):
        return str(error)
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
