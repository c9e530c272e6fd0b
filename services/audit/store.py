"""Audit's tables: its own record of every stream, what it still remembers, and what it said.

``audit_evidence`` is the third place, beside the producer's store and the bus: the hash of every event as
audit saw it. ``audit_piece`` is the verifier's memory, ``audit_verdict`` and ``audit_finding`` are
projections of audit's own events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlmodel import Field, SQLModel

from schemas.envelope import Recorded
from schemas.events.audit import CoupVerified, DiscrepancyFound
from services.audit.core.room import Change
from services.audit.core.state import Finished
from services.runtime import bulk
from services.runtime.tables import APPEND, REPLACE, Access, storable, table_of


class AuditedStreamRow(SQLModel, table=True):
    """A stream that audit keeps evidence of."""

    __tablename__ = "audit_stream"

    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(unique=True)


class EvidenceRow(SQLModel, table=True):
    """The SHA-256 of one event's bytes, as audit received or wrote them."""

    __tablename__ = "audit_evidence"
    __table_args__ = ({"sqlite_with_rowid": False},)

    stream_id: int = Field(foreign_key="audit_stream.id", primary_key=True)
    sequence: int = Field(sa_type=sa.BigInteger, primary_key=True)
    hash: bytes


class PieceRow(SQLModel, table=True):
    """A piece of the verifier's memory."""

    __tablename__ = "audit_piece"

    kind: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    content: str


class VerdictRow(SQLModel, table=True):
    """What audit said of a coup: ``verified`` or ``discrepancy``, and where in its stream."""

    __tablename__ = "audit_verdict"

    operator: str = Field(primary_key=True)
    table_name: str = Field(primary_key=True)
    shoe: str = Field(primary_key=True)
    coup: int = Field(primary_key=True)
    verdict: str
    sequence: int = Field(sa_type=sa.BigInteger)


class FindingRow(SQLModel, table=True):
    """Something that is not as it must be."""

    __tablename__ = "audit_finding"

    operator: str = Field(primary_key=True)
    sequence: int = Field(sa_type=sa.BigInteger, primary_key=True)
    check: str
    table_name: str | None = None
    shoe: str | None = None
    coup: int | None = None
    words: str


_STREAM: Final = table_of(AuditedStreamRow)
_EVIDENCE: Final = table_of(EvidenceRow)
_PIECE: Final = table_of(PieceRow)
_VERDICT: Final = table_of(VerdictRow)
_FINDING: Final = table_of(FindingRow)

ACCESS: Final = Access(
    own={
        "audit_stream": APPEND,
        "audit_evidence": APPEND,
        "audit_piece": REPLACE,
        "audit_verdict": APPEND,
        "audit_finding": APPEND,
    }
)


class Evidence:
    """Audit's own record of every stream, written with the events that it saw."""

    def __init__(self, db: Connection) -> None:
        self._ids = {row.name: row.id for row in db.execute(sa.select(_STREAM))}
        self._seen: list[tuple[str, int, str]] = []

    def note(self, stream: str, sequence: int, hash_: str) -> None:
        """An event was received, or written."""
        self._seen.append((stream, sequence, hash_))

    def save(self, db: Connection) -> None:
        """Write what was noted."""
        if not self._seen:
            return
        rows = [
            {"stream_id": self._id_of(db, stream), "sequence": sequence, "hash": bytes.fromhex(hash_)}
            for stream, sequence, hash_ in self._seen
        ]
        bulk.insert(db, _EVIDENCE, rows)
        self._seen.clear()

    def _id_of(self, db: Connection, stream: str) -> int:
        known = self._ids.get(stream)
        if known is None:
            key = db.execute(sa.insert(_STREAM).values(name=stream)).inserted_primary_key
            assert key is not None
            known = self._ids[stream] = int(key[0])
        return known


def read_evidence(db: Connection, stream: str) -> Iterator[tuple[int, str]]:
    """Sequence and hash of every event of a stream that audit has a record of, in order."""
    stream_id = db.scalar(sa.select(_STREAM.c.id).where(_STREAM.c.name == stream))
    query = (
        sa.select(_EVIDENCE.c.sequence, _EVIDENCE.c.hash)
        .where(_EVIDENCE.c.stream_id == stream_id)
        .order_by(_EVIDENCE.c.sequence)
        .execution_options(yield_per=1_000)
    )
    for sequence, hash_ in db.execute(query):
        yield sequence, hash_.hex() if isinstance(hash_, bytes) else str(hash_)


def evidence_of(db: Connection, stream: str, sequence: int) -> str | None:
    """The hash of one event as audit recorded it."""
    query = (
        sa.select(_EVIDENCE.c.hash)
        .join(_STREAM, _STREAM.c.id == _EVIDENCE.c.stream_id)
        .where(_STREAM.c.name == stream, _EVIDENCE.c.sequence == sequence)
    )
    hash_ = db.scalar(query)
    return hash_.hex() if isinstance(hash_, bytes) else None


def evidence_streams(db: Connection) -> list[str]:
    """Streams that audit has a record of, by name."""
    return list(db.scalars(sa.select(_STREAM.c.name).order_by(_STREAM.c.name)))


def load_pieces(db: Connection) -> list[tuple[str, str, str]]:
    """All that the verifier wrote down."""
    return _pieces(db, sa.select(_PIECE))


def load_memory(db: Connection) -> list[tuple[str, str, str]]:
    """The verifier's memory: what is not finished."""
    return _pieces(db, sa.select(_PIECE).where(_PIECE.c.kind != Finished.kind))


def load_finished(db: Connection, keys: Iterable[str]) -> list[tuple[str, str, str]]:
    """What a correction must know of these coups."""
    query = sa.select(_PIECE).where(_PIECE.c.kind == Finished.kind)
    return [row for key in dict.fromkeys(keys) for row in _pieces(db, query.where(_PIECE.c.key == key))]


def _pieces(db: Connection, query: sa.Select[Any]) -> list[tuple[str, str, str]]:
    return [(row.kind, row.key, row.content) for row in db.execute(query)]


def save_pieces(db: Connection, changes: Iterable[Change]) -> None:
    """Write what changed in the verifier's memory: what goes first, then what stays."""
    gone, kept = [], []
    for change in changes:
        if change.content is None:
            gone.append({"kind": change.kind, "key": change.key})
        else:
            kept.append(change._asdict())
    bulk.delete(db, _PIECE, gone)
    bulk.upsert(db, _PIECE, kept)


def save_said(db: Connection, events: Sequence[Recorded[Any]]) -> None:
    """Project audit's own events: the first verdict of every coup, and the findings.

    What is found about a coup after its verdict is a finding, and does not change the verdict.
    """
    verdicts: dict[tuple[str, str, str, int], dict[str, Any]] = {}
    findings = []
    for event in events:
        data = event.data
        if isinstance(data, CoupVerified):
            key = (data.operator, data.table, data.shoe, data.coup)
            verdicts.setdefault(key, _verdict(event, "verified"))
        elif isinstance(data, DiscrepancyFound):
            findings.append(
                {
                    "operator": data.operator,
                    "sequence": event.sequence,
                    "check": data.check,
                    "table_name": data.table,
                    "shoe": data.shoe,
                    "coup": data.coup,
                    "words": storable(data.words),
                }
            )
            if data.table is not None and data.shoe is not None and data.coup is not None:
                key = (data.operator, data.table, data.shoe, data.coup)
                verdicts.setdefault(key, _verdict(event, "discrepancy"))
    bulk.insert_new(db, _VERDICT, list(verdicts.values()))
    bulk.insert(db, _FINDING, findings)


def _verdict(event: Recorded[Any], verdict: str) -> dict[str, Any]:
    data = event.data
    return {
        "operator": data.operator,
        "table_name": data.table,
        "shoe": data.shoe,
        "coup": data.coup,
        "verdict": verdict,
        "sequence": event.sequence,
    }


def count_verdicts(db: Connection) -> dict[str, int]:
    """How many coups have which verdict."""
    query = sa.select(_VERDICT.c.verdict, sa.func.count()).group_by(_VERDICT.c.verdict)
    # Not dict(result): a result has keys, and would be taken for a mapping.
    return {verdict: times for verdict, times in db.execute(query)}  # noqa: C416


def list_verdicts(db: Connection, operator: str, table: str | None, after: int, most: int) -> list[Any]:
    """Verdicts of an operator behind a sequence of audit's stream, in order."""
    query = sa.select(_VERDICT).where(_VERDICT.c.operator == operator, _VERDICT.c.sequence > after)
    if table is not None:
        query = query.where(_VERDICT.c.table_name == table)
    return list(db.execute(query.order_by(_VERDICT.c.sequence).limit(most)).mappings())


def list_findings(db: Connection, operator: str, after: int, most: int) -> list[Any]:
    """Findings of an operator behind a sequence of audit's stream, in order."""
    query = (
        sa.select(_FINDING)
        .where(_FINDING.c.operator == operator, _FINDING.c.sequence > after)
        .order_by(_FINDING.c.sequence)
        .limit(most)
    )
    return list(db.execute(query).mappings())
