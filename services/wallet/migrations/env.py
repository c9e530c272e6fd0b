"""Alembic's entry into wallet's migrations."""

from services.runtime.migrating import run

run()
