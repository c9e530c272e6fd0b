"""The bus on Apache Kafka keeps the contract, over a real broker."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from deploy.kafka import Cluster, Kafka
from services.runtime.bus.kafka import KafkaBus
from services.runtime.bus.kafka.topics import create_topics
from services.runtime.bus.kafka.tuning import Tuning
from services.runtime.ports import Bus
from tests.contracts.bus import BusContract

IMPATIENT = Tuning(
    patience_seconds=10.0,
    request_timeout_ms=3_000,
    delivery_timeout_ms=5_000,
    session_timeout_ms=2_000,
    heartbeat_interval_ms=200,
)
_numbers = count(1)


@pytest.fixture
def address(kafka_cluster: Kafka) -> str:
    """An installation of this test's own."""
    address = f"{kafka_cluster.bootstrap}/test-{next(_numbers)}"
    create_topics(address)
    return address


class TestKafkaBus(BusContract):
    @pytest.fixture(autouse=True)
    def _broker(self, kafka_cluster: Kafka, address: str) -> None:
        self.cluster, self.address = kafka_cluster, address

    @pytest.fixture
    def connect(self, address: str) -> Iterator[Callable[[], Bus]]:
        opened: list[KafkaBus] = []

        def another() -> KafkaBus:
            opened.append(KafkaBus(address, IMPATIENT))
            return opened[-1]

        yield another
        for each in opened:
            each.close()

    def program_that_opens(self, tmp_path: Path) -> str:
        return f"from services.runtime.bus.kafka import KafkaBus\nbus = KafkaBus({self.address!r})\n"

    @contextmanager
    def unavailable(self, bus: Bus) -> Iterator[None]:
        """The broker hangs: connections stay, answers do not come."""
        cluster = self.cluster
        if not isinstance(cluster, Cluster):
            pytest.skip("kafka because the broker that there is may not be paused")
        cluster.pause()
        yield
        cluster.resume()
