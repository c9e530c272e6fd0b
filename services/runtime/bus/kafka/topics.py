"""The topics as an installation has them, and how they come into being."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError, TopicAlreadyExistsError

from services.runtime.bus.address import in_words, parse_address
from services.runtime.bus.kafka.clients import open_client
from services.runtime.bus.kafka.tuning import Tuning
from services.runtime.ports import BusUnavailable
from services.runtime.topics import TOPICS

PARTITIONS: Final = {"game.events": 12, "wallet.events": 4, "audit.events": 4}
"""A stream stays in the partition that its key falls into, so these numbers may never be changed."""

_REPLICAS: Final = 3
_SETTINGS: Final = {
    # The ledger: nothing is ever deleted.
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
    # A replica that lacks acknowledged records never becomes the leader.
    "unclean.leader.election.enable": "false",
}


@dataclass(frozen=True)
class Topic:
    """A topic, and whether it was there before."""

    name: str
    partitions: int
    replicas: int
    known: bool


def create_topics(at: str, tuning: Tuning | None = None) -> list[Topic]:
    """Make the topics that are not there: three replicas of which two must have a record, where there are
    three brokers; otherwise as many as there are brokers.

    Raises:
        BusUnavailable: no broker answers, or it does not take them.
    """
    tuning, address = tuning or Tuning(), parse_address(at)
    if not address.answers:
        raise BusUnavailable(address.silence)
    try:
        admin = open_client(
            KafkaAdminClient,
            bootstrap_servers=list(address.servers),
            client_id="sabot-prepare",
            request_timeout_ms=tuning.request_timeout_ms,
            bootstrap_timeout_ms=tuning.request_timeout_ms,
        )
        try:
            replicas = min(_REPLICAS, len(admin.describe_cluster()["brokers"]))
            return [_create(admin, address.named(name), PARTITIONS[name], replicas) for name in TOPICS]
        finally:
            admin.close()
    except KafkaError as error:
        raise BusUnavailable(f"Kafka at {address} does not take the topics: {in_words(error)}") from error


def not_there(topic: str) -> str:
    """What is to be done about a topic that the brokers do not have."""
    return f"topic {topic} is not there: run 'sabot prepare' first"


def _create(admin: KafkaAdminClient, name: str, partitions: int, replicas: int) -> Topic:
    in_sync = max(1, replicas - 1)
    wanted = {
        "num_partitions": partitions,
        "replication_factor": replicas,
        "configs": {**_SETTINGS, "min.insync.replicas": str(in_sync)},
    }
    try:
        admin.create_topics({name: wanted}, wait_for_metadata=True)
    except TopicAlreadyExistsError:
        [there] = admin.describe_topics([name])
        numbers = [len(each["replica_nodes"]) for each in there["partitions"]]
        return Topic(name, len(numbers), min(numbers), known=True)
    return Topic(name, partitions, replicas, known=False)
