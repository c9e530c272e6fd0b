"""What every event's payload has in common, and the pieces that several of them share."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Name = Annotated[
    str,
    StringConstraints(
        min_length=1, max_length=64, pattern=r"^[^\s/\x00-\x1f\x7f]([^/\x00-\x1f\x7f]*[^\s/\x00-\x1f\x7f])?$"
    ),
]
"""A table, a shoe or an opaque id: 1 to 64 characters, no slash, no control character, no space at an end."""

_OPERATOR: Final = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"

OperatorName = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=_OPERATOR)]
"""An operator: no point in it, since ``game/<operator>.<table>`` must split in one way only."""

Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""A SHA-256 in lower-case hexadecimal."""

Spot = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
"""What is bet on: ``player``, ``banker``, ``tie`` (side bets add names of their own)."""

Hand = Literal["player", "banker"]
Outcome = Literal["player", "banker", "tie"]
Tier = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
"""What a spot reached: ``lose``, ``push``, ``win``; a wallet prices tiers and never sees a card."""

Seat = Annotated[int, Field(ge=1, le=99)]
CoupNumber = Annotated[int, Field(ge=0, le=10**9)]
MinorUnits = Annotated[int, Field(ge=0)]
Currency = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9]{1,7}$")]
Exponent = Annotated[int, Field(ge=0, le=18)]


class Model(BaseModel):
    """Read strictly (a string is no number), tolerant of fields that a later version added."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class Payload(Model):
    """The ``data`` of one event. The class says its type's name and version."""

    NAME: ClassVar[str]
    VERSION: ClassVar[int] = 1

    operator: OperatorName

    @classmethod
    def type_name(cls) -> str:
        """The CloudEvents type, such as ``sabot.game.card.dealt.v1``."""
        return f"{cls.NAME}.v{cls.VERSION}"


def game_stream(operator: str, table: str) -> str:
    """The stream of one table."""
    return f"game/{operator}.{table}"


def wallet_stream(shard: str) -> str:
    """The stream of one wallet shard."""
    return f"wallet/{shard}"


def audit_stream(operator: str) -> str:
    """The stream of audit's verdicts for one operator."""
    return f"audit/{operator}"


def operator_of(stream: str | None) -> str:
    """The operator, or the shard, that a stream belongs to; ``unknown`` where it is no stream of ours."""
    name = (stream or "").partition("/")[2].split(".", 1)[0]
    return name if len(name) <= 64 and re.match(_OPERATOR, name) else "unknown"


class EventRef(Model):
    """A place in a stream, and the hash of the bytes that stand there."""

    stream: str
    sequence: Annotated[int, Field(ge=1)]
    hash: Hash


class TablePayload(Payload):
    """An event of one table."""

    table: Name


class ShoePayload(TablePayload):
    """An event of one shoe."""

    shoe: Name


class CoupPayload(ShoePayload):
    """An event of one coup. Coup numbers count within a shoe; gaps are allowed."""

    coup: CoupNumber


class Posting(Model):
    """One line of a journal entry. ``amount`` is in minor units: a debit is positive, a credit negative."""

    ledger: Annotated[str, StringConstraints(pattern=r"^[0-9]{4}$")]
    """Number in the chart of accounts, such as ``2010`` for player cash."""
    party: Name | None = None
    """The sub-ledger: a player's opaque account id (2010), or a bet's id (2030)."""
    currency: Currency
    amount: int


Entry = tuple[Posting, ...]
"""A journal entry: its postings sum to zero in each currency (invariant I1)."""
