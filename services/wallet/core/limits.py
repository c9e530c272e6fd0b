"""Limits: what a table takes, and what a player has limited himself to (W37).

They are looked at in the decision on the bet itself, against all that was accepted before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from schemas.events.accounts import LimitKind, LimitPeriod
from schemas.gamingday import minutes_between, periods_of
from schemas.house import House
from schemas.money import parse_amount
from services.wallet.core.items import PlayerLimit


class Staked(Protocol):
    """What a limit looks at of a bet."""

    account: str
    spot: str
    currency: str
    left: int


class _Limit(NamedTuple):
    minimum: int | None
    maximum: int | None
    coup_maximum: int | None
    differential: int | None


_OPPOSITE: Final = {"player": "banker", "banker": "player"}


class TableLimits:
    """The limits of one house, in minor units."""

    def __init__(self, house: House) -> None:
        self._limits: dict[tuple[str, str | None], _Limit] = {}
        for each in house.limits:
            amounts = (each.minimum, each.maximum, each.coup_maximum, each.differential)
            units = (None if text is None else parse_amount(text, each.currency) for text in amounts)
            self._limits[each.currency, each.spot] = _Limit(*units)

    def __bool__(self) -> bool:
        return bool(self._limits)

    def reason_against(
        self, bets: Iterable[Staked], account: str, spot: str, currency: str, stake: int
    ) -> str | None:
        """Why a stake is outside the limits, in words, or None. ``bets`` are those of the coup so far."""
        if not self._limits:
            return None
        mine = everybody = opposite = 0
        for bet in bets:
            if bet.currency != currency:
                continue
            if bet.spot == spot:
                everybody += bet.left
                mine += bet.left if bet.account == account else 0
            elif bet.spot == _OPPOSITE.get(spot):
                opposite += bet.left
        for key in ((currency, spot), (currency, None)):
            limit = self._limits.get(key)
            if limit is None:
                continue
            if limit.minimum is not None and stake < limit.minimum:
                return "the stake is below the table's minimum"
            if limit.maximum is not None and mine + stake > limit.maximum:
                return "the player's stakes on the spot would be above the table's maximum"
            if limit.coup_maximum is not None and everybody + stake > limit.coup_maximum:
                return "all stakes on the spot would be above the table's maximum for a coup"
            if limit.differential is None or spot not in _OPPOSITE:
                continue
            if everybody + stake - opposite > limit.differential:
                return "Player and Banker would be further apart than the table's differential"
        return None


def limit_id(account: str, kind: str, period: str, currency: str | None) -> str:
    """The id of a player's limit."""
    return f"{account}/{kind}/{period}/{currency or ''}"


@dataclass(slots=True)
class Play:
    """What a player has staked, lost and deposited in one currency. Only kept of players who have limits."""

    day: str = ""
    first_bet: str = ""
    """When he first bet on that gaming day."""
    periods: dict[str, str] = field(default_factory=dict)
    """The running day, week and month."""
    staked: dict[str, int] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    deposited: dict[str, int] = field(default_factory=dict)
    in_play: int = 0
    """What of his own he has in bets that are not settled, and may still lose."""

    def begin(self, day: str) -> None:
        """Let what belongs to periods that are over be over."""
        if self.day == day:
            return
        self.day, self.first_bet = day, ""
        for name, period in periods_of(day).items():
            if self.periods.get(name) != period:
                self.periods[name] = period
                self.staked[name] = self.lost[name] = self.deposited[name] = 0


Plays = Mapping[str, Play]
"""What a player has played, by currency."""


class Bound(NamedTuple):
    """A limit that holds on a gaming day, whoever set it."""

    kind: LimitKind
    period: LimitPeriod
    currency: str | None
    value: int


def _so_far(plays: Plays, currency: str, bound: Bound, day: str, what: str) -> int:
    play = plays.get(currency)
    if play is None:
        return 0
    play.begin(day)
    sums: dict[str, int] = getattr(play, what)
    return sums.get(bound.period, 0)


def stake_reason(
    bounds: Iterable[Bound], plays: Plays, currency: str, stake: int, *, in_coup: int, day: str, now: str
) -> str | None:
    """Why limits of the player forbid a stake, or None. ``in_coup``: what he has in this coup already."""
    for bound in bounds:
        if bound.currency not in (None, currency):
            continue
        if bound.kind == "stake":
            once = bound.period == "coup"
            so_far = in_coup if once else _so_far(plays, currency, bound, day, "staked")
            if so_far + stake > bound.value:
                return f"the player's limit on stakes a {bound.period} would be exceeded"
        elif bound.kind == "loss":
            in_play = plays[currency].in_play if currency in plays else 0
            if _so_far(plays, currency, bound, day, "lost") + in_play + stake > bound.value:
                return f"the player's limit on losses a {bound.period} could be exceeded"
        elif bound.kind == "time" and _minutes_played(plays, day, now) >= bound.value:
            return "the player's limit on time of play is reached"
    return None


def deposit_reason(
    bounds: Iterable[Bound], plays: Plays, currency: str, amount: int, *, day: str
) -> str | None:
    """Why limits of the player forbid a deposit, or None."""
    for bound in bounds:
        if bound.kind != "deposit" or bound.currency != currency:
            continue
        if _so_far(plays, currency, bound, day, "deposited") + amount > bound.value:
            return f"the player's limit on deposits a {bound.period} would be exceeded"
    return None


def _minutes_played(plays: Plays, day: str, now: str) -> int:
    """Minutes since the player's first bet of the gaming day, in any currency."""
    firsts = [play.first_bet for play in plays.values() if play.day == day and play.first_bet]
    return minutes_between(min(firsts), now) if firsts else 0


def own_bounds(limits: Iterable[PlayerLimit], day: str) -> Iterator[Bound]:
    """A player's own limits that hold on a gaming day."""
    for limit in limits:
        if (value := limit.value(day)) is not None:
            yield Bound(limit.kind, limit.period, limit.currency, value)
