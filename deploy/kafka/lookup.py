"""Which broker there is: one that the environment names, one in a Java of this machine, one in Docker."""

from __future__ import annotations

import os
import platform
import socket
from typing import Protocol, Self

from deploy.kafka import jars
from deploy.kafka.cluster import Cluster
from deploy.kafka.container import Container
from deploy.kafka.errors import BrokerFailed
from deploy.kafka.machine import JAVA_LEAST, find_docker, find_java, find_maven

VARIABLE = "SABOT_TEST_KAFKA"
"""The environment variable with the address of a broker that is there already, for tests.

Not the setting of the services, `SABOT_KAFKA`: with that exported, tests on files would go to a broker.
"""


class Kafka(Protocol):
    """A broker or several, for the time of a ``with``."""

    bootstrap: str
    ours: bool
    """Whether it may be stopped and started, because it is a ``Cluster`` of our own."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def check(self) -> None:
        """Raise ``BrokerFailed`` if it has ended by itself."""


class Given:
    """Brokers that somebody else runs."""

    ours = False

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def __enter__(self) -> Self:
        self.check()
        return self

    def __exit__(self, *_: object) -> None:
        """They stay."""

    def check(self) -> None:
        """Raise ``BrokerFailed`` if nobody answers at any of the addresses."""
        for address in self.bootstrap.split(","):
            host, _, port = address.strip().rpartition(":")
            try:
                socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
            except (OSError, ValueError):
                continue
            return
        raise BrokerFailed(f"{VARIABLE} names {self.bootstrap}, and nobody answers there")


def available() -> str | None:
    """None if there is a broker or something to run one on; else what is missing, in words."""
    if os.environ.get(VARIABLE):
        return None
    lacking = _lacking()
    if lacking is None or find_docker():
        return None
    return f"there is neither {VARIABLE}, nor Java {JAVA_LEAST} and Maven ({lacking}), nor Docker"


def find() -> Kafka:
    """The broker that the environment names, or else one of our own. Raises ``BrokerFailed``."""
    given = os.environ.get(VARIABLE)
    return Given(given) if given else own()


def own(brokers: int = 1) -> Kafka:
    """Brokers of our own for the time of a ``with``, in Java or else in Docker. Raises ``BrokerFailed``."""
    lacking = _lacking()
    if lacking is None:
        return Cluster(brokers)
    docker = find_docker()
    if docker is None:
        raise BrokerFailed(f"a broker needs Java {JAVA_LEAST} and Maven ({lacking}), or Docker")
    if brokers > 1:
        raise BrokerFailed(f"{brokers} brokers need Java {JAVA_LEAST} and Maven ({lacking}); Docker runs one")
    return Container(docker)


def _lacking() -> str | None:
    """What this machine lacks to run a broker in its Java."""
    if platform.system() != "Linux":
        return "only on Linux do brokers end with who started them"
    java = find_java()
    if java is None:
        return "Java is missing"
    if not java.is_enough:
        return f"Java is {java.version}"
    if not jars.folder().is_dir() and find_maven() is None:
        return "Maven is missing"
    return None
