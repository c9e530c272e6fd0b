"""How wallet's state is read from its tables at the start, and what a batch writes to them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Connection

from schemas.envelope import decode, hash_of
from schemas.events.base import EventRef, game_stream, wallet_stream
from schemas.house import House
from services.runtime import bulk
from services.runtime.lookup import Lookup
from services.runtime.tables import EventRow, StreamRow, table_of
from services.wallet.core.items import Grant, Item, item_of
from services.wallet.core.ledger import Ledger, Line
from services.wallet.core.postings import BETS_IN_PLAY
from services.wallet.core.state import (
    Account,
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
from services.wallet.tables import (
    ACCOUNT,
    BALANCE,
    BET,
    COUP,
    HOUSE,
    ITEM,
    REFERENCE,
    TABLE,
    TRANSACTION,
)

_STREAM: Final = table_of(StreamRow)
_EVENT: Final = table_of(EventRow)

_TRANSACTIONS: Final = Lookup(TRANSACTION, "account", "tx")
_COUPS: Final = Lookup(COUP, "operator", "table_name", "shoe", "coup")
_COUP_BETS: Final = Lookup(BET, "operator", "table_name", "shoe", "coup")
_REFERENCES: Final = Lookup(REFERENCE, "operator", "reference")
_EVENTS: Final = Lookup(_EVENT, "stream_id", "sequence")
_ITEMS: Final = Lookup(ITEM, "kind", "id")
_BETS: Final = Lookup(BET, "number")

_HEAD: Final = sa.select(_STREAM.c.hash).where(_STREAM.c.name == sa.bindparam("stream"))
_STREAM_ID: Final = sa.select(_STREAM.c.id).where(_STREAM.c.name == sa.bindparam("stream"))
OPEN_BETS: Final = (
    sa.select(BET)
    .join(
        COUP,
        sa.and_(
            COUP.c.operator == BET.c.operator,
            COUP.c.table_name == BET.c.table_name,
            COUP.c.shoe == BET.c.shoe,
            COUP.c.coup == BET.c.coup,
        ),
    )
    .where(COUP.c.phase.in_(("open", "sealed")), BET.c.status.in_(("open", "pending")))
    .order_by(BET.c.number)
)
"""What is in play, or asked of operators' wallets."""


def number_of(bet: str) -> int:
    """The number in a bet's id, ``<shard>.<number>``."""
    return int(bet.rsplit(".", 1)[1])


# ----------------------------------------------------------------------------------------- at the start


def load_state(db: Connection, shard: str) -> WalletState:
    """The state as the tables show it."""
    state = WalletState(shard)
    balances: dict[Line, int] = {
        (row.operator, row.ledger, row.party or None, row.currency): row.amount
        for row in db.execute(sa.select(BALANCE))
    }
    state.head = db.scalar(_HEAD, {"stream": wallet_stream(shard)}) or state.head
    state.bets_taken = db.scalar(sa.select(sa.func.max(BET.c.number))) or 0
    for row in db.execute(sa.select(ACCOUNT)):
        state.accounts[row.account] = Account(row.operator, bool(row.frozen), row.excluded_until)
    for row in db.execute(sa.select(TABLE)):
        state.tables[row.operator, row.name] = Terms(row.shard)
    for row in db.execute(sa.select(HOUSE)):
        house = House.model_validate_json(row.house)
        state.tables[row.operator, row.table_name].set_house(row.number, house)
    for row in db.execute(sa.select(COUP).where(COUP.c.phase.in_(("open", "sealed")))):
        coup = _coup_of(row)
        state.coups[coup.key] = coup
    rows = db.execute(OPEN_BETS).all()
    bodies = bodies_of(db, shard, [row.sequence for row in rows])
    for row in rows:
        bet = _bet_of(row, shard, hash_of(bodies[row.sequence]))
        state.coups[bet.key].bets[bet.bet] = bet
        state.open_bets[TransactionKey(bet.account, bet.tx)] = bet
        if bet.status == "open":
            balances[bet.key.operator, BETS_IN_PLAY, bet.bet, bet.currency] = -bet.left
    state.ledger = Ledger(balances)
    for row in db.execute(sa.select(ITEM).where(ITEM.c.is_open == 1)):
        state.items.put(item_of(row.kind, json.loads(row.document)))
    numbered = sa.select(sa.func.count()).where(ITEM.c.kind.in_(("withdrawal", "hold", "grant")))
    state.items.made = db.scalar(numbered) or 0
    return state


def _coup_of(row: Any) -> Coup:
    key = CoupKey(row.operator, row.table_name, row.shoe, row.coup)
    coup = Coup(key, row.house_number, tuple(row.spots.split(",")), row.phase, version=row.version)
    if row.result_sequence is not None:
        stream = game_stream(row.operator, row.table_name)
        coup.result = EventRef(stream=stream, sequence=row.result_sequence, hash=row.result_hash)
    return coup


def _bet_of(row: Any, shard: str, hash_: str) -> Bet:
    return Bet(
        number=row.number,
        bet=f"{shard}.{row.number}",
        key=CoupKey(row.operator, row.table_name, row.shoe, row.coup),
        account=row.account,
        tx=row.tx,
        seat=row.seat,
        spot=row.spot,
        currency=row.currency,
        exponent=row.exponent,
        stake=row.stake,
        left=row.left,
        funding=row.funding,
        grant=row.grant,
        sequence=row.sequence,
        hash=hash_,
        status=row.status,
        code=row.code,
        tier=row.tier,
        returned=row.returned,
        commission=row.commission,
        deferred=bool(row.deferred),
    )


# ------------------------------------------------------------------------------- what a batch may ask for


def find_transactions(
    db: Connection, shard: str, keys: Iterable[TransactionKey]
) -> dict[TransactionKey, Transaction]:
    """Past transactions among these keys."""
    rows = list(_TRANSACTIONS.find(db, keys))
    bodies = bodies_of(db, shard, [row.sequence for row in rows])
    return {
        TransactionKey(row.account, row.tx): Transaction(
            decode(bodies[row.sequence]).data, row.sequence, row.balance
        )
        for row in rows
    }


def bodies_of(db: Connection, shard: str, sequences: Sequence[int]) -> dict[int, bytes]:
    """Bytes of this shard's events, by sequence."""
    if not sequences:
        return {}
    stream = db.scalar(_STREAM_ID, {"stream": wallet_stream(shard)})
    found = _EVENTS.find(db, [(stream, sequence) for sequence in sequences])
    return {row.sequence: bytes(row.body) for row in found}


def find_coups(db: Connection, keys: Iterable[CoupKey]) -> dict[CoupKey, tuple[Phase, int]]:
    """Phase and version of the coups among these keys."""
    return {
        CoupKey(row.operator, row.table_name, row.shoe, row.coup): (row.phase, row.version)
        for row in _COUPS.find(db, keys)
    }


def find_finished(db: Connection, shard: str, keys: Iterable[CoupKey]) -> dict[CoupKey, Coup]:
    """These coups with all bets that were paid, or given back when the coup was void."""
    coups = {(coup := _coup_of(row)).key: coup for row in _COUPS.find(db, keys)}
    for row in sorted(_COUP_BETS.find_all(db, coups), key=lambda row: row.number):
        if row.status in ("won", "lost", "push", "void"):
            bet = _bet_of(row, shard, "")
            coups[bet.key].bets[bet.bet] = bet
    return coups


def find_statuses(db: Connection, numbers: Mapping[int, TransactionKey]) -> dict[TransactionKey, str]:
    """How these bets stand."""
    rows = _BETS.find(db, [(number,) for number in numbers])
    return {numbers[row.number]: row.status for row in rows}


def find_items(db: Connection, keys: Iterable[tuple[str, str]]) -> list[Item]:
    """These items, whether they are open or not."""
    return [item_of(row.kind, json.loads(row.document)) for row in _ITEMS.find(db, keys)]


def find_grants(db: Connection, grants: Iterable[str]) -> dict[str, Grant]:
    """These free bets, whether they are used up or not."""
    found = find_items(db, [("grant", grant) for grant in grants])
    return {item.id: item for item in found if isinstance(item, Grant)}


def find_references(db: Connection, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Opaque ids of the accounts that are known under these (operator, reference)."""
    return {(row.operator, row.reference): row.account for row in _REFERENCES.find(db, keys)}


# --------------------------------------------------------------------------------------------- what it writes


def save_references(db: Connection, references: Mapping[tuple[str, str], str]) -> None:
    """Write new references."""
    rows = [{"operator": o, "reference": r, "account": account} for (o, r), account in references.items()]
    bulk.insert(db, REFERENCE, rows)


def save_changes(db: Connection, ledger: Ledger, changes: Changes, known: Set[TransactionKey]) -> None:
    """Bring the projections up to the state. ``known``: transactions that have a row already."""
    _save_tables(db, changes)
    _save_coups(db, changes.coups.values())
    bulk.insert_columns(db, BET, _bet_columns(list(changes.bets.values())))
    bulk.update(db, BET, [_end_row(bet) for bet in changes.ends.values()])
    _save_balances(db, ledger)
    bulk.upsert(
        db,
        ACCOUNT,
        [
            {
                "account": account,
                "operator": each.operator,
                "frozen": int(each.frozen),
                "excluded_until": each.excluded_until,
            }
            for account, each in changes.accounts.items()
        ],
    )
    new: list[dict[str, Any]] = []
    replaced: list[dict[str, Any]] = []
    for key, each in changes.transactions.items():
        row = {"account": key.account, "tx": key.tx, "sequence": each.sequence, "balance": each.balance}
        (replaced if key in known else new).append(row)
    bulk.insert(db, TRANSACTION, new)
    bulk.update(db, TRANSACTION, replaced)
    bulk.upsert(db, ITEM, [_item_row(item) for item in changes.items.values()])


def _save_tables(db: Connection, changes: Changes) -> None:
    tables = [{"operator": o, "name": t, "shard": s} for (o, t), s in changes.tables.items()]
    bulk.upsert(db, TABLE, tables)
    houses = [
        {"operator": o, "table_name": t, "number": number, "house": house.model_dump_json()}
        for o, t, number, house in changes.houses
    ]
    bulk.upsert(db, HOUSE, houses)


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
            "result_sequence": None if coup.result is None else coup.result.sequence,
            "result_hash": None if coup.result is None else coup.result.hash,
        }
        for coup in coups
    ]
    bulk.upsert(db, COUP, rows)


def _bet_columns(bets: Sequence[Bet]) -> bulk.Columns:
    return {
        "number": [bet.number for bet in bets],
        "operator": [bet.key.operator for bet in bets],
        "table_name": [bet.key.table for bet in bets],
        "shoe": [bet.key.shoe for bet in bets],
        "coup": [bet.key.coup for bet in bets],
        "account": [bet.account for bet in bets],
        "tx": [bet.tx for bet in bets],
        "seat": [bet.seat for bet in bets],
        "spot": [bet.spot for bet in bets],
        "currency": [bet.currency for bet in bets],
        "exponent": [bet.exponent for bet in bets],
        "stake": [bet.stake for bet in bets],
        "left": [bet.left for bet in bets],
        "funding": [bet.funding for bet in bets],
        "grant": [bet.grant for bet in bets],
        "code": [bet.code for bet in bets],
        "sequence": [bet.sequence for bet in bets],
        "status": [bet.status for bet in bets],
        "tier": [bet.tier for bet in bets],
        "returned": [bet.returned for bet in bets],
        "commission": [bet.commission for bet in bets],
        "deferred": [int(bet.deferred) for bet in bets],
    }


def _end_row(bet: Bet) -> dict[str, Any]:
    return {
        "number": bet.number,
        "left": bet.left,
        "code": bet.code,
        "sequence": bet.sequence,
        "status": bet.status,
        "tier": bet.tier,
        "returned": bet.returned,
        "commission": bet.commission,
        "deferred": int(bet.deferred),
    }


def _item_row(item: Item) -> dict[str, Any]:
    return {
        "kind": item.KIND,
        "id": item.id,
        "operator": item.operator,
        "account": item.account,
        "is_open": int(item.is_open),
        "document": json.dumps(item.document()),
    }


def _save_balances(db: Connection, ledger: Ledger) -> None:
    kept, gone = [], []
    balances = ledger.balances()
    # In one order always: what is written is then the same for the same batch.
    for line in sorted(ledger.touched, key=_as_text):
        if line[1] == BETS_IN_PLAY:
            continue
        key = {"operator": line[0], "ledger": line[1], "party": line[2] or "", "currency": line[3]}
        if amount := balances.get(line, 0):
            kept.append({**key, "amount": amount})
        else:
            gone.append(key)
    bulk.upsert(db, BALANCE, kept)
    bulk.delete(db, BALANCE, gone)


def _as_text(line: Line) -> tuple[str, str, str, str]:
    return line[0], line[1], line[2] or "", line[3]
