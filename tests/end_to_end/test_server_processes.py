"""The three services as processes over a real Kafka and a real PostgreSQL, all of which may go away."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

from deploy.kafka.ports import HeldPort
from deploy.processes import ServiceFailed
from schemas.events.accounts import Deposited
from schemas.events.wallet import (
    CoupSettled,
)
from schemas.house import shipped_houses
from services.room.readers import coups_in_play
from services.room.remote import RemoteRoom
from services.room.tables import Plan, VirtualTable, play
from services.runtime.files import SERVICES
from services.runtime.ports_system import SeededRng
from services.runtime.settings import Settings
from tests.end_to_end.rooms import OPERATOR, Room, assert_paid_once
from tests.end_to_end.servers import Servers, Topics
from tests.end_to_end.support import Service, eventually, run_command, sabot, sabot_json

EXAMPLES = Path(__file__).parents[2] / "examples"
SECRET = "for-tests"
"""The password in the URLs of all test databases (tests/support/postgres.py)."""


@pytest.fixture
def servers(kafka_cluster, databases) -> Servers:
    return Servers(Topics(kafka_cluster.bootstrap), databases)


@contextmanager
def at_work(servers: Servers) -> Iterator[Room]:
    """The three services, each of which answers at the same place whenever it is started again."""
    with ExitStack() as stack:
        ports = {name: stack.enter_context(closing(HeldPort())).number for name in SERVICES}
        # No coup is void because this machine was slow.
        environment = {"SABOT_SEAL_TIMEOUT_SECONDS": "600"}
        room = stack.enter_context(Room(servers.options, environment, ports))
        yield room
        for service in room.started:
            assert SECRET not in service.said
            assert "Traceback" not in service.said, service.said


def assert_all_is_well(servers: Servers, coups: int) -> None:
    """Everything is verified and every bet paid once, whichever way one looks."""
    whole = sabot_json("verify", *servers.options)
    assert whole["coups"] == {"verified": coups, "of_these_void": 0, "discrepancy": 0, "open": 0}
    assert (whole["ok"], whole["findings"]) == (True, [])
    # Audit may have met on the bus what came twice, and have said so; on Kafka alone as well.
    assert sabot_json("verify", "--kafka", servers.kafka) == whole
    assert_paid_once(servers.events())


# -------------------------------------------------------------------------------------- driven from elsewhere


def test_ingest_asks_the_services_that_are_at_work_and_gives_what_files_give(servers, tmp_path, monkeypatch):
    file, out = tmp_path / "coups.jsonl", tmp_path / "settlements.csv"
    file.write_bytes((EXAMPLES / "lt.jsonl").read_bytes())
    sabot("ingest", file, "--data", tmp_path / "data")
    expected = (tmp_path / "data" / "settlements.csv").read_bytes()
    command = ["ingest", file, *servers.options, "--out", out]
    with at_work(servers) as room:
        first = sabot_json(*command, "--game", room.game.url, "--wallet", room.wallet.url)
        assert (first["coups"], first["repeated_lines"], first["rejected_lines"]) == (12, 0, 0)
        assert out.read_bytes() == expected
        # Each deposit and each bet was a command to that process; more than one, if its answer came late.
        taken = room.wallet.metrics()["wallet_commands_total", ("done",)]
        assert taken >= first["deposits"] + first["bets"] > 60

        out.unlink()
        monkeypatch.setenv("SABOT_GAME", room.game.url)
        monkeypatch.setenv("SABOT_WALLET", room.wallet.url)
        again = sabot_json(*command)
        assert (again["repeated_lines"], out.read_bytes()) == (again["lines"], expected)

        swapped = run_command(*command, "--game", room.wallet.url, "--wallet", room.game.url)
        assert swapped.status == 1
        assert f"what answers at {room.game.url} is not wallet" in swapped.err

        # Whoever wants to may verify while they work, also who may only read.
        at_once = sabot_json("verify", "--kafka", servers.kafka, "--database", servers.as_reader)
        assert (at_once["ok"], at_once["coups"]["verified"]) == (True, 12)
        room.stop()
    assert_all_is_well(servers, 12)


def test_tables_play_on_over_the_death_of_each_service(servers):
    with at_work(servers) as room, remote_room(servers, room) as remote:
        tables = [
            VirtualTable(
                remote,
                name,
                shipped_houses()["nl"],
                seats=3,
                plan=Plan(shoes=None, coups=5),
                rng=SeededRng(name),
            )
            for name in ("T1", "T2")
        ]
        play(remote, tables, killing(room, remote, {1: "wallet", 4: "game", 7: "audit"}))
        assert [service.name for service in room.started[3:]] == ["wallet", "game", "audit"]
        room.all_verified(10)
        room.stop()
    assert_all_is_well(servers, 10)


def remote_room(servers: Servers, room: Room) -> RemoteRoom:
    return RemoteRoom(servers.where, Settings(), game=room.game.url, wallet=room.wallet.url)


def killing(room: Room, remote: RemoteRoom, deaths: dict[int, str]) -> Callable[[int], None]:
    """Kills a service after so many coups, in the middle of the next one, and starts it again."""

    def progress(coups: int) -> None:
        due = next((number for number in deaths if number <= coups), None)
        if due is not None and coups_in_play(remote.wallet_reader):
            name = deaths.pop(due)
            assert getattr(room, name).end(SIGKILL) == -SIGKILL
            setattr(room, name, room.start(name))

    return progress


# ----------------------------------------------------------------------------------------- what they stand on


def not_ready(service: Service) -> str | None:
    """Why the service is not ready, if it is not."""
    answer = service.ask("GET", "/readyz")
    return None if answer.status == 200 else "; ".join(answer.body["reasons"])


def test_bets_are_answered_while_the_broker_is_away_and_settled_when_it_is_back(servers, own_kafka_cluster):
    with at_work(servers) as room:
        room.open_table("T1", players=2)
        room.play("T1", 1, players=2)
        room.paid("T1", 1)
        room.open_coup("T1", 2)
        assert room.bet("T1", 2, 1, "banker").status == 200

        own_kafka_cluster.stop()
        assert room.bet("T1", 2, 2, "player").status == 200
        assert room.cash_in_play("T1", 2) == "10.00"
        for service in room.services:
            why = eventually(lambda: not_ready(service))  # noqa: B023 - used in this turn
            assert why.startswith("the bus: ")
            assert own_kafka_cluster.bootstrap in why
            assert service.get("/healthz") == {"status": "ok"}
        # Nobody has told wallet that betting closes, so that it cannot seal, and no card is dealt.
        room.close("T1", 2)
        late = room.do(room.wallet, "/v1/deposits", account="late", tx="d", currency="EUR", amount="1.00")
        assert late["balance"] == "1.00"
        assert room.phase("T1") == "sealing"

        own_kafka_cluster.start()
        assert room.result("T1", 2)["status"] == "concluded"
        room.paid("T1", 2)
        for service in room.services:
            eventually(lambda: not_ready(service) is None)  # noqa: B023 - used in this turn
        room.play("T1", 3, players=2)
        room.paid("T1", 3)
        room.all_verified(3)
        room.stop()
    assert_all_is_well(servers, 3)


def test_without_their_databases_the_services_end_in_words_and_go_on_when_these_are_back(
    servers, own_postgres
):
    with at_work(servers) as room:
        room.open_table("T1", players=2)
        room.play("T1", 1, players=2)
        room.paid("T1", 1)
        room.all_verified(1)
        room.open_coup("T1", 2)
        assert room.bet("T1", 2, 1, "banker").status == 200
        known = servers.topics.records()

        own_postgres.stop("immediate")
        # What comes to each of them twice is nothing new; but that they have read it they cannot write down.
        servers.topics.publish([record for record in known if record.topic != "audit.events"])
        for service in room.services:
            assert service.wait() == 1
            assert f"database {servers.prefix}{service.name}" in service.said
            assert f"PostgreSQL at 127.0.0.1:{own_postgres.port}" in service.said
        in_vain = room.start("wallet")
        assert in_vain.wait() == 1
        assert "Connection refused" in in_vain.said

        own_postgres.start()
        room.game, room.wallet, room.audit = map(room.start, SERVICES)
        assert room.bet("T1", 2, 2, "player").status == 200
        room.close("T1", 2)
        room.paid("T1", 2)
        room.play("T1", 3, players=2)
        room.paid("T1", 3)
        room.all_verified(3)
        room.stop()
    assert_all_is_well(servers, 3)


# -------------------------------------------------------------------------------------------- one too many


def test_of_two_wallets_on_one_database_one_stops_in_words_and_nothing_is_paid_twice(servers):
    with at_work(servers) as room:
        room.open_table("T1", players=2)
        room.play("T1", 1, players=2)
        room.paid("T1", 1)
        room.open_coup("T1", 2)
        assert room.bet("T1", 2, 1, "banker").status == 200

        with Service("wallet", servers.options) as second:
            wallets = [room.wallet, second]
            accepted = [
                number for number in range(6) if deposits(wallets[number % 2], f"player {number}") == 200
            ]
            stopped = eventually(lambda: next((each for each in wallets if each.has_ended), None))
            [room.wallet] = [each for each in wallets if each is not stopped]
            assert stopped.wait() == 1
            assert "another writer has written to this store" in stopped.said
            assert "Traceback" not in stopped.said

            assert deposits(room.wallet, "player 9") == 200
            eventually(lambda: not_ready(room.wallet) is None)
            room.close("T1", 2)
            room.paid("T1", 2)
            room.play("T1", 3, players=2)
            room.paid("T1", 3)
            room.all_verified(3)
            room.stop()
    assert_all_is_well(servers, 3)
    events = servers.events()
    taken = [event.data for event in events if isinstance(event.data, Deposited) and event.data.amount == 500]
    assert len(taken) == len(accepted) + 1
    assert sum(isinstance(event.data, CoupSettled) for event in events) == 3


def deposits(wallet: Service, account: str) -> int | None:
    """The status with which a deposit is answered; None where nobody answers any more."""
    body: dict[str, Any] = {"operator": OPERATOR, "account": account, "tx": "d"}
    try:
        answer = wallet.ask("POST", "/v1/deposits", {**body, "currency": "EUR", "amount": "5.00"})
    except (OSError, ServiceFailed):
        return None
    assert answer.status == 200 or (answer.status, answer.body["code"]) == (503, "TEMPORARY")
    return answer.status
