"""Delivery over Apache Kafka keeps the contract, and some promises of its own. With real brokers."""

import gc
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient

from deploy.kafka import Cluster, Kafka
from services.runtime.bus.kafka import KafkaBus
from services.runtime.bus.kafka.topics import create_topics
from services.runtime.bus.kafka.tuning import Tuning
from services.runtime.ports import Bus
from tests.contracts.delivery import (
    DeliveryContract,
    wait_until,
)

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
_numbers = count(1)

# kafka-python leaves the socket of a connection that was refused to the garbage collector.
pytestmark = pytest.mark.filterwarnings(r"ignore:unclosed <socket.*laddr=\('0\.0\.0\.0':ResourceWarning")


class TestKafkaDelivery(DeliveryContract):
    @pytest.fixture
    def address(self, kafka_cluster: Kafka) -> str:
        """An installation of this test's own, without its topics."""
        self.address = f"{kafka_cluster.bootstrap}/delivery-{next(_numbers)}"
        self.bootstrap, _, self.prefix = self.address.partition("/")
        return self.address

    @pytest.fixture
    def connect(self, request, address: str) -> Iterator[Callable[[], Bus]]:
        opened: list[KafkaBus] = []
        if "without_topics" not in request.keywords:
            create_topics(address)

        def another() -> KafkaBus:
            opened.append(KafkaBus(address, HASTY))
            return opened[-1]

        yield another
        for each in opened:
            each.close()
        if "own_kafka_cluster" in request.fixturenames:
            gc.collect()

    @pytest.fixture
    def admin(self, address: str) -> Iterator[KafkaAdminClient]:
        with closing(KafkaAdminClient(bootstrap_servers=self.bootstrap)) as admin:
            yield admin

    @pytest.fixture(params=["stopped", "killed"])
    def outage(self, request, own_kafka_cluster: Cluster) -> Callable[[], AbstractContextManager[object]]:
        @contextmanager
        def down() -> Iterator[None]:
            own_kafka_cluster.stop() if request.param == "stopped" else own_kafka_cluster.kill()
            yield
            own_kafka_cluster.start()

        return down

    def words_of_an_outage(self, fault: str) -> bool:
        return re.search("Kafka|acknowledge", fault) is not None

    def program_that_opens(self, tmp_path: Path) -> str:
        return f"from services.runtime.bus.kafka import KafkaBus\nbus = KafkaBus({self.address!r})\n"

    def wait_until_thrown_out(self, group: str) -> None:
        with closing(KafkaAdminClient(bootstrap_servers=self.bootstrap)) as admin:
            wait_until(lambda: not self.members(admin, group))

    def members(self, admin: KafkaAdminClient, group: str) -> Sequence[Any]:
        name = f"{self.prefix}.{group}"
        found: Sequence[Any] = admin.describe_groups([name])[name]["members"]
        return found

    def check_spread(self, partitions: set[int]) -> None:
        assert len(partitions) > 1
