"""Audit's first tables."""

import sqlalchemy as sa
from alembic import op

from services.runtime.migrating import create_runtime_tables

revision = "audit_0001"
down_revision = None


def upgrade() -> None:
    create_runtime_tables()
    op.create_table(
        "audit_stream",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String, nullable=False, unique=True),
    )
    op.create_table(
        "audit_evidence",
        sa.Column("stream_id", sa.Integer, sa.ForeignKey("audit_stream.id"), primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "audit_piece",
        sa.Column("kind", sa.String, primary_key=True),
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("content", sa.String, nullable=False),
    )
    op.create_table(
        "audit_verdict",
        sa.Column("operator", sa.String, primary_key=True),
        sa.Column("table_name", sa.String, primary_key=True),
        sa.Column("shoe", sa.String, primary_key=True),
        sa.Column("coup", sa.Integer, primary_key=True),
        sa.Column("verdict", sa.String, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "audit_finding",
        sa.Column("operator", sa.String, primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True),
        sa.Column("check", sa.String, nullable=False),
        sa.Column("table_name", sa.String, nullable=True),
        sa.Column("shoe", sa.String, nullable=True),
        sa.Column("coup", sa.Integer, nullable=True),
        sa.Column("words", sa.String, nullable=False),
    )
