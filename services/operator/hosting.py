"""The sandbox as an application, as a process of its own, and for as long as something is tried out on it."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import uvicorn
from fastapi import FastAPI
from uvicorn.server import HANDLED_SIGNALS

from schemas.money import parse_amount
from services.operator import api, one_wallet
from services.operator.door import Door
from services.operator.records import Account
from services.operator.service import OperatorService
from services.operator.store import Store
from services.runtime.ports import Clock, Rng
from services.runtime.process import check_host

Dialect = Literal["sabot", "one_wallet"]
DIALECTS: Final[tuple[Dialect, ...]] = ("sabot", "one_wallet")
_GRACE_SECONDS: Final = 1


@dataclass(frozen=True, slots=True)
class Sandbox:
    """How a sandbox begins."""

    keys: Mapping[str, str]
    """Secrets by the ids of keys."""
    players: tuple[Account, ...] = ()
    """Made where they are not there yet."""
    faults: Collection[str] = ()
    delay_ms: int = 900
    dialect: Dialect = "sabot"
    data: Path | None = None
    """A file that stays; without, everything ends with the process."""


def player(name: str, currency: str, balance: str) -> Account:
    """A player with one session, ``session-<name>``.

    Raises:
        MoneyError: the currency or the amount is none.
    """
    return Account(name, currency, parse_amount(balance, currency), tokens=(f"session-{name}",))


def operator_app(service: OperatorService, sandbox: Sandbox, clock: Clock, rng: Rng) -> FastAPI:
    """The application: one dialect, and the switches."""
    app = FastAPI(title="Sabot sandbox operator", openapi_url=None, docs_url=None, redoc_url=None)
    door = Door(service, sandbox.keys, clock)
    if sandbox.dialect == "one_wallet":
        one_wallet.add_protocol(app, service, door, rng)
    else:
        api.add_protocol(app, service, door)
    api.add_switches(app, service)
    return app


@contextmanager
def opened(sandbox: Sandbox) -> Iterator[OperatorService]:
    """The wallet behind a sandbox, with its players and faults; closed at the end.

    Raises:
        UnknownFault: a fault is none.
    """
    store = Store(sandbox.data)
    try:
        service = OperatorService(store, needs_token=sandbox.dialect == "one_wallet")
        service.switch(sandbox.faults, sandbox.delay_ms)
        for each in _missing(store, sandbox.players):
            service.keep(each)
        yield service
    finally:
        store.close()


def serve_operator(
    sandbox: Sandbox, *, clock: Clock, rng: Rng, host: str, port: int, ready: Callable[[str], None]
) -> None:
    """Run a sandbox until a signal; ``ready`` is told its URL once it listens. Port 0 takes a free one.

    Raises:
        OpenToTheWorld: ``host`` is not a loopback address.
        OSError: the port is taken.
        UnknownFault: a fault is none.
    """
    check_host(host)
    with opened(sandbox) as service, _listening(host, port) as listening:
        server = _server(operator_app(service, sandbox, clock, rng))
        ready(_url(host, listening))
        server.run(sockets=[listening])


@contextmanager
def running(sandbox: Sandbox, clock: Clock, rng: Rng) -> Iterator[tuple[str, OperatorService]]:
    """A sandbox in a thread of this process, on a free port: its URL, and the wallet to switch faults on.

    Raises:
        UnknownFault: a fault is none.
    """
    with opened(sandbox) as service, _listening("127.0.0.1", 0) as listening:
        server = _server(operator_app(service, sandbox, clock, rng))
        thread = threading.Thread(
            target=server.run, kwargs={"sockets": [listening]}, name="sandbox", daemon=True
        )
        thread.start()
        try:
            # Who connects now waits in the socket's queue until the server takes it.
            yield _url("127.0.0.1", listening), service
        finally:
            server.should_exit = True
            thread.join()


def _missing(store: Store, players: Iterable[Account]) -> Iterator[Account]:
    return (each for each in players if store.account(each.name) is None)


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=128)


def _server(app: FastAPI) -> uvicorn.Server:
    # What a fault leaves unanswered is cut off at the end, and that is nothing to be logged.
    config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=_GRACE_SECONDS)
    return _Server(config)


class _Server(uvicorn.Server):
    """Ends when a signal says so, and lets the process end in its own way."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Uvicorn's own raises the signal again when it is done, which would be the process's exit status.
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in HANDLED_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _url(host: str, listening: socket.socket) -> str:
    port = listening.getsockname()[1]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
