"""A consumer of some topics: a static member of its group, that begins where its inbox says.

A thread owns kafka-python's consumer. It hands over one batch and asks Kafka for the next only when that one
was taken: so memory is bounded, the next batch is on its way while this one is worked on, and a consumer
whose service hangs is seen to hang, for it leaves its group after ``max_poll_interval_ms``.

What the group commits is a hint for people and tools. A consumer that comes back, or is given a partition
anew, goes on from its own positions; what it reads twice its inbox skips.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from time import monotonic
from typing import Any, Final

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient, MemberToRemove
from kafka.errors import FencedInstanceIdError, KafkaError
from kafka.structs import OffsetAndMetadata

from services.runtime.bus.address import Address, in_words
from services.runtime.bus.kafka.records import delivery_of
from services.runtime.bus.kafka.tuning import Tuning
from services.runtime.ports import BusUnavailable, Delivery, Offsets, TakenOver

_BATCH: Final = 500
_POLL_MS: Final = 100
_AGAIN_SECONDS: Final = 0.25

log = logging.getLogger(__name__)


class KafkaSubscription:
    """Reads some topics for one group. Opening does not wait for the brokers."""

    def __init__(
        self,
        address: Address,
        group: str,
        topics: Sequence[str],
        start: Offsets,
        *,
        arrived: Callable[[], None] | None,
        tuning: Tuning,
    ) -> None:
        self._address, self._group, self._tuning = address, address.named(group), tuning
        self._topics = [address.named(topic) for topic in topics]
        self._arrived = arrived or (lambda: None)
        self._next: dict[tuple[str, int], int] = dict(start)
        """Behind what was read from Kafka, by partition."""
        # A static member that comes back is given what it had, whatever it asks for now; so one that reads
        # other topics is another member, and has them when the old one's session is over.
        self._member = "-".join([self._group, *self._topics])
        self._read: deque[Delivery] = deque()
        self._behind = 0
        """Records that Kafka has and this has not read."""
        self._fault: Exception | None = None
        self._to_commit: Offsets | None = None
        self._taken, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{group}-reader", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        return len(self._read) + self._behind

    def poll(self, records_max: int) -> Sequence[Delivery]:
        taken = [self._read.popleft() for _ in range(min(records_max, len(self._read)))]
        if not self._read:
            self._taken.set()
        if not taken and self._fault is not None:
            raise self._fault
        return taken

    def commit(self, offsets: Offsets) -> None:
        """Hand offsets to the thread, which tells Kafka when it next comes to it."""
        self._to_commit = dict(offsets)

    def close(self) -> None:
        """Stop reading. A static member does not leave its group: it may be back at once."""
        self._closing.set()
        self._taken.set()
        self._thread.join()

    # The thread.

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                if self._address.answers:
                    with closing(self._make()) as consumer:
                        self._consume(consumer)
                    if not self._closing.is_set():
                        self._leave_group()
                else:
                    self._fault = BusUnavailable(self._address.silence)
            except FencedInstanceIdError:
                self._fault = TakenOver(f"another process reads as {self._group}")
                return
            except (KafkaError, OSError) as error:
                words = f"{self._group} cannot read from Kafka at {self._address}: {in_words(error)}"
                log.warning("%s", words)
                self._fault = BusUnavailable(words)
            self._closing.wait(_AGAIN_SECONDS)

    def _make(self) -> KafkaConsumer:
        tuning = self._tuning
        return KafkaConsumer(
            bootstrap_servers=list(self._address.servers),
            client_id=self._group,
            group_id=self._group,
            group_instance_id=self._member,
            enable_auto_commit=False,
            auto_offset_reset="earliest",  # where a position is not there any more; the inbox knows the rest
            fetch_max_wait_ms=min(500, tuning.request_timeout_ms - 1),
            max_poll_records=_BATCH,
            session_timeout_ms=tuning.session_timeout_ms,
            heartbeat_interval_ms=tuning.heartbeat_interval_ms,
            max_poll_interval_ms=tuning.max_poll_interval_ms,
            request_timeout_ms=tuning.request_timeout_ms,
            retry_backoff_ms=tuning.retry_backoff_ms,
            reconnect_backoff_max_ms=tuning.reconnect_backoff_max_ms,
            bootstrap_timeout_ms=tuning.request_timeout_ms,
            allow_auto_create_topics=False,
            metrics_enabled=False,
        )

    def _consume(self, consumer: KafkaConsumer) -> None:
        """Read until this is closed, or Kafka leaves it without any partition for long."""
        # It must know the topics before it joins: the member that joins first hands out the partitions, and
        # those that it does not know of it gives to nobody, not even to itself.
        for topic in self._topics:
            consumer.partitions_for_topic(topic)
        consumer.subscribe(self._topics, listener=_GoOnFromHere(consumer, self._address, self._next))
        hungry_since: float | None = None
        while not self._closing.is_set():
            self._commit(consumer)
            if self._read:
                self._taken.clear()
                if self._read:
                    self._taken.wait(_POLL_MS / 1000)
                    continue
            polled = consumer.poll(timeout_ms=_POLL_MS)
            self._fault = self._shortage(consumer)
            if consumer.assignment():
                hungry_since = None
            elif hungry_since is None:
                hungry_since = monotonic()
            elif monotonic() - hungry_since > 2 * self._tuning.session_timeout_ms / 1000:
                return
            for partition, records in polled.items():
                topic = self._address.our_name(partition.topic)
                self._next[topic, partition.partition] = records[-1].offset + 1
                self._read.extend(
                    delivery_of((topic, each.partition, each.offset), each.key, each.value, each.headers)
                    for each in records
                )
            self._behind = _behind(consumer)
            if polled:
                self._arrived()

    def _leave_group(self) -> None:
        """A static member that was given nothing is given nothing again, unless it was away."""
        log.warning("%s has no partitions and joins its group anew", self._group)
        admin = KafkaAdminClient(
            bootstrap_servers=list(self._address.servers),
            request_timeout_ms=self._tuning.request_timeout_ms,
            bootstrap_timeout_ms=self._tuning.request_timeout_ms,
        )
        try:
            admin.remove_group_members(self._group, [MemberToRemove(group_instance_id=self._member)])
        finally:
            admin.close()

    def _shortage(self, consumer: KafkaConsumer) -> BusUnavailable | None:
        """What is not read, or nothing: the group is one consumer, and has all partitions."""
        given, there = len(consumer.assignment()), 0
        for topic in self._topics:
            partitions = consumer.partitions_for_topic(topic)
            if not partitions:
                return BusUnavailable(f"topic {topic} is not there: run 'sabot prepare' first")
            there += len(partitions)
        if given >= there:
            return None
        words = f"{self._group} has {given} of {there} partitions"
        return BusUnavailable(f"{words}: it is joining its group, or others are in it")

    def _commit(self, consumer: KafkaConsumer) -> None:
        offsets, self._to_commit = self._to_commit, None
        if offsets is None:
            return
        ours = consumer.assignment()
        wanted = {
            partition: OffsetAndMetadata(offset, "", -1)
            for (topic, number), offset in offsets.items()
            if (partition := TopicPartition(self._address.named(topic), number)) in ours
        }
        if wanted:
            consumer.commit_async(wanted)


class _GoOnFromHere(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python is not typed
    """Sets each partition that comes to this consumer to the consumer's own position."""

    def __init__(self, consumer: KafkaConsumer, address: Address, positions: Offsets) -> None:
        self._consumer, self._address, self._positions = consumer, address, positions

    def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
        """What was read of them already is worked on; another who reads it too is fenced by the store."""

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        for each in assigned:
            topic = self._address.our_name(each.topic)
            self._consumer.seek(each, self._positions.get((topic, each.partition), 0))


def _behind(consumer: KafkaConsumer) -> int:
    behind = 0
    for partition in consumer.assignment():
        end = consumer.highwater(partition)
        if end is not None:
            behind += max(0, end - consumer.position(partition, timeout_ms=0))
    return behind
