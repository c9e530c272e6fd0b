"""Deferred commission: marked on a seat when a Banker bet wins, collected later (account 1065)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from schemas.events.accounts import CommissionCollected
from schemas.events.base import Payload
from services.wallet.core.items import Owed
from services.wallet.core.postings import entry_of
from services.wallet.core.state import WalletState

Reason = Literal["request", "seat_left", "shoe_ended", "table_closed"]


def owed_id(operator: str, table: str, seat: int | None, account: str, currency: str) -> str:
    """The id of a mark: on which seat, for whose account."""
    return f"{operator}/{table}/{'' if seat is None else seat}/{account}/{currency}"


def collect(
    state: WalletState, marks: Iterable[Owed], reason: Reason, tx: str | None = None
) -> list[Payload]:
    """Collect these marks. What a player does not have in cash he owes from then on (1060)."""
    collected: list[Payload] = []
    taken: dict[tuple[str, str], int] = {}
    for mark in marks:
        purse = mark.account, mark.currency
        cash = state.ledger.cash(mark.operator, *purse) - taken.get(purse, 0)
        shortfall = max(0, mark.amount - cash)
        taken[purse] = taken.get(purse, 0) + mark.amount - shortfall
        quantities = {"amount": mark.amount, "shortfall": shortfall}
        collected.append(
            CommissionCollected(
                operator=mark.operator,
                account=mark.account,
                tx=tx or f"{reason} {mark.table} {mark.seat or ''}".strip()[:64],
                currency=mark.currency,
                exponent=mark.exponent,
                amount=mark.amount,
                table=mark.table,
                seat=mark.seat,
                shortfall=shortfall,
                reason=reason,
                entry=entry_of("14", mark.currency, quantities, {"account": mark.account}),
            )
        )
    return collected


def marks_at(state: WalletState, operator: str, table: str, seat: int | None = None) -> list[Owed]:
    """The marks on a seat, or (no seat) on a whole table."""
    return [
        each
        for each in state.items.owed.values()
        if (each.operator, each.table) == (operator, table) and (seat is None or each.seat == seat)
    ]
