"""Ingest: recorded coups drive the three services, one line after the other, many at once where they may.

Lines that share an account or a table follow each other, so that the outcome is that of a file read line
by line; others fly together and share the services' commits. A line that cannot be is rejected whole,
before anything of it is written, and the rest goes on. Everything is idempotent: a file that was cut off
or is read again changes nothing that is done and gives the same output.
"""

from __future__ import annotations

import sqlite3
from codecs import BOM_UTF8
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from typing import IO, Any, Final

from schemas.commands.game import (
    GameCommand,
    OpenCoup,
    OpenTable,
    SetHouse,
)
from schemas.commands.wallet import (
    Deposit,
    PlaceBet,
)
from schemas.house import House, shipped_houses
from schemas.refusal import Refusal
from services.room.flight import CoupFlight, Stage, refusal_of
from services.room.lines import CoupLine, DepositLine, LineError, parse_line
from services.room.records import Records
from services.room.room import Room, Stalled
from services.room.settlements import SettlementsFile
from services.wallet.core.state import CoupKey

_IN_FLIGHT_MAX: Final = 256
_LINE_BYTES_MAX: Final = 4 * 1024 * 1024


@dataclass
class IngestReport:
    """What came of a file."""

    lines: int = 0
    deposits: int = 0
    coups: int = 0
    bets: int = 0
    refused_bets: int = 0
    repeated: int = 0
    """Lines that were known already."""
    rejected: int = 0
    staked: dict[str, int] = field(default_factory=dict)
    """Minor units by currency; refused bets do not count."""
    returned: dict[str, int] = field(default_factory=dict)
    commission: dict[str, int] = field(default_factory=dict)


Rejected = Callable[[int, LineError, bytes], None]
Progress = Callable[[int], None]
"""Told how many bytes of the file were read."""


@dataclass
class _DepositFlight:
    """A deposit that wallet has not answered yet."""

    accounts: frozenset[str]
    answer: Future[Any]
    number: int
    raw: bytes
    table: None = None

    def advance(self) -> None:
        pass

    @property
    def finished(self) -> bool:
        return self.answer.done()

    @property
    def refusal(self) -> Refusal | None:
        return refusal_of(self.answer)


@dataclass
class _CoupFlight:
    """A coup on its way, with the line that it came from."""

    line: CoupLine
    flight: CoupFlight
    accounts: frozenset[str]
    table: str
    number: int
    raw: bytes
    known: bool

    def advance(self) -> None:
        self.flight.advance()

    @property
    def finished(self) -> bool:
        return self.flight.finished

    @property
    def refusal(self) -> Refusal | None:
        return self.flight.refusal


@dataclass
class _Rejection:
    """A line that was refused at once. It waits for its turn: rejections stand in the file's order."""

    error: LineError
    number: int
    raw: bytes
    accounts: frozenset[str] = frozenset()
    table: None = None
    finished: bool = True

    def advance(self) -> None:
        pass


_Flight = _DepositFlight | _CoupFlight | _Rejection


class Ingest:
    """Reads one file into a room."""

    def __init__(
        self,
        room: Room,
        settlements: SettlementsFile,
        rejected: Rejected,
        progress: Progress,
        houses: Mapping[str, House] | None = None,
    ) -> None:
        self.report = IngestReport()
        self._room, self._settlements, self._rejected, self._progress = room, settlements, rejected, progress
        self._houses = houses or shipped_houses()
        self._flying: deque[_Flight] = deque()
        self._busy_accounts: set[str] = set()
        self._busy_tables: set[str] = set()
        self._written = _WrittenCoups()
        self._operator = room.settings.operator
        self._records = Records(room)

    def read(self, source: IO[bytes]) -> IngestReport:
        """Take the whole file through, and wait until audit has seen all of it. For one file only."""
        with closing(self._written):
            return self._read(source)

    def _read(self, source: IO[bytes]) -> IngestReport:
        seen = 0
        for number, raw in _lines_of(source):
            seen += len(raw)
            if raw.strip():
                self.report.lines += 1
                try:
                    self._take(number, raw)
                except LineError as error:
                    self._fly(_Rejection(error, number, raw))
            self._progress(seen)
        while self._flying:
            self._move()
        self._room.settle()
        return self.report

    # One line.

    def _take(self, number: int, raw: bytes) -> None:
        if len(raw) > _LINE_BYTES_MAX:
            raise LineError("line", f"is longer than {_LINE_BYTES_MAX} bytes")
        line = parse_line(raw.rstrip(b"\r\n"), self._houses)
        if isinstance(line, DepositLine):
            accounts = frozenset((line.account,))
            self._wait_for(accounts, None)
            self._deposit(line, accounts, number, raw)
        else:
            accounts = frozenset(bet.account for bet in line.bets)
            self._wait_for(accounts, line)
            self._coup(line, accounts, number, raw)

    def _wait_for(self, accounts: frozenset[str], line: CoupLine | None) -> None:
        """Let what this line depends on land first; it must see the balances that a reader would expect."""
        while len(self._flying) >= _IN_FLIGHT_MAX or not self._may_follow(accounts, line):
            self._move()

    def _may_follow(self, accounts: frozenset[str], line: CoupLine | None) -> bool:
        """Whether a line may start now.

        It may where nothing in flight has its accounts or its table, and also right behind a coup of the same
        table that is only waiting for its cards: game opens the next coup when that one is concluded, in the
        same breath, and wallet pays the one before it takes bets on the other.
        """
        table = None if line is None else line.table
        if self._busy_accounts.isdisjoint(accounts) and table not in self._busy_tables:
            return True
        ahead = [
            each for each in self._flying if each.table == table or not each.accounts.isdisjoint(accounts)
        ]
        return (
            line is not None
            and len(ahead) == 1
            and isinstance(ahead[0], _CoupFlight)
            and ahead[0].table == table
            and (ahead[0].line.shoe, ahead[0].line.coup) != (line.shoe, line.coup)
            and ahead[0].flight.stage is Stage.PLAYING
        )

    def _deposit(self, line: DepositLine, accounts: frozenset[str], number: int, raw: bytes) -> None:
        command = Deposit(
            operator=self._operator,
            account=line.account,
            tx=line.tx,
            currency=line.currency,
            amount=line.amount,
        )
        self._records.check_deposit(line)
        self._fly(_DepositFlight(accounts, self._room.wallet.submit(command), number, raw))

    def _coup(self, line: CoupLine, accounts: frozenset[str], number: int, raw: bytes) -> None:
        finished = self._records.check_coup(line)
        opening = OpenCoup(
            operator=self._operator,
            table=line.table,
            shoe=line.shoe,
            coup=line.coup,
            cards=line.cards,
            # A recorder may note who dealt at any table; it is a fact of the game where players deal.
            dealer_seat=line.dealer_seat if line.house.deal.dealt_by == "players" else None,
        )
        bets = [
            PlaceBet(
                operator=self._operator,
                table=line.table,
                shoe=line.shoe,
                coup=line.coup,
                account=bet.account,
                tx=bet.tx,
                seat=bet.seat,
                spot=bet.spot,
                currency=bet.currency,
                stake=bet.stake,
            )
            for bet in line.bets
        ]
        before = [] if finished else self._table_ready(line)
        flight = CoupFlight(self._room, opening, [] if finished else bets, before)
        self._fly(_CoupFlight(line, flight, accounts, line.table, number, raw, finished))

    def _table_ready(self, line: CoupLine) -> list[GameCommand]:
        """Commands that open the table, or set the house that this line plays by."""
        table = self._room.table(line.table)
        if table is None:
            return [
                OpenTable(
                    operator=self._operator,
                    table=line.table,
                    house=line.house,
                    shard=self._room.settings.shard,
                    seats=max(line.house.table.seats),
                    source="recorded",
                )
            ]
        if table.house != line.house:
            return [SetHouse(operator=self._operator, table=line.table, house=line.house)]
        return []

    # Moving on.

    def _fly(self, flight: _Flight) -> None:
        self._flying.append(flight)
        self._busy_accounts |= flight.accounts
        if flight.table is not None:
            self._busy_tables.add(flight.table)

    def _move(self) -> None:
        """One turn of the room, then of every flight; those at the head that are done are written down."""
        self._room.turn()
        for flight in self._flying:
            flight.advance()
        landed = 0
        while self._flying and self._flying[0].finished:
            self._land(self._flying.popleft())
            landed += 1
        if landed:
            self._busy_accounts = set().union(*(each.accounts for each in self._flying))
            self._busy_tables = {each.table for each in self._flying if each.table is not None}

    def _land(self, flight: _Flight) -> None:
        if isinstance(flight, _Rejection):
            self._reject(flight.number, flight.error, flight.raw)
            return
        refusal = flight.refusal
        if refusal is not None:
            if refusal.code == "TEMPORARY":
                raise Stalled(refusal.words)
            self._reject(flight.number, LineError(refusal.field, refusal.words), flight.raw)
        elif isinstance(flight, _DepositFlight):
            self.report.deposits += 1
            self.report.repeated += flight.answer.result().replayed
        else:
            self._write(flight)

    def _write(self, flight: _CoupFlight) -> None:
        key = CoupKey(self._operator, flight.line.table, flight.line.shoe, flight.line.coup)
        self.report.coups += 1
        self.report.repeated += flight.known
        if not self._written.add(key):
            return  # this very file had the line before: a row a bet, not two
        order = [(bet.account, bet.tx) for bet in flight.line.bets]
        for row in self._settlements.write_coup(self._room, key, order):
            self.report.bets += 1
            if row.status == "refused":
                self.report.refused_bets += 1
                continue
            for sums, amount in (
                (self.report.staked, row.stake),
                (self.report.returned, row.returned),
                (self.report.commission, row.commission),
            ):
                sums[row.currency] = sums.get(row.currency, 0) + amount

    def _reject(self, number: int, error: LineError, raw: bytes) -> None:
        self.report.rejected += 1
        self._rejected(number, error, raw)


class _WrittenCoups:
    """Which coups this run has written rows for. On disk, so that a long file does not fill the memory."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect("", isolation_level=None)
        self._connection.execute("PRAGMA synchronous=OFF")
        self._connection.execute("PRAGMA journal_mode=OFF")
        self._connection.execute(
            'CREATE TABLE written ("table", shoe, coup, PRIMARY KEY ("table", shoe, coup)) WITHOUT ROWID'
        )

    def add(self, key: CoupKey) -> bool:
        """True where the coup was not there yet."""
        cursor = self._connection.execute(
            "INSERT OR IGNORE INTO written VALUES (?, ?, ?)", (key.table, key.shoe, key.coup)
        )
        return cursor.rowcount == 1

    def close(self) -> None:
        """Drop the list."""
        self._connection.close()


def _lines_of(source: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Numbered lines. One that is too long is cut, and its rest passed over, so that memory stays bounded."""
    number = 0
    while raw := source.readline(_LINE_BYTES_MAX + 1):
        number += 1
        yield number, raw.removeprefix(BOM_UTF8) if number == 1 else raw
        while len(raw) > _LINE_BYTES_MAX and not raw.endswith(b"\n"):
            raw = source.readline(_LINE_BYTES_MAX + 1)
