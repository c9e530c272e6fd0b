"""What the ``env.py`` of every service's migrations does, and the tables that all of them have."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context, op


def run() -> None:
    """Run the migrations over the connection that ``services.runtime.database.migrate`` hands in."""
    connection = context.config.attributes["connection"]
    context.configure(connection=connection, transaction_per_migration=False)
    with context.begin_transaction():
        context.run_migrations()


def create_runtime_tables() -> None:
    """The runtime's tables, first version. Frozen: a change is a new function and a new migration."""
    op.create_table(
        "stream",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String, nullable=False, unique=True),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
    )
    op.create_table(
        "event",
        sa.Column("position", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("stream_id", sa.Integer, sa.ForeignKey("stream.id"), nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("signature", sa.LargeBinary, nullable=True),
        sa.UniqueConstraint("stream_id", "sequence"),
    )
    op.create_table(
        "outbox",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("published", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "inbox",
        sa.Column("stream", sa.String, primary_key=True),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("held_topic", sa.String, nullable=True),
        sa.Column("held_partition", sa.Integer, nullable=True),
        sa.Column("held_offset", sa.BigInteger, nullable=True),
        sa.Column("held_reason", sa.String, nullable=True),
    )
    op.create_table(
        "consumer_offset",
        sa.Column("topic", sa.String, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("next", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "dead_letter",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("topic", sa.String, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.Column("offset", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("received_at", sa.String, nullable=False),
        sa.UniqueConstraint("topic", "partition", "offset"),
    )
