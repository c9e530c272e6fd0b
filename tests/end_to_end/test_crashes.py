"""Ingest that is cut off, anywhere and often: what comes out in the end is what an undisturbed run gives."""

import csv
import io
import json
import random
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from deploy.processes import SABOT
from schemas.house import shipped_houses
from services.audit.verify import verify
from services.game.core.tableau import play
from services.room.ingest import Ingest
from services.room.local import LocalRoom
from services.room.settlements import SettlementsFile
from services.runtime.bus.embedded import EmbeddedBus
from services.runtime.installation import Installation
from services.runtime.ports_system import SystemClock, SystemIds, SystemRng
from services.runtime.settings import Settings
from services.runtime.store import EventStore
from tests.end_to_end.support import database, events_of, eventually, sabot, sabot_json

HOUSE = shipped_houses()["nl"]


def recorded(coups: int, seed: str) -> list[dict[str, Any]]:
    """Coups of two tables in turn, from two shoes each. Player 3 bets at both."""
    chance = random.Random(seed)
    decks = [rank + suit for rank in "A23456789TJQK" for suit in "SHDC"] * 8
    shoes: dict[tuple[str, str], list[str]] = {}
    lines: list[dict[str, Any]] = []

    def deposit(account: str, amount: str) -> None:
        tx = f"d{len(lines)}"
        lines.append({"type": "deposit", "account": account, "amount": amount, "currency": "EUR", "tx": tx})

    for number in range(1, 6):
        deposit(f"player {number}", "100.00")
    for number in range(1, coups + 1):
        table = f"T{1 + number % 2}"
        players = [1, 2, 3] if table == "T1" else [3, 4, 5]
        name = f"S{1 + number // 60}"
        shoe = shoes.setdefault((table, name), chance.sample(decks, len(decks)))
        cards = [shoe.pop(0) for _ in range(play(shoe[:6], HOUSE.deal.order).used)]
        bets = [
            {
                "account": f"player {each}",
                "tx": f"{number}-{each}",
                "seat": each,
                "spot": chance.choice(["player", "banker", "banker", "tie"]),
                "stake": chance.choice(["5.00", "12.50", "40.01"]),
                "currency": "EUR",
            }
            for each in players
        ]
        where = {"table": table, "house": "nl", "shoe": name, "coup": number}
        lines.append({"type": "coup", **where, "cards": cards, "bets": bets})
        if number % 10 == 0:
            deposit(f"player {chance.choice(players)}", "50.00")
    return lines


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_an_ingest_that_is_killed_again_and_again_ends_as_if_it_never_was(tmp_path):
    file = write(tmp_path / "coups.jsonl", recorded(120, "killed"))
    undisturbed, cut = tmp_path / "undisturbed", tmp_path / "cut"
    sabot("ingest", file, "--data", undisturbed)
    expected = (undisturbed / "settlements.csv").read_bytes()
    rows = list(csv.DictReader(io.StringIO(expected.decode())))
    assert len(rows) == 360
    assert {row["status"] for row in rows} >= {"won", "lost", "push", "refused"}

    chance = random.Random("moments")
    reached = [0]
    for _ in range(4):
        ended = kill_within(file, cut, reached[-1], after_events=chance.randrange(1, 400))
        reached.append(events_on_the_bus(cut))
        assert not (cut / "settlements.csv").exists() or ended, "half a file is never taken for all of it"
    everything = len(events_of(undisturbed))
    assert any(0 < each < everything for each in reached), reached

    summary = sabot_json("ingest", file, "--data", cut)
    assert summary["rejected_lines"] == 0
    assert (cut / "settlements.csv").read_bytes() == expected
    for data in (undisturbed, cut):
        result = verify(Installation(data))
        assert (result.ok, result.verified, result.bets + result.refused_bets) == (True, 120, 360)


def kill_within(file: Path, data: Path, before: int, after_events: int) -> bool:
    """Start an ingest and kill it when so many more events are on the bus; whether it had ended by itself."""
    command: list[str | Path] = [SABOT, "ingest", file, "--data", data, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually(
            lambda: process.poll() is not None or events_on_the_bus(data) >= before + after_events,
            pause=0.005,
        )
        sleep(random.Random(after_events).random() / 200)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        status = process.wait()
    assert status in (0, -signal.SIGKILL)
    return status == 0


def events_on_the_bus(data: Path) -> int:
    if not (data / "bus.db").exists():
        return 0
    with database(data / "bus.db") as db:
        made = db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'record'").fetchone()[0]
        return db.execute("SELECT count(*) FROM record").fetchone()[0] if made else 0


# ------------------------------------------------------------------------ every point at which it can stop


class PowerCut(BaseException):
    """The machine stops, here. Not an ``Exception``: nobody handles it."""


class Power:
    """Counts every commit and every publishing, before and after, and fails at one of them for good."""

    def __init__(self, until: int | None = None) -> None:
        self.points = 0
        self._until = until

    def point(self) -> None:
        self.points += 1
        if self._until is not None and self.points >= self._until:
            raise PowerCut

    @contextmanager
    def supplied(self) -> Iterator[None]:
        """Stores and buses need this power in here."""
        transaction, publish = EventStore.transaction, EmbeddedBus.publish

        @contextmanager
        def watched_transaction(store: EventStore) -> Iterator[Any]:
            with transaction(store) as db:
                yield db
                self.point()
            self.point()

        def watched_publish(bus: EmbeddedBus, records: Any) -> None:
            self.point()
            publish(bus, records)
            self.point()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(EventStore, "transaction", watched_transaction)
            patch.setattr(EmbeddedBus, "publish", watched_publish)
            yield


SMALL = [
    {"type": "deposit", "account": "alice", "amount": "30.00", "currency": "EUR", "tx": "d1"},
    {
        "type": "coup",
        "table": "T1",
        "house": "nl",
        "shoe": "S1",
        "coup": 1,
        "cards": ["8C", "8C", "7C", "5D", "9D", "QH"],
        "bets": [
            {"account": "alice", "spot": "player", "stake": "30.00", "currency": "EUR", "tx": "b1"},
            {"account": "bob", "spot": "player", "stake": "1.00", "currency": "EUR", "tx": "b1"},
        ],
    },
    {
        "type": "coup",
        "table": "T1",
        "house": "lt",
        "shoe": "S1",
        "coup": 2,
        "dealer_seat": 4,
        "cards": ["KC", "7D", "2C", "6D"],
        "bets": [
            {"account": "alice", "spot": "player", "seat": 3, "stake": "60.00", "currency": "EUR", "tx": "b2"}
        ],
    },
]


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """Three databases and a bus in which nothing has happened: making them takes longer than a crash."""
    data = tmp_path_factory.mktemp("empty") / "data"
    with opened(data):
        pass
    return data


def opened(data: Path) -> LocalRoom:
    return LocalRoom(Installation(data), Settings(), clock=SystemClock(), ids=SystemIds(), rng=SystemRng())


def ingest(data: Path) -> str:
    """Take the small file in; the settlements."""
    source = io.BytesIO("".join(json.dumps(line) + "\n" for line in SMALL).encode())
    sheet = io.StringIO()
    with opened(data) as room:
        report = Ingest(room, SettlementsFile(sheet), _no_rejection, lambda _: None).read(source)
    assert (report.lines, report.coups, report.rejected) == (3, 2, 0)
    return sheet.getvalue()


def _no_rejection(number: int, error: Exception, raw: bytes) -> None:
    raise AssertionError(f"line {number} was rejected: {error}")


def cut_off(data: Path, until: int) -> None:
    with Power(until).supplied(), pytest.raises(PowerCut):
        ingest(data)


def assert_as_if_nothing_had_been(data: Path, expected: str) -> None:
    assert ingest(data) == expected
    result = verify(Installation(data))
    assert result.ok, [finding.words for finding in result.findings]
    assert (result.verified, result.bets, result.refused_bets, result.open) == (2, 2, 1, 0)
    shutil.rmtree(data)


@pytest.mark.parametrize("moment", ["odd", "even"])
def test_wherever_the_power_is_cut_the_rest_comes_out_the_same(empty, tmp_path, moment):
    expected, points = undisturbed(empty, tmp_path)
    assert points > 60, "so many commits and publishings, each before and after"
    for until in range(1 if moment == "odd" else 2, points + 1, 2):
        data = Path(shutil.copytree(empty, tmp_path / str(until)))
        cut_off(data, until)
        assert_as_if_nothing_had_been(data, expected)


def test_a_power_cut_after_a_power_cut_changes_nothing_either(empty, tmp_path):
    expected, points = undisturbed(empty, tmp_path)
    chance = random.Random("twice")
    for number in range(8):
        data = Path(shutil.copytree(empty, tmp_path / str(number)))
        for _ in range(3):
            # What is left to do has fewer points each time: it may be done before the power is cut.
            with Power(chance.randrange(1, points // 2)).supplied():
                try:
                    ingest(data)
                except PowerCut:
                    continue
        assert_as_if_nothing_had_been(data, expected)


def undisturbed(empty: Path, folder: Path) -> tuple[str, int]:
    """The settlements, and at how many points the power could have been cut."""
    power = Power()
    data = Path(shutil.copytree(empty, folder / "undisturbed"))
    with power.supplied():
        settlements = ingest(data)
    assert settlements.splitlines()[1:] == [
        "T1,S1,1,player,4,3,alice,b1,player,30.00,60.00,0.00,EUR,won",
        "T1,S1,1,player,4,3,bob,b1,player,1.00,0.00,0.00,EUR,refused",
        "T1,S1,2,player,8,7,alice,b2,player,60.00,120.00,0.00,EUR,won",
    ]
    return settlements, power.points
