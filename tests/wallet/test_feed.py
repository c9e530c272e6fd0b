"""What an operator's engineers read: the feed, the status of a transaction, reconciliation (W38 to W40)."""

import csv
import io
from collections.abc import Iterator
from datetime import time
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from schemas.commands.wallet import (
    DecideAdjustment,
    Deposit,
    GrantFreeBet,
    ProposeAdjustment,
    Refund,
    RequestWithdrawal,
    RollBack,
    Tip,
    WithdrawalStep,
)
from services.runtime.settings import Settings
from services.wallet.core.state import Policy
from services.wallet.feed import COLUMNS
from tests.wallet.test_api import problem, serving
from tests.wallet.world import OPERATOR, World


@pytest.fixture
def client(world: World) -> Iterator[TestClient]:
    told(world)
    with serving(world) as client:
        yield client


def told(world: World) -> None:
    """A little of everything, on two gaming days."""
    world.open_table(coups=3)
    world.deposit("Ann", 10_000, tx="D1")
    world.bet("Ann", "banker", 1_000, tx="B1")
    world.bet("Ann", "tie", 99_000, tx="B2")  # refused
    world.bet("Ann", "player", 500, tx="B3", coup=2)
    world.bet("Ann", "player", 800, tx="B4", coup=3)
    world.do(RollBack, tx="R1", target="B3")
    world.do(Refund, tx="F1", target="B4", amount=300)
    world.do(RollBack, tx="R9", target="B9")
    world.play(1, "banker")
    world.clock.advance(24 * 3_600)
    world.do(RequestWithdrawal, tx="W1", amount=2_000)
    world.do(RequestWithdrawal, tx="W2", amount=99_000)  # refused
    world.do(WithdrawalStep, tx="W1-ok", withdrawal="main.w1", step="approve")
    world.do(Tip, account="Bea", tx="T1", amount=1)  # refused: she has nothing
    world.do(ProposeAdjustment, tx="A1", amount=150, direction="credit", relates_to="B1")
    world.do(DecideAdjustment, tx="Y1", target="A1", approve=True)
    world.do(Deposit, operator="other", tx="D1", amount=7)
    world.hear(world.game.correct(1, "tie"), world.game.void(3))


EXPECTED = [  # account, tx, kind, status, code, amount, currency, bet, coup, relates_to
    ("Ann", "D1", "deposit", "SUCCESS", "OK", "100.00", "EUR", "", "", ""),
    ("Ann", "B1", "bet", "SUCCESS", "OK", "10.00", "EUR", "main.1", "1", ""),
    ("Ann", "B2", "bet", "DECLINED", "INSUFFICIENT_FUNDS", "990.00", "EUR", "main.2", "1", ""),
    ("Ann", "B3", "bet", "SUCCESS", "OK", "5.00", "EUR", "main.3", "2", ""),
    ("Ann", "B4", "bet", "SUCCESS", "OK", "8.00", "EUR", "main.4", "3", ""),
    ("Ann", "R1", "rollback", "ROLLEDBACK", "OK", "5.00", "EUR", "main.3", "2", "B3"),
    ("Ann", "F1", "refund", "ROLLEDBACK", "OK", "3.00", "EUR", "main.4", "3", "B4"),
    ("Ann", "R9", "tombstone", "SUCCESS", "OK", "", "", "", "", "B9"),
    ("Ann", "", "win", "SUCCESS", "OK", "19.50", "EUR", "main.1", "1", ""),
    ("Ann", "W1", "withdrawal", "SUCCESS", "OK", "20.00", "EUR", "", "", ""),
    ("Ann", "W2", "withdrawal", "DECLINED", "INSUFFICIENT_FUNDS", "990.00", "EUR", "", "", ""),
    ("Ann", "W1-ok", "withdrawal_approved", "SUCCESS", "OK", "20.00", "EUR", "", "", ""),
    ("Bea", "T1", "tip", "DECLINED", "INSUFFICIENT_FUNDS", "0.01", "EUR", "", "", ""),
    ("Ann", "A1", "adjustment_proposed", "SUCCESS", "OK", "1.50", "EUR", "", "", "B1"),
    ("Ann", "A1", "adjustment", "SUCCESS", "OK", "1.50", "EUR", "", "", "B1"),
    ("Ann", "", "correction", "SUCCESS", "OK", "-9.50", "EUR", "main.1", "1", ""),
    ("Ann", "", "void", "SUCCESS", "OK", "5.00", "EUR", "main.4", "3", ""),
]
NAMES = ("account", "tx", "kind", "status", "code", "amount", "currency", "bet", "coup", "relates_to")


def feed(client: TestClient, **query: Any) -> dict[str, Any]:
    answer = client.get("/v1/transactions", params={"operator": OPERATOR} | query)
    assert answer.status_code == 200, answer.text
    said: dict[str, Any] = answer.json()
    return said


def short(rows: Any) -> list[tuple[str, ...]]:
    return [tuple(row[name] for name in NAMES) for row in rows]


# ------------------------------------------------------------------------------------------------ feed (W38)


def test_w38_everything_in_the_order_of_the_ledger(client, world):
    said = feed(client)
    assert short(said["transactions"]) == EXPECTED
    assert (said["operator"], said["more"]) == (OPERATOR, False)
    sequences = [row["sequence"] for row in said["transactions"]]
    assert sequences == sorted(sequences)
    by_sequence = {event.sequence: event for event in world.events()}
    for row in said["transactions"]:
        envelope = by_sequence[row["sequence"]].envelope
        assert (row["time"], row["gaming_day"]) == (envelope.time, envelope.gamingday)


def test_w38_the_feed_adds_up_to_the_balance(client, world):
    """What came in, less stakes, plus what came back, is what Ann has."""
    signs = {
        "deposit": 1, "bet": -1, "rollback": 1, "refund": 1, "win": 1, "withdrawal": -1, "adjustment": 1,
        "correction": 1, "void": 1,
    }  # fmt: skip
    total = sum(
        signs[row["kind"]] * round(float(row["amount"]) * 100)
        for row in feed(client, account="Ann")["transactions"]
        if row["kind"] in signs and row["status"] != "DECLINED"
    )
    assert total == world.cash("Ann") == 8_150


def test_w38_csv_has_the_same_rows(client):
    answer = client.get("/v1/transactions", params={"operator": OPERATOR, "format": "csv", "limit": 1_000})
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["Sabot-More"] == "false"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    said = feed(client)
    assert answer.text.splitlines()[0] == ",".join(COLUMNS)
    assert answer.headers["Sabot-Cursor"] == str(said["cursor"])
    assert rows == [{name: str(value) for name, value in row.items()} for row in said["transactions"]]


@pytest.mark.parametrize("limit", [1, 2, 5, 16, 17, 1_000])
@pytest.mark.parametrize("form", ["json", "csv"])
def test_w38_page_by_page_it_is_the_same(client, limit, form):
    cursor, rows, pages = 0, [], 0
    while True:
        query = {"operator": OPERATOR, "cursor": cursor, "limit": limit, "format": form}
        answer = client.get("/v1/transactions", params=query)
        if form == "csv":
            page = list(csv.DictReader(io.StringIO(answer.text)))
            cursor, more = int(answer.headers["Sabot-Cursor"]), answer.headers["Sabot-More"] == "true"
        else:
            page = answer.json()["transactions"]
            cursor, more = answer.json()["cursor"], answer.json()["more"]
        assert len(page) <= limit
        rows += page
        pages += 1
        assert pages < 40
        if not more:
            break
    assert short(rows) == EXPECTED


def test_w38_the_last_cursor_asks_for_what_is_new(client, world):
    cursor = feed(client)["cursor"]
    assert feed(client, cursor=cursor)["transactions"] == []
    client.post(
        "/v1/deposits",
        json={"operator": OPERATOR, "account": "Ann", "tx": "D2", "currency": "EUR", "amount": "0.05"},
    )
    assert short(feed(client, cursor=cursor)["transactions"]) == [
        ("Ann", "D2", "deposit", "SUCCESS", "OK", "0.05", "EUR", "", "", "")
    ]
    assert world.events()[-1].sequence == feed(client)["cursor"]


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ({"from": "2026-03-01", "to": "2026-03-01"}, EXPECTED[:9]),
        ({"from": "2026-03-02", "to": "2026-03-02"}, EXPECTED[9:]),
        ({"from": "2026-03-02"}, EXPECTED[9:]),
        ({"to": "2026-03-01"}, EXPECTED[:9]),
        ({"from": "2026-03-01", "to": "2026-03-02"}, EXPECTED),
        ({"from": "2026-03-03"}, []),
    ],
)
def test_w38_by_gaming_days(client, days, expected):
    assert short(feed(client, **days)["transactions"]) == expected


def test_w38_one_player_only(client):
    assert short(feed(client, account="Bea")["transactions"]) == [EXPECTED[12]]
    problem(
        client.get("/v1/transactions", params={"operator": OPERATOR, "account": "Zoe"}),
        404,
        "ACCOUNT_UNKNOWN",
        "account",
    )


def test_w38_one_operator_only(client):
    assert [row["amount"] for row in feed(client, operator="other")["transactions"]] == ["0.07"]
    assert feed(client, operator="nobody")["transactions"] == []


def test_w38_money_case_24_a_gaming_day_is_the_operators(tmp_path):
    """A deposit at 00:30 in Amsterdam belongs to the day before, on both days the clocks change as well."""
    settings = Settings(operator=OPERATOR, zone="Europe/Amsterdam", cut_off=time(6))
    with World(tmp_path, settings) as world:
        world.clock.advance(27 * 86_400 + 11.5 * 3_600)  # 28 March, 23:30 UTC: 00:30 on the 29th
        world.deposit("Ann", 100, tx="D1")
        world.clock.advance(4.5 * 3_600)  # 06:00 on the 29th, the clocks an hour on
        world.deposit("Ann", 100, tx="D2")
        with serving(world) as client:
            rows = feed(client)["transactions"]
            assert [(row["tx"], row["gaming_day"]) for row in rows] == [
                ("D1", "2026-03-28"),
                ("D2", "2026-03-29"),
            ]
            assert [row["tx"] for row in feed(client, to="2026-03-28")["transactions"]] == ["D1"]


def test_w38_a_row_that_looks_like_a_formula_is_none(world):
    names = ("=1+1", "+1", "-1+1", "@SUM(A1)", "-cmd|' /C calc'!A0", "-5.00", 'Ann, "the" one')
    for name in names:
        world.deposit(name, 100, tx=name)
    with serving(world) as client:
        answer = client.get("/v1/transactions", params={"operator": OPERATOR, "format": "csv"})
        rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["account"] for row in rows] == [
        "'=1+1",
        "'+1",
        "'-1+1",
        "'@SUM(A1)",
        "'-cmd|' /C calc'!A0",
        "-5.00",
        'Ann, "the" one',
    ]


# ------------------------------------------------------------------------------------------- status (W40)


def status(client: TestClient, tx: str, account: str = "Ann") -> dict[str, Any]:
    query = {"operator": OPERATOR, "account": account, "tx": tx}
    said: dict[str, Any] = client.get("/v1/transactions/status", params=query).json()
    return said


def test_w40_what_became_of_a_transaction(client, world):
    known = status(client, "B1")
    assert (known["status"], known["operation"], known["bet_status"]) == ("final", "bet", "push")
    assert known["answer"] == {
        "code": "OK",
        "tx": "B1",
        "bet": "main.1",
        "balance": "90.00",
        "currency": "EUR",
    }
    refused = status(client, "B2")
    assert (refused["status"], refused["answer"]) == (
        "final",
        {"code": "INSUFFICIENT_FUNDS", "field": "stake"},
    )
    assert status(client, "B3")["bet_status"] == "rolled_back"
    assert status(client, "R1")["answer"]["amount"] == "5.00"
    assert status(client, "F1")["operation"] == "refund"
    assert status(client, "R9")["answer"]["code"] == "TOMBSTONED"
    assert status(client, "Y1")["operation"] == "adjustment_decision"
    for tx, account in (("nothing", "Ann"), ("B1", "Bea"), ("B1", "Zoe")):
        assert status(client, tx, account) == {"account": account, "tx": tx, "status": "unknown"}
    sequences = {row["tx"]: row["sequence"] for row in feed(client)["transactions"]}
    assert known["sequence"] == sequences["B1"]
    assert len(world.events()) > 0


def test_w40_the_status_says_the_original_answer(client):
    body = {"operator": OPERATOR, "account": "Ann", "tx": "D5", "currency": "EUR", "amount": "0.05"}
    original = client.post("/v1/deposits", json=body).json()
    client.post("/v1/deposits", json=body | {"tx": "D6"})
    assert status(client, "D5")["answer"] == original


def test_w40_what_is_not_final_is_unknown_or_in_progress(world):
    world.open_table()
    world.deposit("Ann", 100)
    early = world.bet_command("Ann", "tie", 100, coup=9, tx="B9")
    world.submit(early)
    world.run()
    world.use(Policy(seamless=True))
    world.bet("Ann", "tie", 100, tx="B1")
    with serving(world) as client:
        assert status(client, "B9")["status"] == "unknown"
        asked = status(client, "B1")
        assert (asked["status"], asked["bet_status"], asked["answer"]["code"]) == (
            "in_progress",
            "pending",
            "IN_PROGRESS",
        )


# -------------------------------------------------------------------------------------- reconciliation (W39)


def reconcile(client: TestClient, transactions: list[dict[str, Any]], **days: str) -> httpx2.Response:
    body = {"operator": OPERATOR, "from": "2026-03-01", "to": "2026-03-01", "transactions": transactions}
    return client.post("/v1/reconciliations", json=body | days)


OURS = [
    {"account": "Ann", "tx": "D1", "kind": "deposit", "amount": "100.00", "currency": "EUR"},
    {"account": "Ann", "tx": "B1", "kind": "bet", "amount": "10.00", "currency": "EUR"},
    {"account": "Ann", "tx": "B3", "kind": "bet", "amount": "5.00", "currency": "EUR"},
    {"account": "Ann", "tx": "B4", "kind": "bet", "amount": "8.00", "currency": "EUR"},
    {"account": "Ann", "tx": "R1", "kind": "rollback", "amount": "5.00", "currency": "EUR"},
    {"account": "Ann", "tx": "F1", "kind": "refund", "amount": "3.00", "currency": "EUR"},
    {"account": "Ann", "tx": "R9", "kind": "tombstone"},
]
"""What succeeded on the first day."""


def test_w39_two_lists_that_agree(client):
    said = reconcile(client, OURS).json()
    assert said["counts"] == {"matched": 7, "missing_here": 0, "missing_there": 0, "different": 0}
    assert [(line["tx"], line["status"], line["fields"]) for line in said["lines"]] == [
        (row["tx"], "matched", []) for row in OURS
    ]


def test_w39_every_line_is_one_of_four(client):
    theirs = [
        OURS[0],
        OURS[1] | {"amount": "10.01"},
        OURS[2] | {"currency": "USD", "kind": "debit"},
        {"account": "Ann", "tx": "B2", "kind": "bet", "amount": "990.00", "currency": "EUR"},
        {"account": "Ann", "tx": "B77", "kind": "bet", "amount": "1.00", "currency": "EUR"},
        {"account": "Zoe", "tx": "D1"},
        {"account": "Ann", "tx": "B4"},
    ]
    said = reconcile(client, theirs).json()
    assert {(line["account"], line["tx"]): (line["status"], line["fields"]) for line in said["lines"]} == {
        ("Ann", "D1"): ("matched", []),
        ("Ann", "B1"): ("different", ["amount"]),
        ("Ann", "B3"): ("different", ["kind", "currency"]),
        ("Ann", "B2"): ("different", ["status"]),  # we refused it
        ("Ann", "B77"): ("missing_here", []),
        ("Zoe", "D1"): ("missing_here", []),
        ("Ann", "B4"): ("matched", []),
        ("Ann", "R1"): ("missing_there", []),
        ("Ann", "F1"): ("missing_there", []),
        ("Ann", "R9"): ("missing_there", []),
    }
    assert said["counts"] == {"matched": 2, "missing_here": 2, "missing_there": 3, "different": 3}


@pytest.mark.parametrize("amount", ["10", "10.0", "10.00", "010.00"])
def test_w39_an_amount_may_be_written_in_another_way(client, amount):
    said = reconcile(client, [OURS[1] | {"amount": amount}]).json()
    assert (said["counts"]["matched"], said["counts"]["different"]) == (1, 0)


@pytest.mark.parametrize("amount", ["10.000", "ten", "-10.00", "1000"])
def test_w39_and_what_is_another_amount_is_different(client, amount):
    said = reconcile(client, [OURS[1] | {"amount": amount}]).json()
    assert said["lines"][0]["fields"] == ["amount"]


def test_w39_of_other_days_nothing_is_said(client):
    said = reconcile(client, [], **{"from": "2026-03-02", "to": "2026-03-02"}).json()
    assert {line["tx"] for line in said["lines"]} == {"W1", "W1-ok", "A1"}
    assert reconcile(client, OURS[:1], **{"from": "2026-03-02", "to": "2026-03-09"}).json()["lines"][0] == {
        "account": "Ann",
        "tx": "D1",
        "status": "missing_here",
        "fields": [],
    }


def test_w39_days_in_the_wrong_order(client):
    problem(reconcile(client, [], to="2026-02-28"), 422, "INVALID", "to")


def test_w39_nothing_is_written(client, world):
    before = world.events()
    reconcile(client, OURS)
    feed(client)
    status(client, "B1")
    assert world.events() == before


# --------------------------------------------------------------------------------------------- what is open


def shelf(client: TestClient, name: str, **query: Any) -> list[dict[str, Any]]:
    answer = client.get(f"/v1/open/{name}", params={"operator": OPERATOR} | query)
    rows: list[dict[str, Any]] = answer.json()[name]
    return rows


def test_what_is_open_in_words_and_amounts(client, world):
    (withdrawal,) = shelf(client, "withdrawals")
    assert (withdrawal["id"], withdrawal["account"], withdrawal["amount"], withdrawal["phase"]) == (
        "main.w1",
        "Ann",
        "20.00",
        "approved",
    )
    assert shelf(client, "withdrawals", account="Bea") == []
    assert shelf(client, "adjustments") == []
    (adjustment,) = shelf(client, "adjustments", closed=True)
    assert (adjustment["tx"], adjustment["amount"], adjustment["decided"]) == ("A1", "1.50", "approved")
    assert {"exponent"}.isdisjoint(withdrawal)
    assert world.account("Ann") not in str(withdrawal)


def test_the_latest_thousand_are_the_latest(world):
    for number in range(1_005):
        world.wallet.submit(world.command(GrantFreeBet, tx=f"G{number}", amount=1, campaign="spring"))
    world.run()
    with serving(world) as client:
        rows = shelf(client, "free-bets")
    assert len(rows) == 1_000
    assert (rows[0]["id"], rows[-1]["id"]) == ("main.g1005", "main.g6")
