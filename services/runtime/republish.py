"""Publishing a stream again: the producer's original bytes, which alone can fill a gap."""

from __future__ import annotations

from itertools import islice
from typing import Final

from sqlalchemy import Engine

from services.runtime.ports import Bus
from services.runtime.relay import record_of
from services.runtime.store import Stored, read_heads, read_stream

_BATCH: Final = 500


class UnknownStream(ValueError):
    """A stream that the store does not have."""


def republish(reader: Engine, bus: Bus, stream: str, first: int) -> int:
    """Publish the stored events of ``stream`` from sequence ``first`` on. Returns how many.

    Raises:
        UnknownStream: the store has no such stream.
        BusUnavailable: the bus did not take them; do it again.
    """
    with reader.connect() as db, db.begin():
        known = [head.stream for head in read_heads(db)]
        if stream not in known:
            raise UnknownStream(f"no stream {stream!r} here; there are {', '.join(known) or 'none yet'}")
        events = (Stored(0, stream, body) for _, body in read_stream(db, stream, first))
        count = 0
        while batch := list(islice(events, _BATCH)):
            bus.publish([record_of(each) for each in batch])
            count += len(batch)
    return count
