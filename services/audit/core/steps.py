"""What goes step by step in wallet's streams: withdrawals, manual corrections, holds.

Each step follows the one before it, for the same account, currency and amount, and each is taken once.
"""

from __future__ import annotations

from typing import Any, Final

from schemas.envelope import Recorded
from schemas.events.accounts import (
    Adjusted,
    AdjustmentDeclined,
    AdjustmentProposed,
    FundsHeld,
    HoldReleased,
    WithdrawalApproved,
    WithdrawalMoney,
    WithdrawalPaid,
    WithdrawalRejected,
    WithdrawalRequested,
    WithdrawalReturned,
)
from schemas.events.base import Payload
from services.audit.core.accounts import PLAYERS_BANK, Accounts, Handler
from services.audit.core.ledger import CASH, HELD, PENDING, Ledger, money
from services.audit.core.purses import PAID_REMEMBERED, Hold, Holdings, Item, Withdrawal
from services.audit.core.room import Room

PSP_WITHDRAWALS, GOODWILL = "1040", "5020"

_STEPS: Final[dict[type[Payload], tuple[str, str, str, str]]] = {
    WithdrawalApproved: ("requested", "approved", PENDING, PSP_WITHDRAWALS),
    WithdrawalRejected: ("requested", "rejected", PENDING, CASH),
    WithdrawalPaid: ("approved", "paid", PSP_WITHDRAWALS, PLAYERS_BANK),
    WithdrawalReturned: ("paid", "returned", PLAYERS_BANK, CASH),
}
"""Of each step: what a withdrawal must be before it, what it is after it, debit and credit."""


class Steps:
    """Checks the order of what wallet does step by step."""

    def __init__(self, room: Room, ledger: Ledger, accounts: Accounts) -> None:
        self._room, self._ledger, self._accounts = room, ledger, accounts

    def handlers(self) -> dict[type[Payload], Handler]:
        """Who looks at which event."""
        return {
            WithdrawalRequested: self._requested,
            WithdrawalApproved: self._stepped,
            WithdrawalRejected: self._stepped,
            WithdrawalPaid: self._stepped,
            WithdrawalReturned: self._stepped,
            AdjustmentProposed: self._proposed,
            Adjusted: self._adjusted,
            AdjustmentDeclined: self._declined,
            FundsHeld: self._held,
            HoldReleased: self._released,
        }

    # ------------------------------------------------------------------------------------------- withdrawals

    def _requested(self, event: Recorded[Any], data: WithdrawalRequested) -> None:
        holdings = self._ledger.holdings(event.stream)
        self._accounts.is_new(event, data.account, data.tx)
        if data.withdrawal in holdings.withdrawals or data.withdrawal in holdings.paid:
            words = f"withdrawal {data.withdrawal} was requested twice"
            self._room.report("withdrawal", event, words, recorded=data.amount)
        else:
            withdrawal = holdings.withdrawals[data.withdrawal] = Withdrawal(
                event.stream, data.withdrawal, data.operator, data.account, data.currency, data.amount
            )
            self._room.touch(withdrawal)
        self._ledger.books(event.stream, data.operator).move(PENDING, data.currency, data.amount)
        self._accounts.move(event, data, CASH, PENDING, data.withdrawal)

    def _stepped(self, event: Recorded[Any], data: WithdrawalMoney) -> None:
        before, after, debit, credit = _STEPS[type(data)]
        holdings = self._ledger.holdings(event.stream)
        id_ = data.withdrawal
        withdrawal = holdings.withdrawals.get(id_) or holdings.paid.get(id_)
        moved = money(data.amount, data.currency)
        if withdrawal is None:
            # One that was paid long ago may have been let go of; then there is nothing to hold it against.
            if before != "paid" or len(holdings.paid) < PAID_REMEMBERED:
                words = f"withdrawal {id_} of {moved} was {after}, and it is not {before}"
                self._room.report("withdrawal", event, words, recorded=data.amount, expected=before)
        else:
            if withdrawal.phase != before:
                words = (
                    f"withdrawal {id_} of {moved} was {after}, and it was {withdrawal.phase}, not {before}"
                )
                self._room.report("withdrawal", event, words, recorded=withdrawal.phase, expected=before)
            self._check_same(event, data, withdrawal, "withdrawal", after)
            self._go_on(event, holdings, withdrawal, after)
        if debit == PENDING:
            self._ledger.books(event.stream, data.operator).move(PENDING, data.currency, -data.amount)
        self._accounts.move(event, data, debit, credit, id_)

    def _go_on(self, event: Recorded[Any], holdings: Holdings, withdrawal: Withdrawal, phase: str) -> None:
        withdrawal.phase = phase
        holdings.withdrawals.pop(withdrawal.id, None)
        holdings.paid.pop(withdrawal.id, None)
        match phase:
            case "approved":
                holdings.withdrawals[withdrawal.id] = withdrawal
                self._room.touch(withdrawal)
            case "paid":
                withdrawal.sequence = event.sequence
                holdings.paid[withdrawal.id] = withdrawal
                self._room.touch(withdrawal)
                if len(holdings.paid) > PAID_REMEMBERED:
                    self._room.drop(holdings.paid.pop(next(iter(holdings.paid))))
            case _:
                self._room.drop(withdrawal)

    # ----------------------------------------------------------------------------------- manual corrections

    def _proposed(self, event: Recorded[Any], data: AdjustmentProposed) -> None:
        self._ledger.purse(event, data.account)
        proposals = self._accounts.standing(event, data.account).proposals
        if data.tx in proposals:
            words = f"adjustment {data.tx} of account {data.account} was proposed twice"
            self._room.report("adjustment", event, words, recorded=data.amount)
        proposals[data.tx] = [data.currency, data.amount, data.direction, data.initiator]

    def _adjusted(self, event: Recorded[Any], data: Adjusted) -> None:
        """What was proposed, by somebody else than who approves it."""
        proposed = self._accounts.standing(event, data.account).proposals.pop(data.tx, None)
        which = f"adjustment {data.tx} of {money(data.amount, data.currency)} on account {data.account}"
        recorded = [data.currency, data.amount, data.direction, data.initiator]
        if proposed is None:
            words = f"{which} was made, and it was not proposed"
            self._room.report("adjustment", event, words, recorded=data.amount, expected=0)
        elif proposed != recorded:
            words = f"{which} ({data.direction}, asked for by {data.initiator}) was proposed as "
            words += f"{money(proposed[1], proposed[0])} ({proposed[2]}, asked for by {proposed[3]})"
            self._room.report("adjustment", event, words, recorded=data.amount, expected=proposed[1])
        if data.initiator == data.approver:
            words = f"{which} was approved by {data.approver}, who had asked for it"
            self._room.report("four_eyes", event, words, recorded=data.approver, expected="somebody else")
        if data.direction == "credit":
            self._accounts.move(event, data, GOODWILL, CASH)
        else:
            self._accounts.move(event, data, CASH, GOODWILL)

    def _declined(self, event: Recorded[Any], data: AdjustmentDeclined) -> None:
        if self._accounts.standing(event, data.account).proposals.pop(data.tx, None) is None:
            words = f"adjustment {data.tx} of account {data.account} was declined, and it was not proposed"
            self._room.report("adjustment", event, words)

    # ----------------------------------------------------------------------------------------------- holds

    def _held(self, event: Recorded[Any], data: FundsHeld) -> None:
        holdings = self._ledger.holdings(event.stream)
        self._accounts.is_new(event, data.account, data.tx)
        if data.hold in holdings.holds:
            self._room.report("hold", event, f"hold {data.hold} was made twice", recorded=data.amount)
        else:
            hold = holdings.holds[data.hold] = Hold(
                event.stream, data.hold, data.operator, data.account, data.currency, data.amount
            )
            self._room.touch(hold)
        self._ledger.books(event.stream, data.operator).move(HELD, data.currency, data.amount)
        self._accounts.move(event, data, CASH, HELD, data.hold)

    def _released(self, event: Recorded[Any], data: HoldReleased) -> None:
        """Once, and all of it."""
        holdings = self._ledger.holdings(event.stream)
        hold = holdings.holds.pop(data.hold, None)
        if hold is None:
            words = f"hold {data.hold} of {money(data.amount, data.currency)} was released, and there is none"
            self._room.report("hold", event, words, recorded=data.amount, expected=0)
        else:
            self._check_same(event, data, hold, "hold", "released")
            self._room.drop(hold)
        self._ledger.books(event.stream, data.operator).move(HELD, data.currency, -data.amount)
        self._accounts.move(event, data, HELD, CASH, data.hold)

    # ------------------------------------------------------------------------------------------- in private

    def _check_same(
        self, event: Recorded[Any], data: WithdrawalMoney | HoldReleased, item: Item, check: str, done: str
    ) -> None:
        recorded = (data.operator, data.account, data.currency, data.amount)
        expected = (item.operator, item.account, item.currency, item.amount)
        if recorded != expected:
            words = f"{check} {item.id} was {done} as {money(data.amount, data.currency)} of {data.account}, "
            words += f"and it is {money(item.amount, item.currency)} of {item.account}"
            self._room.report(check, event, words, recorded=data.amount, expected=item.amount)
