"""A consumer of some topics: a static member of its group, that begins where its inbox says.

A thread owns kafka-python's consumer. It hands over one batch and asks Kafka for the next only when that one
was taken: so memory is bounded, the next batch is on its way while this one is worked on, and a consumer
whose service hangs is seen to hang, for it leaves its group after ``max_poll_interval_ms``.

What the group commits is a hint for people and tools. A consumer that comes back, or is given a partition
anew, goes on from its own positions; what it reads twice its inbox skips.

It is committed at every heartbeat, though, as the sign of life that kafka-python does not give. To it a poll
of brokers that are gone is the same as one that finds nothing. A member whose name another has taken is told
so in answer to a commit alone. And kafka-python 3.0.12 may stop for good in the middle of joining its group,
where the brokers' metadata change and change back meanwhile, as they do when one is started again. Where no
answer comes another consumer is made.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from time import monotonic
from typing import Any, Final

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.admin import KafkaAdminClient, MemberToRemove
from kafka.errors import FencedInstanceIdError, KafkaError, UnknownTopicOrPartitionError
from kafka.structs import OffsetAndMetadata

from services.runtime.bus.address import Address, in_words
from services.runtime.bus.kafka.clients import open_client
from services.runtime.bus.kafka.records import delivery_of
from services.runtime.bus.kafka.topics import not_there
from services.runtime.bus.kafka.tuning import Tuning
from services.runtime.ports import BusUnavailable, Delivery, Offsets, TakenOver

_BATCH: Final = 500
_POLL_MS: Final = 100
_WAIT_MS: Final = 500
"""A request for more waits so long for something to come."""
_PATIENT_BYTES: Final = 256 * 1024
_PATIENT_MS: Final = 100
"""Who is in no hurry has what came in so long, or so much: each answer costs kafka-python a millisecond."""
_AGAIN_SECONDS: Final = 0.25
_COUNT_EVERY_SECONDS: Final = 0.5
"""How many records wait is for people to look at, and to count them costs as much as to fetch some."""

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
        at_once: bool,
        tuning: Tuning,
    ) -> None:
        self._address, self._group, self._tuning = address, address.named(group), tuning
        self._topics = [address.named(topic) for topic in topics]
        self._arrived, self._at_once = arrived or (lambda: None), at_once
        self._next: dict[tuple[str, int], int] = dict(start)
        """Behind what was read from Kafka, by partition."""
        # A static member that comes back is given what it had, whatever it asks for now; so one that reads
        # other topics is another member, and has them when the old one's session is over.
        self._member = "-".join([self._group, *self._topics])
        self._read: deque[Delivery] = deque()
        self._behind = 0
        """Records that Kafka has and this has not read."""
        self._fault: BusUnavailable | None = None
        self._taken_over: TakenOver | None = None
        """What the next poll says, and the one after that takes back."""
        self._applied: Offsets = dict(start)
        """Behind what the service has done, by partition: what Kafka is told."""
        self._untold = False
        self._taken, self._back, self._closing = (threading.Event() for _ in range(3))
        self._thread = threading.Thread(target=self._run, name=f"{group}-reader", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        return len(self._read) + self._behind

    def poll(self, records_max: int) -> Sequence[Delivery]:
        if self._taken_over is not None:
            return self._give_way_or_take_back(self._taken_over)
        taken = [self._read.popleft() for _ in range(min(records_max, len(self._read)))]
        if not self._read:
            self._taken.set()
        if not taken and self._fault is not None:
            raise self._fault
        return taken

    def _give_way_or_take_back(self, reason: TakenOver) -> Sequence[Delivery]:
        if self._fault is not None:
            self._taken_over = None
            self._back.set()
            raise self._fault
        self._fault = BusUnavailable(str(reason))
        raise reason

    def commit(self, offsets: Offsets) -> None:
        """Hand offsets to the thread, which tells Kafka when it next comes to it."""
        self._applied, self._untold = dict(offsets), True

    def close(self) -> None:
        """Stop reading. A static member does not leave its group: it may be back at once."""
        self._closing.set()
        self._taken.set()
        self._back.set()
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
                self._wait_to_be_back()
            except UnknownTopicOrPartitionError as error:
                self._fault = BusUnavailable(not_there(error.args[0] if error.args else self._topics[0]))
            except BusUnavailable as reason:
                self._fault = reason
            except Exception as error:  # whatever it is: there is nobody else to go on
                words = f"{self._group} cannot read from Kafka at {self._address}: {in_words(error)}"
                if not isinstance(error, (KafkaError, OSError)):
                    log.exception("%s", words)
                self._fault = BusUnavailable(words)
            self._closing.wait(_AGAIN_SECONDS)

    def _wait_to_be_back(self) -> None:
        """Somebody else has this member's name: the service must say whether it is to be taken from him."""
        log.warning("another process reads as %s", self._group)
        self._back.clear()
        self._fault = None
        self._taken_over = TakenOver(f"another process reads as {self._group}")
        if not self._closing.is_set():
            self._back.wait()

    def _make(self) -> KafkaConsumer:
        tuning = self._tuning
        return open_client(
            KafkaConsumer,
            bootstrap_servers=list(self._address.servers),
            client_id=self._group,
            group_id=self._group,
            group_instance_id=self._member,
            enable_auto_commit=False,
            auto_offset_reset="earliest",  # where a position is not there any more; the inbox knows the rest
            fetch_min_bytes=1 if self._at_once else _PATIENT_BYTES,
            fetch_max_wait_ms=_WAIT_MS if self._at_once else _PATIENT_MS,
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
        """Read until this is closed, or Kafka leaves it without any partition for long.

        Raises:
            BusUnavailable: there is no sign of life from the brokers.
        """
        # It must know the topics before it joins: the member that joins first hands out the partitions, and
        # those that it does not know of it gives to nobody, not even to itself.
        while lacking := next((t for t in self._topics if not consumer.partitions_for_topic(t)), None):
            self._fault = BusUnavailable(not_there(lacking))
            if self._closing.wait(_AGAIN_SECONDS):
                return
        life = _SignsOfLife(consumer, self._tuning)
        listener = _GoOnFromHere(consumer, self._address, self._next, life.note)
        consumer.subscribe(self._topics, listener=listener)
        hungry_since: float | None = None
        counted = 0.0
        while not self._closing.is_set():
            self._tell(consumer, life)
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
            if monotonic() - counted > _COUNT_EVERY_SECONDS:
                self._behind, counted = _behind(consumer), monotonic()
            if polled:
                life.note()
                self._arrived()
            if consumer.assignment() and not life.seen_within(self._tuning.session_timeout_ms / 1000):
                raise BusUnavailable(f"Kafka at {self._address} does not answer {self._group}")

    def _leave_group(self) -> None:
        """A static member that was given nothing is given nothing again, unless it was away."""
        log.warning("%s has no partitions and joins its group anew", self._group)
        admin = open_client(
            KafkaAdminClient,
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
                return BusUnavailable(not_there(topic))
            there += len(partitions)
        if given >= there:
            return None
        words = f"{self._group} has {given} of {there} partitions"
        return BusUnavailable(f"{words}: it is joining its group, or others are in it")

    def _tell(self, consumer: KafkaConsumer, life: _SignsOfLife) -> None:
        """Commit how far the service is, if it has come further or it is time for a sign of life."""
        if life.awaited or not (self._untold or life.due):
            return
        self._untold = False
        life.ask(
            {
                each: OffsetAndMetadata(
                    self._applied.get((self._address.our_name(each.topic), each.partition), 0), "", -1
                )
                for each in consumer.assignment()
            }
        )


class _SignsOfLife:
    """When the brokers were last heard of. They are asked by committing offsets."""

    def __init__(self, consumer: KafkaConsumer, tuning: Tuning) -> None:
        self._consumer, self._every = consumer, tuning.heartbeat_interval_ms / 1000
        self._answer: Any = None
        self._asked = self._seen = monotonic()

    def note(self) -> None:
        """They were heard of just now."""
        self._seen = monotonic()

    def seen_within(self, seconds: float) -> bool:
        return monotonic() - self._seen <= seconds

    @property
    def due(self) -> bool:
        """Whether they should be asked again."""
        return monotonic() - self._asked >= self._every

    @property
    def awaited(self) -> bool:
        """Whether they were asked and have not answered."""
        if self._answer is not None and self._answer.is_done:
            if self._answer.succeeded():
                self.note()
            self._answer = None
        return self._answer is not None

    def ask(self, offsets: Mapping[Any, Any]) -> None:
        if offsets:  # kafka-python answers itself where there are none
            self._asked, self._answer = monotonic(), self._consumer.commit_async(offsets)


class _GoOnFromHere(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python is not typed
    """Sets each partition that comes to this consumer to the consumer's own position."""

    def __init__(
        self, consumer: KafkaConsumer, address: Address, positions: Offsets, came: Callable[[], None]
    ) -> None:
        self._consumer, self._address, self._positions, self._came = consumer, address, positions, came

    def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
        """What was read of them already is worked on; another who reads it too is fenced by the store."""

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._came()
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
