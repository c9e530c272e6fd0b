"""Questions over HTTP: accounts, what is open, the feed of transactions, reconciliation, the trial
balance."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Annotated, Any, Final, Literal

import sqlalchemy as sa
from fastapi import FastAPI, Query, Response
from sqlalchemy import Engine

from schemas.commands.wallet import AccountReference, WalletCommand
from schemas.events.accounts import GamingDay, TransactionId
from schemas.events.base import OperatorName
from schemas.money import exponent_of, format_units
from schemas.refusal import Refusal
from services.runtime.callers import require
from services.runtime.roles import Right
from services.runtime.security import Asking
from services.runtime.writer import Writer
from services.wallet import feed, queries
from services.wallet.api.asking import body_of
from services.wallet.api.bodies import ReconciliationBody
from services.wallet.api.documents import problems
from services.wallet.core.operations import operation_of
from services.wallet.service import Answer, outcome_of
from services.wallet.tables import ITEM, REFERENCE

_KINDS: Final = {
    "withdrawals": "withdrawal",
    "holds": "hold",
    "free-bets": "grant",
    "adjustments": "proposal",
    "limits": "limit",
    "commission": "owed",
    "calls": "call",
}
Shelf = Literal["withdrawals", "holds", "free-bets", "adjustments", "limits", "commission", "calls"]

QUESTIONS: Final = ("/v1/reconciliations",)
"""What is posted and changes nothing."""

_MONEY: Final = ("amount", "left", "staked")
_FORMULA: Final = ("=", "+", "-", "@", "\t")
_AMOUNT: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_ITEMS_MAX: Final = 1_000


def add_routes(app: FastAPI, writer: Writer[WalletCommand], reader: Engine) -> None:
    """Add them to the application."""
    shard: str = writer.service.shard  # type: ignore[attr-defined]
    _add_accounts(app, reader)
    _add_items(app, reader)
    _add_transactions(app, reader, shard)

    @app.get("/v1/trial-balance", tags=["ledger"], responses=problems())
    def trial_balance(caller: Asking, operator: OperatorName | None = None) -> dict[str, Any]:
        """Debits and credits of every account of the chart, by currency."""
        whose = operator or caller.operator
        require(caller, Right.LEDGER_READ, whose)
        with reader.connect() as db:
            return {"operator": whose, "lines": queries.trial_balance(db, whose)}

    @app.get("/v1/ping", tags=["operations"])
    async def ping() -> dict[str, str]:
        """Whether requests are answered at all (W41)."""
        return {"code": "OK"}


def _add_accounts(app: FastAPI, reader: Engine) -> None:
    @app.get("/v1/accounts/{operator}/{account:path}", tags=["accounts"], responses=problems())
    def balances(operator: OperatorName, account: AccountReference, caller: Asking) -> dict[str, Any]:
        """What a player has, by currency: cash, bonus, held, withdrawing, in play, withdrawable, and what he
        owes (W32)."""
        require(caller, Right.ACCOUNTS_READ, operator)
        with reader.connect() as db:
            return {
                "account": account,
                "status": queries.status_of_account(db, operator, account),
                "balances": queries.balances_of(db, operator, account),
            }


def _add_items(app: FastAPI, reader: Engine) -> None:
    @app.get("/v1/open/{shelf}", tags=["accounts"], responses=problems())
    def open_items(
        shelf: Shelf,
        caller: Asking,
        *,
        operator: OperatorName | None = None,
        account: AccountReference | None = None,
        closed: bool = False,
    ) -> dict[str, Any]:
        """What is open of an operator, or of one player: withdrawals, holds, free bets, proposed adjustments,
        limits, marked commission, calls to the operator's wallet (pending recovery among them). With
        ``closed`` also what is over, the latest 1,000.
        """
        whose = operator or caller.operator
        require(caller, Right.ACCOUNTS_READ, whose)
        with reader.connect() as db:
            query = (
                sa.select(ITEM, REFERENCE.c.reference)
                .outerjoin(REFERENCE, REFERENCE.c.account == ITEM.c.account)
                .where(ITEM.c.operator == whose, ITEM.c.kind == _KINDS[shelf])
                .order_by(sa.func.length(ITEM.c.id).desc(), ITEM.c.id.desc())  # numbered: the latest first
                .limit(_ITEMS_MAX)
            )
            if account is not None:
                query = query.where(ITEM.c.account == queries.account_of(db, whose, account))
            if not closed:
                query = query.where(ITEM.c.is_open == 1)
            rows = [_item(row.document, row.reference or "") for row in db.execute(query)]
        return {"operator": whose, shelf: rows}


def _item(document: str, reference: str) -> dict[str, Any]:
    item: dict[str, Any] = json.loads(document) | {"account": reference}
    exponent = item.pop("exponent", None)
    for name in _MONEY:
        if exponent is not None and isinstance(item.get(name), int):
            item[name] = format_units(item[name], exponent)
    if "steps" in item:  # a limit: from which day on which value
        currency = item["currency"]
        item["steps"] = [
            {
                "from": day,
                "value": value
                if value is None or currency is None
                else format_units(value, exponent_of(currency)),
            }
            for day, value in item["steps"]
        ]
    return item


def _add_transactions(app: FastAPI, reader: Engine, shard: str) -> None:
    @app.get("/v1/transactions", tags=["ledger"], response_model=None, responses=problems())
    def transactions(
        caller: Asking,
        *,
        operator: OperatorName | None = None,
        from_day: Annotated[GamingDay | None, Query(alias="from")] = None,
        to_day: Annotated[GamingDay | None, Query(alias="to")] = None,
        account: AccountReference | None = None,
        cursor: Annotated[int, Query(ge=0, le=2**62)] = 0,
        limit: Annotated[int, Query(ge=1, le=feed.PAGE_MAX)] = 100,
        form: Annotated[Literal["json", "csv"], Query(alias="format")] = "json",
    ) -> Response | dict[str, Any]:
        """Everything that moved money or was refused, in the order of the ledger, by gaming days (W38).

        Ask again with the ``cursor`` of the last answer to go on (in CSV it is in the header
        ``Sabot-Cursor``); at the end the same cursor asks for what is new.
        """
        whose = operator or caller.operator
        require(caller, Right.LEDGER_READ, whose)
        with reader.connect() as db:
            page = feed.read_page(
                db,
                shard,
                whose,
                after=cursor,
                most=limit,
                first_day=from_day or "",
                last_day=to_day or "9999-12-31",
                account=None if account is None else queries.account_of(db, whose, account),
            )
        if form == "csv":
            headers = {"Sabot-Cursor": str(page.cursor), "Sabot-More": str(page.more).lower()}
            return Response(_as_csv(page.rows), media_type="text/csv", headers=headers)
        rows = [{name: getattr(row, name) for name in feed.COLUMNS} for row in page.rows]
        return {"operator": whose, "transactions": rows, "cursor": page.cursor, "more": page.more}

    @app.get("/v1/transactions/status", tags=["ledger"], responses=problems())
    def status(
        account: AccountReference,
        tx: TransactionId,
        caller: Asking,
        operator: OperatorName | None = None,
    ) -> dict[str, Any]:
        """What became of a transaction id (W40): after a time-out, decide without guessing.

        ``unknown``: it was never received, or what it asked for could not be carried out and may be sent
        again.
        ``in_progress``: the operator's wallet is being asked. ``final``: with the original answer.
        """
        whose = operator or caller.operator
        require(caller, Right.LEDGER_READ, whose)
        with reader.connect() as db:
            known = feed.status_of(db, shard, whose, account, tx)
        if known is None:
            return {"account": account, "tx": tx, "status": "unknown"}
        event = known["event"]
        code, field = outcome_of(event)
        answer: dict[str, Any] = {"code": code, "field": field or None}
        if code in ("OK", "TOMBSTONED"):
            answer = body_of(Answer(operation_of(event), code, field, event, known["balance"], True, 0), tx)
        return {
            "account": account,
            "tx": tx,
            "status": "in_progress" if code == "IN_PROGRESS" else "final",
            "operation": operation_of(event),
            "answer": answer,
            "bet_status": known["bet_status"],
            "sequence": known["sequence"],
        }

    @app.post("/v1/reconciliations", tags=["ledger"], responses=problems())
    def reconcile(body: ReconciliationBody, caller: Asking) -> dict[str, Any]:
        """A counterparty's list against ours: matched, missing here, missing there, different (W39)."""
        whose = body.operator or caller.operator
        require(caller, Right.LEDGER_READ, whose)
        if body.to_day < body.from_day:
            raise Refusal("INVALID", "to", "the last day is before the first")
        theirs = [
            feed.Theirs(each.account, each.tx, each.kind, each.amount, each.currency)
            for each in body.transactions
        ]
        with reader.connect() as db:
            return feed.reconcile(db, shard, whose, theirs, first_day=body.from_day, last_day=body.to_day)


def _as_csv(rows: Any) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(feed.COLUMNS)
    for row in rows:
        table.writerow(_cell(getattr(row, name)) for name in feed.COLUMNS)
    return text.getvalue()


def _cell(value: object) -> object:
    # A spreadsheet would carry out a text that begins like a formula.
    if isinstance(value, str) and value[:1] in _FORMULA and not _AMOUNT.fullmatch(value):
        return f"'{value}"
    return value
