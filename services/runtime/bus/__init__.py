"""The buses: one embedded log on SQLite; Apache Kafka follows behind the same port."""
