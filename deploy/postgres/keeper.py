"""Outlives whoever started a server, just long enough to end that server and to remove its folder.

A process of its own (``python keeper.py FOLDER``), without a library beyond Python's: it waits until its
standard input ends. An orderly owner has cleaned up by itself and says so; one that was killed has not.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path


def postmaster_of(folder: Path) -> int | None:
    """The process id of the server that works in ``folder``, if one does."""
    try:
        process = int((folder / "data" / "postmaster.pid").read_text().split("\n", 1)[0])
        command = Path(f"/proc/{process}/cmdline").read_bytes()
    except (OSError, ValueError):
        return None
    # A number that was used again belongs to somebody else.
    return process if os.fsencode(folder) in command else None


def children_of(process: int) -> list[int]:
    """The process ids of a process's children."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(_fields(status)[1]) == process:
                found.append(int(status.parent.name))
    return found


def is_alive(process: int) -> bool:
    """Whether a process still holds anything; one that only waits to be counted (a zombie) does not."""
    try:
        return _fields(Path(f"/proc/{process}/stat"))[0] not in "ZX"
    except OSError:
        return False


def _fields(status: Path) -> list[str]:
    """State, parent and so on. The name before them stands in brackets and may hold anything."""
    return status.read_text().rpartition(")")[2].split()


def kill_all(process: int) -> list[int]:
    """Kill a server and its children, none of which sees the others die. Returns the children."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGSTOP)  # so that it starts no child meanwhile
    children = children_of(process)
    for each in (process, *children):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    return children


def main() -> None:
    """Wait for the owner's end."""
    folder = Path(sys.argv[1])
    if not sys.stdin.buffer.read():
        if (process := postmaster_of(folder)) is not None:
            kill_all(process)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
