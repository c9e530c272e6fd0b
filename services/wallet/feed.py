"""The feed of transactions, the status of one, and a counterparty's list against ours (W38 to W40, R20).

All of it is read from the events themselves: nothing here is kept beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from schemas.envelope import Recorded, decode
from schemas.events import accounts, wallet
from schemas.events.base import Payload, wallet_stream
from schemas.money import MoneyError, exponent_of, format_units, parse_amount
from services.runtime.store import read_stream
from services.wallet.core.operations import currency_of, operation_of, transaction_id_of
from services.wallet.core.state import TransactionKey
from services.wallet.store import find_references, find_statuses, find_transactions, number_of
from services.wallet.tables import REFERENCE

PAGE_MAX: Final = 1_000

_MONEY: Final = (
    *accounts.ACCOUNT_EVENTS,
    wallet.BetAccepted,
    wallet.BetRefused,
    wallet.BetRolledBack,
    wallet.CoupSettled,
    wallet.CoupReturned,
    wallet.SettlementCorrected,
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the feed."""

    sequence: int
    """Place of its event in the wallet's stream: what a cursor counts."""
    time: str
    gaming_day: str
    account: str
    """The operator's reference; empty for the house's own money."""
    tx: str
    kind: str
    """``deposit``, ``bet``, ``win``, ``rollback``, …"""
    status: str
    """``SUCCESS``, ``DECLINED`` or ``ROLLEDBACK``."""
    code: str
    amount: str
    currency: str
    bet: str
    table: str
    shoe: str
    coup: str
    relates_to: str


COLUMNS: Final = (
    "sequence",
    "time",
    "gaming_day",
    "account",
    "tx",
    "kind",
    "status",
    "code",
    "amount",
    "currency",
    "bet",
    "table",
    "shoe",
    "coup",
    "relates_to",
)


class Page(NamedTuple):
    """Some rows, and where the next ones begin."""

    rows: Sequence[Row]
    cursor: int
    """Sequence up to which everything was read; the next page begins behind it."""
    more: bool


def read_page(
    db: Connection,
    shard: str,
    operator: str,
    *,
    after: int = 0,
    most: int = 100,
    first_day: str = "",
    last_day: str = "9999-12-31",
    account: str | None = None,
) -> Page:
    """At most ``most`` events' rows of an operator behind a cursor, in the order of the stream.

    ``account``: an opaque id, for one player only.
    """
    rows: list[Row] = []
    references = _References(db)
    cursor, taken = after, 0
    for sequence, body in read_stream(db, wallet_stream(shard), after + 1):
        if taken >= most:
            return Page(rows, cursor, more=True)
        cursor = sequence
        event = decode(body)
        if event.data.operator != operator or not isinstance(event.data, _MONEY):
            continue
        if not first_day <= event.envelope.gamingday <= last_day:
            continue
        made = [row for whose, row in _rows(event) if account is None or whose == account]
        if made:
            taken += 1
            rows += [references.named(row) for row in made]
    return Page(rows, cursor, more=False)


class _References:
    """The operators' names of accounts, looked up once each."""

    def __init__(self, db: Connection) -> None:
        self._db, self._known = db, {"": ""}

    def named(self, row: Row) -> Row:
        account = row.account
        if account not in self._known:
            query = sa.select(REFERENCE.c.reference).where(REFERENCE.c.account == account)
            self._known[account] = self._db.scalar(query) or ""
        fields = {name: getattr(row, name) for name in COLUMNS}
        return Row(**fields | {"account": self._known[account]})


def _rows(event: Recorded[Any]) -> Iterator[tuple[str, Row]]:
    """Account and line of everything that an event moved or refused; the account still by its opaque id."""
    data = event.data
    match data:
        case wallet.CoupSettled():
            for bet in data.bets:
                yield bet.account, _row(event, bet.account, "win", bet.returned, bet, bet=bet.bet)
        case wallet.CoupReturned():
            for back in data.bets:
                yield back.account, _row(event, back.account, "void", back.stake, back, bet=back.bet)
        case wallet.SettlementCorrected():
            for each in data.bets:
                change = each.after.returned - each.before.returned
                yield each.account, _row(event, each.account, "correction", change, each, bet=each.bet)
        case accounts.TransactionRefused():
            yield data.account, _refused_row(event)
        case wallet.BetRefused():
            yield data.account, _row(event, data.account, "bet", data.stake, data, code=data.code)
        case accounts.AccountOpened():
            return
        case _:
            kind = _KINDS.get(type(data)) or operation_of(data)
            amount = getattr(data, "amount", getattr(data, "stake", 0))
            account = getattr(data, "account", "")
            yield account, _row(event, account, kind, amount, data)


_KINDS: Final[Mapping[type[Payload], str]] = {
    accounts.WithdrawalApproved: "withdrawal_approved",
    accounts.WithdrawalRejected: "withdrawal_rejected",
    accounts.WithdrawalPaid: "withdrawal_paid",
    accounts.WithdrawalReturned: "withdrawal_returned",
    accounts.Adjusted: "adjustment",
    accounts.AdjustmentProposed: "adjustment_proposed",
    accounts.AdjustmentDeclined: "adjustment_declined",
    accounts.TombstoneCreated: "tombstone",
}


def _row(
    event: Recorded[Any], account: str, kind: str, amount: int, of: Any, *, bet: str = "", code: str = "OK"
) -> Row:
    data = event.data
    currency, exponent = getattr(of, "currency", None), getattr(of, "exponent", None)
    return Row(
        sequence=event.sequence,
        time=event.envelope.time,
        gaming_day=event.envelope.gamingday,
        account=account,
        tx=getattr(data, "tx", ""),
        kind=kind,
        status="DECLINED" if code != "OK" else "ROLLEDBACK" if kind in ("rollback", "refund") else "SUCCESS",
        code=code,
        amount="" if exponent is None else format_units(amount, exponent),
        currency=currency or "",
        bet=bet or getattr(data, "bet", ""),
        table=getattr(data, "table", None) or "",
        shoe=getattr(data, "shoe", ""),
        coup="" if getattr(data, "coup", None) is None else str(data.coup),
        relates_to=getattr(data, "target", None) or getattr(data, "relates_to", None) or "",
    )


def _refused_row(event: Recorded[Any]) -> Row:
    """What was refused, with the amount that was asked for."""
    data = event.data
    row = _row(event, data.account, data.operation, 0, data, code=data.code)
    amount, currency = data.asked.get("amount"), currency_of(data)
    if not isinstance(amount, int) or currency is None:
        return row
    return replace(row, amount=format_units(amount, exponent_of(currency)), currency=currency)


@dataclass(frozen=True, slots=True)
class Theirs:
    """A transaction as a counterparty has it. What is None they did not say."""

    account: str
    """The operator's reference."""
    tx: str
    kind: str | None
    amount: str | None
    currency: str | None


def reconcile(
    db: Connection, shard: str, operator: str, theirs: Iterable[Theirs], *, first_day: str, last_day: str
) -> dict[str, Any]:
    """Their list against ours for some gaming days (W39, R20).

    Every line is ``matched``, ``missing_here``, ``missing_there`` or ``different`` with the fields that
    differ.
    """
    ours: dict[tuple[str, str], Row] = {}
    references = _References(db)
    for _, body in read_stream(db, wallet_stream(shard)):
        event = decode(body)
        data = event.data
        if data.operator != operator or not first_day <= event.envelope.gamingday <= last_day:
            continue
        if transaction_id_of(data) is None or not getattr(data, "account", ""):
            continue
        for _, row in _rows(event):
            named = references.named(row)
            ours[named.account, named.tx] = named
    lines: list[dict[str, Any]] = []
    seen = set()
    for each in theirs:
        key = (each.account, each.tx)
        seen.add(key)
        found = ours.get(key)
        if found is None:
            lines.append({"account": each.account, "tx": each.tx, "status": "missing_here", "fields": []})
            continue
        amount = _spelt(each.amount, found.currency)
        asked = {"kind": each.kind, "amount": amount, "currency": each.currency}
        fields = [
            name for name, value in asked.items() if value is not None and value != getattr(found, name)
        ]
        if found.status == "DECLINED":
            fields.append("status")
        status = "different" if fields else "matched"
        lines.append({"account": each.account, "tx": each.tx, "status": status, "fields": fields})
    lines += [
        {"account": account, "tx": tx, "status": "missing_there", "fields": []}
        for (account, tx), row in ours.items()
        if (account, tx) not in seen and row.status != "DECLINED"
    ]
    counts = dict.fromkeys(("matched", "missing_here", "missing_there", "different"), 0)
    for line in lines:
        counts[line["status"]] += 1
    return {"counts": counts, "lines": lines}


def _spelt(amount: str | None, currency: str) -> str | None:
    """An amount as we write it: ``10`` euros are ``10.00``. What is none stays as it is, and differs."""
    if amount is None or not currency:
        return amount
    try:
        return format_units(parse_amount(amount, currency), exponent_of(currency))
    except MoneyError:
        return amount


def status_of(db: Connection, shard: str, operator: str, reference: str, tx: str) -> dict[str, Any] | None:
    """What is known of a transaction id (W40): None, or its event's place, its outcome and how its bet
    stands."""
    account = find_references(db, [(operator, reference)]).get((operator, reference))
    if account is None:
        return None
    key = TransactionKey(account, tx)
    found = find_transactions(db, shard, [key]).get(key)
    if found is None:
        return None
    event = found.event
    known: dict[str, Any] = {
        "event": event,
        "sequence": found.sequence,
        "balance": found.balance,
        "bet_status": None,
    }
    if isinstance(event, wallet.BetAccepted | wallet.DebitRequested):
        known["bet_status"] = find_statuses(db, {number_of(event.bet): key}).get(key)
    return known
