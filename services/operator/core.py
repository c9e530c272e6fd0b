"""The rules of an operator's wallet: debits, credits, rollbacks, batches. Pure: no I/O, clock or chance.

Numbers such as W13 are those of the wallet reference. Where a method is overridden in ``faulty``, a fault can
be switched on there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from schemas.money import MoneyError, parse_amount
from schemas.refusal import Refusal
from schemas.seamless import CODES
from services.operator.records import Account, Bet, CoupKey, Draft, Key, Outcome, Transaction

Asked = dict[str, str | int | bool | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Something asked for one player. Amounts are still text: whether they are exact is judged here (W23)."""

    OPERATION: ClassVar[str]

    tx: str
    account: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Debit(Command):
    """Take money."""

    OPERATION = "debit"

    currency: str
    amount: str
    kind: str = "bet"
    table: str | None = None
    shoe: str | None = None
    coup: int | None = None
    bet: str | None = None
    bet_tx: str | None = None
    spot: str | None = None
    seat: int | None = None
    token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit(Command):
    """Give money."""

    OPERATION = "credit"

    currency: str
    amount: str
    kind: str = "win"
    bet_tx: str | None = None
    closes: bool = False
    table: str | None = None
    shoe: str | None = None
    coup: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback(Command):
    """Give a debit back, or see to it that it never counts."""

    OPERATION = "rollback"

    target: str
    amount: str | None = None


Movement = Debit | Credit | Rollback


@dataclass(frozen=True, slots=True)
class Answered:
    """The outcome of a command, and whether it is one of before."""

    outcome: Outcome
    replayed: bool = False
    current: int | None = None
    """Beside a repeat: the balance now (W3)."""


_NO_IDENTITY: Final = frozenset({"token"})
"""A repeat may come with another session, and still is the same transaction (W2)."""


class Book:
    """Judges commands on a draft. Every method either changes the draft or raises ``Refusal``."""

    def __init__(self, draft: Draft, *, needs_token: bool = False) -> None:
        """``needs_token``: whether a bet must name a session."""
        self.draft, self._needs_token = draft, needs_token

    def perform(self, command: Movement) -> Answered:
        """Carry a command out, or say why not. What is final is remembered (W6)."""
        account = self.draft.account(command.account)
        if account is None:
            return Answered(Outcome("PLAYER_UNKNOWN", command.tx, field="account", words="no such player"))
        try:
            units = self._units_of(command, account)
            asked = self._asked(command, units)
            known = self.known(command)
            if known is not None:
                return self.repeat(known, command, asked)
            outcome = self._carry_out(command, account, units)
        except Refusal as refusal:
            outcome = self._refused(command, refusal)
            if not self.is_final(outcome):
                return Answered(outcome)
        if isinstance(outcome, Answered):
            self._remember(command, asked, outcome.outcome)
            return outcome
        self._remember(command, asked, outcome)
        return Answered(outcome)

    def play(self, account: str, commands: Sequence[Movement]) -> tuple[list[Answered], int | None]:
        """Carry out all of them, or none (W18): the answers so far, and the index of the one that failed."""
        whole = self.draft
        answers: list[Answered] = []
        part = Draft(whole)
        for index, command in enumerate(commands):
            self.draft = part
            answer = self.perform(command)
            self.draft = whole
            answers.append(answer)
            if not answer.outcome.done:
                self.give_up(part)
                if self.is_final(answer.outcome) and not answer.replayed:
                    # Nothing else is: the refusal is what this id came to.
                    key = (account, command.tx)
                    whole.transactions[key] = part.transactions[key]
                whole.conflicts += part.conflicts
                return answers, index
        whole.take_over(part)
        return answers, None

    def tell(self, coup: CoupKey, phase: str) -> None:
        """Hear how far a coup is. It goes one way only (W19)."""
        if self.draft.phase(coup) != "closed":
            self.draft.phases[coup] = phase

    # ------------------------------------------------------------------------------- where faults come in

    def known(self, command: Command) -> Transaction | None:
        """The transaction with this id, if it is final."""
        return self.draft.transaction((command.account, command.tx))

    def repeat(self, known: Transaction, command: Movement, asked: Asked) -> Answered:
        """Answer as before, or name what differs (W3, W4). Nothing moves."""
        names = {*known.asked, *asked}
        differing = tuple(sorted(name for name in names if known.asked.get(name) != asked.get(name)))
        if differing:
            return self._conflict(command, differing)
        account = self._account(command.account)
        return Answered(known.outcome, replayed=True, current=account.balance)

    def units(self, text: str, currency: str) -> int:
        """Minor units, exactly or not at all (W23)."""
        try:
            return parse_amount(text, currency)
        except MoneyError as error:
            code = "PRECISION" if "too many decimals" in str(error) else "INVALID"
            raise Refusal(code, error.field, str(error)) from None

    def is_final(self, outcome: Outcome) -> bool:
        """Whether an outcome is its transaction's for good (W6)."""
        return CODES[outcome.code].stored

    def affords(self, account: Account, units: int) -> bool:
        """Whether a balance has so much. The last of it may go."""
        return units <= account.balance

    def bury(self, key: Key, rollback: str) -> None:
        """Remember that a debit must never count (W13)."""
        self.draft.tombstones[key] = rollback

    def check_session(self, command: Debit, account: Account) -> None:
        """A new bet needs a session that is alive, where it names one or must (W27)."""
        missing = command.token is None and self._needs_token
        if missing or (command.token is not None and command.token not in account.tokens):
            raise Refusal("TOKEN_EXPIRED", "token", "the session is not alive")

    def check_round(self, command: Debit) -> None:
        """No bet after betting closed (W19)."""
        if command.table is None or command.shoe is None or command.coup is None:
            return
        if self.draft.phase(CoupKey(command.table, command.shoe, command.coup)) is not None:
            raise Refusal("ROUND_CLOSED", "coup", "betting on this coup is closed")

    def check_currency(self, currency: str, account: Account) -> None:
        """A player plays in his currency."""
        if currency != account.currency:
            raise Refusal("CURRENCY_MISMATCH", "currency", f"the player's currency is {account.currency}")

    def check_win(self, bet: Bet, command: Credit) -> None:
        """A bet is settled once (W11)."""
        del command
        if bet.status != "open":
            raise Refusal("BET_ALREADY_SETTLED", "bet_tx", f"the bet is {bet.status}")

    def check_refund(self, bet: Bet, units: int) -> None:
        """All refunds together are at most the stake (W16)."""
        if bet.refunded + units > bet.stake:
            raise Refusal("REFUND_EXCEEDS_STAKE", "amount", "the refunds would be more than the stake")

    def check_rollback(self, bet: Bet) -> None:
        """What is settled is not rolled back (W14): that takes a correction."""
        if bet.status != "open" or bet.won:
            raise Refusal("BET_ALREADY_SETTLED", "target", "the bet is settled; send a correction")

    def check_rollback_amount(self, bet: Bet, units: int | None, command: Rollback) -> None:
        """The amount is what our record says; another one is somebody's mistake (W12)."""
        del command
        if units is not None and units != bet.stake:
            raise Refusal("IDEMPOTENCY_CONFLICT", "amount", "the debit had another amount")

    def returned(self, bet: Bet, units: int | None) -> int:
        """What a rollback gives back: by our record, whatever the request says (W12)."""
        del units
        return bet.stake - bet.refunded

    def give_up(self, part: Draft) -> None:
        """Let go of a batch that failed: nothing of it happened (W18)."""

    # ------------------------------------------------------------------------------------------- the rules

    def _carry_out(self, command: Movement, account: Account, units: int | None) -> Outcome | Answered:
        match command:
            case Debit():
                return self._debit(command, account, units or 0)
            case Credit():
                return self._credit(command, account, units or 0)
            case Rollback():
                return self._roll_back(command, account, units)

    def _debit(self, command: Debit, account: Account, units: int) -> Outcome:
        key = (account.name, command.tx)
        if self.draft.tombstone(key) is not None:
            raise Refusal("BET_CANCELLED", "tx", "a rollback of this debit came before it")
        self.check_currency(command.currency, account)
        if units == 0:
            raise Refusal("INVALID", "amount", "a debit is of more than zero")
        if command.kind == "correction":
            self._corrected(command.bet_tx, account)
        else:
            if account.locked:
                raise Refusal("PLAYER_LOCKED", "account", "the player is locked")
            self.check_session(command, account)
            if command.kind == "bet":
                self.check_round(command)
        if not self.affords(account, units):
            return self.short(command, account)
        bet = Bet(account.name, command.tx, command.kind, units)
        # Tips and corrections are over at once: nothing is paid for them, nor are they rolled back (W35).
        self.draft.bets[key] = bet if command.kind == "bet" else replace(bet, status="settled")
        return self._move(command.tx, account, -units)

    def short(self, command: Debit, account: Account) -> Outcome:
        """The answer to a debit of more than there is. Never done in part, never skipped (W8, W17)."""
        del account
        words = "the player has less than that"
        return Outcome("INSUFFICIENT_FUNDS", command.tx, field="amount", words=words)

    def _credit(self, command: Credit, account: Account, units: int) -> Outcome:
        self.check_currency(command.currency, account)
        if command.kind.startswith("promo"):
            return self._move(command.tx, account, units)
        if command.kind == "correction":
            self._corrected(command.bet_tx, account)
            return self._move(command.tx, account, units)
        bet = self._bet(command.bet_tx, account, "bet_tx")
        self.check_win(bet, command)
        if command.kind == "refund":
            if units == 0:
                raise Refusal("INVALID", "amount", "a refund is of more than zero")
            self.check_refund(bet, units)
            bet = replace(bet, refunded=bet.refunded + units)
            if bet.refunded == bet.stake:
                bet = replace(bet, status="cancelled")
        else:
            bet = replace(bet, won=bet.won + units)
        if command.closes and bet.status == "open":
            bet = replace(bet, status="settled")
        self.draft.bets[account.name, bet.tx] = bet
        return self._move(command.tx, account, units)

    def _roll_back(self, command: Rollback, account: Account, units: int | None) -> Outcome | Answered:
        key = (account.name, command.target)
        bet = self.draft.bet(key)
        first = self.draft.tombstone(key) if bet is None else bet.rolled_back_by
        if first is not None:
            # Whoever asks again under another id is told what the first was told (W15).
            return self._as_before(account, first)
        if bet is None:
            known = self.draft.transaction(key)
            if known is not None and known.asked["operation"] != "debit":
                raise Refusal("BET_ALREADY_SETTLED", "target", "only a debit is rolled back")
            self.bury(key, command.tx)
            return Outcome("TOMBSTONED", command.tx, account.balance, account.currency)
        self.check_rollback(bet)
        self.draft.bets[key] = replace(bet, status="cancelled", rolled_back_by=command.tx)
        return self._move(command.tx, account, self.returned(bet, units))

    def _as_before(self, account: Account, tx: str) -> Answered:
        known = self.draft.transaction((account.name, tx))
        if known is None:
            raise AssertionError(f"rollback {tx!r} is remembered, and what it came to is not")
        return Answered(known.outcome, replayed=True, current=account.balance)

    def _corrected(self, bet_tx: str | None, account: Account) -> None:
        """A correction is of a bet that is over; while its settlement is under way it is too early."""
        if self._bet(bet_tx, account, "bet_tx").status == "open":
            raise Refusal("BET_OPEN", "bet_tx", "the bet is not settled yet")

    def _bet(self, tx: str | None, account: Account, field: str) -> Bet:
        key = (account.name, tx or "")
        bet = self.draft.bet(key)
        if bet is not None:
            return bet
        if self.draft.tombstone(key) is not None:
            raise Refusal("BET_CANCELLED", field, "the bet was rolled back before it came")
        # It may have overtaken its bet (W10).
        raise Refusal("BET_NOT_FOUND", field, "no such bet of this player")

    def _move(self, tx: str, account: Account, units: int) -> Outcome:
        changed = replace(account, balance=account.balance + units)
        self.draft.accounts[account.name] = changed
        return Outcome("OK", tx, changed.balance, changed.currency)

    def _remember(self, command: Movement, asked: Asked, outcome: Outcome) -> None:
        if self.is_final(outcome):
            transaction = Transaction(command.account, command.tx, asked, outcome)
            self.draft.transactions[command.account, command.tx] = transaction

    def _refused(self, command: Movement, refusal: Refusal) -> Outcome:
        fields: tuple[str, ...] = ()
        if refusal.code == "IDEMPOTENCY_CONFLICT":
            fields = (refusal.field,)
            self.draft.conflicts.append((command.account, command.tx, refusal.field))
        return Outcome(refusal.code, command.tx, field=refusal.field, words=refusal.words, fields=fields)

    def _conflict(self, command: Movement, differing: tuple[str, ...]) -> Answered:
        self.draft.conflicts.append((command.account, command.tx, " ".join(differing)))
        words = f"this id was used before, with another {', '.join(differing)}"
        return Answered(
            Outcome("IDEMPOTENCY_CONFLICT", command.tx, field=differing[0], words=words, fields=differing)
        )

    def _units_of(self, command: Movement, account: Account) -> int | None:
        if not isinstance(command, Rollback):
            return self.units(command.amount, command.currency)
        units = None if command.amount is None else self.units(command.amount, account.currency)
        bet = self.draft.bet((account.name, command.target))
        if bet is not None:
            self.check_rollback_amount(bet, units, command)
        return units

    def _asked(self, command: Movement, units: int | None) -> Asked:
        """What makes a transaction the same as another (W2): amounts by value, not by spelling."""
        asked: Asked = {"operation": command.OPERATION}
        for name in command.__dataclass_fields__:
            if name not in _NO_IDENTITY and name not in ("tx", "amount"):
                asked[name] = getattr(command, name)
        if not isinstance(command, Rollback):
            asked["amount"] = units
        return asked

    def _account(self, name: str) -> Account:
        account = self.draft.account(name)
        if account is None:
            raise AssertionError(f"account {name!r} is gone")
        return account
