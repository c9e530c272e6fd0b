"""The same request again: the same bytes, and nothing moves; another body under its id: a conflict (W1-W7).

What a route answers is compared byte by byte: at once, after other things happened, and after a restart.
"""

import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx2
import pytest
from starlette.testclient import TestClient

from schemas.commands import wallet as commands
from schemas.commands.wallet import (
    ChargeBack,
    CollectCommission,
    DecideAdjustment,
    Deposit,
    FreezeAccount,
    FundHouse,
    GrantFreeBet,
    HoldFunds,
    PlaceBet,
    ProposeAdjustment,
    RecoverReceivable,
    Refund,
    ReleaseAccount,
    ReleaseHold,
    RequestWithdrawal,
    RollBack,
    SegregateFunds,
    SelfExclude,
    SetLimit,
    SettlePayment,
    Tip,
    WithdrawalStep,
    WithdrawFreeBet,
)
from schemas.events.accounts import AccountOpened, Deposited
from schemas.events.wallet import BetAccepted, BetRefused, BetRolledBack, ConflictDetected
from schemas.refusal import Refusal
from services.runtime.settings import Settings
from services.wallet.core.operations import OPERATIONS
from services.wallet.core.state import Policy
from tests.wallet.test_api import serving
from tests.wallet.world import OPERATOR, SHOE, TABLE, Game, World, app_of, house

# --------------------------------------------------------------------------------- every operation has its id


class Case(NamedTuple):
    """A command that can be carried out in the world of ``furnished``, and what makes others of it."""

    kind: type[Any]
    fields: dict[str, Any]
    others: dict[str, Any]
    """Each of its fields (W2) with another value, under which the same id is a conflict."""


BET = {"table": TABLE, "shoe": SHOE, "coup": 1, "spot": "tie", "stake": 100}
CASES = (
    Case(Deposit, {"amount": 100}, {"amount": 101, "currency": "JPY"}),
    Case(
        PlaceBet,
        BET,
        {
            "table": "T2",
            "shoe": "S2",
            "coup": 2,
            "seat": 4,
            "spot": "player",
            "currency": "JPY",
            "stake": 101,
            "grant": "main.g9",
        },
    ),
    Case(RollBack, {"target": "B1"}, {"target": "B2"}),
    Case(Refund, {"target": "B1", "amount": 100}, {"target": "B2", "amount": 101}),
    Case(RequestWithdrawal, {"amount": 100}, {"amount": 101, "currency": "JPY"}),
    Case(
        WithdrawalStep,
        {"withdrawal": "main.w1", "step": "approve"},
        {"withdrawal": "main.w9", "step": "reject"},
    ),
    Case(
        ProposeAdjustment,
        {"amount": 100, "direction": "credit"},
        {
            "amount": 101,
            "currency": "JPY",
            "direction": "debit",
            "reason": "another",
            "relates_to": "B1",
        },
    ),
    Case(DecideAdjustment, {"target": "A1", "approve": True}, {"target": "A2", "approve": False}),
    Case(Tip, {"amount": 100}, {"amount": 101, "currency": "JPY", "table": TABLE, "dealer": "dora"}),
    Case(
        GrantFreeBet,
        {"amount": 100, "campaign": "spring"},
        {"amount": 101, "currency": "JPY", "campaign": "summer"},
    ),
    Case(
        WithdrawFreeBet,
        {"grant": "main.g3", "reason": "expired"},
        {"grant": "main.g9", "reason": "cancelled"},
    ),
    Case(
        HoldFunds,
        {"amount": 100, "kind": "risk"},
        {
            "amount": 101,
            "currency": "JPY",
            "kind": "dispute",
            "reason": "another",
            "expires": "2026-12-24",
        },
    ),
    Case(ReleaseHold, {"hold": "main.h2"}, {"hold": "main.h9", "reason": "another"}),
    Case(FreezeAccount, {}, {"reason": "another"}),
    Case(ReleaseAccount, {}, {"reason": "another"}),
    Case(ChargeBack, {"amount": 100}, {"amount": 101, "currency": "JPY", "reason": "another"}),
    Case(RecoverReceivable, {"account": "Bea", "amount": 100}, {"amount": 101, "currency": "JPY"}),
    Case(
        SetLimit,
        {"kind": "stake", "period": "day", "value": 100},
        {"kind": "loss", "period": "week", "currency": "JPY", "value": 101},
    ),
    Case(SelfExclude, {"until": "2027-01-01"}, {"until": None}),
    Case(FundHouse, {"amount": 100}, {"amount": 101, "currency": "JPY"}),
    Case(SettlePayment, {"amount": 100, "fee": 3}, {"amount": 101, "currency": "JPY", "fee": 4}),
    Case(
        SegregateFunds,
        {"amount": 100, "direction": "to_players"},
        {"amount": 101, "currency": "JPY", "direction": "to_house"},
    ),
    Case(
        CollectCommission,
        {"table": "T2", "seat": 3},
        {"table": "T3", "seat": 4, "currency": "JPY"},
    ),
)
"""Every operation there is."""
NAMES = [case.kind.__name__ for case in CASES]


def furnished(world: World) -> None:
    """A world in which each of these commands can be carried out."""
    world.open_table(coups=2)
    world.deposit("Ann", 100_000)
    for tx in ("B1", "B2"):
        world.bet("Ann", "banker", 1_000, tx=tx)
    world.do(RequestWithdrawal, amount=1_000)
    world.do(HoldFunds, amount=1_000, kind="dispute")
    world.do(GrantFreeBet, amount=1_000, campaign="spring")
    for tx in ("A1", "A2"):
        world.do(ProposeAdjustment, tx=tx, amount=1_000, direction="credit")
    world.do(ChargeBack, account="Bea", amount=500)
    world.deposit("Bea", 500)
    second = Game("T2")
    world.hear(second.open_table(house(collection="deferred")), second.open(1))
    world.bet("Ann", "banker", 1_000, seat=3, table="T2")
    world.hear(second.close(1), second.conclude(1, "banker"))


def test_every_operation_is_here():
    assert {case.kind for case in CASES} == set(OPERATIONS)
    for case in CASES:
        named = set(OPERATIONS[case.kind].fields)
        assert set(case.others) == named, f"every field of {case.kind.__name__} counts (W2)"


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_w3_every_operation_is_done_once(world, case, restart):
    furnished(world)
    command = world.command(case.kind, tx="X", **case.fields)
    first = world.ask(command)
    assert (first.code, first.replayed) == ("OK", False)
    world.deposit("Ann", 12_345)
    if restart:
        world.restart()
    before = (world.events(), world.balances())
    again = world.ask(command)
    assert (again.code, again.replayed) == ("OK", True)
    assert (again.event, again.balance, again.operation) == (first.event, first.balance, first.operation)
    assert (world.events(), world.balances()) == before


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_w4_another_body_under_its_id_is_a_conflict_that_names_the_fields(world, case, restart):
    furnished(world)
    command = world.command(case.kind, tx="X", **case.fields)
    world.ask(command)
    if restart:
        world.restart()
    balances = world.balances()
    for name, value in case.others.items():
        with pytest.raises(Refusal) as caught:
            world.ask(command.model_copy(update={name: value}))
        assert (caught.value.code, caught.value.field) == ("IDEMPOTENCY_CONFLICT", name)
        assert world.events()[-1].data.fields == (name,)
    with pytest.raises(Refusal):
        world.ask(command.model_copy(update=case.others))
    conflict = world.events(ConflictDetected)[-1].data
    assert conflict.fields == OPERATIONS[case.kind].fields, "all that differ, in their order"
    assert (conflict.kind, conflict.tx) == ("idempotency", "X")
    assert world.balances() == balances
    assert world.ask(command).replayed


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_w4_an_id_is_used_for_one_operation_only(world, case):
    furnished(world)
    used: type[Any]
    more: dict[str, Any]
    if issubclass(case.kind, commands.AccountCommand):
        used, more = (
            (Tip if case.kind is Deposit else Deposit),
            {"account": case.fields.get("account", "Ann")},
        )
    else:
        used, more = (SettlePayment, {"fee": 0}) if case.kind is FundHouse else (FundHouse, {})
    world.do(used, tx="X", amount=1, **more)
    balances = world.balances()
    refusal = world.refusal(case.kind, tx="X", **case.fields)
    assert (refusal.code, refusal.field) == ("IDEMPOTENCY_CONFLICT", "operation")
    assert world.balances() == balances


@pytest.mark.parametrize(
    ("changed", "case"),
    [
        ({"by": "person:eve"}, CASES[NAMES.index("HoldFunds")]),
        ({"initiator": "person:eve"}, CASES[NAMES.index("ProposeAdjustment")]),
        ({"approver": "person:eve"}, CASES[NAMES.index("DecideAdjustment")]),
    ],
)
def test_w2_who_sends_it_again_is_no_part_of_it(world, changed, case):
    furnished(world)
    command = world.command(case.kind, tx="X", **case.fields)
    world.ask(command)
    assert world.ask(command.model_copy(update=changed)).replayed


# ------------------------------------------------------------------------------------------------------ ids


@pytest.mark.parametrize("tx", ["x", "x" * 64, "ümläut", "a b", "../..", "';--", "D1", "d1", "D1 ", "日本"])
def test_w1_an_id_is_opaque(world, tx):
    world.deposit("Ann", 7, tx="D1 x")
    first = world.deposit("Ann", 100, tx=tx)
    assert not first.replayed
    world.restart()
    assert world.deposit("Ann", 100, tx=tx).replayed
    assert world.cash("Ann") == 107


def test_w1_ids_are_case_sensitive(world):
    for tx in ("ABC", "abc", "Abc"):
        assert not world.deposit("Ann", 100, tx=tx).replayed
    assert world.cash("Ann") == 300


def test_w1_ids_are_unique_for_a_player_and_an_operator(world):
    for operator in (OPERATOR, "other"):
        for who in ("Ann", "Bea"):
            assert not world.do(Deposit, operator=operator, account=who, tx="D1", amount=100).replayed
        assert not world.do(FundHouse, operator=operator, tx="D1", amount=100).replayed
    assert len(world.events(Deposited)) == 4
    assert len({each.data.account for each in world.events(AccountOpened)}) == 4


def test_w7_an_id_is_known_for_ever(world):
    """Four months, a restart and 300 others later; the cache that held it is nobody's."""
    world.deposit("Ann", 100, tx="first")
    for number in range(300):
        world.wallet.submit(world.command(Deposit, tx=f"D{number}", amount=1))
    world.run()
    world.clock.advance(400 * 24 * 3_600)
    world.restart()
    assert world.deposit("Ann", 100, tx="first").replayed
    refusal = world.refusal(Deposit, tx="first", amount=99)
    assert (refusal.code, refusal.field) == ("IDEMPOTENCY_CONFLICT", "amount")
    assert world.cash("Ann") == 400


# --------------------------------------------------------------------------------------------- final refusals


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(
    ("kind", "fields", "code"),
    [
        (PlaceBet, BET | {"stake": 200}, "INSUFFICIENT_FUNDS"),
        (RequestWithdrawal, {"amount": 200}, "INSUFFICIENT_FUNDS"),
        (Tip, {"amount": 200}, "INSUFFICIENT_FUNDS"),
        (HoldFunds, {"amount": 200, "kind": "risk"}, "INSUFFICIENT_FUNDS"),
        (RecoverReceivable, {"amount": 200}, "LIMIT_REACHED"),
    ],
)
def test_w6_a_final_refusal_stays_one(world, kind, fields, code, restart):
    field = "stake" if kind is PlaceBet else "amount"
    world.open_table()
    world.deposit("Ann", 100)
    first = world.do(kind, tx="X", **fields)
    assert (first.code, first.field, first.replayed, first.balance) == (code, field, False, 100)
    world.deposit("Ann", 1_000)
    if restart:
        world.restart()
    before = world.events()
    again = world.do(kind, tx="X", **fields)
    assert (again.code, again.field, again.replayed) == (code, field, True)
    assert (again.event, again.operation) == (first.event, first.operation)
    assert world.events() == before
    refusal = world.refusal(kind, tx="X", **fields | {field: 1})
    assert refusal.code == "IDEMPOTENCY_CONFLICT", "and keeps its id"


@pytest.mark.parametrize("restart", [False, True])
def test_w6_a_refused_free_bet_is_told_so_again(world, restart):
    world.open_table()
    world.deposit("Ann", 100)
    first = world.bet("Ann", "tie", 100, tx="X", grant="main.g9")
    assert (first.code, first.field) == ("GRANT_UNKNOWN", "grant")
    if restart:
        world.restart()
    again = world.bet("Ann", "tie", 100, tx="X", grant="main.g9")
    assert (again.code, again.replayed) == ("GRANT_UNKNOWN", True)
    assert world.events(ConflictDetected) == []


@pytest.mark.parametrize("what", ["coup", "withdrawal", "hold", "grant", "adjustment", "commission"])
def test_w6_what_is_not_there_yet_is_not_remembered(world, what):
    world.open_table()
    world.deposit("Ann", 10_000)
    early = {
        "coup": world.bet_command("Ann", "tie", 100, coup=9, tx="X"),
        "withdrawal": world.command(WithdrawalStep, tx="X", withdrawal="main.w1", step="approve"),
        "hold": world.command(ReleaseHold, tx="X", hold="main.h1"),
        "grant": world.command(WithdrawFreeBet, tx="X", grant="main.g1", reason="expired"),
        "adjustment": world.command(DecideAdjustment, tx="X", target="A1", approve=True),
        "commission": world.command(CollectCommission, tx="X", table=TABLE, seat=3),
    }[what]
    before = world.events()
    with pytest.raises(Refusal) as caught:
        world.ask(early)
    assert caught.value.code in ("COUP_UNKNOWN", "NOTHING_OWED") or caught.value.code.endswith("_UNKNOWN")
    assert world.events() == before
    match what:
        case "coup":
            world.hear(world.game.open(9))
        case "withdrawal":
            world.do(RequestWithdrawal, amount=100)
        case "hold":
            world.do(HoldFunds, amount=100, kind="risk")
        case "grant":
            world.do(GrantFreeBet, amount=100, campaign="spring")
        case "adjustment":
            world.do(ProposeAdjustment, tx="A1", amount=100, direction="credit")
        case "commission":
            world.hear(world.game.set_house(house(collection="deferred")), world.game.open(9))
            world.bet("Ann", "banker", 100, coup=9, seat=3)
            world.play(9, "banker")
    assert world.ask(early).code == "OK"


# ------------------------------------------------------------------------------------------------- over HTTP


@pytest.fixture
def client(world: World) -> Iterator[TestClient]:
    furnished(world)
    with serving(world) as client:
        yield client


MONEY = {"account": "Ann", "currency": "EUR", "amount": "1.00"}
ROUTES: dict[str, dict[str, Any]] = {
    "/v1/deposits": MONEY,
    "/v1/bets": {
        "account": "Ann",
        "currency": "EUR",
        "table": TABLE,
        "shoe": SHOE,
        "coup": 1,
        "spot": "tie",
        "stake": "1.00",
        "seat": 7,
    },
    "/v1/withdrawals": MONEY,
    "/v1/withdrawals/main.w1/approve": {},
    "/v1/withdrawals/main.w1/reject": {"reason": "no papers"},
    "/v1/chargebacks": MONEY | {"reason": "stolen card"},
    "/v1/recoveries": MONEY | {"account": "Bea"},
    "/v1/adjustments": MONEY | {"direction": "debit", "reason": "a miscount"},
    "/v1/adjustments/decisions": {"account": "Ann", "target": "A1", "approve": False, "reason": "no"},
    "/v1/tips": MONEY | {"table": TABLE, "dealer": "dora"},
    "/v1/free-bets": MONEY | {"campaign": "spring"},
    "/v1/free-bets/main.g3/withdraw": {"reason": "expired"},
    "/v1/holds": MONEY | {"kind": "dispute", "reason": "a complaint"},
    "/v1/holds/main.h2/release": {},
    "/v1/commission": {"account": "Ann", "table": "T2", "seat": 3, "currency": "EUR"},
    "/v1/accounts/freeze": {"account": "Ann", "reason": "a complaint"},
    "/v1/accounts/release": {"account": "Ann", "reason": "settled"},
    "/v1/limits": {"account": "Ann", "kind": "stake", "period": "day", "currency": "EUR", "value": "5.00"},
    "/v1/exclusions": {"account": "Ann", "until": "2027-01-01"},
    "/v1/house/funding": {"currency": "EUR", "amount": "1.00"},
    "/v1/house/payments": {"currency": "EUR", "amount": "1.00", "fee": "0.02"},
    "/v1/house/segregation": {"currency": "EUR", "amount": "1.00", "direction": "to_house"},
    "/v1/rollbacks": {"account": "Ann", "target": "B1"},
    "/v1/refunds": {"account": "Ann", "target": "B1", "currency": "EUR", "amount": "1.00"},
}
"""Every route that carries out a transaction, with a body that it can."""
REFUSED: dict[str, tuple[str, dict[str, Any], int, str]] = {
    "a bet": ("/v1/bets", ROUTES["/v1/bets"] | {"stake": "5000.00"}, 422, "INSUFFICIENT_FUNDS"),
    "a spot": ("/v1/bets", ROUTES["/v1/bets"] | {"spot": "dragon"}, 422, "SPOT_UNKNOWN"),
    "a round": ("/v1/bets", ROUTES["/v1/bets"] | {"table": "T2"}, 409, "ROUND_CLOSED"),
    "a withdrawal": ("/v1/withdrawals", MONEY | {"amount": "5000.00"}, 422, "INSUFFICIENT_FUNDS"),
    "a tip": ("/v1/tips", MONEY | {"amount": "5000.00"}, 422, "INSUFFICIENT_FUNDS"),
    "a recovery": ("/v1/recoveries", MONEY, 422, "LIMIT_REACHED"),
    "a hold": ("/v1/holds", ROUTES["/v1/holds"] | {"amount": "5000.00"}, 422, "INSUFFICIENT_FUNDS"),
    "a rollback": ("/v1/rollbacks", {"account": "Ann", "target": "T9"}, 200, "TOMBSTONED"),
}


def post(client: TestClient, path: str, body: dict[str, Any], tx: str = "X") -> httpx2.Response:
    return client.post(path, json={"operator": OPERATOR, "tx": tx} | body)


@pytest.mark.parametrize("path", ROUTES)
def test_w3_every_route_answers_a_repeat_with_the_same_bytes(client, world, path):
    body = ROUTES[path]
    first = post(client, path, body)
    assert (first.status_code, first.json()["code"], first.json()["tx"]) == (200, "OK", "X"), first.text
    assert "Idempotent-Replayed" not in first.headers
    assert "Sabot-Current-Balance" not in first.headers
    client.post("/v1/deposits", json={"operator": OPERATOR, "tx": "later"} | MONEY | {"amount": "0.05"})
    before = world.events()
    again = post(client, path, body | {"trace": {"attempt": 2}})
    assert again.content == first.content
    assert again.status_code == 200
    assert again.headers["Idempotent-Replayed"] == "true"
    assert world.events() == before
    if "balance" in first.json():
        account = body.get("account", "Ann")
        view = client.get(f"/v1/accounts/{OPERATOR}/{account}").json()["balances"]
        cash = next(each["cash"] for each in view if each["currency"] == "EUR")
        assert again.headers["Sabot-Current-Balance"] == cash


def test_w3_every_route_answers_the_same_bytes_after_a_restart(world):
    furnished(world)
    first: dict[str, bytes] = {}
    with serving(world) as client:
        for number, (path, body) in enumerate(ROUTES.items()):
            first[path] = post(client, path, body, tx=f"X{number}").content
        refusals = {
            name: post(client, path, body, tx=f"R{name}").content
            for name, (path, body, *_) in REFUSED.items()
        }
    world.restart()
    before = world.events()
    with serving(world) as client:
        for number, (path, body) in enumerate(ROUTES.items()):
            again = post(client, path, body, tx=f"X{number}")
            assert again.content == first[path], path
            if b'"retryable"' not in again.content:
                assert again.headers["Idempotent-Replayed"] == "true"
        for name, (path, body, *_) in REFUSED.items():
            assert post(client, path, body, tx=f"R{name}").content == refusals[name], name
    assert world.events() == before


@pytest.mark.parametrize("name", REFUSED)
def test_w6_a_refusal_is_repeated_byte_by_byte(client, world, name):
    path, body, status, code = REFUSED[name]
    first = post(client, path, body)
    assert (first.status_code, first.json()["code"]) == (status, code)
    client.post("/v1/deposits", json={"operator": OPERATOR, "tx": "later"} | MONEY | {"amount": "9000.00"})
    before = world.events()
    again = post(client, path, body)
    assert (again.status_code, again.content) == (status, first.content)
    assert again.headers["Idempotent-Replayed"] == "true"
    if code != "TOMBSTONED":
        assert again.headers["Sabot-Current-Balance"] == f"{world.cash('Ann') / 100:.2f}"
    assert world.events() == before


@pytest.mark.parametrize("path", ROUTES)
def test_w4_every_route_names_the_field_that_differs(client, world, path):
    """Each under the id of a deposit, or of the house's funding: the operation itself is another one."""
    body = ROUTES[path]
    house_id = "account" not in body
    used = "/v1/house/funding" if house_id else "/v1/deposits"
    if path == used:
        used = "/v1/house/payments" if house_id else "/v1/tips"
    account = {} if house_id else {"account": body["account"]}
    assert post(client, used, ROUTES[used] | account).status_code == 200
    conflict = post(client, path, body)
    said = conflict.json()
    assert (conflict.status_code, said["code"], said["field"]) == (409, "IDEMPOTENCY_CONFLICT", "operation")
    assert said["retryable"] is False
    assert "Retry-After" not in conflict.headers
    assert len(world.events(ConflictDetected)) == 1


def test_w4_a_conflict_names_every_field_and_no_value(client, world):
    post(client, "/v1/bets", ROUTES["/v1/bets"])
    conflict = post(client, "/v1/bets", ROUTES["/v1/bets"] | {"spot": "player", "stake": "7.77", "seat": 8})
    assert conflict.status_code == 409
    for name in ("seat", "spot", "stake"):
        assert name in conflict.json()["detail"]
    for value in ("7.77", "777", "player", "tie"):
        assert value not in conflict.text
    assert world.events(ConflictDetected)[0].data.fields == ("seat", "spot", "stake")


def test_w5_another_body_and_still_in_progress_are_two_codes(world):
    """The operator's wallet has not answered: the same again is asked to wait, another body is a conflict."""
    world.use(Policy(seamless=True))
    world.open_table()
    with serving(world) as client:
        first = post(client, "/v1/bets", ROUTES["/v1/bets"])
        assert (first.status_code, first.json()["code"]) == (503, "IN_PROGRESS")
        again = post(client, "/v1/bets", ROUTES["/v1/bets"])
        assert (again.status_code, again.json()["code"]) == (503, "IN_PROGRESS")
        assert again.json()["retryable"] is True
        assert again.headers["Retry-After"] == "1"
        other = post(client, "/v1/bets", ROUTES["/v1/bets"] | {"stake": "2.00"})
        assert (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_CONFLICT")
        assert other.json()["retryable"] is False


@pytest.mark.parametrize("path", ["/v1/bets", "/v1/withdrawals", "/v1/tips", "/v1/rollbacks", "/v1/refunds"])
def test_w5_ten_identical_requests_at_once_are_one(client, world, path):
    before = world.cash("Ann")
    answers = at_once(10, lambda _: post(client, path, ROUTES[path]))
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.content for answer in answers} == {answers[0].content}
    assert sum("Idempotent-Replayed" not in answer.headers for answer in answers) == 1
    moved = {"/v1/rollbacks": 1_000, "/v1/refunds": 100}.get(path, -100)
    assert world.cash("Ann") - before == moved


def test_w5_ten_bodies_under_one_id_at_once_are_one(client, world):
    """One of them is done, whichever came first; nine are told which field differs."""
    answers = at_once(10, lambda n: post(client, "/v1/bets", ROUTES["/v1/bets"] | {"stake": f"{n + 1}.00"}))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 9
    refused = [answer.json() for answer in answers if answer.status_code == 409]
    assert {(each["code"], each["field"]) for each in refused} == {("IDEMPOTENCY_CONFLICT", "stake")}
    assert len([each for each in world.events(BetAccepted) if each.data.tx == "X"]) == 1
    assert len(world.events(ConflictDetected)) == 9


def at_once(times: int, ask: Any) -> list[httpx2.Response]:
    """The answers to so many requests that are sent at the same time."""
    barrier = threading.Barrier(times)
    answers: list[httpx2.Response] = []

    def one(number: int) -> None:
        barrier.wait(30)
        answers.append(ask(number))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(times)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(answers) == times
    return answers


def test_w15_the_second_rollback_over_http(client, world):
    first = post(client, "/v1/rollbacks", ROUTES["/v1/rollbacks"])
    again = post(client, "/v1/rollbacks", ROUTES["/v1/rollbacks"] | {"currency": "EUR", "amount": "10.00"})
    assert (again.status_code, again.content) == (200, first.content)
    assert len(world.events(BetRolledBack)) == 1


def test_a_row_of_a_batch_is_what_the_bet_alone_is_answered(client, world):
    bets = [
        ROUTES["/v1/bets"] | {"tx": "X1"},
        ROUTES["/v1/bets"] | {"tx": "X2", "stake": "5000.00"},
        ROUTES["/v1/bets"] | {"tx": "X1"},
        ROUTES["/v1/bets"] | {"tx": "X1", "spot": "player"},
        ROUTES["/v1/bets"] | {"tx": "X3", "stake": 5},
    ]
    batch = client.post("/v1/bets/batch", json={"bets": bets})
    assert batch.status_code == 200
    rows = batch.json()["bets"]
    assert [row["code"] for row in rows] == [
        "OK",
        "INSUFFICIENT_FUNDS",
        "OK",
        "IDEMPOTENCY_CONFLICT",
        "INVALID",
    ]
    assert rows[0] == rows[2] == client.post("/v1/bets", json=bets[0]).json()
    alone = client.post("/v1/bets", json=bets[1]).json()
    assert rows[1] == alone | {"tx": "X2"}
    assert client.post("/v1/bets/batch", json={"bets": bets}).json()["bets"][:3] == rows[:3]
    assert (len(world.events(BetRefused)), len(world.events(ConflictDetected))) == (1, 2)


@pytest.mark.parametrize("path", ["/v1/rollbacks", "/v1/refunds"])
def test_w12_an_amount_in_another_currency_than_the_bets(client, world, path):
    """100 yen are not the same as 1.00 euro, though both are a hundred minor units."""
    answer = post(client, path, {"account": "Ann", "target": "B1", "currency": "JPY", "amount": "1000"})
    assert (answer.json()["code"], answer.json().get("field")) == ("CURRENCY_MISMATCH", "currency")
    assert world.events(BetRolledBack) == []


def test_temporary_is_not_remembered(tmp_path):
    """What was not done because the queue was full is done when it is sent again."""
    with World(tmp_path, Settings(operator=OPERATOR)) as world:
        world.wallet.limits = type(world.wallet.limits)(queue=1)
        command = world.command(Deposit, tx="X", amount=100)
        first, second = world.submit(world.command(Deposit, amount=1), command)
        assert second.exception(0).code == "TEMPORARY"  # type: ignore[union-attr]
        world.run()
        assert first.result(0).code == "OK"
        answer = world.ask(command)
        assert (answer.code, answer.replayed) == ("OK", False)


def test_the_interface_is_the_one_of_these_routes(world):
    """Whoever adds a route that moves something adds it here, too."""
    paths = app_of(world).openapi()["paths"]
    posts = {path for path, item in paths.items() if "post" in item}
    ours = {path.replace("main.w1", "{withdrawal}").replace("main.h2", "{hold}") for path in ROUTES}
    ours = {path.replace("main.g3", "{grant}") for path in ours}
    ours = {
        path.replace("/approve", "/{step}").replace("/reject", "/{step}") if "{withdrawal}" in path else path
        for path in ours
    }
    assert posts - ours == {"/v1/bets/batch", "/v1/repairs", "/v1/reconciliations"}
    assert ours <= posts
