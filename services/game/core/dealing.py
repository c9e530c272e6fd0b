"""What game says when the bets of a coup are sealed: cards, outcome, and what follows from them.

No card before the seal: this is the only place where a card is dealt, it is reached by wallet's
``BetsSealed`` alone, and every card names that event. The whole coup is then dealt at once. A seal that is
not the one awaited (from another stream than the table's shard, for another coup, or after a void) says
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schemas.cards import Card
from schemas.envelope import Recorded
from schemas.events.base import EventRef, Payload, wallet_stream
from schemas.events.game import CardDealt, CardsToSqueeze, CoupConcluded, ShoeEnded, ShoePassed
from schemas.events.wallet import BetsSealed
from schemas.house import Shuffle
from services.game.core.loading import end_shoe, order_of
from services.game.core.seating import next_seat
from services.game.core.shoe import cut_card_is_out
from services.game.core.state import Coup, GameState, Shoe, Table, TableKey
from services.game.core.tableau import COUP_CARDS_MAX, CoupResult, places, play
from services.game.core.tiers import spots_of, tiers_of


def react(state: GameState, event: Recorded[Any]) -> list[Payload]:
    """The coup that this seal lets out of the shoe; nothing for any other event."""
    seal = event.data
    if not isinstance(seal, BetsSealed):
        return []
    table = state.tables.get(TableKey(seal.operator, seal.table))
    if table is None or event.stream != wallet_stream(table.shard):
        return []
    coup = table.coup
    if coup is None or coup.closed_at is None or (coup.shoe, coup.number) != (seal.shoe, seal.coup):
        return []
    shoe = table.live[coup.shoe]
    result = play(_cards(state, table, coup, shoe), table.house.deal.order)
    by = EventRef(stream=event.stream, sequence=event.sequence, hash=event.hash)
    dealt: list[Payload] = _dealt(table, coup, shoe, result, by)
    if table.house.deal.squeeze == "largest_player_bet":
        dealt.insert(4, _squeeze(table, coup, seal))
    return [
        *dealt,
        _concluded(table, coup, result),
        *_passed(table, coup, result),
        *_ended(state, table, shoe, result),
    ]


def _cards(state: GameState, table: Table, coup: Coup, shoe: Shoe) -> Sequence[Card]:
    """The cards that are next: of the virtual shoe as many as a coup may need, of a record just its own."""
    if table.source == "recorded":
        return state.undealt.cards[table.coup_key(coup.shoe, coup.number)]
    next_cards = order_of(state, table, shoe)[shoe.cards_out : shoe.cards_out + COUP_CARDS_MAX]
    assert len(next_cards) == COUP_CARDS_MAX, f"shoe {shoe.name} is past its cut card and cannot feed a coup"
    return next_cards


def _dealt(table: Table, coup: Coup, shoe: Shoe, result: CoupResult, seal: EventRef) -> list[Payload]:
    return [
        CardDealt(
            operator=table.operator,
            table=table.name,
            shoe=coup.shoe,
            coup=coup.number,
            seal=seal,
            index=index,
            hand=hand,
            position=position,
            card=card,
        )
        for index, (hand, position, card) in enumerate(
            places(result, table.house.deal.order), start=shoe.cards_out + 1
        )
    ]


def _squeeze(table: Table, coup: Coup, seal: BetsSealed) -> CardsToSqueeze:
    """To the largest Player bettor; between equals to the seat that the shoe would reach first.

    Amounts in different currencies have no order, and there may be no Player bet from a seat at all: then
    a croupier turns the cards.
    """
    seat = None
    if len(seal.largest_player) == 1:
        seat = next_seat(seal.largest_player[0].seats, coup.dealer_seat or 0)
    return CardsToSqueeze(
        operator=table.operator, table=table.name, shoe=coup.shoe, coup=coup.number, seat=seat
    )


def _concluded(table: Table, coup: Coup, result: CoupResult) -> CoupConcluded:
    return CoupConcluded(
        operator=table.operator,
        table=table.name,
        shoe=coup.shoe,
        coup=coup.number,
        version=1,
        outcome=result.outcome,
        player_total=result.player_total,
        banker_total=result.banker_total,
        natural=result.natural,
        cards=result.used,
        tiers=tiers_of(result, spots_of(table.house)),
    )


def _passed(table: Table, coup: Coup, result: CoupResult) -> list[ShoePassed]:
    """The shoe leaves its dealer when Player wins, unless somebody else has it by now."""
    if table.house.deal.shoe_passes_on != "player_win" or result.outcome != "player":
        return []
    if table.source == "recorded" or coup.dealer_seat is None:
        return []
    heir = next_seat(table.taken, coup.dealer_seat)
    if heir is None or heir == table.dealer:
        return []
    return [
        ShoePassed(
            operator=table.operator,
            table=table.name,
            shoe=coup.shoe,
            from_seat=table.dealer,
            to_seat=heir,
            reason="player_win",
        )
    ]


def _ended(state: GameState, table: Table, shoe: Shoe, result: CoupResult) -> list[ShoeEnded]:
    """A virtual shoe ends with the coup in which its cut card came out, or with every coup."""
    if table.source == "recorded":
        return []
    cards_out = shoe.cards_out + result.used
    if table.house.shoe.shuffle is Shuffle.EVERY_ROUND:
        return [end_shoe(state, table, shoe, "every_round", cards_out)]
    cut = shoe.cut_cards_from_end
    if cut is not None and cut_card_is_out(shoe.decks, cut, cards_out):
        return [end_shoe(state, table, shoe, "cut_card", cards_out)]
    return []
