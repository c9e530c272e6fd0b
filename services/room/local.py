"""The three services of one installation in this process, stepped in turn."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Final

from sqlalchemy import Engine

from services.audit.wiring import open_audit
from services.game import store as game_store
from services.game.core.state import GameState, Table, TableKey
from services.game.service import GameService
from services.game.wiring import open_game
from services.room.readers import find_accounts, is_paid
from services.room.room import Stalled
from services.runtime.installation import Installation
from services.runtime.ports import Clock, Ids, Rng
from services.runtime.settings import Settings
from services.runtime.writer import Writer
from services.wallet.core.state import CoupKey, WalletState
from services.wallet.service import WalletService
from services.wallet.wiring import open_wallet

_AUDIT_EVERY_STEPS: Final = 8
"""Audit owes nobody an answer: it takes larger batches less often, which costs fewer commits."""

_IDLE_SECONDS: Final = 0.001
_STALLED_SECONDS: Final = 30


class LocalRoom:
    """Game, wallet and audit. A context manager; leaving closes all of them.

    ``audit_here=False`` leaves audit to a process of its own (``sabot audit serve``).
    """

    def __init__(
        self,
        installation: Installation,
        settings: Settings,
        *,
        clock: Clock,
        ids: Ids,
        rng: Rng,
        audit_here: bool = True,
    ) -> None:
        self.installation, self.settings = installation, settings
        self.wallet_reads_at_once = installation.kafka is None
        with ExitStack() as opened:  # if one of them cannot be opened, those before it are closed
            self.bus = opened.enter_context(closing(installation.open_bus()))
            self.audit = (
                opened.enter_context(
                    closing(open_audit(installation, self.bus, settings, clock=clock, ids=ids))
                )
                if audit_here
                else None
            )
            self.wallet = opened.enter_context(
                closing(open_wallet(installation, self.bus, settings, clock=clock, ids=ids))
            )
            self.game = opened.enter_context(
                closing(open_game(installation, self.bus, settings, clock=clock, ids=ids, rng=rng))
            )
            # Readers see what is committed; each query runs in a transaction of its own.
            self.game_reader, self.wallet_reader = (
                opened.enter_context(_reader(opened, installation.open_reader(name)).connect())
                for name in ("game", "wallet")
            )
            self._opened = opened.pop_all()
        self._steps = 0
        self._idle_since: float | None = None
        self._reached: list[tuple[int, int, int]] = []

    def __enter__(self) -> LocalRoom:
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

    def table(self, name: str) -> Table | None:
        return self.game_state.tables.get(TableKey(self.settings.operator, name))

    def tables(self) -> list[Table]:
        return [each for each in self.game_state.tables.values() if each.operator == self.settings.operator]

    def shoes(self, table: str) -> int:
        with self.game_reader.begin():
            return game_store.count_shoes(self.game_reader, self.settings.operator, table)

    def in_play(self, coup: CoupKey) -> bool:
        return coup in self.wallet_state.coups

    def is_paid(self, coup: CoupKey) -> bool:
        return not self.in_play(coup) and is_paid(self.wallet_reader, coup)

    def cash(self, accounts: Sequence[str], currency: str) -> dict[str, int]:
        known = find_accounts(self.wallet_reader, self.settings.operator, accounts)
        ledger = self.wallet_state.ledger
        return {
            reference: ledger.cash(self.settings.operator, account, currency)
            for reference, account in known.items()
        }

    def step(self) -> int:
        """One step of game and wallet, and of audit now and then. Returns how much was done."""
        done = self.game.step() + self.wallet.step()
        self._steps += 1
        if self.audit is not None and (not done or self._steps % _AUDIT_EVERY_STEPS == 0):
            done += self.audit.step()
        return done

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
                words = f"the bus does not take {writer.relay.backlog} events of {writer.service.name}"
                waiting.append(f"{words} ({writer.bus_fault})" if writer.bus_fault is not None else words)
            waiting += [f"{writer.service.name} waits, {reason}" for reason in writer.inbox.held.values()]
        return "; ".join(waiting) or "no service has anything left to do"

    def _writers(self) -> list[Writer[Any]]:
        return [writer for writer in (self.game, self.wallet, self.audit) if writer is not None]

    def settle(self) -> None:
        """Go on until nothing is left to do: everything is published, paid, and seen by audit.

        Raises:
            Stalled: something cannot be published, or does not come back.
        """
        while self.step() or not all(map(self._is_done, self._writers())):
            self.turn()

    def _is_done(self, writer: Writer[Any]) -> bool:
        """Whether all that it has to say is published, and it has read all that the others say."""
        if writer.relay.backlog:
            return False
        return all(
            writer.inbox.reached(stream) >= sequence or stream in writer.inbox.held
            for other in self._writers()
            if f"{other.service.name}.events" in writer.service.consumes
            for stream, sequence in other.store.ends()
        )

    def result(self, answer: Future[Any]) -> Any:
        """Step until a command is answered.

        Raises:
            Refusal: the command was refused.
            Stalled: nothing moves and there is no answer.
        """
        while not answer.done():
            self.turn()
        return answer.result()


def _reader(opened: ExitStack, engine: Engine) -> Engine:
    opened.callback(engine.dispose)
    return engine
