"""How a process that makes millions of short-lived objects is set up."""

from __future__ import annotations

import gc
from typing import Final

_ALLOCATIONS_BEFORE_COLLECTION: Final = 50_000


def calm_collector() -> None:
    """Let the cyclic collector run less often, and leave alone what was there at the start.

    Events and rows hold no cycles and die by their reference counts; with Python's default of a collection
    every 700 allocations the collector walks over all of them again and again, for an eighth of the whole
    time (``make bench``). For a program's entry point: a library must not decide this for others.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS_BEFORE_COLLECTION, 20, 50)
