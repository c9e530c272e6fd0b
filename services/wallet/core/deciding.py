"""From a command to events: repeats and conflicts first, then the decision that belongs to the command."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.commands import wallet as commands
from schemas.events.accounts import TombstoneCreated
from schemas.events.base import Payload
from schemas.events.wallet import ConflictDetected
from schemas.refusal import Refusal
from services.wallet.core import accounts
from services.wallet.core.betting import answer_call, answer_debit, decide_bet, tombstoned
from services.wallet.core.operations import OPERATIONS, differing_fields, house_account
from services.wallet.core.rollbacks import decide_rollback
from services.wallet.core.settling import repeated_settlement
from services.wallet.core.state import CoupKey, Transaction, TransactionKey, WalletState


def decide(state: WalletState, command: commands.WalletCommand, account: str) -> Sequence[Payload]:
    """What a command makes wallet say. ``account``: the opaque id of its account, where it has one.

    Raises:
        Refusal: it cannot be carried out, and the same may be sent again.
    """
    key = transaction_key(command, account)
    known = None if key is None else state.transactions.get(key)
    if known is not None:
        return _again(state, known, command, account)
    match command:
        case commands.PlaceBet():
            return decide_bet(state, command, account)
        case commands.RollBack() | commands.Refund():
            return decide_rollback(state, command, account)
        case commands.AnswerDebit():
            return answer_debit(state, command)
        case commands.AnswerCall():
            return answer_call(state, command)
        case commands.WithdrawalStep():
            return accounts.step_withdrawal(state, command)
        case commands.WithdrawFreeBet():
            return accounts.withdraw_free_bet(state, command)
        case commands.ReleaseHold():
            return accounts.release_hold(state, command)
        case commands.FundHouse() | commands.SettlePayment() | commands.SegregateFunds():
            return accounts.house_money(state, command)
        case commands.ExpireHolds():
            return accounts.expire_holds(state)
        case commands.RepairSettlement():
            return decide_repair(state, command)
        case _:
            return accounts.PERSONAL[type(command)](state, command, account)


def transaction_key(command: commands.WalletCommand, account: str) -> TransactionKey | None:
    """Under which key a command's transaction id counts; None where it has none."""
    if isinstance(command, commands.AccountCommand):
        return TransactionKey(account, command.tx)
    if type(command) in OPERATIONS and isinstance(command, commands.OperatorCommand):
        tx: str = getattr(command, "tx", "")
        return TransactionKey(house_account(command.operator), tx)
    return None


def _again(
    state: WalletState, known: Transaction, command: commands.WalletCommand, account: str
) -> Sequence[Payload]:
    event = known.event
    if isinstance(command, commands.PlaceBet) and is_tombstone_of(event, command):
        return [tombstoned(state, command, account)]
    differing = differing_fields(event, command)
    if not differing:
        return ()  # a repeat says nothing new (W3)
    assert isinstance(command, commands.AccountCommand | commands.OperatorCommand)
    return [
        ConflictDetected(
            operator=command.operator,
            kind="idempotency",
            account=account or None,
            tx=getattr(command, "tx", None),
            fields=differing,
        )
    ]


def is_tombstone_of(event: Payload, command: commands.PlaceBet) -> bool:
    """Whether a rollback of this bet came before it."""
    return isinstance(event, TombstoneCreated) and event.target == command.tx


def decide_repair(state: WalletState, command: commands.RepairSettlement) -> Sequence[Payload]:
    """Settle again what is settled: nobody is paid, and the attempt is reported.

    Raises:
        Refusal: ``COUP_UNKNOWN``, or ``RESULT_UNKNOWN`` while game has not announced a result. There is no
            third case: wallet settles in the transaction in which it learns the result.
    """
    key = CoupKey(command.operator, command.table, command.shoe, command.coup)
    if key in state.coups:
        raise Refusal("RESULT_UNKNOWN", "coup", "game has not announced a result of this coup")
    if key not in state.known_coups:
        raise Refusal("COUP_UNKNOWN", "coup", "this wallet knows no such coup")
    return [repeated_settlement(key)]
