"""How a scenario is written down, and all of them in their order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Final

from services.certify.stage import Stage

Play = Callable[[Stage], None]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One thing that a wallet must do."""

    id: str
    group: str
    shows: str
    play: Play
    dialects: frozenset[str]
    currency: str | None
    """A player in this currency is needed as well."""


GROUPS: Final = ("rounds", "repeats", "players", "money", "promotions", "batches", "lookups", "signatures")
BOTH: Final = frozenset({"sabot", "one_wallet"})
OURS: Final = frozenset({"sabot"})
ONE_WALLET: Final = frozenset({"one_wallet"})
_SCENARIOS: Final[dict[str, Scenario]] = {}


def scenario(
    id_: str, shows: str, *, dialects: frozenset[str] = BOTH, currency: str | None = None
) -> Callable[[Play], Play]:
    """Put a function down as a scenario of its module's group."""

    def put_down(play: Play) -> Play:
        if id_ in _SCENARIOS:
            raise AssertionError(f"two scenarios are {id_!r}")
        group = play.__module__.rpartition(".")[2]
        _SCENARIOS[id_] = Scenario(id_, group, shows, play, dialects, currency)
        return play

    return put_down


def scenarios(only: str | None = None) -> list[Scenario]:
    """Every scenario whose id or group is ``only``, a pattern such as ``cancel*``; without, all."""
    for group in GROUPS:
        import_module(f"services.certify.{group}")
    found = sorted(_SCENARIOS.values(), key=lambda each: GROUPS.index(each.group))
    if only is None:
        return found
    return [each for each in found if fnmatchcase(each.id, only) or each.group == only]
