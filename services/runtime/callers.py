"""Who asks, and what he may: an operator's machine with a key (W28), or a person with a token.

What is not the caller's is answered exactly as what is not there. To read what is another operator's is
``NOT_FOUND``, whether that operator exists or not; a route that finds nothing raises ``not_there``, too. To
act in another operator's name is ``FORBIDDEN``, again whether there is one or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from schemas.refusal import Refusal
from services.runtime.operator_table import OperatorKey
from services.runtime.operators import Operator, Operators
from services.runtime.ports import Clock
from services.runtime.roles import EVERY_RIGHT, MACHINE_RIGHTS, ROLE_RIGHTS, Right, Role
from services.runtime.signing import KEY, NONCES_MAX, SIGNATURE, BadSignature, TooManyNonces, Verifier
from services.runtime.tokens import BadToken, IssuerUnavailable, Tokens

AUTHORIZATION: Final = "authorization"
_BEARER: Final = "bearer "

Kind = Literal["machine", "person", "anybody"]


class NotAuthenticated(Refusal):
    """Nobody knows who asks: ``BAD_SIGNATURE``, ``TOKEN_INVALID`` or ``TOKEN_EXPIRED`` (401)."""


class NotAllowed(Refusal):
    """The caller is known and may not do this (403)."""

    def __init__(self, field: str, words: str) -> None:
        super().__init__("FORBIDDEN", field, words)


def not_there(field: str = "") -> Refusal:
    """The refusal of what is not there, or not the caller's. Who asks cannot tell which."""
    return Refusal("NOT_FOUND", field, "there is nothing of that name here")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks."""

    operator: str
    """For whom. With ``anybody`` only a default: he may name any operator."""
    kind: Kind
    name: str
    """The key's id, or the name that the issuer gives a person."""
    roles: frozenset[Role] = frozenset()
    """Of a person."""

    @property
    def actor(self) -> str:
        """What stands in the records: ``machine:main-2026`` or ``person:anna``."""
        return f"{self.kind}:{self.name}"

    @property
    def rights(self) -> frozenset[Right]:
        """All that he may do for his operator."""
        if self.kind == "machine":
            return MACHINE_RIGHTS
        return EVERY_RIGHT if self.kind == "anybody" else _rights_of(self.roles)


@lru_cache(maxsize=64)
def _rights_of(roles: frozenset[Role]) -> frozenset[Right]:
    return frozenset[Right]().union(*(ROLE_RIGHTS[role] for role in roles))


def require(caller: Caller, right: Right, operator: str | None = None, field: str = "operator") -> None:
    """See that the caller may do this, for that operator (his own if none is named).

    ``field`` is where the request names the operator.

    Raises:
        NotAllowed: he lacks the right, or would act for another operator.
        Refusal: ``NOT_FOUND``, where he would read what is another operator's.
    """
    if right not in caller.rights:
        raise NotAllowed("", f"{_who(caller)} may not do this; it takes the right {right.value}")
    if operator is None or operator == caller.operator or caller.kind == "anybody":
        return
    if right.reads:
        raise not_there()
    raise NotAllowed(field, "you act for another operator than the one that the request names")


def require_another(caller: Caller, initiator: str, field: str = "initiator") -> None:
    """See that the caller is not who began this, ``initiator`` being an ``actor``: four eyes.

    Raises:
        NotAllowed: it is he.
    """
    if caller.actor == initiator and caller.kind != "anybody":
        raise NotAllowed(field, "who proposed it cannot approve it; that takes somebody else")


def _who(caller: Caller) -> str:
    if caller.kind == "machine":
        return "a key"
    return " and ".join(sorted(role.value for role in caller.roles)) or "somebody without a role"


class Authenticator:
    """Knows who sent a request, before anything of it is parsed. For one event loop."""

    def __init__(self, operators: Operators, clock: Clock, nonces_max: int = NONCES_MAX) -> None:
        """``nonces_max``: so many nonces of one key are remembered (85 bytes each)."""
        self.operators = operators
        self._clock = clock
        self._tokens = Tokens(clock)
        self._verifier: Verifier[OperatorKey] = Verifier(self._key, nonces_max)

    def _key(self, key_id: str) -> OperatorKey | None:
        return self.operators.table.key(key_id, self._clock.now())

    async def authenticate(
        self, headers: Mapping[str, str], method: str, path: str, query: str, body: bytes
    ) -> tuple[Caller, Operator | None]:
        """The caller, and his operator's entry (none for ``anybody``).

        ``headers`` by lower-case names; ``path`` and ``query`` as they were sent, without ``?``.

        Raises:
            NotAuthenticated: the signature, or the token, does not say who he is.
            Refusal: ``RATE_LIMITED``, where a key signs more than can be remembered; ``TEMPORARY``, where an
                issuer's keys cannot be had.
        """
        operators = self.operators
        if operators.is_open:
            return self._anybody, None
        authorization = headers.get(AUTHORIZATION)
        if authorization is None:
            return self._machine(headers, method, path, query, body)
        if SIGNATURE in headers or KEY in headers:
            raise NotAuthenticated("BAD_SIGNATURE", "", "a request is signed or has a bearer token, not both")
        if authorization[: len(_BEARER)].lower() != _BEARER:
            raise NotAuthenticated("TOKEN_INVALID", "", "Authorization must be a bearer token")
        try:
            person = await self._tokens.read(authorization[len(_BEARER) :].strip(), operators.table)
        except BadToken as error:
            raise NotAuthenticated(error.code, "", str(error)) from None
        except IssuerUnavailable as error:
            raise Refusal("TEMPORARY", "", str(error)) from None
        return Caller(person.operator.name, "person", person.name, person.roles), person.operator

    def _machine(
        self, headers: Mapping[str, str], method: str, path: str, query: str, body: bytes
    ) -> tuple[Caller, Operator]:
        now = int(self._clock.now().timestamp())
        try:
            key = self._verifier.verify(headers, method, path, query, body, now=now)
        except TooManyNonces as error:
            raise Refusal("RATE_LIMITED", "", str(error)) from None
        except BadSignature as error:
            raise NotAuthenticated("BAD_SIGNATURE", "", str(error)) from None
        return Caller(key.operator.name, "machine", key.id), key.operator

    @property
    def _anybody(self) -> Caller:
        return Caller(next(iter(self.operators.table.operators)), "anybody", "anybody")
