"""The gaming day: from one cut-off to the next in the operator's zone.

One function defines it for everybody; it is stored with every event when the event is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Protocol
from zoneinfo import ZoneInfo


class Calendars(Protocol):
    """Everybody's gaming days: each operator has his own zone and cut-off."""

    def of(self, operator: str) -> GamingCalendar:
        """The gaming days of an operator."""


@dataclass(frozen=True, slots=True)
class GamingCalendar:
    """An operator's zone and the local time at which a gaming day begins (default 06:00)."""

    zone: str = "UTC"
    cut_off: time = time(6)

    def of(self, operator: str) -> GamingCalendar:
        """These gaming days, where all operators have the same."""
        del operator
        return self

    def day(self, moment: datetime) -> date:
        """The gaming day of an aware moment; on the days the clocks change it has 23 or 25 hours."""
        zone = _zone(self.zone)
        local = moment.astimezone(zone)
        begun = local.time() >= self.cut_off
        if not begun and local.fold:
            # The clock was put back: the day began if it showed the cut-off the first time round.
            begun = datetime.combine(local.date(), self.cut_off, zone).astimezone(UTC) <= moment
        return local.date() if begun else local.date() - timedelta(days=1)


@lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def rfc3339(moment: datetime) -> str:
    """UTC with microseconds and ``Z``, always of the same length, so that it sorts as text."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
