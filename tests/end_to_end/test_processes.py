"""Game, wallet and audit as three processes on one directory: over HTTP, and over each other's deaths."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path

import pytest

from schemas.events.game import BettingClosed, CoupOpened
from schemas.events.wallet import BetAccepted, BetsSealed
from tests.end_to_end.rooms import OPERATOR, Room, assert_paid_once
from tests.end_to_end.support import (
    Service,
    complaint,
    delete,
    events_of,
    eventually,
    sabot,
    sabot_json,
)


class RoomOnFiles(Room):
    """The three processes over one directory."""

    def __init__(self, data: Path, **environment: str) -> None:
        self.data = data
        super().__init__(["--data", data], environment)

    def on_the_bus(self, kind: type, times: int) -> None:
        """Wait until the bus has so many events of a kind: who published them holds no lock then."""
        eventually(lambda: sum(isinstance(event.data, kind) for event in events_of(self.data)) == times)


@pytest.fixture
def room(tmp_path) -> Iterator[RoomOnFiles]:
    with RoomOnFiles(tmp_path / "data") as room:
        yield room


def test_six_coups_by_http_alone(room):
    # Before anything was played every verdict stands at zero, so that the first of a kind is an increase.
    born = room.audit.metrics()
    assert born["audit_coup_verifications_total", ("verified",)] == 0
    assert born["audit_coup_verifications_total", ("discrepancy",)] == 0
    for service in (room.game, room.wallet, room.audit):
        assert service.get("/healthz") == {"status": "ok"}
        assert service.get("/readyz") == {"status": "ready", "reasons": []}
    assert room.audit.get("/v1/verdicts") == {"verified": 0, "discrepancy": 0}

    room.open_table("T1", players=3)
    for coup in range(1, 7):
        room.open_coup("T1", coup)
        assert room.game.get(f"/v1/tables/{OPERATOR}/T1")["coup"]["phase"] == "betting"
        assert room.game.ask("GET", f"/v1/coups/{OPERATOR}/T1/S1/{coup}").status == 404
        for seat, spot in ((1, "banker"), (2, "player"), (3, "tie")):
            answer = room.bet("T1", coup, seat, spot)
            assert (answer.status, answer.body["code"], answer.body["currency"]) == (200, "OK", "EUR")
        assert {bet["status"] for bet in room.bets("T1", coup)} == {"open"}
        room.close("T1", coup)

        result = room.result("T1", coup)
        assert result["status"] == "concluded"
        assert 4 <= len(result["cards"]) <= 6
        by_spot = {bet["spot"]: bet for bet in room.paid("T1", coup)}
        won = {"banker": "19.50", "player": "20.00", "tie": "90.00"}
        for spot, bet in by_spot.items():
            tie = result["outcome"] == "tie"
            due = won[spot] if spot == result["outcome"] else "10.00" if tie else "0.00"
            assert bet["returned"] == due
    for seat, spot in ((1, "banker"), (2, "player"), (3, "tie")):
        bets = [bet for coup in range(1, 7) for bet in room.bets("T1", coup) if bet["spot"] == spot]
        returned = sum(Decimal(bet["returned"]) for bet in bets)
        assert room.cash("T1", seat) == Decimal("100.00") - 60 + returned

    room.all_verified(6)
    coups = room.audit.get(f"/v1/operators/{OPERATOR}/coups?table=T1")["items"]
    assert [(each["coup"], each["verdict"]) for each in coups] == [(coup, "verified") for coup in range(1, 7)]
    audit = room.audit.metrics()
    assert audit["audit_coup_verifications_total", ("verified",)] == 6
    assert audit["audit_coup_verifications_total", ("discrepancy",)] == 0
    wallet = eventually(
        lambda: m if (m := room.wallet.metrics())["wallet_outbox_backlog_events", ()] == 0 else None
    )
    assert wallet["wallet_events_appended_total", ()] == sum(
        event.stream == "wallet/main" for event in events_of(room.data)
    )
    assert wallet["wallet_records_consumed_total", ("game.events", "gap")] == 0
    assert room.game.metrics()["game_commands_total", ("done",)] == 1 + 3 + 2 + 12

    # Whoever wants to may verify while they run.
    assert sabot_json("verify", "--data", room.data)["coups"]["verified"] == 6
    room.stop()
    verified = sabot_json("verify", "--data", room.data)
    assert verified["coups"] == {"verified": 6, "of_these_void": 0, "discrepancy": 0, "open": 0}
    assert verified["bets"] == 18


def test_wallet_is_killed_between_the_bets_and_their_seal(room):
    room.open_table("T1", players=2)
    room.play("T1", 1, players=2)
    room.paid("T1", 1)
    room.open_coup("T1", 2)
    first = room.bet("T1", 2, 1, "banker")
    assert room.bet("T1", 2, 2, "player").status == 200

    assert room.wallet.end(signal.SIGKILL) == -signal.SIGKILL
    room.close("T1", 2)
    assert room.game.get(f"/v1/tables/{OPERATOR}/T1")["coup"]["phase"] == "sealing"
    with pytest.raises(OSError):  # noqa: PT011 - refused, or reset: it is not there
        room.wallet.ask("GET", "/healthz")

    room.wallet = room.start("wallet")
    assert room.result("T1", 2)["status"] == "concluded"
    room.paid("T1", 2)
    # The answer that may have been lost is asked for again: the same words, and nothing moves.
    cash = room.cash("T1", 1)
    again = room.bet("T1", 2, 1, "banker")
    assert (again.status, again.body) == (200, first.body)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers["sabot-current-balance"] == str(cash) == str(room.cash("T1", 1))

    room.play("T1", 3, players=2)
    room.paid("T1", 3)
    room.all_verified(3)
    room.stop()
    assert sabot_json("verify", "--data", room.data)["coups"]["verified"] == 3
    assert_paid_once(events_of(room.data))


def test_game_is_killed_while_a_coup_waits_for_its_seal_and_the_other_table_plays_on(room):
    for table in ("T1", "T2"):
        room.open_table(table, players=2)
        room.open_coup(table, 1)
    for seat in (1, 2):
        assert room.bet("T1", 1, seat, "banker").status == 200
    assert room.bet("T2", 1, 1, "banker").status == 200

    # Wallet holds its breath, so that game dies with betting closed and no card dealt.
    room.on_the_bus(BetAccepted, 3)
    room.wallet.send(signal.SIGSTOP)
    room.close("T1", 1)
    assert room.game.end(signal.SIGKILL) == -signal.SIGKILL
    room.wallet.send(signal.SIGCONT)
    # Nobody deals now, and the other table's bets are taken all the same.
    assert room.bet("T2", 1, 2, "player").status == 200
    assert {bet["status"] for bet in room.bets("T1", 1)} == {"open"}

    room.game = room.start("game")
    room.close("T2", 1)
    assert {room.result(table, 1)["status"] for table in ("T1", "T2")} == {"concluded"}
    for table in ("T1", "T2"):
        room.paid(table, 1)
        room.play(table, 2, players=2)
        room.paid(table, 2)
    room.all_verified(4)
    room.stop()
    assert sabot_json("verify", "--data", room.data)["coups"]["verified"] == 4
    assert_paid_once(events_of(room.data))


def test_a_seal_that_does_not_come_voids_the_coup_and_the_stakes_go_back(tmp_path):
    with RoomOnFiles(tmp_path / "data", SABOT_SEAL_TIMEOUT_SECONDS="1") as room:
        room.open_table("T1", players=2)
        room.open_coup("T1", 1)
        for seat in (1, 2):
            assert room.bet("T1", 1, seat, "banker").status == 200
        room.on_the_bus(BetAccepted, 2)
        room.wallet.send(signal.SIGSTOP)
        room.close("T1", 1)
        result = room.result("T1", 1)
        assert (result["status"], result["cards"], result["outcome"]) == ("voided", [], None)
        room.wallet.send(signal.SIGCONT)
        assert {bet["status"] for bet in room.paid("T1", 1)} == {"void"}
        assert [room.cash("T1", seat) for seat in (1, 2)] == [Decimal("100.00")] * 2
        room.play("T1", 2, players=2)
        room.paid("T1", 2)
        room.all_verified(2)
        room.stop()
        coups = sabot_json("verify", "--data", room.data)["coups"]
        assert (coups["verified"], coups["of_these_void"]) == (2, 1)
        assert_paid_once(events_of(room.data))


def test_a_late_bet_is_refused_by_its_place_and_not_by_a_clock(room):
    room.open_table("T1", players=2)
    room.open_coup("T1", 1)
    assert room.bet("T1", 1, 1, "banker").status == 200
    # Betting closes while wallet sleeps, and game falls asleep before it can deal: sealed, and not settled.
    room.on_the_bus(BetAccepted, 1)
    room.wallet.send(signal.SIGSTOP)
    room.close("T1", 1)
    room.on_the_bus(BettingClosed, 1)
    room.game.send(signal.SIGSTOP)
    room.wallet.send(signal.SIGCONT)
    room.on_the_bus(BetsSealed, 1)
    late = room.bet("T1", 1, 2, "player", tx="late")
    assert (late.status, late.body["code"], late.body["retryable"]) == (409, "BETTING_CLOSED", False)
    assert late.body["detail"] == "betting on this coup is closed"

    room.game.send(signal.SIGCONT)
    room.paid("T1", 1)
    over = room.bet("T1", 1, 2, "player", tx="over")
    assert (over.status, over.body["code"], over.body["retryable"]) == (409, "ROUND_CLOSED", False)
    # A refusal is final, and no other word comes for the same id.
    again = room.bet("T1", 1, 2, "player", tx="late")
    assert (again.body, again.headers["idempotent-replayed"]) == (late.body, "true")
    assert room.cash("T1", 2) == Decimal("100.00")
    room.all_verified(1)
    room.stop()
    document = sabot_json("verify", "--data", room.data)
    assert (document["coups"]["verified"], document["refused_bets"]) == (1, 1)


def test_audit_is_killed_and_sees_everything_all_the_same(room):
    room.open_table("T1", players=2)
    room.play("T1", 1, players=2)
    room.paid("T1", 1)
    room.play("T1", 2, players=2)
    assert room.audit.end(signal.SIGKILL) == -signal.SIGKILL
    room.paid("T1", 2)
    room.play("T1", 3, players=2)
    room.paid("T1", 3)
    room.audit = room.start("audit")
    room.all_verified(3)
    room.stop()
    assert sabot_json("verify", "--data", room.data)["coups"]["verified"] == 3


def test_a_record_that_the_bus_lost_holds_one_table_until_it_is_published_again(room):
    for table in ("T1", "T2"):
        room.open_table(table, players=2)
        room.play(table, 1, players=2)
        room.paid(table, 1)
    assert room.wallet.end() == 0
    room.open_coup("T1", 2)
    room.close("T1", 2)
    room.on_the_bus(BettingClosed, 3)
    opened = [event for event in events_of(room.data) if isinstance(event.data, CoupOpened)][-1]
    # Audit has read it; wallet has not, and now nobody can any more.
    applied = ("audit_records_consumed_total", ("game.events", "applied"))
    of_game = sum(event.stream.startswith("game/") for event in events_of(room.data))
    eventually(lambda: room.audit.metrics()[applied] == of_game)
    delete(room.data, "bus", opened)

    room.wallet = room.start("wallet")
    not_ready = eventually(
        lambda: answer if (answer := room.wallet.ask("GET", "/readyz")).status == 503 else None
    )
    assert not_ready.body["reasons"] == [f"game/main.T1: event {opened.sequence} is missing"]
    assert room.wallet.metrics()["wallet_held_streams", ()] == 1
    room.play("T2", 2, players=2)
    room.paid("T2", 2)
    assert room.game.get(f"/v1/tables/{OPERATOR}/T1")["coup"]["phase"] == "sealing"

    said = sabot("game", "republish", "game/main.T1", str(opened.sequence), "--data", room.data)
    assert "2 events of game/main.T1 published again" in said
    assert room.result("T1", 2)["status"] == "concluded"
    eventually(lambda: room.wallet.ask("GET", "/readyz").status == 200)
    room.play("T1", 3, players=2)
    room.paid("T1", 3)
    room.all_verified(5)
    room.stop()
    # Nothing is missing any more, and what came twice did no harm.
    assert sabot_json("verify", "--data", room.data)["coups"]["verified"] == 5
    assert_paid_once(events_of(room.data))


def test_only_a_stream_that_is_there_is_published_again(tmp_path):
    sabot("demo", "--coups", "1", "--data", tmp_path)
    said = " ".join(complaint("wallet", "republish", "wallet/other", "1", "--data", tmp_path).split())
    assert "no stream 'wallet/other' here; there are wallet/main" in said
    assert "there is no game in" in complaint(
        "game", "republish", "game/main.T1", "1", "--data", tmp_path / "x"
    )


def test_of_two_wallets_on_one_directory_one_stops_in_words(tmp_path):
    data = tmp_path / "data"
    with ExitStack() as stack:
        wallets = [Service("wallet", ["--data", data]) for _ in range(2)]
        for wallet in wallets:
            stack.callback(wallet.clear_away)
        deposit = {"operator": OPERATOR, "currency": "EUR", "amount": "5.00", "tx": "d"}
        accepted = 0
        for number in range(4):
            wallet = wallets[number % 2]
            try:
                answer = wallet.ask("POST", "/v1/deposits", {**deposit, "account": f"player {number}"})
            except OSError:
                continue  # it is the one that stopped
            accepted += answer.status == 200
            if answer.status != 200:
                assert (answer.status, answer.body["code"]) == (503, "TEMPORARY")
        stopped = eventually(lambda: next((each for each in wallets if each.has_ended), None))
        [other] = [each for each in wallets if each is not stopped]
        assert stopped.wait() == 1
        assert "another writer has written to this store" in stopped.said
        assert "Traceback" not in stopped.said
        assert other.get("/readyz")["status"] == "ready"
        answer = other.ask("POST", "/v1/deposits", {**deposit, "account": "player 9"})
        assert answer.status == 200
        assert other.end() == 0

    # Game and audit have not run yet: the room is made whole, and all is as one wallet wrote it.
    sabot("demo", "--coups", "1", "--data", data)
    assert sabot_json("verify", "--data", data)["ok"] is True
    deposits = [event.data for event in events_of(data) if event.envelope.type == "sabot.wallet.deposited.v1"]
    assert sum(each.amount == 500 for each in deposits) == accepted + 1


def test_a_service_listens_on_this_machine_only(tmp_path):
    said = complaint("wallet", "serve", "--data", tmp_path / "d", "--host", "0.0.0.0")
    assert "is not a loopback address" in said
    assert not (tmp_path / "d").exists()
