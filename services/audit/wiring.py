"""How audit is put together."""

from __future__ import annotations

from typing import Any

from services.audit.service import AuditMetrics, AuditService
from services.runtime.installation import Installation
from services.runtime.ports import Bus, Clock, Ids
from services.runtime.settings import Settings
from services.runtime.writer import Writer


def open_audit(
    installation: Installation, bus: Bus, settings: Settings, *, clock: Clock, ids: Ids
) -> Writer[Any]:
    """Audit's writer over its database."""
    engine = installation.open_database("audit")
    service = AuditService()
    writer: Writer[Any] = Writer(service, engine, bus, clock=clock, ids=ids, calendar=settings.calendar)
    service.metrics = AuditMetrics(writer.metrics.registry)
    return writer
