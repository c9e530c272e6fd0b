"""One account's life, against a model of twenty lines; and fifty threads on one balance."""

import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from schemas.commands.wallet import (
    HoldFunds,
    Refund,
    ReleaseHold,
    RequestWithdrawal,
    RollBack,
    WithdrawalStep,
)
from schemas.refusal import Refusal
from services.runtime.process import WriterThread
from tests.wallet.world import World

AMOUNTS = st.integers(1, 400)
SPOTS = ("player", "banker", "tie")
PAYS = {"player": 1, "banker": 1, "tie": 8}


class Model:
    """What an account is: cash, and what is elsewhere."""

    def __init__(self) -> None:
        self.cash = self.deposited = self.paid = self.won = 0
        self.bets: dict[str, tuple[str, int]] = {}
        self.held: dict[str, int] = {}
        self.withdrawals: dict[str, tuple[str, int]] = {}

    def take(self, amount: int) -> bool:
        """Take so much of the cash, if it is there."""
        if amount > self.cash:
            return False
        self.cash -= amount
        return True

    def settle(self, outcome: str) -> None:
        for spot, stake in self.bets.values():
            winnings = stake * PAYS[spot] if spot == outcome else 0 if outcome == "tie" else -stake
            winnings -= (winnings * 5 + 50) // 100 if spot == outcome == "banker" else 0
            self.cash, self.won = self.cash + stake + winnings, self.won + winnings
        self.bets = {}

    def step(self, which: str, phase: str, *, back: bool) -> None:
        amount = self.withdrawals[which][1]
        self.withdrawals[which] = (phase, amount)
        self.cash += amount if back else 0
        self.paid += amount if phase == "approved" else -amount if phase == "returned" else 0

    @property
    def in_play(self) -> int:
        return sum(stake for _, stake in self.bets.values())

    @property
    def pending(self) -> int:
        return sum(amount for phase, amount in self.withdrawals.values() if phase == "requested")


class AccountLife(RuleBasedStateMachine):
    """Ann plays coup after coup at one table."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.world = World(Path(self.folder.name))
        self.model = Model()
        self.coup = 0
        self.closed = False
        self.world.hear(self.world.game.open_table())
        self._next_coup()
        self.deposit(1_000)

    def _next_coup(self) -> None:
        self.coup, self.closed = self.coup + 1, False
        self.world.hear(self.world.game.open(self.coup))

    def teardown(self) -> None:
        self.world.__exit__(None, None, None)
        self.world.reader.dispose()
        self.folder.cleanup()

    def _answer(self, kind: type[Any], **fields: Any) -> str:
        """The code of the answer, whichever way it came."""
        try:
            code: str = self.world.do(kind, **fields).code
        except Refusal as refusal:
            code = refusal.code
        return code

    @rule(amount=AMOUNTS)
    def deposit(self, amount: int) -> None:
        assert self.world.deposit("Ann", amount).code == "OK"
        self.model.cash, self.model.deposited = self.model.cash + amount, self.model.deposited + amount

    @rule(spot=st.sampled_from(SPOTS), stake=AMOUNTS)
    def bet(self, spot: str, stake: int) -> None:
        tx = self.world.tx()
        answer = self.world.bet("Ann", spot, stake, coup=self.coup, tx=tx)
        if self.closed:
            assert answer.code == "BETTING_CLOSED"
        elif self.model.take(stake):
            assert (answer.code, answer.balance) == ("OK", self.model.cash)
            self.model.bets[tx] = (spot, stake)
        else:
            assert answer.code == "INSUFFICIENT_FUNDS"

    @precondition(lambda self: self.model.bets)
    @rule(data=st.data(), amount=AMOUNTS | st.none())
    def take_back(self, data: st.DataObject, amount: int | None) -> None:
        """A rollback, or a refund of so much."""
        tx = data.draw(st.sampled_from(sorted(self.model.bets)))
        spot, stake = self.model.bets[tx]
        back = stake if amount is None else amount
        fields = {"target": tx} if amount is None else {"target": tx, "amount": amount}
        expected = "BET_SEALED" if self.closed else "LIMIT_REACHED" if back > stake else "OK"
        assert self._answer(RollBack if amount is None else Refund, **fields) == expected
        if expected == "OK":
            self.model.cash += back
            self.model.bets[tx] = (spot, stake - back)
            if back == stake:
                del self.model.bets[tx]

    @rule()
    def close(self) -> None:
        if not self.closed:
            self.world.hear(self.world.game.close(self.coup))
            self.closed = True

    @rule(outcome=st.sampled_from(SPOTS))
    def settle(self, outcome: Any) -> None:
        self.close()
        self.world.hear(self.world.game.conclude(self.coup, outcome))
        self.model.settle(outcome)
        self._next_coup()

    @rule()
    def void(self) -> None:
        self.world.hear(self.world.game.void(self.coup))
        self.model.cash += self.model.in_play
        self.model.bets = {}
        self._next_coup()

    @rule(amount=AMOUNTS)
    def withdraw(self, amount: int) -> None:
        answer = self.world.do(RequestWithdrawal, amount=amount)
        if self.model.take(amount):
            self.model.withdrawals[answer.event.withdrawal] = ("requested", amount)
        else:
            assert answer.code == "INSUFFICIENT_FUNDS"

    @precondition(lambda self: self.model.withdrawals)
    @rule(data=st.data(), step=st.sampled_from(["approve", "reject", "pay", "return"]))
    def step_withdrawal(self, data: st.DataObject, step: str) -> None:
        which = data.draw(st.sampled_from(sorted(self.model.withdrawals)))
        due, after = {
            "approve": ("requested", "approved"),
            "reject": ("requested", "rejected"),
            "pay": ("approved", "paid"),
            "return": ("paid", "returned"),
        }[step]
        phase = self.model.withdrawals[which][0]
        gone = phase in ("rejected", "returned")
        expected = "OK" if phase == due else "WITHDRAWAL_UNKNOWN" if gone else "WITHDRAWAL_STATE"
        assert self._answer(WithdrawalStep, withdrawal=which, step=step) == expected
        if expected == "OK":
            self.model.step(which, after, back=step in ("reject", "return"))

    @rule(amount=AMOUNTS)
    def hold(self, amount: int) -> None:
        answer = self.world.do(HoldFunds, amount=amount, kind="dispute")
        if self.model.take(amount):
            self.model.held[answer.event.hold] = amount
        else:
            assert answer.code == "INSUFFICIENT_FUNDS"

    @precondition(lambda self: self.model.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        hold = data.draw(st.sampled_from(sorted(self.model.held)))
        assert self._answer(ReleaseHold, hold=hold) == "OK"
        assert self._answer(ReleaseHold, hold=hold) == "HOLD_UNKNOWN"
        self.model.cash += self.model.held.pop(hold)

    @rule()
    def restart(self) -> None:
        self.world.restart()

    @invariant()
    def agrees(self) -> None:
        model, view = self.model, self.world.wealth()
        named = {
            "cash": model.cash,
            "withdrawable": model.cash,
            "in_play": model.in_play,
            "held": sum(model.held.values()),
            "withdrawing": model.pending,
        }
        assert view == {name: f"{units / 100:.2f}" for name, units in named.items() if units}
        has = model.cash + model.in_play + named["held"] + model.pending
        assert has == model.deposited - model.paid + model.won
        totals = self.world.totals()
        assert totals.get("2010", 0) == -model.cash
        assert sum(totals.values()) == 0


TestAccountLife = AccountLife.TestCase
TestAccountLife.settings = settings(
    max_examples=40, stateful_step_count=30, suppress_health_check=list(HealthCheck)
)


def test_fifty_threads_on_one_balance_of_100(world):
    """Each bets 10: ten are taken, forty lack the money, and nobody's cash is ever below nothing."""
    world.open_table()
    world.deposit("Ann", 100)
    stepping = WriterThread(world.wallet, threading.Event())
    stepping.start()
    barrier, codes = threading.Barrier(50), []

    def bet(number: int) -> None:
        command = world.bet_command("Ann", SPOTS[number % 3], 10, tx=f"T{number}")
        barrier.wait(30)
        codes.append(world.wallet.submit(command).result(30).code)

    threads = [threading.Thread(target=bet, args=(number,)) for number in range(50)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    stepping.finish()
    assert sorted(codes) == ["INSUFFICIENT_FUNDS"] * 40 + ["OK"] * 10
    world.restart()
    assert world.cash("Ann") == 0
    assert world.totals() == {"1030": 100, "2030": -100}
