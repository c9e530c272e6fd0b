"""Questions to the services' tables that a driver of a room asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa
from sqlalchemy import Connection

from schemas.money import parse_amount
from services.game import store as game_store
from services.game.core.state import Table, TableKey
from services.runtime.store import is_all_published, read_heads
from services.runtime.tables import InboxRow, table_of
from services.wallet import queries as wallet_queries
from services.wallet import store as wallet_store
from services.wallet.core.state import CoupKey
from services.wallet.tables import COUP

_OVER: Final = frozenset({"settled", "returned"})
_TABLE: Final = table_of(game_store.TableRow)
_COUP: Final = COUP
_INBOX: Final = table_of(InboxRow)


def find_accounts(wallet: Connection, operator: str, references: Sequence[str]) -> dict[str, str]:
    """Opaque ids of the operator's accounts, by reference."""
    with wallet.begin():
        found = wallet_store.find_references(wallet, [(operator, reference) for reference in references])
    return {reference: account for (_, reference), account in found.items()}


def find_cash(wallet: Connection, operator: str, references: Sequence[str], currency: str) -> dict[str, int]:
    """Minor units that each account has in cash."""
    with wallet.begin():
        balances = {each: wallet_queries.balances_of(wallet, operator, each) for each in references}
    return {
        reference: sum(parse_amount(row["cash"], currency) for row in rows if row["currency"] == currency)
        for reference, rows in balances.items()
    }


def is_paid(wallet: Connection, coup: CoupKey) -> bool:
    """Whether wallet has paid the coup, or returned its stakes."""
    with wallet.begin():
        phase, _ = wallet_store.find_coups(wallet, [coup]).get(coup, ("unknown", 0))
    return phase in _OVER


def coups_in_play(wallet: Connection) -> frozenset[CoupKey]:
    """Coups that wallet knows and has not paid."""
    query = sa.select(_COUP.c.operator, _COUP.c.table_name, _COUP.c.shoe, _COUP.c.coup)
    with wallet.begin():
        rows = wallet.execute(query.where(_COUP.c.phase.in_(("open", "sealed"))))
        return frozenset(CoupKey(*row) for row in rows)


def find_table(game: Connection, operator: str, name: str) -> Table | None:
    """A table as the last commit left it."""
    with game.begin():
        return game_store.find_table(game, TableKey(operator, name))


def table_names(game: Connection, operator: str) -> list[str]:
    """The operator's tables."""
    with game.begin():
        return list(game.scalars(sa.select(_TABLE.c.name).where(_TABLE.c.operator == operator)))


def count_shoes(game: Connection, operator: str, table: str) -> int:
    """How many shoes a table has had."""
    with game.begin():
        return game_store.count_shoes(game, operator, table)


def has_published(producer: Connection) -> bool:
    """Whether a service knows that all of its events are on the bus."""
    with producer.begin():
        return is_all_published(producer)


def has_read(consumer: Connection, producer: Connection) -> bool:
    """Whether a service has applied everything that another has written."""
    with producer.begin():
        heads = read_heads(producer)
    with consumer.begin():
        reached = {row.stream: row.sequence for row in consumer.execute(sa.select(_INBOX))}
    return all(reached.get(head.stream, 0) >= head.sequence for head in heads)
