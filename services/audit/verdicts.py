"""Audit's recorded verdicts, held against those of a replay."""

from __future__ import annotations

from collections.abc import Iterator

from schemas.envelope import Recorded
from schemas.events.audit import CoupVerified, DiscrepancyFound
from services.audit.verification import fault

_Key = tuple[str, str, str, int, int]
"""A coup, and the version of its result."""


class Verdicts:
    """Holds recorded and replayed verdicts against each other; each waits only for its counterpart."""

    def __init__(self) -> None:
        self._ours: dict[_Key, CoupVerified] = {}
        self._recorded: dict[_Key, Recorded[CoupVerified]] = {}

    def come_to(self, verdict: CoupVerified, *, more: bool) -> Iterator[DiscrepancyFound]:
        """This replay verified a coup. ``more``: audit's stream goes on, and may say the same."""
        recorded = self._recorded.pop(_coup_key(verdict), None)
        if recorded is not None:
            yield from _unlike(recorded, verdict)
        elif more:
            self._ours[_coup_key(verdict)] = verdict

    def read(self, event: Recorded[CoupVerified]) -> Iterator[DiscrepancyFound]:
        """Audit had recorded a coup as verified."""
        ours = self._ours.pop(_coup_key(event.data), None)
        if ours is None:
            self._recorded[_coup_key(event.data)] = event
        else:
            yield from _unlike(event, ours)

    def forget(self, operator: str) -> None:
        """Audit has recorded nothing more of this operator: nothing is left to wait for."""
        for key in [key for key in self._ours if key[0] == operator]:
            del self._ours[key]

    def left(self) -> Iterator[DiscrepancyFound]:
        """What was recorded, and the replay did not come to."""
        for event in self._recorded.values():
            coup = event.data
            which = f"coup {coup.coup} of shoe {coup.shoe}"
            words = f"audit recorded {which} as verified, and its events do not say so"
            yield _about_verdict(event, words)


def _coup_key(verdict: CoupVerified) -> _Key:
    return verdict.operator, verdict.table, verdict.shoe, verdict.coup, verdict.version


def _unlike(event: Recorded[CoupVerified], ours: CoupVerified) -> Iterator[DiscrepancyFound]:
    if event.data == ours:
        return
    differing = [
        name for name in CoupVerified.model_fields if getattr(event.data, name) != getattr(ours, name)
    ]
    coup = event.data
    which = f"coup {coup.coup} of shoe {coup.shoe}"
    words = f"audit verified {which} with another {', '.join(differing)} than it has now"
    yield _about_verdict(event, words)


def _about_verdict(event: Recorded[CoupVerified], words: str) -> DiscrepancyFound:
    coup = event.data
    return fault(event.stream, "verdict", words, event.sequence).model_copy(
        update={"table": coup.table, "shoe": coup.shoe, "coup": coup.coup}
    )
