"""Fixtures: a real broker, for as long as a process runs tests.

Under xdist every worker has its own. It starts with the first test that wants it, and is shared by all that
follow: a test gives its topics and groups names of their own.
"""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from deploy.kafka import Cluster, Kafka, NoJars, available, find
from tests.support import requires


@pytest.fixture(scope="session")
def kafka_cluster() -> Iterator[Kafka]:
    """Whatever broker there is: its ``bootstrap``, and whether it is ``ours`` to stop."""
    lacking = available()
    requires("kafka", lacking is None, str(lacking))
    with ExitStack() as stack:
        try:
            kafka = stack.enter_context(find())
        except NoJars as reason:
            requires("kafka", False, " ".join(str(reason).split()))
        yield kafka


@pytest.fixture
def own_kafka_cluster(kafka_cluster: Kafka) -> Iterator[Cluster]:
    """The same broker, for a test that stops, kills or pauses it; after the test it runs again."""
    requires("kafka", isinstance(kafka_cluster, Cluster), "the broker that there is may not be stopped")
    assert isinstance(kafka_cluster, Cluster)
    yield kafka_cluster
    kafka_cluster.heal()
