"""From a request to a command, and from what became of it to an answer.

An answer is made from the event that says it and the balance of that moment, and from nothing else: a repeat
gets the same bytes (W3). What is true now stands in headers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi.responses import JSONResponse, Response
from pydantic_core import to_json

from schemas.commands.wallet import WalletCommand
from schemas.events import accounts, wallet
from schemas.events.base import Payload
from schemas.money import MoneyError, exponent_of, format_amount, format_units, parse_amount
from schemas.refusal import Refusal
from services.runtime.http import problem
from services.wallet.api.bodies import Body
from services.wallet.core.operations import currency_of
from services.wallet.service import Answer

_AMOUNTS: Final = ("amount", "stake", "fee", "value")


def command_of(body: Body, operator: str, actor: str, **more: Any) -> Any:
    """The command that a body asks for.

    Raises:
        Refusal: an amount cannot be taken (``INVALID``, ``PRECISION``).
    """
    fields = body.__dict__ | more
    fields["operator"] = operator
    for name in _AMOUNTS:
        text = fields.get(name)
        if text is None:
            continue
        fields[name] = _minutes(text) if fields.get("kind") == "time" else units_of(fields, name, text)
    for name in body.ACTORS:
        fields[name] = actor
    return body.COMMAND(**{name: fields[name] for name in body.COMMAND.model_fields if name in fields})


def units_of(fields: Mapping[str, Any], name: str, text: str) -> int:
    """The minor units of an amount in a request's currency, more than zero where it moves anything.

    Raises:
        Refusal: ``PRECISION``, ``INVALID``.
    """
    currency = fields.get("currency")
    if currency is None:
        raise Refusal("INVALID", "currency", f"say in which currency {name} is")
    try:
        units = parse_amount(text, currency)
    except MoneyError as error:
        code = "PRECISION" if "too many decimals" in str(error) else "INVALID"
        raise Refusal(code, name if error.field == "amount" else error.field, str(error)) from None
    if units == 0 and name in ("amount", "stake"):
        raise Refusal("INVALID", name, "an amount must be more than zero")
    return units


def _minutes(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 4):
        raise Refusal("INVALID", "value", 'time is limited in whole minutes, such as "120"')
    return int(text)


WORDS: Final[Mapping[str, str]] = {
    "INSUFFICIENT_FUNDS": "the player has less than that",
    "ROUND_CLOSED": "the coup is over",
    "BETTING_CLOSED": "betting on this coup is closed",
    "SPOT_UNKNOWN": "this table does not offer that spot",
    "BET_CANCELLED": "a rollback of this bet came before it; it is not taken any more",
    "LIMIT_REACHED": "a limit of the table or of the player is in the way",
    "ACCOUNT_LOCKED": "the account is locked",
    "SELF_EXCLUDED": "the player has excluded himself",
    "CURRENCY_MISMATCH": "the operator does not play in that currency",
    "GRANT_UNKNOWN": "there is no such free bet of this player in this currency",
    "OPERATOR_REFUSED": "the operator's wallet refused the debit",
    "DEBIT_UNKNOWN": "betting closed before the operator's wallet had answered; the bet was not taken",
    "IN_PROGRESS": "the first request with this id is still being worked on; send the same again",
}
"""Why something was refused for good, for people."""

_SHOWN: Final[Mapping[type[Payload], tuple[str, ...]]] = {
    wallet.BetAccepted: ("bet",),
    wallet.BetRolledBack: ("bet", "amount", "left"),
    accounts.WithdrawalRequested: ("withdrawal", "amount"),
    accounts.WithdrawalApproved: ("withdrawal", "amount"),
    accounts.WithdrawalRejected: ("withdrawal", "amount"),
    accounts.WithdrawalPaid: ("withdrawal", "amount"),
    accounts.WithdrawalReturned: ("withdrawal", "amount"),
    accounts.FreeBetGranted: ("grant", "amount"),
    accounts.FreeBetWithdrawn: ("grant", "amount"),
    accounts.FundsHeld: ("hold", "amount"),
    accounts.HoldReleased: ("hold", "amount"),
    accounts.Adjusted: ("amount", "direction"),
    accounts.ChargedBack: ("amount", "shortfall"),
    accounts.CommissionCollected: ("amount", "shortfall"),
    accounts.LimitSet: ("effective",),
    accounts.SelfExcluded: ("until",),
    accounts.TombstoneCreated: ("target",),
}
"""What an answer says of its event beside code, id and balance."""
_MONEY: Final = frozenset({"amount", "left", "shortfall"})


def body_of(answer: Answer, tx: str) -> dict[str, Any]:
    """The body of an answer that is no refusal."""
    event = answer.event
    body: dict[str, Any] = {"code": answer.code, "tx": tx}
    currency: str | None = getattr(event, "currency", None)
    for name in _SHOWN.get(type(event), ()):
        value = getattr(event, name)
        body[name] = format_units(value, exponent_of(currency or "")) if name in _MONEY else value
    if currency is not None and getattr(event, "account", None) is not None:
        body["balance"] = format_amount(answer.balance, currency)
        body["currency"] = currency
    return body


def headers_of(answer: Answer) -> dict[str, str]:
    """Beside a repeated answer: that it is one, and the balance now (W3)."""
    if not answer.replayed:
        return {}
    headers = {"Idempotent-Replayed": "true"}
    currency = currency_of(answer.event)
    if currency is not None:
        headers["Sabot-Current-Balance"] = format_amount(answer.current, currency)
    return headers


def response_of(answer: Answer, tx: str) -> Response:
    """The answer to a transaction."""
    if answer.code in ("OK", "TOMBSTONED"):
        return Response(
            to_json(body_of(answer, tx)), media_type="application/json", headers=headers_of(answer)
        )
    return refusal_response(answer)


def refusal_response(answer: Answer) -> JSONResponse:
    """A refusal that is final, or (``IN_PROGRESS``) not yet."""
    return problem(answer.code, answer.field, WORDS[answer.code], headers_of(answer))


def tx_of(command: WalletCommand) -> str:
    """The transaction id of a command."""
    tx: str = getattr(command, "tx", "")
    return tx
