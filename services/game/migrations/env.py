"""Alembic's entry into game's migrations."""

from services.runtime.migrating import run

run()
