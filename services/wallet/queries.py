"""Questions to wallet's tables. They see what is committed, over a connection of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Connection

from schemas.money import exponent_of, format_amount, format_units
from schemas.refusal import Refusal
from services.wallet.core.postings import PLAYER_BONUS, PLAYER_CASH, RECEIVABLE
from services.wallet.core.state import CoupKey
from services.wallet.store import OPEN_BETS, find_references
from services.wallet.tables import ACCOUNT, BALANCE, BET, ITEM, REFERENCE


@dataclass(frozen=True, slots=True)
class BetRecord:
    """A bet as an operator asks for it."""

    account: str
    """The operator's reference."""
    tx: str
    seat: int | None
    spot: str
    stake: int
    left: int
    returned: int
    commission: int
    currency: str
    exponent: int
    status: str
    funding: str


_COUP_BETS: Final = (
    sa.select(BET, REFERENCE.c.reference)
    .join(
        REFERENCE,
        sa.and_(REFERENCE.c.operator == BET.c.operator, REFERENCE.c.account == BET.c.account),
    )
    .where(
        BET.c.operator == sa.bindparam("operator"),
        BET.c.table_name == sa.bindparam("table"),
        BET.c.shoe == sa.bindparam("shoe"),
        BET.c.coup == sa.bindparam("coup"),
    )
    .order_by(BET.c.number)
)


def bets_of_coup(db: Connection, key: CoupKey) -> Sequence[BetRecord]:
    """All bets of a coup, in the order in which they came."""
    return [
        BetRecord(
            account=row.reference,
            tx=row.tx,
            seat=row.seat,
            spot=row.spot,
            stake=row.stake,
            left=row.left,
            returned=row.returned,
            commission=row.commission,
            currency=row.currency,
            exponent=row.exponent,
            status=row.status,
            funding=row.funding,
        )
        for row in db.execute(_COUP_BETS, key._asdict())
    ]


_IN_PLAY: Final = OPEN_BETS.where(BET.c.account == sa.bindparam("account"), BET.c.status == "open")
_HELD: Final = sa.select(BALANCE).where(BALANCE.c.party.in_(sa.bindparam("parties", expanding=True)))


def account_of(db: Connection, operator: str, reference: str) -> str:
    """The opaque id of an account.

    Raises:
        Refusal: ``ACCOUNT_UNKNOWN``.
    """
    account = find_references(db, [(operator, reference)]).get((operator, reference))
    if account is None:
        raise Refusal("ACCOUNT_UNKNOWN", "account", f"operator {operator} has no account {reference!r}")
    return account


def balances_of(db: Connection, operator: str, reference: str) -> list[dict[str, str]]:
    """What an account has, as decimal strings by currency (W32).

    ``cash``, ``bonus`` (free bets left), ``held``, ``withdrawing``, ``in_play``, ``withdrawable`` and
    ``negative_receivable``.

    Raises:
        Refusal: ``ACCOUNT_UNKNOWN``.
    """
    account = account_of(db, operator, reference)
    sums: dict[str, dict[str, int]] = {}

    def add(currency: str, name: str, amount: int) -> None:
        row = sums.setdefault(currency, {})
        row[name] = row.get(name, 0) + amount

    names = {PLAYER_CASH: "cash", PLAYER_BONUS: "bonus", RECEIVABLE: "negative_receivable"}
    for row in db.execute(sa.select(BALANCE).where(BALANCE.c.party == account)):
        if row.ledger in names:
            add(row.currency, names[row.ledger], row.amount if row.ledger == RECEIVABLE else -row.amount)
    for row in db.execute(_IN_PLAY, {"account": account}):  # summed here: SQLite's sums end at 64 bits
        add(row.currency, "in_play", row.left)
    aside = sa.select(ITEM.c.id, ITEM.c.kind).where(
        ITEM.c.account == account, ITEM.c.kind.in_(("hold", "withdrawal")), ITEM.c.is_open == 1
    )
    kinds = {row.id: row.kind for row in db.execute(aside)}
    if kinds:
        for line in db.execute(_HELD, {"parties": list(kinds)}):
            add(line.currency, "held" if kinds[line.party] == "hold" else "withdrawing", -line.amount)
    columns = ("cash", "bonus", "held", "withdrawing", "in_play", "negative_receivable")
    return [
        {
            "currency": currency,
            **{name: format_amount(row.get(name, 0), currency) for name in columns},
            "withdrawable": format_amount(
                max(0, row.get("cash", 0) - row.get("negative_receivable", 0)), currency
            ),
        }
        for currency, row in sorted(sums.items())
    ]


def status_of_account(db: Connection, operator: str, reference: str) -> dict[str, Any]:
    """Whether an account may be used.

    Raises:
        Refusal: ``ACCOUNT_UNKNOWN``.
    """
    account = account_of(db, operator, reference)
    row = db.execute(sa.select(ACCOUNT).where(ACCOUNT.c.account == account)).one()
    return {"frozen": bool(row.frozen), "excluded_until": row.excluded_until or None}


def trial_balance(db: Connection, operator: str | None = None) -> list[dict[str, Any]]:
    """Debits and credits of every account of the chart, by operator and currency, as decimal strings."""
    query = sa.select(BALANCE.c.operator, BALANCE.c.ledger, BALANCE.c.currency, BALANCE.c.amount)
    open_bets = sa.select(BET.c.operator, BET.c.currency, BET.c.left).where(BET.c.status == "open")
    if operator is not None:
        query = query.where(BALANCE.c.operator == operator)
        open_bets = open_bets.where(BET.c.operator == operator)
    sums: dict[tuple[str, str, str], int] = {}
    for row in db.execute(query):
        key = (row.operator, row.currency, row.ledger)
        sums[key] = sums.get(key, 0) + row.amount
    for bet in db.execute(open_bets):
        key = (bet.operator, bet.currency, "2030")
        sums[key] = sums.get(key, 0) - bet.left
    return [
        {
            "operator": whose,
            "currency": currency,
            "account": ledger,
            "debit": format_units(max(amount, 0), exponent_of(currency)),
            "credit": format_units(max(-amount, 0), exponent_of(currency)),
        }
        for (whose, currency, ledger), amount in sorted(sums.items())
    ]
