"""``sabot certify``: what an operator runs before go-live, against any wallet that speaks the protocol."""

from contextlib import ExitStack
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from services.cli.console import console, errors, fail
from services.cli.operator import KEY, PLAYERS, Dialect, Faults, sandbox_of


def certify(
    url: Annotated[
        str | None, typer.Argument(help="The wallet. Without: a sandbox, started and stopped for this.")
    ] = None,
    key: Annotated[str, typer.Option(metavar="ID:SECRET", help="With which requests are signed.")] = KEY,
    player: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=CURRENCY[:SESSION]",
            help="A player with at least 200 units; two in one currency are needed, more are used. "
            "Without: alice and bob in EUR, yuki in JPY, noor in KWD.",
            show_default=False,
        ),
    ] = None,
    only: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Scenarios or groups, such as [b]cancel*[/b].")
    ] = None,
    dialect: Dialect = "sabot",
    limit_ms: Annotated[int, typer.Option(help="The longest that an answer may take.", min=1)] = 700,
    fault: Faults = None,
    as_list: Annotated[bool, typer.Option("--list", help="Only say what there is.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Run the scenarios and print what passed, what failed, what was expected and what was got.

    Exit status 0: all passed (what the protocol has no words for is skipped); 1: some failed; 2: it could not
    be run.
    """
    from services.certify.catalogue import scenarios

    wanted = scenarios(only)
    if not wanted:
        fail(f"no scenario is called {only!r}; sabot certify --list says what there is", status=2)
    if as_list:
        _list(wanted, as_json=as_json)
        return
    if url is not None and fault:
        fail("--fault is for the sandbox; the wallet at a URL has its own", status=2)
    results = _run(url, key, player, dialect, limit_ms, fault, wanted, quiet=as_json)
    failed = sum(each.verdict == "failed" for each in results)
    if as_json:
        console.print_json(data=[_document(each) for each in results])
    else:
        _print(results)
    raise typer.Exit(1 if failed else 0)


def _run(
    url: str | None,
    key: str,
    players: list[str] | None,
    dialect: str,
    limit_ms: int,
    faults: list[str] | None,
    wanted: Any,
    *,
    quiet: bool,
) -> list[Any]:
    from services.certify.runner import CannotRun, run
    from services.certify.stage import Player, Subject
    from services.operator.faults import UnknownFault
    from services.operator.hosting import running
    from services.runtime.ports_system import SystemClock, SystemRng
    from services.runtime.signing import Key
    from services.seamless.adapters import UnknownDialect, adapter_named
    from services.seamless.client import UrlError

    key_id, _, secret = key.partition(":")
    if not secret:
        fail("--key: write the key's id, a colon, and its secret", status=2)
    clock, rng = SystemClock(), SystemRng()
    with ExitStack() as opened:
        try:
            adapter = adapter_named(dialect)
            if url is None:
                sandbox = sandbox_of(None, [key], faults, dialect=dialect)
                url, _ = opened.enter_context(running(sandbox, clock, rng))
            named = [_player(each) for each in players] if players else None
            subject = Subject(
                url,
                Key(key_id, secret.encode()),
                adapter,
                named
                or [
                    Player(name, money.partition(":")[0], f"session-{name}")
                    for name, _, money in (each.partition("=") for each in PLAYERS)
                ],
                limit_ms,
                clock,
                rng,
            )
            progress = opened.enter_context(
                Progress(
                    TextColumn("{task.description}"),
                    BarColumn(),
                    MofNCompleteColumn(),
                    console=errors,
                    transient=True,
                    disable=quiet,
                )
            )
            task = progress.add_task("certifying", total=len(wanted))

            def say(result: Any) -> None:
                progress.update(task, advance=1, description=result.scenario.id)

            return run(subject, wanted, say)
        except (CannotRun, UnknownDialect, UnknownFault, UrlError) as error:
            fail(str(error), status=2)


def _player(text: str) -> Any:
    from services.certify.stage import Player

    name, _, rest = text.partition("=")
    currency, _, token = rest.partition(":")
    return Player(name, currency or "EUR", token or None)


def _list(wanted: Any, *, as_json: bool) -> None:
    if as_json:
        rows = [{"id": each.id, "group": each.group, "shows": each.shows} for each in wanted]
        console.print_json(data=rows)
        return
    table = Table("group", "scenario", "shows", title=f"{len(wanted)} scenarios")
    for each in wanted:
        table.add_row(each.group, each.id, each.shows)
    console.print(table)


def _document(result: Any) -> dict[str, Any]:
    return {
        "id": result.scenario.id,
        "group": result.scenario.group,
        "shows": result.scenario.shows,
        "verdict": result.verdict,
        "steps": result.steps,
        "seconds": round(result.seconds, 3),
        "step": result.step,
        "expected": result.expected,
        "got": result.got,
    }


_MARKS = {"passed": "[green]✓[/green]", "failed": "[red]✗[/red]", "skipped": "–"}


def _print(results: list[Any]) -> None:
    table = Table("", "group", "scenario", "steps", "ms", "expected", "got")
    for each in results:
        step = f"{each.step}: " if each.step else ""
        table.add_row(
            _MARKS[each.verdict],
            each.scenario.group,
            each.scenario.id,
            str(each.steps),
            f"{1000 * each.seconds:.0f}",
            f"{step}{each.expected}" if each.expected else "",
            each.got,
        )
    console.print(table)
    counts = {verdict: sum(each.verdict == verdict for each in results) for verdict in _MARKS}
    seconds = sum(each.seconds for each in results)
    words = f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"
    console.print(f"{'✗' if counts['failed'] else '✓'} {words}, in {seconds:.1f} s")
