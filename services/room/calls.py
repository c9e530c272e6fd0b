"""Calls to a service's HTTP interface: many at once, each repeated while the service says to try again."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from email.message import Message
from http.client import HTTPConnection, HTTPException
from time import monotonic
from typing import Any, Final
from urllib.parse import urlsplit

from schemas.refusal import Refusal

_AT_ONCE: Final = 16
_PATIENCE_SECONDS: Final = 30.0
_AGAIN_SECONDS: Final = 0.1
_TIMEOUT_SECONDS: Final = 15.0
_NO_SUCH_ROUTE: Final = frozenset({"NOT_FOUND", "METHOD_NOT_ALLOWED"})


Sign = Callable[[str, str, bytes], Mapping[str, str]]


class AddressError(ValueError):
    """A URL that is none of a service."""


class NoSuchService(Exception):
    """Nobody answers at a service's URL, or somebody else does."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a service answered to a command that it took."""

    document: dict[str, Any]
    replayed: bool
    """It had been taken before; nothing moved now."""


@dataclass(frozen=True, slots=True)
class _Call:
    path: str
    body: bytes
    answer: Future[Reply] = field(default_factory=Future)


class Caller:
    """One service at a URL such as ``http://127.0.0.1:8101``. Thread-safe.

    Calls on different lanes run side by side. Those on one lane follow each other, in the order in which they
    were posted; behind one that is not answered none is sent.

    Raises:
        AddressError: it is no such URL.
    """

    def __init__(self, name: str, url: str, sign: Sign | None = None) -> None:
        """``sign``: the headers that say who asks, from method, path and body."""
        self._name, self._url, self._sign = name, url, sign
        self._host, self._port = _place_of(name, url)
        self.trouble: str | None = None
        """Why the latest call was not answered, if it was not."""
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix=f"{name}-calls")
        self._lock = threading.Lock()
        self._lanes: dict[str, deque[_Call]] = {}
        """Calls that wait or are under way."""
        self._local = threading.local()
        self._opened: list[HTTPConnection] = []
        self._closing = threading.Event()

    def find(self, seconds: float) -> None:
        """See whether somebody answers.

        Raises:
            NoSuchService: nobody does, for so long.
        """
        until = monotonic() + seconds
        while True:
            try:
                self._request("GET", "/healthz")
            except Refusal as refusal:
                if monotonic() > until:
                    raise NoSuchService(refusal.words) from refusal
                self._closing.wait(_AGAIN_SECONDS)
            else:
                return

    def post(self, lane: str, path: str, body: dict[str, Any]) -> Future[Reply]:
        """Send a command.

        The future raises ``Refusal`` as the service says, or ``TEMPORARY`` where it does not answer for long;
        ``NoSuchService`` where what answers is something else.
        """
        call = _Call(path, json.dumps(body).encode())
        with self._lock:
            waiting = self._lanes.setdefault(lane, deque())
            waiting.append(call)
            if len(waiting) == 1:
                self._pool.submit(self._go_along, lane, waiting)
        return call.answer

    def close(self) -> None:
        """Give up what is not answered, and close the connections."""
        self._closing.set()
        self._pool.shutdown(cancel_futures=True)
        for waiting in self._lanes.values():
            for call in waiting:
                call.answer.cancel()
        for connection in self._opened:
            connection.close()

    def _go_along(self, lane: str, waiting: deque[_Call]) -> None:
        """Send the calls of a lane until none is left."""
        while True:
            reply, error = self._outcome(waiting[0])
            with self._lock:
                done = [waiting.popleft()]
                if isinstance(error, Refusal) and error.code == "TEMPORARY":
                    done += waiting
                    waiting.clear()
                is_over = not waiting
                if is_over:
                    del self._lanes[lane]
            for call in done:
                if reply is not None:
                    call.answer.set_result(reply)
                else:
                    call.answer.set_exception(error)
            if is_over:
                return

    def _outcome(self, call: _Call) -> tuple[Reply, None] | tuple[None, Exception]:
        try:
            return self._patiently(call), None
        except Exception as error:
            return None, error

    def _patiently(self, call: _Call) -> Reply:
        until = monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                status, headers, document = self._request("POST", call.path, call.body)
                if status == 200:
                    replayed = document.get("code") == "OK_REPLAY" or "Idempotent-Replayed" in headers
                    return Reply(document, replayed)
                raise self._refusal(status, document)
            except Refusal as refusal:
                if refusal.code != "TEMPORARY" or monotonic() > until or self._closing.is_set():
                    raise
            self._closing.wait(_AGAIN_SECONDS)

    def _request(
        self, method: str, path: str, body: bytes | None = None
    ) -> tuple[int, Message, dict[str, Any]]:
        """Status, headers and document of an answer; refused as ``TEMPORARY`` where none comes."""
        connection = self._connection()
        try:
            headers = {"Content-Type": "application/json"}
            if self._sign is not None:
                headers |= self._sign(method, path, body or b"")
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            document = json.loads(response.read())
            if not isinstance(document, dict):
                raise ValueError(f"its answer is {document!s:.40}")
        except (OSError, HTTPException, ValueError) as error:
            connection.close()
            self.trouble = f"{self._name} does not answer at {self._url}: {error}"
            raise Refusal("TEMPORARY", "", self.trouble) from error
        self.trouble = None
        return response.status, response.headers, document

    def _refusal(self, status: int, document: dict[str, Any]) -> Refusal:
        code, field_, words = (document.get(name) for name in ("code", "field", "detail"))
        if code in _NO_SUCH_ROUTE:
            raise NoSuchService(f"what answers at {self._url} is not {self._name}")
        return Refusal(code or "TEMPORARY", field_ or "", words or f"{self._name} answers {status}")

    def _connection(self) -> HTTPConnection:
        connection: HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = HTTPConnection(self._host, self._port, timeout=_TIMEOUT_SECONDS)
            self._local.connection = connection
            self._opened.append(connection)
        return connection


def _place_of(name: str, url: str) -> tuple[str, int]:
    """Host and port."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or 80
    except ValueError:  # a port that is none, half an IPv6 address
        host, port = None, 0
    if host is None or parts.scheme != "http" or parts.path.strip("/"):
        raise AddressError(f"{url!r} is not where {name} answers; write http://127.0.0.1:8101")
    return host, port
