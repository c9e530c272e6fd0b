"""Wallet over real files, and a game that says whatever a test wants it to say."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi import FastAPI

from schemas.commands.wallet import (
    Deposit,
    PlaceBet,
    RepairSettlement,
    WalletCommand,
)
from schemas.envelope import Recorded, decode
from schemas.events.base import EventRef, Outcome, Payload, game_stream
from schemas.events.game import (
    BettingClosed,
    CoupConcluded,
    CoupCorrected,
    CoupOpened,
    CoupVoided,
    HouseSet,
    SeatLeft,
    ShoeEnded,
    TableClosed,
    TableOpened,
)
from schemas.house import House, shipped_houses
from schemas.refusal import Refusal
from services.runtime.bus.embedded import EmbeddedBus
from services.runtime.callers import Authenticator
from services.runtime.database import open_sqlite
from services.runtime.installation import Installation
from services.runtime.operators import Operators
from services.runtime.ports import Record
from services.runtime.ports_system import ManualClock, SeededIds
from services.runtime.settings import Settings
from services.runtime.store import read_all
from services.runtime.writer import Writer
from services.wallet import queries, store
from services.wallet.api import wallet_app
from services.wallet.core.postings import BETS_IN_PLAY
from services.wallet.core.state import CoupKey, Policy, WalletState
from services.wallet.queries import BetRecord
from services.wallet.wiring import open_wallet
from tests.contracts.streams import START, Stream

OPERATOR, TABLE, SHOE = "op", "T1", "S1"
SPOTS = ("player", "banker", "tie")
HOUSES = shipped_houses()

TIERS: dict[Outcome, dict[str, str]] = {
    "player": {"player": "win", "banker": "lose", "tie": "lose"},
    "banker": {"player": "lose", "banker": "win", "tie": "lose"},
    "tie": {"player": "push", "banker": "push", "tie": "win"},
}
"""What game says of the three main spots."""


Line = tuple[str, str | None, str]
"""Account number, party, currency: of the one operator of these tests."""


def house(**commission: str) -> House:
    """The Dutch house, with another rounding or rate."""
    document = HOUSES["nl"].model_dump()
    document["commission"] |= commission
    return House.model_validate(document)


class Game:
    """What wallet hears of a table. It says anything, in a proper chain."""

    def __init__(self, table: str = TABLE, operator: str = OPERATOR) -> None:
        self.stream = Stream(game_stream(operator, table))
        self.operator, self.table = operator, table
        self.house_number = 0
        self.results: dict[int, EventRef] = {}
        """The event with each coup's latest result."""

    def _said(self, payload: Payload) -> Record:
        self.stream.next(payload)
        return self.stream.record(len(self.stream.events))

    def open_table(self, rules: House | str = "nl", shard: str = "main") -> list[Record]:
        place = {"operator": self.operator, "table": self.table}
        opened = TableOpened(**place, shard=shard, seats=9, source="virtual")
        return [self._said(opened), self.set_house(rules)]

    def set_house(self, rules: House | str) -> Record:
        self.house_number += 1
        document = HOUSES[rules] if isinstance(rules, str) else rules
        return self._said(
            HouseSet(operator=self.operator, table=self.table, house_number=self.house_number, house=document)
        )

    def open(self, coup: int, spots: Sequence[str] = SPOTS, house_number: int | None = None) -> Record:
        number = house_number or self.house_number
        return self._said(
            CoupOpened(**self._coup(coup), house_number=number, spots=tuple(spots), dealer_seat=None)
        )

    def close(self, coup: int) -> Record:
        return self._said(BettingClosed(**self._coup(coup)))

    def conclude(
        self, coup: int, outcome: Outcome, *, version: int = 1, tiers: dict[str, str] | None = None
    ) -> Record:
        concluded = CoupConcluded(
            **self._coup(coup),
            version=version,
            **_points(outcome),
            cards=5,
            tiers=tiers or TIERS[outcome],
        )
        return self._resulted(coup, concluded)

    def void(self, coup: int, reason: str = "no seal in time") -> Record:
        return self._said(CoupVoided(**self._coup(coup), reason=reason))

    def correct(
        self, coup: int, outcome: Outcome, version: int = 2, *, reason: str = "a card was misread"
    ) -> Record:
        """The coup had another result than was announced last."""
        corrected = CoupCorrected(
            **self._coup(coup),
            version=version,
            corrects=self.results[coup],
            **_points(outcome),
            hands=(),
            tiers=TIERS[outcome],
            reason=reason,
            initiator="person:pit",
            approver="person:boss",
        )
        return self._resulted(coup, corrected)

    def void_after(self, coup: int, version: int = 2, *, reason: str = "the shoe was not whole") -> Record:
        """The coup does not count, although it had a result."""
        voided = CoupVoided(
            **self._coup(coup),
            reason=reason,
            approver="boss",
            corrects=self.results[coup],
            version=version,
            initiator="person:pit",
        )
        return self._resulted(coup, voided)

    def leave_seat(self, seat: int) -> Record:
        return self._said(SeatLeft(operator=self.operator, table=self.table, seat=seat))

    def end_shoe(self) -> Record:
        return self._said(
            ShoeEnded(
                operator=self.operator,
                table=self.table,
                shoe=SHOE,
                reason="cut_card",
                cards_out=400,
                seed=None,
            )
        )

    def close_table(self) -> Record:
        return self._said(TableClosed(operator=self.operator, table=self.table, reason="closing time"))

    def _resulted(self, coup: int, payload: Payload) -> Record:
        record = self._said(payload)
        event = self.stream.events[-1]
        self.results[coup] = EventRef(stream=event.stream, sequence=event.sequence, hash=event.hash)
        return record

    def _coup(self, coup: int) -> dict[str, Any]:
        return {"operator": self.operator, "table": self.table, "shoe": SHOE, "coup": coup}


def _points(outcome: Outcome) -> dict[str, Any]:
    return {
        "outcome": outcome,
        "player_total": {"player": 7, "banker": 1, "tie": 6}[outcome],
        "banker_total": {"player": 1, "banker": 7, "tie": 6}[outcome],
        "natural": False,
    }


class World:
    """One wallet shard through all its restarts."""

    def __init__(
        self, folder: Path, settings: Settings | None = None, *, policy: Policy | None = None
    ) -> None:
        """``policy``: what the operator's contract says; nothing, if it is left out."""
        self.folder = folder
        self.policy = policy
        self.settings = settings or Settings(operator=OPERATOR)
        self.clock = ManualClock(START)
        self.ids = SeededIds("wallet-tests")
        self.bus = EmbeddedBus(folder / "bus.db")
        self.reader = open_sqlite(folder / "wallet.db", writer=False)
        self.game = Game()
        self._txs = 0
        self.wallet: Writer[WalletCommand] = self._open()

    def __enter__(self) -> "World":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wallet.close()
        self.bus.close()

    def _open(self) -> Writer[WalletCommand]:
        writer = open_wallet(
            Installation(self.folder), self.bus, self.settings, clock=self.clock, ids=self.ids
        )
        if self.policy is not None:
            policies = {OPERATOR: self.policy}
            service: Any = writer.service
            service._policies = service.state.policies = policies
        return writer

    def use(self, policy: Policy) -> None:
        """From now on the operator's contract says this."""
        self.policy = policy
        self.restart()

    def restart(self) -> None:
        self.wallet.close()
        self.wallet = self._open()
        self.run()

    def run(self) -> None:
        """Step until nothing is left to do."""
        while self.wallet.step():
            pass

    def hear(self, *records: Record | list[Record]) -> None:
        """Publish what game said, and let wallet do what it must."""
        flat = [one for each in records for one in (each if isinstance(each, list) else [each])]
        self.bus.publish(flat)
        self.run()

    # -------------------------------------------------------------------------------------- commands

    def ask(self, command: WalletCommand) -> Any:
        """The answer to a command, carried out at once."""
        answer = self.wallet.submit(command)
        self.run()
        return answer.result(0)

    def tx(self) -> str:
        """A transaction id that was not used."""
        self._txs += 1
        return f"tx-{self._txs}"

    def deposit(self, account: str, amount: int, *, tx: str | None = None, currency: str = "EUR") -> Any:
        return self.ask(
            Deposit(operator=OPERATOR, account=account, tx=tx or self.tx(), currency=currency, amount=amount)
        )

    def bet_command(
        self,
        account: str,
        spot: str,
        stake: int,
        *,
        coup: int = 1,
        tx: str | None = None,
        currency: str = "EUR",
        seat: int | None = None,
        table: str = TABLE,
        grant: str | None = None,
    ) -> PlaceBet:
        return PlaceBet(
            operator=OPERATOR,
            table=table,
            shoe=SHOE,
            coup=coup,
            account=account,
            tx=tx or self.tx(),
            seat=seat,
            spot=spot,
            currency=currency,
            stake=stake,
            grant=grant,
        )

    def command(self, kind: type[Any], /, **fields: Any) -> Any:
        """A command with what is the same in most tests: Ann's, in euro, with an id of its own."""
        same: dict[str, Any] = {
            "operator": OPERATOR,
            "account": "Ann",
            "currency": "EUR",
            "by": "machine:till",
            "initiator": "person:carl",
            "approver": "person:anna",
            "reason": "asked for",
        }
        given = {name: value for name, value in same.items() if name in kind.model_fields} | fields
        if "tx" in kind.model_fields:
            given.setdefault("tx", self.tx())
        return kind(**given)

    def do(self, kind: type[Any], /, **fields: Any) -> Any:
        """The answer to such a command."""
        return self.ask(self.command(kind, **fields))

    def refusal(self, kind: type[Any], /, **fields: Any) -> Refusal:
        """The refusal of such a command, which nothing remembers."""
        with pytest.raises(Refusal) as caught:
            self.do(kind, **fields)
        return caught.value

    def bet(self, account: str, spot: str, stake: int, **fields: Any) -> Any:
        return self.ask(self.bet_command(account, spot, stake, **fields))

    def submit(self, *commands: WalletCommand) -> list[Future[Any]]:
        """Queue commands without doing them yet."""
        return [self.wallet.submit(command) for command in commands]

    def repair(self, coup: int, version: int = 1) -> Any:
        return self.ask(
            RepairSettlement(operator=OPERATOR, table=TABLE, shoe=SHOE, coup=coup, version=version)
        )

    def open_table(self, rules: House | str = "nl", coups: int = 1) -> None:
        """A table at which coups 1 to ``coups`` are open for betting."""
        self.hear(self.game.open_table(rules), [self.game.open(coup) for coup in range(1, coups + 1)])

    def play(self, coup: int, outcome: Outcome) -> None:
        """Close, seal and settle a coup that is open."""
        self.hear(self.game.close(coup), self.game.conclude(coup, outcome))

    # ----------------------------------------------------------------------------------- what is there

    @property
    def state(self) -> WalletState:
        state = self.wallet.service.state  # type: ignore[attr-defined]
        assert isinstance(state, WalletState)
        return state

    def events(self, *kinds: type[Payload]) -> list[Recorded[Any]]:
        """Wallet's events as they lie in its store, of these types or all."""
        with self.reader.connect() as db, db.begin():
            every = [decode(each.body) for each in read_all(db)]
        return [event for event in every if not kinds or isinstance(event.data, kinds)]

    def balances(self) -> dict[Line, int]:
        """The trial balance, debits positive; what is in play as one sum a currency."""
        totals: dict[Line, int] = {}
        for (_, number, party, currency), amount in self.state.ledger.balances().items():
            line = (number, None if number == BETS_IN_PLAY else party, currency)
            totals[line] = totals.get(line, 0) + amount
        return totals

    def totals(self, currency: str = "EUR") -> dict[str, int]:
        """Net debit of each account of the chart that is not nothing."""
        totals: dict[str, int] = {}
        for (number, _, of), amount in self.balances().items():
            if of == currency:
                totals[number] = totals.get(number, 0) + amount
        return {number: amount for number, amount in totals.items() if amount}

    def wealth(self, account: str = "Ann", currency: str = "EUR") -> dict[str, str]:
        """What of a player's balance view is not nothing (W32)."""
        with self.reader.connect() as db, db.begin():
            views = {each.pop("currency"): each for each in queries.balances_of(db, OPERATOR, account)}
        return {name: text for name, text in views.get(currency, {}).items() if text.strip("0.")}

    def cash(self, account: str, currency: str = "EUR") -> int:
        return self.state.ledger.cash(OPERATOR, self.account(account), currency)

    def account(self, reference: str) -> str:
        """The opaque id behind an operator's reference."""
        with self.reader.connect() as db, db.begin():
            return store.find_references(db, [(OPERATOR, reference)])[OPERATOR, reference]

    def bets(self, coup: int = 1) -> Sequence[BetRecord]:
        with self.reader.connect() as db, db.begin():
            return queries.bets_of_coup(db, CoupKey(OPERATOR, TABLE, SHOE, coup))

    def rows(self, table: sa.Table) -> list[tuple[Any, ...]]:
        """A projection's rows, in the order of their keys."""
        with self.reader.connect() as db, db.begin():
            return rows_of(db, table)


def app_of(world: World) -> FastAPI:
    """Wallet's HTTP interface, at which nobody is asked who he is."""
    authenticator = Authenticator(Operators.open(world.settings), world.clock)
    return wallet_app(world.wallet, world.reader, authenticator, world.clock)


def wealth(currency: str, *, cash: str, in_play: str) -> dict[str, str]:
    """What a player has who has only cash and bets (W32)."""
    nothing = dict.fromkeys(("bonus", "held", "withdrawing", "negative_receivable"), "0.00")
    return {"currency": currency, "cash": cash, "in_play": in_play, "withdrawable": cash} | nothing


def lines_of(event: Recorded[Any]) -> dict[str, int]:
    """An event's journal entry: net debit by account of the chart."""
    lines: dict[str, int] = {}
    for posting in event.data.entry:
        lines[posting.ledger] = lines.get(posting.ledger, 0) + posting.amount
    return lines


def rows_of(db: sa.Connection, table: sa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in db.execute(sa.select(table).order_by(*table.primary_key))]


def entries(events: Sequence[Recorded[Any]]) -> Iterator[Any]:
    """The journal entries of events that move money."""
    return (event.data.entry for event in events if hasattr(event.data, "entry"))
