"""Folds: wallet's own events into ledger, bets and coups; game's events into what can be bet on."""

from __future__ import annotations

from typing import Any

from schemas.envelope import Recorded
from schemas.events.base import CoupPayload, Payload
from schemas.events.game import CoupOpened, HouseSet, TableOpened
from schemas.events.wallet import (
    AccountOpened,
    BetAccepted,
    BetRefused,
    BetsSealed,
    CoupReturned,
    CoupSettled,
    Deposited,
)
from services.wallet.core.state import (
    Bet,
    BetEnd,
    Coup,
    CoupKey,
    Terms,
    Transaction,
    TransactionKey,
    WalletState,
    end_of,
)


def coup_key(payload: CoupPayload) -> CoupKey:
    """The coup that an event is about."""
    return CoupKey(payload.operator, payload.table, payload.shoe, payload.coup)


def deposit_content(currency: str, amount: int) -> dict[str, str | int | None]:
    """What makes two deposits the same (W2)."""
    return {"operation": "deposit", "currency": currency, "amount": amount}


def bet_content(
    key: CoupKey, *, seat: int | None, spot: str, currency: str, stake: int
) -> dict[str, str | int | None]:
    """What makes two bets the same (W2)."""
    return {
        "operation": "bet",
        "table": key.table,
        "shoe": key.shoe,
        "coup": key.coup,
        "seat": seat,
        "spot": spot,
        "currency": currency,
        "stake": stake,
    }


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
    match data:
        case BetAccepted():
            state.ledger.post(data.entry)
            _take(state, data, event, "OK")
        case BetRefused():
            _take(state, data, event, data.code)
        case CoupSettled():
            state.ledger.post(data.entry)
            state.changes.ends.extend(end_of(bet) for bet in data.bets)
            if data.part == data.parts:
                _finish(state, coup_key(data), data.version)
        case CoupReturned():
            state.ledger.post(data.entry)
            state.changes.ends.extend(BetEnd(bet.bet, "void", bet.stake, 0) for bet in data.bets)
            if data.part == data.parts:
                _finish(state, coup_key(data), 0)
        case BetsSealed():
            coup = state.coups[coup_key(data)]
            coup.phase = "sealed"
            state.changes.coups[coup.key] = coup
        case Deposited():
            state.ledger.post(data.entry)
            key = TransactionKey(data.account, data.tx)
            content = deposit_content(data.currency, data.amount)
            balance = state.ledger.cash(data.account, data.currency)
            _remember(state, Transaction(key, content, "OK", balance=balance))
        case AccountOpened():
            state.accounts[data.account] = data.operator
            state.changes.accounts.append((data.account, data.operator))
        case _:
            pass  # a conflict moves nothing
    state.head = event.hash


def _take(state: WalletState, data: BetAccepted | BetRefused, event: Recorded[Any], code: str) -> None:
    key = coup_key(data)
    bet = Bet(
        bet=data.bet,
        key=key,
        account=data.account,
        tx=data.tx,
        seat=data.seat,
        spot=data.spot,
        currency=data.currency,
        exponent=data.exponent,
        stake=data.stake,
        code=code,
        sequence=event.sequence,
        hash=event.hash,
    )
    state.bets_taken += 1
    state.changes.bets.append(bet)
    if code == "OK":
        coup = state.coups[key]
        coup.bets.append(bet)
        coup.last_bet = (event.sequence, event.hash)
        state.changes.coups[key] = coup
    content = bet_content(key, seat=bet.seat, spot=bet.spot, currency=bet.currency, stake=bet.stake)
    balance = state.ledger.cash(bet.account, bet.currency)
    _remember(state, Transaction(TransactionKey(bet.account, bet.tx), content, code, bet.bet, balance))


def _remember(state: WalletState, transaction: Transaction) -> None:
    state.transactions[transaction.key] = transaction
    state.changes.transactions.append(transaction)


def _finish(state: WalletState, key: CoupKey, version: int) -> None:
    coup = state.coups.pop(key)
    coup.phase, coup.version, coup.bets = ("settled" if version else "returned"), version, []
    state.known_coups[key] = (coup.phase, version)
    state.changes.coups[key] = coup
