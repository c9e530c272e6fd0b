"""How wallet is put together on this machine."""

from __future__ import annotations

from pathlib import Path

from schemas.commands import WalletCommand
from services.runtime.database import migrate, open_sqlite
from services.runtime.files import database_of
from services.runtime.ports import Bus, Clock, Ids
from services.runtime.settings import Settings
from services.runtime.writer import Writer
from services.wallet.service import WalletService

DATABASE = database_of("wallet")


def open_wallet(data: Path, bus: Bus, settings: Settings, *, clock: Clock, ids: Ids) -> Writer[WalletCommand]:
    """Wallet's writer over ``data/wallet.db``, which is made and migrated as needed."""
    engine = open_sqlite(data / DATABASE, writer=True)
    migrate(engine, "wallet")
    service = WalletService(settings.shard, ids)
    return Writer(service, engine, bus, clock=clock, ids=ids, calendar=settings.calendar)
