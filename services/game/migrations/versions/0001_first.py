"""Game's first tables."""

import sqlalchemy as sa
from alembic import op

from services.runtime.migrating import create_runtime_tables

revision = "game_0001"
down_revision = None


def upgrade() -> None:
    create_runtime_tables()
    op.create_table(
        "game_table",
        sa.Column("operator", sa.String, primary_key=True),
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("house_number", sa.Integer, nullable=False),
        sa.Column("state", sa.String, nullable=False),
    )
    op.create_table(
        "game_house",
        sa.Column("operator", sa.String, primary_key=True),
        sa.Column("table_name", sa.String, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("house", sa.String, nullable=False),
    )
    op.create_table(
        "game_shoe",
        sa.Column("operator", sa.String, primary_key=True),
        sa.Column("table_name", sa.String, primary_key=True),
        sa.Column("shoe", sa.String, primary_key=True),
        sa.Column("state", sa.String, nullable=False),
    )
    op.create_table(
        "game_coup",
        sa.Column("operator", sa.String, primary_key=True),
        sa.Column("table_name", sa.String, primary_key=True),
        sa.Column("shoe", sa.String, primary_key=True),
        sa.Column("coup", sa.Integer, primary_key=True),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("cards", sa.String, nullable=False),
        sa.Column("dealer_seat", sa.Integer, nullable=True),
        sa.Column("house_number", sa.Integer, nullable=False),
        sa.Column("outcome", sa.String, nullable=True),
        sa.Column("player_total", sa.Integer, nullable=True),
        sa.Column("banker_total", sa.Integer, nullable=True),
    )
    op.create_table(
        "game_undealt_seed",
        sa.Column("operator", sa.String, primary_key=True),
        sa.Column("table_name", sa.String, primary_key=True),
        sa.Column("shoe", sa.String, primary_key=True),
        sa.Column("seed", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "game_undealt_cards",
        sa.Column("operator", sa.String, primary_key=True),
        sa.Column("table_name", sa.String, primary_key=True),
        sa.Column("shoe", sa.String, primary_key=True),
        sa.Column("coup", sa.Integer, primary_key=True),
        sa.Column("cards", sa.String, nullable=False),
    )
