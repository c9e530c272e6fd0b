"""Wallet over HTTP. Amounts are decimal strings; a JSON number is refused (W25)."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

from fastapi import FastAPI, Response
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Engine

from schemas.commands import AccountReference, Deposit, PlaceBet, RepairSettlement, WalletCommand
from schemas.events.base import CoupNumber, Currency, Name, OperatorName, Seat, Spot
from schemas.events.wallet import TransactionId
from schemas.money import MoneyError, format_amount, parse_amount
from schemas.refusal import Refusal
from services.runtime.http import ask, problem, service_app
from services.runtime.writer import Writer
from services.wallet import store
from services.wallet.core.state import CoupKey
from services.wallet.service import BetAnswer, DepositTaken

Amount = Annotated[str, Field(examples=["25.00"], max_length=64)]


class _Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class DepositBody(_Body):
    """Money that comes in for a player."""

    operator: OperatorName
    account: AccountReference
    tx: TransactionId
    currency: Currency
    amount: Amount


class BetBody(_Body):
    """A stake on a spot."""

    operator: OperatorName
    table: Name
    shoe: Name
    coup: CoupNumber
    account: AccountReference
    tx: TransactionId
    seat: Seat | None = None
    spot: Spot
    currency: Currency
    stake: Amount


class RepairBody(_Body):
    """A coup that somebody believes to be unpaid."""

    operator: OperatorName
    table: Name
    shoe: Name
    coup: CoupNumber
    version: int = Field(ge=1, default=1)


def wallet_app(writer: Writer[WalletCommand], reader: Engine) -> FastAPI:
    """The application. ``reader`` is an engine for queries."""
    app = service_app(writer, "Sabot wallet", "Accounts, bets and money. Amounts are decimal strings.")

    @app.post("/v1/deposits", tags=["money"])
    async def deposit(body: DepositBody, response: Response) -> dict[str, Any]:
        """Take money in. The same ``tx`` again moves nothing and answers the same, byte for byte."""
        amount = _positive(body.amount, body.currency, "amount")
        taken: DepositTaken = await ask(
            writer,
            Deposit(
                operator=body.operator,
                account=body.account,
                tx=body.tx,
                currency=body.currency,
                amount=amount,
            ),
        )
        response.headers.update(_replay_headers(taken, body.currency))
        return {
            "code": "OK",
            "tx": body.tx,
            "balance": format_amount(taken.balance, body.currency),
            "currency": body.currency,
        }

    @app.post("/v1/bets", tags=["bets"])
    async def bet(body: BetBody, response: Response) -> Any:
        """Place a bet. A refusal for lack of money is final: another try needs another ``tx``.

        Whoever bets as soon as game has opened a coup may be quicker than game's word to wallet, so a coup
        that is not known is waited for, for half a second.
        """
        stake = _positive(body.stake, body.currency, "stake")
        answer = await _bet(writer, PlaceBet(**body.model_dump() | {"stake": stake}))
        headers = _replay_headers(answer, body.currency)
        if answer.code != "OK":
            field, words = _REFUSED[answer.code]
            return problem(answer.code, field, words, headers)
        response.headers.update(headers)
        return {
            "code": "OK",
            "tx": body.tx,
            "bet": answer.bet,
            "balance": format_amount(answer.balance, body.currency),
            "currency": body.currency,
        }

    @app.post("/v1/repairs", tags=["operations"])
    async def repair(body: RepairBody) -> dict[str, str]:
        """Settle a coup again, should it have been missed. Nobody is ever paid twice."""
        return {"code": "OK_REPLAY", "detail": await ask(writer, RepairSettlement(**body.model_dump()))}

    @app.get("/v1/coups/{operator}/{table}/{shoe}/{coup}/bets", tags=["bets"])
    def bets(operator: OperatorName, table: Name, shoe: Name, coup: CoupNumber) -> list[dict[str, Any]]:
        """The bets of a coup and how they ended."""
        with reader.connect() as db:
            records = store.bets_of_coup(db, CoupKey(operator, table, shoe, coup))
        return [
            {
                "account": each.account,
                "tx": each.tx,
                "seat": each.seat,
                "spot": each.spot,
                "stake": format_amount(each.stake, each.currency),
                "returned": format_amount(each.returned, each.currency),
                "commission": format_amount(each.commission, each.currency),
                "currency": each.currency,
                "status": each.status,
            }
            for each in records
        ]

    @app.get("/v1/accounts/{operator}/{account}", tags=["money"])
    def balances(operator: str, account: str) -> dict[str, Any]:
        """What a player has in cash and in play, by currency."""
        with reader.connect() as db:
            return {"account": account, "balances": store.balances_of(db, operator, account)}

    return app


async def _bet(writer: Writer[WalletCommand], command: PlaceBet) -> BetAnswer:
    for seconds in _ASK_AGAIN_SECONDS:
        try:
            answer: BetAnswer = await ask(writer, command)
        except Refusal as refusal:
            if refusal.code != "COUP_UNKNOWN":
                raise
            await asyncio.sleep(seconds)
        else:
            return answer
    last: BetAnswer = await ask(writer, command)
    return last


_ASK_AGAIN_SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.2)

_REFUSED = {
    "INSUFFICIENT_FUNDS": ("stake", "the player has less cash than this stake"),
    "ROUND_CLOSED": ("coup", "the coup is over"),
    "BETTING_CLOSED": ("coup", "betting on this coup is closed"),
    "SPOT_UNKNOWN": ("spot", "this table does not offer that spot"),
}


def _replay_headers(answer: DepositTaken | BetAnswer, currency: str) -> dict[str, str]:
    """Beside a repeated answer, which is the first one's body: that it is one, and the balance now (W3)."""
    if not answer.replayed:
        return {}
    current = format_amount(answer.current, currency)
    return {"Idempotent-Replayed": "true", "Sabot-Current-Balance": current}


def _positive(text: str, currency: str, field: str) -> int:
    try:
        units = parse_amount(text, currency)
    except MoneyError as error:
        code = "PRECISION" if "too many decimals" in str(error) else "INVALID"
        raise Refusal(code, field if error.field == "amount" else error.field, str(error)) from None
    if units == 0:
        raise Refusal("INVALID", field, "an amount must be more than zero")
    return units
