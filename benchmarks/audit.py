"""Audit alone, for a run that has it apart: steps until its standard input is closed."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from services.audit.wiring import open_audit
from services.runtime.bus.embedded import EmbeddedBus
from services.runtime.files import BUS_DATABASE
from services.runtime.installation import Installation
from services.runtime.memory import calm_collector
from services.runtime.ports_system import SystemClock, SystemIds
from services.runtime.process import WriterThread
from services.runtime.settings import Settings


def main() -> None:
    """Serve the directory that the argument names."""
    calm_collector()
    data = Path(sys.argv[1])
    bus = EmbeddedBus(data / BUS_DATABASE)
    thread = WriterThread(
        open_audit(Installation(data), bus, Settings(), clock=SystemClock(), ids=SystemIds()),
        threading.Event(),
    )
    thread.start()
    print("ready", flush=True)
    sys.stdin.read()
    thread.finish()
    bus.close()


if __name__ == "__main__":
    main()
