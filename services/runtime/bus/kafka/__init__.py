"""The bus on Apache Kafka, for an installation of several machines."""

from services.runtime.bus.kafka.bus import KafkaBus

__all__ = ["KafkaBus"]
