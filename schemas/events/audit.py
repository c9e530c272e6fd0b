"""What audit says: its verdict on every coup. Streams ``audit/<operator>``."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from schemas.cards import Card
from schemas.events.base import CoupNumber, CoupPayload, EventRef, MinorUnits, Model, Name, Outcome, Payload


class Turnover(Model):
    """The money of one coup in one currency, in minor units."""

    currency: str
    exponent: Annotated[int, Field(ge=0, le=18)]
    staked: MinorUnits
    returned: MinorUnits
    commission: MinorUnits


class CoupVerified(CoupPayload):
    """Cards, draws, totals, outcome, every payout and the postings were worked out again and agree."""

    NAME: ClassVar[str] = "sabot.audit.coup.verified"

    status: Literal["settled", "void"]
    version: Annotated[int, Field(ge=1)]
    outcome: Outcome | None
    cards: tuple[Card, ...]
    bets: Annotated[int, Field(ge=0)]
    turnover: tuple[Turnover, ...]
    result: EventRef
    """Game's event that ended the coup."""
    settlement: EventRef
    """Wallet's last event that obeyed it."""


class DiscrepancyFound(Payload):
    """Something recorded is not what the rules, or the arithmetic, or the chain say it must be."""

    NAME: ClassVar[str] = "sabot.audit.discrepancy.found"

    check: str
    """The check that failed, such as ``tableau`` or ``payout``."""
    stream: str
    sequence: Annotated[int, Field(ge=0)]
    table: Name | None = None
    shoe: Name | None = None
    coup: CoupNumber | None = None
    recorded: str
    expected: str
    words: str
    """One sentence for a person."""


AUDIT_EVENTS = (CoupVerified, DiscrepancyFound)
