"""Entry point: the commands, and errors in plain words instead of tracebacks."""

from __future__ import annotations

import os
import sys

import typer

from services.cli import demo, houses, ingest, odds, serve, verify
from services.cli.console import errors, fail

app = typer.Typer(
    name="sabot",
    help=(
        "Sabot, the event-sourced back office of a baccarat room: [b]game[/b] deals by the house's rules, "
        "[b]wallet[/b] takes bets and pays, [b]audit[/b] works every coup out again.\n\n"
        "Begin with [b]sabot demo[/b]. Feed recorded coups with [b]sabot ingest[/b], check everything with "
        "[b]sabot verify[/b]."
    ),
    rich_markup_mode="rich",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)
app.command("ingest")(ingest.ingest)
app.command("verify")(verify.verify)
app.command("odds")(odds.odds)
app.command("houses")(houses.houses)
app.add_typer(serve.group("game"), name="game")
app.add_typer(serve.group("wallet"), name="wallet")
app.add_typer(serve.group("audit"), name="audit")


def run() -> None:
    """Run the command line; a failure that has words is said in one line."""
    try:
        app()
    except KeyboardInterrupt:
        errors.print("\nstopped; what was committed is kept, and the same command goes on from there")
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output has gone. Python would complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        fail(f"{error.strerror or error}: {error.filename}" if error.filename else str(error))
