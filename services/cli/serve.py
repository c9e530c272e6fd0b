"""``sabot game|wallet|audit serve`` and ``republish``: each service as a process of its own."""

import logging
import os
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from fastapi import FastAPI
from sqlalchemy import Engine

from services.cli.console import console, errors, fail
from services.cli.data import DatabaseOption, DataOption, KafkaOption, check_bus, installation, settings
from services.cli.wallet_check import add_check
from services.runtime.callers import Authenticator
from services.runtime.files import database_of
from services.runtime.installation import Installation
from services.runtime.operator_table import OperatorsError
from services.runtime.operators import Operators
from services.runtime.ports import Bus, BusUnavailable
from services.runtime.ports_system import SystemClock, SystemIds, SystemRng
from services.runtime.process import OpenToTheWorld, check_host
from services.runtime.process import serve as serve_process
from services.runtime.republish import UnknownStream, republish
from services.runtime.writer import Writer

Name = Literal["game", "wallet", "audit"]

_PORTS = {"game": 8101, "wallet": 8102, "audit": 8103}
_STREAMS = {"game": "game/main.T1", "wallet": "wallet/main", "audit": "audit/main"}
_DOES = {
    "game": "Game: tables, shoes and coups.",
    "wallet": "Wallet: accounts, bets and money.",
    "audit": "Audit: verdicts on every coup.",
}


def group(name: Name) -> typer.Typer:
    """The commands of one service."""
    commands = typer.Typer(help=_DOES[name], no_args_is_help=True)

    @commands.command("serve")
    def serve(
        data: DataOption = Path("sabot-data"),
        kafka: KafkaOption = None,
        database: DatabaseOption = None,
        host: Annotated[
            str,
            typer.Option(
                help="Loopback only (callers are not authenticated yet) unless SABOT_TRUSTED_NETWORK is set."
            ),
        ] = "127.0.0.1",
        port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)] = _PORTS[name],
    ) -> None:
        """Run the service until SIGTERM or Ctrl-C: its writer, and HTTP with /metrics, /healthz, /readyz."""
        operators = _operators()
        # Only wallet asks callers who they are, and only where there is a file that says who may come.
        asks = name == "wallet" and not (operators.is_open or operators.table.development)
        try:
            check_host(host, trusted=settings().trusted_network or asks)
        except OpenToTheWorld as error:
            fail(str(error), status=2)
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        logging.getLogger("alembic").setLevel(logging.WARNING)
        logging.getLogger("kafka").setLevel(logging.CRITICAL)  # what it means for us we say ourselves, once
        where = installation(data, kafka, database)
        bus = where.open_bus()
        try:
            writer = _open(name, where, bus, operators)
            with ExitStack() as opened:
                app = _app(name, writer, where.open_reader(name), operators, opened)
                opened.enter_context(operators.watched())
                status = serve_process(writer, app, host, port, ready=_say_ready(name))
        finally:
            bus.close()
        raise typer.Exit(status)

    @commands.command("republish")
    def republish_stream(
        stream: Annotated[str, typer.Argument(help=f"A stream of this service, such as {_STREAMS[name]}.")],
        first: Annotated[int, typer.Argument(metavar="FROM", help="Sequence to begin with.", min=1)],
        data: DataOption = Path("sabot-data"),
        kafka: KafkaOption = None,
        database: DatabaseOption = None,
    ) -> None:
        """Publish a stream's original bytes again, from a sequence on: the only way to fill a gap."""
        where = installation(data, kafka, database)
        if where.database is None and not (data / database_of(name)).exists():
            fail(f"there is no {name} in {data}", status=2)
        bus = where.open_bus()
        try:
            check_bus(where)
            count = republish(where.open_reader(name), bus, stream, first)
        except UnknownStream as error:
            fail(str(error), status=2)
        except BusUnavailable as error:
            fail(f"{error}; publish them again when it is there")
        finally:
            bus.close()
        console.print(f"{count} events of {stream} published again", markup=False)

    if name == "wallet":
        add_check(commands)
    return commands


def _say_ready(name: str) -> Any:
    def say(address: str) -> None:
        errors.print(f"{name} is ready on http://{address} (Ctrl-C stops it)", soft_wrap=True)

    return say


def _operators() -> Operators:
    given = settings()
    if given.operators is None:
        return Operators.open(given)
    try:
        return Operators.load(given.operators, os.environ)
    except OperatorsError as error:
        fail(str(error), status=2)


def _open(name: Name, where: Installation, bus: Bus, operators: Operators) -> Writer[Any]:
    clock, ids, config = SystemClock(), SystemIds(), settings()
    if name == "game":
        from services.game.wiring import open_game

        return open_game(where, bus, config, clock=clock, ids=ids, rng=SystemRng())
    if name == "wallet":
        from services.wallet.wiring import open_wallet

        return open_wallet(where, bus, config, clock=clock, ids=ids, operators=operators)
    from services.audit.wiring import open_audit

    return open_audit(where, bus, config, clock=clock, ids=ids)


def _app(name: Name, writer: Writer[Any], reader: Engine, operators: Operators, opened: ExitStack) -> FastAPI:
    if name == "game":
        from services.game.api import game_app

        return game_app(writer, reader)
    if name == "wallet":
        from services.wallet.api import wallet_app
        from services.wallet.dispatch import Dispatcher
        from services.wallet.wiring import OperatorWallets

        clock = SystemClock()
        wallets = opened.enter_context(closing(OperatorWallets(operators, clock, SystemRng())))
        dispatcher = opened.enter_context(closing(Dispatcher(writer, reader, wallets.of)))
        return wallet_app(writer, reader, Authenticator(operators, clock), clock, dispatcher)
    from services.audit.api import audit_app

    return audit_app(writer, reader)
