"""Routes that move money beside the bets, and those on accounts: one table says them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

from fastapi import FastAPI, Response

from schemas.commands.wallet import (
    ReleaseHold,
    RepairSettlement,
    WalletCommand,
    WithdrawalStep,
    WithdrawFreeBet,
)
from schemas.events.base import Name
from schemas.refusal import Refusal
from services.runtime.callers import require
from services.runtime.http import ask
from services.runtime.roles import Right
from services.runtime.security import Asking
from services.runtime.writer import Writer
from services.wallet.api import bodies
from services.wallet.api.asking import command_of, response_of, tx_of
from services.wallet.api.documents import problems, responses


class _Route(NamedTuple):
    path: str
    body: type[bodies.Body]
    right: Right
    tag: str
    summary: str


ROUTES: Final = (
    _Route("/v1/deposits", bodies.DepositBody, Right.DEPOSIT, "money", "Take money in"),
    _Route("/v1/withdrawals", bodies.WithdrawalBody, Right.WITHDRAW, "money", "Ask for money out"),
    _Route(
        "/v1/chargebacks", bodies.ChargebackBody, Right.WITHDRAWAL_PAY, "money", "A deposit is taken back"
    ),
    _Route("/v1/recoveries", bodies.RecoveryBody, Right.ADJUST, "money", "A player pays what he owes"),
    _Route("/v1/adjustments", bodies.AdjustmentBody, Right.ADJUST, "money", "Propose a manual correction"),
    _Route(
        "/v1/adjustments/decisions",
        bodies.DecisionBody,
        Right.ADJUSTMENT_APPROVE,
        "money",
        "Approve or decline one",
    ),
    _Route("/v1/tips", bodies.TipBody, Right.TIP, "money", "Give a tip"),
    _Route("/v1/free-bets", bodies.FreeBetBody, Right.BONUS, "money", "Grant a free bet"),
    _Route("/v1/holds", bodies.HoldBody, Right.ACCOUNTS_MANAGE, "money", "Put money of a player's aside"),
    _Route("/v1/commission", bodies.CommissionBody, Right.BET, "money", "Collect deferred commission"),
    _Route("/v1/accounts/freeze", bodies.FreezeBody, Right.ACCOUNTS_MANAGE, "accounts", "Lock an account"),
    _Route("/v1/accounts/release", bodies.UnfreezeBody, Right.ACCOUNTS_MANAGE, "accounts", "Unlock one"),
    _Route("/v1/limits", bodies.LimitBody, Right.LIMITS, "accounts", "Set a player's own limit"),
    _Route("/v1/exclusions", bodies.ExclusionBody, Right.EXCLUDE, "accounts", "A player excludes himself"),
    _Route("/v1/house/funding", bodies.FundingBody, Right.HOUSE, "house", "Put money in the house's bank"),
    _Route("/v1/house/payments", bodies.PaymentBody, Right.HOUSE, "house", "Book a payout of the provider"),
    _Route(
        "/v1/house/segregation", bodies.SegregationBody, Right.HOUSE, "house", "Move money between the banks"
    ),
    _Route("/v1/rollbacks", bodies.RollbackBody, Right.ROLL_BACK, "bets", "Take a bet back before the seal"),
    _Route("/v1/refunds", bodies.RefundBody, Right.ROLL_BACK, "bets", "Take a part of a bet back"),
)
"""Every movement that is a body, a command and an answer."""

Step = Literal["approve", "reject", "pay", "return"]

_STEP_RIGHTS: Final[dict[str, Right]] = {
    "approve": Right.WITHDRAWAL_APPROVE,
    "reject": Right.WITHDRAWAL_APPROVE,
    "pay": Right.WITHDRAWAL_PAY,
    "return": Right.WITHDRAWAL_PAY,
}


def add_routes(app: FastAPI, writer: Writer[WalletCommand]) -> None:
    """Add them to the application."""
    for route in ROUTES:
        app.post(
            route.path,
            tags=[route.tag],
            summary=route.summary,
            description=route.body.__doc__,
            operation_id=route.path.removeprefix("/v1/").replace("/", "_").replace("-", "_"),
            response_model=None,
            responses=responses(),
        )(_endpoint(route, writer))
    _add_steps(app, writer)


def _endpoint(route: _Route, writer: Writer[WalletCommand]) -> Callable[..., Any]:
    async def endpoint(body: Any, caller: Asking) -> Response:
        operator = body.operator or caller.operator
        require(caller, route.right, operator)
        command = command_of(body, operator, caller.actor)
        return response_of(await ask(writer, command), tx_of(command))

    endpoint.__annotations__["body"] = route.body
    endpoint.__name__ = route.summary.lower().replace(" ", "_")
    return endpoint


def _add_steps(app: FastAPI, writer: Writer[WalletCommand]) -> None:
    @app.post(
        "/v1/withdrawals/{withdrawal}/{step}", tags=["money"], response_model=None, responses=responses()
    )
    async def step_withdrawal(
        withdrawal: Name, step: Step, body: bodies.StepBody, caller: Asking
    ) -> Response:
        """Approve, reject, pay or return a withdrawal (postings 11b to 11e)."""
        operator = body.operator or caller.operator
        require(caller, _STEP_RIGHTS[step], operator)
        command = WithdrawalStep(
            operator=operator,
            tx=body.tx,
            withdrawal=withdrawal,
            step=step,
            reason=body.reason,
            by=caller.actor,
        )
        return response_of(await ask(writer, command), body.tx)

    @app.post("/v1/holds/{hold}/release", tags=["money"], response_model=None, responses=responses())
    async def release_hold(hold: Name, body: bodies.StepBody, caller: Asking) -> Response:
        """Give held money back."""
        operator = body.operator or caller.operator
        require(caller, Right.ACCOUNTS_MANAGE, operator)
        reason = body.reason or "released"
        command = ReleaseHold(operator=operator, tx=body.tx, hold=hold, reason=reason, by=caller.actor)
        return response_of(await ask(writer, command), body.tx)

    @app.post("/v1/free-bets/{grant}/withdraw", tags=["money"], response_model=None, responses=responses())
    async def withdraw_free_bet(grant: Name, body: bodies.StepBody, caller: Asking) -> Response:
        """Take back what is left of a free bet. ``reason``: ``expired``, or else it is cancelled."""
        operator = body.operator or caller.operator
        require(caller, Right.BONUS, operator)
        command = WithdrawFreeBet(
            operator=operator,
            tx=body.tx,
            grant=grant,
            reason="expired" if body.reason == "expired" else "cancelled",
            by=caller.actor,
        )
        return response_of(await ask(writer, command), body.tx)

    @app.post("/v1/repairs", tags=["operations"], responses=problems())
    async def repair(body: bodies.RepairBody, caller: Asking) -> dict[str, str]:
        """Settle a coup again, should it have been missed. Nobody is ever paid twice."""
        operator = body.operator or caller.operator
        require(caller, Right.REPAIR, operator)
        command: RepairSettlement = command_of(body, operator, caller.actor)
        detail = await ask(writer, command)
        if not isinstance(detail, str):
            raise Refusal("TEMPORARY", "", "no answer; ask again")
        return {"code": "OK_REPLAY", "detail": detail}
