"""How often somebody may ask: a bucket of requests that fills steadily, for each key or person."""

from __future__ import annotations

from services.runtime.operator_entries import RateEntry

_BUCKETS_MAX = 10_000


class Limiter:
    """The buckets of everybody who asks."""

    def __init__(self) -> None:
        self._buckets: dict[str, tuple[float, float]] = {}
        """Requests left, and when that was so."""

    def wait(self, who: str, rate: RateEntry, now: float) -> float:
        """Take a request out of somebody's bucket: 0, or the seconds until there is one in it.

        ``now`` in seconds; a clock that is put back fills nothing.
        """
        left, before = self._buckets.get(who, (rate.burst, now))
        left = min(left + max(now - before, 0) * rate.requests_per_second, rate.burst)
        if left < 1:
            self._buckets[who] = left, now
            return (1 - left) / rate.requests_per_second
        if len(self._buckets) >= _BUCKETS_MAX and who not in self._buckets:
            # Those who asked longest ago have full buckets, or nearly so.
            for name in sorted(self._buckets, key=lambda each: self._buckets[each][1])[: _BUCKETS_MAX // 2]:
                del self._buckets[name]
        self._buckets[who] = left - 1, now
        return 0
