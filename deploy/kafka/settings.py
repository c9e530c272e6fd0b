"""How a broker for tests, demonstrations and benchmarks is set."""

from __future__ import annotations


def common(brokers: int) -> dict[str, str]:
    """The settings that all brokers of a cluster share, less who listens where."""
    replicas = str(brokers)
    # A cluster learns that a broker was killed when it has not been heard of for this long, and takes it
    # back not before: Kafka's nine seconds would make each killing in a test last eleven. Three that share
    # a small machine need more patience, lest one counts as dead that only had to wait for its turn.
    session_ms = 1000 if brokers == 1 else 2000
    return {
        "process.roles": "broker,controller",
        "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "BROKER",
        "controller.listener.names": "CONTROLLER",
        "broker.session.timeout.ms": str(session_ms),
        "broker.heartbeat.interval.ms": str(session_ms // 5),
        # Who misspells a topic should hear of it.
        "auto.create.topics.enable": "false",
        "num.partitions": "1",
        # What was published stays.
        "log.retention.ms": "-1",
        # A consumer that is alone need not wait for others, and a test may have short sessions.
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "500",
        # Kafka's own topics: as safe as the cluster allows, and with few partitions, which cost time each.
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": str(min(brokers, 2)),
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": str(min(brokers, 2)),
        "share.coordinator.state.topic.num.partitions": "4",
        # 128 MB by default, for compacting topics of a size that none has here.
        "log.cleaner.dedupe.buffer.size": str(2 * 1024 * 1024),
    }
