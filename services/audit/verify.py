"""Verification of a whole data directory, from the event streams alone.

Two passes. The first holds the three places of every stream against each other (the producer's store, the
bus, audit's own record) and says where one of them is not what it was. The second replays all streams
through the verifier: every draw, total, outcome, payout, commission and posting is worked out again. Where
the bus was changed, the second pass reads the producer's copy, so that one flipped byte is one finding.

Nothing is written, and memory does not grow with the number of coups.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from heapq import merge
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy import Connection

from schemas.envelope import DecodeError, Recorded, UnknownType, decode, hash_of
from schemas.events.audit import CoupVerified, DiscrepancyFound, Turnover
from schemas.events.base import Payload, audit_stream, operator_of
from schemas.house import House
from services.audit import store
from services.audit.core.bytework import links_of, place_records
from services.audit.core.facts import CoupAccount, Listener, ShoeAccount
from services.audit.core.integrity import BUS, Difference, Head, compare
from services.audit.core.verifier import Verifier
from services.runtime.bus.embedded import EmbeddedBus
from services.runtime.database import open_sqlite_to_inspect
from services.runtime.ports import Bus, Delivery
from services.runtime.store import StreamHead, read_heads, read_stream
from services.runtime.topics import key_of, topic_of

PRODUCERS: Final = ("game", "wallet", "audit")
BUS_DATABASE: Final = "bus.db"
FINDINGS_KEPT: Final = 1_000
"""So many findings are kept in full; all are counted."""

T = TypeVar("T")


Progress = Callable[[int, int], None]
"""Told how many events of how many were read. Every event is read twice."""


class NothingToVerify(ValueError):
    """A directory that is not one of ours, or lacks a part."""


@dataclass
class Verification:
    """What came of it. ``ok`` only if everything was read, agreed and balances."""

    streams: int = 0
    events: int = 0
    verified: int = 0
    void: int = 0
    """Among the verified: coups that were void, their stakes returned."""
    discrepant: int = 0
    open: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    turnover: dict[str, Turnover] = field(default_factory=dict)
    """Money of all finished coups, by currency."""
    bets: int = 0
    refused_bets: int = 0
    trial_balance: dict[tuple[str, str], int] = field(default_factory=dict)
    """Net debit in minor units by (account number, currency), over all wallet streams."""
    findings: list[DiscrepancyFound] = field(default_factory=list)
    findings_count: int = 0

    @property
    def balanced(self) -> bool:
        """Debits and credits are equal in every currency."""
        sums: Counter[str] = Counter()
        for (_, currency), amount in self.trial_balance.items():
            sums[currency] += amount
        return not any(sums.values())

    @property
    def ok(self) -> bool:
        """Nothing was found, and the ledger balances."""
        return self.findings_count == 0 and self.balanced


def verify(data: Path, listener: Listener | None = None, progress: Progress | None = None) -> Verification:
    """Verify everything in ``data``. ``listener`` is told of every coup, shoe and house as it is judged.

    Raises:
        NothingToVerify: ``data`` is no data directory, or one of its databases is not there.
    """
    names = (*map(_database_of, PRODUCERS), BUS_DATABASE)
    missing = [name for name in names if not (data / name).is_file()]
    if len(missing) == len(names):
        raise NothingToVerify(f"{data} has no {missing[0]}: run 'sabot demo' or 'sabot ingest' there first")
    if missing:
        lost = f"{data} has lost {' and '.join(missing)}, and has the other databases"
        raise NothingToVerify(f"{lost}: without all of them nothing can be compared")
    with ExitStack() as stack:
        bus = EmbeddedBus(data / BUS_DATABASE, read_only=True)
        stack.callback(bus.close)
        stores = {
            producer: stack.enter_context(open_sqlite_to_inspect(data / _database_of(producer)).connect())
            for producer in PRODUCERS
        }
        return _Run(bus, stores, listener, progress or (lambda done, total: None)).run()


class _Tally:
    """Counts what the verifier tells, and passes it on."""

    def __init__(self, result: Verification, listener: Listener | None) -> None:
        self._result, self._listener = result, listener

    def house(self, operator: str, table: str, number: int, house: House) -> None:
        if self._listener is not None:
            self._listener.house(operator, table, number, house)

    def shoe(self, account: ShoeAccount) -> None:
        if self._listener is not None:
            self._listener.shoe(account)

    def coup(self, account: CoupAccount) -> None:
        result = self._result
        if account.verdict == "open":
            result.open += 1
        elif account.verdict == "verified":
            result.verified += 1
            result.void += account.status == "void"
        else:
            result.discrepant += 1
        if account.status == "settled" and account.outcome is not None:
            result.outcomes[account.outcome] += 1
        refused = sum(bet.status == "refused" for bet in account.bets)
        result.refused_bets += refused
        result.bets += len(account.bets) - refused
        if account.verdict != "open":
            for row in account.turnover:
                result.turnover[row.currency] = _sum(result.turnover.get(row.currency), row)
        if self._listener is not None:
            self._listener.coup(account)


def _sum(so_far: Turnover | None, row: Turnover) -> Turnover:
    if so_far is None:
        return row
    return row.model_copy(
        update={
            "staked": so_far.staked + row.staked,
            "returned": so_far.returned + row.returned,
            "commission": so_far.commission + row.commission,
        }
    )


class _Damaged(Exception):
    """A database file that SQLite cannot read. ``file`` is its name."""

    def __init__(self, file: str, error: Exception) -> None:
        super().__init__(f"{file} is damaged: {str(error).splitlines()[0]}")
        self.file = file


@contextmanager
def _reading(file: str) -> Iterator[None]:
    """Errors in here are damage to this file: SQLite's own, and what cannot stand there."""
    try:
        yield
    except (sa.exc.DatabaseError, sqlite3.DatabaseError, ValueError) as error:
        raise _Damaged(file, error) from error


def _read(file: str, rows: Iterable[T]) -> Iterator[T]:
    """Rows that are read from this file as they are asked for."""
    with _reading(file):
        yield from rows


def _numbered(file: str, rows: Iterable[tuple[int, T]]) -> Iterator[tuple[int, T]]:
    """As ``_read``, of rows with a sequence: SQLite would keep anything in its place."""
    for row in _read(file, rows):
        if type(row[0]) is not int or row[0] < 0:
            raise _Damaged(file, ValueError(f"an event has {row[0]!r:.40} for its sequence"))
        yield row


class _Verdicts:
    """Audit's recorded verdicts, held against those of this replay; each waits only for its counterpart."""

    def __init__(self) -> None:
        self._ours: dict[tuple[str, str, str, int], CoupVerified] = {}
        self._recorded: dict[tuple[str, str, str, int], Recorded[CoupVerified]] = {}

    def come_to(self, verdict: CoupVerified, *, more: bool) -> Iterator[DiscrepancyFound]:
        """This replay verified a coup. ``more``: audit's stream goes on, and may say the same."""
        recorded = self._recorded.pop(_coup_key(verdict), None)
        if recorded is not None:
            yield from _unlike(recorded, verdict)
        elif more:
            self._ours[_coup_key(verdict)] = verdict

    def read(self, event: Recorded[CoupVerified]) -> Iterator[DiscrepancyFound]:
        """Audit had recorded a coup as verified."""
        ours = self._ours.pop(_coup_key(event.data), None)
        if ours is None:
            self._recorded[_coup_key(event.data)] = event
        else:
            yield from _unlike(event, ours)

    def forget(self, operator: str) -> None:
        """Audit has recorded nothing more of this operator: nothing is left to wait for."""
        for key in [key for key in self._ours if key[0] == operator]:
            del self._ours[key]

    def left(self) -> Iterator[DiscrepancyFound]:
        """What was recorded, and the replay did not come to."""
        for event in self._recorded.values():
            coup = event.data
            which = f"coup {coup.coup} of shoe {coup.shoe}"
            words = f"audit recorded {which} as verified, and its events do not say so"
            yield _about_verdict(event, words)


def _coup_key(verdict: CoupVerified) -> tuple[str, str, str, int]:
    return verdict.operator, verdict.table, verdict.shoe, verdict.coup


def _unlike(event: Recorded[CoupVerified], ours: CoupVerified) -> Iterator[DiscrepancyFound]:
    if event.data == ours:
        return
    differing = [
        name for name in CoupVerified.model_fields if getattr(event.data, name) != getattr(ours, name)
    ]
    coup = event.data
    which = f"coup {coup.coup} of shoe {coup.shoe}"
    words = f"audit verified {which} with another {', '.join(differing)} than it has now"
    yield _about_verdict(event, words)


def _about_verdict(event: Recorded[CoupVerified], words: str) -> DiscrepancyFound:
    coup = event.data
    return _fault(event.stream, "verdict", words, event.sequence).model_copy(
        update={"table": coup.table, "shoe": coup.shoe, "coup": coup.coup}
    )


class _Run:
    def __init__(
        self, bus: Bus, stores: dict[str, Connection], listener: Listener | None, progress: Progress
    ) -> None:
        self._bus, self._stores, self._progress = bus, stores, progress
        self.result = Verification()
        self._verifier = Verifier(_Tally(self.result, listener))
        self._heads: dict[str, StreamHead] = {}
        self._streams: list[str] = []
        self._not_as_written: set[str] = set()
        """Hashes of what the bus has instead of what was written, or beside it."""
        self._passed: dict[str, int] = {}
        """The last sequence of each stream that the verifier has seen."""
        self._found: set[tuple[str, str, int, str]] = set()
        """Every finding in brief, so that audit's own, when the replay comes to it, is not counted again."""
        self._verdicts = _Verdicts()
        self._unreadable: set[str] = set()
        """Names of damaged files."""
        self._done = 0

    def run(self) -> Verification:
        result = self.result
        for producer, db in self._stores.items():
            for head in self._all_of(_database_of(producer), partial(_checked_heads, db)):
                self._heads[str(head.stream)] = head
        self._streams = streams = self._all_streams()
        result.streams = len(streams)
        result.events = sum(head.sequence for head in self._heads.values())
        for stream in streams:
            self._compare(stream)
        self._replay()
        for stream in streams:
            if stream.startswith("wallet/"):
                for line, amount in self._verifier.trial_balance(stream).items():
                    result.trial_balance[line] = result.trial_balance.get(line, 0) + amount
        return result

    # The first pass: three places.

    def _all_streams(self) -> list[str]:
        streams = set(self._heads)
        recorded = partial(store.evidence_streams, self._stores["audit"])
        streams.update(map(str, self._all_of(_database_of("audit"), recorded)))
        for producer in PRODUCERS:
            for key in self._all_of(BUS_DATABASE, partial(self._bus.keys, f"{producer}.events")):
                streams.add(key if producer == "game" else f"{producer}/{key}")
        return sorted(streams)

    def _compare(self, stream: str) -> None:
        producer = stream.split("/", 1)[0]
        if producer not in self._stores:
            self._find(_fault(stream, "stream", f"{stream} is no stream of game, wallet or audit"))
            return
        own, record = _database_of(producer), _database_of("audit")
        if own in self._unreadable:
            return
        head = self._heads.get(stream)
        events = read_stream(self._stores[producer], stream)
        try:
            differences = compare(
                stream,
                store=self._counted(_numbered(own, events)),
                bus=None if BUS_DATABASE in self._unreadable else place_records(stream, self._on_bus(stream)),
                record=None if record in self._unreadable else _numbered(record, self._evidence(stream)),
                store_head=None if head is None else Head(head.sequence, head.hash),
                known=partial(self._recorded_hash, stream),
            )
            for difference in differences:
                self._differs(difference)
        except _Damaged as damage:
            self._damaged(damage)

    def _on_bus(self, stream: str) -> Iterator[bytes]:
        records = _read(BUS_DATABASE, self._bus.read(topic_of(stream), key_of(stream)))
        return (each.body for each in records)

    def _evidence(self, stream: str) -> Iterator[tuple[int, str]]:
        return store.read_evidence(self._stores["audit"], stream)

    def _recorded_hash(self, stream: str, sequence: int) -> str | None:
        if _database_of("audit") in self._unreadable:
            return None
        with _reading(_database_of("audit")):
            return store.evidence_of(self._stores["audit"], stream, sequence)

    def _differs(self, difference: Difference) -> None:
        if difference.harmless:
            return
        if difference.place == BUS and difference.recorded:
            self._not_as_written.add(difference.recorded)
        self._find(difference.finding(operator_of(difference.stream)))

    # The second pass: what the events say.

    def _replay(self) -> None:
        try:
            for delivery in _read(BUS_DATABASE, self._in_order()):
                self._take(delivery)
        except _Damaged as damage:
            self._damaged(damage)
        for stream, head in sorted(self._heads.items()):
            self._fill(stream, head.sequence + 1)
        for payload in chain(self._verifier.finish(), self._verdicts.left()):
            self._said(payload)

    def _in_order(self) -> Iterator[Delivery]:
        topics = (self._bus.read(f"{producer}.events") for producer in PRODUCERS)
        return merge(*topics, key=attrgetter("offset"))

    def _take(self, delivery: Delivery) -> None:
        """Observe the next event of its stream; whatever else is there, the first pass has named."""
        links = links_of(delivery.body)
        if links is None or (topic_of(links.stream), key_of(links.stream)) != (delivery.topic, delivery.key):
            return
        stream, sequence, _ = links
        due = self._passed.get(stream, 0) + 1
        if self._not_as_written and hash_of(delivery.body) in self._not_as_written:
            return
        if sequence > due:
            self._fill(stream, sequence)
        if self._passed.get(stream, 0) < sequence:
            self._observe(stream, sequence, delivery.body)

    def _fill(self, stream: str, before: int) -> None:
        """Read from the producer's store what the bus does not have, up to a sequence."""
        due = self._passed.get(stream, 0) + 1
        name = stream.split("/", 1)[0]
        if due >= before or name not in self._stores or _database_of(name) in self._unreadable:
            return
        try:
            events = read_stream(self._stores[name], stream, due)
            for sequence, body in _numbered(_database_of(name), events):
                if sequence >= before:
                    break
                self._observe(stream, sequence, body)
        except _Damaged as damage:
            self._damaged(damage)

    def _observe(self, stream: str, sequence: int, body: bytes) -> None:
        self._passed[stream] = sequence
        self._tick()
        payloads: Iterable[Payload]
        try:
            event = decode(body)
        except UnknownType as unknown:
            payloads = self._verifier.observe_unknown(unknown.envelope, unknown.hash)
        except DecodeError as reason:
            self._find(_fault(stream, "unreadable", f"event {sequence} of {stream}: {reason}", sequence))
            return
        else:
            payloads = chain(self._verifier.observe(event), self._recorded(event))
        for payload in payloads:
            self._said(payload)

    def _recorded(self, event: Recorded[Any]) -> Iterator[Payload]:
        """What audit said while it ran: a finding, unless this replay comes to it by itself; a verdict."""
        if isinstance(event.data, DiscrepancyFound) and not self._known(event.data):
            yield event.data
        elif isinstance(event.data, CoupVerified):
            yield from self._verdicts.read(event)
        if event.stream.startswith("audit/") and not self._goes_on(event.stream):
            self._verdicts.forget(operator_of(event.stream))

    def _goes_on(self, stream: str) -> bool:
        """Whether more of a stream is to come; where nobody tells its end, any place that has it counts."""
        head = self._heads.get(stream)
        return stream in self._streams if head is None else self._passed.get(stream, 0) < head.sequence

    def _known(self, finding: DiscrepancyFound) -> bool:
        return (finding.check, finding.stream, finding.sequence, finding.words) in self._found

    def _said(self, payload: Payload) -> None:
        if isinstance(payload, DiscrepancyFound):
            self._find(payload)
        else:
            assert isinstance(payload, CoupVerified), "the verifier says nothing else"
            more = self._goes_on(audit_stream(payload.operator))
            for finding in self._verdicts.come_to(payload, more=more):
                self._find(finding)

    # Helpers.

    def _find(self, finding: DiscrepancyFound) -> None:
        self._found.add((finding.check, finding.stream, finding.sequence, finding.words))
        self.result.findings_count += 1
        if len(self.result.findings) < FINDINGS_KEPT:
            self.result.findings.append(finding)

    def _damaged(self, damage: _Damaged) -> None:
        """One finding a file, however often it cannot be read."""
        if damage.file not in self._unreadable:
            self._unreadable.add(damage.file)
            self._find(_fault(damage.file, "database", str(damage)))

    def _all_of(self, file: str, read: Callable[[], Iterable[T]]) -> list[T]:
        """Everything that is asked for; nothing where the file is damaged, which is then found."""
        if file in self._unreadable:
            return []
        try:
            with _reading(file):
                return list(read())
        except _Damaged as damage:
            self._damaged(damage)
            return []

    def _counted(self, events: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        for event in events:
            self._tick()
            yield event

    def _tick(self) -> None:
        self._done += 1
        if self._done % 500 == 0:
            self._progress(self._done, 2 * self.result.events)


def _checked_heads(db: Connection) -> list[StreamHead]:
    heads = read_heads(db)
    for head in heads:
        if type(head.sequence) is not int or head.sequence < 0:
            raise ValueError(f"stream {head.stream} has {head.sequence!r:.40} for its last sequence")
    return heads


def _database_of(producer: str) -> str:
    return f"{producer}.db"


def _fault(stream: str, check: str, words: str, sequence: int = 0) -> DiscrepancyFound:
    return DiscrepancyFound(
        operator=operator_of(stream),
        check=check,
        stream=stream,
        sequence=sequence,
        recorded="",
        expected="",
        words=words,
    )
