"""Calls to a service's HTTP interface: many at once, each repeated while the service says to try again."""

from __future__ import annotations

import json
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse
from time import monotonic, sleep
from typing import Any, Final
from urllib.parse import urlsplit

from schemas.refusal import Refusal

_AT_ONCE: Final = 16
_PATIENCE_SECONDS: Final = 30.0
_AGAIN_SECONDS: Final = 0.1
_TIMEOUT_SECONDS: Final = 15.0


class AddressError(ValueError):
    """A URL that is none of a service."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a service answered to a command that it took."""

    document: dict[str, Any]
    replayed: bool
    """It had been taken before; nothing moved now."""


class Caller:
    """One service at a URL such as ``http://127.0.0.1:8101``. Thread-safe.

    Raises:
        AddressError: it is no such URL.
    """

    def __init__(self, name: str, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or parts.hostname is None or parts.path.strip("/"):
            raise AddressError(f"{url!r} is not where {name} answers; write http://127.0.0.1:8101")
        self._name, self._url = name, url
        self._host, self._port = parts.hostname, parts.port or 80
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix=f"{name}-calls")
        self._local = threading.local()
        self._opened: list[HTTPConnection] = []
        self._closing = threading.Event()

    def post(self, path: str, body: dict[str, Any]) -> Future[Reply]:
        """Send a command. The future raises ``Refusal`` as the service says; ``TEMPORARY`` after a while."""
        return self._pool.submit(self._patiently, path, json.dumps(body).encode())

    def close(self) -> None:
        """Give up what is not answered, and close the connections."""
        self._closing.set()
        self._pool.shutdown(cancel_futures=True)
        for connection in self._opened:
            connection.close()

    def _patiently(self, path: str, body: bytes) -> Reply:
        until = monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return self._once(path, body)
            except Refusal as refusal:
                if refusal.code != "TEMPORARY" or monotonic() > until or self._closing.is_set():
                    raise
            sleep(_AGAIN_SECONDS)

    def _once(self, path: str, body: bytes) -> Reply:
        connection = self._connection()
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            document = json.loads(response.read())
        except (OSError, HTTPException, ValueError) as error:
            connection.close()
            words = f"{self._name} does not answer at {self._url}: {error}"
            raise Refusal("TEMPORARY", "", words) from error
        return self._understood(response, document)

    def _understood(self, response: HTTPResponse, document: Any) -> Reply:
        if response.status == 200:
            replayed = document.get("code") == "OK_REPLAY" or "Idempotent-Replayed" in response.headers
            return Reply(document, replayed)
        code, field, words = (document.get(name) for name in ("code", "field", "detail"))
        raise Refusal(code or "TEMPORARY", field or "", words or f"{self._name} answers {response.status}")

    def _connection(self) -> HTTPConnection:
        connection: HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = HTTPConnection(self._host, self._port, timeout=_TIMEOUT_SECONDS)
            self._local.connection = connection
            self._opened.append(connection)
        return connection
