"""How patient a client of Kafka is. The defaults are for an installation; tests make them short."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Times in the units that their names say."""

    patience_seconds: float = 10.0
    """So long somebody who must wait (a replay, a republishing) waits for a broker before he is told."""
    request_timeout_ms: int = 10_000
    delivery_timeout_ms: int = 15_000
    """A record that is not acknowledged in this time counts as not published, and is published again."""
    session_timeout_ms: int = 10_000
    """A consumer that is not heard of for so long has left its group. A restart within it moves nothing."""
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 60_000
    """A consumer that takes so long over what it was given has left its group, too."""
    retry_backoff_ms: int = 100
    reconnect_backoff_max_ms: int = 1_000
