"""Taking bets back: before the seal only, the amount from our own record, and never a bet that came later."""

from __future__ import annotations

from typing import Final, Literal

from schemas.commands.wallet import Refund, RollBack
from schemas.events.accounts import AccountOpened, TombstoneCreated
from schemas.events.base import Payload
from schemas.events.wallet import BetAccepted, BetRefused, BetRolledBack
from schemas.refusal import Refusal
from services.wallet.core.postings import entry_of
from services.wallet.core.state import Bet, TransactionKey, WalletState

GIVEN_BACK: Final = {"cash": "7", "free": "13e", "operator": "17c"}
"""The posting that gives a stake back, by where it came from."""


def rolled_back(
    bet: Bet, amount: int, tx: str, reason: Literal["requested", "refund", "self_exclusion"]
) -> BetRolledBack:
    """The event that takes so much of a bet back."""
    key = bet.key
    entry = entry_of(
        GIVEN_BACK[bet.funding], bet.currency, {"stake": amount}, {"account": bet.account, "bet": bet.bet}
    )
    return BetRolledBack(
        operator=key.operator,
        table=key.table,
        shoe=key.shoe,
        coup=key.coup,
        bet=bet.bet,
        account=bet.account,
        tx=tx,
        target=bet.tx,
        spot=bet.spot,
        currency=bet.currency,
        exponent=bet.exponent,
        amount=amount,
        left=bet.left - amount,
        funding=bet.funding,
        reason=reason,
        entry=entry,
    )


def decide_rollback(state: WalletState, command: RollBack | Refund, account: str) -> list[Payload]:
    """Take a bet back, or remember that it must not be taken when it comes (W12 to W16).

    Raises:
        Refusal: ``BET_SEALED``, ``BET_ALREADY_SETTLED``, ``IN_PROGRESS`` (the operator's wallet is being
        asked),
            ``IDEMPOTENCY_CONFLICT`` (another amount), ``BET_NOT_FOUND`` (a refund of what is not there).
    """
    target = TransactionKey(account, command.target)
    bet = state.open_bets.get(target)
    if bet is None:
        return _too_late_or_too_early(state, command, target)
    if bet.status == "pending":
        raise Refusal("IN_PROGRESS", "target", "the operator's wallet has not answered yet; ask again")
    if state.coups[bet.key].phase != "open":
        words = "the bet is sealed: only a void of the coup gives its stake back"
        raise Refusal("BET_SEALED", "target", words)
    if command.currency not in (None, bet.currency):
        raise Refusal("CURRENCY_MISMATCH", "currency", f"the bet is in {bet.currency}")
    if isinstance(command, Refund):
        if command.amount > bet.left:
            raise Refusal("LIMIT_REACHED", "amount", "that is more than is left of the bet")
        return [rolled_back(bet, command.amount, command.tx, "refund")]
    if command.amount is not None and command.amount != bet.left:
        words = "another amount than the bet's: leave it out, our record counts"
        raise Refusal("IDEMPOTENCY_CONFLICT", "amount", words)
    return [rolled_back(bet, bet.left, command.tx, "requested")]


def _too_late_or_too_early(
    state: WalletState, command: RollBack | Refund, target: TransactionKey
) -> list[Payload]:
    known = state.transactions.get(target)
    if isinstance(command, Refund):
        if known is None or not isinstance(known.event, BetAccepted):
            raise Refusal("BET_NOT_FOUND", "target", "there is no such bet to refund")
    elif known is None or isinstance(known.event, BetRefused | TombstoneCreated):
        operator, account = command.operator, target.account
        tombstone = TombstoneCreated(operator=operator, account=account, tx=command.tx, target=target.tx)
        if account in state.accounts:
            return [tombstone]
        return [AccountOpened(operator=operator, account=account), tombstone]
    if not isinstance(known.event, BetAccepted):
        raise Refusal("BET_NOT_FOUND", "target", "that transaction is no bet")
    if state.past_statuses.get(target) == "rolled_back":
        raise Refusal("ALREADY_ROLLED_BACK", "target", "the bet was taken back before; nothing moved now")
    words = "the bet is settled: another result is a correction of the coup, which game announces"
    raise Refusal("BET_ALREADY_SETTLED", "target", words)
