"""The sandbox's wallet at work: one event loop is its one writer, and each id is in one pair of hands."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final, Literal

from schemas.refusal import Refusal
from services.operator.core import Answered, Book, Movement
from services.operator.faults import checked
from services.operator.faulty import FaultyBook
from services.operator.records import Account, CoupKey, Draft, Key, Outcome
from services.operator.store import Store

_PATIENCE_SECONDS: Final = 0.5
"""So long a repeat waits for the first request with its id (W5)."""
_RACE_SECONDS: Final = 0.25


@dataclass(frozen=True, slots=True)
class Played:
    """What became of a batch."""

    answers: tuple[Answered, ...]
    failed: int | None
    """The index of the action for which nothing of it was done."""


class OperatorService:
    """An operator's wallet. Its methods run on one event loop."""

    def __init__(self, store: Store, *, needs_token: bool = False) -> None:
        """``needs_token``: whether a bet must name a session."""
        self.store = store
        self._needs_token = needs_token
        self.faults: frozenset[str] = frozenset()
        self.delay_ms = 900
        self._busy: dict[Key, asyncio.Event] = {}

    def switch(self, faults: Collection[str], delay_ms: int | None = None) -> None:
        """Have these faults from now on, and no others.

        Raises:
            UnknownFault: one is none.
        """
        self.faults = checked(faults)
        self.delay_ms = self.delay_ms if delay_ms is None else delay_ms

    def keep(self, account: Account) -> None:
        """Make or change a player."""
        draft = Draft(self.store)
        draft.accounts[account.name] = account
        self.store.write(draft)

    def account(self, name: str) -> Account:
        """The player of that name.

        Raises:
            Refusal: there is none.
        """
        account = self.store.account(name)
        if account is None:
            raise Refusal("PLAYER_UNKNOWN", "account", "no such player")
        return account

    async def play(self, account: str, commands: Sequence[Movement]) -> Played:
        """Carry out what is asked of one player: all of it, or nothing. One command is a batch of one.

        Raises:
            Refusal: ``IN_PROGRESS``: the first request with one of the ids is not done yet; ``READ_ONLY``.
        """
        if "read-only" in self.faults:
            raise Refusal("READ_ONLY", "", "nothing is taken for now; send the same again later")
        keys = {(account, command.tx) for command in commands}
        unseen = False
        if "races" in self.faults:
            unseen = all(self.store.transaction(key) is None for key in keys)
            await asyncio.sleep(_RACE_SECONDS)
        else:
            await self._wait_for(keys)
        done = asyncio.Event()
        self._busy.update(dict.fromkeys(keys, done))
        try:
            if "slow" in self.faults:
                await asyncio.sleep(self.delay_ms / 1000)
            return self._carry_out(account, commands, unseen=unseen)
        finally:
            for key in keys:
                self._busy.pop(key, None)
            done.set()

    def tell(self, coup: CoupKey, phase: str) -> None:
        """Hear how far a coup is."""
        draft = Draft(self.store)
        Book(draft).tell(coup, phase)
        self.store.write(draft)

    def status(
        self, account: str, tx: str
    ) -> tuple[Literal["unknown", "in_progress", "final"], Outcome | None]:
        """What became of a transaction (W40)."""
        known = self.store.transaction((account, tx))
        if "no-status" in self.faults:
            return "unknown", None
        if known is not None:
            return "final", known.outcome
        return ("in_progress" if (account, tx) in self._busy else "unknown"), None

    def _carry_out(self, account: str, commands: Sequence[Movement], *, unseen: bool) -> Played:
        draft = Draft(self.store)
        book = (
            FaultyBook(draft, self.faults, needs_token=self._needs_token, unseen=unseen)
            if self.faults
            else Book(draft, needs_token=self._needs_token)
        )
        answers, failed = book.play(account, commands)
        self.store.write(draft)
        if "balance-off-by-one" in self.faults:
            answers = [_a_unit_more(each) for each in answers]
        return Played(tuple(answers), failed)

    async def _wait_for(self, keys: Collection[Key]) -> None:
        until = monotonic() + _PATIENCE_SECONDS
        while True:
            first = next((self._busy[key] for key in keys if key in self._busy), None)
            if first is None:
                return
            try:
                await asyncio.wait_for(first.wait(), until - monotonic())
            except TimeoutError:
                words = "the first request with this id is not done yet; send the same again"
                raise Refusal("IN_PROGRESS", "tx", words) from None


def _a_unit_more(answered: Answered) -> Answered:
    balance = answered.outcome.balance
    if balance is None:
        return answered
    return replace(answered, outcome=replace(answered.outcome, balance=balance + 1))
