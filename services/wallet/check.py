"""The full check of a wallet's books: every table worked out again from the events, every invariant looked
at.

It shares the arithmetic of nothing that wrote them but the chart of accounts: entries are summed here, bets
and transaction ids are followed here. What only holds at the close of a gaming day (I6, I7) is shown with its
figures and counts as a finding where asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from schemas.chart import chart
from schemas.envelope import Recorded, decode
from schemas.events import accounts, wallet
from schemas.events.base import wallet_stream
from schemas.money import exponent_of, format_units
from services.runtime.store import read_stream
from services.wallet.core.operations import transaction_id_of
from services.wallet.tables import BALANCE, BET, COUP, TRANSACTION

INVARIANTS: Final = {
    "I1": "every entry sums to zero in each currency",
    "I2": "a settlement is corrected in the order of its versions, and nothing is rewritten",
    "I3": "balances are the fold of the entries",
    "I4": "bets in play (2030) are what is left of the open bets",
    "I5": "no player's cash or bonus is overdrawn at any position",
    "I6": "suspense (1090) is empty, at the close of the day",
    "I7": "players' money is covered by the segregated bank (1010), at the close of the day",
    "I8": "gross gaming revenue of the accounts is handle less payouts of the bets",
    "I9": "one obligation, one payment: a bet is settled once a version",
    "I12": "every settlement names the event that it obeyed, every void its reason",
    "W1": "a transaction id is used once for an account",
}
"""What is looked at (wallet reference, 3.3)."""

AT_CLOSE: Final = ("I6", "I7")


class Finding(NamedTuple):
    """Something that does not hold."""

    invariant: str
    place: str
    words: str


@dataclass
class _Bet:
    operator: str
    account: str
    currency: str
    left: int
    funding: str
    status: str = "open"
    version: int = 0
    returned: int = 0
    commission: int = 0
    deferred: bool = False

    def end(self, status: str, version: int, returned: int, commission: int) -> None:
        """It is paid, under a version of its coup's result."""
        self.status, self.version, self.returned, self.commission = status, version, returned, commission


Line = tuple[str, str, str, str]
"""Operator, account number, party, currency."""


@dataclass
class Report:
    """What a check saw."""

    events: int = 0
    findings: list[Finding] = field(default_factory=list)
    balances: dict[Line, int] = field(default_factory=dict)
    bets: dict[str, _Bet] = field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        """Findings by invariant, all of them."""
        counts = dict.fromkeys(INVARIANTS, 0)
        for each in self.findings:
            counts[each.invariant] += 1
        return counts


def check(db: Connection, shard: str, *, at_close: bool = False) -> Report:
    """Check everything. ``at_close``: what holds at the close of a day counts, too."""
    report = Report()
    _Folding(report).read(db, shard)
    report.findings += _compare_balances(db, report)
    report.findings += _compare_bets(db, shard, report)
    report.findings += _check_in_play(report)
    report.findings += _check_revenue(report)
    if at_close:
        report.findings += _check_close(report)
    return report


class _Folding:
    """Follows the events one by one."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._ids: set[tuple[str, str]] = set()
        self._given: dict[tuple[str, str], int] = {}
        """Transaction ids and the event that is their outcome."""
        self._versions: dict[tuple[str, str, str, int], int] = {}

    def read(self, db: Connection, shard: str) -> None:
        for _, body in read_stream(db, wallet_stream(shard)):
            event = decode(body)
            self._report.events += 1
            self._post(event)
            self._follow(event)
            self._use_id(event)
        rows = {(row.account, row.tx): row.sequence for row in db.execute(sa.select(TRANSACTION))}
        for key, sequence in self._given.items():
            if rows.pop(key, None) != sequence:
                self._find("W1", f"transaction {key[1]} of {key[0]}", "its row is not that of its last event")
        for key in rows:
            self._find("W1", f"transaction {key[1]} of {key[0]}", "has a row and no event")

    def _find(self, invariant: str, place: str, words: str) -> None:
        self._report.findings.append(Finding(invariant, place, words))

    def _post(self, event: Recorded[Any]) -> None:
        balances = self._report.balances
        sums: dict[str, int] = {}
        touched: list[Line] = []
        for each in getattr(event.data, "entry", ()):
            line = (event.data.operator, each.ledger, each.party or "", each.currency)
            balances[line] = balances.get(line, 0) + each.amount
            sums[each.currency] = sums.get(each.currency, 0) + each.amount
            touched.append(line)
            if each.ledger not in chart():
                self._find("I1", event.envelope.id, f"account {each.ledger} is not in the chart")
        for currency, amount in sums.items():
            if amount:
                self._find("I1", event.envelope.id, f"{_money(amount, currency)} is left over")
        for line in touched:
            if line[1] in ("2010", "2020") and balances[line] > 0:
                words = (
                    f"{chart()[line[1]].name} of {line[2]} is overdrawn by {_money(balances[line], line[3])}"
                )
                self._find("I5", event.envelope.id, words)

    def _use_id(self, event: Recorded[Any]) -> None:
        key = transaction_id_of(event.data)
        if key is None:
            return
        self._given[key] = event.sequence
        if isinstance(event.data, accounts.TombstoneCreated):
            self._given[event.data.account, event.data.target] = event.sequence
        if getattr(event.data, "entry", ()):
            if key in self._ids:
                self._find("W1", event.envelope.id, f"transaction {key[1]} of {key[0]} moves money twice")
            self._ids.add(key)

    def _follow(self, event: Recorded[Any]) -> None:
        data, bets, place = event.data, self._report.bets, event.envelope.id
        match data:
            case wallet.BetAccepted():
                if data.bet in bets:
                    self._find("I9", place, f"bet {data.bet} is accepted twice")
                bets[data.bet] = _Bet(data.operator, data.account, data.currency, data.stake, data.funding)
            case wallet.BetRolledBack():
                bet = self._open_bet(place, data.bet)
                if bet is not None:
                    bet.left -= data.amount
                    bet.status = "open" if bet.left else "rolled_back"
            case wallet.CoupSettled():
                self._check_version(event, data.version)
                for row in data.bets:
                    if (bet := self._open_bet(place, row.bet)) is not None:
                        bet.end(_status(row.tier), data.version, row.returned, row.commission)
                        bet.deferred = row.deferred
            case wallet.CoupReturned():
                if not data.reason:
                    self._find("I12", place, "a void without a reason")
                for back in data.bets:
                    if (bet := self._open_bet(place, back.bet)) is not None:
                        bet.end("void", 0, 0 if back.funding == "free" else back.stake, 0)
            case wallet.SettlementCorrected():
                self._correct(event, data)

    def _open_bet(self, place: str, name: str) -> _Bet | None:
        bet = self._report.bets.get(name)
        if bet is None or bet.status != "open":
            state = "never accepted" if bet is None else bet.status
            self._find("I9", place, f"bet {name} ends here, and it was {state}")
            return None
        return bet

    def _check_version(self, event: Recorded[Any], version: int) -> None:
        data = event.data
        key = (data.operator, data.table, data.shoe, data.coup)
        before = self._versions.get(key, 0)
        if version < before or (version == before and data.part == 1):
            self._find("I2", event.envelope.id, f"version {version} follows version {before}")
        self._versions[key] = version

    def _correct(self, event: Recorded[Any], data: wallet.SettlementCorrected) -> None:
        place = event.envelope.id
        self._check_version(event, data.version)
        if not data.reason or not data.approver:
            self._find("I12", place, "a correction without reason or approver")
        for row in data.bets:
            bet = self._report.bets.get(row.bet)
            if bet is None or bet.status in ("open", "rolled_back"):
                self._find("I9", place, f"bet {row.bet} is corrected and was not settled")
                continue
            if bet.version >= data.version:
                self._find("I9", place, f"bet {row.bet} is settled twice as version {data.version}")
            if (row.before.returned, row.before.commission) != (bet.returned, bet.commission):
                self._find("I2", place, f"bet {row.bet} was paid otherwise than its correction says")
            bet.end(_status(row.after.tier), data.version, row.after.returned, row.after.commission)
            bet.deferred = row.after.deferred


def _status(tier: str) -> str:
    return {"lose": "lost", "push": "push", "void": "void"}.get(tier, "won")


def _compare_balances(db: Connection, report: Report) -> Iterator[Finding]:
    rows = {
        (row.operator, row.ledger, row.party, row.currency): row.amount
        for row in db.execute(sa.select(BALANCE))
    }
    for line in sorted(rows.keys() | report.balances.keys()):
        if line[1] == "2030":
            continue  # is no row: it is what is left of the open bets
        recorded, due = rows.get(line, 0), report.balances.get(line, 0)
        if recorded != due:
            whose = " ".join(part for part in line if part)
            words = f"the table says {_money(recorded, line[3])}, the entries {_money(due, line[3])}"
            yield Finding("I3", f"balance {whose}", words)


def _compare_bets(db: Connection, shard: str, report: Report) -> Iterator[Finding]:
    seen = set()
    for row in db.execute(sa.select(BET).where(BET.c.status.not_in(("refused", "pending")))):
        name = f"{shard}.{row.number}"
        seen.add(name)
        bet = report.bets.get(name)
        if bet is None:
            yield Finding("I3", f"bet {name}", "has a row and was never accepted")
            continue
        recorded = (row.status, row.left, row.returned, row.commission)
        due = (bet.status, bet.left, bet.returned, bet.commission)
        if recorded != due:
            words = f"the table says {_as_words(recorded)}, the events {_as_words(due)}"
            yield Finding("I3", f"bet {name}", words)
    for name in report.bets.keys() - seen:
        yield Finding("I3", f"bet {name}", "was accepted and has no row")
    for row in db.execute(sa.select(COUP).where(COUP.c.phase.in_(("settled", "returned")))):
        if row.result_sequence is None:
            place = f"coup {row.coup} of {row.shoe} at {row.table_name}"
            yield Finding("I12", place, "is paid and names no event of game")


def _as_words(bet: tuple[str, int, int, int]) -> str:
    status, left, returned, commission = bet
    return f"{status}, {left} left, {returned} returned, {commission} commission"


def _check_in_play(report: Report) -> Iterator[Finding]:
    due: dict[Line, int] = {}
    for name, bet in report.bets.items():
        if bet.status == "open":
            due[bet.operator, "2030", name, bet.currency] = -bet.left
    recorded = {line: amount for line, amount in report.balances.items() if line[1] == "2030" and amount}
    for line in sorted(due.keys() | recorded.keys()):
        if due.get(line, 0) != recorded.get(line, 0):
            words = (
                f"account 2030 has {_money(-recorded.get(line, 0), line[3])}, "
                f"the bet {_money(-due.get(line, 0), line[3])}"
            )
            yield Finding("I4", f"bet {line[2]}", words)


def _check_revenue(report: Report) -> Iterator[Finding]:
    """I8: of cash and seamless bets; a free bet's stake is the house's own, a gift (5010)."""
    revenue: dict[tuple[str, str], int] = {}
    for (operator, ledger, _, currency), amount in report.balances.items():
        if chart()[ledger].gaming_win:
            revenue[operator, currency] = revenue.get((operator, currency), 0) - amount
    due: dict[tuple[str, str], int] = {}
    for bet in report.bets.values():
        if bet.status in ("won", "lost", "push"):
            key = (bet.operator, bet.currency)
            # A free bet's push gives its stake back to the gift, where nobody has won or lost.
            free = bet.funding == "free"
            stake = 0 if free and bet.status == "push" else bet.left
            returned = bet.returned + (bet.left if free and bet.status == "won" else 0)
            owed = _owed(bet)
            due[key] = due.get(key, 0) + stake - returned + owed
    for key in sorted(revenue.keys() | due.keys()):
        if revenue.get(key, 0) != due.get(key, 0):
            words = (
                f"the accounts say {_money(revenue.get(key, 0), key[1])}, "
                f"handle less payouts is {_money(due.get(key, 0), key[1])}"
            )
            yield Finding("I8", f"gross gaming revenue of {key[0]} in {key[1]}", words)


def _owed(bet: _Bet) -> int:
    """Deferred commission is revenue though the player was paid without it."""
    return bet.commission if bet.deferred else 0


def _check_close(report: Report) -> Iterator[Finding]:
    sums: dict[tuple[str, str, str], int] = {}
    for (operator, ledger, _, currency), amount in report.balances.items():
        sums[operator, currency, ledger] = sums.get((operator, currency, ledger), 0) + amount
    for operator, currency in sorted({key[:2] for key in sums}):

        def balance(ledger: str, of: tuple[str, str] = (operator, currency)) -> int:
            return sums.get((*of, ledger), 0)

        place = f"{operator} in {currency}"
        if balance("1090"):
            yield Finding("I6", place, f"suspense is {_money(balance('1090'), currency)}")
        required = -sum(map(balance, ("2010", "2020", "2030", "2040", "2090")))
        if required > balance("1010"):
            lacking = required - balance("1010")
            words = f"players have {_money(required, currency)}, {_money(lacking, currency)} more than 1010"
            yield Finding("I7", place, words)


def _money(units: int, currency: str) -> str:
    return f"{format_units(units, exponent_of(currency))} {currency}"
