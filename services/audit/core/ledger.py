"""Wallet's books, folded again from the entries: every entry is the one that was due, and sums to zero.

Debits are positive, credits negative. What is folded is always the entry as it was recorded: the books are
what wallet says they are, and a finding says where they ought to be something else. After every entry

- nobody's cash (2010) or bonus (2020) is below nothing, and nobody owes less than nothing (1060, 1065);
- an operator's bets in play (2030), pending withdrawals (2040), held money (2090), free bets (2020) and
  commission that is owed (1065) are what the events say is under way of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from schemas.envelope import Recorded
from schemas.events.base import Posting
from schemas.money import MoneyError, exponent_of, format_units
from services.audit.core.purses import Books, Holdings, Purse
from services.audit.core.room import Room
from services.audit.core.state import Coup

CASH: Final = "2010"
BONUS: Final = "2020"
IN_PLAY: Final = "2030"
PENDING: Final = "2040"
HELD: Final = "2090"
OWED: Final = "1060"
COMMISSION_OWED: Final = "1065"
CLEARING: Final = "1050"
COMMISSION: Final = "4020"
BONUS_COST: Final = "5010"
SPOT_LEDGER: Final = {"player": "4010", "banker": "4011", "tie": "4012"}
SIDE_BETS: Final = "4013"

SOURCE: Final = {"cash": CASH, "free": BONUS, "operator": CLEARING}
"""The account that a stake comes from and goes back to, by its funding."""

LINES_NAMED: Final = 10
"""Lines of one wrong entry that are named."""

Line = tuple[str, str | None, str]
"""Ledger number, party, currency."""


class _Watched(NamedTuple):
    side: int
    check: str
    account: str
    of: str


_WATCHED: Final[Mapping[str, _Watched]] = {
    IN_PLAY: _Watched(-1, "bets_in_play", "bets in play", "the open bets"),
    PENDING: _Watched(-1, "withdrawals", "pending withdrawals", "those that are requested"),
    HELD: _Watched(-1, "holds", "money held", "the holds"),
    BONUS: _Watched(-1, "free_bets", "player bonus", "what is left of free bets"),
    COMMISSION_OWED: _Watched(1, "commission_owed", "commission receivable", "what is marked on the seats"),
}
_OF_PLAYERS: Final = frozenset((BONUS, OWED, COMMISSION_OWED))
"""Players' accounts beside their cash."""
_BESIDE: Final = _OF_PLAYERS | _WATCHED.keys()


class Ledger:
    """Checks and folds the journal entries of every wallet stream."""

    def __init__(self, room: Room) -> None:
        self._room = room

    def books(self, wallet: str, operator: str) -> Books:
        """An operator's books in a wallet stream."""
        holdings = self._room.holdings.get(wallet) or self._room.holdings_of(wallet)
        books = holdings.books.get(operator)
        if books is None:
            books = holdings.books[operator] = Books(wallet, operator)
        return books

    def holdings(self, wallet: str) -> Holdings:
        """All that a wallet stream holds."""
        return self._room.holdings.get(wallet) or self._room.holdings_of(wallet)

    def purse(self, event: Recorded[Any], account: str) -> Purse:
        """A player's purse; made, and missed, where the account was never opened."""
        wallet, operator = event.envelope.stream, event.envelope.data.operator
        holdings = self._room.holdings.get(wallet) or self._room.holdings_of(wallet)
        purse = holdings.purses.get(account)
        if purse is None:
            purse = holdings.purses[account] = Purse(wallet, account, operator)
            self._room.report("account", event, f"account {account} is used and was never opened")
        elif purse.operator != operator:
            words = f"account {account} is of operator {purse.operator}, not of {operator}"
            self._room.report("account", event, words, recorded=operator, expected=purse.operator)
        return purse

    def open_account(self, event: Recorded[Any], account: str, operator: str) -> None:
        """An account opens once."""
        holdings = self.holdings(event.stream)
        if account in holdings.purses:
            self._room.report("account", event, f"account {account} was opened twice")
            return
        purse = holdings.purses[account] = Purse(event.stream, account, operator)
        self._room.touch(purse)
        self._room.touch(self.books(event.stream, operator))

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

    def lacks(self, event: Recorded[Any], account: str, currency: str, amount: int) -> int:
        """What a player's cash lacks before this event to give so much."""
        purse = self.holdings(event.stream).purses.get(account)
        return max(0, amount - (0 if purse is None else purse.cash.get(currency, 0)))

    def post(
        self, event: Recorded[Any], entry: Iterable[Posting], due: dict[Line, int], coup: Coup | None
    ) -> None:
        """Fold an entry, and compare it with the one that was due. ``due`` is used up."""
        wallet, operator = event.envelope.stream, event.envelope.data.operator
        holdings = self._room.holdings.get(wallet) or self._room.holdings_of(wallet)
        books = holdings.books.get(operator) or self.books(wallet, operator)
        totals, purses, touch = books.totals, holdings.purses, self._room.touch
        sums: dict[str, int] = {}
        watched: set[str] = set()
        low: list[Line] = []
        for posting in entry:
            ledger, party, currency, amount = posting.ledger, posting.party, posting.currency, posting.amount
            sums[currency] = sums.get(currency, 0) + amount
            line = (ledger, party, currency)
            due[line] = due.get(line, 0) - amount
            name = f"{ledger} {currency}"
            totals[name] = totals.get(name, 0) + amount
            if ledger == IN_PLAY:
                watched.add(name)
            elif party is not None and ledger == CASH:
                purse = purses.get(party) or self.purse(event, party)
                cash = purse.cash[currency] = purse.cash.get(currency, 0) - amount
                touch(purse)
                if cash < 0:
                    low.append(line)
            elif ledger in _BESIDE:
                if ledger in _WATCHED:
                    watched.add(name)
                if party is not None and ledger in _OF_PLAYERS and self._fold(event, line, amount) < 0:
                    low.append(line)
        touch(books)
        if any(due.values()):
            self._not_as_due(event, due, coup)
        if any(sums.values()):
            self._check_sums(event, sums, coup)
        if low:
            self._check_low(event, low, holdings, coup)
        self._check_watched(event, books, watched, coup)

    # ------------------------------------------------------------------------------------------- in private

    def _check_sums(self, event: Recorded[Any], sums: dict[str, int], coup: Coup | None) -> None:
        for currency, amount in sums.items():
            if amount:
                words = f"the entry does not sum to zero: {money(amount, currency)} is left over"
                self._room.report("entry_sum", event, words, recorded=amount, expected=0, coup=coup)

    def _fold(self, event: Recorded[Any], line: Line, amount: int) -> int:
        """Into a player's account beside his cash. Returns what is on its normal side now."""
        ledger, party, currency = line
        name = f"{ledger} {currency}"
        purse = self.holdings(event.stream).purses.get(str(party)) or self.purse(event, str(party))
        balance = purse.others[name] = purse.others.get(name, 0) + amount
        self._room.touch(purse)
        return -balance if ledger == BONUS else balance

    def _check_low(
        self, event: Recorded[Any], low: Iterable[Line], holdings: Holdings, coup: Coup | None
    ) -> None:
        """Said where the entry as a whole makes it worse: what was below nothing before was said then."""
        for ledger, account, currency in sorted(set(low), key=str):
            moved = sum(
                posting.amount
                for posting in event.data.entry
                if (posting.ledger, posting.party, posting.currency) == (ledger, account, currency)
            )
            purse = holdings.purses[str(account)]
            name = f"{ledger} {currency}"
            if ledger in (CASH, BONUS):
                left = purse.cash.get(currency, 0) if ledger == CASH else -purse.others[name]
                if left < 0 < moved:
                    what = "cash" if ledger == CASH else "bonus"
                    words = f"account {account} is overdrawn: its {what} is {money(left, currency)}"
                    self._room.report("balance", event, words, recorded=left, expected="0 or more", coup=coup)
            elif (owed := purse.others[name]) < 0 and moved < 0:
                words = f"account {account} owes less than nothing on {ledger}: {money(owed, currency)}"
                self._room.report("balance", event, words, recorded=owed, expected="0 or more", coup=coup)

    def _not_as_due(self, event: Recorded[Any], rest: dict[Line, int], coup: Coup | None) -> None:
        """One finding an entry, with the lines that are not as they should be."""
        wrong = []
        for (ledger, party, currency), missing in rest.items():
            if missing:
                recorded = sum(
                    posting.amount
                    for posting in event.data.entry
                    if (posting.ledger, posting.party, posting.currency) == (ledger, party, currency)
                )
                whose = f"{ledger}" + (f" of {party}" if party else "")
                due = recorded + missing
                words = f"{_side(recorded, currency)} on {whose}, and {_side(due, currency)} was due"
                wrong.append((recorded, due, words))
        sentence = "; ".join(words for _, _, words in wrong[:LINES_NAMED])
        more = f"; and {len(wrong) - LINES_NAMED} more lines likewise" if len(wrong) > LINES_NAMED else ""
        recorded, due, _ = wrong[0]
        self._room.report(
            "entry",
            event,
            f"the entry moves {sentence}{more}",
            recorded=recorded,
            expected=due,
            coup=coup,
        )

    def _check_watched(
        self, event: Recorded[Any], books: Books, watched: set[str], coup: Coup | None
    ) -> None:
        for name in watched if len(watched) < 2 else sorted(watched):
            ledger = name[:4]
            expected = books.under_way.get(name, 0)
            gap = _WATCHED[ledger].side * books.totals[name] - expected
            if gap != books.known_gap.get(name, 0):
                books.known_gap[name] = gap
                self._differs(event, ledger, name[5:], expected, coup, gap=gap)

    def _differs(
        self, event: Recorded[Any], ledger: str, currency: str, expected: int, coup: Coup | None, *, gap: int
    ) -> None:
        """Said once: a difference that stays is not a new fault at every later event."""
        _, check, account, of = _WATCHED[ledger]
        recorded = expected + gap
        words = f"{account} ({ledger}) come to {money(recorded, currency)}, and {of} to "
        words += money(expected, currency)
        self._room.report(check, event, words, recorded=recorded, expected=expected, coup=coup)


def add(lines: dict[Line, int], ledger: str, party: str | None, currency: str, amount: int) -> None:
    """Add to one line of an entry in the making."""
    line = (ledger, party, currency)
    lines[line] = lines.get(line, 0) + amount


def money(units: int, currency: str) -> str:
    """An amount in words."""
    try:
        return f"{format_units(units, exponent_of(currency))} {currency}"
    except MoneyError:
        return f"{units} minor units of {currency}"


def _side(amount: int, currency: str) -> str:
    if not amount:
        return "nothing"
    return f"{money(abs(amount), currency)} {'debit' if amount > 0 else 'credit'}"
