"""A wallet with faults: the rules of ``core``, broken where one is told to break them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from schemas.money import exponent_of
from schemas.refusal import Refusal
from services.operator.core import Answered, Asked, Book, Command, Credit, Debit, Movement, Rollback
from services.operator.records import Account, Bet, Draft, Key, Outcome, Transaction

_MILLION: Final = 10**8
_KNOWN_PROMOS: Final = frozenset({"promo", "promo_free_round", "promo_jackpot", "promo_tournament"})


class FaultyBook(Book):
    """Judges commands as somebody would whose wallet has these faults."""

    def __init__(
        self, draft: Draft, faults: Collection[str], *, needs_token: bool = False, unseen: bool = False
    ) -> None:
        """``faults``: names from the table. ``unseen``: the id was looked for before, and not found."""
        super().__init__(draft, needs_token=needs_token)
        self._faults, self._unseen = faults, unseen

    def perform(self, command: Movement) -> Answered:
        """As the rules say, as far as no fault says otherwise."""
        if self._has("ids-without-case"):
            command = _lowered(command)
        if self._has("refuses-new-promos") and isinstance(command, Credit):
            known = not command.kind.startswith("promo") or command.kind in _KNOWN_PROMOS
            if not known:
                return Answered(Outcome("INVALID", command.tx, field="kind", words="no such kind"))
        return super().perform(command)

    def known(self, command: Command) -> Transaction | None:
        """As the rules say, but for faults."""
        key = (command.account, command.tx)
        if self._has("ids-for-all"):
            # Where nobody has it, the first to come gets it, for all players.
            owner = self.draft.tombstone(("", command.tx)) or command.account
            self.draft.tombstones["", command.tx] = owner
            return self.draft.transaction((owner, command.tx))
        known = super().known(command)
        if known is None:
            return None
        bet = self.draft.bet(key)
        again = (
            (self._has("double-debit") and isinstance(command, Debit))
            or (self._has("credits-twice") and isinstance(command, Credit))
            or self._unseen
            or (self._has("forgets-refusals") and not known.outcome.done)
            or (self._has("late-bet") and bet is not None and bet.status == "cancelled")
        )
        return None if again else known

    def repeat(self, known: Transaction, command: Movement, asked: Asked) -> Answered:
        """As the rules say, but for faults."""
        if self._has("ignores-conflicts"):
            asked = dict(known.asked)
        answered = super().repeat(known, command, asked)
        if self._has("new-bytes") and answered.replayed and answered.outcome.done:
            answered = replace(answered, outcome=replace(answered.outcome, balance=answered.current))
        if self._has("hides-conflicts"):
            answered = replace(answered, outcome=replace(answered.outcome, fields=(), field=""))
        return answered

    def units(self, text: str, currency: str) -> int:
        """As the rules say, but for faults."""
        if self._has("two-decimals"):
            currency = "EUR"
        try:
            units = super().units(text, currency)
        except Refusal as refusal:
            if refusal.code != "PRECISION" or not self._has("rounds-silently"):
                raise
            units = int(Decimal(text).scaleb(exponent_of(currency)).to_integral_value(ROUND_HALF_UP))
        if self._has("small-amounts") and units > _MILLION:
            raise Refusal("LIMIT_REACHED", "amount", "that is too much")
        return units

    def is_final(self, outcome: Outcome) -> bool:
        """As the rules say, but for faults."""
        if self._has("keeps-early-wins") and outcome.code == "BET_NOT_FOUND":
            return True
        return super().is_final(outcome)

    def affords(self, account: Account, units: int) -> bool:
        """As the rules say, but for faults."""
        if self._has("overdraws"):
            return True
        return units < account.balance if self._has("keeps-a-cent") else super().affords(account, units)

    def short(self, command: Debit, account: Account) -> Outcome:
        """As the rules say, but for faults."""
        if self._has("skips-recovery") and command.kind == "correction":
            return Outcome("OK", command.tx, account.balance, account.currency)
        return super().short(command, account)

    def bury(self, key: Key, rollback: str) -> None:
        """As the rules say, but for faults."""
        if not self._has("forgets-tombstones"):
            super().bury(key, rollback)

    def check_session(self, command: Debit, account: Account) -> None:
        """As the rules say, but for faults."""
        if not self._has("ignores-sessions"):
            super().check_session(command, account)

    def check_round(self, command: Debit) -> None:
        """As the rules say, but for faults."""
        if not self._has("ignores-rounds"):
            super().check_round(command)

    def check_currency(self, currency: str, account: Account) -> None:
        """As the rules say, but for faults."""
        if not self._has("ignores-currency"):
            super().check_currency(currency, account)

    def check_win(self, bet: Bet, command: Credit) -> None:
        """As the rules say, but for faults."""
        if self._has("refuses-zero-wins") and not command.amount.strip("0."):
            raise Refusal("INVALID", "amount", "a win of nothing is none")
        excused = (
            self._has("credits-twice")
            or (self._has("settles-twice") and bet.status == "settled")
            or (self._has("settles-after-cancel") and bet.status == "cancelled")
        )
        if not excused:
            super().check_win(bet, command)

    def check_refund(self, bet: Bet, units: int) -> None:
        """As the rules say, but for faults."""
        if not self._has("refunds-too-much"):
            super().check_refund(bet, units)

    def check_rollback(self, bet: Bet) -> None:
        """As the rules say, but for faults."""
        if not (self._has("cancels-after-settlement") and bet.status == "settled"):
            super().check_rollback(bet)

    def check_rollback_amount(self, bet: Bet, units: int | None, command: Rollback) -> None:
        """As the rules say, but for faults."""
        if not self._has("trusts-rollback-amounts"):
            super().check_rollback_amount(bet, units, command)

    def returned(self, bet: Bet, units: int | None) -> int:
        """As the rules say, but for faults."""
        if self._has("trusts-rollback-amounts") and units is not None:
            return units
        return super().returned(bet, units)

    def give_up(self, part: Draft) -> None:
        """As the rules say, but for faults."""
        if self._has("batch-in-parts"):
            self.draft.take_over(part)

    def _has(self, fault: str) -> bool:
        return fault in self._faults


def _lowered(command: Movement) -> Movement:
    command = replace(command, tx=command.tx.lower())
    if isinstance(command, Rollback):
        return replace(command, target=command.target.lower())
    return replace(command, bet_tx=command.bet_tx and command.bet_tx.lower())
