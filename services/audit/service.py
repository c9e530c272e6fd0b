"""Audit's core, plugged into the runtime. It takes no commands: it says what it sees."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge
from sqlalchemy import Connection

from schemas.envelope import Recorded, UnknownType
from schemas.events.audit import CoupVerified, DiscrepancyFound
from schemas.events.base import Payload, audit_stream, operator_of
from services.audit import store
from services.audit.core.verifier import Verifier
from services.runtime.inbox import Irregularity

MET_ON_THE_BUS: Final = "bus_"
"""How the checks of findings begin that were made when a record came, not when a coup was worked out."""


class AuditMetrics:
    """Verdicts and findings. Born at zero, so that the first mismatch is an increase."""

    def __init__(self, registry: CollectorRegistry) -> None:
        verifications = Counter(
            "audit_coup_verifications_total", "Coups verified, by result.", ["result"], registry=registry
        )
        self.verified = verifications.labels("verified")
        self.discrepancies = verifications.labels("discrepancy")
        self.findings = Counter("audit_findings_total", "Findings of any kind.", registry=registry)
        self.open_coups = Gauge("audit_unsettled_coups", "Coups that have no verdict yet.", registry=registry)


class AuditService:
    """The verifier over every stream of game and wallet."""

    name = "audit"
    reads: Collection[type[Payload]] | None = None
    is_waited_for = False
    reactions_are_pure = False
    consumes: tuple[str, ...] = ("game.events", "wallet.events")

    def __init__(self) -> None:
        self.metrics: AuditMetrics | None = None
        self.verifier = Verifier(persistent=True, gaps_are_known=True)
        self._evidence: store.Evidence | None = None
        self._said: list[Recorded[Any]] = []

    def load(self, db: Connection) -> None:
        self._evidence = store.Evidence(db)
        self.verifier.load(store.load_memory(db))

    def prepare(self, db: Connection, events: Sequence[Recorded[Any]], commands: Sequence[Any]) -> None:
        """Bring back the finished coups that these events correct; all else the verifier remembers."""
        if keys := self.verifier.lacking(events):
            self.verifier.load(store.load_finished(db, keys))

    def react(self, event: Recorded[Any]) -> Sequence[Payload]:
        assert self._evidence is not None, "load comes first"
        self._evidence.note(event.stream, event.sequence, event.hash)
        return self.verifier.observe(event)

    def skipped(self, event: UnknownType) -> None:
        assert self._evidence is not None, "load comes first"
        self._evidence.note(event.envelope.stream, event.envelope.sequence, event.hash)

    def irregular(self, what: Irregularity) -> Sequence[Payload]:
        """A finding: somebody or something else writes where only the services may."""
        return [
            DiscrepancyFound(
                operator=operator_of(what.stream),
                check=MET_ON_THE_BUS + what.verdict.value,
                stream=what.stream or what.topic,
                sequence=what.sequence or 0,
                recorded=f"{what.topic}/{what.partition}/{what.offset}",
                expected="",
                words=what.words,
            )
        ]

    def observe(self, event: Recorded[Any]) -> None:
        """Nothing: ``react`` has seen it."""

    def decide(self, command: Any) -> Sequence[Payload]:
        raise AssertionError("audit takes no commands")

    def evolve(self, event: Recorded[Any]) -> None:
        assert self._evidence is not None, "load comes first"
        self._evidence.note(event.stream, event.sequence, event.hash)
        self._said.append(event)

    def answer(self, command: Any, events: Sequence[Recorded[Any]]) -> None:
        raise AssertionError("audit takes no commands")

    def overdue(self, now: str) -> Sequence[Any]:
        del now
        return ()

    def stream_of(self, payload: Payload) -> str:
        return audit_stream(payload.operator)

    def save(self, db: Connection) -> None:
        assert self._evidence is not None, "load comes first"
        self._evidence.save(db)
        store.save_pieces(db, self.verifier.take_changes())
        store.save_said(db, self._said)
        self._count()
        self._said.clear()

    def _count(self) -> None:
        if self.metrics is None:
            return
        failed = set()
        for event in self._said:
            if isinstance(event.data, CoupVerified):
                self.metrics.verified.inc()
            elif isinstance(event.data, DiscrepancyFound):
                self.metrics.findings.inc()
                failed.add((event.data.table, event.data.shoe, event.data.coup))
        self.metrics.discrepancies.inc(sum(coup is not None for _, _, coup in failed))
        self.metrics.open_coups.set(self.verifier.open_coups)
