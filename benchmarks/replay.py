"""Reading a whole topic: kafka-python, which serves the live bus, against librdkafka for a replay."""

from __future__ import annotations

from itertools import islice
from time import perf_counter, sleep
from typing import Any

from services.runtime.bus.kafka import KafkaBus
from services.runtime.bus.kafka.topics import create_topics
from services.runtime.ports import BusUnavailable, Record

_TOPIC = "game.events"
_BATCH = 5_000
_IDLE_SECONDS = 0.0005


def measure(bootstrap: str, records: int, size: int) -> dict[str, Any]:
    """Publish so many records of so many bytes, over 16 keys, and read them in both ways."""
    address = f"{bootstrap}/replay{size}"
    create_topics(address)
    bus = KafkaBus(address)
    try:
        body = b"x" * size
        stream = (Record(_TOPIC, f"game/bench.T{number % 16}", body) for number in range(records))
        started = perf_counter()
        while batch := list(islice(stream, _BATCH)):
            bus.publish(batch)
        published = perf_counter() - started
        started = perf_counter()
        seen = sum(1 for _ in bus.read(_TOPIC))
        replayed = perf_counter() - started
        assert seen == records
        live = _read_live(bus, records)
    finally:
        bus.close()
    return {
        "records": records,
        "bytes": size,
        "published_per_second": records / published,
        "kafka_python_per_second": records / live,
        "librdkafka_per_second": records / replayed,
    }


def _read_live(bus: KafkaBus, records: int) -> float:
    """Seconds from the first record to the last, through a subscription: joining the group is not reading."""
    subscription = bus.subscribe("replay", [_TOPIC], {})
    seen, started = 0, 0.0
    try:
        while seen < records:
            try:
                taken = len(subscription.poll(_BATCH))
            except BusUnavailable:
                taken = 0  # it is joining
            if taken and not seen:
                started = perf_counter()
            seen += taken
            if not taken:
                sleep(_IDLE_SECONDS)  # whoever spins takes the time from the thread that reads
        return perf_counter() - started
    finally:
        subscription.close()
