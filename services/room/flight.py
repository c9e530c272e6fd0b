"""One coup on its way: opened, bet on, closed, dealt, paid.

Advanced without waiting for anybody, so that many fly at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from enum import StrEnum
from typing import Any, Final

from schemas.commands.game import (
    CloseBetting,
    GameCommand,
    OpenCoup,
)
from schemas.commands.wallet import (
    PlaceBet,
)
from schemas.refusal import Refusal
from services.room.room import Room
from services.wallet.core.state import CoupKey

_TRY_AGAIN: Final = frozenset({"COUP_UNKNOWN", "TABLE_BUSY", "TEMPORARY"})


_LOOK_EVERY_TURNS: Final = 16


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
    Where wallet reads at once what game says, the bets of a new coup are asked together with its opening:
    wallet reads of it before it looks at them, or answers ``COUP_UNKNOWN`` and they are asked again; if game
    refuses the opening they come to nothing. Otherwise, and where wallet knows the coup already, they wait
    until game has answered and wallet has read of the opening. Every command may be repeated without harm, so
    a flight that a crash cut off is simply flown again.
    """

    def __init__(
        self, room: Room, opening: OpenCoup, bets: Sequence[PlaceBet], before: Sequence[GameCommand] = ()
    ) -> None:
        self.opening, self.bets = opening, bets
        self.stage = Stage.OPENING
        self.refusal: Refusal | None = None
        """Why the coup could not be opened; nothing of it was written then."""
        self._room = room
        self._commands: list[GameCommand] = [*before, opening]
        self._asked: list[Future[Any]] = [room.game.submit(command) for command in self._commands]
        self._key = CoupKey(opening.operator, opening.table, opening.shoe, opening.coup)
        self._answers: list[Future[Any]] = []
        self._bets_asked = False
        self._looks = 0
        if room.wallet_reads_at_once and not room.in_play(self._key):
            self._ask_bets(bets)

    @property
    def finished(self) -> bool:
        """Nothing more will happen."""
        return self.stage in (Stage.DONE, Stage.REFUSED)

    def advance(self) -> None:
        """Take the next step if the last one was answered."""
        if self.stage is Stage.OPENING and _all_done(self._asked):
            self._opened()
        if self.stage is Stage.BETTING:
            self._bet()
        if self.stage is Stage.CLOSING and _all_done(self._asked):
            self._asked[0].result()
            self.stage = Stage.PLAYING
        if self.stage is Stage.PLAYING and self._room.is_paid(self._key):
            self.stage = Stage.DONE

    def _opened(self) -> None:
        refusals = [refusal for answer in self._asked if (refusal := refusal_of(answer)) is not None]
        if not refusals:
            self.stage = Stage.BETTING
        elif all(refusal.code in _TRY_AGAIN for refusal in refusals):
            self._asked = [self._room.game.submit(command) for command in self._commands]
        else:
            self.refusal, self.stage = refusals[0], Stage.REFUSED

    def _was_paid(self) -> bool:
        """Whether an earlier flight of this coup, that was cut off, came to its end after all.

        That is a question to the database, and seldom so: it is asked now and then.
        """
        self._looks += 1
        return self._looks % _LOOK_EVERY_TURNS == 0 and self._room.is_paid(self._key)

    def _ask_bets(self, bets: Sequence[PlaceBet]) -> None:
        self._bets_asked = True
        self._answers = [self._room.wallet.submit(bet) for bet in bets]

    def _bet(self) -> None:
        if not self._bets_asked and (self._room.in_play(self._key) or self._was_paid()):
            self._ask_bets(self.bets)
        if not self._bets_asked or not _all_done(self._answers):
            return
        again = []
        for bet, answer in zip(self.bets, self._answers, strict=True):
            refusal = refusal_of(answer)
            if refusal is None:
                continue
            if refusal.code not in _TRY_AGAIN:
                raise refusal
            again.append(bet)  # wallet has not read of the opening yet, or was too busy
        if again:
            self.bets = again
            self._ask_bets(again)
            return
        operator, table, shoe, coup = self._key
        closing = CloseBetting(operator=operator, table=table, shoe=shoe, coup=coup)
        self._asked = [self._room.game.submit(closing)]
        self.stage = Stage.CLOSING


def _all_done(answers: Sequence[Future[Any]]) -> bool:
    return all(answer.done() for answer in answers)


def refusal_of(answer: Future[Any]) -> Refusal | None:
    """Why a command was refused, if it was. Any other failure is raised."""
    error = answer.exception()
    if error is None or isinstance(error, Refusal):
        return error
    raise error
