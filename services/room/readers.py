"""Questions to the services' tables that a driver of a room asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection

from services.wallet import store
from services.wallet.core.state import CoupKey

_OVER: Final = frozenset({"settled", "returned"})


def find_accounts(wallet: Connection, operator: str, references: Sequence[str]) -> dict[str, str]:
    """Opaque ids of the operator's accounts, by reference."""
    with wallet.begin():
        found = store.find_references(wallet, [(operator, reference) for reference in references])
    return {reference: account for (_, reference), account in found.items()}


def is_paid(wallet: Connection, coup: CoupKey) -> bool:
    """Whether wallet has paid the coup, or returned its stakes."""
    with wallet.begin():
        phase, _ = store.find_coups(wallet, [coup]).get(coup, ("unknown", 0))
    return phase in _OVER
