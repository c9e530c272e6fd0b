"""The installation: how every command names and opens it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from services.cli.console import fail
from services.room.calls import AddressError
from services.room.local import LocalRoom
from services.room.remote import RemoteRoom
from services.runtime.bus.address import parse_address
from services.runtime.installation import Installation, InstallationError
from services.runtime.ports import BusUnavailable, Ids, Rng
from services.runtime.ports_system import SystemClock, SystemIds, SystemRng
from services.runtime.settings import Settings, SettingsError, settings_from

DataOption = Annotated[
    Path, typer.Option("--data", help="Directory of the services' databases and the embedded bus.")
]
KafkaOption = Annotated[
    str | None,
    typer.Option(
        "--kafka",
        metavar="HOST:PORT",
        help="Kafka's brokers instead of the embedded bus; several with commas. Default: SABOT_KAFKA.",
        show_default=False,
    ),
]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        help="PostgreSQL instead of files, such as postgresql://sabot_{service}@HOST/sabot_{service}; "
        "{service} becomes game, wallet or audit. Default: SABOT_DATABASE.",
        show_default=False,
    ),
]

GameOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="Where game answers, if at work. Default: SABOT_GAME.", show_default=False
    ),
]
WalletOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where wallet answers, if at work. Default: SABOT_WALLET.",
        show_default=False,
    ),
]


def settings() -> Settings:
    """The settings of the environment; ends the command where they cannot be taken."""
    try:
        return settings_from(os.environ)
    except SettingsError as error:
        fail(str(error), status=2)


def installation(data: Path, kafka: str | None, database: str | None) -> Installation:
    """The installation that options and environment name; ends the command where they cannot be taken."""
    given = settings()
    try:
        where = Installation(data, kafka or given.kafka, database or given.database)
    except InstallationError as error:
        fail(str(error), status=2)
    if where.database is not None and "{service}" not in where.database:
        fail(
            "database: write {service} where the services' databases differ, as in "
            "postgresql://sabot_{service}@HOST:5432/sabot_{service}",
            status=2,
        )
    return where


def check_bus(where: Installation) -> None:
    """See whether the bus is there, for who would have to wait for it.

    Raises:
        BusUnavailable: it is not.
    """
    if where.kafka is not None and not (brokers := parse_address(where.kafka)).answers:
        raise BusUnavailable(brokers.silence)


def drive_room(where: Installation, game: str | None, wallet: str | None) -> LocalRoom | RemoteRoom:
    """The room of an installation: its services where they are at work, otherwise in this process.

    Raises:
        NoSuchService: they are at work, and do not answer.
        BusUnavailable, DatabaseUnavailable: the installation cannot be reached.
    """
    at_work = where.at_work()
    if at_work == ["audit"]:
        fail("audit is at work, game and wallet are not: start them or stop it", status=2)
    if not at_work:
        if game is not None or wallet is not None:
            fail("--game and --wallet are for services at work on PostgreSQL; there are none", status=2)
        check_bus(where)  # before anything is written that nobody would read
        return open_room(where)
    given = settings()
    try:
        return RemoteRoom(where, given, game=game or given.game, wallet=wallet or given.wallet)
    except AddressError as error:
        fail(str(error), status=2)


def open_room(where: Installation, ids: Ids | None = None, rng: Rng | None = None) -> LocalRoom:
    """The room of an installation, its services in this process."""
    return LocalRoom(where, settings(), clock=SystemClock(), ids=ids or SystemIds(), rng=rng or SystemRng())
