"""Wallet's first tables."""

import sqlalchemy as sa
from alembic import op

from services.runtime.migrating import create_runtime_tables

revision = "wallet_0001"
down_revision = None


def upgrade() -> None:
    create_runtime_tables()
    op.create_table(
        "wallet_reference",
        sa.Column("operator", sa.String, primary_key=True),
        sa.Column("reference", sa.String, primary_key=True),
        sa.Column("account", sa.String, nullable=False, unique=True),
    )
    op.create_table(
        "wallet_account",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("account", sa.String, nullable=False, unique=True),
        sa.Column("operator", sa.String, nullable=False),
    )
    op.create_table(
        "wallet_balance",
        sa.Column("ledger", sa.String(4), primary_key=True),
        sa.Column("party", sa.String, primary_key=True),
        sa.Column("currency", sa.String, primary_key=True),
        sa.Column("amount", sa.Numeric(38, 0).with_variant(sa.String(40), "sqlite"), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "wallet_transaction",
        sa.Column("tx", sa.String, primary_key=True),
        sa.Column("account", sa.String, primary_key=True),
        sa.Column("content", sa.String, nullable=False),
        sa.Column("code", sa.String, nullable=False),
        sa.Column("bet", sa.String, nullable=True),
        sa.Column("balance", sa.Numeric(38, 0).with_variant(sa.String(40), "sqlite"), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "wallet_table",
        sa.Column("operator", sa.String, primary_key=True),
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("shard", sa.String, nullable=False),
    )
    op.create_table(
        "wallet_house",
        sa.Column("operator", sa.String, primary_key=True),
        sa.Column("table_name", sa.String, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("house", sa.String, nullable=False),
    )
    op.create_table(
        "wallet_coup",
        sa.Column("operator", sa.String, primary_key=True),
        sa.Column("table_name", sa.String, primary_key=True),
        sa.Column("shoe", sa.String, primary_key=True),
        sa.Column("coup", sa.Integer, primary_key=True),
        sa.Column("house_number", sa.Integer, nullable=False),
        sa.Column("spots", sa.String, nullable=False),
        sa.Column("phase", sa.String, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
    )
    op.create_index("wallet_coup_unfinished", "wallet_coup", ["phase"])
    op.create_table(
        "wallet_bet",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("operator", sa.String, nullable=False),
        sa.Column("table_name", sa.String, nullable=False),
        sa.Column("shoe", sa.String, nullable=False),
        sa.Column("coup", sa.Integer, nullable=False),
        sa.Column("account", sa.String, nullable=False),
        sa.Column("tx", sa.String, nullable=False),
        sa.Column("seat", sa.Integer, nullable=True),
        sa.Column("spot", sa.String, nullable=False),
        sa.Column("currency", sa.String, nullable=False),
        sa.Column("exponent", sa.Integer, nullable=False),
        sa.Column("stake", sa.BigInteger, nullable=False),
        sa.Column("code", sa.String, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("returned", sa.BigInteger, nullable=False),
        sa.Column("commission", sa.BigInteger, nullable=False),
    )
    op.create_index("wallet_bet_coup", "wallet_bet", ["operator", "table_name", "shoe", "coup"])
