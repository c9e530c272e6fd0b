"""``python -m deploy.postgres``: a server for trying things out, prepared, until Ctrl-C."""

from __future__ import annotations

import signal
import sys
import threading

from deploy.postgres.server import Server, ServerFailed
from services.audit import store as audit_store
from services.game import store as game_store
from services.runtime.prepare import prepare
from services.wallet import tables as wallet_tables

SERVICES = {"game": game_store.ACCESS, "wallet": wallet_tables.ACCESS, "audit": audit_store.ACCESS}


def main() -> int:
    """Run a server. Returns the exit status."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    try:
        with Server() as server:
            database = f"postgresql://sabot_{{service}}@127.0.0.1:{server.port}/sabot_{{service}}"
            prepare(database, server.url, SERVICES)
            print(f"export SABOT_DATABASE='{database}'", flush=True)
            print(f"# {server.url} is the superuser; all of it goes when this ends (Ctrl-C)", flush=True)
            while server.runs() and not ended.wait(0.2):
                pass
            if ended.is_set():
                return 0
            print("the server has ended", file=sys.stderr)
            return 1
    except ServerFailed as reason:
        print(reason, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
