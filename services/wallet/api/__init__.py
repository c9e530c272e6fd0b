"""Wallet over HTTP. Amounts are decimal strings; a JSON number is refused (W25)."""

from __future__ import annotations

from fastapi import FastAPI
from sqlalchemy import Engine

from schemas.commands.wallet import WalletCommand
from services.runtime.callers import Authenticator
from services.runtime.http import service_app
from services.runtime.ports import Clock
from services.runtime.security import Security
from services.runtime.writer import Writer
from services.wallet.api import bets, money, reading
from services.wallet.dispatch import Dispatcher

_DESCRIPTION = """\
Accounts, bets and money of a baccarat room. Amounts are decimal strings with the currency's own decimals.

Every movement has a `tx` of yours, which counts for one account: the same request again is answered with the
same bytes and moves nothing. Errors are problem documents (RFC 9457) with a `code`, the `field`, and whether
to send the same again (`retryable`).
"""


def wallet_app(
    writer: Writer[WalletCommand],
    reader: Engine,
    authenticator: Authenticator,
    clock: Clock,
    dispatcher: Dispatcher | None = None,
) -> FastAPI:
    """The application. ``reader`` is an engine for queries; ``dispatcher`` asks operators' wallets, where
    there are any."""
    app = service_app(writer, "Sabot wallet", _DESCRIPTION, trouble=lambda: authenticator.operators.trouble)
    app.add_middleware(Security, authenticator=authenticator, clock=clock, reading=reading.QUESTIONS)
    money.add_routes(app, writer)
    bets.add_routes(app, writer, reader, dispatcher)
    reading.add_routes(app, writer, reader)
    return app
