"""Alembic's entry into audit's migrations."""

from services.runtime.migrating import run

run()
