"""``sabot prepare``: an installation on servers is made ready."""

from __future__ import annotations

import json as jsonlib
import os
from pathlib import Path
from typing import Annotated, Final

import typer

from services.cli.console import console, fail
from services.cli.data import DatabaseOption, KafkaOption, installation
from services.room.preparing import prepare_installation
from services.runtime.files import SERVICES
from services.runtime.ports import BusUnavailable, DatabaseUnavailable
from services.runtime.postgres import address
from services.runtime.prepare import READER, PreparationFailed

PASSWORD: Final = "SABOT_PASSWORD_"
"""How the environment variables begin with the passwords that the roles get."""


def prepare(
    kafka: KafkaOption = None,
    database: DatabaseOption = None,
    admin: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="A PostgreSQL role that may make databases and roles, such as "
            "postgresql://postgres@HOST/postgres.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """Make Kafka and PostgreSQL ready for the services; once, and again after an upgrade.

    On Kafka: the topics, kept for ever, with three replicas where there are three brokers. On PostgreSQL: a
    database and a role for each service with only the rights that it needs, a reader's role for sabot verify,
    and the tables of this version. What is there already stays as it is.

    The roles get the passwords that SABOT_PASSWORD_GAME, SABOT_PASSWORD_WALLET, SABOT_PASSWORD_AUDIT and
    SABOT_PASSWORD_READER name, each its own; where one is not set, that of the URL, if it has one.
    """
    where = installation(Path("sabot-data"), kafka, database)
    if where.kafka is None and where.database is None:
        fail("name what to make ready: --kafka, or --database with --admin", status=2)
    if where.database is not None and admin is None and (database is not None or where.kafka is None):
        fail("--database needs --admin: who may make databases and roles there", status=2)
    if admin is not None:
        try:
            address(admin)
        except ValueError as error:
            fail(f"--admin: {error}", status=2)
    passwords = _passwords()
    done: list[str] = []

    def say(words: str) -> None:
        done.append(words)
        if not json:
            console.print(words, markup=False, soft_wrap=True)

    try:
        prepare_installation(where, admin, say, passwords)
    except (BusUnavailable, DatabaseUnavailable, PreparationFailed, ValueError) as error:
        fail(str(error))
    if json:
        print(jsonlib.dumps({"done": done}, indent=2))


def _passwords() -> dict[str, str]:
    """The passwords that the environment names. Not options: a command line can be read by everybody."""
    given = {role: os.environ.get(f"{PASSWORD}{role.upper()}") for role in (*SERVICES, READER)}
    for role, password in given.items():
        if password == "":
            fail(f"{PASSWORD}{role.upper()} is empty; leave it out, or give the role a password", status=2)
    return {role: password for role, password in given.items() if password}
