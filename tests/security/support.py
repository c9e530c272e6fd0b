"""A service behind the door, over real HTTP; and callers with keys and tokens."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from fastapi import FastAPI, Request
from pydantic import BaseModel

from schemas.refusal import Refusal
from services.runtime.callers import Authenticator, not_there, require
from services.runtime.http import problem
from services.runtime.operators import Operators
from services.runtime.ports_system import ManualClock
from services.runtime.roles import Right
from services.runtime.security import Asking, Security
from services.runtime.signing import Key, signed_headers

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
SECONDS = int(NOW.timestamp())
OLD, NEW, NORTH = (
    Key(name, f"{name}-secret-that-is-certainly-long-enough".encode()) for name in ("old", "new", "north")
)

TWO = f"""
development = true

[[operator]]
name = "main"
currencies = ["EUR"]
[[operator.keys]]
id = "old"
secret = "{OLD.secret.decode()}"
[[operator.keys]]
id = "new"
secret = "{NEW.secret.decode()}"

[[operator]]
name = "north"
currencies = ["SEK"]
shard = "north"
zone = "Europe/Stockholm"
cut_off = "05:00"
[[operator.keys]]
id = "north"
secret = "{NORTH.secret.decode()}"
"""


class Body(BaseModel):
    operator: str
    note: str = ""


def small_app() -> FastAPI:
    """A service with a route of each kind, and one thing: ``main`` has ``T1``."""
    app = FastAPI(openapi_url="/v1/openapi.json")

    @app.exception_handler(Refusal)
    async def refused(_: Request, refusal: Refusal) -> Any:
        return problem(refusal.code, refusal.field, refusal.words)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/v1/deposits")
    async def deposit(body: Body, caller: Asking) -> dict[str, Any]:
        require(caller, Right.DEPOSIT, body.operator)
        return {"by": caller.actor, "for": caller.operator, "length": len(body.note)}

    @app.post("/v1/reconciliations")
    async def reconcile(caller: Asking) -> dict[str, str]:
        require(caller, Right.LEDGER_READ)
        return {"by": caller.actor}

    @app.get("/v1/things/{operator}/{thing}")
    def thing(operator: str, thing: str, caller: Asking) -> dict[str, str]:
        require(caller, Right.TABLES_READ, operator)
        if (operator, thing) != ("main", "T1"):
            raise not_there()
        return {"thing": thing}

    @app.get("/v1/echo/{text}")
    async def echo(text: str, request: Request, caller: Asking) -> dict[str, str]:
        return {"text": text, "query": str(request.url.query), "by": caller.actor}

    return app


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)


@dataclass
class Door:
    """Somebody who asks a service."""

    url: str
    clock: ManualClock
    operators: Operators
    refused: list[str] = field(default_factory=list)
    _nonces: int = 0

    def send(
        self, method: str, target: str, body: Any = b"", headers: dict[str, str] | None = None
    ) -> Answer:
        """Send it as it is. A ``body`` that is an iterator goes in chunks."""
        place = urlsplit(self.url)
        connection = HTTPConnection(str(place.hostname), place.port, timeout=20)
        try:
            kind = {"Content-Type": "application/json"}
            connection.request(method, target, body or None, kind | (headers or {}))
            answer = connection.getresponse()
            content = answer.read()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, content)
        finally:
            connection.close()

    def signed(self, key: Key, method: str, target: str, body: bytes = b"") -> dict[str, str]:
        """The headers of a request that is signed now, with a nonce that was never used."""
        self._nonces += 1
        path, _, query = target.partition("?")
        now = int(self.clock.now().timestamp())
        return signed_headers(key, method, path, query, body, timestamp=now, nonce=f"n{self._nonces}")

    def ask(self, key: Key, method: str, target: str, document: Any = None) -> Answer:
        """A signed request."""
        body = b"" if document is None else json.dumps(document).encode()
        return self.send(method, target, body, self.signed(key, method, target, body))

    def say(self, token: str, method: str, target: str, document: Any = None) -> Answer:
        """A person's request."""
        body = b"" if document is None else json.dumps(document).encode()
        return self.send(method, target, body, {"Authorization": f"Bearer {token}"})


@contextmanager
def served(app: Any) -> Iterator[str]:
    """An application over HTTP, at a URL, the way services are served."""
    server = uvicorn.Server(
        uvicorn.Config(app, port=0, log_level="warning", timeout_graceful_shutdown=1, lifespan="off")
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            threading.Event().wait(0.005)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def door(operators: Operators, clock: ManualClock | None = None, **options: Any) -> Iterator[Door]:
    """A small service behind the door, at work."""
    clock = clock or ManualClock(NOW)
    refused: list[str] = []
    app = small_app()
    authenticator = Authenticator(operators, clock)
    app.add_middleware(Security, authenticator=authenticator, clock=clock, refused=refused.append, **options)
    with served(app) as url:
        yield Door(url, clock, operators, refused)


def written(folder: Path, text: str = TWO) -> Path:
    """An operators' file."""
    path = folder / "operators.toml"
    path.write_text(text)
    return path
