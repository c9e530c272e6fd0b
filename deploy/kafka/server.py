"""A process that becomes a broker: ready when it says so and answers, and if it fails, its log says why."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM, Signals
from subprocess import Popen, TimeoutExpired

from deploy.kafka.errors import BrokerFailed
from deploy.kafka.ports import LOOPBACK
from deploy.kafka.tether import Tether

READY = "Kafka Server started"
"""What a broker writes into its log when it has joined the cluster and takes requests."""

STOP_SECONDS = 30
_STACK_FRAME = re.compile(r"\s+at |\s+\.\.\. \d+ (more|common frames)")


class Server:
    """One broker's process, which can be started again and again, and its log."""

    def __init__(self, name: str, log: Path, port: int, tether: Tether) -> None:
        self.name, self.log, self.port = name, log, port
        self._tether = tether
        self._process: Popen[bytes] | None = None
        self._log_start = 0

    def launch(self, command: Sequence[str | Path], number: Signals = SIGKILL) -> None:
        """Start the process. The signal is what it gets if this process should die."""
        if self._process is not None:
            raise BrokerFailed(f"{self.name} is running already")
        with self.log.open("ab") as output:
            self._log_start = output.tell()
            self._process = self._tether.start(command, output, number)

    @property
    def is_launched(self) -> bool:
        """Whether it was started and nobody has stopped it. It may have ended by itself."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """The process that runs it."""
        return self._running().pid

    def is_ready(self) -> bool:
        """Whether it answers by now. Raises ``BrokerFailed`` if it has ended."""
        self._running()
        return READY in self._said() and self._answers()

    def _answers(self) -> bool:
        try:
            socket.create_connection((LOOPBACK, self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def wait(self, seconds: float) -> int:
        """The exit status, when it has ended by itself."""
        process = self._launched()
        try:
            status = process.wait(seconds)
        except TimeoutExpired:
            raise self.failure(f"is still not done after {seconds:g} seconds") from None
        self._process = None
        return status

    def stop(self) -> int:
        """Ask it to end and wait for its exit status. Who does not within half a minute is killed."""
        process = self._running()
        process.send_signal(SIGTERM)
        process.send_signal(SIGCONT)  # a paused one would not hear of it
        try:
            status = process.wait(STOP_SECONDS)
        except TimeoutExpired:
            process.kill()
            status = process.wait()
        self._process = None
        return status

    def kill(self) -> None:
        """End it on the spot."""
        process = self._running()
        process.kill()
        process.wait()
        self._process = None

    def pause(self) -> None:
        """Let it hang: its connections stay, and it says nothing."""
        process = self._running()
        process.send_signal(SIGSTOP)
        # Until it stands still; without reaping it, should it end instead.
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let it go on after a pause."""
        self._running().send_signal(SIGCONT)

    def check(self) -> None:
        """Raise ``BrokerFailed`` if it was started, not stopped, and yet has ended."""
        if self._process is not None:
            self._running()

    def _launched(self) -> Popen[bytes]:
        if self._process is None:
            raise BrokerFailed(f"{self.name} is not running")
        return self._process

    def _running(self) -> Popen[bytes]:
        process = self._launched()
        status = process.poll()
        if status is not None:
            self._process = None
            how = f"was ended by {Signals(-status).name}" if status < 0 else f"ended with status {status}"
            raise self.failure(how)
        return process

    def failure(self, what: str) -> BrokerFailed:
        """An exception that says what happened and how the log ends, less the calls in stack traces."""
        said = [line for line in self._said().splitlines() if line.strip() and not _STACK_FRAME.match(line)]
        return BrokerFailed("\n".join([f"{self.name} {what}; the end of its log:", *said[-12:]]))

    def _said(self) -> str:
        """What the log has got since the last launch."""
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")
