"""What both dialects' HTTP interfaces have in common: bodies, signatures, and the faults of transport."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from fastapi import Request, Response

from schemas.refusal import Refusal
from services.operator.service import OperatorService
from services.runtime.ports import Clock
from services.runtime.signing import TIMESTAMP, BadSignature, Key, Verifier

_BODY_BYTES_MAX: Final = 1024 * 1024
_LONG_SECONDS: Final = 3600


class Door:
    """Reads requests, and knows who signed them."""

    def __init__(self, service: OperatorService, keys: Mapping[str, str], clock: Clock) -> None:
        """``keys``: secrets by the ids of keys."""
        self._service, self._clock = service, clock
        self.keys = {name: Key(name, secret.encode()) for name, secret in keys.items()}
        self._verifier = Verifier(self.keys.get)

    async def body(self, request: Request) -> bytes:
        """The raw body.

        Raises:
            Refusal: ``TOO_LARGE``.
        """
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > _BODY_BYTES_MAX:
                raise Refusal("TOO_LARGE", "", f"a body has at most {_BODY_BYTES_MAX} bytes")
        return bytes(body)

    async def signed_body(self, request: Request) -> bytes:
        """The raw body of a request that somebody we know has signed. Nothing is parsed before (W28).

        Raises:
            Refusal: ``TOO_LARGE``, ``BAD_SIGNATURE``.
        """
        body = await self.body(request)
        faults = self._service.faults
        query = request.scope["query_string"].decode("latin-1")
        if "ignores-signature" in faults or (query and "ignores-query" in faults):
            return body
        headers = dict(request.headers)
        now = int(self._clock.now().timestamp())
        if "ignores-clock" in faults and headers.get(TIMESTAMP, "").isdigit():
            now = int(headers[TIMESTAMP])
        verifier = Verifier(self.keys.get) if "ignores-nonces" in faults else self._verifier
        path = request.scope["raw_path"].decode("latin-1")
        try:
            verifier.verify(headers, request.method, path, query, body, now=now)
        except BadSignature as error:
            raise Refusal("BAD_SIGNATURE", "", str(error)) from None
        return body

    async def leave(
        self, request: Request, response: Response, failed: Callable[[], Awaitable[Response]]
    ) -> Response:
        """Send an answer to a movement, unless a fault is in its way. ``failed`` makes that of a crash."""
        faults = self._service.faults
        if "timeout-after-commit" in faults:
            # Until the caller gives up; what is returned then goes nowhere.
            for _ in range(_LONG_SECONDS):
                if await request.is_disconnected():
                    break
                await asyncio.sleep(0.02)
        if "error-after-commit" in faults:
            response = await failed()
        return self.close_if_faulty(response)

    def close_if_faulty(self, response: Response) -> Response:
        """An answer after which the connection is closed, where that fault is on."""
        if "closes-connections" in self._service.faults:
            response.headers["Connection"] = "close"
        return response
