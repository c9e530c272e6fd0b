"""Wallet over HTTP: amounts are strings, repeats answer the same bytes, refusals say what to do."""

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from schemas.commands.wallet import (
    Deposit,
)
from schemas.events.accounts import Deposited
from schemas.events.wallet import (
    BetAccepted,
    ConflictDetected,
)
from services.runtime.ports import BusUnavailable
from services.runtime.process import OpenToTheWorld, WriterThread, check_host
from tests.contracts.bus import ROOT
from tests.wallet.world import OPERATOR, SHOE, TABLE, World, app_of, wealth


@contextmanager
def serving(world: World) -> Iterator[TestClient]:
    """The application over the world's wallet, with its writer stepping in a thread of its own."""
    thread = WriterThread(world.wallet, threading.Event())
    thread.start()
    with TestClient(app_of(world)) as client:
        yield client
    thread.finish()


@pytest.fixture
def client(world: World) -> Iterator[TestClient]:
    world.open_table()
    with serving(world) as client:
        yield client


def deposit(**changes: object) -> dict[str, object]:
    return {
        "operator": OPERATOR,
        "account": "Ann",
        "tx": "D1",
        "currency": "EUR",
        "amount": "100.00",
    } | changes


def bet(**changes: object) -> dict[str, object]:
    return {
        "operator": OPERATOR,
        "table": TABLE,
        "shoe": SHOE,
        "coup": 1,
        "account": "Ann",
        "tx": "T1",
        "spot": "banker",
        "currency": "EUR",
        "stake": "25.00",
    } | changes


def problem(response: httpx2.Response, status: int, code: str, field: str | None) -> dict[str, object]:
    """The problem document of a refusal, checked."""
    body: dict[str, object] = response.json()
    assert (response.status_code, body["code"], body["field"]) == (status, code, field), body
    assert response.headers["content-type"] == "application/problem+json"
    assert body["status"] == status
    assert set(body) == {"type", "title", "status", "detail", "code", "field", "retryable"}
    return body


def test_a_deposit_and_a_bet(client):
    answer = client.post("/v1/deposits", json=deposit())
    assert (answer.status_code, answer.json()) == (
        200,
        {"code": "OK", "tx": "D1", "balance": "100.00", "currency": "EUR"},
    )
    answer = client.post("/v1/bets", json=bet(seat=3))
    assert (answer.status_code, answer.json()) == (
        200,
        {"code": "OK", "tx": "T1", "bet": "main.1", "balance": "75.00", "currency": "EUR"},
    )
    assert "Idempotent-Replayed" not in answer.headers
    assert client.get(f"/v1/accounts/{OPERATOR}/Ann").json() == {
        "account": "Ann",
        "status": {"frozen": False, "excluded_until": None},
        "balances": [wealth("EUR", cash="75.00", in_play="25.00")],
    }
    assert client.get(f"/v1/coups/{OPERATOR}/{TABLE}/{SHOE}/1/bets").json() == [
        {
            "account": "Ann",
            "tx": "T1",
            "seat": 3,
            "spot": "banker",
            "stake": "25.00",
            "returned": "0.00",
            "commission": "0.00",
            "currency": "EUR",
            "status": "open",
            "funding": "cash",
        }
    ]


def test_a_coup_that_is_over(client, world):
    client.post("/v1/deposits", json=deposit())
    client.post("/v1/bets", json=bet(stake="10.10"))
    client.post("/v1/bets", json=bet(stake="500.00", tx="T2"))
    world.bus.publish([world.game.close(1), world.game.conclude(1, "banker")])
    until_idle(world)
    bets = client.get(f"/v1/coups/{OPERATOR}/{TABLE}/{SHOE}/1/bets").json()
    assert [(each["status"], each["returned"], each["commission"]) for each in bets] == [
        ("won", "19.69", "0.51"),
        ("refused", "0.00", "0.00"),
    ]
    late = client.post("/v1/bets", json=bet(tx="T3"))
    assert problem(late, 409, "ROUND_CLOSED", "coup")["retryable"] is False
    repaired = client.post(
        "/v1/repairs", json={"operator": OPERATOR, "table": TABLE, "shoe": SHOE, "coup": 1, "version": 1}
    )
    assert (repaired.status_code, repaired.json()["code"]) == (200, "OK_REPLAY")
    balances = client.get(f"/v1/accounts/{OPERATOR}/Ann").json()["balances"]
    assert balances == [wealth("EUR", cash="109.59", in_play="0.00")]


def until_idle(world: World) -> None:
    """Wait for the writer's thread to have read all that is on the bus."""
    expected = len(world.game.stream.events)
    for _ in range(1_000):
        with world.reader.connect() as db, db.begin():
            (applied,) = db.exec_driver_sql("SELECT max(sequence) FROM inbox").one()
        if applied == expected:
            return
        threading.Event().wait(0.01)
    pytest.fail("the writer does not go on")


# ------------------------------------------------------------------------------------- repeats and conflicts


@pytest.mark.parametrize(("path", "body"), [("/v1/deposits", deposit()), ("/v1/bets", bet())])
def test_w3_a_repeat_answers_the_same_bytes(client, world, path, body):
    client.post("/v1/deposits", json=deposit(tx="D0"))
    first = client.post(path, json=body)
    client.post("/v1/deposits", json=deposit(tx="D2", amount="0.05"))
    before = world.events()
    again = client.post(path, json=body | {"trace": "another attempt"})
    assert again.content == first.content
    assert again.headers["Idempotent-Replayed"] == "true"
    now = {"/v1/deposits": "200.05", "/v1/bets": "75.05"}[path]
    assert again.headers["Sabot-Current-Balance"] == now
    assert world.events() == before


def test_w6_a_repeated_refusal_is_the_same_refusal(client):
    client.post("/v1/deposits", json=deposit(amount="1.00"))
    first = client.post("/v1/bets", json=bet())
    assert problem(first, 422, "INSUFFICIENT_FUNDS", "stake")["retryable"] is False
    client.post("/v1/deposits", json=deposit(tx="D2"))
    again = client.post("/v1/bets", json=bet())
    assert (again.status_code, again.content) == (422, first.content)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.headers["Sabot-Current-Balance"] == "101.00"


def test_w4_the_same_id_with_another_body_is_a_conflict_that_names_the_field(client, world):
    client.post("/v1/deposits", json=deposit())
    client.post("/v1/bets", json=bet())
    conflict = client.post("/v1/bets", json=bet(spot="player"))
    said = problem(conflict, 409, "IDEMPOTENCY_CONFLICT", "spot")
    assert said["retryable"] is False
    assert "player" not in conflict.text
    assert "banker" not in conflict.text
    conflict = client.post("/v1/deposits", json=deposit(amount="99.00"))
    problem(conflict, 409, "IDEMPOTENCY_CONFLICT", "amount")
    assert len(world.events(ConflictDetected)) == 2
    assert (len(world.events(Deposited)), len(world.events(BetAccepted))) == (1, 1)


def test_ten_requests_with_one_id_at_once_are_one_bet(client, world):
    client.post("/v1/deposits", json=deposit())
    answers: list[httpx2.Response] = []
    threads = [
        threading.Thread(target=lambda: answers.append(client.post("/v1/bets", json=bet())))
        for _ in range(10)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert {answer.content for answer in answers} == {answers[0].content}
    assert [answer.status_code for answer in answers] == [200] * 10
    assert sum("Idempotent-Replayed" in answer.headers for answer in answers) == 9
    assert len(world.events(BetAccepted)) == 1


# ------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("number", [25, 25.0, 1e3, True, None, ["25.00"], {"value": "25.00"}])
def test_w25_an_amount_that_is_no_string_is_refused_by_name(client, world, number):
    before = world.events()
    problem(client.post("/v1/deposits", json=deposit(amount=number)), 422, "INVALID", "amount")
    problem(client.post("/v1/bets", json=bet(stake=number)), 422, "INVALID", "stake")
    assert world.events() == before


@pytest.mark.parametrize(
    "text",
    ["", " ", "abc", "1e3", "-5", "+5", " 5", "5 ", "1,000.00", "1.", ".5", "\u0665", "NaN", "0x10", "1_000"],
)
def test_w25_text_that_is_no_amount_is_refused(client, text):
    problem(client.post("/v1/deposits", json=deposit(amount=text)), 422, "INVALID", "amount")


@pytest.mark.parametrize("text", ["0", "0.00"])
def test_nothing_is_no_amount(client, text):
    said = problem(client.post("/v1/bets", json=bet(stake=text)), 422, "INVALID", "stake")
    assert "more than zero" in str(said["detail"])


@pytest.mark.parametrize(("text", "currency"), [("10.005", "EUR"), ("1.5", "JPY"), ("1.2345", "KWD")])
def test_w23_too_many_decimals(client, world, text, currency):
    before = world.events()
    response = client.post("/v1/deposits", json=deposit(amount=text, currency=currency))
    problem(response, 422, "PRECISION", "amount")
    problem(client.post("/v1/bets", json=bet(stake=text, currency=currency)), 422, "PRECISION", "stake")
    assert world.events() == before


@pytest.mark.parametrize(
    ("change", "status", "code", "field"),
    [
        ({"currency": "XXQ"}, 422, "INVALID", "currency"),
        ({"currency": "eur"}, 422, "INVALID", "currency"),
        ({"stake": "99999999999999.99"}, 422, "INVALID", "stake"),
        ({"tx": ""}, 422, "INVALID", "tx"),
        ({"tx": "x" * 65}, 422, "INVALID", "tx"),
        ({"account": "a\nb"}, 422, "INVALID", "account"),
        ({"operator": "a.b"}, 422, "INVALID", "operator"),
        ({"table": "a/b"}, 422, "INVALID", "table"),
        ({"coup": "1"}, 422, "INVALID", "coup"),
        ({"coup": -1}, 422, "INVALID", "coup"),
        ({"seat": 0}, 422, "INVALID", "seat"),
        ({"spot": "Banker"}, 422, "INVALID", "spot"),
        ({"spot": "dragon"}, 422, "SPOT_UNKNOWN", "spot"),
        ({"stake": "100.01"}, 422, "INSUFFICIENT_FUNDS", "stake"),
        ({"coup": 2}, 404, "COUP_UNKNOWN", "coup"),
    ],
)
def test_a_refused_bet_names_its_field_and_moves_nothing(client, change, status, code, field):
    client.post("/v1/deposits", json=deposit())
    response = client.post("/v1/bets", json=bet(**change))
    assert problem(response, status, code, field)["retryable"] is (code == "COUP_UNKNOWN")
    balances = client.get(f"/v1/accounts/{OPERATOR}/Ann").json()["balances"]
    assert balances == [wealth("EUR", cash="100.00", in_play="0.00")]


def test_a_late_bet(client, world):
    client.post("/v1/deposits", json=deposit())
    world.bus.publish([world.game.close(1)])
    until_idle(world)
    problem(client.post("/v1/bets", json=bet()), 409, "BETTING_CLOSED", "coup")


@pytest.mark.parametrize("missing", ["table", "shoe", "coup", "account", "tx", "spot", "stake"])
def test_a_missing_field_is_named(client, missing):
    body = {name: value for name, value in bet().items() if name != missing}
    problem(client.post("/v1/bets", json=body), 422, "INVALID", missing)


@pytest.mark.parametrize("text", ["", "{", '"bet"', "[]", "null"])
def test_a_body_that_is_no_object(client, text):
    response = client.post("/v1/bets", content=text, headers={"content-type": "application/json"})
    problem(response, 422, "INVALID", None)


@pytest.mark.parametrize("field", ["account", "tx", "spot"])
def test_text_that_is_no_unicode_is_refused_and_harms_nobody(client, field):
    client.post("/v1/deposits", json=deposit())
    text = json.dumps(bet(**{field: "SURROGATE"})).replace("SURROGATE", r"\ud800")
    response = client.post("/v1/bets", content=text, headers={"content-type": "application/json"})
    problem(response, 422, "INVALID", None)  # that is no JSON at all
    assert client.post("/v1/bets", json=bet()).status_code == 200


def test_unknown_fields_are_ignored(client):
    assert client.post("/v1/deposits", json=deposit(promo={"code": 5})).status_code == 200


def test_what_is_not_there(client):
    problem(client.get(f"/v1/accounts/{OPERATOR}/Zoe"), 404, "ACCOUNT_UNKNOWN", "account")
    assert client.get(f"/v1/coups/{OPERATOR}/{TABLE}/{SHOE}/99/bets").json() == []
    far = client.get(f"/v1/coups/{OPERATOR}/{TABLE}/{SHOE}/{10**30}/bets")
    problem(far, 422, "INVALID", "coup")


def test_a_result_that_is_not_there_yet_may_be_asked_for_again(client):
    repair = {"operator": OPERATOR, "table": TABLE, "shoe": SHOE, "coup": 1}
    response = client.post("/v1/repairs", json=repair)
    assert problem(response, 409, "RESULT_UNKNOWN", "coup")["retryable"] is True


# ---------------------------------------------------------------------------------------- health and metrics


def test_a_service_that_works_is_ready(client):
    assert client.get("/healthz").json() == {"status": "ok"}
    ready = client.get("/readyz")
    assert (ready.status_code, ready.json()) == (200, {"status": "ready", "reasons": []})


def test_a_service_with_a_held_stream_is_not_ready(client, world):
    world.game.set_house("nl")  # said, and lost on its way
    world.bus.publish([world.game.open(2)])
    for _ in range(1_000):
        ready = client.get("/readyz")
        if ready.status_code != 200:
            break
        threading.Event().wait(0.01)
    assert (ready.status_code, ready.json()) == (
        503,
        {"status": "not ready", "reasons": ["game/op.T1: event 4 is missing"]},
    )
    assert client.get("/healthz").status_code == 200
    assert client.post("/v1/deposits", json=deposit()).status_code == 200, "the rest of the service works"


def test_a_service_that_cannot_publish_is_not_ready(client, world):
    client.post("/v1/deposits", json=deposit())
    world.wallet.relay._bus = _NoBus()
    assert client.post("/v1/deposits", json=deposit(tx="D2")).status_code == 200
    for _ in range(1_000):
        ready = client.get("/readyz")
        if ready.status_code != 200:
            break
        threading.Event().wait(0.01)
    assert ready.json()["reasons"] == ["the bus: gone"]
    world.wallet.relay._bus = world.bus


class _NoBus:
    def begin(self, records: object) -> None:
        raise BusUnavailable("gone")


def test_a_service_whose_writer_stopped_is_not_ready_and_says_to_try_again(client, world, monkeypatch):
    monkeypatch.setattr(world.wallet.store, "append", lambda *_: 1 // 0)
    for tx in ("D1", "D2"):  # the first is in the batch that fails, the second comes too late
        response = client.post("/v1/deposits", json=deposit(tx=tx))
        assert problem(response, 503, "TEMPORARY", None)["retryable"] is True
        assert response.headers["Retry-After"] == "1"
    ready = client.get("/readyz")
    assert ready.status_code == 503
    assert "the writer stopped: ZeroDivisionError" in ready.json()["reasons"][0]


def test_who_waits_too_long_is_told_so_and_what_was_not_begun_is_not_done(world, monkeypatch):
    monkeypatch.setattr("services.runtime.http._PATIENCE_SECONDS", 0.1)
    world.open_table()
    with TestClient(app_of(world)) as client:  # and nobody steps the writer
        response = client.post("/v1/deposits", json=deposit())
    assert problem(response, 503, "TEMPORARY", None)["retryable"] is True
    world.run()
    assert world.events(Deposited) == []
    assert world.wallet.stopped is None


def test_metrics_can_be_read_by_prometheus(client):
    client.post("/v1/deposits", json=deposit())
    client.post("/v1/deposits", json=deposit(amount="1.00"))  # the same id with another amount
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=")
    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }
    assert samples["wallet_events_appended_total",] == 3  # an account, a deposit, a conflict
    assert samples["wallet_commands_total", "done"] == 1
    assert samples["wallet_commands_total", "refused"] == 1
    assert samples["wallet_commands_total", "failed"] == 0
    assert samples["wallet_records_consumed_total", "applied", "game.events"] == 3
    assert samples["wallet_records_consumed_total", "chain_break", "game.events"] == 0
    assert samples["wallet_held_streams",] == 0


def test_the_api_describes_itself(client):
    paths = client.get("/v1/openapi.json").json()["paths"]
    assert {"/v1/deposits", "/v1/bets", "/v1/repairs", "/healthz", "/readyz", "/metrics"} <= set(paths)


# ------------------------------------------------------------------------------------------------- processes


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_a_loopback_host_is_taken(host):
    check_host(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.5", "10.0.0.1", "example.com", "", "localhost.example.com", "127.1"]
)
def test_a_host_that_others_can_reach_is_refused(host):
    with pytest.raises(OpenToTheWorld, match="not a loopback address"):
        check_host(host)


SERVE = """
import sys
from pathlib import Path
from services.runtime.bus.embedded import EmbeddedBus
from services.runtime.database import open_sqlite
from services.runtime.installation import Installation
from services.runtime.ports_system import SystemClock, SystemIds
from services.runtime.process import serve
from services.runtime.callers import Authenticator
from services.runtime.operators import Operators
from services.runtime.settings import Settings
from services.wallet.api import wallet_app
from services.wallet.wiring import open_wallet

folder = Path(sys.argv[1])
bus = EmbeddedBus(folder / "bus.db")
settings, clock = Settings(operator="op"), SystemClock()
writer = open_wallet(Installation(folder), bus, settings, clock=clock, ids=SystemIds())
door = Authenticator(Operators.open(settings), clock)
app = wallet_app(writer, open_sqlite(folder / "wallet.db", writer=False), door, clock)
sys.exit(serve(writer, app, "127.0.0.1", 0, ready=lambda address: print(address, flush=True)))
"""


@contextmanager
def process(world: World) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Wallet as a process of its own, and its address."""
    world.wallet.close()
    child = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(world.folder)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        yield child, f"http://{child.stdout.readline().strip()}"
    finally:
        if child.poll() is None:
            child.kill()
        child.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_in_order(world, number):
    with process(world) as (child, address):
        assert httpx2.post(f"{address}/v1/deposits", json=deposit()).status_code == 200
        child.send_signal(number)
        assert (child.wait(30), child.stderr.read() if child.stderr else "") == (0, "")
    world.wallet = world._open()
    assert world.wallet.store.published == world.wallet.store.position == 2, "the writer was closed as well"
    assert world.cash("Ann") == 10_000


COMMAND = (sys.executable, "-c", "from services.cli.main import run; run()", "wallet", "serve")


def test_the_command_serves_until_sigterm_and_ends_with_status_0(tmp_path):
    child = subprocess.Popen(
        [*COMMAND, "--data", str(tmp_path), "--port", "0"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stderr is not None
        found = None
        while found is None:
            line = child.stderr.readline()
            assert line, "it ended before it was ready"
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
        answer = httpx2.post(f"{found[0]}/v1/deposits", json=deposit())
        assert answer.json()["balance"] == "100.00"
        assert httpx2.get(f"{found[0]}/readyz").status_code == 200
        child.send_signal(signal.SIGTERM)
        assert child.wait(30) == 0
    finally:
        child.kill()
        child.communicate()
    with World(tmp_path) as world:
        assert world.cash("Ann") == 10_000


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5"])
def test_the_command_refuses_a_host_that_others_can_reach(tmp_path, host):
    done = subprocess.run(
        [*COMMAND, "--data", str(tmp_path / "new"), "--host", host],
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert b"is not a loopback address" in done.stderr
    assert not (tmp_path / "new").exists()


def test_a_signal_under_load_loses_nothing_that_was_answered(world):
    answered: list[str] = []
    with process(world) as (child, address):

        def keep_depositing(who: int) -> None:
            with httpx2.Client(base_url=address) as client:
                for number in range(100_000):
                    tx = f"D{who}-{number}"
                    try:
                        response = client.post("/v1/deposits", json=deposit(tx=tx, account=f"player-{who}"))
                    except httpx2.TransportError:
                        return
                    if response.status_code == 200:
                        answered.append(tx)

        threads = [threading.Thread(target=keep_depositing, args=(who,)) for who in range(4)]
        for each in threads:
            each.start()
        while len(answered) < 40:
            threading.Event().wait(0.01)
        child.send_signal(signal.SIGTERM)
        assert child.wait(30) == 0
        for each in threads:
            each.join()
    world.wallet = world._open()
    done = {event.data.tx for event in world.events(Deposited)}
    assert set(answered) <= done
    assert len(answered) >= 40


def test_a_process_whose_writer_cannot_go_on_ends_with_status_1(world):
    with process(world) as (child, address):
        assert httpx2.post(f"{address}/v1/deposits", json=deposit()).status_code == 200
        second = world._open()
        answer = second.submit(_deposit_command())
        second.step()
        assert answer.result(0).balance == 500
        second.close()
        response = httpx2.post(f"{address}/v1/deposits", json=deposit(tx="D3"))
        assert response.status_code == 503
        assert child.wait(30) == 1
    world.wallet = world._open()
    assert len(world.events(Deposited)) == 2


def _deposit_command() -> Deposit:
    return Deposit(operator=OPERATOR, account="Bea", tx="D2", currency="EUR", amount=500)


def test_a_taken_port_is_said_and_ends_the_process(world):
    with process(world) as (first, address):
        port = address.rsplit(":", 1)[1]
        program = SERVE.replace('"127.0.0.1", 0', f'"127.0.0.1", {port}')
        folder = world.folder / "other"
        folder.mkdir()
        second = subprocess.run(
            [sys.executable, "-c", program, str(folder)],
            cwd=ROOT,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert first.poll() is None
    assert second.returncode > 0
    assert b"address already in use" in second.stderr


def test_a_route_that_there_is_not_is_a_problem_document_too(client):
    problem(client.get("/v1/nowhere"), 404, "NOT_FOUND", None)
    answer = client.get("/v1/deposits")
    problem(answer, 405, "METHOD_NOT_ALLOWED", None)
    assert answer.headers["allow"] == "POST"


def test_no_page_loads_anything_from_elsewhere(client):
    assert [client.get(path).status_code for path in ("/docs", "/redoc")] == [404, 404]
