"""Wallet's tables. All but ``wallet_reference`` are projections: folds of events, made again at will.

``wallet_reference`` is the one place that knows the operator's own name for an account.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from services.runtime.tables import APPEND, KEEP, READ, REPLACE, Access, MinorUnits, table_of

_Big = sa.BigInteger().with_variant(sa.Integer, "sqlite")


class ReferenceRow(SQLModel, table=True):
    """The operator's reference of an account, and the opaque id that events use."""

    __tablename__ = "wallet_reference"

    operator: str = Field(primary_key=True)
    reference: str = Field(primary_key=True)
    account: str = Field(unique=True)


class AccountRow(SQLModel, table=True):
    """An account, its operator, and whether it may be used."""

    __tablename__ = "wallet_account"

    account: str = Field(primary_key=True)
    operator: str
    frozen: int
    excluded_until: str


class BalanceRow(SQLModel, table=True):
    """A ledger line that is not zero, debits positive. ``party`` is empty where the chart names none.

    What is in play on a bet (2030) is not here: that is what is left of the open bets themselves.
    """

    __tablename__ = "wallet_balance"
    __table_args__ = ({"sqlite_with_rowid": False},)

    operator: str = Field(primary_key=True)
    ledger: str = Field(primary_key=True, max_length=4)
    party: str = Field(primary_key=True)
    currency: str = Field(primary_key=True)
    amount: int = Field(sa_type=MinorUnits)


class TransactionRow(SQLModel, table=True):
    """A transaction id that is used up, and the event that is its outcome.

    What a repeat must be like, and what it is answered, is read from that event: it is needed rarely, and is
    not written twice.
    """

    __tablename__ = "wallet_transaction"
    __table_args__ = ({"sqlite_with_rowid": False},)

    account: str = Field(primary_key=True)
    tx: str = Field(primary_key=True)
    sequence: int = Field(sa_type=sa.BigInteger)
    balance: int = Field(sa_type=MinorUnits)


class TableRow(SQLModel, table=True):
    """A table whose money lives here."""

    __tablename__ = "wallet_table"

    operator: str = Field(primary_key=True)
    name: str = Field(primary_key=True)
    shard: str


class HouseRow(SQLModel, table=True):
    """A house that a table has played by."""

    __tablename__ = "wallet_house"

    operator: str = Field(primary_key=True)
    table_name: str = Field(primary_key=True)
    number: int = Field(primary_key=True)
    house: str


class CoupRow(SQLModel, table=True):
    """A coup, as far as money is concerned, and the event of game that it was paid by last."""

    __tablename__ = "wallet_coup"
    __table_args__ = (sa.Index("wallet_coup_unfinished", "phase"),)

    operator: str = Field(primary_key=True)
    table_name: str = Field(primary_key=True)
    shoe: str = Field(primary_key=True)
    coup: int = Field(primary_key=True)
    house_number: int
    spots: str
    phase: str
    version: int
    result_sequence: int | None = Field(default=None, sa_type=sa.BigInteger)
    result_hash: str | None = None


class BetRow(SQLModel, table=True):
    """A bet and how it stands (``services.wallet.core.state.Bet``)."""

    __tablename__ = "wallet_bet"
    __table_args__ = (sa.Index("wallet_bet_coup", "operator", "table_name", "shoe", "coup"),)

    number: int = Field(sa_type=_Big, primary_key=True)
    operator: str
    table_name: str
    shoe: str
    coup: int
    account: str
    tx: str
    seat: int | None = None
    spot: str
    currency: str
    exponent: int
    stake: int = Field(sa_type=sa.BigInteger)
    left: int = Field(sa_type=sa.BigInteger)
    funding: str
    grant: str | None = None
    code: str
    sequence: int = Field(sa_type=sa.BigInteger)
    status: str
    tier: str
    returned: int = Field(sa_type=sa.BigInteger)
    commission: int = Field(sa_type=sa.BigInteger)
    deferred: int


class ItemRow(SQLModel, table=True):
    """Something that stays open over days (``services.wallet.core.items``), as JSON."""

    __tablename__ = "wallet_item"
    __table_args__ = (
        sa.Index("wallet_item_open", "is_open"),
        sa.Index("wallet_item_account", "account", "kind"),
    )

    kind: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    operator: str
    account: str
    is_open: int
    document: str


REFERENCE: Final = table_of(ReferenceRow)
ACCOUNT: Final = table_of(AccountRow)
BALANCE: Final = table_of(BalanceRow)
TRANSACTION: Final = table_of(TransactionRow)
TABLE: Final = table_of(TableRow)
HOUSE: Final = table_of(HouseRow)
COUP: Final = table_of(CoupRow)
BET: Final = table_of(BetRow)
ITEM: Final = table_of(ItemRow)

PROJECTIONS: Final = (ACCOUNT, BALANCE, TRANSACTION, TABLE, HOUSE, COUP, BET, ITEM)
"""What can be dropped and made again from events."""

ACCESS: Final = Access(
    own={
        "wallet_reference": APPEND,
        "wallet_account": KEEP,
        "wallet_balance": REPLACE,
        "wallet_books": READ,  # on PostgreSQL only, and the database keeps them itself
        # A tombstone gives way to the refusal of its bet, and a question to an operator's wallet to its
        # answer.
        "wallet_transaction": (*APPEND, "UPDATE (sequence, balance)"),
        "wallet_table": KEEP,
        "wallet_house": KEEP,
        "wallet_coup": KEEP,
        # What was bet stays as it was; what becomes of it is all that comes later.
        "wallet_bet": (
            *APPEND,
            'UPDATE ("left", code, sequence, status, tier, returned, commission, deferred)',
        ),
        "wallet_item": KEEP,
    },
    secret=frozenset({"wallet_reference"}),
)
