"""Clients of kafka-python that leave nothing behind where they cannot be made.

A constructor that finds no broker raises, and its thread goes on for ever, with its sockets: where a port
takes connections and nobody answers, one more at each attempt.
"""

from __future__ import annotations

from typing import Any


def open_client(kind: Any, **settings: Any) -> Any:
    """A ``KafkaConsumer``, ``KafkaProducer`` or ``KafkaAdminClient``, or its exception and no thread."""
    made: list[Any] = []

    def connections(**its_settings: Any) -> Any:
        made.append(kind.DEFAULT_CONFIG["kafka_client"](**its_settings))
        return made[-1]

    try:
        return kind(kafka_client=connections, **settings)
    except BaseException:
        for each in made:
            each.close()
        raise
