"""The debit/credit/cancel pattern of one-wallet protocols (wallet reference, 1.3 and 1.4).

Everything is posted and answered with HTTP 200 and a ``status``; amounts are JSON numbers with the currency's
decimals; a session id goes with every call, and the shared secret with the query (so only over TLS, and with
a secret of its own). A bet has a reference of its own (``refId``): here the ``tx`` of its debit.

What the pattern has no words for is not tried: look-ups, corrections, partial refunds, tips, batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from schemas.money import MoneyError
from services.runtime.signing import Key
from services.seamless.adapter import (
    DecimalNumbers,
    HttpAnswer,
    HttpRequest,
    NotSpoken,
    Reply,
    Unreadable,
    dump,
    load,
)
from services.seamless.calls import (
    AskBalance,
    AskStatus,
    Call,
    Credit,
    Debit,
    Done,
    Outcome,
    Ping,
    Play,
    Refused,
    Rollback,
    TellRound,
    Unknown,
)

_AMOUNTS: Final = DecimalNumbers()

_OUTWARD: Final[Mapping[str, frozenset[str]]] = {
    code: frozenset(names.split())
    for code, names in {
        "OK": "OK",
        "TOMBSTONED": "BET_DOES_NOT_EXIST",
        "BET_NOT_FOUND": "BET_DOES_NOT_EXIST",
        "INSUFFICIENT_FUNDS": "INSUFFICIENT_FUNDS",
        "BET_CANCELLED": "FINAL_ERROR_ACTION_FAILED",
        "ROUND_CLOSED": "FINAL_ERROR_ACTION_FAILED",
        "BET_ALREADY_SETTLED": "BET_ALREADY_SETTLED",
        "PLAYER_UNKNOWN": "INVALID_PARAMETER",
        "CURRENCY_MISMATCH": "INVALID_PARAMETER",
        "PRECISION": "INVALID_PARAMETER",
        "INVALID": "INVALID_PARAMETER",
        "PLAYER_LOCKED": "ACCOUNT_LOCKED",
        "LIMIT_REACHED": "CASINO_LIMIT_EXCEEDED_TURNOVER",
        "BAD_SIGNATURE": "INVALID_TOKEN_ID",
        "TOKEN_EXPIRED": "INVALID_SID",
        "TEMPORARY": "TEMPORARY_ERROR",
        "IN_PROGRESS": "TEMPORARY_ERROR",
    }.items()
}
_REPEATED: Final[Mapping[type, str]] = {
    Debit: "BET_ALREADY_EXIST",
    Credit: "BET_ALREADY_SETTLED",
    Rollback: "BET_ALREADY_SETTLED",
}
"""What a repeat may be answered instead of ``OK``. Whether it was one, or another call had come first, the
pattern does not tell; we make no call that ends a bet which another call of ours has ended."""
_REFUSALS: Final[Mapping[str, str]] = {
    "INSUFFICIENT_FUNDS": "INSUFFICIENT_FUNDS",
    "FINAL_ERROR_ACTION_FAILED": "BET_CANCELLED",
    "BET_ALREADY_SETTLED": "BET_ALREADY_SETTLED",
    "ACCOUNT_LOCKED": "PLAYER_LOCKED",
    "INVALID_PARAMETER": "INVALID",
    "INVALID_TOKEN_ID": "BAD_SIGNATURE",
    "INVALID_SID": "TOKEN_EXPIRED",
    "SID_EXPIRED": "TOKEN_EXPIRED",
}


class OneWallet:
    """Debit, credit, cancel."""

    name = "one_wallet"
    has_status = False

    def request(self, call: Call) -> HttpRequest:
        """The request that makes a call."""
        match call:
            case Debit(kind="bet"):
                return _post("/debit", _movement(call, call.tx, call.token))
            case Credit(kind="win", bet_tx=str(), closes=True):
                return _post("/credit", _movement(call, call.bet_tx))
            case Credit() if call.kind.startswith("promo"):
                return _post("/promo_payout", _promotion(call))
            case Rollback():
                return _post("/cancel", _movement(call, call.target))
            case AskBalance():
                return _post("/balance", _player(call.account, call.token, "balance", call.currency))
            case Debit() | Credit() | Play() | AskStatus() | TellRound() | Ping():
                name = getattr(call, "kind", type(call).__name__)
                raise NotSpoken(f"the operator's protocol has no words for this: {name}")

    def authenticate(self, request: HttpRequest, key: Key, timestamp: int, nonce: str) -> HttpRequest:
        """Add the secret, as such protocols have it."""
        del timestamp
        token = urlencode({"authToken": key.secret.decode("utf-8", "surrogateescape")})
        query = f"{request.query}&{token}" if request.query else token
        return HttpRequest(
            request.method, request.path, query, request.body, {**request.headers, "Sabot-Request": nonce}
        )

    def reply(self, call: Call, answer: HttpAnswer) -> Reply:
        """What an answer means."""
        if answer.status != 200:
            raise Unreadable(f"the answer has status {answer.status}")
        document = load(answer.body)
        status = document.get("status")
        if not isinstance(status, str):
            raise Unreadable("the answer has no status")
        try:
            return Reply(_outcome(call, status, _balance(call, document)), status)
        except MoneyError as error:
            raise Unreadable(str(error)) from error

    def codes(self, code: str, call: Call) -> frozenset[str]:
        """The statuses that say it."""
        repeated = _REPEATED.get(type(call), "OK")
        if code in ("OK_REPLAY", "IDEMPOTENCY_CONFLICT"):
            return frozenset({"OK", repeated})
        return _OUTWARD.get(code, frozenset())


def _outcome(call: Call, status: str, balance: int | None) -> Outcome:
    if status == "OK":
        if balance is None:
            raise Unreadable("the answer has no balance")
        return Done(balance)
    if status == _REPEATED.get(type(call)):
        return Done(balance, replayed=True)
    if status == "BET_DOES_NOT_EXIST":
        if isinstance(call, Rollback):
            return Done(balance, "TOMBSTONED")
        return Refused("BET_NOT_FOUND", status, retryable=isinstance(call, Credit))
    if status.startswith("CASINO_LIMIT_EXCEEDED"):
        return Refused("LIMIT_REACHED", status)
    if status in _REFUSALS:
        return Refused(_REFUSALS[status], status)
    return Unknown(f"the operator's wallet answers {status:.60}")


def _balance(call: Call, document: Mapping[str, Any]) -> int | None:
    value = document.get("balance")
    if value is None:
        return None
    return _AMOUNTS.read(value, getattr(call, "currency", ""))


def _post(path: str, document: Mapping[str, Any]) -> HttpRequest:
    body = dump(document).encode()
    return HttpRequest("POST", path, body=body, headers={"Content-Type": "application/json"})


def _player(account: str, token: str | None, uuid: str, currency: str) -> dict[str, Any]:
    return {"sid": token or "", "userId": account, "uuid": uuid, "currency": currency}


def _movement(
    call: Debit | Credit | Rollback, reference: str | None, token: str | None = None
) -> dict[str, Any]:
    transaction: dict[str, Any] = {"id": call.tx, "refId": reference}
    if call.amount is not None:
        transaction["amount"] = _AMOUNTS.write(call.amount, call.currency)
    return {
        **_player(call.account, token, call.tx, call.currency),
        "game": {
            "id": f"{call.shoe}/{call.coup}",
            "type": "baccarat",
            "details": {"table": {"id": call.table or ""}},
        },
        "transaction": transaction,
    }


def _promotion(call: Credit) -> dict[str, Any]:
    return {
        **_player(call.account, None, call.tx, call.currency),
        "promoTransaction": {
            "type": call.kind.removeprefix("promo").strip("_").upper() or "PROMO",
            "id": call.tx,
            "amount": _AMOUNTS.write(call.amount, call.currency),
        },
    }
