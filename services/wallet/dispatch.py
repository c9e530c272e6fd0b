"""Tells operators' wallets what the ledger says they must be told, until they have answered.

What there is to tell (a debit, a credit, a rollback) is an open ``Call`` of the ledger, opened by an event
and closed by one. This only carries it: it can be killed at any moment, and begins again from what is open.
Every call has an id that never changes, so that however often it is sent, it counts once.

A call of which nobody knows whether it was carried out is looked up, and sent again; a debit while its coup
is open. When betting closes the ledger itself refuses the bet and opens a rollback of the debit.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, Literal, TypedDict

import sqlalchemy as sa
from sqlalchemy import Engine

from schemas.commands.wallet import AnswerCall, AnswerDebit, WalletCommand
from schemas.envelope import Recorded
from schemas.events.wallet import BetRefused, CallAnswered
from schemas.refusal import Refusal
from services.runtime.ports import DatabaseUnavailable
from services.runtime.writer import Writer
from services.seamless.calls import Credit, Debit, Done, Outcome, Refused, Rollback, Unknown
from services.seamless.client import OperatorWallet
from services.wallet.core.items import Call
from services.wallet.service import WalletService
from services.wallet.tables import REFERENCE

_AT_ONCE: Final = 32
_FIRST_PAUSE_SECONDS: Final = 0.1
_PAUSE_SECONDS_MAX: Final = 5.0
_ENDED_KEPT: Final = 10_000

log = logging.getLogger(__name__)


class Dispatcher:
    """Carries the open calls of one wallet shard."""

    def __init__(
        self,
        writer: Writer[WalletCommand],
        reader: Engine,
        wallet_of: Callable[[str], OperatorWallet | None],
    ) -> None:
        """``wallet_of``: the wallet of an operator, None where the operator has none of his own."""
        assert isinstance(writer.service, WalletService)
        self._writer, self._reader, self._wallet_of = writer, reader, wallet_of
        self._items = writer.service.state.items
        # One for each operator: a wallet that does not answer holds up its own calls only.
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._waiting: dict[str, Future[None]] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._references: dict[str, str] = {}
        writer.on_commit = self._look
        self._items.new_calls.clear()
        for call in list(self._items.calls.values()):
            self._begin(call)

    def wait_for(self, call: str) -> Future[None]:
        """Done when the call has ended, however it did."""
        with self._lock:
            waiting = self._waiting.get(call)
            if waiting is None:
                waiting = self._waiting[call] = Future()
                if call in self._ended:
                    del self._waiting[call]
                    waiting.set_result(None)
            return waiting

    def close(self) -> None:
        """Stop. What is open stays open, and is taken up at the next start."""
        self._closing.set()
        for pool in self._pools.values():
            pool.shutdown(cancel_futures=True)

    # In the writer's thread, after each commit.

    def _look(self, events: Sequence[Recorded[Any]]) -> None:
        for event in events:
            data = event.data
            if isinstance(data, CallAnswered) and data.status != "pending_recovery":
                self._end(data.call)
            elif isinstance(data, BetRefused) and data.code == "DEBIT_UNKNOWN":
                self._end(f"{data.bet}/debit")
        while self._items.new_calls:
            self._begin(self._items.new_calls.pop(0))

    def _begin(self, call: Call) -> None:
        if call.status != "open" or self._closing.is_set():
            return
        pool = self._pools.get(call.operator)
        if pool is None:
            name = f"calls-{call.operator}"
            pool = self._pools[call.operator] = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix=name)
        pool.submit(self._carry, call)

    def _end(self, call: str) -> None:
        with self._lock:
            self._ended[call] = None
            while len(self._ended) > _ENDED_KEPT:
                self._ended.popitem(last=False)
            waiting = self._waiting.pop(call, None)
        if waiting is not None:
            waiting.set_result(None)

    # In the threads of the pool.

    def _carry(self, call: Call) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while not self._closing.is_set() and call.id not in self._ended:
            try:
                if self._is_answered(call):
                    return
            except Exception:
                log.exception("call %s to the wallet of %s", call.id, call.operator)
            self._closing.wait(pause)
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)

    def _is_answered(self, call: Call) -> bool:
        wallet = self._wallet_of(call.operator)
        if wallet is None:
            log.warning("call %s waits: %s has no wallet of his own any more", call.id, call.operator)
            return False
        try:
            account = self._reference(call.account)
        except DatabaseUnavailable:
            return False
        outcome = _tell(wallet, call, account)
        if isinstance(outcome, Unknown):
            known = wallet.status(account, call.id)
            if not isinstance(known, Refused | Unknown) and known.outcome is not None:
                outcome = known.outcome
        if isinstance(outcome, Unknown) or (isinstance(outcome, Refused) and outcome.retryable):
            return False
        self._say(call, outcome)
        return True

    def _say(self, call: Call, outcome: Done | Refused) -> None:
        """Let the ledger know; what it cannot be told now is asked again, with the same answer."""
        command: AnswerDebit | AnswerCall
        code = outcome.code
        status: Literal["done", "refused"] = "done" if isinstance(outcome, Done) else "refused"
        if call.kind == "debit":
            command = AnswerDebit(operator=call.operator, bet=call.bet, status=status, code=code)
        else:
            command = AnswerCall(operator=call.operator, call=call.id, status=status, code=code)
        try:
            self._writer.submit(command).result()
        except Refusal as refusal:
            if refusal.code == "TEMPORARY":
                raise

    def _reference(self, account: str) -> str:
        known = self._references.get(account)
        if known is None:
            with self._reader.connect() as db:
                known = (
                    db.scalar(sa.select(REFERENCE.c.reference).where(REFERENCE.c.account == account)) or ""
                )
            self._references[account] = known
        return known


class _Place(TypedDict):
    table: str
    shoe: str
    coup: int


def _tell(wallet: OperatorWallet, call: Call, account: str) -> Outcome:
    place = _Place(table=call.table, shoe=call.shoe, coup=call.coup)
    stake = f"{call.bet}/debit"
    match call.kind:
        case "debit":
            return wallet.debit(
                Debit(call.id, account, call.currency, call.amount, bet=call.bet, spot=call.spot, **place)
            )
        case "rollback":
            return wallet.rollback(Rollback(call.id, account, call.currency, stake, call.amount, **place))
        case "correction_debit":
            return wallet.debit(
                Debit(call.id, account, call.currency, call.amount, kind="correction", bet_tx=stake, **place)
            )
        case "correction_credit":
            kind, closes = "correction", False
        case "refund":
            kind, closes = "refund", False
        case _:
            kind, closes = "win", True
    return wallet.credit(Credit(call.id, account, call.currency, call.amount, stake, closes, kind, **place))
