"""The three services of one data directory in one process, stepped in turn."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Final

from sqlalchemy import Connection

from services.audit.wiring import open_audit
from services.game import store as game_store
from services.game.core.state import GameState
from services.game.service import GameService
from services.game.wiring import DATABASE as GAME_DATABASE
from services.game.wiring import open_game
from services.runtime.bus.embedded import EmbeddedBus
from services.runtime.database import open_sqlite
from services.runtime.files import BUS_DATABASE
from services.runtime.ports import Clock, Ids, Rng
from services.runtime.settings import Settings
from services.runtime.writer import Writer
from services.wallet import store as wallet_store
from services.wallet.core.state import WalletState
from services.wallet.service import WalletService
from services.wallet.wiring import DATABASE as WALLET_DATABASE
from services.wallet.wiring import open_wallet

_AUDIT_EVERY_STEPS: Final = 8
"""Audit owes nobody an answer: it takes larger batches less often, which costs fewer commits."""

_IDLE_SECONDS: Final = 0.001
_STALLED_SECONDS: Final = 30


class Stalled(Exception):
    """Nothing moves any more and something is still waited for."""


def _reader_of(path: Path) -> Connection:
    return open_sqlite(path, writer=False).connect()


class Room:
    """Game, wallet and audit over ``data``. A context manager; leaving closes all of them.

    ``audit_here=False`` leaves audit to a process of its own (``sabot audit serve``).
    """

    def __init__(
        self,
        data: Path,
        settings: Settings,
        *,
        clock: Clock,
        ids: Ids,
        rng: Rng,
        audit_here: bool = True,
    ) -> None:
        data.mkdir(parents=True, exist_ok=True)
        self.data, self.settings = data, settings
        with ExitStack() as opened:  # if one of them cannot be opened, those before it are closed
            self.bus = opened.enter_context(closing(EmbeddedBus(data / BUS_DATABASE)))
            self.audit = (
                opened.enter_context(closing(open_audit(data, self.bus, settings, clock=clock, ids=ids)))
                if audit_here
                else None
            )
            self.wallet = opened.enter_context(
                closing(open_wallet(data, self.bus, settings, clock=clock, ids=ids))
            )
            self.game = opened.enter_context(
                closing(open_game(data, self.bus, settings, clock=clock, ids=ids, rng=rng))
            )
            # Readers see what is committed; each query runs in a transaction of its own.
            self.game_reader = opened.enter_context(_reader_of(data / GAME_DATABASE))
            self.wallet_reader = opened.enter_context(_reader_of(data / WALLET_DATABASE))
            self._opened = opened.pop_all()
        self._steps = 0
        self._idle_since: float | None = None
        self._reached: list[tuple[int, int, int]] = []

    def __enter__(self) -> Room:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    @property
    def game_state(self) -> GameState:
        """What game has in memory: for the driver in the same process, which must not change it."""
        assert isinstance(self.game.service, GameService)
        return self.game.service.state

    @property
    def wallet_state(self) -> WalletState:
        """What wallet has in memory."""
        assert isinstance(self.wallet.service, WalletService)
        return self.wallet.service.state

    def step(self) -> int:
        """One step of game and wallet, and of audit now and then. Returns how much was done."""
        done = self.game.step() + self.wallet.step()
        self._steps += 1
        if self.audit is not None and (not done or self._steps % _AUDIT_EVERY_STEPS == 0):
            done += self.audit.step()
        return done

    def wallet_accounts(self, references: Sequence[str]) -> dict[str, str]:
        """Opaque ids of the operator's accounts, by reference."""
        keys = [(self.settings.operator, reference) for reference in references]
        with self.wallet_reader.begin():
            found = wallet_store.find_references(self.wallet_reader, keys)
        return {reference: account for (_, reference), account in found.items()}

    def game_shoes(self, table: str) -> int:
        """How many shoes a table has had so far."""
        with self.game_reader.begin():
            return game_store.count_shoes(self.game_reader, self.settings.operator, table)

    def turn(self) -> None:
        """One step, for somebody who waits for something; with patience, for the bus may be away a while.

        Raises:
            Stalled: nothing has moved for half a minute.
        """
        self.step()
        # A command that is refused and asked again is no progress: what was written, published and read is.
        reached = [
            (writer.store.position, writer.relay.published, writer.inbox.unsaved_offsets)
            for writer in self._writers()
        ]
        if reached != self._reached:
            self._reached, self._idle_since = reached, None
        elif self._idle_since is None:
            self._idle_since = monotonic()
        elif monotonic() - self._idle_since > _STALLED_SECONDS:
            raise Stalled(f"nothing has moved for {_STALLED_SECONDS} seconds: {self._what_waits()}")
        else:
            sleep(_IDLE_SECONDS)

    def _what_waits(self) -> str:
        waiting = []
        for writer in self._writers():
            if writer.relay.backlog:
                waiting.append(
                    f"the bus does not take {writer.relay.backlog} events of {writer.service.name}"
                )
            waiting += [f"{writer.service.name} waits, {reason}" for reason in writer.inbox.held.values()]
        return "; ".join(waiting) or "no service has anything left to do"

    def _writers(self) -> list[Writer[Any]]:
        return [writer for writer in (self.game, self.wallet, self.audit) if writer is not None]

    def settle(self) -> None:
        """Go on until nothing is left to do: everything is published, paid, and seen by audit.

        Raises:
            Stalled: something cannot be published.
        """
        while self.step() or any(writer.relay.backlog for writer in self._writers()):
            self.turn()

    def result(self, answer: Future[Any]) -> Any:
        """Step until a command is answered.

        Raises:
            Refusal: the command was refused.
            Stalled: nothing moves and there is no answer.
        """
        while not answer.done():
            self.turn()
        return answer.result()
