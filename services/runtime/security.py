"""The door of a service's HTTP interface: reads a request once, knows who sent it, and lets in who may come.

Plain ASGI, for it stands before every request. What it refuses never reaches a parser::

    app.add_middleware(Security, authenticator=authenticator, clock=clock)


    @app.post("/v1/deposits")
    async def deposit(body: DepositBody, caller: Asking) -> dict[str, Any]:
        require(caller, Right.DEPOSIT, body.operator)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, Final

from fastapi import Depends, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from schemas.refusal import Refusal
from services.runtime.callers import AUTHORIZATION, Authenticator, Caller, NotAuthenticated
from services.runtime.http import problem
from services.runtime.limiting import Limiter
from services.runtime.operators import Operator
from services.runtime.ports import Clock
from services.runtime.signing import KEY, NONCE, SIGNATURE, TIMESTAMP

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz", "/metrics", "/v1/openapi.json"})
"""What anybody may ask."""
BODY_BYTES_MAX: Final = 1024 * 1024
_DRAINED_BYTES_MAX: Final = 8 * BODY_BYTES_MAX
"""So much of a body that is too large is read and thrown away, so that its sender gets to read our answer."""
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_LENGTH: Final = "content-length"
_EXPECT: Final = "expect"
_SEEN: Final = {
    name.encode(): name for name in (AUTHORIZATION, KEY, TIMESTAMP, NONCE, SIGNATURE, _LENGTH, _EXPECT)
}
_STATE: Final = "caller"
_CHALLENGE: Final = "Sabot-HMAC-SHA256, Bearer"

SECURITY_SCHEMES: Final[Mapping[str, Any]] = {
    "signature": {
        "type": "apiKey",
        "in": "header",
        "name": "Sabot-Signature",
        "description": "HMAC-SHA256 of the request; Sabot-Key, Sabot-Timestamp and Sabot-Nonce go with it.",
    },
    "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
}
"""For ``components.securitySchemes`` of an OpenAPI document."""


async def caller_of(request: Request) -> Caller:
    """Who sent the request: a FastAPI dependency. ``Security`` must stand before the application."""
    caller: Caller = getattr(request.state, _STATE)
    return caller


Asking = Annotated[Caller, Depends(caller_of)]
"""The type of a route's parameter that is to be the caller."""


class Security:
    """Stands before an application."""

    def __init__(
        self,
        app: ASGIApp,
        authenticator: Authenticator,
        clock: Clock,
        *,
        body_bytes_max: int = BODY_BYTES_MAX,
        open_paths: Collection[str] = OPEN_PATHS,
        reading: Collection[str] = (),
        refused: Callable[[str], object] | None = None,
    ) -> None:
        """Let in who may come.

        ``reading`` are paths to which something is posted that changes nothing: they are answered when an
        operator is stopped, too. ``refused`` is told the code of each request that is not let in.
        """
        self._app, self._authenticator, self._clock = app, authenticator, clock
        self._body_bytes_max, self._open, self._reading = body_bytes_max, open_paths, reading
        self._refused = refused
        self._limiter = Limiter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "websocket":
            # There are none here. Who adds one decides who may open it.
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http" or scope["path"] in self._open:
            await self._app(scope, receive, send)
            return
        try:
            headers = _headers(scope)
            if SIGNATURE in headers:
                body = await self._body(headers, receive)
                caller, operator = await self._caller(scope, headers, body)
            else:
                # Nothing depends on the body here: who is unknown sends his for nobody to read.
                caller, operator = await self._caller(scope, headers, b"")
                body = await self._body(headers, receive)
            if operator is not None:
                self._check_state(scope, operator)
        except _Gone:
            return
        except Refusal as refusal:
            if self._refused is not None:
                self._refused(refusal.code)
            answer = problem(refusal.code, refusal.field, refusal.words, _headers_of(refusal))
            await answer(scope, receive, send)
            return
        scope.setdefault("state", {})[_STATE] = caller
        await self._app(scope, _again(body, receive), send)

    async def _caller(
        self, scope: Scope, headers: Mapping[str, str], body: bytes
    ) -> tuple[Caller, Operator | None]:
        caller, operator = await self._authenticator.authenticate(
            headers,
            scope["method"],
            scope["raw_path"].decode("utf-8", "surrogateescape"),
            scope["query_string"].decode("utf-8", "surrogateescape"),
            body,
        )
        if operator is not None and operator.rate is not None:
            now = self._clock.now().timestamp()
            seconds = self._limiter.wait(f"{operator.name}/{caller.actor}", operator.rate, now)
            if seconds:
                raise _Later(seconds)
        return caller, operator

    def _check_state(self, scope: Scope, operator: Operator) -> None:
        if not (operator.stopped or operator.read_only):
            return
        if scope["method"] in _READS or scope["path"] in self._reading:
            return
        if operator.stopped:
            raise Refusal("OPERATOR_STOPPED", "", "this operator is stopped: nothing is taken in his name")
        raise Refusal("READ_ONLY", "", "for the moment nothing is taken, and questions are answered")

    async def _body(self, headers: Mapping[str, str], receive: Receive) -> bytes:
        declared = headers.get(_LENGTH, "")
        # Who asks before he sends is told at once; so is who would send more than we throw away.
        most = self._body_bytes_max if _EXPECT in headers else _DRAINED_BYTES_MAX
        if declared.isdecimal() and (len(declared) > 15 or int(declared) > most):
            raise _TooLarge(self._body_bytes_max)
        parts: list[bytes] = []
        size, more = 0, True
        while more and size <= _DRAINED_BYTES_MAX:
            message = await receive()
            if message["type"] != "http.request":
                raise _Gone
            part = message.get("body", b"")
            size += len(part)
            if size <= self._body_bytes_max:
                parts.append(part)
            more = message.get("more_body", False)
        if size > self._body_bytes_max:
            raise _TooLarge(self._body_bytes_max)
        return b"".join(parts)


class _Gone(Exception):
    """The sender went away in the middle of his request."""


class _TooLarge(Refusal):
    def __init__(self, most: int) -> None:
        super().__init__("TOO_LARGE", "", f"a request's body may have {most:,} bytes")


class _Later(Refusal):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__("RATE_LIMITED", "", "that is more requests than were agreed on; send it again later")


def _headers(scope: Scope) -> dict[str, str]:
    """The headers that count here. None of them may be there twice: two readers would read it differently."""
    found: dict[str, str] = {}
    for raw, value in scope["headers"]:
        name = _SEEN.get(raw)
        if name is not None:
            if name in found:
                raise NotAuthenticated("BAD_SIGNATURE", "", f"the header {name} is there twice")
            found[name] = value.decode("utf-8", "surrogateescape")
    return found


def _headers_of(refusal: Refusal) -> dict[str, str]:
    if isinstance(refusal, NotAuthenticated):
        return {"WWW-Authenticate": _CHALLENGE}
    if isinstance(refusal, _TooLarge):
        return {"Connection": "close"}
    if isinstance(refusal, _Later):
        return {"Retry-After": str(math.ceil(refusal.seconds))}
    # A key that has used up its nonces gets some back when the oldest are forgotten.
    return {"Retry-After": "60"} if refusal.code == "RATE_LIMITED" else {}


def _again(body: bytes, receive: Receive) -> Receive:
    """What was read, to be read once more; afterwards whatever comes."""
    unread = True

    async def receive_again() -> Message:
        nonlocal unread
        if unread:
            unread = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return receive_again
