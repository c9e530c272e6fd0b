"""``make bench-wallet``: durable bets a second, on a PostgreSQL server of its own with
``synchronous_commit=on``.

Beside each other in one run: a hand-written transaction of two postings (``pgbench``, the physical
yardstick); wallet's writer in this process, by bets a commit, spread over accounts and all on one; and wallet
as a process, over HTTP, driven by ``wrk`` so that the client is not what is measured: bets one by one with 1,
16 and 64 callers, and batches of 100. Bytes on disk are of the database, a bet, after the spread run.

The bus is the embedded one, on files. Times depend on the machine; compare them within one run.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Final

import psycopg
from rich.console import Console
from rich.table import Table

from deploy.postgres.server import Server, find_binaries
from deploy.processes import ServiceProcess
from schemas.commands.game import CommitShoe, LoadShoe, OpenCoup, OpenTable
from schemas.commands.wallet import Deposit, PlaceBet, WalletCommand
from schemas.house import shipped_houses
from services.game.wiring import open_game
from services.room.preparing import prepare_installation
from services.runtime.bus.embedded import EmbeddedBus
from services.runtime.files import BUS_DATABASE
from services.runtime.installation import Installation
from services.runtime.memory import calm_collector
from services.runtime.ports_system import SystemClock, SystemIds, SystemRng
from services.runtime.settings import Settings
from services.runtime.writer import Limits, Writer
from services.wallet.wiring import open_wallet

OPERATOR: Final = "main"
ACCOUNTS: Final = 1_000
TABLES: Final = 16
_SPOTS: Final = ("player", "banker", "tie")

_YARDSTICK: Final = """\
\\set payer {payer}
\\set payee {payee}
BEGIN;
INSERT INTO journal (payer, payee, amount, memo) VALUES (:payer, :payee, 100, 'a bet of the yardstick');
UPDATE account SET balance = balance - 100 WHERE id = :payer;
UPDATE account SET balance = balance + 100 WHERE id = :payee;
COMMIT;
"""

_LUA: Final = """\
local thread_count = 0
function setup(thread)
  thread:set("mine", thread_count)
  thread_count = thread_count + 1
end
function init(args)
  run, batch, accounts, tables, n = args[1], tonumber(args[2]), {accounts}, {tables}, 0
end
local spots = {{"player", "banker", "tie"}}
local function bet()
  n = n + 1
  return string.format(
    '{{"account":"p%d","tx":"%s.%d.%d","table":"T%d","shoe":"S1","coup":1,"spot":"%s","currency":"EUR","stake":"1.00"}}',
    n % accounts, run, mine, n, n % tables, spots[n % 3 + 1])
end
function request()
  local headers = {{["Content-Type"] = "application/json"}}
  if batch == 1 then return wrk.format("POST", "/v1/bets", headers, bet()) end
  local bets = {{}}
  for i = 1, batch do bets[i] = bet() end
  return wrk.format("POST", "/v1/bets/batch", headers, '{{"bets":[' .. table.concat(bets, ",") .. ']}}')
end
function response(status, headers, body)
  if status ~= 200 then wrk.thread:stop() end
end
"""


@dataclass(frozen=True)
class Figure:
    """One line of the result."""

    what: str
    bets_per_second: float
    p50_ms: float | None = None
    p99_ms: float | None = None
    note: str = ""


class Database:
    """An installation on the server, with tables that are open for betting and players who have money."""

    def __init__(self, server: Server, folder: Path, name: str) -> None:
        self.server = server
        url = f"postgresql://{name}_{{service}}@127.0.0.1:{server.port}/{name}_{{service}}"
        self.where = Installation(folder, None, url)
        folder.mkdir()
        prepare_installation(self.where, server.url, lambda _: None)
        self.wallet_url = server.url.rsplit("/", 1)[0] + f"/{name}_wallet"
        self._open_tables(folder)

    def _open_tables(self, folder: Path) -> None:
        """Game says that there are tables with an open coup; it keeps its own books in a file."""
        settings, clock, ids = Settings(), SystemClock(), SystemIds()
        bus = EmbeddedBus(folder / BUS_DATABASE)
        game = open_game(Installation(folder), bus, settings, clock=clock, ids=ids, rng=SystemRng())
        with closing(bus), closing(game):
            for number in range(TABLES):
                at: dict[str, Any] = {"operator": OPERATOR, "table": f"T{number}"}
                house = shipped_houses()["nl"]
                for command in (
                    OpenTable(**at, house=house, shard="main", source="virtual"),
                    CommitShoe(**at, shoe="S1"),
                    LoadShoe(**at, shoe="S1", entropy="benchmark"),
                    OpenCoup(**at, shoe="S1", coup=1),
                ):
                    answer = game.submit(command)
                    while not answer.done():
                        game.step()
                    answer.result()
            while game.relay.backlog:
                game.step()

    def size(self) -> int:
        """Bytes of wallet's database on disk."""
        with psycopg.connect(self.wallet_url, autocommit=True) as db:
            db.execute("CHECKPOINT")
            row = db.execute("SELECT pg_database_size(current_database())").fetchone()
        assert row is not None
        return int(row[0])


@contextmanager
def writer_of(database: Database, per_commit: int) -> Iterator[Writer[WalletCommand]]:
    """Wallet's writer in this process, which has heard of the tables."""
    settings = Settings()
    with closing(EmbeddedBus(database.where.data / BUS_DATABASE)) as bus:
        writer = open_wallet(database.where, bus, settings, clock=SystemClock(), ids=SystemIds())
        with closing(writer):
            writer.limits = Limits(commands=per_commit, queue=10**7)
            while writer.step():
                pass
            yield writer


def enrich(writer: Writer[WalletCommand], accounts: int) -> None:
    """Give every player money."""
    for number in range(accounts):
        writer.submit(Deposit(operator=OPERATOR, account=f"p{number}", tx="d", currency="EUR", amount=10**12))
    while writer.step():
        pass


def in_process(database: Database, run: str, bets: int, per_commit: int, accounts: int) -> Figure:
    """Bets that all wait already, taken as fast as they can be committed."""
    with writer_of(database, per_commit) as writer:
        commands = [
            PlaceBet(
                operator=OPERATOR,
                account=f"p{number % accounts}",
                tx=f"{run}.{number}",
                table=f"T{number % TABLES}",
                shoe="S1",
                coup=1,
                spot=_SPOTS[number % 3],
                currency="EUR",
                stake=100,
            )
            for number in range(bets)
        ]
        answers = [writer.submit(each) for each in commands]
        began, cpu = perf_counter(), process_time()
        while not answers[-1].done():
            writer.step()
        seconds, cpu = perf_counter() - began, process_time() - cpu
        assert all(each.result().code == "OK" for each in answers)
    note = f"{1e6 * cpu / bets:.0f} µs of CPU here, of {1e6 * seconds / bets:.0f}"
    who = f"{accounts:,} accounts" if accounts > 1 else "one account"
    return Figure(f"writer, {per_commit:,} a commit, {who}", bets / seconds, note=note)


def yardstick(server: Server, *, hot: bool, clients: int, seconds: int) -> Figure:
    """A transaction of two postings, written by hand."""
    with psycopg.connect(server.url, autocommit=True) as db:
        db.execute("DROP TABLE IF EXISTS journal, account")
        db.execute("CREATE TABLE account (id int PRIMARY KEY, balance numeric(38) NOT NULL)")
        db.execute(f"INSERT INTO account SELECT n, 0 FROM generate_series(0, {2 * ACCOUNTS}) AS n")
        db.execute(
            "CREATE TABLE journal ("
            "id bigserial PRIMARY KEY, payer int, payee int, amount numeric(38), memo text)"
        )
    payee = str(2 * ACCOUNTS) if hot else f"random({ACCOUNTS}, {2 * ACCOUNTS - 1})"
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write(_YARDSTICK.format(payer=f"random(0, {ACCOUNTS - 1})", payee=payee))
        script.flush()
        binaries = find_binaries()
        assert binaries is not None, "the server runs from them"
        command = [str(binaries / "pgbench"), "-n", "-f", script.name, "-c", str(clients), "-j", "2"]
        said = subprocess.run(
            [*command, "-T", str(seconds), "-M", "prepared", server.url],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    rate = re.search(r"tps = ([0-9.]+)", said)
    latency = re.search(r"latency average = ([0-9.]+) ms", said)
    assert rate is not None
    who = "the house's account in each" if hot else "spread over accounts"
    mean = float(latency[1]) if latency else 0
    return Figure(f"pgbench, {clients} clients, {who}", float(rate[1]), note=f"mean {mean:.1f} ms")


def over_http(folder: Path, address: str, run: str, *, callers: int, batch: int, seconds: int) -> Figure:
    """Bets through HTTP."""
    script = folder / "bets.lua"
    script.write_text(_LUA.format(accounts=ACCOUNTS, tables=TABLES))
    threads = min(2, callers)
    command = ["wrk", "-t", str(threads), "-c", str(callers), "-d", f"{seconds}s", "--latency"]
    said = subprocess.run(
        [*command, "-s", str(script), f"http://{address}", "--", run, str(batch)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rate = re.search(r"Requests/sec:\s+([0-9.]+)", said)
    wrong = re.search(r"Non-2xx or 3xx responses: (\d+)", said)
    if rate is None or wrong is not None:
        raise SystemExit(f"wrk: {said}")
    kind = f"batches of {batch}" if batch > 1 else "one by one"
    callers_words = f"{callers} caller" + ("s" if callers > 1 else "")
    return Figure(f"HTTP {kind}, {callers_words}", batch * float(rate[1]), _ms(said, "50%"), _ms(said, "99%"))


def _ms(said: str, part: str) -> float:
    found = re.search(rf"{part}\s+([0-9.]+)(us|ms|s)", said)
    assert found is not None
    return float(found[1]) * {"us": 0.001, "ms": 1.0, "s": 1_000.0}[found[2]]


def measure(options: argparse.Namespace, console: Console) -> tuple[list[Figure], dict[str, float]]:
    """All figures, and the bytes a bet."""
    figures: list[Figure] = []

    def add(figure: Figure) -> None:
        figures.append(figure)
        console.print(f"{figure.what}: {figure.bets_per_second:,.0f}/s")

    sizes: dict[str, float] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sabot-bench-")))
        server = stack.enter_context(Server())
        for hot in (False, True):
            add(yardstick(server, hot=hot, clients=16, seconds=options.seconds))
        for number, (per_commit, accounts) in enumerate(
            ((1, ACCOUNTS), (100, ACCOUNTS), (500, ACCOUNTS), (2_000, ACCOUNTS), (500, 1))
        ):
            database = Database(server, folder / f"db{number}", f"bench{number}")
            with writer_of(database, 1_000) as writer:
                enrich(writer, accounts)
            before = database.size()
            bets = options.bets // 10 if per_commit == 1 else options.bets
            add(in_process(database, "r", bets, per_commit, accounts))
            if (per_commit, accounts) == (500, ACCOUNTS):
                sizes["bytes_per_bet"] = (database.size() - before) / bets
        if shutil.which("wrk") is None:
            console.print("wrk is not installed (Debian: apt-get install wrk): HTTP is left out")
            return figures, sizes
        database = Database(server, folder / "http", "benchhttp")
        with writer_of(database, 1_000) as writer:
            enrich(writer, ACCOUNTS)
        environment = {"SABOT_DATABASE": database.where.database or ""}
        service = stack.enter_context(ServiceProcess("wallet", ["--data", database.where.data], environment))
        for number, (callers, batch) in enumerate(((1, 1), (16, 1), (64, 1), (4, 100))):
            add(
                over_http(
                    folder,
                    service.address,
                    f"w{number}",
                    callers=callers,
                    batch=batch,
                    seconds=options.seconds,
                )
            )
    return figures, sizes


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wallet", description=__doc__)
    parser.add_argument("--bets", type=int, default=40_000, help="bets of a run in this process")
    parser.add_argument("--seconds", type=int, default=5, help="of each run of pgbench and wrk")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    calm_collector()
    figures, sizes = measure(options, Console(stderr=True))
    if options.json:
        document: dict[str, Any] = {"figures": [asdict(each) for each in figures], **sizes}
        print(json.dumps(document, indent=2))
        return 0
    table = Table(title="Durable bets a second (PostgreSQL, synchronous_commit=on)")
    for name in ("", "bets/s", "p50 ms", "p99 ms", "against pgbench", ""):
        table.add_column(name, justify="left" if not name else "right")
    spread = figures[0].bets_per_second
    for each in figures:
        table.add_row(
            each.what,
            f"{each.bets_per_second:,.0f}",
            "" if each.p50_ms is None else f"{each.p50_ms:.1f}",
            "" if each.p99_ms is None else f"{each.p99_ms:.1f}",
            f"×{each.bets_per_second / spread:.2f}",
            each.note,
        )
    console = Console()
    console.print(table)
    for name, value in sizes.items():
        console.print(f"{name.replace('_', ' ')}: {value:,.0f}")
    console.print(f"peak memory here: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
