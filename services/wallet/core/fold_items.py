"""Folds of events into the things that stay open over days (``items``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from schemas.envelope import Recorded
from schemas.events import accounts as money
from schemas.events import wallet as bets
from schemas.events.base import Payload
from services.wallet.core.commission import owed_id
from services.wallet.core.corrections import change_of_mark
from services.wallet.core.items import (
    Call,
    Grant,
    Hold,
    Item,
    Owed,
    PlayerLimit,
    Proposal,
    Withdrawal,
)
from services.wallet.core.limits import Play, limit_id
from services.wallet.core.state import Bet, Coup, WalletState


def put(state: WalletState, item: Item) -> None:
    """Keep an item as it is now."""
    state.items.put(item)
    state.changes.items[item.KIND, item.id] = item


# --------------------------------------------------------------------------- withdrawals, holds, adjustments


def _requested(state: WalletState, data: money.WithdrawalRequested, event: Recorded[Any]) -> None:
    state.items.made += 1
    put(
        state,
        Withdrawal(
            data.withdrawal,
            data.operator,
            data.account,
            tx=data.tx,
            currency=data.currency,
            exponent=data.exponent,
            amount=data.amount,
            requested_at=event.envelope.time,
        ),
    )


_PHASES: Final[dict[type[Payload], str]] = {
    money.WithdrawalApproved: "approved",
    money.WithdrawalRejected: "rejected",
    money.WithdrawalPaid: "paid",
    money.WithdrawalReturned: "returned",
}


def _stepped(state: WalletState, data: money.WithdrawalMoney, event: Recorded[Any]) -> None:
    del event
    item = state.items.withdrawals[data.withdrawal]
    item.phase = _PHASES[type(data)]
    put(state, item)


def _held(state: WalletState, data: money.FundsHeld, event: Recorded[Any]) -> None:
    del event
    state.items.made += 1
    put(
        state,
        Hold(
            data.hold,
            data.operator,
            data.account,
            tx=data.tx,
            currency=data.currency,
            exponent=data.exponent,
            amount=data.amount,
            kind=data.kind,
            reason=data.reason,
            expires=data.expires,
        ),
    )


def _released(state: WalletState, data: money.HoldReleased, event: Recorded[Any]) -> None:
    del event
    item = state.items.holds[data.hold]
    item.released = True
    put(state, item)


def _proposed(state: WalletState, data: money.AdjustmentProposed, event: Recorded[Any]) -> None:
    del event
    put(
        state,
        Proposal(
            f"{data.account}/{data.tx}",
            data.operator,
            data.account,
            tx=data.tx,
            currency=data.currency,
            exponent=data.exponent,
            amount=data.amount,
            direction=data.direction,
            reason=data.reason,
            initiator=data.initiator,
            relates_to=data.relates_to,
        ),
    )


def _decided(
    state: WalletState, data: money.Adjusted | money.AdjustmentDeclined, event: Recorded[Any]
) -> None:
    del event
    item = state.items.proposals[f"{data.account}/{data.tx}"]
    item.decided = "approved" if isinstance(data, money.Adjusted) else "declined"
    put(state, item)


# ------------------------------------------------------------------------------------------------ free bets


def _granted(state: WalletState, data: money.FreeBetGranted, event: Recorded[Any]) -> None:
    del event
    state.items.made += 1
    put(
        state,
        Grant(
            data.grant,
            data.operator,
            data.account,
            tx=data.tx,
            campaign=data.campaign,
            currency=data.currency,
            exponent=data.exponent,
            amount=data.amount,
            left=data.amount,
        ),
    )


def _grant_withdrawn(state: WalletState, data: money.FreeBetWithdrawn, event: Recorded[Any]) -> None:
    del event
    item = state.items.grants[data.grant]
    item.left -= data.amount
    put(state, item)


def use_grant(state: WalletState, grant: str, stake: int) -> None:
    """A free bet goes into play."""
    item = state.items.grants[grant]
    item.left, item.staked = item.left - stake, item.staked + stake
    put(state, item)


def return_grant(state: WalletState, grant: str, stake: int) -> None:
    """A free bet comes back out of play."""
    item = state.items.grants[grant]
    item.left, item.staked = item.left + stake, item.staked - stake
    put(state, item)


def settle_grant(state: WalletState, grant: str, stake: int, *, comes_back: bool) -> None:
    """A free bet has ended; of a push or a void coup its stake may be used again."""
    item = state.items.grants[grant]
    item.staked -= stake
    item.left += stake if comes_back else 0
    put(state, item)


def correct_grant(state: WalletState, bet: Bet, *, came_back: bool, comes_back: bool) -> None:
    """A corrected result may take a free bet's stake back, or return it."""
    item = state.grant(bet.grant or "")
    if item is None or came_back == comes_back:
        return
    # What was used again meanwhile is not taken back: the house bears it (corrections).
    item.left = item.left + bet.left if comes_back else max(0, item.left - bet.left)
    put(state, item)


# ------------------------------------------------------------------------------------------ limits and play


def _limited(state: WalletState, data: money.LimitSet, event: Recorded[Any]) -> None:
    del event
    key = limit_id(data.account, data.kind, data.period, data.currency)
    item = state.items.limits.get(data.account, {}).get(key)
    if item is None:
        item = PlayerLimit(
            key, data.operator, data.account, kind=data.kind, period=data.period, currency=data.currency
        )
    # A step that was to come later gives way to this one.
    item.steps = [step for step in item.steps if step[0] < data.effective]
    item.steps.append((data.effective, data.value))
    put(state, item)


def _play(state: WalletState, account: str, operator: str, currency: str) -> Play | None:
    """What a player with limits has played, with its periods at the present; None of one without."""
    plays = state.plays.get(account)
    if plays is None:
        return None
    play = plays.setdefault(currency, Play())
    play.begin(state.day_of(operator))
    return play


def count_stake(state: WalletState, bet: Bet, stake: int) -> None:
    """A player with limits has staked so much, or taken it back."""
    play = _play(state, bet.account, bet.key.operator, bet.currency)
    if play is None:
        return
    for period in play.periods:
        play.staked[period] = max(0, play.staked[period] + stake)
    if bet.funding != "free":
        play.in_play += stake
    if stake > 0 and not play.first_bet:
        play.first_bet = state.now


def count_settled(state: WalletState, bet: Bet) -> None:
    """A bet of a player with limits has come to something: a win makes up for losses."""
    play = _play(state, bet.account, bet.key.operator, bet.currency)
    if play is not None and bet.funding != "free":
        play.in_play -= bet.left
        for period in play.periods:
            play.lost[period] += bet.left - bet.returned


def count_corrected(state: WalletState, bet: Bet, change: int) -> None:
    """A correction has brought a player with limits so much more, or less; what is void was not staked."""
    play = _play(state, bet.account, bet.key.operator, bet.currency)
    if play is None:
        return
    for period in play.periods:
        if bet.funding != "free":
            play.lost[period] -= change
        if bet.status == "void":
            play.staked[period] = max(0, play.staked[period] - bet.left)


def _deposited(state: WalletState, data: money.Deposited, event: Recorded[Any]) -> None:
    del event
    play = _play(state, data.account, data.operator, data.currency)
    if play is not None:
        for period in play.periods:
            play.deposited[period] += data.amount


# ---------------------------------------------------------------------------------------- deferred commission


def mark_commission(state: WalletState, bet: Bet, amount: int) -> None:
    """Commission is marked on the bet's seat."""
    key = bet.key
    mark = owed_id(key.operator, key.table, bet.seat, bet.account, bet.currency)
    _change_mark(state, mark, bet, amount)


def correct_mark(state: WalletState, coup: Coup, row: bets.CorrectedBet) -> None:
    """A correction changes what is marked; what was collected already went back to the player."""
    mark, change = change_of_mark(coup, row)
    if change:
        _change_mark(state, mark, coup.bets[row.bet], change)


def _change_mark(state: WalletState, mark: str, bet: Bet, change: int) -> None:
    item = state.items.owed.get(mark)
    if item is None:
        item = Owed(
            mark,
            bet.key.operator,
            bet.account,
            table=bet.key.table,
            seat=bet.seat,
            currency=bet.currency,
            exponent=bet.exponent,
        )
    item.amount = max(0, item.amount + change)
    put(state, item)


def _collected(state: WalletState, data: money.CommissionCollected, event: Recorded[Any]) -> None:
    del event
    item = state.items.owed[owed_id(data.operator, data.table, data.seat, data.account, data.currency)]
    item.amount -= data.amount
    put(state, item)


# ------------------------------------------------------------------------------ calls to operators' wallets


def open_call(state: WalletState, bet: Bet, kind: str, amount: int, call: str) -> None:
    """The operator's wallet has to be told something."""
    key = bet.key
    put(
        state,
        Call(
            call,
            key.operator,
            bet.account,
            kind=kind,
            bet=bet.bet,
            tx=bet.tx,
            table=key.table,
            shoe=key.shoe,
            coup=key.coup,
            spot=bet.spot,
            currency=bet.currency,
            exponent=bet.exponent,
            amount=amount,
        ),
    )


def close_call(state: WalletState, call: str, status: str, code: str) -> None:
    """A call is over, or (pending recovery) stays to be seen."""
    item = state.items.calls.get(call)
    if item is not None:
        item.status, item.code = status, code
        put(state, item)


def _answered(state: WalletState, data: bets.CallAnswered, event: Recorded[Any]) -> None:
    del event
    close_call(state, data.call, data.status, data.code)


Fold = Callable[[WalletState, Any, Recorded[Any]], None]

FOLDS: Final[dict[type[Payload], Fold]] = {
    money.WithdrawalRequested: _requested,
    **dict.fromkeys(_PHASES, _stepped),
    money.FundsHeld: _held,
    money.HoldReleased: _released,
    money.AdjustmentProposed: _proposed,
    money.Adjusted: _decided,
    money.AdjustmentDeclined: _decided,
    money.FreeBetGranted: _granted,
    money.FreeBetWithdrawn: _grant_withdrawn,
    money.LimitSet: _limited,
    money.Deposited: _deposited,
    money.CommissionCollected: _collected,
    bets.CallAnswered: _answered,
}
