"""The bus on Apache Kafka.

What is live goes through kafka-python: an idempotent producer that waits for all replicas (``publisher``),
and consumers that belong to a group as static members (``subscription``). Whole topics, for a replay, are
read by librdkafka (``replay``), which is many times as fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from services.runtime.bus.address import parse_address
from services.runtime.bus.kafka import replay
from services.runtime.bus.kafka.publisher import KafkaPublication, Publisher
from services.runtime.bus.kafka.subscription import KafkaSubscription
from services.runtime.bus.kafka.tuning import Tuning
from services.runtime.ports import Delivery, Offsets, Record


class KafkaBus:
    """The brokers at an address (see ``parse_address``). Opening never waits for them.

    Raises:
        AddressError: that is no address.
    """

    def __init__(self, address: str, tuning: Tuning | None = None) -> None:
        self._address, self._tuning = parse_address(address), tuning or Tuning()
        self._publisher: Publisher | None = None
        """Made with the first record: who only reads needs none."""

    def publish(self, records: Sequence[Record]) -> None:
        if records:
            self._open_publisher().publish(records)

    def begin(self, records: Sequence[Record]) -> KafkaPublication:
        return self._open_publisher().begin(records)

    def subscribe(
        self,
        group: str,
        topics: Sequence[str],
        start: Offsets,
        arrived: Callable[[], None] | None = None,
        *,
        at_once: bool = True,
    ) -> KafkaSubscription:
        return KafkaSubscription(
            self._address, group, topics, start, arrived=arrived, at_once=at_once, tuning=self._tuning
        )

    def read(self, topic: str, key: str | None = None) -> Iterator[Delivery]:
        everything = replay.read_topic(self._address, topic, self._tuning.patience_seconds)
        return everything if key is None else (each for each in everything if each.key == key)

    def keys(self, topic: str) -> Sequence[str]:
        return sorted({each.key for each in self.read(topic) if each.key is not None})

    def close(self) -> None:
        if self._publisher is not None:
            self._publisher.close()

    def _open_publisher(self) -> Publisher:
        if self._publisher is None:
            self._publisher = Publisher(self._address, self._tuning)
        return self._publisher
