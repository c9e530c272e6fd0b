"""What the OpenAPI document says of answers."""

from __future__ import annotations

from typing import Any, Final

_PROBLEM: Final = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "code", "field", "retryable"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "For people."},
        "code": {"type": "string", "description": "For machines, such as INSUFFICIENT_FUNDS."},
        "field": {"type": ["string", "null"], "description": "What of the request was in the way."},
        "retryable": {"type": "boolean", "description": "Whether to send the same again."},
    },
}
_EXAMPLE: Final = {
    "type": "about:blank",
    "title": "Insufficient funds",
    "status": 422,
    "detail": "the player has less than that",
    "code": "INSUFFICIENT_FUNDS",
    "field": "stake",
    "retryable": False,
}
_TRANSACTION: Final = {
    "type": "object",
    "required": ["code", "tx"],
    "properties": {
        "code": {"enum": ["OK", "TOMBSTONED"]},
        "tx": {"type": "string"},
        "balance": {"type": "string", "description": "The player's cash right after it."},
        "currency": {"type": "string"},
    },
}
_STATUSES: Final = {
    400: "The request is not one",
    401: "Nobody knows who asks",
    403: "The caller may not do this",
    404: "There is no such thing, or it is not the caller's",
    409: "It contradicts what is recorded (conflict, sealed, settled)",
    413: "The body is too large",
    422: "It cannot be carried out, now or ever",
    423: "The account or the operator is locked",
    429: "Too many requests",
    503: "Not at the moment: send the same again",
}


def problems() -> dict[int | str, dict[str, Any]]:
    """The errors that any route may answer with."""
    content = {"application/problem+json": {"schema": _PROBLEM, "example": _EXAMPLE}}
    return {status: {"description": words, "content": content} for status, words in _STATUSES.items()}


def responses(example: dict[str, Any] | None = None) -> dict[int | str, dict[str, Any]]:
    """The answers of a route that carries out a transaction."""
    shown = example or {"code": "OK", "tx": "d-2026-000017", "balance": "125.00", "currency": "EUR"}
    done = {
        "description": "Done; a repeat has the same body, and Idempotent-Replayed: true beside it",
        "content": {"application/json": {"schema": _TRANSACTION, "example": shown}},
        "headers": {
            "Idempotent-Replayed": {
                "description": "true: it was done before, and nothing moved now",
                "schema": {"type": "string"},
            },
            "Sabot-Current-Balance": {
                "description": "Beside a repeat: the player's cash now",
                "schema": {"type": "string"},
            },
        },
    }
    return {200: done, **problems()}
