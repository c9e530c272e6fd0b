"""A room whose services run elsewhere: commands over HTTP, as any operator gives them; questions to their databases."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Final

from schemas.commands import (
    CloseBetting,
    CloseTable,
    CommitShoe,
    Deposit,
    EndShoe,
    GameCommand,
    LeaveSeat,
    LoadShoe,
    OpenCoup,
    OpenTable,
    PlaceBet,
    SetHouse,
    TakeSeat,
    VoidCoup,
    WalletCommand,
)
from schemas.money import format_amount, parse_amount
from schemas.refusal import Refusal
from services.game import store as game_store
from services.game.core.state import Table, TableKey
from services.room.calls import Caller
from services.room.readers import find_accounts, is_paid
from services.room.room import Stalled
from services.runtime.installation import Installation
from services.runtime.settings import Settings
from services.wallet import store as wallet_store
from services.wallet.core.state import CoupKey

_ROUTES: Final[dict[type, str]] = {
    OpenTable: "/v1/tables/open",
    CloseTable: "/v1/tables/close",
    SetHouse: "/v1/houses/set",
    TakeSeat: "/v1/seats/take",
    LeaveSeat: "/v1/seats/leave",
    CommitShoe: "/v1/shoes/commit",
    LoadShoe: "/v1/shoes/load",
    EndShoe: "/v1/shoes/end",
    OpenCoup: "/v1/coups/open",
    CloseBetting: "/v1/coups/close",
    VoidCoup: "/v1/coups/void",
    Deposit: "/v1/deposits",
    PlaceBet: "/v1/bets",
}
