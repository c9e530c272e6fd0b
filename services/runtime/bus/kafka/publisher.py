"""The producer: idempotent, in order, and nothing counts as published that all replicas have not.

Connecting may take long and must hold nobody up, so a thread does it. A producer whose records were not
acknowledged in time is replaced by a new one: it might be in a state from which it does not come back
(kafka-python cannot tell), and what it still sends late is a repetition, which every inbox skips.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Final

from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError

from services.runtime.bus.address import Address, in_words
from services.runtime.bus.kafka.clients import open_client
from services.runtime.bus.kafka.records import headers_of
from services.runtime.bus.kafka.topics import not_there
from services.runtime.bus.kafka.tuning import Tuning
from services.runtime.ports import BusUnavailable, Record
from services.runtime.topics import TOPICS

_AGAIN_SECONDS: Final = 0.25
_CLOSE_SECONDS: Final = 2.0
_BLOCK_MS: Final = 3_000

log = logging.getLogger(__name__)


class KafkaPublication:
    """Records that were handed to the producer."""

    def __init__(self, futures: Sequence[Any], failed: Callable[[], None]) -> None:
        self._futures, self._failed = futures, failed
        self._acknowledged = 0

    def done(self) -> bool:
        while self._acknowledged < len(self._futures):
            future = self._futures[self._acknowledged]
            if not future.is_done:
                return False
            if future.failed():
                self._failed()
                raise BusUnavailable(f"Kafka did not acknowledge in time: {in_words(future.exception)}")
            self._acknowledged += 1
        return True

    def wait(self, seconds: float) -> None:
        """Wait until all are durable.

        Raises:
            BusUnavailable: they are not, in this time.
        """
        until = monotonic() + seconds
        for future in self._futures:
            try:
                future.get(timeout=max(0.0, until - monotonic()))
            except KafkaError as error:
                self._failed()
                raise BusUnavailable(f"Kafka did not acknowledge in time: {in_words(error)}") from error


class Publisher:
    """One producer, made when the brokers can be reached, and made anew when it fails."""

    def __init__(self, address: Address, tuning: Tuning) -> None:
        self._address, self._tuning = address, tuning
        self._producer: KafkaProducer | None = None
        self._reason = f"not connected to Kafka at {address} yet"
        self._sending = threading.Lock()
        """Threads may share a bus; records of one publication lie together."""
        self._connected, self._needed, self._closing = (threading.Event() for _ in range(3))
        self._needed.set()
        self._thread = threading.Thread(target=self._connect, name="kafka-publisher", daemon=True)
        self._thread.start()

    def begin(self, records: Sequence[Record]) -> KafkaPublication:
        """Hand records to the producer.

        Raises:
            BusUnavailable: there is no connection at the moment.
        """
        with self._sending:
            producer = self._producer
            if producer is None:
                raise BusUnavailable(self._reason)
            try:
                futures = [
                    producer.send(
                        self._address.named(each.topic),
                        key=each.key.encode(),
                        value=each.body,
                        headers=headers_of(each),
                    )
                    for each in records
                ]
            except KafkaError as error:
                self._replace(producer)
                raise BusUnavailable(f"Kafka does not take records: {in_words(error)}") from error
        return KafkaPublication(futures, lambda: self._replace(producer))

    def publish(self, records: Sequence[Record]) -> None:
        """Hand records to the producer and wait until all of them are durable.

        Raises:
            BusUnavailable: they are not, or nobody knows.
        """
        self._connected.wait(self._tuning.patience_seconds)
        self.begin(records).wait(self._tuning.delivery_timeout_ms / 1000)

    def close(self) -> None:
        """Let what is on its way arrive, for a moment, and end."""
        self._closing.set()
        self._needed.set()
        self._thread.join()
        if self._producer is not None:
            _end(self._producer).join(_CLOSE_SECONDS)

    # The thread.

    def _connect(self) -> None:
        while True:
            self._needed.wait()
            self._needed.clear()
            while self._producer is None and not self._closing.is_set():
                self._try()
                if self._producer is None:
                    self._closing.wait(_AGAIN_SECONDS)
            if self._closing.is_set():
                return

    def _try(self) -> None:
        producer = None
        try:
            if not self._address.answers:
                self._reason = self._address.silence
                return
            producer = self._make()
            for topic in TOPICS:  # from here on `send` knows where to, and does not wait to be told
                self._find(producer, self._address.named(topic))
        except Exception as error:  # whatever it is: there is nobody else to go on
            self._reason = f"Kafka at {self._address} cannot be used: {in_words(error)}"
            if not isinstance(error, (KafkaError, OSError)):
                log.exception("%s", self._reason)
            if producer is not None:
                _end(producer)
        else:
            self._producer = producer
            self._connected.set()

    def _find(self, producer: KafkaProducer, topic: str) -> None:
        try:
            producer.partitions_for(topic)
        except KafkaTimeoutError as error:
            raise KafkaTimeoutError(not_there(topic)) from error

    def _make(self) -> KafkaProducer:
        tuning = self._tuning
        return open_client(
            KafkaProducer,
            bootstrap_servers=list(self._address.servers),
            client_id="sabot",
            enable_idempotence=True,
            acks="all",
            linger_ms=0,  # a writer's batch is a batch already
            batch_size=256 * 1024,
            request_timeout_ms=tuning.request_timeout_ms,
            delivery_timeout_ms=tuning.delivery_timeout_ms,
            max_block_ms=_BLOCK_MS,
            retry_backoff_ms=tuning.retry_backoff_ms,
            reconnect_backoff_max_ms=tuning.reconnect_backoff_max_ms,
            bootstrap_timeout_ms=tuning.request_timeout_ms,
            allow_auto_create_topics=False,
            metrics_enabled=False,
        )

    def _replace(self, failed: Any) -> None:
        """Go on with another producer. What the failed one was given counts as not published."""
        producer = self._producer
        if producer is None or producer is not failed:
            return  # another thread has done it
        self._producer = None
        self._connected.clear()
        self._needed.set()
        _end(producer)


def _end(producer: KafkaProducer) -> threading.Thread:
    """Close a producer, which is not done before its records are acknowledged or have timed out."""

    def end() -> None:
        while True:
            try:
                producer.close(timeout=_CLOSE_SECONDS)
            except KafkaTimeoutError:
                continue  # that closed nothing
            return

    thread = threading.Thread(target=end, name="kafka-publisher-end", daemon=True)
    thread.start()
    return thread
