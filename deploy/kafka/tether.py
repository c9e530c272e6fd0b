"""Processes that end with this one, also when it is killed with SIGKILL."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from signal import SIGKILL, Signals
from typing import IO, Self

_EXEC = Path(__file__).with_name("exec_tethered.py")


def tethered(command: Sequence[str | Path], number: Signals = SIGKILL) -> list[str]:
    """The command line that runs a command, to be sent a signal when the thread that started it is gone."""
    # -I -S: neither the environment nor site-packages have a say in it, and it starts in 15 ms.
    start = [sys.executable, "-I", "-S", str(_EXEC), str(os.getpid()), str(int(number))]
    return [*start, *(str(each) for each in command)]


class Tether:
    """Starts processes; those that are still there at the end are ended.

    Linux ties a process to the *thread* that started it. So all are started by one thread that lives as
    long as the tether, whatever thread asks.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tether")
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(
        self, command: Sequence[str | Path], output: IO[bytes], number: Signals = SIGKILL
    ) -> subprocess.Popen[bytes]:
        """Start a command whose standard output and error go to a file."""
        return self._thread.submit(self._start, tethered(command, number), output).result()

    def _start(self, command: Sequence[str], output: IO[bytes]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Ctrl-C is for the one who started it: it decides in which order things end.
            start_new_session=True,
        )
        # Kept here and not by who asked: an interrupt may come before it has the answer.
        self._started.append(process)
        return process

    def close(self) -> None:
        """End what is still running, and wait for it."""
        self._thread.shutdown()
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait()
