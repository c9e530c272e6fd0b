"""A service as a process of its own, as an installation runs it: ``sabot game serve``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals
from typing import Self

from deploy.kafka.tether import tethered

SABOT = Path(sys.executable).with_name("sabot")
"""The command of this environment."""

_READY_SECONDS = 60
_END_SECONDS = 60


class ServiceFailed(Exception):
    """A service that does not start, with what it said."""


class ServiceProcess:
    """Started at once; ``address`` waits until it answers. A context manager.

    It is ended with this process, at the latest, where the system is Linux.
    """

    def __init__(
        self,
        name: str,
        options: Sequence[str | Path] = (),
        environment: Mapping[str, str] | None = None,
        *,
        port: int = 0,
    ) -> None:
        """``port``: where it answers; 0 takes a free one."""
        self.name, self.said = name, ""
        """What it has written on its standard error so far."""
        command = [SABOT, name, "serve", "--port", str(port), *options]
        self._process = subprocess.Popen(
            tethered(command, SIGTERM) if sys.platform == "linux" else command,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            # Ctrl-C is for who started it: it decides in which order things end.
            start_new_session=True,
        )
        self._address: Future[str] = Future()
        self._listener = threading.Thread(target=self._listen, name=f"{name}-log", daemon=True)
        self._listener.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _listen(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self.said += line
                found = re.search(r"http://([\d.]+:\d+)", line)
                if found is not None and not self._address.done():
                    self._address.set_result(found[1])
        if not self._address.done():
            self._address.set_exception(ServiceFailed(f"{self.name} never got ready: {self.said.strip()}"))

    @property
    def address(self) -> str:
        """Host and port, once it answers.

        Raises:
            ServiceFailed: it ended before it did, or takes too long.
        """
        try:
            return self._address.result(timeout=_READY_SECONDS)
        except TimeoutError:
            words = f"{self.name} is not ready after {_READY_SECONDS} seconds: {self.said.strip()}"
            raise ServiceFailed(words) from None

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{self.address}"

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def send(self, number: Signals) -> None:
        """Send a signal to this process and to no other."""
        self._process.send_signal(number)

    def end(self, number: Signals = SIGTERM) -> int:
        """Send a signal and wait for the end; the exit status."""
        self.send(number)
        return self.wait()

    def wait(self) -> int:
        """The exit status, when the process ends."""
        status = self._process.wait(timeout=_END_SECONDS)
        self._listener.join(timeout=10)
        return status

    def close(self) -> None:
        """End it if it still runs: in good order if it can, otherwise on the spot."""
        if not self.has_ended:
            self.send(SIGTERM)
            try:
                self._process.wait(timeout=_END_SECONDS)
            except subprocess.TimeoutExpired:
                self.send(SIGKILL)
        self.wait()
