"""The game core's whole surface: ``decide``, ``react``, ``keep``, ``evolve`` over a ``GameState``.

``decide`` says which events a command makes, or refuses it; ``react`` says which a seal of wallet's makes.
Both are pure and change nothing. ``keep`` takes in the secrets that an accepted command brought, before
its events are folded in by ``evolve``. The order for a shell is always: look up what ``needs`` names, then
what ``needs_houses`` does, decide, keep, evolve event by event; and when the batch is done, write
``state.changes`` and ``forget``.

A table's life: it opens under a house; shoes are committed and loaded, or appear with the first recorded
coup that names them; a coup opens, closes its betting, waits for its seal, is dealt and concluded in one
go, or is voided. A coup that has a result can still be corrected, or void. Which events these are is said in
``schemas.events.game``.
"""

from __future__ import annotations

from collections.abc import Sequence

from schemas.commands.game import (
    CloseBetting,
    CloseTable,
    CommitShoe,
    CorrectCoup,
    EndShoe,
    GameCommand,
    LeaveSeat,
    LoadShoe,
    OpenCoup,
    OpenTable,
    SetHouse,
    TakeSeat,
    VoidCoup,
    VoidOverdue,
)
from schemas.events.base import Payload
from schemas.events.game import CoupOpened, ShoeCommitted
from services.game.core.betting import close_betting, open_coup, void_coup, void_overdue
from services.game.core.correcting import correct_coup
from services.game.core.dealing import react
from services.game.core.evolve import evolve
from services.game.core.loading import commit_shoe, load_shoe, take_out
from services.game.core.opening import close_table, open_table, set_house
from services.game.core.seating import leave_seat, take_seat
from services.game.core.state import CoupKey, GameState, Needs, ShoeKey, needs, needs_houses

__all__ = ["GameState", "Needs", "decide", "evolve", "keep", "needs", "needs_houses", "react"]


def decide(state: GameState, command: GameCommand, seed: bytes = b"") -> list[Payload]:
    """The events that a command makes, in their order; none if what it asks for is so already.

    ``seed`` is a fresh secret of 32 bytes; only ``CommitShoe`` looks at it. Each event belongs to the
    stream of its operator and table: only ``VoidOverdue`` makes events of several.

    Raises:
        Refusal: the command cannot be carried out. The functions that are called here list the codes.
        ValueError: a ``CommitShoe`` came without a seed.
        KeyError: a key that ``needs`` or ``needs_houses`` names was not looked up.
    """
    match command:
        case OpenCoup() | CloseBetting() | VoidCoup() | CorrectCoup() | VoidOverdue():
            return _decide_coup(state, command)
        case CommitShoe():
            return commit_shoe(state, command, seed)
        case LoadShoe():
            return load_shoe(state, command)
        case EndShoe():
            return take_out(state, command)
        case OpenTable():
            return open_table(state, command)
        case SetHouse():
            return set_house(state, command)
        case TakeSeat():
            return take_seat(state, command)
        case LeaveSeat():
            return leave_seat(state, command)
        case CloseTable():
            return close_table(state, command)


def _decide_coup(
    state: GameState, command: OpenCoup | CloseBetting | VoidCoup | CorrectCoup | VoidOverdue
) -> list[Payload]:
    match command:
        case OpenCoup():
            return open_coup(state, command)
        case CloseBetting():
            return close_betting(state, command)
        case VoidCoup():
            return void_coup(state, command)
        case CorrectCoup():
            return correct_coup(state, command)
        case VoidOverdue():
            return void_overdue(state, command)


def keep(state: GameState, command: GameCommand, events: Sequence[Payload], seed: bytes = b"") -> None:
    """Take in the secret of an accepted command: its seed, or the recorded cards of its coup.

    ``events`` and ``seed`` are those of ``decide``. A command that changed nothing brought no secret.
    """
    for event in events:
        if isinstance(event, ShoeCommitted):
            shoe = ShoeKey(event.operator, event.table, event.shoe)
            state.undealt.seeds[shoe] = state.changes.seeds[shoe] = seed
        elif isinstance(event, CoupOpened) and isinstance(command, OpenCoup) and command.cards is not None:
            coup = CoupKey(event.operator, event.table, event.shoe, event.coup)
            state.undealt.cards[coup] = state.changes.cards[coup] = command.cards
