"""Taking bets: while their coup is open, within all limits, out of what the player has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from schemas.commands.wallet import AnswerCall, AnswerDebit, PlaceBet
from schemas.events.base import Entry, Payload
from schemas.events.wallet import (
    BetAccepted,
    BetRefused,
    CallAnswered,
    DebitRequested,
    Funding,
    RefusalCode,
)
from schemas.refusal import Refusal
from services.wallet.core.accounts import check_amount, exponent_for, opening, why_locked
from services.wallet.core.limits import stake_reason
from services.wallet.core.postings import BETS_IN_PLAY, PLAYER_CASH, entry_of
from services.wallet.core.state import Bet, CoupKey, WalletState

STAKED: Final = {"cash": "3", "free": "13b", "operator": "17"}
"""The posting that brings a stake into play, by where it comes from."""


class Against(NamedTuple):
    """Why a bet is not taken."""

    code: RefusalCode
    field: str


def decide_bet(state: WalletState, command: PlaceBet, account: str) -> Sequence[Payload]:
    """Take a bet, refuse it for good, or ask the operator's wallet for its stake.

    Raises:
        Refusal: ``CURRENCY_UNKNOWN``, ``CURRENCY_MISMATCH``, ``LIMIT_REACHED`` (no single amount is so
        large);
            ``COUP_UNKNOWN`` where game has not opened such a coup *yet*, which is not final: the same bet may
            be sent again.
    """
    operator, currency, stake = command.operator, command.currency, command.stake
    exponent = exponent_for(state, operator, currency)
    check_amount(state, operator, currency, stake, "stake")
    key = CoupKey(operator, command.table, command.shoe, command.coup)
    funding: Funding = (
        "free" if command.grant is not None else "operator" if state.policy(operator).seamless else "cash"
    )
    against = _reason_against(state, key, command, account, funding)
    number = f"{state.shard}.{state.bets_taken + 1}"
    fields: dict[str, Any] = {
        "operator": operator,
        "table": command.table,
        "shoe": command.shoe,
        "coup": command.coup,
        "bet": number,
        "account": account,
        "tx": command.tx,
        "seat": command.seat,
        "spot": command.spot,
        "currency": currency,
        "exponent": exponent,
        "stake": stake,
    }
    bet: Payload
    if against is not None:
        bet = BetRefused(**fields, code=against.code, field=against.field)
    elif funding == "operator":
        bet = DebitRequested(**fields)
    elif funding == "cash":
        # What a wallet does most: written out, and validated in one go with its postings.
        fields["entry"] = (
            {"ledger": PLAYER_CASH, "party": account, "currency": currency, "amount": stake},
            {"ledger": BETS_IN_PLAY, "party": number, "currency": currency, "amount": -stake},
        )
        bet = BetAccepted.__pydantic_validator__.validate_python(fields)
    else:
        entry = stake_entry(account, number, currency, stake, funding)
        bet = BetAccepted(**fields, entry=entry, funding=funding, grant=command.grant)
    return [bet] if account in state.accounts else [*opening(state, operator, account), bet]


def tombstoned(state: WalletState, command: PlaceBet, account: str) -> BetRefused:
    """The refusal of a bet whose rollback came first (W13)."""
    return BetRefused(
        operator=command.operator,
        table=command.table,
        shoe=command.shoe,
        coup=command.coup,
        bet=f"{state.shard}.{state.bets_taken + 1}",
        account=account,
        tx=command.tx,
        seat=command.seat,
        spot=command.spot,
        currency=command.currency,
        exponent=exponent_for(state, command.operator, command.currency),
        stake=command.stake,
        code="BET_CANCELLED",
        field="tx",
    )


def stake_entry(account: str, bet: str, currency: str, stake: int, funding: Funding) -> Entry:
    """Posting 3, 13b or 17."""
    return entry_of(STAKED[funding], currency, {"stake": stake}, {"account": account, "bet": bet})


def _reason_against(
    state: WalletState, key: CoupKey, command: PlaceBet, account: str, funding: Funding
) -> Against | None:
    coup = state.coups.get(key)
    if coup is None:
        if key in state.known_coups:
            return Against("ROUND_CLOSED", "coup")
        raise Refusal("COUP_UNKNOWN", "coup", "no such coup is open for betting; try again when it is")
    if coup.phase != "open":
        return Against("BETTING_CLOSED", "coup")
    if command.spot not in coup.spots:
        return Against("SPOT_UNKNOWN", "spot")
    if (code := why_locked(state, account)) is not None:
        return Against("SELF_EXCLUDED" if code == "SELF_EXCLUDED" else "ACCOUNT_LOCKED", "account")
    if _is_limited(state, coup, command, account):
        return Against("LIMIT_REACHED", "stake")
    if funding == "free":
        grant = state.items.grants.get(command.grant or "")
        if grant is None or (grant.account, grant.currency) != (account, command.currency):
            return Against("GRANT_UNKNOWN", "grant")
        if grant.left < command.stake:
            return Against("INSUFFICIENT_FUNDS", "stake")
    elif funding == "cash" and state.ledger.cash(command.operator, account, command.currency) < command.stake:
        return Against("INSUFFICIENT_FUNDS", "stake")
    return None


def _is_limited(state: WalletState, coup: Any, command: PlaceBet, account: str) -> bool:
    limits = state.tables[coup.key.operator, coup.key.table].limits[coup.house_number]
    bets = coup.bets.values()
    if (
        limits
        and limits.reason_against(bets, account, command.spot, command.currency, command.stake) is not None
    ):
        return True
    policy = state.policy(command.operator)
    if command.stake > policy.stake_max.get(command.currency, command.stake):
        return True
    bounds = state.bounds(command.operator, account)
    if not bounds:
        return False
    in_coup = sum(bet.left for bet in bets if (bet.account, bet.currency) == (account, command.currency))
    reason = stake_reason(
        bounds,
        state.plays.get(account, {}),
        command.currency,
        command.stake,
        in_coup=in_coup,
        day=state.day_of(command.operator),
        now=state.now,
    )
    return reason is not None


# ------------------------------------------------------------------------------------------------- seamless


def _bet_fields(bet: Bet) -> dict[str, Any]:
    return {
        "operator": bet.key.operator,
        "table": bet.key.table,
        "shoe": bet.key.shoe,
        "coup": bet.key.coup,
        "bet": bet.bet,
        "account": bet.account,
        "tx": bet.tx,
        "seat": bet.seat,
        "spot": bet.spot,
        "currency": bet.currency,
        "exponent": bet.exponent,
        "stake": bet.stake,
    }


def refused_debit(bet: Bet, code: RefusalCode) -> BetRefused:
    """A bet that the operator's wallet refused, or did not answer in time."""
    return BetRefused(**_bet_fields(bet), code=code, field="")


def answer_debit(state: WalletState, command: AnswerDebit) -> list[Payload]:
    """Take the bet whose stake the operator's wallet has debited, or refuse it.

    An answer that comes when betting is closed changes nothing: the bet was refused, and its debit is being
    rolled back.
    """
    call = state.items.calls.get(f"{command.bet}/debit")
    if call is None or call.operator != command.operator:
        return []
    coup = state.coups.get(CoupKey(call.operator, call.table, call.shoe, call.coup))
    bet = None if coup is None else coup.bets.get(command.bet)
    if bet is None or bet.status != "pending":
        return []
    locked = why_locked(state, bet.account)
    answered = CallAnswered(
        operator=call.operator, call=call.id, account=call.account, status=command.status, code=command.code
    )
    if command.status == "refused":
        code: RefusalCode = (
            "INSUFFICIENT_FUNDS" if command.code == "INSUFFICIENT_FUNDS" else "OPERATOR_REFUSED"
        )
        return [answered, refused_debit(bet, code)]
    if locked is not None:  # since the operator's wallet was asked; what it took goes back
        return [
            answered,
            refused_debit(bet, "SELF_EXCLUDED" if locked == "SELF_EXCLUDED" else "ACCOUNT_LOCKED"),
        ]
    entry = stake_entry(bet.account, bet.bet, bet.currency, bet.stake, "operator")
    return [answered, BetAccepted(**_bet_fields(bet), entry=entry, funding="operator")]


def answer_call(state: WalletState, command: AnswerCall) -> list[Payload]:
    """Close what the operator's wallet has confirmed; keep open, visibly, what it refuses.

    Raises:
        Refusal: ``CALL_UNKNOWN``.
    """
    call = state.items.calls.get(command.call)
    if call is None or call.operator != command.operator or call.kind == "debit":
        raise Refusal("CALL_UNKNOWN", "call", "no such call waits for an answer")
    if command.status == "refused" and call.status == "pending_recovery":
        return []
    return [
        CallAnswered(
            operator=call.operator,
            call=call.id,
            account=call.account,
            status="done" if command.status == "done" else "pending_recovery",
            code=command.code,
        )
    ]
