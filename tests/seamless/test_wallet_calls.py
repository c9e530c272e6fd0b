"""Wallet over an operator's own wallet: debits, credits, rollbacks, and what nobody knows."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from schemas.commands.wallet import RollBack
from schemas.events.wallet import BetRefused, BetsSealed, CallAnswered, DebitRequested
from services.operator.hosting import Sandbox, player, running
from services.operator.service import OperatorService
from services.runtime.ports_system import SystemClock, SystemRng
from services.runtime.process import WriterThread
from services.runtime.signing import Key
from services.seamless.adapters import adapter_named
from services.seamless.client import SeamlessClient, Timeouts
from services.wallet.core.state import Policy
from services.wallet.dispatch import Dispatcher
from tests.wallet.world import OPERATOR, World

KEY = Key("k1", b"a-secret-of-thirty-two-characters")
PATIENCE_SECONDS = 20


class Seamless:
    """Wallet, its calls, and the sandbox of an operator with one player who has 100 euros."""

    def __init__(self, folder: Path, url: str, sandbox: OperatorService) -> None:
        self.world = World(folder, policy=Policy(seamless=True))
        self.sandbox = sandbox
        self._client = SeamlessClient.open(
            url,
            KEY,
            adapter_named("sabot"),
            clock=SystemClock(),
            rng=SystemRng(),
            timeouts=Timeouts(connect_ms=500, answer_ms=500),
        )
        self.start()

    def start(self) -> None:
        self.thread = WriterThread(self.world.wallet, threading.Event())
        self.dispatcher = Dispatcher(self.world.wallet, self.world.reader, lambda _: self._client)
        self.thread.start()

    def stop(self) -> None:
        """As a process that ends: what is open stays open."""
        self.dispatcher.close()
        self.thread.finish()

    def restart(self) -> None:
        self.stop()
        self.world.wallet = self.world._open()
        self.start()

    def close(self) -> None:
        self.stop()
        self._client.close()
        self.world.bus.close()

    def says(self, *records: Any) -> None:
        """Publish what game says; wallet hears it by itself."""
        self.world.bus.publish(
            [one for each in records for one in (each if isinstance(each, list) else [each])]
        )

    def bet(self, stake: int, spot: str = "banker", coup: int = 1, tx: str | None = None) -> Any:
        """A bet, and the answer that its caller gets in the end."""
        command = self.world.bet_command("alice", spot, stake, coup=coup, tx=tx)
        answer = self.world.wallet.submit(command).result(PATIENCE_SECONDS)
        assert answer.code == "IN_PROGRESS"
        self.dispatcher.wait_for(f"{answer.bet}/debit").result(PATIENCE_SECONDS)
        return self.world.wallet.submit(command).result(PATIENCE_SECONDS)

    def has(self) -> str:
        """What the operator's wallet says that alice has, in minor units."""
        account = self.sandbox.store.account("alice")
        assert account is not None
        return str(account.balance)

    def clearing(self) -> int:
        """Account 1050: what the operator owes us, if it is more than nothing."""
        return self.world.state.ledger.balance(OPERATOR, "1050", None, "EUR")

    def open_calls(self) -> list[tuple[str, str]]:
        return [(each.id, each.status) for each in list(self.world.state.items.calls.values())]


def until(what: Callable[[], bool]) -> None:
    deadline = monotonic() + PATIENCE_SECONDS
    while not what():
        assert monotonic() < deadline
        sleep(0.01)


@pytest.fixture
def seamless(tmp_path: Path) -> Iterator[Seamless]:
    sandbox = Sandbox(
        keys={KEY.id: KEY.secret.decode()}, players=(player("alice", "EUR", "100.00"),), delay_ms=1_500
    )
    with (
        running(sandbox, SystemClock(), SystemRng()) as (url, service),
        closing(Seamless(tmp_path, url, service)) as seamless,
    ):
        game = seamless.world.game
        seamless.says(game.open_table(), [game.open(coup) for coup in (1, 2, 3)])
        until(lambda: len(seamless.world.state.coups) == 3)
        yield seamless


def test_a_bet_is_debited_there_and_its_win_is_credited(seamless):
    answer = seamless.bet(1_000)
    assert (answer.code, answer.event.funding) == ("OK", "operator")
    assert (seamless.has(), seamless.clearing()) == ("9000", 1_000)  # posting 17
    seamless.says(seamless.world.game.close(1), seamless.world.game.conclude(1, "banker"))
    until(lambda: seamless.has() == "10950" and not seamless.open_calls())
    assert seamless.clearing() == 1_000 - 1_950
    assert seamless.world.state.ledger.balance(OPERATOR, "4020", None, "EUR") == -50


def test_a_lost_bet_is_closed_by_a_win_of_nothing(seamless):
    seamless.bet(1_000, "tie")
    seamless.says(seamless.world.game.close(1), seamless.world.game.conclude(1, "banker"))
    until(lambda: len(seamless.world.state.coups) == 2 and not seamless.open_calls())
    assert (seamless.has(), seamless.clearing()) == ("9000", 1_000)
    closing_credit = [each for each in seamless.sandbox.store.movements() if each.tx.endswith("/1")]
    assert [each.outcome.code for each in closing_credit] == ["OK"]


def test_who_has_too_little_there_gets_no_bet(seamless):
    answer = seamless.bet(10_001)
    assert (answer.code, answer.field) == ("INSUFFICIENT_FUNDS", "")
    assert (seamless.has(), seamless.clearing()) == ("10000", 0)
    assert seamless.open_calls() == []


def test_a_void_coup_is_rolled_back_there(seamless):
    seamless.bet(1_000)
    seamless.says(seamless.world.game.close(1), seamless.world.game.void(1))
    until(lambda: seamless.has() == "10000" and not seamless.open_calls())
    assert seamless.clearing() == 0


def test_a_bet_that_is_rolled_back_before_the_seal(seamless):
    seamless.bet(1_000, tx="T1")
    rollback = RollBack(operator=OPERATOR, account="alice", tx="R1", target="T1")
    assert seamless.world.wallet.submit(rollback).result(PATIENCE_SECONDS).code == "OK"
    until(lambda: seamless.has() == "10000" and not seamless.open_calls())


def test_a_debit_that_was_carried_out_and_not_answered_is_looked_up(seamless):
    seamless.sandbox.switch(("timeout-after-commit",), 0)
    answer = seamless.bet(1_000)
    assert answer.code == "OK"
    assert seamless.has() == "9000", "once"


def test_a_debit_still_unknown_when_betting_closes_is_left_out_and_rolled_back(seamless):
    """The operator's wallet takes the stake long after the seal; it goes back, and the bet is never taken."""
    seamless.sandbox.switch(("slow",), 1_500)
    command = seamless.world.bet_command("alice", "banker", 1_000, tx="T1")
    answer = seamless.world.wallet.submit(command).result(PATIENCE_SECONDS)
    assert answer.code == "IN_PROGRESS"
    seamless.says(seamless.world.game.close(1))
    until(lambda: bool(seamless.world.events(BetsSealed)))
    [sealed] = seamless.world.events(BetsSealed)
    assert (sealed.data.bets, sealed.data.totals) == (0, ())
    again = seamless.world.wallet.submit(command).result(PATIENCE_SECONDS)
    assert (again.code, again.replayed) == ("DEBIT_UNKNOWN", True)
    until(lambda: not seamless.open_calls())
    seamless.sandbox.switch((), 0)
    sleep(1.7)  # the debit's own answer comes, and changes nothing
    assert (seamless.has(), seamless.clearing()) == ("10000", 0)
    [refused] = seamless.world.events(BetRefused)
    assert refused.data.code == "DEBIT_UNKNOWN"
    assert seamless.world.wallet.submit(command).result(PATIENCE_SECONDS).code == "DEBIT_UNKNOWN"


def test_what_was_open_when_the_process_ended_is_carried_by_the_next(seamless):
    seamless.bet(1_000)
    seamless.sandbox.switch(("read-only",), 0)
    seamless.says(seamless.world.game.close(1), seamless.world.game.conclude(1, "player"))
    until(lambda: len(seamless.world.state.coups) == 2)
    assert [status for _, status in seamless.open_calls()] == ["open"]
    seamless.stop()
    seamless.sandbox.switch((), 0)
    seamless.world.wallet = seamless.world._open()
    seamless.start()
    until(lambda: not seamless.open_calls())
    assert seamless.has() == "9000"
    assert len(seamless.world.events(DebitRequested)) == 1


def test_a_correction_pays_the_difference(seamless):
    seamless.bet(1_000)
    game = seamless.world.game
    seamless.says(game.close(1), game.conclude(1, "player"))
    until(lambda: not seamless.open_calls() and len(seamless.world.state.coups) == 2)
    assert seamless.has() == "9000"
    seamless.says(game.correct(1, "banker"))
    until(lambda: seamless.has() == "10950" and not seamless.open_calls())
    assert seamless.clearing() == 1_000 - 1_950


def test_a_correction_that_the_player_cannot_pay_stays_open_and_is_seen(seamless):
    """Pending recovery: account 1050 says what is still owed, and the call stays where people look (W17)."""
    seamless.bet(1_000)
    game = seamless.world.game
    seamless.says(game.close(1), game.conclude(1, "banker"))
    until(lambda: seamless.has() == "10950" and not seamless.open_calls())
    seamless.sandbox.keep(player("alice", "EUR", "5.00"))
    seamless.says(game.correct(1, "player"))
    until(lambda: len(seamless.world.events(CallAnswered)) == 3)  # what is committed, not what is in hand
    assert [status for _, status in seamless.open_calls()] == ["pending_recovery"]
    assert seamless.has() == "500"
    assert seamless.clearing() == 1_000
    answers = [event.data.status for event in seamless.world.events(CallAnswered)]
    assert answers == ["done", "done", "pending_recovery"]
    seamless.restart()
    assert [status for _, status in seamless.open_calls()] == ["pending_recovery"]
