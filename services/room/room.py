"""What somebody who drives a room needs of it, wherever its services run."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection

from schemas.commands.game import (
    GameCommand,
)
from schemas.commands.wallet import (
    WalletCommand,
)
from services.game.core.state import Table
from services.runtime.settings import Settings
from services.wallet.core.state import CoupKey

C_contra = TypeVar("C_contra", contravariant=True)


class Stalled(Exception):
    """Nothing moves any more and something is still waited for."""


class Asks(Protocol[C_contra]):
    """A service that takes commands."""

    def submit(self, command: C_contra) -> Future[Any]:
        """Ask for something. The answer comes when it is committed.

        What is asked of one table, or for one account, is carried out in the order in which it was asked.
        The future raises ``Refusal`` where it is refused: ``TEMPORARY`` where the same may be asked again.
        """


class Room(AbstractContextManager["Room"], Protocol):
    """The three services of one operator."""

    settings: Settings
    wallet_reads_at_once: bool
    """Whether what game answers is known to wallet one turn later. Otherwise it has to be waited for."""

    @property
    def game(self) -> Asks[GameCommand]:
        """Takes game's commands."""

    @property
    def wallet(self) -> Asks[WalletCommand]:
        """Takes wallet's commands."""

    game_reader: Connection
    """Game's tables, as committed. Each query begins a transaction of its own."""
    wallet_reader: Connection
    """Wallet's."""

    def table(self, name: str) -> Table | None:
        """The operator's table of this name."""

    def tables(self) -> Sequence[Table]:
        """All of the operator's tables."""

    def shoes(self, table: str) -> int:
        """How many shoes a table has had so far."""

    def in_play(self, coup: CoupKey) -> bool:
        """Whether wallet knows of the coup, and has not paid it."""

    def is_paid(self, coup: CoupKey) -> bool:
        """Whether wallet has paid the coup, or returned its stakes."""

    def cash(self, accounts: Sequence[str], currency: str) -> dict[str, int]:
        """Minor units that each account, by the operator's reference, has in cash."""

    def turn(self) -> None:
        """Let the services go on for a moment.

        Raises:
            Stalled: nothing has moved for long.
        """

    def settle(self) -> None:
        """Let them go on until nothing is left to do: all is published, paid, and seen by audit.

        Raises:
            Stalled: something does not get done.
        """

    def result(self, answer: Future[Any]) -> Any:
        """Take turns until a command is answered.

        Raises:
            Refusal: it was refused.
            Stalled: nothing moves and there is no answer.
        """
