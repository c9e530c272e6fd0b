"""What each service counts. Every label set is born at zero, so that a first 1 is an increase."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from services.runtime.inbox import Verdict

_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_BATCH: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class WriterMetrics:
    """The runtime's metrics of one service, in a registry of its own."""

    def __init__(self, service: str, topics: tuple[str, ...]) -> None:
        self.registry = registry = CollectorRegistry()
        self.appended = Counter(
            f"{service}_events_appended_total", "Events written to this service's store.", registry=registry
        )
        consumed = Counter(
            f"{service}_records_consumed_total",
            "Records read from the bus, by topic and what became of them.",
            ["topic", "verdict"],
            registry=registry,
        )
        self.consumed = {
            (topic, verdict): consumed.labels(topic, verdict.value) for topic in topics for verdict in Verdict
        }
        commands = Counter(
            f"{service}_commands_total", "Commands answered, by how.", ["outcome"], registry=registry
        )
        self.commands = {outcome: commands.labels(outcome) for outcome in ("done", "refused", "failed")}
        self.batch = Histogram(
            f"{service}_batch_events",
            "Events that one transaction wrote.",
            buckets=_BATCH,
            registry=registry,
        )
        self.step = Histogram(
            f"{service}_step_duration_seconds",
            "Time that one step of the writer took, commit and publishing included.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.backlog = Gauge(
            f"{service}_outbox_backlog_events",
            "Events that are committed and not yet acknowledged by the bus.",
            registry=registry,
        )
        self.waiting = Gauge(
            f"{service}_waiting",
            "Records on the bus that are known and not read yet, and commands that are not answered yet.",
            registry=registry,
        )
        self.held = Gauge(
            f"{service}_held_streams", "Incoming streams that wait for a missing event.", registry=registry
        )
