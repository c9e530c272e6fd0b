"""One coup on its way: opened, bet on, closed, dealt, paid. Advanced without waiting, so that many fly at once."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from enum import StrEnum
from typing import Any, Final

from schemas.commands import CloseBetting, OpenCoup, PlaceBet, TableCommand
from schemas.refusal import Refusal
from services.room.embedded import Room

_TRY_AGAIN: Final = frozenset({"COUP_UNKNOWN", "TEMPORARY"})


class Stage(StrEnum):
    """Where a coup is."""

    OPENING = "opening"
    BETTING = "betting"
    CLOSING = "closing"
    PLAYING = "playing"
    """Wallet seals, game deals, wallet pays."""
    DONE = "done"
    REFUSED = "refused"


class CoupFlight:
    """Takes one coup through the three services.

    ``before`` are commands that make the table ready; they are asked in order, ahead of the opening.
    Every command may be repeated without harm, so a flight that a crash cut off is simply flown again.
    """

    def __init__(
        self, room: Room, opening: OpenCoup, bets: Sequence[PlaceBet], before: Sequence[TableCommand] = ()
    ) -> None:
        self.opening, self.bets = opening, bets
        self.stage = Stage.OPENING
        self.refusal: Refusal | None = None
        """Why the coup could not be opened; nothing of it was written then."""
        self._room = room
        self._asked: list[Future[Any]] = [room.game.submit(command) for command in (*before, opening)]
        self._key = (opening.operator, opening.table, opening.shoe, opening.coup)

    @property
    def finished(self) -> bool:
        """Nothing more will happen."""
        return self.stage in (Stage.DONE, Stage.REFUSED)

    def advance(self) -> None:
        """Take the next step if the last one was answered."""
        if self.stage is Stage.PLAYING:
            if self._key not in self._room.wallet.service.state.coups:
                self.stage = Stage.DONE
            return
        if self.finished or not all(answer.done() for answer in self._asked):
            return
        match self.stage:
            case Stage.OPENING:
                self._opened()
            case Stage.BETTING:
                self._bet()
            case Stage.CLOSING:
                self._closed()

    def _opened(self) -> None:
        refusals = [error for answer in self._asked if (error := answer.exception()) is not None]
        if refusals:
            _raise_unless_refusal(refusals[0])
            self.refusal, self.stage = refusals[0], Stage.REFUSED  # type: ignore[assignment]
            return
        self._asked = [self._room.wallet.submit(bet) for bet in self.bets]
        self.stage = Stage.BETTING
        if not self._asked:
            self._bet()

    def _bet(self) -> None:
        again = []
        for bet, answer in zip(self.bets, self._asked, strict=True):
            error = answer.exception()
            if error is None:
                continue
            if not (isinstance(error, Refusal) and error.code in _TRY_AGAIN):
                raise error
            again.append(bet)  # wallet has not read of the opening yet, or was too busy
        if again:
            self.bets = again
            self._asked = [self._room.wallet.submit(bet) for bet in again]
            return
        operator, table, shoe, coup = self._key
        closing = CloseBetting(operator=operator, table=table, shoe=shoe, coup=coup)
        self._asked = [self._room.game.submit(closing)]
        self.stage = Stage.CLOSING

    def _closed(self) -> None:
        self._asked[0].result()
        self.stage = Stage.PLAYING


def _raise_unless_refusal(error: BaseException) -> None:
    if not isinstance(error, Refusal):
        raise error
