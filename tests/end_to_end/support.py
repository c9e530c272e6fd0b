"""What the end-to-end tests share: the command, a data directory from inside, hands that tamper with it."""

from __future__ import annotations

import json
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from http.client import HTTPConnection
from io import StringIO
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Literal, NamedTuple, TypeVar

import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from deploy.processes import ServiceProcess
from schemas.envelope import FIRST_PREVIOUS, Recorded, decode, encode
from schemas.events.base import CoupPayload, Payload
from services.audit.core.facts import CoupAccount, ShoeAccount
from services.audit.verification import Verification
from services.audit.verify import verify
from services.cli import main
from services.runtime.installation import Installation
from services.runtime.topics import key_of, topic_of

T = TypeVar("T")

PRODUCERS = ("game", "wallet", "audit")

Place = Literal["store", "bus", "record"]
PLACES: tuple[Place, ...] = ("store", "bus", "record")

_app = main.build()


def sabot(*arguments: str | Path, status: int = 0, env: Mapping[str, str] | None = None) -> str:
    """Run the command in this process; its standard output. Any other exit status fails the test."""
    done = CliRunner().invoke(_app, [str(each) for each in arguments], env=env)
    assert done.exit_code == status, f"sabot ended with {done.exit_code}: {done.output}\n{done.exception!r}"
    return done.stdout


def complaint(*arguments: str | Path, status: int = 2) -> str:
    """Run the command, which must fail; what it says on standard error."""
    done = CliRunner().invoke(_app, [str(each) for each in arguments])
    assert done.exit_code == status, f"sabot ended with {done.exit_code}: {done.output}\n{done.exception!r}"
    return done.stderr


def sabot_json(*arguments: str | Path, status: int = 0, env: Mapping[str, str] | None = None) -> Any:
    """Run the command with ``--json``; the document that it prints."""
    return json.loads(sabot(*arguments, "--json", status=status, env=env))


class Ended(NamedTuple):
    """How a command ended, as somebody at a terminal sees it."""

    status: int
    out: str
    err: str


def run_command(*arguments: str | Path, env: Mapping[str, str] | None = None) -> Ended:
    """Run the command from its very entry point, where failures become words, in this process."""
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["sabot", *(str(each) for each in arguments)])
        patch.setattr(main, "calm_collector", lambda: None)  # that is for whole processes
        for name, value in (env or {}).items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            main.run()
    status = ended.value.code
    assert isinstance(status, int)
    return Ended(status, out.getvalue(), err.getvalue())


def coups_of(data: Path) -> list[dict[str, Any]]:
    """Every coup as ``sabot verify --details`` writes it, in its order; nothing may be found."""
    details = data / "details.jsonl"
    sabot("verify", "--data", data, "--details", details)
    return [json.loads(line) for line in details.read_text("utf-8").splitlines()]


class Heard:
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.shoes: list[ShoeAccount] = []
        self.coups: list[CoupAccount] = []

    def house(self, operator: str, table: str, number: int, house: Any) -> None:
        """Not kept."""

    def shoe(self, account: ShoeAccount) -> None:
        self.shoes.append(account)

    def coup(self, account: CoupAccount) -> None:
        self.coups.append(account)


def accounts_of(data: Path) -> tuple[Verification, Heard]:
    """What a verification of the directory says."""
    heard = Heard()
    return verify(Installation(data), heard), heard


# ------------------------------------------------------------------------------ a data directory from inside


@contextmanager
def database(path: Path) -> Iterator[sqlite3.Connection]:
    """The file, behind the services' backs. What is changed is committed; it need not survive anything."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous=OFF")
        db.execute("BEGIN")
        yield db
        db.execute("COMMIT")


def place_in_words(place: Place, stream: str) -> str:
    """What a finding calls the place."""
    producer = stream.partition("/")[0]
    return {"store": f"{producer}'s store", "bus": "the bus", "record": "audit's record"}[place]


def events_of(data: Path) -> list[Recorded[Any]]:
    """Every event on the bus, in its order. Repeated records count once."""
    with database(data / "bus.db") as db:
        bodies = db.execute('SELECT body FROM record ORDER BY "offset"').fetchall()
    events = {(event.stream, event.sequence): event for (body,) in bodies for event in [decode(body)]}
    return list(events.values())


def stream_of(data: Path, stream: str) -> list[Recorded[Any]]:
    """The events of one stream."""
    return [event for event in events_of(data) if event.stream == stream]


def change_body(data: Path, place: Place, event: Recorded[Any], change: Callable[[bytes], bytes]) -> None:
    """Other bytes at one place: the event's own, or in audit's record those of its hash."""
    producer = event.stream.partition("/")[0]
    if place == "store":
        with database(data / f"{producer}.db") as db:
            db.execute("UPDATE event SET body = ? WHERE body = ?", (change(event.body), event.body))
            assert db.execute("SELECT changes()").fetchone() == (1,)
    elif place == "bus":
        with database(data / "bus.db") as db:
            db.execute("UPDATE record SET body = ? WHERE body = ?", (change(event.body), event.body))
            assert db.execute("SELECT changes()").fetchone() == (1,)
    else:
        old = bytes.fromhex(event.hash)
        with database(data / "audit.db") as db:
            db.execute("UPDATE audit_evidence SET hash = ? WHERE hash = ?", (change(old), old))
            assert db.execute("SELECT changes()").fetchone() == (1,)


def append_to_the_bus(data: Path, stream: str, body: bytes) -> None:
    """A record more at the end of a stream's topic, whoever wrote it."""
    with database(data / "bus.db") as db:
        topic = db.execute("SELECT id FROM topic WHERE name = ?", (topic_of(stream),)).fetchone()[0]
        row = (topic, key_of(stream), body)
        db.execute('INSERT INTO record (topic_id, "key", body) VALUES (?, ?, ?)', row)


def delete(data: Path, place: Place, event: Recorded[Any]) -> None:
    """The event is gone at one place."""
    producer = event.stream.partition("/")[0]
    name, statement, value = {
        "store": (f"{producer}.db", "DELETE FROM event WHERE body = ?", event.body),
        "bus": ("bus.db", "DELETE FROM record WHERE body = ?", event.body),
        "record": ("audit.db", "DELETE FROM audit_evidence WHERE hash = ?", bytes.fromhex(event.hash)),
    }[place]
    with database(data / name) as db:
        db.execute(statement, (value,))
        assert db.execute("SELECT changes()").fetchone() == (1,)


# --------------------------------------------------------------------------------------------------- forgery


@dataclass
class Forger:
    """Tells the whole story of a data directory again, with some events changed, in proper chains.

    Whatever referred to a changed event (the next one's ``previous``, a seal's digest, the card that names
    the seal, a settlement's result, audit's verdict) refers to the new one: nobody could do better who holds
    every key.
    """

    data: Path
    events: list[Recorded[Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.events = self.events or events_of(self.data)

    def retold(
        self, changes: Mapping[tuple[str, int], Callable[[Any], Payload | Sequence[Payload]]]
    ) -> list[Recorded[Any]]:
        """All events, with those of these (stream, sequence) replaced by what the change makes of them."""
        heads: dict[str, tuple[int, str]] = {}
        renamed: dict[str, tuple[int, str]] = {}
        told: list[Recorded[Any]] = []
        for old in self.events:
            payload = _with_references(old.data, renamed)
            change = changes.get((old.stream, old.sequence))
            changed = payload if change is None else change(payload)
            for each in [changed] if isinstance(changed, Payload) else changed:
                sequence, previous = heads.get(old.stream, (0, FIRST_PREVIOUS))
                new = encode(
                    each,
                    source=old.envelope.source,
                    stream=old.stream,
                    sequence=sequence + 1,
                    previous=previous,
                    time=old.envelope.time,
                    gamingday=old.envelope.gamingday,
                    causationid=old.envelope.causationid,
                    correlationid=old.envelope.correlationid,
                )
                heads[old.stream] = (new.sequence, new.hash)
                renamed[old.hash] = (new.sequence, new.hash)
                told.append(new)
        return told

    def write_stores(self, events: Iterable[Recorded[Any]], producers: Iterable[str] = PRODUCERS) -> None:
        """The producers' own stores tell this, heads included."""
        every = list(events)
        for producer in producers:
            with database(self.data / f"{producer}.db") as db:
                db.execute("DELETE FROM event")
                ids = dict(db.execute("SELECT name, id FROM stream").fetchall())
                for position, event in enumerate(_of(producer, every), start=1):
                    row = (position, ids[event.stream], event.sequence, event.body)
                    db.execute(
                        "INSERT INTO event (position, stream_id, sequence, body) VALUES (?, ?, ?, ?)", row
                    )
                    db.execute(
                        "UPDATE stream SET sequence = ?, hash = ? WHERE name = ?",
                        (event.sequence, event.hash, event.stream),
                    )

    def write_bus(self, events: Iterable[Recorded[Any]]) -> None:
        """The bus tells this."""
        with database(self.data / "bus.db") as db:
            topics = dict(db.execute("SELECT name, id FROM topic").fetchall())
            db.execute("DELETE FROM record")
            db.executemany(
                'INSERT INTO record (topic_id, "key", body) VALUES (?, ?, ?)',
                [(topics[topic_of(each.stream)], key_of(each.stream), each.body) for each in events],
            )

    def write_record(self, events: Iterable[Recorded[Any]]) -> None:
        """Audit's record tells this."""
        with database(self.data / "audit.db") as db:
            ids = dict(db.execute("SELECT name, id FROM audit_stream").fetchall())
            db.execute("DELETE FROM audit_evidence")
            db.executemany(
                "INSERT INTO audit_evidence (stream_id, sequence, hash) VALUES (?, ?, ?)",
                [(ids[each.stream], each.sequence, bytes.fromhex(each.hash)) for each in events],
            )

    def write_everywhere(self, events: Sequence[Recorded[Any]]) -> None:
        """All three places tell this."""
        self.write_stores(events)
        self.write_bus(events)
        self.write_record(events)


def _of(producer: str, events: Iterable[Recorded[Any]]) -> list[Recorded[Any]]:
    return [event for event in events if event.stream.startswith(producer + "/")]


def _with_references(payload: Payload, renamed: Mapping[str, tuple[int, str]]) -> Payload:
    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            walked = {name: walk(each) for name, each in value.items()}
            if "sequence" in value and value.get("hash") in renamed:
                walked["sequence"] = renamed[value["hash"]][0]
            return walked
        if isinstance(value, list):
            return [walk(each) for each in value]
        return renamed[value][1] if isinstance(value, str) and value in renamed else value

    document = walk(payload.model_dump(mode="json"))
    return type(payload).model_validate_json(json.dumps(document))


def coup_of(event: Recorded[Any]) -> tuple[str, str, int] | None:
    """Table, shoe and coup that an event is about, where it is about one."""
    data = event.data
    return (data.table, data.shoe, data.coup) if isinstance(data, CoupPayload) else None


# ------------------------------------------------------------------------------------------------- processes


class Answer(NamedTuple):
    """What a service said."""

    status: int
    body: Any
    """The document, or the text where it is none."""
    headers: Mapping[str, str]


class Service(ServiceProcess):
    """One service as a process of its own, and questions to it."""

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        """One request. Raises ``OSError`` where nobody answers."""
        with closing(HTTPConnection(self.address, timeout=20)) as connection:
            document = None if body is None else json.dumps(body)
            connection.request(method, path, document, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read().decode()
            is_json = "json" in response.headers.get_content_type()
            return Answer(response.status, json.loads(text) if is_json else text, dict(response.headers))

    def get(self, path: str) -> Any:
        """A question that must be answered."""
        answer = self.ask("GET", path)
        assert answer.status == 200, answer
        return answer.body

    def metrics(self) -> dict[tuple[str, tuple[str, ...]], float]:
        """Every sample by its name and the values of its labels."""
        families = text_string_to_metric_families(self.get("/metrics"))
        return {
            (sample.name, tuple(sample.labels.values())): sample.value
            for family in families
            for sample in family.samples
        }

    def clear_away(self) -> None:
        """Whatever a test left running is ended, even if it hangs."""
        if not self.has_ended:
            self.end(signal.SIGKILL)
        self.wait()


def eventually(what: Callable[[], T | None], seconds: float = 60.0, pause: float = 0.02) -> T:
    """Ask until there is something; fails after a time that no healthy machine needs."""
    until = monotonic() + seconds
    while monotonic() < until:
        found = what()
        if found is not None and found is not False:
            return found
        sleep(pause)
    raise AssertionError(f"it did not come about in {seconds} seconds")
