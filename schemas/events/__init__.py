"""Every event there is, by type name."""

from __future__ import annotations

from schemas.events.audit import AUDIT_EVENTS
from schemas.events.base import Payload
from schemas.events.game import GAME_EVENTS
from schemas.events.wallet import WALLET_EVENTS

EVENTS: dict[str, type[Payload]] = {
    payload.type_name(): payload for payload in (*GAME_EVENTS, *WALLET_EVENTS, *AUDIT_EVENTS)
}
"""Payload classes by CloudEvents type."""
