"""Audit over HTTP: verdicts and findings, for whoever asks."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Query
from sqlalchemy import Engine

from services.audit import store
from services.runtime.http import service_app
from services.runtime.writer import Writer

After = Annotated[int, Query(ge=0, le=2**62, description="Sequence in audit's stream behind which to go on.")]
Most = Annotated[int, Query(ge=1, le=1_000, description="How many at the most.")]


def audit_app(writer: Writer[Any], reader: Engine) -> FastAPI:
    """The application. ``reader`` is an engine for queries."""
    app = service_app(writer, "Sabot audit", "Every coup worked out again from the events alone.")

    @app.get("/v1/verdicts", tags=["audit"])
    def verdicts() -> dict[str, int]:
        """How many coups were verified, and how many were not."""
        with reader.connect() as db:
            counted = store.count_verdicts(db)
        return {"verified": counted.get("verified", 0), "discrepancy": counted.get("discrepancy", 0)}

    @app.get("/v1/operators/{operator}/coups", tags=["audit"])
    def coups(operator: str, table: str | None = None, after: After = 0, most: Most = 100) -> dict[str, Any]:
        """Verdicts in the order in which they were said; ``next`` goes on behind the last."""
        with reader.connect() as db:
            rows = store.list_verdicts(db, operator, table, after, most)
        return _page([dict(row) for row in rows], most)

    @app.get("/v1/operators/{operator}/findings", tags=["audit"])
    def findings(operator: str, after: After = 0, most: Most = 100) -> dict[str, Any]:
        """What is not as it must be."""
        with reader.connect() as db:
            rows = store.list_findings(db, operator, after, most)
        return _page([dict(row) for row in rows], most)

    return app


def _page(rows: list[dict[str, Any]], most: int) -> dict[str, Any]:
    return {"items": rows, "next": rows[-1]["sequence"] if len(rows) == most else None}
