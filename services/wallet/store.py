"""Wallet's tables. All but ``wallet_reference`` are projections: folds of events, made again at will.

``wallet_reference`` is the one place that knows the operator's own name for an account.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlmodel import Field, SQLModel

from schemas.events.base import wallet_stream
from schemas.house import House
from schemas.money import format_amount
from schemas.refusal import Refusal
from services.runtime import bulk
from services.runtime.lookup import Lookup
from services.runtime.tables import APPEND, KEEP, READ, REPLACE, Access, MinorUnits, StreamRow, table_of
from services.wallet.core.ledger import BETS_IN_PLAY, PLAYER_CASH, Ledger, Line
from services.wallet.core.state import (
    Bet,
    Changes,
    Coup,
    CoupKey,
    Phase,
    Terms,
    Transaction,
    TransactionKey,
    WalletState,
)

_Big = sa.BigInteger().with_variant(sa.Integer, "sqlite")


class ReferenceRow(SQLModel, table=True):
    """The operator's reference of an account, and the opaque id that events use."""

    __tablename__ = "wallet_reference"

    operator: str = Field(primary_key=True)
    reference: str = Field(primary_key=True)
    account: str = Field(unique=True)


class AccountRow(SQLModel, table=True):
    """An account and its operator."""

    __tablename__ = "wallet_account"

    id: int | None = Field(default=None, primary_key=True)
    account: str = Field(unique=True)
    operator: str


class BalanceRow(SQLModel, table=True):
    """A ledger line that is not zero, debits positive. ``party`` is empty on the house's accounts.

    What is in play on a bet (2030) is not here: that is the stakes of the open bets themselves.
    """

    __tablename__ = "wallet_balance"
    __table_args__ = ({"sqlite_with_rowid": False},)

    ledger: str = Field(primary_key=True, max_length=4)
    party: str = Field(primary_key=True)
    currency: str = Field(primary_key=True)
    amount: int = Field(sa_type=MinorUnits)


class TransactionRow(SQLModel, table=True):
    """The final outcome of a transaction id, and the content that a repeat must have.

    The key begins with the id: ids that are given together lie together, accounts that bet together do not,
    and every page that a commit touches must reach the disk.
    """

    __tablename__ = "wallet_transaction"
    __table_args__ = ({"sqlite_with_rowid": False},)

    tx: str = Field(primary_key=True)
    account: str = Field(primary_key=True)
    content: str
    code: str
    bet: str | None = None
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
    """A coup, as far as money is concerned."""

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


class BetRow(SQLModel, table=True):
    """A bet and how it ended: ``open``, ``won``, ``lost``, ``push``, ``void`` or ``refused``."""

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
    code: str
    sequence: int = Field(sa_type=sa.BigInteger)
    hash: str = Field(max_length=64)
    status: str
    returned: int = Field(sa_type=sa.BigInteger)
    commission: int = Field(sa_type=sa.BigInteger)


_REFERENCE: Final = table_of(ReferenceRow)
_ACCOUNT: Final = table_of(AccountRow)
_BALANCE: Final = table_of(BalanceRow)
_TRANSACTION: Final = table_of(TransactionRow)
_TABLE: Final = table_of(TableRow)
_HOUSE: Final = table_of(HouseRow)
_COUP: Final = table_of(CoupRow)
_BET: Final = table_of(BetRow)
_STREAM: Final = table_of(StreamRow)

PROJECTIONS: Final = (_ACCOUNT, _BALANCE, _TRANSACTION, _TABLE, _HOUSE, _COUP, _BET)
"""What can be dropped and made again from events."""

ACCESS: Final = Access(
    own={
        "wallet_reference": APPEND,
        "wallet_account": APPEND,
        "wallet_balance": REPLACE,
        "wallet_books": READ,  # on PostgreSQL only, and the database keeps them itself
        "wallet_transaction": APPEND,
        "wallet_table": KEEP,
        "wallet_house": KEEP,
        "wallet_coup": KEEP,
        # What was bet stays as it was; how it ended is all that comes later.
        "wallet_bet": (*APPEND, "UPDATE (status, returned, commission)"),
    },
    secret=frozenset({"wallet_reference"}),
)
_TRANSACTIONS: Final = Lookup(_TRANSACTION, "tx", "account")
_COUPS: Final = Lookup(_COUP, "operator", "table_name", "shoe", "coup")
_REFERENCES: Final = Lookup(_REFERENCE, "operator", "reference")
_HEAD: Final = sa.select(_STREAM.c.hash).where(_STREAM.c.name == sa.bindparam("stream"))
_OPEN_BETS: Final = (
    sa.select(_BET)
    .join(
        _COUP,
        sa.and_(
            _COUP.c.operator == _BET.c.operator,
            _COUP.c.table_name == _BET.c.table_name,
            _COUP.c.shoe == _BET.c.shoe,
            _COUP.c.coup == _BET.c.coup,
        ),
    )
    .where(_COUP.c.phase.in_(("open", "sealed")), _BET.c.status == "open")
    .order_by(_BET.c.number)
)


def number_of(bet: str) -> int:
    """The number in a bet's id, ``<shard>.<number>``."""
    return int(bet.rsplit(".", 1)[1])


def load_state(db: Connection, shard: str) -> WalletState:
    """The state as the tables show it."""
    state = WalletState(shard)
    balances: dict[Line, int] = {
        (row.ledger, row.party or None, row.currency): row.amount for row in db.execute(sa.select(_BALANCE))
    }
    state.head = db.scalar(_HEAD, {"stream": wallet_stream(shard)}) or state.head
    state.bets_taken = db.scalar(sa.select(sa.func.max(_BET.c.number))) or 0
    state.accounts = {row.account: row.operator for row in db.execute(sa.select(_ACCOUNT))}
    for row in db.execute(sa.select(_TABLE)):
        state.tables[row.operator, row.name] = Terms(row.shard)
    for row in db.execute(sa.select(_HOUSE)):
        house = House.model_validate_json(row.house)
        state.tables[row.operator, row.table_name].set_house(row.number, house)
    for row in db.execute(sa.select(_COUP).where(_COUP.c.phase.in_(("open", "sealed")))):
        key = CoupKey(row.operator, row.table_name, row.shoe, row.coup)
        state.coups[key] = Coup(key, row.house_number, tuple(row.spots.split(",")), row.phase)
    for row in db.execute(_OPEN_BETS):
        bet = _bet_of(row, shard)
        coup = state.coups[bet.key]
        coup.bets.append(bet)
        coup.last_bet = (row.sequence, row.hash)
        balances[BETS_IN_PLAY, bet.bet, bet.currency] = -bet.stake
    state.ledger = Ledger(balances)
    return state


def _bet_of(row: Any, shard: str) -> Bet:
    return Bet(
        bet=f"{shard}.{row.number}",
        key=CoupKey(row.operator, row.table_name, row.shoe, row.coup),
        account=row.account,
        tx=row.tx,
        seat=row.seat,
        spot=row.spot,
        currency=row.currency,
        exponent=row.exponent,
        stake=row.stake,
        code=row.code,
        sequence=row.sequence,
        hash=row.hash,
    )


def find_transactions(db: Connection, keys: Iterable[TransactionKey]) -> dict[TransactionKey, Transaction]:
    """Past transactions among these keys."""
    found = {}
    for row in _TRANSACTIONS.find(db, ((key.tx, key.account) for key in keys)):
        key = TransactionKey(row.account, row.tx)
        found[key] = Transaction(key, json.loads(row.content), row.code, row.bet, row.balance)
    return found


def find_coups(db: Connection, keys: Iterable[CoupKey]) -> dict[CoupKey, tuple[Phase, int]]:
    """Phase and version of the coups among these keys."""
    return {
        CoupKey(row.operator, row.table_name, row.shoe, row.coup): (row.phase, row.version)
        for row in _COUPS.find(db, keys)
    }


def find_references(db: Connection, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Opaque ids of the accounts that are known under these (operator, reference)."""
    return {(row.operator, row.reference): row.account for row in _REFERENCES.find(db, keys)}


def save_references(db: Connection, references: dict[tuple[str, str], str]) -> None:
    """Write new references."""
    rows = [{"operator": o, "reference": r, "account": account} for (o, r), account in references.items()]
    bulk.insert(db, _REFERENCE, rows)


def save_changes(db: Connection, ledger: Ledger, changes: Changes) -> None:
    """Bring the projections up to the state."""
    _save_tables(db, changes)
    _save_coups(db, changes.coups.values())
    _save_bets(db, changes)
    _save_balances(db, ledger)
    bulk.insert(db, _ACCOUNT, [{"account": a, "operator": o} for a, o in changes.accounts])
    bulk.insert(
        db,
        _TRANSACTION,
        [
            {
                "account": each.key.account,
                "tx": each.key.tx,
                "content": json.dumps(each.content),
                "code": each.code,
                "bet": each.bet,
                "balance": each.balance,
            }
            for each in changes.transactions
        ],
    )


def _save_tables(db: Connection, changes: Changes) -> None:
    tables = [{"operator": o, "name": t, "shard": s} for (o, t), s in changes.tables.items()]
    bulk.upsert(db, _TABLE, tables)
    houses = [
        {"operator": o, "table_name": t, "number": number, "house": house.model_dump_json()}
        for o, t, number, house in changes.houses
    ]
    bulk.upsert(db, _HOUSE, houses)


def _save_coups(db: Connection, coups: Iterable[Coup]) -> None:
    rows = [
        {
            "operator": coup.key.operator,
            "table_name": coup.key.table,
            "shoe": coup.key.shoe,
            "coup": coup.key.coup,
            "house_number": coup.house_number,
            "spots": ",".join(coup.spots),
            "phase": coup.phase,
            "version": coup.version,
        }
        for coup in coups
    ]
    bulk.upsert(db, _COUP, rows)


def _save_bets(db: Connection, changes: Changes) -> None:
    ends = {end.bet: end for end in changes.ends}
    rows = []
    for bet in changes.bets:
        end = ends.pop(bet.bet, None)  # taken and ended in one batch
        rows.append(
            {
                "number": number_of(bet.bet),
                "operator": bet.key.operator,
                "table_name": bet.key.table,
                "shoe": bet.key.shoe,
                "coup": bet.key.coup,
                "account": bet.account,
                "tx": bet.tx,
                "seat": bet.seat,
                "spot": bet.spot,
                "currency": bet.currency,
                "exponent": bet.exponent,
                "stake": bet.stake,
                "code": bet.code,
                "sequence": bet.sequence,
                "hash": bet.hash,
                "status": end.status if end else "open" if bet.code == "OK" else "refused",
                "returned": end.returned if end else 0,
                "commission": end.commission if end else 0,
            }
        )
    bulk.insert(db, _BET, rows)
    ended = [
        {
            "number": number_of(end.bet),
            "status": end.status,
            "returned": end.returned,
            "commission": end.commission,
        }
        for end in ends.values()
    ]
    bulk.update(db, _BET, ended)


def _save_balances(db: Connection, ledger: Ledger) -> None:
    kept, gone = [], []
    for line in sorted(ledger.touched, key=str):
        if line[0] == BETS_IN_PLAY:
            continue
        key = {"ledger": line[0], "party": line[1] or "", "currency": line[2]}
        if amount := ledger.balance(line):
            kept.append({**key, "amount": amount})
        else:
            gone.append(key)
    bulk.upsert(db, _BALANCE, kept)
    bulk.delete(db, _BALANCE, gone)


@dataclass(frozen=True, slots=True)
class BetRecord:
    """A bet as an operator asks for it."""

    account: str
    """The operator's reference."""
    tx: str
    seat: int | None
    spot: str
    stake: int
    returned: int
    commission: int
    currency: str
    exponent: int
    status: str


_COUP_BETS: Final = (
    sa.select(_BET, _REFERENCE.c.reference)
    .join(
        _REFERENCE,
        sa.and_(_REFERENCE.c.operator == _BET.c.operator, _REFERENCE.c.account == _BET.c.account),
    )
    .where(
        _BET.c.operator == sa.bindparam("operator"),
        _BET.c.table_name == sa.bindparam("table"),
        _BET.c.shoe == sa.bindparam("shoe"),
        _BET.c.coup == sa.bindparam("coup"),
    )
    .order_by(_BET.c.number)
)


def bets_of_coup(db: Connection, key: CoupKey) -> Sequence[BetRecord]:
    """All bets of a coup, in the order in which they came."""
    rows = db.execute(_COUP_BETS, key._asdict())
    return [
        BetRecord(
            account=row.reference,
            tx=row.tx,
            seat=row.seat,
            spot=row.spot,
            stake=row.stake,
            returned=row.returned,
            commission=row.commission,
            currency=row.currency,
            exponent=row.exponent,
            status=row.status,
        )
        for row in rows
    ]


_IN_PLAY: Final = _OPEN_BETS.where(_BET.c.account == sa.bindparam("account"))


def balances_of(db: Connection, operator: str, reference: str) -> list[dict[str, str]]:
    """Cash and stakes in play of an account, as decimal strings by currency.

    Raises:
        Refusal: ``ACCOUNT_UNKNOWN``.
    """
    account = find_references(db, [(operator, reference)]).get((operator, reference))
    if account is None:
        raise Refusal("ACCOUNT_UNKNOWN", "account", f"operator {operator} has no account {reference!r}")
    cash = {
        row.currency: -row.amount
        for row in db.execute(
            sa.select(_BALANCE).where(_BALANCE.c.ledger == PLAYER_CASH, _BALANCE.c.party == account)
        )
    }
    in_play: dict[str, int] = {}
    for row in db.execute(_IN_PLAY, {"account": account}):  # summed here: SQLite's sums end at 64 bits
        in_play[row.currency] = in_play.get(row.currency, 0) + row.stake
    return [
        {
            "currency": currency,
            "cash": format_amount(cash.get(currency, 0), currency),
            "in_play": format_amount(in_play.get(currency, 0), currency),
        }
        for currency in sorted(cash.keys() | in_play.keys())
    ]
