"""A service as a process of its own: one thread steps the writer, the main thread answers HTTP.

SIGTERM and SIGINT stop HTTP first, then the writer after the batch that it is in; what was not committed
was not answered either.
"""

from __future__ import annotations

import ipaddress
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socket import socket
from typing import Any, Final

import uvicorn
from fastapi import FastAPI
from uvicorn.server import HANDLED_SIGNALS

from services.runtime.writer import Writer, WriterStopped

_IDLE_SECONDS: Final = 0.01
_GRACE_SECONDS: Final = 10
"""For requests in hand at the end; a client that does not finish its own cannot keep the service up."""

log = logging.getLogger(__name__)


class OpenToTheWorld(ValueError):
    """A host that is not loopback, for a service that asks nobody who he is."""


def check_host(host: str, *, trusted: bool = False) -> None:
    """Refuse to listen where others could reach a service without authentication.

    Raises:
        OpenToTheWorld: ``host`` is not a loopback address, and the network is not ``trusted``.
    """
    if trusted:
        return
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise OpenToTheWorld(
            f"{host!r} is not a loopback address. The services do not authenticate callers yet, "
            "so they listen on 127.0.0.1, ::1 or localhost only (SABOT_TRUSTED_NETWORK=true lifts this in a "
            "network where nobody else is)"
        )


class WriterThread(threading.Thread):
    """Steps a writer until it is told to stop."""

    def __init__(self, writer: Writer[Any], on_failure: threading.Event) -> None:
        super().__init__(name=f"{writer.service.name}-writer", daemon=True)
        self._writer, self._failure, self._halt = writer, on_failure, threading.Event()

    def run(self) -> None:
        while not self._halt.is_set():
            try:
                if self._writer.step() == 0:
                    self._writer.wait(_IDLE_SECONDS)
            except WriterStopped as reason:
                log.critical("the %s writer stopped: %s", self._writer.service.name, reason)
                self._failure.set()
                return

    def finish(self) -> None:
        """Let the present batch end, then close the writer."""
        self._halt.set()
        self.join()
        self._writer.close()


class _Server(uvicorn.Server):
    """Stops by itself when the writer does: a service that cannot write must not look alive."""

    def __init__(
        self, config: uvicorn.Config, failure: threading.Event, ready: Callable[[str], None]
    ) -> None:
        super().__init__(config)
        self._failure, self._ready = failure, ready

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        for server in self.servers:
            for listening in server.sockets:
                host, port = listening.getsockname()[:2]
                self._ready(f"{host}:{port}")

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Uvicorn's own raises the signal again when it is done. That would end the process before the writer
        # was closed, and with the signal for its exit status.
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in HANDLED_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or self._failure.is_set()


def serve(writer: Writer[Any], app: FastAPI, host: str, port: int, ready: Callable[[str], None]) -> int:
    """Run until a signal. ``host`` was checked; ``ready`` is told the address once it answers.

    Returns the exit status: 0, or 1 where the writer failed.
    """
    failure = threading.Event()
    thread = WriterThread(writer, failure)
    thread.start()
    try:
        config = uvicorn.Config(
            app, host=host, port=port, log_level="warning", timeout_graceful_shutdown=_GRACE_SECONDS
        )
        _Server(config, failure, ready).run()
    finally:
        thread.finish()
    return 1 if failure.is_set() else 0
