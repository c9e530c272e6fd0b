"""Folds: wallet's own events into ledger, bets and coups; game's events into what can be bet on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from schemas.envelope import Recorded
from schemas.events import accounts as money
from schemas.events import wallet as bets
from schemas.events.base import Payload
from schemas.events.game import CoupOpened, HouseSet, TableOpened
from services.wallet.core import fold_items as fold
from services.wallet.core.operations import currency_of, transaction_id_of
from services.wallet.core.settling import coup_key
from services.wallet.core.state import (
    FOR_EVER,
    Account,
    Bet,
    Coup,
    Terms,
    Transaction,
    TransactionKey,
    WalletState,
)


def observe(state: WalletState, event: Recorded[Any]) -> None:
    """Fold an event of game: which tables are ours, by which house they play, what is open."""
    data = event.data
    if isinstance(data, TableOpened):
        if data.shard == state.shard:
            state.tables[data.operator, data.table] = Terms(data.shard)
            state.changes.tables[data.operator, data.table] = data.shard
        return
    terms = state.tables.get((data.operator, getattr(data, "table", "")))
    if terms is None:
        return
    if isinstance(data, HouseSet):
        terms.set_house(data.house_number, data.house)
        state.changes.houses.append((data.operator, data.table, data.house_number, data.house))
    elif isinstance(data, CoupOpened):
        key = coup_key(data)
        coup = Coup(key, data.house_number, data.spots)
        state.coups[key] = coup
        state.changes.coups[key] = coup


def evolve(state: WalletState, event: Recorded[Any]) -> None:
    """Fold an event of wallet's own."""
    data: Payload = event.data
    entry = getattr(data, "entry", None)
    if entry is not None:
        state.ledger.post(data.operator, entry)
    fold_one = _FOLDS.get(type(data))
    if fold_one is not None:
        fold_one(state, data, event)
    if (key := transaction_id_of(data)) is not None:
        _remember(state, TransactionKey(*key), data, event.sequence)
    state.head = event.hash


def _remember(state: WalletState, key: TransactionKey, data: Any, sequence: int) -> None:
    currency = currency_of(data)
    account = getattr(data, "account", "")
    balance = state.ledger.cash(data.operator, account, currency) if currency else 0
    transaction = Transaction(data, sequence, balance)
    state.transactions[key] = transaction
    state.changes.transactions[key] = transaction
    if isinstance(data, money.TombstoneCreated):
        target = TransactionKey(data.account, data.target)
        known = state.transactions.get(target)
        if known is None or not isinstance(known.event, bets.BetRefused):  # which is final already (W6)
            state.transactions[target] = state.changes.transactions[target] = transaction


# ----------------------------------------------------------------------------------------------------- bets


def _new_bet(state: WalletState, data: Any, event: Recorded[Any], status: str, code: str = "OK") -> Bet:
    state.bets_taken += 1
    bet = Bet(
        number=state.bets_taken,
        bet=data.bet,
        key=coup_key(data),
        account=data.account,
        tx=data.tx,
        seat=data.seat,
        spot=data.spot,
        currency=data.currency,
        exponent=data.exponent,
        stake=data.stake,
        left=data.stake,
        funding=getattr(data, "funding", "operator" if status == "pending" else "cash"),
        grant=getattr(data, "grant", None),
        sequence=event.sequence,
        hash=event.hash,
        status=status,
        code=code,
    )
    state.changes.bets[bet.bet] = bet
    return bet


def _accepted(state: WalletState, data: bets.BetAccepted, event: Recorded[Any]) -> None:
    coup = state.coups[coup_key(data)]
    bet = coup.bets.get(data.bet)
    if bet is None:
        bet = coup.bets[data.bet] = _new_bet(state, data, event, "open")
        state.open_bets[TransactionKey(bet.account, bet.tx)] = bet
    else:  # the operator's wallet was asked before
        bet.status, bet.sequence, bet.hash = "open", event.sequence, event.hash
        _changed(state, bet)
    if data.grant is not None:
        fold.use_grant(state, data.grant, data.stake)
    fold.count_stake(state, bet, data.stake)


def _asked(state: WalletState, data: bets.DebitRequested, event: Recorded[Any]) -> None:
    bet = _new_bet(state, data, event, "pending")
    state.coups[bet.key].bets[bet.bet] = bet
    state.open_bets[TransactionKey(bet.account, bet.tx)] = bet
    fold.open_call(state, bet, "debit", bet.stake, f"{bet.bet}/debit")


def _refused(state: WalletState, data: bets.BetRefused, event: Recorded[Any]) -> None:
    coup = state.coups.get(coup_key(data))
    bet = None if coup is None else coup.bets.pop(data.bet, None)
    if bet is None:
        _new_bet(state, data, event, "refused", data.code)
        return
    bet.status, bet.code = "refused", data.code
    _end(state, bet)
    if data.code not in ("INSUFFICIENT_FUNDS", "OPERATOR_REFUSED"):
        # The operator's wallet has taken the stake, or nobody knows whether it has.
        fold.close_call(state, f"{bet.bet}/debit", "refused", data.code)
        fold.open_call(state, bet, "rollback", bet.stake, f"{bet.bet}/rollback")


def _rolled_back(state: WalletState, data: bets.BetRolledBack, event: Recorded[Any]) -> None:
    del event
    coup = state.coups[coup_key(data)]
    bet = coup.bets[data.bet]
    bet.left = data.left
    if data.left == 0:
        bet.status = "rolled_back"
        del coup.bets[data.bet]
        state.past_statuses[TransactionKey(bet.account, bet.tx)] = bet.status
        _end(state, bet)
    else:
        _changed(state, bet)
    if bet.grant is not None:
        fold.return_grant(state, bet.grant, data.amount)
    fold.count_stake(state, bet, -data.amount)
    if bet.funding == "operator":
        kind, call = (
            ("refund", f"{bet.bet}/r{data.left}") if data.left else ("rollback", f"{bet.bet}/rollback")
        )
        fold.open_call(state, bet, kind, data.amount, call)


def _sealed(state: WalletState, data: bets.BetsSealed, event: Recorded[Any]) -> None:
    del event
    coup = state.coups[coup_key(data)]
    coup.phase = "sealed"
    state.changes.coups[coup.key] = coup


def _settled(state: WalletState, data: bets.CoupSettled, event: Recorded[Any]) -> None:
    del event
    coup = state.coups[coup_key(data)]
    for row in data.bets:
        bet = coup.bets[row.bet]
        bet.tier, bet.returned, bet.commission, bet.deferred = (
            row.tier,
            row.returned,
            row.commission,
            row.deferred,
        )
        bet.status = _status(row.tier)
        _end(state, bet)
        if bet.grant is not None:
            fold.settle_grant(state, bet.grant, bet.left, comes_back=row.tier == "push")
        if row.deferred:
            fold.mark_commission(state, bet, row.commission)
        if bet.funding == "operator":
            fold.open_call(state, bet, "credit", bet.returned, f"{bet.bet}/{data.version}")
        fold.count_settled(state, bet)
    if data.part == data.parts:
        _finish(state, coup, data.version, data.result)


def _returned(state: WalletState, data: bets.CoupReturned, event: Recorded[Any]) -> None:
    del event
    coup = state.coups[coup_key(data)]
    for row in data.bets:
        bet = coup.bets[row.bet]
        bet.tier, bet.returned, bet.status = "void", 0 if row.funding == "free" else row.stake, "void"
        _end(state, bet)
        if bet.grant is not None:
            fold.settle_grant(state, bet.grant, bet.left, comes_back=True)
        if bet.funding == "operator":
            fold.open_call(state, bet, "rollback", bet.left, f"{bet.bet}/rollback")
        fold.count_stake(state, bet, -bet.left)
    if data.part == data.parts:
        _finish(state, coup, 0, data.result)


def _corrected(state: WalletState, data: bets.SettlementCorrected, event: Recorded[Any]) -> None:
    del event
    coup = state.finished[coup_key(data)]
    for row in data.bets:
        bet, before, after = coup.bets[row.bet], row.before, row.after
        bet.tier, bet.returned, bet.commission, bet.deferred = (
            after.tier,
            after.returned,
            after.commission,
            after.deferred,
        )
        bet.status = _status(after.tier)
        _changed(state, bet)
        if bet.grant is not None:
            came_back, comes_back = (each.tier in ("push", "void") for each in (before, after))
            fold.correct_grant(state, bet, came_back=came_back, comes_back=comes_back)
        fold.correct_mark(state, coup, row)
        if bet.funding == "operator" and after.returned != before.returned:
            kind = "correction_credit" if after.returned > before.returned else "correction_debit"
            amount = abs(after.returned - before.returned)
            fold.open_call(state, bet, kind, amount, f"{bet.bet}/{data.version}")
        fold.count_corrected(state, bet, after.returned - before.returned)
    coup.version = data.version
    coup.result = data.result
    coup.phase = "returned" if data.outcome is None else "settled"
    state.known_coups[coup.key] = (coup.phase, data.version)
    state.changes.coups[coup.key] = coup


def _status(tier: str) -> str:
    return {"lose": "lost", "push": "push", "void": "void"}.get(tier, "won")


def _changed(state: WalletState, bet: Bet) -> None:
    if bet.bet not in state.changes.bets:
        state.changes.ends[bet.bet] = bet


def _end(state: WalletState, bet: Bet) -> None:
    state.open_bets.pop(TransactionKey(bet.account, bet.tx), None)
    _changed(state, bet)


def _finish(state: WalletState, coup: Coup, version: int, result: Any) -> None:
    del state.coups[coup.key]
    coup.phase, coup.version, coup.result = ("settled" if version else "returned"), version, result
    state.known_coups[coup.key] = (coup.phase, version)
    state.finished[coup.key] = coup
    state.changes.coups[coup.key] = coup


# ------------------------------------------------------------------------------------------------- accounts


def _opened(state: WalletState, data: money.AccountOpened, event: Recorded[Any]) -> None:
    del event
    account = state.accounts[data.account] = Account(data.operator)
    state.changes.accounts[data.account] = account


def _frozen(
    state: WalletState, data: money.AccountFrozen | money.AccountReleased, event: Recorded[Any]
) -> None:
    del event
    account = state.accounts[data.account]
    account.frozen = isinstance(data, money.AccountFrozen)
    state.changes.accounts[data.account] = account


def _excluded(state: WalletState, data: money.SelfExcluded, event: Recorded[Any]) -> None:
    del event
    account = state.accounts[data.account]
    account.excluded_until = data.until or FOR_EVER
    state.changes.accounts[data.account] = account


Fold = Callable[[WalletState, Any, Recorded[Any]], None]

_FOLDS: Final[dict[type[Payload], Fold]] = {
    bets.BetAccepted: _accepted,
    bets.BetRefused: _refused,
    bets.DebitRequested: _asked,
    bets.BetRolledBack: _rolled_back,
    bets.BetsSealed: _sealed,
    bets.CoupSettled: _settled,
    bets.CoupReturned: _returned,
    bets.SettlementCorrected: _corrected,
    money.AccountOpened: _opened,
    money.AccountFrozen: _frozen,
    money.AccountReleased: _frozen,
    money.SelfExcluded: _excluded,
    **fold.FOLDS,
}
"""What an event changes beside the ledger and the transactions."""
