"""Which topic a stream is published on, and under which key."""

from __future__ import annotations

from typing import Final

TOPICS: Final = ("game.events", "wallet.events", "audit.events")


def topic_of(stream: str) -> str:
    """``game/nl.T1`` is on ``game.events``, ``wallet/main`` on ``wallet.events``."""
    return stream.split("/", 1)[0] + ".events"


def key_of(stream: str) -> str:
    """What keeps a stream in one partition: a table's own name, else the shard or the operator."""
    service, _, rest = stream.partition("/")
    return stream if service == "game" else rest
