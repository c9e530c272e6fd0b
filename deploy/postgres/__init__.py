"""A PostgreSQL server from the system's binaries, for trying things out and for tests."""
