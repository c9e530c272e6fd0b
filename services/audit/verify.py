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
from contextlib import ExitStack
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Connection

from schemas.envelope import DecodeError, Recorded, UnknownType, decode
from schemas.events.audit import CoupVerified, DiscrepancyFound, Turnover
from schemas.events.base import Payload
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
    for name in (*(f"{producer}.db" for producer in PRODUCERS), BUS_DATABASE):
        if not (data / name).is_file():
            raise NothingToVerify(f"{data} has no {name}: run 'sabot demo' or 'sabot ingest' there first")
    with ExitStack() as stack:
        bus = EmbeddedBus(data / BUS_DATABASE, read_only=True)
        stack.callback(bus.close)
        stores = {
            producer: stack.enter_context(open_sqlite_to_inspect(data / f"{producer}.db").connect())
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


class _Run:
    def __init__(
        self, bus: Bus, stores: dict[str, Connection], listener: Listener | None, progress: Progress
    ) -> None:
        self._bus, self._stores, self._progress = bus, stores, progress
        self.result = Verification()
        self._verifier = Verifier(_Tally(self.result, listener))
        self._heads: dict[str, StreamHead] = {}
        self._not_as_written: set[tuple[str, int]] = set()
        """Places (stream, sequence) at which the bus does not have what was written."""
        self._passed: dict[str, int] = {}
        """The last sequence of each stream that the verifier has seen."""
        self._found: set[tuple[str, str, int, str]] = set()
        """Every finding in brief, so that audit's own, when the replay comes to it, is not counted again."""
        self._done = 0

    def run(self) -> Verification:
        result = self.result
        for producer, db in self._stores.items():
            try:
                self._heads.update((head.stream, head) for head in read_heads(db))
            except sa.exc.DatabaseError as error:
                self._damaged(producer, f"{producer}.db", error)
        streams = self._all_streams()
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
        streams.update(self._guarded("audit", lambda: store.evidence_streams(self._stores["audit"]), []))
        for producer in PRODUCERS:
            for key in self._bus.keys(f"{producer}.events"):
                streams.add(key if producer == "game" else f"{producer}/{key}")
        return sorted(streams)

    def _compare(self, stream: str) -> None:
        producer = stream.split("/", 1)[0]
        if producer not in self._stores:
            self._find(_fault(stream, "stream", f"{stream} is no stream of game, wallet or audit"))
            return
        head = self._heads.get(stream)
        audit = self._stores["audit"]
        bodies = (each.body for each in self._bus.read(topic_of(stream), key_of(stream)))
        try:
            differences = compare(
                stream,
                store=self._counted(read_stream(self._stores[producer], stream)),
                bus=place_records(stream, bodies),
                record=store.read_evidence(audit, stream),
                store_head=None if head is None else Head(head.sequence, head.hash),
                known=lambda sequence: store.evidence_of(audit, stream, sequence),
            )
            for difference in differences:
                self._differs(difference)
        except (sa.exc.DatabaseError, sqlite3.DatabaseError) as error:
            self._damaged(producer, stream, error)

    def _differs(self, difference: Difference) -> None:
        if difference.harmless:
            return
        if difference.place == BUS:
            self._not_as_written.add((difference.stream, difference.sequence))
        self._find(difference.finding(_operator_of(difference.stream)))

    # The second pass: what the events say.

    def _replay(self) -> None:
        try:
            for delivery in self._in_order():
                self._take(delivery)
            for stream, head in sorted(self._heads.items()):
                self._fill(stream, head.sequence + 1)
        except (sa.exc.DatabaseError, sqlite3.DatabaseError) as error:
            self._damaged("audit", "the replay", error)
        for payload in self._verifier.finish():
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
        if sequence > due or (stream, sequence) in self._not_as_written:
            self._fill(stream, sequence + 1)
        if self._passed.get(stream, 0) < sequence:
            self._observe(stream, sequence, delivery.body)

    def _fill(self, stream: str, before: int) -> None:
        """Read from the producer's store what the bus does not have, up to a sequence."""
        due = self._passed.get(stream, 0) + 1
        producer = self._stores.get(stream.split("/", 1)[0])
        if due >= before or producer is None:
            return
        for sequence, body in read_stream(producer, stream, due):
            if sequence >= before:
                break
            self._observe(stream, sequence, body)

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
            payloads = chain(self._verifier.observe(event), self._recorded_finding(event))
        for payload in payloads:
            self._said(payload)

    def _recorded_finding(self, event: Recorded[Any]) -> Iterator[Payload]:
        """A finding that audit made while it ran, unless this replay comes to it by itself."""
        if isinstance(event.data, DiscrepancyFound) and not self._known(event.data):
            yield event.data

    def _known(self, finding: DiscrepancyFound) -> bool:
        return (finding.check, finding.stream, finding.sequence, finding.words) in self._found

    def _said(self, payload: Payload) -> None:
        if isinstance(payload, DiscrepancyFound):
            self._find(payload)
        else:
            assert isinstance(payload, CoupVerified), "the verifier says nothing else"

    # Helpers.

    def _find(self, finding: DiscrepancyFound) -> None:
        self._found.add((finding.check, finding.stream, finding.sequence, finding.words))
        self.result.findings_count += 1
        if len(self.result.findings) < FINDINGS_KEPT:
            self.result.findings.append(finding)

    def _damaged(self, producer: str, what: str, error: Exception) -> None:
        reason = str(error).splitlines()[0]
        self._find(_fault(f"{producer}/", "database", f"{what}: the database file is damaged: {reason}"))

    def _guarded(self, producer: str, read: Callable[[], list[str]], otherwise: list[str]) -> list[str]:
        try:
            return read()
        except sa.exc.DatabaseError as error:
            self._damaged(producer, f"{producer}.db", error)
            return otherwise

    def _counted(self, events: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        for event in events:
            self._tick()
            yield event

    def _tick(self) -> None:
        self._done += 1
        if self._done % 500 == 0:
            self._progress(self._done, 2 * self.result.events)


def _operator_of(stream: str) -> str:
    name = stream.partition("/")[2].split(".", 1)[0]
    return name or "unknown"


def _fault(stream: str, check: str, words: str, sequence: int = 0) -> DiscrepancyFound:
    return DiscrepancyFound(
        operator=_operator_of(stream),
        check=check,
        stream=stream,
        sequence=sequence,
        recorded="",
        expected="",
        words=words,
    )
