"""``sabot operator serve`` and ``faults``: a sandbox wallet, for demonstrations, tests and integrators."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from services.cli.console import console, errors, fail

_PORT = 8105
KEY = "sandbox:sandbox-secret-for-development-only"
"""The key that a sandbox takes where none is named, and with which ``certify`` signs."""
PLAYERS = ("alice=EUR:100000.00", "bob=EUR:100000.00", "yuki=JPY:1000000", "noor=KWD:10000.000")

Players = Annotated[
    list[str] | None,
    typer.Option(
        "--player",
        metavar="NAME=CURRENCY:BALANCE",
        help=f"May be given several times. Without: {', '.join(PLAYERS)}.",
        show_default=False,
    ),
]
Faults = Annotated[
    list[str] | None,
    typer.Option(
        "--fault",
        metavar="NAME",
        help="A fault to switch on; several times. [b]sabot operator faults[/b] lists them.",
        show_default=False,
    ),
]
Dialect = Annotated[
    str,
    typer.Option(help="The protocol: [b]sabot[/b], or [b]one-wallet[/b] (debit, credit, cancel)."),
]


def group() -> typer.Typer:
    """The commands of the sandbox."""
    commands = typer.Typer(
        help="An operator's wallet for the seamless mode, with faults to switch on.", no_args_is_help=True
    )

    @commands.command("serve")
    def serve(
        player: Players = None,
        key: Annotated[
            list[str] | None,
            typer.Option(
                metavar="ID:SECRET",
                help=f"A key with which it is called; several times. Without: {KEY}.",
                show_default=False,
            ),
        ] = None,
        fault: Faults = None,
        delay_ms: Annotated[int, typer.Option(help="For the fault [b]slow[/b].", min=0)] = 900,
        dialect: Dialect = "sabot",
        data: Annotated[
            Path | None, typer.Option(help="A file that stays; without, all ends with the process.")
        ] = None,
        host: Annotated[str, typer.Option(help="Loopback only.")] = "127.0.0.1",
        port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)] = _PORT,
    ) -> None:
        """Run the sandbox until SIGTERM or Ctrl-C.

        Faults can be switched while it runs: PUT /sandbox/faults {"faults": ["slow"]}.
        """
        from services.operator.faults import UnknownFault
        from services.operator.hosting import serve_operator
        from services.runtime.ports_system import SystemClock, SystemRng
        from services.runtime.process import OpenToTheWorld

        def ready(url: str) -> None:
            errors.print(f"operator is ready on {url} (Ctrl-C stops it)", soft_wrap=True)

        sandbox = sandbox_of(player, key, fault, delay_ms=delay_ms, dialect=dialect, data=data)
        try:
            serve_operator(sandbox, clock=SystemClock(), rng=SystemRng(), host=host, port=port, ready=ready)
        except UnknownFault as error:
            fail(str(error), status=2)
        except OpenToTheWorld:
            fail(f"{host!r} is not a loopback address, and the sandbox is for one machine only", status=2)

    @commands.command("faults")
    def faults(as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False) -> None:
        """The faults that can be switched on, and what each does."""
        from services.operator.faults import FAULTS

        if as_json:
            console.print_json(data=FAULTS)
            return
        table = Table("fault", "what it does")
        for name, words in FAULTS.items():
            table.add_row(name, words)
        console.print(table)

    return commands


def sandbox_of(
    players: list[str] | None,
    keys: list[str] | None,
    faults: list[str] | None,
    *,
    delay_ms: int = 900,
    dialect: str = "sabot",
    data: Path | None = None,
) -> Any:
    """The sandbox that options describe; ends the command where they cannot be taken."""
    from schemas.money import MoneyError
    from services.operator.hosting import Sandbox, player

    secrets = {}
    for each in keys or [KEY]:
        name, _, secret = each.partition(":")
        if not name or not secret:
            fail(f"--key {each!r}: write the key's id, a colon, and its secret", status=2)
        secrets[name] = secret
    accounts = []
    for each in players or PLAYERS:
        name, _, money = each.partition("=")
        currency, _, balance = money.partition(":")
        try:
            accounts.append(player(name, currency, balance))
        except MoneyError as error:
            fail(f"--player {each!r}: {error}; write alice=EUR:1000.00", status=2)
    name = dialect.replace("-", "_")
    if name not in ("sabot", "one_wallet"):
        fail(f"--dialect {dialect!r}: write sabot or one-wallet", status=2)
    return Sandbox(
        keys=secrets,
        players=tuple(accounts),
        faults=tuple(faults or ()),
        delay_ms=delay_ms,
        dialect="one_wallet" if name == "one_wallet" else "sabot",
        data=data,
    )
