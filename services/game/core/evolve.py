"""What each of game's own events changes in the state. Nothing is decided and nothing is refused here.

The same fold runs when an event is written and when the state is made again from the beginning. It looks
at secrets in two places only: where a coup was opened on recorded cards that no event has shown yet, and
where a shoe or a coup ends and its secret is one no longer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Literal

from schemas.envelope import Recorded
from schemas.events.base import CoupPayload, Payload, ShoePayload, TablePayload
from schemas.events.game import (
    BettingClosed,
    CardBurned,
    CardDealt,
    CoupConcluded,
    CoupCorrected,
    CoupOpened,
    CoupVoided,
    EntropyTaken,
    HouseSet,
    SeatLeft,
    SeatTaken,
    ShoeCommitted,
    ShoeEnded,
    ShoeLoaded,
    ShoePassed,
    TableClosed,
    TableOpened,
)
from schemas.house import Shuffle
from services.game.core.shoe import with_cards
from services.game.core.state import Coup, EndedCoup, GameState, Result, Shoe, Table, TableKey


def evolve(state: GameState, event: Recorded[Any]) -> None:
    """Fold an event of game into the state. An event that changes nothing here is passed over."""
    fold = _FOLDS.get(type(event.data))
    if fold is not None:
        fold(state, event)


def _changed(state: GameState, data: TablePayload) -> Table:
    """The event's table, noted as changed."""
    table = state.tables[TableKey(data.operator, data.table)]
    state.changes.tables[table.key] = table
    return table


def _live_shoe(state: GameState, data: ShoePayload) -> tuple[Table, Shoe]:
    """The event's table and shoe, both noted as changed."""
    table = _changed(state, data)
    shoe = table.live[data.shoe]
    state.changes.shoes[table.shoe_key(shoe.name)] = shoe
    return table, shoe


def _open_coup(state: GameState, data: CoupPayload) -> tuple[Table, Coup]:
    """The event's table, noted as changed, and the coup that is open there."""
    table = _changed(state, data)
    coup = table.coup
    assert coup is not None, f"{data.type_name()}: no coup is open at table {data.table}"
    assert (coup.shoe, coup.number) == (data.shoe, data.coup), f"{data.type_name()}: another coup is open"
    return table, coup


# ---------------------------------------------------------------------------------------- table and seats


def _table_opened(state: GameState, event: Recorded[TableOpened]) -> None:
    data = event.data
    state.opening[TableKey(data.operator, data.table)] = data


def _house_set(state: GameState, event: Recorded[HouseSet]) -> None:
    data = event.data
    opened = state.opening.pop(TableKey(data.operator, data.table), None)
    if opened is not None:
        state.tables[TableKey(data.operator, data.table)] = Table(
            operator=data.operator,
            name=data.table,
            shard=opened.shard,
            seats=opened.seats,
            source=opened.source,
            house=data.house,
            house_number=data.house_number,
            opened_with=data.house,
        )
    table = _changed(state, data)
    table.house, table.house_number = data.house, data.house_number
    if not table.players_deal:
        table.dealer = None


def _table_closed(state: GameState, event: Recorded[TableClosed]) -> None:
    table = _changed(state, event.data)
    table.closed = True
    _retire(state, table, keep=None)


def _seat_taken(state: GameState, event: Recorded[SeatTaken]) -> None:
    table = _changed(state, event.data)
    table.taken = tuple(sorted({*table.taken, event.data.seat}))


def _seat_left(state: GameState, event: Recorded[SeatLeft]) -> None:
    table = _changed(state, event.data)
    table.taken = tuple(seat for seat in table.taken if seat != event.data.seat)
    if table.dealer == event.data.seat and table.source == "virtual":
        table.dealer = None


def _shoe_passed(state: GameState, event: Recorded[ShoePassed]) -> None:
    _changed(state, event.data).dealer = event.data.to_seat


# ------------------------------------------------------------------------------------------------- shoes


def _shoe_committed(state: GameState, event: Recorded[ShoeCommitted]) -> None:
    data = event.data
    _bring_in(state, _changed(state, data), Shoe(data.shoe, "virtual", data.decks))


def _entropy_taken(state: GameState, event: Recorded[EntropyTaken]) -> None:
    _, shoe = _live_shoe(state, event.data)
    shoe.entropy = event.data.entropy


def _shoe_loaded(state: GameState, event: Recorded[ShoeLoaded]) -> None:
    data = event.data
    table = _changed(state, data)
    if data.source == "recorded":
        _retire(state, table, keep=None)
        _bring_in(state, table, Shoe(data.shoe, "recorded", data.decks))
    _, shoe = _live_shoe(state, data)
    shoe.loaded = True
    shoe.cut_cards_from_end = data.cut_cards_from_end
    table.shoe = data.shoe


def _card_burned(state: GameState, event: Recorded[CardBurned]) -> None:
    _, shoe = _live_shoe(state, event.data)
    shoe.cards_out = event.data.index


def _shoe_ended(state: GameState, event: Recorded[ShoeEnded]) -> None:
    data = event.data
    table = _changed(state, data)
    shoe = state.find_shoe(table, data.shoe)
    assert shoe is not None, f"shoe {data.shoe} ends and was never there"
    key = table.shoe_key(shoe.name)
    shoe.ended = True
    state.known_shoes[key] = state.changes.shoes[key] = shoe
    table.live.pop(shoe.name, None)
    if table.shoe == shoe.name:
        table.shoe = None
    if shoe.source == "virtual":
        # Revealed by this very event. In a rebuild the secret is gone already, and that is no change.
        state.undealt.seeds.pop(key, None)
        state.undealt.orders.pop(key, None)
        state.changes.seeds[key] = None


def _bring_in(state: GameState, table: Table, shoe: Shoe) -> None:
    table.live[shoe.name] = shoe
    state.changes.shoes[table.shoe_key(shoe.name)] = shoe


def _retire(state: GameState, table: Table, keep: str | None) -> None:
    """A recorded table's other shoes leave memory. They did not end: the shell looks them up again."""
    for name in [name for name in table.live if name != keep]:
        state.known_shoes[table.shoe_key(name)] = table.live.pop(name)


# ------------------------------------------------------------------------------------------------- coups


def _coup_opened(state: GameState, event: Recorded[CoupOpened]) -> None:
    data = event.data
    table = _changed(state, data)
    if table.source == "recorded":
        back = state.find_shoe(table, data.shoe)
        assert back is not None, f"shoe {data.shoe} was never loaded"
        _retire(state, table, keep=data.shoe)
        table.live[data.shoe] = back
        table.shoe = data.shoe
    _, shoe = _live_shoe(state, data)
    shoe.last_coup = max(shoe.last_coup, data.coup)
    assert table.coup is None, f"coup {table.coup} is still open at table {data.table}"
    table.coup = Coup(data.shoe, data.coup, data.dealer_seat)


def _betting_closed(state: GameState, event: Recorded[BettingClosed]) -> None:
    _, coup = _open_coup(state, event.data)
    coup.closed_at = event.envelope.time


def _card_dealt(state: GameState, event: Recorded[CardDealt]) -> None:
    data = event.data
    _, coup = _open_coup(state, data)
    _, shoe = _live_shoe(state, data)
    assert data.index == shoe.cards_out + 1, f"card {data.index} follows card {shoe.cards_out} of the shoe"
    shoe.cards_out = data.index
    coup.dealt += (data.card,)


def _coup_concluded(state: GameState, event: Recorded[CoupConcluded]) -> None:
    data = event.data
    table, coup = _open_coup(state, data)
    if table.source == "recorded":
        # Shown by now, and so a secret no longer.
        key = table.coup_key(coup.shoe, coup.number)
        state.undealt.cards.pop(key, None)
        state.changes.cards[key] = None
    result = Result(
        data.version,
        event.sequence,
        event.hash,
        coup.dealt,
        data.outcome,
        data.player_total,
        data.banker_total,
    )
    ended = EndedCoup("concluded", coup.dealt, coup.dealer_seat, table.house_number, (result,))
    _over(state, table, coup, ended)


def _coup_corrected(state: GameState, event: Recorded[CoupCorrected]) -> None:
    data = event.data
    result = Result(
        data.version,
        event.sequence,
        event.hash,
        tuple(each.card for each in data.hands),
        data.outcome,
        data.player_total,
        data.banker_total,
        data.reason,
        data.initiator,
        data.approver,
    )
    _said_anew(state, data, "concluded", result)


def _coup_voided(state: GameState, event: Recorded[CoupVoided]) -> None:
    data = event.data
    if data.corrects is not None:
        assert data.version is not None, f"coup {data.coup} had a result, and its void has no version"
        result = Result(
            data.version,
            event.sequence,
            event.hash,
            reason=data.reason,
            initiator=data.initiator,
            approver=data.approver,
        )
        _said_anew(state, data, "voided", result)
        return
    table, coup = _open_coup(state, data)
    # The secret leaves memory, and not the store: no event will ever say what this coup took from the shoe.
    recorded = state.undealt.cards.pop(table.coup_key(coup.shoe, coup.number), ())
    result = Result(1, event.sequence, event.hash)
    _over(state, table, coup, EndedCoup("voided", recorded, coup.dealer_seat, table.house_number, (result,)))


def _said_anew(
    state: GameState, data: CoupPayload, status: Literal["concluded", "voided"], result: Result
) -> None:
    """Something else is in force for a coup that is over. Table and shoe stay as they are."""
    table = state.tables[TableKey(data.operator, data.table)]
    ended = state.find_ended(table, data.shoe, data.coup)
    assert ended is not None, f"{data.type_name()}: coup {data.coup} of shoe {data.shoe} is not over"
    assert result.version == ended.in_force.version + 1, f"version {result.version} of coup {data.coup}"
    key = table.coup_key(data.shoe, data.coup)
    ended = replace(ended, status=status, results=(*ended.results, result))
    state.known_coups[key] = state.changes.coups[key] = ended


def _over(state: GameState, table: Table, coup: Coup, ended: EndedCoup) -> None:
    """The coup leaves the table. What a recorded one took from its shoe stays taken, void or not."""
    key = table.coup_key(coup.shoe, coup.number)
    state.known_coups[key] = state.changes.coups[key] = ended
    table.coup = None
    if table.source == "recorded" and table.house.shoe.shuffle is Shuffle.PER_SHOE:
        shoe = table.live[coup.shoe]
        shoe.copies = with_cards(shoe.copies, ended.cards)
        state.changes.shoes[table.shoe_key(coup.shoe)] = shoe


_FOLDS: Final[dict[type[Payload], Callable[[GameState, Any], None]]] = {
    TableOpened: _table_opened,
    TableClosed: _table_closed,
    HouseSet: _house_set,
    SeatTaken: _seat_taken,
    SeatLeft: _seat_left,
    ShoePassed: _shoe_passed,
    ShoeCommitted: _shoe_committed,
    EntropyTaken: _entropy_taken,
    ShoeLoaded: _shoe_loaded,
    CardBurned: _card_burned,
    ShoeEnded: _shoe_ended,
    CoupOpened: _coup_opened,
    BettingClosed: _betting_closed,
    CardDealt: _card_dealt,
    CoupConcluded: _coup_concluded,
    CoupCorrected: _coup_corrected,
    CoupVoided: _coup_voided,
}
