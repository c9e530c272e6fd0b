"""How wallet is put together."""

from __future__ import annotations

from schemas.commands import WalletCommand
from services.runtime.installation import Installation
from services.runtime.ports import Bus, Clock, Ids
from services.runtime.settings import Settings
from services.runtime.writer import Writer
from services.wallet.service import WalletService


def open_wallet(
    installation: Installation, bus: Bus, settings: Settings, *, clock: Clock, ids: Ids
) -> Writer[WalletCommand]:
    """Wallet's writer over its database. Each shard reads game's events for itself."""
    engine = installation.open_database("wallet")
    service = WalletService(settings.shard, ids)
    return Writer(
        service,
        engine,
        bus,
        clock=clock,
        ids=ids,
        calendar=settings.calendar,
        group=f"sabot-wallet-{settings.shard}",
    )
