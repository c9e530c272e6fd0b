"""Decisions on accounts and money beside the bets. Nothing here changes anything.

Every function returns the events that a command makes, or raises a ``Refusal`` where it is not final: the
caller may send the same again. A refusal that is final (W6) is an event of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from schemas.commands import wallet as commands
from schemas.events import accounts as events
from schemas.events.base import Payload
from schemas.gamingday import next_period
from schemas.money import AMOUNT_LIMIT_MINOR_UNITS, exponent_of
from schemas.refusal import Refusal
from services.wallet.core.commission import collect, owed_id
from services.wallet.core.limits import deposit_reason, limit_id
from services.wallet.core.operations import OPERATIONS, asked_of
from services.wallet.core.postings import RECEIVABLE, entry_of
from services.wallet.core.rollbacks import rolled_back
from services.wallet.core.state import FOR_EVER, WalletState


def exponent_for(state: WalletState, operator: str, currency: str) -> int:
    """The decimals of a currency that the operator uses.

    Raises:
        Refusal: ``CURRENCY_UNKNOWN``, ``CURRENCY_MISMATCH``.
    """
    try:
        exponent = exponent_of(currency)
    except ValueError as error:
        raise Refusal("CURRENCY_UNKNOWN", "currency", str(error)) from None
    allowed = state.policy(operator).currencies
    if allowed is not None and currency not in allowed:
        words = f"{operator} plays in {', '.join(sorted(allowed))}, not in {currency}"
        raise Refusal("CURRENCY_MISMATCH", "currency", words)
    return exponent


def check_amount(state: WalletState, operator: str, currency: str, amount: int, field: str) -> None:
    """Refuse what no single amount may be.

    Raises:
        Refusal: ``LIMIT_REACHED``.
    """
    # Whatever way a command came: beyond this lies a typing error, and further on the database's numbers end.
    most = min(
        AMOUNT_LIMIT_MINOR_UNITS, state.policy(operator).amount_max.get(currency, AMOUNT_LIMIT_MINOR_UNITS)
    )
    if amount > most:
        raise Refusal("LIMIT_REACHED", field, "the amount is above the largest single amount we take")


def opening(state: WalletState, operator: str, account: str) -> list[Payload]:
    """The account's opening, where this is its first use."""
    return [] if account in state.accounts else [events.AccountOpened(operator=operator, account=account)]


def refused(
    state: WalletState, command: commands.AccountCommand, account: str, code: str, field: str
) -> list[Payload]:
    """A refusal that is final."""
    return [
        *opening(state, command.operator, account),
        events.TransactionRefused(
            operator=command.operator,
            account=account,
            tx=command.tx,
            operation=OPERATIONS[type(command)].name,
            asked=asked_of(command),
            code=code,
            field=field,
        ),
    ]


def why_locked(state: WalletState, account: str) -> str | None:
    """``ACCOUNT_LOCKED`` or ``SELF_EXCLUDED`` where an account takes nothing at the moment."""
    known = state.accounts.get(account)
    if known is None:
        return None
    if known.frozen:
        return "ACCOUNT_LOCKED"
    if known.excluded_until > state.day_of(known.operator):
        return "SELF_EXCLUDED"
    if state.policy(known.operator).blocks_on_recovery and any(
        call.account == account and call.status == "pending_recovery" for call in state.items.calls.values()
    ):
        return "ACCOUNT_LOCKED"
    return None


def _money(state: WalletState, command: commands.Movement, account: str) -> dict[str, Any]:
    exponent = exponent_for(state, command.operator, command.currency)
    check_amount(state, command.operator, command.currency, command.amount, "amount")
    return {
        "operator": command.operator,
        "account": account,
        "tx": command.tx,
        "currency": command.currency,
        "exponent": exponent,
        "amount": command.amount,
    }


def _entry(number: str, fields: dict[str, Any], shortfall: int = 0, **parties: str) -> Any:
    quantities = {"amount": fields["amount"], "shortfall": shortfall}
    return entry_of(number, fields["currency"], quantities, {"account": fields["account"], **parties})


def _lacks(state: WalletState, command: commands.Movement, account: str) -> bool:
    return state.ledger.cash(command.operator, account, command.currency) < command.amount


def _over(most: Mapping[str, int], command: commands.Movement) -> bool:
    return command.amount > most.get(command.currency, command.amount)


def _no_seamless(state: WalletState, operator: str) -> None:
    if state.policy(operator).seamless:
        words = f"the balances of {operator}'s players are in the operator's own wallet"
        raise Refusal("SEAMLESS", "", words)


def deposit(state: WalletState, command: commands.Deposit, account: str) -> list[Payload]:
    """Money comes in."""
    _no_seamless(state, command.operator)
    fields = _money(state, command, account)
    if (code := why_locked(state, account)) is not None:
        return refused(state, command, account, code, "account")
    if _over(state.policy(command.operator).deposit_max, command):
        return refused(state, command, account, "LIMIT_REACHED", "amount")
    day, plays = state.day_of(command.operator), state.plays.get(account, {})
    bounds = state.bounds(command.operator, account)
    if deposit_reason(bounds, plays, command.currency, command.amount, day=day) is not None:
        return refused(state, command, account, "LIMIT_REACHED", "amount")
    return [
        *opening(state, command.operator, account),
        events.Deposited(**fields, entry=_entry("2", fields)),
    ]


def request_withdrawal(
    state: WalletState, command: commands.RequestWithdrawal, account: str
) -> list[Payload]:
    """A player wants money out. A player who excluded himself may have his money."""
    _no_seamless(state, command.operator)
    fields = _money(state, command, account)
    if why_locked(state, account) == "ACCOUNT_LOCKED":
        return refused(state, command, account, "ACCOUNT_LOCKED", "account")
    if _over(state.policy(command.operator).withdrawal_max, command):
        return refused(state, command, account, "LIMIT_REACHED", "amount")
    owed = state.ledger.balance(command.operator, RECEIVABLE, account, command.currency)
    if state.ledger.cash(command.operator, account, command.currency) - owed < command.amount:
        return refused(state, command, account, "INSUFFICIENT_FUNDS", "amount")
    withdrawal = _new_id(state, "w")
    entry = _entry("11", fields, withdrawal=withdrawal)
    return [events.WithdrawalRequested(**fields, withdrawal=withdrawal, entry=entry)]


_STEPS: Final = {
    "approve": ("requested", "11b"),
    "reject": ("requested", "11d"),
    "pay": ("approved", "11c"),
    "return": ("paid", "11e"),
}


def step_withdrawal(state: WalletState, command: commands.WithdrawalStep) -> list[Payload]:
    """Approve, reject, pay or return a withdrawal.

    Raises:
        Refusal: ``WITHDRAWAL_UNKNOWN``, ``WITHDRAWAL_STATE``.
    """
    item = state.items.withdrawals.get(command.withdrawal)
    if item is None or item.operator != command.operator:
        raise Refusal("WITHDRAWAL_UNKNOWN", "withdrawal", "there is no such withdrawal in progress")
    due, posting = _STEPS[command.step]
    if item.phase != due:
        words = f"the withdrawal is {item.phase}; to {command.step} it takes one that is {due}"
        raise Refusal("WITHDRAWAL_STATE", "step", words)
    if command.step in ("reject", "return") and command.reason is None:
        raise Refusal("INVALID", "reason", "say why, for the player and the auditor")
    fields = _item_money(item, command.tx)
    fields |= {
        "withdrawal": item.id,
        "entry": _entry(posting, fields, withdrawal=item.id),
    }
    match command.step:
        case "approve":
            return [events.WithdrawalApproved(**fields, approver=command.by)]
        case "reject":
            return [events.WithdrawalRejected(**fields, approver=command.by, reason=command.reason or "")]
        case "pay":
            return [events.WithdrawalPaid(**fields, by=command.by)]
        case "return":
            return [events.WithdrawalReturned(**fields, by=command.by, reason=command.reason or "")]


def _item_money(item: Any, tx: str) -> dict[str, Any]:
    return {
        "operator": item.operator,
        "account": item.account,
        "tx": tx,
        "currency": item.currency,
        "exponent": item.exponent,
        "amount": item.amount,
    }


def propose_adjustment(
    state: WalletState, command: commands.ProposeAdjustment, account: str
) -> list[Payload]:
    """Ask for a manual correction."""
    fields = _money(state, command, account)
    return [
        *opening(state, command.operator, account),
        events.AdjustmentProposed(
            **fields,
            direction=command.direction,
            reason=command.reason,
            initiator=command.initiator,
            relates_to=command.relates_to,
        ),
    ]


def decide_adjustment(state: WalletState, command: commands.DecideAdjustment, account: str) -> list[Payload]:
    """Approve or decline one: somebody else than who asked for it.

    Raises:
        Refusal: ``ADJUSTMENT_UNKNOWN``, ``FOUR_EYES``, ``INSUFFICIENT_FUNDS``.
    """
    item = state.items.proposals.get(f"{account}/{command.target}")
    if item is None or item.operator != command.operator:
        raise Refusal("ADJUSTMENT_UNKNOWN", "target", "no such adjustment waits for approval")
    if item.initiator == command.approver:
        raise Refusal("FOUR_EYES", "approver", "who asks for an adjustment cannot decide on it")
    if not command.approve:
        return [
            events.AdjustmentDeclined(
                operator=item.operator,
                account=account,
                tx=item.tx,
                decision=command.tx,
                reason=command.reason or "declined",
                approver=command.approver,
            )
        ]
    fields = _item_money(item, item.tx)
    if item.direction == "debit" and state.ledger.cash(item.operator, account, item.currency) < item.amount:
        words = "the player has less cash than that; decline it, or hold what there is"
        raise Refusal("INSUFFICIENT_FUNDS", "amount", words)
    return [
        events.Adjusted(
            **fields,
            direction="credit" if item.direction == "credit" else "debit",
            reason=item.reason,
            initiator=item.initiator,
            approver=command.approver,
            decision=command.tx,
            relates_to=item.relates_to,
            entry=_entry("12" if item.direction == "credit" else "12x", fields),
        )
    ]


def tip(state: WalletState, command: commands.Tip, account: str) -> list[Payload]:
    """A tip for the dealers."""
    _no_seamless(state, command.operator)
    fields = _money(state, command, account)
    if (code := why_locked(state, account)) is not None:
        return refused(state, command, account, code, "account")
    if _lacks(state, command, account):
        return refused(state, command, account, "INSUFFICIENT_FUNDS", "amount")
    entry = _entry("15", fields)
    return [events.Tipped(**fields, entry=entry, table=command.table, dealer=command.dealer)]


def grant_free_bet(state: WalletState, command: commands.GrantFreeBet, account: str) -> list[Payload]:
    """A stake as a gift."""
    fields = _money(state, command, account)
    return [
        *opening(state, command.operator, account),
        events.FreeBetGranted(
            **fields,
            grant=_new_id(state, "g"),
            campaign=command.campaign,
            by=command.by,
            entry=_entry("13", fields),
        ),
    ]


def withdraw_free_bet(state: WalletState, command: commands.WithdrawFreeBet) -> list[Payload]:
    """Take back what is left of a gift; what is in play stays.

    Raises:
        Refusal: ``GRANT_UNKNOWN``.
    """
    item = state.items.grants.get(command.grant)
    if item is None or item.operator != command.operator or not item.left:
        raise Refusal("GRANT_UNKNOWN", "grant", "nothing is left of such a free bet")
    fields = _item_money(item, command.tx) | {"amount": item.left}
    return [
        events.FreeBetWithdrawn(
            **fields, grant=item.id, reason=command.reason, by=command.by, entry=_entry("13f", fields)
        )
    ]


def hold_funds(state: WalletState, command: commands.HoldFunds, account: str) -> list[Payload]:
    """Put money of a player's aside."""
    _no_seamless(state, command.operator)
    fields = _money(state, command, account)
    if _lacks(state, command, account):
        return refused(state, command, account, "INSUFFICIENT_FUNDS", "amount")
    hold = _new_id(state, "h")
    return [
        events.FundsHeld(
            **fields,
            hold=hold,
            kind=command.kind,
            reason=command.reason,
            expires=command.expires,
            by=command.by,
            entry=_entry("21", fields, hold=hold),
        )
    ]


def release_hold(state: WalletState, command: commands.ReleaseHold) -> list[Payload]:
    """Give held money back.

    Raises:
        Refusal: ``HOLD_UNKNOWN``.
    """
    item = state.items.holds.get(command.hold)
    if item is None or item.operator != command.operator:
        raise Refusal("HOLD_UNKNOWN", "hold", "there is no such hold, or it was released")
    fields = _item_money(item, command.tx)
    entry = _entry("21b", fields, hold=item.id)
    return [events.HoldReleased(**fields, hold=item.id, reason=command.reason, by=command.by, entry=entry)]


def expire_holds(state: WalletState) -> list[Payload]:
    """Release what was held until a gaming day that has come."""
    released: list[Payload] = []
    for item in state.items.holds.values():
        if item.expires is not None and item.expires <= state.day_of(item.operator):
            fields = _item_money(item, f"{item.id}/expired")
            entry = _entry("21b", fields, hold=item.id)
            released.append(
                events.HoldReleased(**fields, hold=item.id, reason="expired", by="sabot", entry=entry)
            )
    return released


def freeze(
    state: WalletState, command: commands.FreezeAccount | commands.ReleaseAccount, account: str
) -> list[Payload]:
    """Lock an account, or unlock it."""
    kind = events.AccountFrozen if isinstance(command, commands.FreezeAccount) else events.AccountReleased
    return [
        *opening(state, command.operator, account),
        kind(
            operator=command.operator,
            account=account,
            tx=command.tx,
            reason=command.reason,
            by=command.by,
        ),
    ]


def charge_back(state: WalletState, command: commands.ChargeBack, account: str) -> list[Payload]:
    """A payer's bank takes a deposit back, whether the player still has it or not."""
    _no_seamless(state, command.operator)
    fields = _money(state, command, account)
    cash = state.ledger.cash(command.operator, account, command.currency)
    shortfall = max(0, command.amount - cash)
    return [
        *opening(state, command.operator, account),
        events.ChargedBack(
            **fields,
            shortfall=shortfall,
            reason=command.reason,
            by=command.by,
            entry=_entry("18", fields, shortfall),
        ),
    ]


def recover(state: WalletState, command: commands.RecoverReceivable, account: str) -> list[Payload]:
    """Let a player pay what he owes."""
    fields = _money(state, command, account)
    owed = state.ledger.balance(command.operator, RECEIVABLE, account, command.currency)
    if command.amount > owed:
        return refused(state, command, account, "LIMIT_REACHED", "amount")
    if _lacks(state, command, account):
        return refused(state, command, account, "INSUFFICIENT_FUNDS", "amount")
    return [events.ReceivableRecovered(**fields, by=command.by, entry=_entry("22", fields))]


def set_limit(state: WalletState, command: commands.SetLimit, account: str) -> list[Payload]:
    """Lower a limit at once, raise it when the running period is over (W37).

    Raises:
        Refusal: ``INVALID`` where kind, period and currency do not fit together.
    """
    exponent = None
    if command.kind == "time":
        if command.currency is not None or command.period != "day":
            raise Refusal("INVALID", "period", "time is limited in minutes a day, without a currency")
    elif command.currency is None:
        raise Refusal("INVALID", "currency", "a limit on money needs its currency")
    else:
        exponent = exponent_for(state, command.operator, command.currency)
    if command.period == "coup" and command.kind != "stake":
        raise Refusal("INVALID", "period", "only stakes are limited for a coup")
    day = state.day_of(command.operator)
    key = limit_id(account, command.kind, command.period, command.currency)
    known = state.items.limits.get(account, {}).get(key)
    before = None if known is None else known.value(day)
    lowered = before is None or (command.value is not None and command.value <= before)
    return [
        *opening(state, command.operator, account),
        events.LimitSet(
            operator=command.operator,
            account=account,
            tx=command.tx,
            kind=command.kind,
            period=command.period,
            currency=command.currency,
            exponent=exponent,
            value=command.value,
            before=before,
            effective=day if lowered else next_period(day, command.period),
            by=command.by,
        ),
    ]


def self_exclude(state: WalletState, command: commands.SelfExclude, account: str) -> list[Payload]:
    """No play before a day. Bets that are not sealed go back (NJ void rule); sealed ones stand.

    Raises:
        Refusal: ``INVALID`` where it would end an exclusion sooner.
    """
    known = state.accounts.get(account)
    until = command.until or FOR_EVER
    if until <= state.day_of(command.operator):
        raise Refusal("INVALID", "until", "that gaming day has come already")
    if known is not None and until < known.excluded_until:
        raise Refusal("INVALID", "until", "an exclusion is never shortened")
    made: list[Payload] = [
        *opening(state, command.operator, account),
        events.SelfExcluded(
            operator=command.operator,
            account=account,
            tx=command.tx,
            until=command.until,
            by=command.by,
        ),
    ]
    for coup in state.coups.values():
        if coup.phase == "open":
            made += [
                rolled_back(bet, bet.left, bet.tx, "self_exclusion")
                for bet in coup.bets.values()
                if bet.account == account and bet.status == "open"
            ]
    return made


def house_money(
    state: WalletState,
    command: commands.FundHouse | commands.SettlePayment | commands.SegregateFunds,
) -> list[Payload]:
    """The house's own money."""
    exponent = exponent_for(state, command.operator, command.currency)
    check_amount(state, command.operator, command.currency, command.amount, "amount")
    fields: dict[str, Any] = {
        "operator": command.operator,
        "tx": command.tx,
        "currency": command.currency,
        "exponent": exponent,
        "amount": command.amount,
        "by": command.by,
    }
    amounts = {"amount": command.amount}
    match command:
        case commands.FundHouse():
            return [events.HouseFunded(**fields, entry=entry_of("1", command.currency, amounts, {}))]
        case commands.SettlePayment():
            if command.fee > command.amount:
                raise Refusal("INVALID", "fee", "a fee is not more than what was paid")
            entry = entry_of("2b", command.currency, amounts | {"fee": command.fee}, {})
            return [events.PaymentSettled(**fields, fee=command.fee, entry=entry)]
        case commands.SegregateFunds():
            number = "23" if command.direction == "to_players" else "23x"
            entry = entry_of(number, command.currency, amounts, {})
            return [events.FundsSegregated(**fields, direction=command.direction, entry=entry)]


def collect_commission(
    state: WalletState, command: commands.CollectCommission, account: str
) -> list[Payload]:
    """Collect what is marked on a seat.

    Raises:
        Refusal: ``NOTHING_OWED``.
    """
    key = owed_id(command.operator, command.table, command.seat, account, command.currency)
    owed = state.items.owed.get(key)
    if owed is None:
        raise Refusal("NOTHING_OWED", "seat", "no commission is marked there")
    return collect(state, [owed], "request", command.tx)


def _new_id(state: WalletState, letter: str) -> str:
    return f"{state.shard}.{letter}{state.items.made + 1}"


Decide = Callable[[WalletState, Any, str], Sequence[Payload]]

PERSONAL: Final[dict[type[commands.AccountCommand], Decide]] = {
    commands.Deposit: deposit,
    commands.RequestWithdrawal: request_withdrawal,
    commands.ProposeAdjustment: propose_adjustment,
    commands.DecideAdjustment: decide_adjustment,
    commands.Tip: tip,
    commands.GrantFreeBet: grant_free_bet,
    commands.HoldFunds: hold_funds,
    commands.FreezeAccount: freeze,
    commands.ReleaseAccount: freeze,
    commands.ChargeBack: charge_back,
    commands.RecoverReceivable: recover,
    commands.SetLimit: set_limit,
    commands.SelfExclude: self_exclude,
    commands.CollectCommission: collect_commission,
}
"""Decisions on one account, by the command."""
