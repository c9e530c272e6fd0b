"""Decisions about a shoe: commit, load, end.

A virtual shoe is committed (its secret seed is fixed and its hash published), then takes entropy and is
loaded, shuffled and burned, then dealt from, then ends and reveals its seed. Every commitment ends in a
revealed seed, also one that was never loaded: a house that could drop a shoe in silence could choose its
shoes. Several may be committed at once, so that the next seed is fixed before this one's entropy is known,
but one is in play at a time. The name of a shoe is used once at a table, for ever.
"""

from __future__ import annotations

from typing import Final, Literal

from schemas.commands.game import (
    CommitShoe,
    EndShoe,
    LoadShoe,
)
from schemas.events.base import Payload
from schemas.events.game import CardBurned, EntropyTaken, ShoeCommitted, ShoeEnded, ShoeLoaded
from schemas.house import Burn
from schemas.refusal import Refusal
from services.game.core.fair import SCHEME, commitment, context, shoe_order
from services.game.core.seating import first_dealer
from services.game.core.shoe import burned
from services.game.core.state import GameState, Shoe, Table

COMMITTED_MAX: Final = 16
"""Virtual shoes of one table that may be committed and not ended at once."""

EndReason = Literal["cut_card", "every_round", "table_closed", "replaced"]


def commit_shoe(state: GameState, command: CommitShoe, seed: bytes) -> list[Payload]:
    """Publish the commitment to ``seed``; nothing if the shoe is committed and waits for its entropy.

    Raises:
        Refusal: TABLE_UNKNOWN, TABLE_CLOSED, TABLE_RECORDED, SHOE_KNOWN, SHOES_WAITING.
    """
    table = state.table(command.operator, command.table)
    _must_be_virtual(table)
    known = state.find_shoe(table, command.shoe)
    if known is not None:
        if not known.loaded and not known.ended:
            return []
        raise Refusal("SHOE_KNOWN", "shoe", f"table {table.name} has had a shoe {known.name}: use a new name")
    if len(table.live) >= COMMITTED_MAX:
        raise Refusal(
            "SHOES_WAITING", "shoe", f"{COMMITTED_MAX} shoes are committed already: load or end one of them"
        )
    decks = table.house.shoe.decks
    return [
        ShoeCommitted(
            operator=table.operator,
            table=table.name,
            shoe=command.shoe,
            scheme=SCHEME,
            decks=decks,
            commitment=commitment(seed, context(table.name, command.shoe, decks)),
        )
    ]


def _must_be_virtual(table: Table) -> None:
    if table.source != "virtual":
        raise Refusal(
            "TABLE_RECORDED", "shoe", f"the cards of table {table.name} are recorded: it has no shoe of ours"
        )


def load_shoe(state: GameState, command: LoadShoe) -> list[Payload]:
    """Take the entropy, shuffle, burn; nothing if the shoe in play was loaded with this same entropy.

    Raises:
        Refusal: TABLE_UNKNOWN, TABLE_CLOSED, TABLE_RECORDED, SHOE_UNKNOWN, SHOE_ENDED, SHOE_KNOWN (loaded
            with other entropy), SHOE_IN_PLAY (another one is).
    """
    table = state.table(command.operator, command.table)
    _must_be_virtual(table)
    shoe = state.find_shoe(table, command.shoe)
    if shoe is None:
        raise Refusal("SHOE_UNKNOWN", "shoe", f"shoe {command.shoe} is not committed: commit it first")
    if shoe.loaded and shoe.entropy != command.entropy:
        raise Refusal("SHOE_KNOWN", "entropy", f"shoe {shoe.name} was loaded with other entropy")
    if shoe.ended:
        raise _ended(shoe)
    if shoe.loaded:
        return []
    if table.shoe is not None:
        raise Refusal("SHOE_IN_PLAY", "shoe", f"shoe {table.shoe} is still in play: end it first")
    return [
        EntropyTaken(
            operator=table.operator, table=table.name, shoe=shoe.name, kind=1, entropy=command.entropy
        ),
        ShoeLoaded(
            operator=table.operator,
            table=table.name,
            shoe=shoe.name,
            decks=shoe.decks,
            source="virtual",
            cut_cards_from_end=table.house.shoe.cut_cards_from_end,
        ),
        *(
            CardBurned(operator=table.operator, table=table.name, shoe=shoe.name, index=index, card=card)
            for index, card in enumerate(_burned(state, table, shoe, command.entropy), start=1)
        ),
        *(first_dealer(table, shoe.name, table.taken) if table.players_deal else ()),
    ]


def _burned(state: GameState, table: Table, shoe: Shoe, entropy: str) -> tuple[str | None, ...]:
    if table.house.shoe.burn is Burn.NONE:
        return ()
    seed = state.undealt.seeds[table.shoe_key(shoe.name)]
    return burned(shoe_order(seed, table.name, shoe.name, shoe.decks, entropy), table.house.shoe.burn)


def order_of(state: GameState, table: Table, shoe: Shoe) -> tuple[str, ...]:
    """The cards of a loaded virtual shoe in the order of dealing, worked out once."""
    key = table.shoe_key(shoe.name)
    order = state.undealt.orders.get(key)
    if order is None:
        assert shoe.entropy is not None, f"shoe {shoe.name} has no entropy yet"
        order = shoe_order(state.undealt.seeds[key], table.name, shoe.name, shoe.decks, shoe.entropy)
        state.undealt.orders[key] = order
    return order


def take_out(state: GameState, command: EndShoe) -> list[Payload]:
    """End a shoe between two coups; nothing if it has ended.

    Raises:
        Refusal: TABLE_UNKNOWN, TABLE_CLOSED, SHOE_UNKNOWN, TABLE_BUSY.
    """
    table = state.table(command.operator, command.table)
    shoe = state.find_shoe(table, command.shoe)
    if shoe is None:
        raise Refusal("SHOE_UNKNOWN", "shoe", f"table {table.name} has no shoe {command.shoe}")
    if shoe.ended:
        return []
    if table.coup is not None and table.coup.shoe == shoe.name:
        raise Refusal(
            "TABLE_BUSY", "shoe", f"coup {table.coup.number} of shoe {shoe.name} is still open: end it first"
        )
    return [end_shoe(state, table, shoe, command.reason)]


def end_shoe(
    state: GameState, table: Table, shoe: Shoe, reason: EndReason, cards_out: int | None = None
) -> ShoeEnded:
    """The end of a shoe, with the seed of a virtual one. ``cards_out``: where this batch drew some more."""
    seed = state.undealt.seeds[table.shoe_key(shoe.name)].hex() if shoe.source == "virtual" else None
    return ShoeEnded(
        operator=table.operator,
        table=table.name,
        shoe=shoe.name,
        reason=reason,
        cards_out=shoe.cards_out if cards_out is None else cards_out,
        seed=seed,
    )


def _ended(shoe: Shoe) -> Refusal:
    return Refusal("SHOE_ENDED", "shoe", f"shoe {shoe.name} has ended: no further card comes from it")


def must_not_be_ended(shoe: Shoe) -> None:
    """Refuse with SHOE_ENDED where no card can come from the shoe any more."""
    if shoe.ended:
        raise _ended(shoe)
