"""Delivery over Apache Kafka keeps the contract, and some promises of its own. With real brokers."""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, KafkaAdminClient
from kafka.errors import NoError
from kafka.structs import OffsetAndMetadata

from deploy.kafka import Cluster, Kafka
from services.runtime.bus.kafka import KafkaBus
from services.runtime.bus.kafka.topics import PARTITIONS, create_topics
from services.runtime.bus.kafka.tuning import Tuning
from services.runtime.inbox import Verdict
from services.runtime.ports import Bus
from tests.contracts.delivery import (
    FOREIGN,
    GUESTS,
    DeliveryContract,
    Journal,
    notes,
    reached,
    seen_in,
    taken,
    up_to,
    wait_until,
    work_until,
)
from tests.contracts.streams import Seats
from tests.services.guests import Guests

HASTY = Tuning(
    patience_seconds=10.0,
    request_timeout_ms=1_000,
    delivery_timeout_ms=1_500,
    session_timeout_ms=1_000,
    heartbeat_interval_ms=150,
    max_poll_interval_ms=1_000,
    retry_backoff_ms=50,
    reconnect_backoff_max_ms=200,
)
KEPT_FOR_EVER = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
    "unclean.leader.election.enable": "false",
}
SHARED = re.compile(
    r"(.+)\.sabot-audit has (\d+) of 12 partitions: it is joining its group, or others are in it"
)
_numbers = count(1)


class TestKafkaDelivery(DeliveryContract):
    has_one_reader_of_a_name = True

    @pytest.fixture
    def address(self, kafka_cluster: Kafka) -> str:
        """An installation of this test's own, without its topics."""
        self.bootstrap, self.prefix = kafka_cluster.bootstrap, f"delivery-{next(_numbers)}"
        return f"{self.bootstrap}/{self.prefix}"

    @pytest.fixture
    def bus(self, connect, address: str) -> Iterator[Bus]:
        """For whoever is no writer, and so would not try again: patient."""
        with closing(KafkaBus(address)) as bus:
            yield bus

    @pytest.fixture
    def open_bus(self) -> Iterator[Callable[[str], KafkaBus]]:
        """Opens a client of some brokers; all are closed at the end."""
        opened: list[KafkaBus] = []

        def another(address: str) -> KafkaBus:
            opened.append(KafkaBus(address, HASTY))
            return opened[-1]

        yield another
        for each in opened:
            each.close()

    @pytest.fixture
    def connect(self, address: str, open_bus: Callable[[str], KafkaBus]) -> Callable[[], Bus]:
        create_topics(address)
        return partial(open_bus, address)

    @pytest.fixture
    def admin(self, address: str) -> Iterator[KafkaAdminClient]:
        with closing(KafkaAdminClient(bootstrap_servers=self.bootstrap)) as admin:
            yield admin

    @pytest.fixture(params=["stopped", "killed"])
    def outage(self, request, own_kafka_cluster: Cluster) -> Callable[[], AbstractContextManager[object]]:
        @contextmanager
        def down() -> Iterator[None]:
            if request.param == "stopped":
                own_kafka_cluster.stop()
            else:
                own_kafka_cluster.kill()
            yield
            own_kafka_cluster.start()

        return down

    def words_of_an_outage(self, fault: str) -> bool:
        return re.search("Kafka (did not acknowledge|at|broker)", fault) is not None

    def program_that_opens(self, tmp_path: Path) -> str:
        address = f"{self.bootstrap}/{self.prefix}"
        return f"from services.runtime.bus.kafka import KafkaBus\nbus = KafkaBus({address!r})\n"

    def wait_until_thrown_out(self, group: str) -> None:
        name = f"{self.prefix}.{group}"
        with closing(KafkaAdminClient(bootstrap_servers=self.bootstrap)) as admin:
            wait_until(lambda: not admin.describe_groups([name])[name]["members"])

    def check_spread(self, partitions: set[int]) -> None:
        assert len(partitions) > 1

    def told(self, admin: KafkaAdminClient, group: str) -> dict[Any, int]:
        """The offsets that the group has committed."""
        name = f"{self.prefix}.{group}"
        return {place: each.offset for place, each in admin.list_group_offsets(name)[name].items()}

    # ----------------------------------------------------------------------------------- brokers and topics

    @pytest.mark.parametrize("outage", ["stopped"], indirect=True)
    def test_money_case_19_ten_commands_while_the_bus_is_away(self, start, outage, bus, applied, caplog):
        super().test_money_case_19_ten_commands_while_the_bus_is_away(start, outage, bus, applied, caplog)

    def test_a_service_that_starts_before_its_brokers_waits_for_them(
        self, start, connect, own_kafka_cluster, applied
    ):
        own_kafka_cluster.stop()
        producer, consumer = start(Guests()), start(Journal("wallet.events"))
        answers = []
        for number in range(3):
            answers.append(producer.submit(f"guest-{number}"))
            assert (producer.step(), consumer.step()) == (1, 0)
        assert [each.result(0) for each in answers] == [[f"{GUESTS}/{n}"] for n in (1, 2, 3)]
        silence = f"no Kafka broker answers at {self.bootstrap}"
        work_until(lambda: producer.relay.fault == consumer.bus_fault == silence, producer, consumer)
        own_kafka_cluster.start()
        work_until(lambda: reached(consumer) == 3, producer, consumer)
        work_until(lambda: not (producer.bus_fault or consumer.bus_fault), producer, consumer)
        assert applied() == notes(GUESTS, 1, 2, 3)

    def test_topics_that_are_not_there_are_asked_for_and_waited_for(self, start, address, open_bus, applied):
        unprepared = f"{address}-unprepared"
        producer = start(Guests(), open_bus(unprepared))
        consumer = start(Journal("wallet.events"), open_bus(unprepared))
        answer = producer.submit("Ann")

        def is_asked_for(topic: str, fault: str | None) -> bool:
            words = f"topic {self.prefix}-unprepared.{topic} is not there: run 'sabot prepare' first"
            return fault is not None and fault.endswith(words)

        work_until(lambda: is_asked_for("wallet.events", consumer.bus_fault), producer, consumer)
        assert answer.result(0) == [f"{GUESTS}/1"]
        work_until(lambda: is_asked_for("game.events", producer.relay.fault), producer, consumer)
        create_topics(unprepared)
        work_until(lambda: reached(consumer) == 1, producer, consumer)
        work_until(lambda: not (producer.bus_fault or consumer.bus_fault), producer, consumer)
        assert applied() == notes(GUESTS, 1)

    def test_topics_keep_everything_for_ever_and_are_made_once(self, address, admin):
        made = create_topics(address, HASTY)
        names = {f"{self.prefix}.{name}": partitions for name, partitions in PARTITIONS.items()}
        assert {each.name: each.partitions for each in made} == names
        assert {(each.replicas, each.known) for each in made} == {(1, False)}
        assert create_topics(address, HASTY) == [replace(each, known=True) for each in made]
        for name in names:
            assert settings_of(admin, name) == KEPT_FOR_EVER | {"min.insync.replicas": "1"}

    def test_with_three_brokers_one_may_be_killed(self, own_kafka_cluster, start, open_bus, applied):
        with Cluster(3) as cluster:
            address = f"{cluster.bootstrap}/three"
            made = create_topics(address, HASTY)
            assert {(each.replicas, each.known) for each in made} == {(3, False)}
            with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as admin:
                for each in made:
                    assert settings_of(admin, each.name) == KEPT_FOR_EVER | {"min.insync.replicas": "2"}
                [topic] = admin.describe_topics(["three.wallet.events"])
                leader = topic["partitions"][0]["leader_id"]
            producer = start(Guests(), open_bus(address))
            consumer = start(Journal("wallet.events"), open_bus(address))
            for number in range(200):
                producer.submit(f"guest-{number}")
            work_until(lambda: reached(consumer) >= 100, producer, consumer)
            cluster.kill(leader)
            for number in range(200, 400):
                producer.submit(f"guest-{number}")
            work_until(lambda: reached(consumer) == 400 and not producer.relay.backlog, producer, consumer)
            work_until(lambda: not (producer.bus_fault or consumer.bus_fault), producer, consumer)
            assert applied() == notes(GUESTS, *up_to(400))
            producer.close()
            consumer.close()

    # ----------------------------------------------------------------- others in our group and on our topics

    def test_a_stranger_in_the_group_is_told_of_and_what_it_took_arrives_when_it_leaves(
        self, start, bus, applied, admin
    ):
        tables = [Seats(f"T{number}") for number in range(8)]
        consumer = start(Journal("game.events"))
        bus.publish([record for each in tables for record in each.sit(5)])

        def there(sequence: int) -> int:
            return sum(reached(consumer, each.name) == sequence for each in tables)

        work_until(lambda: there(5) == 8 and consumer.bus_fault is None, consumer)
        stranger = KafkaConsumer(
            f"{self.prefix}.game.events",
            bootstrap_servers=self.bootstrap,
            group_id=f"{self.prefix}.sabot-audit",
            auto_offset_reset="earliest",
            auto_commit_interval_ms=100,  # and says that it has done what it was given
            session_timeout_ms=2_000,
            heartbeat_interval_ms=200,
        )
        given = 0

        def takes_its_share() -> bool:
            nonlocal given
            given += sum(map(len, stranger.poll(timeout_ms=20).values()))
            has = len(stranger.assignment())
            shared = SHARED.fullmatch(consumer.bus_fault or "")
            return 0 < has < 12 and shared is not None and shared.groups() == (self.prefix, str(12 - has))

        with closing(stranger):
            work_until(takes_its_share, consumer)
            bus.publish([record for each in tables for record in each.sit(5)])
            work_until(lambda: takes_its_share() and given > 0 and there(10) > 0, consumer)
            assert there(5) > 0, "what the stranger was given is not ours"
        work_until(lambda: there(10) == 8 and consumer.bus_fault is None, consumer)
        assert seen_in(applied()) == {f"game:op.T{number}": list(up_to(10)) for number in range(8)}
        work_until(lambda: sum(self.told(admin, "sabot-audit").values()) == 80, consumer)

    def test_what_others_write_on_our_topics_is_buried_and_their_headers_are_no_matter(
        self, start, bus, applied, dead_letters
    ):
        seats, topic = Seats(), f"{self.prefix}.game.events"
        one, two, three = seats.sit(3)
        bus.publish([one])
        [partition] = {each.partition for each in bus.read("game.events")}
        theirs: list[dict[str, Any]] = [
            {"value": b"without a key"},
            {"key": seats.name.encode(), "value": None},
            {"key": b"\xff\xfe", "value": FOREIGN, "headers": [("ce_type", b"x"), ("signature", b"")]},
            {"key": two.key.encode(), "value": two.body, "headers": [("traceparent", b"00-1-2-01")]},
        ]
        with closing(KafkaProducer(bootstrap_servers=self.bootstrap)) as others:
            for each in theirs:
                others.send(topic, partition=partition, **each).get(10)
        bus.publish([three])
        consumer = start(Journal("game.events"))
        work_until(lambda: reached(consumer, seats.name) == 3, consumer)
        assert applied() == notes(seats.name, 1, 2, 3)
        assert [tuple(buried) for *buried, _ in dead_letters()] == [
            ("game.events", partition, 1, b"without a key"),
            ("game.events", partition, 2, b""),
            ("game.events", partition, 3, FOREIGN),
        ]

    @pytest.mark.parametrize("wrong", [0, 1_000_000], ids=["too low", "far beyond the end"])
    def test_offsets_that_the_group_has_wrong_are_no_matter(self, start, bus, applied, admin, wrong):
        seats, topic = Seats(), f"{self.prefix}.game.events"
        bus.publish(seats.sit(60))
        first = start(Journal("game.events"), records=10)
        work_until(lambda: reached(first, seats.name) >= 30, first)
        so_far = reached(first, seats.name)
        first.close()
        self.wait_until_thrown_out("sabot-audit")  # before that nobody else may change its offsets
        offsets = {TopicPartition(topic, each): OffsetAndMetadata(wrong, "", -1) for each in range(12)}
        assert set(admin.alter_group_offsets(f"{self.prefix}.sabot-audit", offsets).values()) == {NoError}
        assert set(self.told(admin, "sabot-audit").values()) == {wrong}
        bus.publish(seats.sit(10))
        second = start(Journal("game.events"), records=10)
        work_until(lambda: reached(second, seats.name) == 70, second)
        assert taken(second, "game.events", Verdict.APPLIED) == 70 - so_far
        assert taken(second, "game.events", Verdict.DUPLICATE) == 0
        assert applied() == notes(seats.name, *up_to(70))
        # Now the group shows the truth again, for people and tools.
        work_until(lambda: sorted(self.told(admin, "sabot-audit").values()) == [*[0] * 11, 70], second)


def settings_of(admin: KafkaAdminClient, topic: str) -> dict[str, str]:
    """What is set for a topic and is not as Kafka has it by itself."""
    resource, found = ConfigResource("topic", topic), dict[str, Any]()
    while not found:  # of several brokers one may not know the topic yet
        found = admin.describe_configs([resource])["topic"][topic]
    return {name: each["value"] for name, each in found.items()}
