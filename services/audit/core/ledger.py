"""Wallet's books, folded again from the entries: every entry is the one that was due, and sums to zero.

Debits are positive, credits negative. A player's cash (2010) is never overdrawn at any position, and bets
in play (2030) are at every position what is staked on bets that have not ended. What is folded is always
the entry as it was recorded: the books are what wallet says they are, and a finding says where they ought
to be something else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from schemas.envelope import Recorded
from schemas.events.base import Posting
from schemas.events.wallet import BetAccepted, Deposited, ReturnedBet, SettledBet
from schemas.money import MoneyError, exponent_of, format_units
from services.audit.core.room import Room
from services.audit.core.state import Books, Coup, Purse

CASH: Final = "2010"
IN_PLAY: Final = "2030"
DEPOSITS: Final = "1030"
COMMISSION: Final = "4020"
SPOT_LEDGER: Final = {"player": "4010", "banker": "4011", "tie": "4012"}

Line = tuple[str, str | None, str]
"""Ledger number, party, currency."""


class Ledger:
    """Checks and folds the journal entries of every wallet stream."""

    def __init__(self, room: Room) -> None:
        self._room = room

    def books(self, wallet: str) -> Books:
        """The books of a wallet stream."""
        books = self._room.books.get(wallet)
        if books is None:
            books = self._room.books[wallet] = Books(wallet)
        return books

    def purse(self, event: Recorded[Any], books: Books, account: str, operator: str) -> Purse:
        """A player's purse; made, and missed, where the account was never opened."""
        purse = books.purses.get(account)
        if purse is None:
            purse = books.purses[account] = Purse(books.wallet, account, operator)
            self._room.report("account", event, f"account {account} is used and was never opened")
        elif purse.operator != operator:
            words = f"account {account} is of operator {purse.operator}, not of {operator}"
            self._room.report("account", event, words, recorded=operator, expected=purse.operator)
        return purse

    def open_account(self, event: Recorded[Any], account: str, operator: str) -> None:
        """An account opens once."""
        books = self.books(event.stream)
        if account in books.purses:
            self._room.report("account", event, f"account {account} was opened twice")
            return
        purse = books.purses[account] = Purse(books.wallet, account, operator)
        self._room.touch(purse)
        self._room.touch(books)

    def deposit(self, event: Recorded[Any], data: Deposited) -> None:
        """1030 to 2010."""
        books = self.books(event.stream)
        self.purse(event, books, data.account, data.operator)
        self.check_exponent(event, data.currency, data.exponent, None)
        due: dict[Line, int] = {
            (DEPOSITS, None, data.currency): data.amount,
            (CASH, data.account, data.currency): -data.amount,
        }
        self.post(event, books, data.entry, due, None)

    def stake(self, event: Recorded[Any], data: BetAccepted, coup: Coup | None) -> None:
        """2010 to 2030; the player must have had it."""
        books = self.books(event.stream)
        self.purse(event, books, data.account, data.operator)
        self.check_exponent(event, data.currency, data.exponent, coup)
        stake, currency = data.stake, data.currency
        books.open_stakes[currency] = books.open_stakes.get(currency, 0) + stake
        due: dict[Line, int] = {
            (CASH, data.account, currency): stake,
            (IN_PLAY, data.bet, currency): -stake,
        }
        self.post(event, books, data.entry, due, coup)

    def settle(
        self, event: Recorded[Any], bets: Iterable[SettledBet], entry: Iterable[Posting], coup: Coup | None
    ) -> None:
        """Out of play, to the player what is returned, to the house the rest."""
        due: dict[Line, int] = {}
        for bet in bets:
            currency = bet.currency
            _add(due, (IN_PLAY, bet.bet, currency), bet.stake)
            _add(due, (CASH, bet.account, currency), -bet.returned)
            _add(due, (COMMISSION, None, currency), -bet.commission)
            won = bet.returned + bet.commission - bet.stake
            _add(due, (SPOT_LEDGER.get(bet.spot, "4013"), None, currency), won)
        self.post(event, self.books(event.stream), entry, due, coup)

    def give_back(
        self, event: Recorded[Any], bets: Iterable[ReturnedBet], entry: Iterable[Posting], coup: Coup | None
    ) -> None:
        """Out of play, and back to the player."""
        due: dict[Line, int] = {}
        for bet in bets:
            _add(due, (IN_PLAY, bet.bet, bet.currency), bet.stake)
            _add(due, (CASH, bet.account, bet.currency), -bet.stake)
        self.post(event, self.books(event.stream), entry, due, coup)

    def close_stake(self, wallet: str, currency: str, stake: int) -> None:
        """A bet has ended: call before its entry is posted."""
        books = self.books(wallet)
        books.open_stakes[currency] = books.open_stakes.get(currency, 0) - stake

    def check_exponent(self, event: Recorded[Any], currency: str, exponent: int, coup: Coup | None) -> None:
        """The decimals of a currency are what everybody takes them to be."""
        try:
            due = exponent_of(currency)
        except MoneyError:
            self._room.report("currency", event, f"{currency} is no currency that was declared", coup=coup)
            return
        if exponent != due:
            words = f"{currency} has {due} decimals, not {exponent}"
            self._room.report("currency", event, words, recorded=exponent, expected=due, coup=coup)

    def post(
        self,
        event: Recorded[Any],
        books: Books,
        entry: Iterable[Posting],
        due: dict[Line, int],
        coup: Coup | None,
    ) -> None:
        """Fold an entry, and compare it with the one that was due. ``due`` is used up."""
        totals, purses = books.totals, books.purses
        sums: dict[str, int] = {}
        for posting in entry:
            ledger, party, currency, amount = posting.ledger, posting.party, posting.currency, posting.amount
            sums[currency] = sums.get(currency, 0) + amount
            line = (ledger, party, currency)
            due[line] = due.get(line, 0) - amount
            name = f"{ledger} {currency}"
            totals[name] = totals.get(name, 0) + amount
            if ledger == CASH and party is not None:
                purse = purses.get(party)
                if purse is None:
                    purse = self.purse(event, books, party, event.data.operator)
                cash = purse.cash[currency] = purse.cash.get(currency, 0) - amount
                self._room.touch(purse)
                if cash < 0 < amount:
                    self._overdrawn(event, party, currency, cash, coup)
        self._room.touch(books)
        if any(due.values()):
            self._not_as_due(event, due, coup)
        for currency, amount in sums.items():
            if amount:
                words = f"the entry does not sum to zero: {_money(amount, currency)} is left over"
                self._room.report("entry_sum", event, words, recorded=amount, expected=0, coup=coup)
            self._check_in_play(event, books, currency, coup)

    # ------------------------------------------------------------------------------------------- in private

    def _overdrawn(
        self, event: Recorded[Any], account: str, currency: str, cash: int, coup: Coup | None
    ) -> None:
        words = f"account {account} is overdrawn: its cash is {_money(cash, currency)}"
        self._room.report("balance", event, words, recorded=cash, expected="0 or more", coup=coup)

    def _not_as_due(self, event: Recorded[Any], rest: dict[Line, int], coup: Coup | None) -> None:
        for (ledger, party, currency), missing in rest.items():
            if not missing:
                continue
            recorded = sum(
                posting.amount
                for posting in event.data.entry
                if (posting.ledger, posting.party, posting.currency) == (ledger, party, currency)
            )
            whose = f"{ledger}" + (f" of {party}" if party else "")
            words = (
                f"the entry moves {_side(recorded, currency)} on {whose}, "
                f"and {_side(recorded + missing, currency)} was due"
            )
            self._room.report(
                "entry", event, words, recorded=recorded, expected=recorded + missing, coup=coup
            )

    def _check_in_play(self, event: Recorded[Any], books: Books, currency: str, coup: Coup | None) -> None:
        in_play = -books.totals.get(f"{IN_PLAY} {currency}", 0)
        gap = in_play - books.open_stakes.get(currency, 0)
        if gap != books.known_gap.get(currency, 0):
            # Said once: a difference that stays is not a new fault at every later event.
            books.known_gap[currency] = gap
            staked = books.open_stakes.get(currency, 0)
            words = (
                f"bets in play (2030) come to {_money(in_play, currency)}, "
                f"and the open bets to {_money(staked, currency)}"
            )
            self._room.report("bets_in_play", event, words, recorded=in_play, expected=staked, coup=coup)


def _add(lines: dict[Line, int], line: Line, amount: int) -> None:
    lines[line] = lines.get(line, 0) + amount


def _money(units: int, currency: str) -> str:
    try:
        return f"{format_units(units, exponent_of(currency))} {currency}"
    except MoneyError:
        return f"{units} minor units of {currency}"


def _side(amount: int, currency: str) -> str:
    if not amount:
        return "nothing"
    return f"{_money(abs(amount), currency)} {'debit' if amount > 0 else 'credit'}"
