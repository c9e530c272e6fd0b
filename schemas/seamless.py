"""Sabot seamless, version 1: the protocol in which wallet asks an operator's wallet for money.

Wallet calls, the operator's wallet answers. ``docs/seamless.md`` describes it for those who write the other
side. Amounts are decimal strings (a JSON number is refused), unknown fields are ignored, and ``tx`` is the
idempotency key: it counts for one player.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from schemas.commands.wallet import AccountReference
from schemas.events.accounts import TransactionId
from schemas.events.base import CoupNumber, Currency, Name, Seat, Spot

REQUEST: Final = "Sabot-Request"
"""Names one HTTP request, for people who look for it in two logs. No idempotency key: each has its own."""
REPLAYED: Final = "Idempotent-Replayed"
CURRENT_BALANCE: Final = "Sabot-Current-Balance"
ACTIONS_MAX: Final = 200

Text = Annotated[str, Field(max_length=64, examples=["25.00"])]
"""An amount: digits, and a point with at most as many decimals as the currency has."""
Token = Annotated[str, StringConstraints(min_length=1, max_length=512, pattern=r"^[\x21-\x7e]+$")]
"""A player's session at the operator, as the operator named it."""
CreditKind = Annotated[
    str, StringConstraints(max_length=64, pattern=r"^(win|refund|correction|promo(_[a-z0-9]+)*)$")
]
"""``promo`` and every ``promo_…``: which promotions will come nobody knows yet, and all of them pay (W31)."""


class SeamlessModel(BaseModel):
    """Read strictly, tolerant of fields that a later version added."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class MovementBody(SeamlessModel):
    """An amount of one player, and the coup that it belongs to."""

    tx: TransactionId
    account: AccountReference
    currency: Currency
    amount: Text
    table: Name | None = None
    shoe: Name | None = None
    coup: CoupNumber | None = None


class DebitBody(MovementBody):
    """Take money: a stake, a tip, or what a correction takes back."""

    kind: Literal["bet", "tip", "correction"] = "bet"
    bet: Name | None = None
    """Wallet's name of the bet."""
    bet_tx: TransactionId | None = None
    """For a correction: the ``tx`` of the debit that took the stake."""
    spot: Spot | None = None
    seat: Seat | None = None
    token: Token | None = None
    """Needed for a new bet where the operator has sessions; never for anything else (W27)."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        needed = {"bet": ("table", "shoe", "coup", "bet", "spot"), "correction": ("bet_tx",)}
        _need(self, needed.get(self.kind, ()))
        return self


class CreditBody(MovementBody):
    """Give money: a win (also of nothing), a stake or part of it back, a correction, a promotion."""

    kind: CreditKind = "win"
    bet_tx: TransactionId | None = None
    """The ``tx`` of the debit that took the stake. Only a promotion may have none."""
    closes: bool = False
    """Whether the bet is over with it: nothing but corrections may follow."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if not self.kind.startswith("promo"):
            _need(self, ("bet_tx",))
        return self


class RollbackBody(SeamlessModel):
    """Give a stake back whose bet does not count, or make sure that a debit never comes to count."""

    tx: TransactionId
    account: AccountReference
    target: TransactionId
    """The ``tx`` of the debit."""
    amount: Text | None = None
    """For comparison only: what is given back is what the operator's record says (W12)."""


class DebitAction(DebitBody):
    """A debit in a batch."""

    action: Literal["debit"]


class CreditAction(CreditBody):
    """A credit in a batch."""

    action: Literal["credit"]


class RollbackAction(RollbackBody):
    """A rollback in a batch."""

    action: Literal["rollback"]


Action = Annotated[DebitAction | CreditAction | RollbackAction, Field(discriminator="action")]


class PlayBody(SeamlessModel):
    """Actions of one player in their order: all of them, or none (W18)."""

    account: AccountReference
    actions: Annotated[tuple[Action, ...], Field(min_length=1, max_length=ACTIONS_MAX, strict=False)]

    @model_validator(mode="after")
    def _one_player(self) -> Self:
        strange = [index for index, each in enumerate(self.actions) if each.account != self.account]
        if strange:
            raise ValueError(f"actions[{strange[0]}] is of another player: a batch is of one")
        return self


class RoundBody(SeamlessModel):
    """How far a coup is. Idempotent by itself, so it has no ``tx`` (W19)."""

    table: Name
    shoe: Name
    coup: CoupNumber
    phase: Literal["bets_closed", "closed"]


def _need(body: SeamlessModel, names: tuple[str, ...]) -> None:
    missing = [name for name in names if getattr(body, name) is None]
    if missing:
        raise ValueError(f"{missing[0]} is needed here")


# ---------------------------------------------------------------------------------------------- answers


class OkBody(SeamlessModel):
    """What became of a transaction that was carried out."""

    code: Literal["OK", "TOMBSTONED"]
    tx: TransactionId
    balance: str
    currency: Currency


class PlayOkBody(SeamlessModel):
    """A batch that was carried out: an answer for each action, in their order."""

    code: Literal["OK"]
    results: Annotated[tuple[OkBody, ...], Field(strict=False)]


class BalanceBody(SeamlessModel):
    """What a player has."""

    account: AccountReference
    balance: str
    currency: Currency


class ProblemBody(SeamlessModel):
    """An RFC 9457 problem document, as far as a machine needs it."""

    code: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    detail: str = ""
    field: str | None = None
    retryable: bool = False
    fields: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """At a conflict: the names of what differs from the first request with this id (W4)."""


class OriginalBody(SeamlessModel):
    """What a transaction was answered."""

    status: int
    body: dict[str, Any]


class StatusBody(SeamlessModel):
    """What is known of a transaction (W40). ``unknown`` may still change: a request can be under way."""

    tx: TransactionId
    account: AccountReference
    status: Literal["unknown", "in_progress", "final"]
    response: OriginalBody | None = None


# ------------------------------------------------------------------------------------------------ codes


class Code(NamedTuple):
    """What a code means to a machine."""

    status: int
    """Of HTTP."""
    retryable: bool
    """Whether the same request, with the same ``tx``, may be answered otherwise later."""
    stored: bool
    """Whether it is an outcome of the ``tx`` for good (W6)."""


CODES: Final[dict[str, Code]] = {
    "OK": Code(200, False, True),
    "TOMBSTONED": Code(200, False, True),
    "INSUFFICIENT_FUNDS": Code(422, False, True),
    "LIMIT_REACHED": Code(422, False, True),
    "REFUND_EXCEEDS_STAKE": Code(422, False, True),
    "BET_CANCELLED": Code(409, False, True),
    "BET_ALREADY_SETTLED": Code(409, False, True),
    "ROUND_CLOSED": Code(409, False, True),
    "PLAYER_LOCKED": Code(423, False, True),
    "TOKEN_EXPIRED": Code(401, False, True),
    "IDEMPOTENCY_CONFLICT": Code(409, False, False),
    "BET_NOT_FOUND": Code(404, True, False),
    "BET_OPEN": Code(409, True, False),
    "PLAYER_UNKNOWN": Code(404, False, False),
    "CURRENCY_MISMATCH": Code(422, False, False),
    "PRECISION": Code(422, False, False),
    "INVALID": Code(422, False, False),
    "KIND_UNKNOWN": Code(400, False, False),
    "BAD_SIGNATURE": Code(401, False, False),
    "NOT_FOUND": Code(404, False, False),
    "METHOD_NOT_ALLOWED": Code(405, False, False),
    "TOO_LARGE": Code(413, False, False),
    "RATE_LIMITED": Code(429, True, False),
    "READ_ONLY": Code(503, True, False),
    "IN_PROGRESS": Code(503, True, False),
    "TEMPORARY": Code(503, True, False),
}
"""Every code of the protocol. Another one counts as a refusal that is final."""


def problem_body(code: str, field: str, words: str, fields: tuple[str, ...] = ()) -> dict[str, Any]:
    """The problem document of a code."""
    known = CODES[code]
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": code.replace("_", " ").capitalize(),
        "status": known.status,
        "detail": words,
        "code": code,
        "field": field or None,
        "retryable": known.retryable,
    }
    if fields:
        body["fields"] = list(fields)
    return body
