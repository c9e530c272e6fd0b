"""How audit is put together on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from services.audit.service import AuditMetrics, AuditService
from services.runtime.database import migrate, open_sqlite
from services.runtime.files import database_of
from services.runtime.ports import Bus, Clock, Ids
from services.runtime.settings import Settings
from services.runtime.writer import Writer

DATABASE = database_of("audit")


def open_audit(data: Path, bus: Bus, settings: Settings, *, clock: Clock, ids: Ids) -> Writer[Any]:
    """Audit's writer over ``data/audit.db``, which is made and migrated as needed."""
    engine = open_sqlite(data / DATABASE, writer=True)
    migrate(engine, "audit")
    service = AuditService()
    writer: Writer[Any] = Writer(service, engine, bus, clock=clock, ids=ids, calendar=settings.calendar)
    service.metrics = AuditMetrics(writer.metrics.registry)
    return writer
