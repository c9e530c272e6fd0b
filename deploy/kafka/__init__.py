"""A real Kafka broker without Docker, for tests, demonstrations and benchmarks.

``python -m deploy.kafka`` runs one until Ctrl-C. ``Cluster`` is the same for a program, and can stop, kill,
pause and restart its brokers. ``find`` takes what there is: a broker that ``SABOT_TEST_KAFKA`` names, Java,
or Docker.
"""

from deploy.kafka.cluster import Cluster
from deploy.kafka.errors import BrokerFailed, NoJars
from deploy.kafka.lookup import Kafka, available, find, own

__all__ = ["BrokerFailed", "Cluster", "Kafka", "NoJars", "available", "find", "own"]
