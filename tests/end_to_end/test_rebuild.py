"""Every projection can be dropped and made again: from events alone it comes out as the live tables are."""

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection, Engine

from schemas.commands.game import (
    CloseBetting,
    CloseTable,
    CommitShoe,
    GameCommand,
    LeaveSeat,
    LoadShoe,
    OpenCoup,
    OpenTable,
    TakeSeat,
    VoidCoup,
)
from schemas.commands.wallet import (
    Deposit,
    GrantFreeBet,
    HoldFunds,
    PlaceBet,
    RequestWithdrawal,
    SetLimit,
    WithdrawalStep,
)
from schemas.envelope import Recorded, decode
from schemas.house import shipped_houses
from schemas.refusal import Refusal
from services.audit import store as audit_store
from services.audit.core.verifier import Verifier
from services.audit.verify import verify
from services.game import store as game_store
from services.game.core.table import needs
from services.game.service import GameService
from services.room.ingest import Ingest
from services.room.local import LocalRoom
from services.room.settlements import SettlementsFile
from services.runtime.database import migrate, open_sqlite
from services.runtime.installation import Installation
from services.runtime.ports_system import ManualClock, SystemIds, SystemRng
from services.runtime.settings import Settings
from services.runtime.store import EventStore, read_all
from services.runtime.tables import table_of
from services.wallet import store as wallet_store
from services.wallet import tables as wallet_tables
from services.wallet.service import WalletService
from tests.end_to_end.support import database, sabot

HOUSES = shipped_houses()
AUDIT_PROJECTIONS = (table_of(audit_store.VerdictRow), table_of(audit_store.FindingRow))
SECRETS = (table_of(game_store.UndealtSeedRow), table_of(game_store.UndealtCardsRow))


class Story:
    """A room that is opened, left in the middle of things, and opened again."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.clock = ManualClock(datetime(2026, 1, 2, 20, tzinfo=UTC))

    @contextmanager
    def room(self) -> Iterator[LocalRoom]:
        with LocalRoom(
            Installation(self.data), Settings(), clock=self.clock, ids=SystemIds(), rng=SystemRng()
        ) as room:
            yield room
            room.settle()

    def tell(self) -> None:
        """Of everything that can happen at a table something happens."""
        sabot("demo", "--coups", "6", "--seats", "3", "--data", self.data)
        sabot("demo", "--house", "lt", "--coups", "6", "--seats", "4", "--data", self.data)
        sabot("demo", "--house", "de", "--coups", "4", "--seats", "2", "--data", self.data)
        self.record_coups()
        self.void_coups_and_close_a_table()
        self.move_money()
        self.leave_coups_open()
        self.publish_rubbish()
        with self.room():
            pass  # and everything is read once more

    def record_coups(self) -> None:
        table: dict[str, Any] = {"type": "coup", "table": "R", "house": "nl"}
        bets = [
            {"account": "rita", "tx": "r1", "spot": "player", "stake": "30.00", "currency": "EUR"},
            {"account": "rita", "tx": "r2", "spot": "tie", "stake": "1000.00", "currency": "EUR"},
            {"account": "nobody", "tx": "n", "spot": "tie", "stake": "1.00", "currency": "EUR"},
        ]
        lines = [
            {"type": "deposit", "account": "rita", "tx": "d1", "amount": "30.00", "currency": "EUR"},
            {"type": "deposit", "account": "rita", "tx": "d2", "amount": "500", "currency": "JPY"},
            {**table, "shoe": "S1", "coup": 1, "cards": ["8C", "8C", "7C", "5D", "9D", "QH"], "bets": bets},
            {**table, "shoe": "S2", "coup": 9, "cards": ["6C", "6D", "KH", "KS"]},
            {**table, "shoe": "S1", "coup": 2, "cards": ["6C", "6D", "KH", "KS"], "house": "fr"},
        ]
        for _ in range(2):  # the second time changes nothing
            source = io.BytesIO("".join(json.dumps(line) + "\n" for line in lines).encode())
            with self.room() as room:
                report = Ingest(room, SettlementsFile(io.StringIO()), print, lambda _: None).read(source)
            assert (report.rejected, report.refused_bets) == (0, 2)

    def void_coups_and_close_a_table(self) -> None:
        place: dict[str, Any] = {"operator": "main", "table": "V"}
        coup: dict[str, Any] = {**place, "shoe": "S1", "coup": 1}
        with self.room() as room:
            opening = OpenTable(**place, house=HOUSES["nl"], shard="main", seats=7, source="recorded")
            room.result(room.game.submit(opening))
            cards = ("6C", "6D", "KH", "KS")
            room.result(room.game.submit(OpenCoup(**coup, cards=cards)))
            deposit = Deposit(operator="main", account="vera", tx="d", currency="EUR", amount=500)
            room.result(room.wallet.submit(deposit))
            bet = PlaceBet(**coup, account="vera", tx="b", spot="tie", currency="EUR", stake=500)
            room.result(room.wallet.submit(bet))
        with self.room() as room:
            # Between the opening and the end everybody went home.
            room.result(room.game.submit(VoidCoup(**coup, reason="a card fell", approver="pit-boss")))
        with self.room() as room:
            room.result(room.game.submit(OpenCoup(**{**coup, "coup": 2}, cards=("6C", "6D", "KH", "KS"))))
            room.result(room.game.submit(CloseBetting(**{**coup, "coup": 2})))
            room.settle()
            room.result(room.game.submit(CloseTable(**place, reason="the evening is over")))
            with pytest.raises(Refusal, match="closed"):
                room.result(room.game.submit(OpenCoup(**{**coup, "coup": 3}, cards=cards)))

    def move_money(self) -> None:
        """Things that stay open over days, and some that end."""
        rosa: dict[str, Any] = {"operator": "main", "account": "rosa", "currency": "EUR"}
        step: dict[str, Any] = {"operator": "main", "withdrawal": "main.w1", "by": "anna"}
        with self.room() as room:
            for command in (
                Deposit(**rosa, tx="d", amount=9_000),
                RequestWithdrawal(**rosa, tx="w", amount=2_000),
                WithdrawalStep(**step, tx="s1", step="approve"),
                WithdrawalStep(**step, tx="s2", step="pay"),
                HoldFunds(**rosa, tx="h", amount=1_000, kind="risk", reason="a look", by="anna"),
                GrantFreeBet(**rosa, tx="g", amount=500, campaign="welcome", by="anna"),
                SetLimit(**rosa, tx="l", kind="stake", period="day", value=5_000, by="rosa"),
            ):
                room.result(room.wallet.submit(command))

    def leave_coups_open(self) -> None:
        """One coup with betting open, one whose seal came too late, a shoe that waits for its entropy."""
        for table, house in (("O", "lt"), ("L", "nl")):
            place: dict[str, Any] = {"operator": "main", "table": table}
            shoe: dict[str, Any] = {**place, "shoe": "S1"}
            with self.room() as room:
                opening = OpenTable(**place, house=HOUSES[house], shard="main", source="virtual")
                commands: list[GameCommand] = [opening, *(TakeSeat(**place, seat=seat) for seat in (2, 5, 7))]
                commands += [
                    CommitShoe(**shoe),
                    CommitShoe(**place, shoe="S2"),
                    LoadShoe(**shoe, entropy="e"),
                ]
                commands += [LeaveSeat(**place, seat=2), OpenCoup(**shoe, coup=4)]
                for command in commands:
                    room.result(room.game.submit(command))
                room.settle()
                for tx in ("late", "early"):
                    deposit = Deposit(
                        operator="main", account=f"{table}{tx}", tx="d", currency="EUR", amount=1000
                    )
                    room.result(room.wallet.submit(deposit))
                bet = PlaceBet(
                    **shoe,
                    coup=4,
                    account=f"{table}early",
                    tx="b",
                    seat=5,
                    spot="player",
                    currency="EUR",
                    stake=9,
                )
                room.result(room.wallet.submit(bet))
        # At the second table betting closes, and nobody steps wallet before the time limit.
        with self.room() as room:
            closing = room.game.submit(CloseBetting(operator="main", table="L", shoe="S1", coup=4))
            room.game.step()
            assert closing.done()
            self.clock.advance(60)
            room.game.step()
            room.settle()
            late = PlaceBet(
                operator="main",
                table="L",
                shoe="S1",
                coup=4,
                account="Llate",
                tx="b",
                spot="player",
                currency="EUR",
                stake=1,
            )
            assert room.result(room.wallet.submit(late)).code == "ROUND_CLOSED"

    def publish_rubbish(self) -> None:
        """Somebody else writes on our bus: audit has something to find."""
        with database(self.data / "bus.db") as db:
            db.execute(
                'INSERT INTO record (topic_id, "key", body) SELECT id, ?, ? FROM topic WHERE name = ?',
                ("game/main.T1", b"not an event", "game.events"),
            )


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    story = Story(tmp_path_factory.mktemp("rebuild") / "data")
    story.tell()
    return story.data


def test_the_story_has_everything_in_it(data):
    result = verify(Installation(data))
    assert result.verified == 6 + 6 + 4 + 3 + 2 + 1
    assert (result.void, result.open) == (2, 1)
    # For lack of money; the bet that came when its coup was over is in no coup's account.
    assert result.refused_bets == 2
    assert {finding.check for finding in result.findings} == {"integrity_extra"}
    assert {notice.check for notice in result.notices} == {"bus_not_ours"}
    kinds = {event.envelope.type for producer in ("game", "wallet") for event in stored(data, producer)}
    assert len(kinds) >= 23


def stored(data: Path, producer: str) -> list[Recorded[Any]]:
    """Every event of a service's own store, in the order in which it was committed."""
    with reading(data / f"{producer}.db") as db:
        return [decode(each.body) for each in read_all(db)]


def on_the_bus(data: Path) -> list[Recorded[Any]]:
    """What consumers have read, in their order: each event once, and nothing that is not ours."""
    with database(data / "bus.db") as db:
        bodies = [body for (body,) in db.execute('SELECT body FROM record ORDER BY "offset"')]
    events = [decode(body) for body in bodies if body != b"not an event"]
    return list({event.envelope.id: event for event in events}.values())


@contextmanager
def reading(path: Path) -> Iterator[Connection]:
    engine = open_sqlite(path, writer=False)
    with engine.connect() as db, db.begin():
        yield db


def rows(db: Connection, table: sa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in db.execute(sa.select(table).order_by(*table.primary_key))]


def new_database(path: Path, service: str) -> Engine:
    engine = open_sqlite(path, writer=True)
    migrate(engine, service)
    return engine


def assert_the_same(live: Path, made_again: Engine, tables: Sequence[sa.Table]) -> None:
    """Row for row, and not because nothing is there."""
    with reading(live) as old, made_again.connect() as new, new.begin():
        for table in tables:
            expected = rows(old, table)
            assert rows(new, table) == expected, table.name
            assert expected, f"{table.name} is empty: nothing was compared"


def fold(service: WalletService, events: Iterable[Recorded[Any]]) -> None:
    """Game's events and wallet's own; audit's are nothing to it."""
    for event in events:
        if event.stream.startswith("wallet/"):
            service.evolve(event)
        elif event.stream.startswith("game/"):
            service.observe(event)


def portions(events: Sequence[Recorded[Any]], size: int) -> Iterator[Sequence[Recorded[Any]]]:
    return (events[start : start + size] for start in range(0, len(events), size))


@pytest.mark.parametrize("batch", [1, 17, 100_000])
def test_games_tables_come_again_from_its_events_and_secrets(data, tmp_path, batch):
    engine = new_database(tmp_path / "game.db", "game")
    service = GameService(SystemRng(), seal_timeout_seconds=30)
    with reading(data / "game.db") as live, engine.begin() as db:
        for table in SECRETS:
            for row in live.execute(sa.select(table)).mappings():
                db.execute(sa.insert(table), dict(row))
        service.load(db)
    state = service.state
    for events in portions(stored(data, "game"), batch):
        with engine.begin() as db:
            for event in events:
                asked = needs(event)
                # In a batch some were met already; what is not in memory is in the new database.
                shoes = [key for key in asked.shoes if key not in state.known_shoes]
                found = game_store.find_shoes(db, shoes)
                state.known_shoes.update((key, found.get(key)) for key in shoes)
                coups = [key for key in asked.coups if key not in state.known_coups]
                ended = game_store.find_coups(db, coups)
                state.known_coups.update((key, ended.get(key)) for key in coups)
                for key in asked.cards:
                    if (cards := game_store.find_undealt_cards(db, key)) is not None:
                        state.undealt.cards[key] = cards
                service.evolve(event)
            service.save(db)
    assert_the_same(data / "game.db", engine, game_store.PROJECTIONS)


@pytest.mark.parametrize("batch", [1, 17, 100_000])
@pytest.mark.parametrize("order", ["as on the bus", "game first"])
def test_wallets_tables_come_again_from_games_events_and_its_own(data, tmp_path, batch, order):
    game, wallet = stored(data, "game"), stored(data, "wallet")
    events = on_the_bus(data) if order == "as on the bus" else [*game, *wallet]
    assert {event.envelope.id for event in events} >= {event.envelope.id for event in [*game, *wallet]}
    engine = new_database(tmp_path / "wallet.db", "wallet")
    service = WalletService("main", SystemIds())
    with engine.begin() as db:
        service.load(db)
    for portion in portions(events, batch):
        with engine.begin() as db:
            fold(service, portion)
            service.save(db)
    assert_the_same(data / "wallet.db", engine, wallet_tables.PROJECTIONS)
    # And what a fresh start reads from these tables, beside the events, is what the fold has in memory.
    with closing(EventStore(engine)) as store, store.transaction() as db:
        store.append(db, wallet)
    with engine.connect() as db, db.begin():
        loaded = wallet_store.load_state(db, "main")
    assert dict(loaded.ledger.balances()) == dict(service.state.ledger.balances())
    assert loaded.coups == service.state.coups
    assert (loaded.accounts, loaded.bets_taken) == (service.state.accounts, service.state.bets_taken)


@pytest.mark.parametrize("batch", [1, 100_000])
def test_audits_verdicts_and_findings_come_again_from_its_events(data, tmp_path, batch):
    engine = new_database(tmp_path / "audit.db", "audit")
    for events in portions(stored(data, "audit"), batch):
        with engine.begin() as db:
            audit_store.save_said(db, events)
    assert_the_same(data / "audit.db", engine, AUDIT_PROJECTIONS)


def test_audits_memory_comes_again_from_the_events_of_the_others(data):
    verifier = Verifier(persistent=True, gaps_are_known=True)
    pieces: dict[tuple[str, str], Any] = {}
    for event in on_the_bus(data):
        if not event.stream.startswith("audit/"):
            verifier.observe(event)
            for change in verifier.take_changes():
                if change.content is None:
                    pieces.pop((change.kind, change.key), None)
                else:
                    pieces[change.kind, change.key] = json.loads(change.content)
    with reading(data / "audit.db") as db:
        live = {(kind, key): json.loads(content) for kind, key, content in audit_store.load_pieces(db)}
    assert pieces == live
    assert {kind for kind, _ in live} >= {"stream", "table", "shoe", "coup", "bet", "purse", "books"}


def test_no_table_is_without_a_check(data):
    """What is no event, no bookkeeping and no secret is made again by a test of this file."""
    kept = {"stream", "event", "outbox", "inbox", "consumer_offset", "dead_letter", "alembic_version"}
    kept |= {"game_undealt_seed", "game_undealt_cards", "wallet_reference", "audit_evidence", "audit_stream"}
    projections = {*game_store.PROJECTIONS, *wallet_tables.PROJECTIONS, *AUDIT_PROJECTIONS}
    checked = {table.name for table in projections} | {"audit_piece"}
    for producer in ("game", "wallet", "audit"):
        with database(data / f"{producer}.db") as db:
            names = {
                name
                for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
                if not name.startswith("sqlite_")
            }
        assert names <= kept | checked, producer


def test_a_fold_that_is_cut_off_goes_on_from_the_tables(data, tmp_path):
    """A restart in the middle: the second half is folded by a service that was loaded from the first."""
    events = on_the_bus(data)
    engine = new_database(tmp_path / "wallet.db", "wallet")
    for half in (events[: len(events) // 2], events[len(events) // 2 :]):
        service = WalletService("main", SystemIds())
        with engine.begin() as db:
            service.load(db)
            fold(service, half)
            service.save(db)
        with closing(EventStore(engine)) as store, store.transaction() as db:
            store.append(db, [event for event in half if event.stream.startswith("wallet/")])
    assert_the_same(data / "wallet.db", engine, wallet_tables.PROJECTIONS)
