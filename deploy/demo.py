"""``make demo-kafka``: the demonstration as an installation runs it.

A broker, a database server and the three services, each a process of its own on this machine, for as long as
it takes: a table is played over HTTP, and all of it verified by replaying Kafka's topics, from nothing else.
What was started is stopped, and what it kept is removed.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from deploy.kafka import Kafka, find
from deploy.kafka.errors import BrokerFailed
from deploy.postgres.server import Server, ServerFailed
from deploy.processes import ServiceFailed, ServiceProcess
from schemas.house import House, shipped_houses
from services.audit.verification import Verification
from services.cli.beads import BeadPlate
from services.cli.console import errors, fail, interruptible, print_json, progress
from services.cli.summary import print_demonstration
from services.cli.verify import document, run_verification
from services.room.calls import NoSuchService
from services.room.demonstration import demonstrate
from services.room.preparing import prepare_installation
from services.room.remote import RemoteRoom
from services.room.room import Stalled
from services.room.tables import plan_of
from services.runtime.files import SERVICES
from services.runtime.installation import Installation
from services.runtime.ports import BusUnavailable, DatabaseUnavailable
from services.runtime.ports_system import SeededRng, SystemRng
from services.runtime.settings import Settings

_NOWHERE = Path("sabot-data")
"""A data directory that nothing is kept in."""


def demo(
    house: Annotated[str, typer.Option(help="Which house: nl, fr, de, dk or lt.")] = "nl",
    shoes: Annotated[int, typer.Option(help="How many shoes.", min=1, max=100)] = 1,
    coups: Annotated[int | None, typer.Option(help="Stop after so many coups.", min=1)] = None,
    seats: Annotated[int, typer.Option(help="How many players bet on every coup.", min=1, max=14)] = 7,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Play a shoe on a real Kafka and a real PostgreSQL, and verify it from the Kafka topics alone.

    Exit status 0 only if every coup was verified and the ledger balances.
    """
    chosen = shipped_houses().get(house)
    if chosen is None:
        fail(f"there is no house {house!r}; there are {', '.join(shipped_houses())}", status=2)
    if seats > max(chosen.table.seats):
        fail(f"house {house} has at most {max(chosen.table.seats)} seats", status=2)
    beads = BeadPlate()
    try:
        with ExitStack() as stack:
            where = _start_servers(stack)
            _play(stack, where, chosen, shoes=shoes, coups=coups, seats=seats)
            result = _verify(where, beads)
    except (
        BrokerFailed,
        ServerFailed,
        ServiceFailed,
        BusUnavailable,
        DatabaseUnavailable,
        NoSuchService,
        Stalled,
    ) as reason:
        fail(str(reason))
    if json:
        print_json(document(result))
    else:
        print_demonstration(result, chosen, beads)
    raise typer.Exit(0 if result.ok and not result.open else 1)


def _start_servers(stack: ExitStack) -> Installation:
    """A broker and a database server, made ready."""
    kafka: Kafka = stack.enter_context(find())
    _say(f"Kafka at {kafka.bootstrap}")
    server = stack.enter_context(Server())
    database = f"postgresql://sabot_{{service}}@127.0.0.1:{server.port}/sabot_{{service}}"
    _say(f"PostgreSQL at 127.0.0.1:{server.port}")
    where = Installation(_NOWHERE, f"{kafka.bootstrap}/demo-{SystemRng().token(4).hex()}", database)
    prepare_installation(where, server.url, lambda _: None)
    return where


def _play(
    stack: ExitStack, where: Installation, house: House, *, shoes: int, coups: int | None, seats: int
) -> None:
    assert where.kafka is not None
    assert where.database is not None
    options = ["--kafka", where.kafka, "--database", where.database]
    with ExitStack() as running:
        services = {name: running.enter_context(ServiceProcess(name, options)) for name in SERVICES}
        for name, service in services.items():
            _say(f"{name} at {service.url}, process {service.pid}")
        plan = plan_of(house, shoes, coups)
        with (
            RemoteRoom(where, Settings(), game=services["game"].url, wallet=services["wallet"].url) as room,
            progress("Playing", plan.expected, "coups") as bar,
        ):
            rng = SeededRng(SystemRng().token(16).hex())
            demonstrate(room, house, plan, seats=seats, rng=rng, progress=bar)


def _verify(where: Installation, beads: BeadPlate) -> Verification:
    _say("the services are stopped; replaying Kafka's topics, and nothing else")
    return run_verification(Installation(_NOWHERE, where.kafka), beads)


def _say(words: str) -> None:
    errors.print(words, markup=False, soft_wrap=True)


if __name__ == "__main__":
    with interruptible("stopped, with all that was started"):
        typer.run(demo)
