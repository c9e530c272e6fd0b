"""Where the command prints, and how it fails."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

_INTERRUPTED: Final = 130

console = Console(highlight=False)
"""Results."""

errors = Console(stderr=True, highlight=False)
"""Everything that is not a result: progress, warnings, failures."""


def fail(words: str, status: int = 1) -> NoReturn:
    """Say why in one line on stderr, and end."""
    errors.print(f"[red]sabot:[/red] {_escaped(words)}", soft_wrap=True)
    sys.exit(status)


@contextmanager
def interruptible(words: str) -> Iterator[None]:
    """Say what an interrupt (Ctrl-C) has left behind, and end with the status of somebody interrupted."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as end:
        # Typer has made a silent exit of the interrupt.
        if isinstance(end, SystemExit) and end.code != _INTERRUPTED:
            raise
        errors.print(f"\n{words}")
        sys.exit(_INTERRUPTED)


def _escaped(words: str) -> str:
    return words.replace("[", r"\[")


def print_json(document: Any) -> None:
    """A result for machines: one JSON document on stdout."""
    print(json.dumps(document, ensure_ascii=False, indent=2))


@contextmanager
def progress(what: str, total: int | None, unit: str) -> Iterator[Any]:
    """A bar on stderr while something long runs; yields a function that is told how far it is."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task(what, total=total)

        def moved(done: int, of: int | None = None) -> None:
            bar.update(task, completed=done, total=total if of is None else of)

        yield moved
