"""Audit alone, for a run that has it apart: steps until its standard input is closed."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from services.audit.wiring import open_audit
from services.runtime.installation import Installation
from services.runtime.memory import calm_collector
from services.runtime.ports_system import SystemClock, SystemIds
from services.runtime.process import WriterThread
from services.runtime.settings import Settings


def main() -> None:
    """Serve the installation that the argument, or the environment, names."""
    calm_collector()
    where = Installation(Path(sys.argv[1]), os.environ.get("SABOT_KAFKA"), os.environ.get("SABOT_DATABASE"))
    bus = where.open_bus()
    thread = WriterThread(
        open_audit(where, bus, Settings(), clock=SystemClock(), ids=SystemIds()), threading.Event()
    )
    thread.start()
    print("ready", flush=True)
    sys.stdin.read()
    thread.finish()
    bus.close()


if __name__ == "__main__":
    main()
