"""Entry point: the commands, and errors in plain words instead of tracebacks."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Final

import typer

from services.cli.console import fail, interruptible
from services.runtime.memory import calm_collector

_HELP: Final = (
    "Sabot, the event-sourced back office of a baccarat room: [b]game[/b] deals by the house's rules, "
    "[b]wallet[/b] takes bets and pays, [b]audit[/b] works every coup out again.\n\n"
    "Begin with [b]sabot demo[/b]. Feed recorded coups with [b]sabot ingest[/b], check everything with "
    "[b]sabot verify[/b]. Get Kafka and PostgreSQL ready with [b]sabot prepare[/b]."
)
_COMMANDS: Final = ("demo", "ingest", "verify", "odds", "houses", "prepare", "certify")
_SERVICES: Final = ("game", "wallet", "audit")
_BESIDE: Final = ("issuer", "operator")
"""What a deployment has beside the services, for development and for integrators."""


def build(wanted: str | None = None) -> typer.Typer:
    """The command line; with ``wanted`` only as much of it as that command needs.

    Who asks for the odds should not wait until a database library is loaded.
    """
    app = typer.Typer(
        name="sabot",
        rich_markup_mode="rich",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback(help=_HELP)(_nothing_by_itself)
    every = wanted not in (*_COMMANDS, *_SERVICES, *_BESIDE)
    for name in _COMMANDS:
        if every or name == wanted:
            app.command(name)(getattr(import_module(f"services.cli.{name}"), name))
    for name in _SERVICES:
        if every or name == wanted:
            app.add_typer(import_module("services.cli.serve").group(name), name=name)
    for name in _BESIDE:
        if every or name == wanted:
            app.add_typer(import_module(f"services.cli.{name}").group(), name=name)
    return app


def _nothing_by_itself() -> None:
    """Keeps a lone command a subcommand."""


def run() -> None:
    """Run the command line; a failure that has words is said in one line."""
    try:
        # A terminal that cannot show a card's suit or a tick shows a question mark, not a traceback.
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="replace")
        with interruptible("stopped; what was committed is kept, and the same command goes on from there"):
            app = build(sys.argv[1] if len(sys.argv) > 1 else None)
            calm_collector()
            app()
    except BrokenPipeError:
        # Whoever read our output has gone. Python would complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except UnicodeDecodeError as error:
        fail(f"a file is not UTF-8 text (byte {error.start + 1}): {error.reason}", status=2)
    except OSError as error:
        fail(f"{error.strerror or error}: {error.filename}" if error.filename else str(error))
    except Exception as error:
        if _is_from("services.runtime.ports", error) or _is_from("services.runtime.store", error):
            fail(str(error))
        if not (_is_from("sqlite3", error) or _is_from("sqlalchemy", error)):
            raise
        cause = getattr(error, "orig", None) or error
        where = "on PostgreSQL" if _is_from("psycopg", cause) else "in the data directory"
        words = next(iter(str(cause).splitlines()), type(cause).__name__)
        fail(f"the databases {where} cannot be used: {words}")


def _is_from(module: str, error: Exception) -> bool:
    """Whether an error is one of a module's, which is loaded only where a command needs it."""
    return any(f"{kind.__module__}.".startswith(f"{module}.") for kind in type(error).__mro__)
