"""The chart of accounts, as data (``chart.toml``): what the numbers in every journal entry mean."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Account(BaseModel):
    """One account of the chart."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: str = Field(pattern=r"^[0-9]{4}$")
    name: str
    side: Literal["debit", "credit", "either"]
    """Where its balance normally is."""
    party: Literal["account", "bet", "withdrawal", "hold"] | None = None
    """Whose sub-ledger its postings name."""
    gaming_win: bool = False
    """Whether it is part of gross gaming revenue, which is the net credit of these accounts."""


@cache
def chart() -> dict[str, Account]:
    """All accounts, by number, in their order."""
    table = tomllib.loads((files("schemas") / "chart.toml").read_text("utf-8"))
    return {number: Account(number=number, **table[number]) for number in sorted(table)}
