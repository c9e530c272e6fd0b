"""Making an installation ready: topics on Kafka, a database and a role for each service on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from services.audit.store import ACCESS as AUDIT
from services.game.store import ACCESS as GAME
from services.runtime.bus.kafka.topics import Topic, create_topics
from services.runtime.installation import Installation
from services.runtime.prepare import prepare
from services.wallet.tables import ACCESS as WALLET

ACCESS: Final = {"game": GAME, "wallet": WALLET, "audit": AUDIT}
"""What each service may do with the tables of its database."""

Say = Callable[[str], None]


def prepare_installation(
    where: Installation, admin: str | None, say: Say, passwords: Mapping[str, str] | None = None
) -> None:
    """Make what is not there, and leave what is there as it is. ``say`` is told of each step in words.

    ``admin`` is the URL of a PostgreSQL role that may make databases and roles; None leaves them out.
    ``passwords`` are those of the services' roles, and of the ``reader``.

    Raises:
        BusUnavailable: no broker answers, or it does not take the topics.
        PreparationFailed, DatabaseUnavailable: PostgreSQL refuses, or cannot be reached.
    """
    if where.kafka is not None:
        for topic in create_topics(where.kafka):
            say(_of_topic(topic))
    if where.database is not None:
        if admin is not None:
            prepare(where.database, admin, ACCESS, say, passwords)
        else:
            say("databases: left as they are; name with --admin who may make them")


def _of_topic(topic: Topic) -> str:
    size = f"{topic.partitions} partitions, {topic.replicas} {'copy' if topic.replicas == 1 else 'copies'}"
    return f"topic {topic.name}: {'there already' if topic.known else 'made'}, {size}, kept for ever"
