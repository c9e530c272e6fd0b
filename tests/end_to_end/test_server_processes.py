"""The three services as processes over a real Kafka and a real PostgreSQL, which die and go away as they do."""

import csv
import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from deploy.kafka.ports import HeldPort
from deploy.processes import SABOT
from schemas.events.wallet import Deposited
from schemas.house import shipped_houses
from services.room.demonstration import demonstrate
from services.room.readers import coups_in_play
from services.room.remote import RemoteRoom
from services.room.tables import Plan
from services.runtime.files import SERVICES
from services.runtime.ports_system import SeededRng
from services.runtime.settings import Settings
from tests.end_to_end.rooms import OPERATOR, Room, assert_paid_once
from tests.end_to_end.servers import Servers, Topics
from tests.end_to_end.support import Ended, Service, eventually, sabot, sabot_json

EXAMPLES = Path(__file__).parents[2] / "examples"
SECRET = "for-tests"
"""The password in every database URL of the tests (tests/support/postgres.py)."""


@pytest.fixture
def servers(kafka_cluster, databases) -> Servers:
    return Servers(Topics(kafka_cluster.bootstrap), databases)


@contextmanager
def at_work(servers: Servers, **environment: str) -> Iterator[Room]:
    """The three services, each of which answers at the same place whenever it is started again."""
    with ExitStack() as stack:
        ports = {name: stack.enter_context(closing(HeldPort())).number for name in SERVICES}
        room = stack.enter_context(Room(servers.options, environment, ports))
        yield room
        for service in room.services:
            assert SECRET not in service.said
            assert "Traceback" not in service.said, service.said


def urls(room: Room) -> dict[str, str]:
    return {"game": room.game.url, "wallet": room.wallet.url}


def assert_all_is_well(servers: Servers, coups: int, void: int = 0) -> dict[str, Any]:
    """Everything is verified and paid once, whichever way one looks."""
    expected = {"verified": coups, "of_these_void": void, "discrepancy": 0, "open": 0}
    whole = sabot_json("verify", *servers.options)
    assert (whole["coups"], whole["findings"]) == (expected, [])
    assert sabot_json("verify", "--kafka", servers.kafka) == {**whole, "notices": []}
    assert_paid_once(servers.events())
    return dict(whole)


# --------------------------------------------------------------------------------------- driven from elsewhere


def ingest(file: Path, *options: str | Path, **environment: str) -> Ended:
    """As a process, which sees the services at work as anybody would."""
    command = [SABOT, "ingest", file, *options, "--json"]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=100, check=False
    )
    return Ended(done.returncode, done.stdout, done.stderr)
