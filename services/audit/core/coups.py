"""The coups of which wallet speaks: found, or missed because they are over, or waited for."""

from __future__ import annotations

from typing import Any, Final

from schemas.envelope import Recorded
from schemas.events.base import EventRef
from schemas.events.wallet import (
    BetAccepted,
    BetRefused,
    BetRolledBack,
    BetsSealed,
    CoupReturned,
    CoupSettled,
    DebitRequested,
    SettlementCorrected,
)
from services.audit.core.ledger import Ledger
from services.audit.core.room import Room
from services.audit.core.state import Coup

SAID_ONE_BY_ONE: Final = 10
"""Findings of one kind in one event that are said singly; then comes how many more there are."""

CoupEvent = (
    BetAccepted
    | BetRefused
    | BetRolledBack
    | BetsSealed
    | CoupReturned
    | CoupSettled
    | DebitRequested
    | SettlementCorrected
)


class OfCoups:
    """What those have in common who check wallet's events of coups."""

    def __init__(self, room: Room, ledger: Ledger) -> None:
        self._room, self._ledger = room, ledger

    def _find(self, event: Recorded[Any], data: CoupEvent, what: str) -> Coup | None:
        """The coup that an event of wallet is about; one that is over is a finding, one unknown is early."""
        key = (data.operator, data.table, data.shoe, data.coup)
        coup = self._room.coups.get(key)
        if coup is None:
            if self._is_over(data):
                self._late(event, data, what)
                return None
            coup = self._room.coups[key] = Coup(*key, wallet=event.envelope.stream)
        elif coup.paid:
            self._late(event, data, what)
            return None
        if coup.wallet != event.envelope.stream:
            self._check_stream(event, coup)
        return coup

    def _check_stream(self, event: Recorded[Any], coup: Coup) -> None:
        if not coup.wallet:
            coup.wallet = event.stream
        elif coup.wallet != event.stream:
            words = f"the money of coup {coup.number} is in {event.stream}, and it began in {coup.wallet}"
            self._say("shard", event, words, coup, recorded=event.stream, expected=coup.wallet)

    def _has_passed(self, result: EventRef) -> bool:
        """Whether game's stream was followed beyond this place: then its coup is known, or it is over."""
        stream = self._room.streams.get(result.stream)
        return stream is not None and stream.sequence >= result.sequence

    def _is_over(self, data: CoupEvent) -> bool:
        """Whether game opened this coup and we have let go of it, or its shoe has ended."""
        table = self._room.tables.get(f"game/{data.operator}.{data.table}")
        if table is None:
            return False
        shoe = table.shoes.get(data.shoe)
        if shoe is None:
            return data.shoe in table.ended_shoes
        return shoe.was_opened(data.coup)

    def _late(self, event: Recorded[Any], data: CoupEvent, what: str) -> None:
        words = f"{what} coup {data.coup} of shoe {data.shoe}, which was over"
        self._room.report("late", event, words)

    def _say(
        self,
        check: str,
        event: Recorded[Any],
        words: str,
        coup: Coup | None,
        *,
        recorded: object = "",
        expected: object = "",
    ) -> None:
        self._room.report(check, event, words, recorded=recorded, expected=expected, coup=coup)

    def _say_all(
        self, check: str, event: Recorded[Any], sentences: list[str], coup: Coup, *, blame: bool = True
    ) -> None:
        """``blame``: the verdict on the coup's first result depends on it."""
        blamed = coup if blame else None
        for words in sentences[:SAID_ONE_BY_ONE]:
            self._say(check, event, words, blamed)
        if len(sentences) > SAID_ONE_BY_ONE:
            more = len(sentences) - SAID_ONE_BY_ONE
            self._say(check, event, f"and {more} more bets of coup {coup.number} likewise", blamed)
