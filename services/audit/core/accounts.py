"""Players' accounts in wallet's streams: opened and locked, money in and out, gifts, holds, limits.

What moves at once is checked here; what goes step by step is in ``steps``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schemas.envelope import Recorded
from schemas.events.accounts import (
    AccountFrozen,
    AccountMoney,
    AccountOpened,
    AccountReleased,
    ChargedBack,
    CommissionCollected,
    Deposited,
    FreeBetGranted,
    FreeBetWithdrawn,
    FundsSegregated,
    HouseFunded,
    HouseMoney,
    LimitSet,
    PaymentSettled,
    ReceivableRecovered,
    SelfExcluded,
    Tipped,
    TombstoneCreated,
    TransactionRefused,
)
from schemas.events.base import Payload
from schemas.events.wallet import BetAccepted, CorrectedBet, SettledBet
from services.audit.core.ledger import (
    BONUS,
    BONUS_COST,
    CASH,
    COMMISSION_OWED,
    OWED,
    Ledger,
    Line,
    money,
)
from services.audit.core.purses import (
    FOR_EVER,
    Grant,
    Holdings,
    Mark,
    Standing,
    is_new,
    mark_id,
)
from services.audit.core.room import Room
from services.audit.core.state import Bet, Coup

PSP_DEPOSITS, PLAYERS_BANK, HOUSE_BANK = "1030", "1010", "1020"
TIPS, BANKROLL, PSP_FEES = "2080", "3010", "5030"

Handler = Callable[[Recorded[Any], Any], None]


class Accounts:
    """Checks what wallet says of accounts."""

    def __init__(self, room: Room, ledger: Ledger) -> None:
        self._room, self._ledger = room, ledger

    def handlers(self) -> dict[type[Payload], Handler]:
        """Who looks at which event."""
        return {
            AccountOpened: self._opened,
            AccountFrozen: self._frozen,
            AccountReleased: self._frozen,
            SelfExcluded: self._excluded,
            TombstoneCreated: self._tombstone,
            LimitSet: self._limit,
            TransactionRefused: self._refused,
            Deposited: self._deposited,
            ChargedBack: self._charged_back,
            ReceivableRecovered: self._recovered,
            Tipped: self._tipped,
            FreeBetGranted: self._granted,
            FreeBetWithdrawn: self._withdrawn,
            CommissionCollected: self._collected,
            HouseFunded: self._house,
            PaymentSettled: self._house,
            FundsSegregated: self._house,
        }

    # ------------------------------------------------------------------------------------- for other checks

    def may_bet(self, event: Recorded[Any], data: BetAccepted, holdings: Holdings, coup: Coup | None) -> None:
        """The account is there and not locked, the id is new, and nobody took the bet back before it came."""
        account, tx = data.account, data.tx
        purse = holdings.purses.get(account)
        if purse is None or purse.operator != data.operator:
            purse = self._ledger.purse(event, account)
        if not is_new(purse.recent, tx):
            self._used_twice(event, account, tx, coup)
        # The purse is touched when the stake is taken out of it.
        if holdings.standings and (standing := holdings.standings.get(account)) is not None:
            self._check_standing(event, data, standing, coup)

    def _check_standing(
        self, event: Recorded[Any], data: BetAccepted, standing: Standing, coup: Coup | None
    ) -> None:
        stake = money(data.stake, data.currency)
        which = f"bet {data.bet} of {stake} by account {data.account} was accepted"
        day = event.envelope.gamingday
        if data.tx in standing.tombstones:
            words = f"{which}, and its transaction {data.tx} had been taken back before it came"
            self._room.report("tombstone", event, words, recorded=data.stake, expected="refused", coup=coup)
        if standing.frozen:
            words = f"{which}, and the account is frozen"
            self._room.report("locked", event, words, recorded=data.stake, expected="refused", coup=coup)
        elif day < standing.excluded:
            until = "for ever" if standing.excluded == FOR_EVER else f"until {standing.excluded}"
            words = f"{which} on {day}, and the player had excluded himself {until}"
            self._room.report("locked", event, words, recorded=data.stake, expected="refused", coup=coup)

    def is_new(self, event: Recorded[Any], account: str, tx: str, coup: Coup | None = None) -> None:
        """A transaction's id moves money once for an account (W1)."""
        purses = self._ledger.holdings(event.stream).purses
        purse = purses.get(account) or self._ledger.purse(event, account)
        if not is_new(purse.recent, tx):
            self._used_twice(event, account, tx, coup)
        self._room.touch(purse)

    def keep_grant(self, holdings: Holdings, grant: Grant) -> None:
        """Keep what is left of a free bet, if anything is."""
        if grant.amount:
            holdings.grants[grant.id] = grant
            self._room.touch(grant)
        elif holdings.grants.pop(grant.id, None) is not None:
            self._room.drop(grant)

    def give_grant_back(
        self, event: Recorded[Any], bet: Bet | None, account: str, currency: str, amount: int
    ) -> int:
        """A stake goes back to the free bet that it came from; a negative one is taken again.

        Returns what is not there to be taken: it was used again or withdrawn, and the house bears it.
        """
        operator = event.data.operator
        books = self._ledger.books(event.stream, operator)
        if bet is None or bet.grant is None:
            books.move(BONUS, currency, amount)
            return 0
        holdings = self._ledger.holdings(event.stream)
        grant = holdings.grants.get(bet.grant)
        if grant is None:
            grant = Grant(event.stream, bet.grant, operator, account, currency, 0)
        before = grant.amount
        grant.amount = max(0, before + amount) if amount < 0 else before + amount
        books.move(BONUS, currency, grant.amount - before)
        self.keep_grant(holdings, grant)
        return grant.amount - before - amount

    def mark(
        self, event: Recorded[Any], row: SettledBet | CorrectedBet | CommissionCollected, change: int
    ) -> int:
        """More or less commission is owed for a seat. What is beyond nothing is returned, and not owed."""
        operator, wallet, account, currency = event.data.operator, event.stream, row.account, row.currency
        marks = self._ledger.holdings(wallet).marks
        id_ = mark_id(operator, event.data.table, row.seat, account, currency)
        mark = marks.get(id_)
        if mark is None:
            mark = marks[id_] = Mark(wallet, id_, operator, account, currency, 0)
        before = mark.amount
        mark.amount = max(0, before + change)
        self._ledger.books(wallet, operator).move(COMMISSION_OWED, currency, mark.amount - before)
        if mark.amount:
            self._room.touch(mark)
        else:
            del marks[id_]
            self._room.drop(mark)
        return max(0, -(before + change))

    def standing(self, event: Recorded[Any], account: str) -> Standing:
        """What an account may not do; made when it is first needed."""
        standings = self._ledger.holdings(event.stream).standings
        standing = standings.get(account)
        if standing is None:
            standing = standings[account] = Standing(event.stream, account)
        self._room.touch(standing)
        return standing

    def move(
        self, event: Recorded[Any], data: AccountMoney, debit: str, credit: str, party: str = ""
    ) -> None:
        """From one account to another; ``party`` is the id that 2040 and 2090 name."""
        self._ledger.purse(event, data.account)
        self._ledger.check_exponent(event, data.currency, data.exponent, None)
        due: dict[Line, int] = {
            (debit, _party(debit, data.account, party), data.currency): data.amount,
            (credit, _party(credit, data.account, party), data.currency): -data.amount,
        }
        self._ledger.post(event, data.entry, due, None)

    # ---------------------------------------------------------------------------------------------- standing

    def _opened(self, event: Recorded[Any], data: AccountOpened) -> None:
        """An account opens once."""
        self._ledger.open_account(event, data.account, data.operator)

    def _frozen(self, event: Recorded[Any], data: AccountFrozen | AccountReleased) -> None:
        self._ledger.purse(event, data.account)
        self.standing(event, data.account).frozen = isinstance(data, AccountFrozen)

    def _excluded(self, event: Recorded[Any], data: SelfExcluded) -> None:
        self._ledger.purse(event, data.account)
        standing = self.standing(event, data.account)
        standing.excluded = max(standing.excluded, data.until or FOR_EVER)

    def _tombstone(self, event: Recorded[Any], data: TombstoneCreated) -> None:
        """A bet that was accepted cannot be one that never came."""
        standing = self.standing(event, data.account)
        if data.target not in standing.tombstones:
            standing.tombstones.append(data.target)

    def _limit(self, event: Recorded[Any], data: LimitSet) -> None:
        """A limit is lowered at once, and raised only later (W37)."""
        self._ledger.purse(event, data.account)
        if data.value == data.before:
            return
        day = event.envelope.gamingday
        raised = data.before is not None and (data.value is None or data.value > data.before)
        what = f"the {data.kind} limit of account {data.account} a {data.period}"
        change = f"from {_limit(data.before, data)} to {_limit(data.value, data)}"
        if raised and data.effective <= day:
            words = f"{what} is raised {change} on {data.effective}, the day on which it was asked for"
            self._room.report("player_limit", event, words, recorded=data.effective, expected=f"after {day}")
        elif not raised and data.effective > day:
            words = f"{what} is lowered {change} on {data.effective} only, and it was asked for on {day}"
            self._room.report("player_limit", event, words, recorded=data.effective, expected=day)

    def _refused(self, event: Recorded[Any], data: TransactionRefused) -> None:
        """Nothing moved."""

    # ------------------------------------------------------------------------------------------------- money

    def _deposited(self, event: Recorded[Any], data: Deposited) -> None:
        self.is_new(event, data.account, data.tx)
        self.move(event, data, PSP_DEPOSITS, CASH)

    def _tipped(self, event: Recorded[Any], data: Tipped) -> None:
        self.is_new(event, data.account, data.tx)
        self.move(event, data, CASH, TIPS)

    def _recovered(self, event: Recorded[Any], data: ReceivableRecovered) -> None:
        self.is_new(event, data.account, data.tx)
        self.move(event, data, CASH, OWED)

    def _charged_back(self, event: Recorded[Any], data: ChargedBack) -> None:
        self.is_new(event, data.account, data.tx)
        self._take(event, data, data.shortfall, PSP_DEPOSITS, None)

    def _collected(self, event: Recorded[Any], data: CommissionCollected) -> None:
        """What is collected is what is owed for that seat, all of it."""
        id_ = mark_id(data.operator, data.table, data.seat, data.account, data.currency)
        mark = self._ledger.holdings(event.stream).marks.get(id_)
        owed = 0 if mark is None else mark.amount
        if data.amount != owed:
            whose = f"account {data.account} at table {data.table}"
            whose += "" if data.seat is None else f", seat {data.seat}"
            words = f"{money(data.amount, data.currency)} of commission is collected from {whose}, and "
            words += f"{money(owed, data.currency)} is owed there"
            self._room.report("commission", event, words, recorded=data.amount, expected=owed)
        excess = self.mark(event, data, -data.amount)
        # Said above; the sum of what is marked must not say it again.
        self._ledger.books(event.stream, data.operator).move(COMMISSION_OWED, data.currency, -excess)
        self._take(event, data, data.shortfall, COMMISSION_OWED, data.account)

    def _take(
        self, event: Recorded[Any], data: AccountMoney, shortfall: int, credit: str, party: str | None
    ) -> None:
        """Out of cash what is there, and the rest is owed."""
        self._ledger.purse(event, data.account)
        self._ledger.check_exponent(event, data.currency, data.exponent, None)
        lacking = self._ledger.lacks(event, data.account, data.currency, data.amount)
        if shortfall != lacking:
            self.wrong_shortfall(event, data.account, data.currency, shortfall, lacking)
        due: dict[Line, int] = {
            (CASH, data.account, data.currency): data.amount - shortfall,
            (OWED, data.account, data.currency): shortfall,
            (credit, party, data.currency): -data.amount,
        }
        self._ledger.post(event, data.entry, due, None)

    def wrong_shortfall(
        self, event: Recorded[Any], account: str, currency: str, recorded: int, due: int
    ) -> None:
        """What goes to 1060 is exactly what the player's cash lacks."""
        words = f"{money(recorded, currency)} is put down as what account {account} lacks, and it lacks "
        words += money(due, currency)
        self._room.report("shortfall", event, words, recorded=recorded, expected=due)

    # ------------------------------------------------------------------------------------------------- gifts

    def _granted(self, event: Recorded[Any], data: FreeBetGranted) -> None:
        self.is_new(event, data.account, data.tx)
        holdings = self._ledger.holdings(event.stream)
        if data.grant in holdings.grants:
            self._room.report("grant", event, f"free bet {data.grant} was granted twice")
        else:
            self.keep_grant(
                holdings,
                Grant(event.stream, data.grant, data.operator, data.account, data.currency, data.amount),
            )
        self._ledger.books(event.stream, data.operator).move(BONUS, data.currency, data.amount)
        self.move(event, data, BONUS_COST, BONUS)

    def _withdrawn(self, event: Recorded[Any], data: FreeBetWithdrawn) -> None:
        holdings = self._ledger.holdings(event.stream)
        grant = holdings.grants.get(data.grant)
        left = 0
        if grant is not None and (grant.account, grant.currency) == (data.account, data.currency):
            left = grant.amount
            grant.amount = max(0, left - data.amount)
            self.keep_grant(holdings, grant)
        if data.amount > left:
            words = f"{money(data.amount, data.currency)} of free bet {data.grant} of account {data.account} "
            words += f"is taken back, and {money(left, data.currency)} is left of it"
            self._room.report("grant", event, words, recorded=data.amount, expected=f"at most {left}")
        self._ledger.books(event.stream, data.operator).move(BONUS, data.currency, -data.amount)
        self.move(event, data, BONUS, BONUS_COST)

    # ------------------------------------------------------------------------------------- the house's money

    def _house(self, event: Recorded[Any], data: HouseMoney) -> None:
        """Between the house's own accounts and its banks; no player's money moves."""
        books = self._ledger.books(event.stream, data.operator)
        if not is_new(books.recent, data.tx):
            words = f"transaction {data.tx} moves the house's money a second time"
            self._room.report("transaction", event, words, recorded=data.amount, expected=0)
        self._ledger.check_exponent(event, data.currency, data.exponent, None)
        amount, currency = data.amount, data.currency
        lines: dict[str, int]
        if isinstance(data, PaymentSettled):
            if data.fee > amount:
                words = f"the fee of {money(data.fee, currency)} is more than the {money(amount, currency)}"
                words += " that were paid out"
                self._room.report("payment", event, words, recorded=data.fee, expected=f"at most {amount}")
            lines = {PLAYERS_BANK: amount, PSP_FEES: data.fee, PSP_DEPOSITS: -amount, HOUSE_BANK: -data.fee}
        elif isinstance(data, FundsSegregated):
            sign = 1 if data.direction == "to_players" else -1
            lines = {PLAYERS_BANK: sign * amount, HOUSE_BANK: -sign * amount}
        else:
            lines = {HOUSE_BANK: amount, BANKROLL: -amount}
        due: dict[Line, int] = {(ledger, None, currency): units for ledger, units in lines.items()}
        self._ledger.post(event, data.entry, due, None)

    def _used_twice(self, event: Recorded[Any], account: str, tx: str, coup: Coup | None) -> None:
        amount = getattr(event.data, "stake", None) or event.data.amount
        moved = money(amount, event.data.currency)
        words = f"transaction {tx} of account {account} moves money a second time: {moved}"
        self._room.report("transaction", event, words, recorded=amount, expected=0, coup=coup)


def _party(ledger: str, account: str, party: str) -> str | None:
    if ledger in (CASH, BONUS, OWED, COMMISSION_OWED):
        return account
    return party if party and ledger in ("2040", "2090") else None


def _limit(value: int | None, data: LimitSet) -> str:
    if value is None:
        return "no limit"
    return f"{value} minutes" if data.currency is None else money(value, data.currency)
