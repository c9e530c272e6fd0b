"""Decisions about a coup that has a result: it had another one, or does not count at all.

Somebody misread a card, or said the wrong result. What left the shoe has left it, and who dealt on from there
has: a correction changes neither the shoe nor the seats, only what the coup is paid by. It is worked out by
the house that the coup was played by, and needs two people, as all does that moves money a second time.

Results are counted. Each names the event whose place it takes, so that there is one in force at any time, and
whoever pays knows which one he has paid. A void is the last of them.
"""

from __future__ import annotations

from schemas.cards import Card
from schemas.commands.game import (
    CorrectCoup,
    VoidCoup,
)
from schemas.events.base import EventRef, Payload, game_stream
from schemas.events.game import CoupCorrected, CoupVoided, DealtCard
from schemas.house import House, Shuffle
from schemas.refusal import Refusal
from services.game.core.shoe import impossible, with_cards, without_cards
from services.game.core.state import EndedCoup, GameState, HouseKey, Result, Table
from services.game.core.tableau import CardsIllegal, CoupResult, check, places
from services.game.core.tiers import spots_of, tiers_of


def correct_coup(state: GameState, command: CorrectCoup) -> list[Payload]:
    """The coup had another result; nothing if this very correction is in force.

    Raises:
        Refusal: TABLE_UNKNOWN, COUP_UNKNOWN; COUP_NOT_CONCLUDED: it is still open; COUP_VOID; FOUR_EYES;
            CORRECTION_SUPERSEDED: it was made, and another one took its place; CARDS_ILLEGAL,
            CARDS_IMPOSSIBLE; CARDS_GIVEN: a virtual shoe says itself what came out; NOTHING_TO_CORRECT.
    """
    table = state.table_of_old(command.operator, command.table)
    ended = _over(state, table, command)
    _must_be_two(command.initiator, command.approver)
    if ended.status == "voided":
        raise Refusal("COUP_VOID", "coup", f"coup {command.coup} is void: there is no result to correct")
    if _is_made(ended, command):
        return []
    house = state.known_houses[HouseKey(table.operator, table.name, ended.house_number)]
    result = _worked_out(house, command.cards)
    _must_have_come_out(state, table, house, ended, command)
    if command.cards == ended.in_force.cards:
        words = f"coup {command.coup} was worked out from these very cards: {ended.outcome} is in force"
        raise Refusal("NOTHING_TO_CORRECT", "cards", words)
    return [
        CoupCorrected(
            operator=table.operator,
            table=table.name,
            shoe=command.shoe,
            coup=command.coup,
            version=ended.in_force.version + 1,
            corrects=_ref(table, ended.in_force),
            outcome=result.outcome,
            player_total=result.player_total,
            banker_total=result.banker_total,
            natural=result.natural,
            hands=tuple(
                DealtCard(hand=hand, position=position, card=card)
                for hand, position, card in places(result, house.deal.order)
            ),
            tiers=tiers_of(result, spots_of(house)),
            reason=command.reason,
            initiator=command.initiator,
            approver=command.approver,
        )
    ]


def void_concluded(state: GameState, table: Table, command: VoidCoup) -> list[Payload]:
    """The coup that has a result does not count; nothing if it is void already.

    Raises:
        Refusal: COUP_UNKNOWN, FOUR_EYES.
    """
    ended = _over(state, table, command)
    if ended.status == "voided":
        return []
    for field, who in (("initiator", command.initiator), ("approver", command.approver)):
        if who is None:
            words = f"coup {command.coup} has a result: say who asks for its void, and who else approves it"
            raise Refusal("FOUR_EYES", field, words)
    _must_be_two(command.initiator, command.approver)
    return [
        CoupVoided(
            operator=table.operator,
            table=table.name,
            shoe=command.shoe,
            coup=command.coup,
            reason=command.reason,
            approver=command.approver,
            corrects=_ref(table, ended.in_force),
            version=ended.in_force.version + 1,
            initiator=command.initiator,
        )
    ]


def _over(state: GameState, table: Table, command: CorrectCoup | VoidCoup) -> EndedCoup:
    coup = table.coup
    if coup is not None and (coup.shoe, coup.number) == (command.shoe, command.coup):
        words = f"coup {command.coup} of shoe {command.shoe} is still open: it has no result yet"
        raise Refusal("COUP_NOT_CONCLUDED", "coup", words)
    ended = state.find_ended(table, command.shoe, command.coup)
    if ended is None:
        words = f"table {table.name} has no coup {command.coup} of shoe {command.shoe}"
        raise Refusal("COUP_UNKNOWN", "coup", words)
    return ended


def _must_be_two(initiator: str | None, approver: str | None) -> None:
    if initiator == approver:
        raise Refusal("FOUR_EYES", "approver", f"{approver} asked for it: somebody else must approve it")


def _is_made(ended: EndedCoup, command: CorrectCoup) -> bool:
    """Whether this very correction is in force.

    One that came late, after the next, must not bring its result back; nor must somebody who means to do so
    believe that he has.

    Raises:
        Refusal: CORRECTION_SUPERSEDED, it was made and is not in force.
    """
    asked = (command.cards, command.reason, command.initiator, command.approver)
    for result in reversed(ended.results):
        if asked == (result.cards, result.reason, result.initiator, result.approver):
            if result is ended.in_force:
                return True
            words = (
                f"this was made as version {result.version} of coup {command.coup}, and version "
                f"{ended.in_force.version} has replaced it: to have its result again, give another reason"
            )
            raise Refusal("CORRECTION_SUPERSEDED", "reason", words)
    return False


def _worked_out(house: House, cards: tuple[Card, ...]) -> CoupResult:
    try:
        return check(cards, house.deal.order)
    except CardsIllegal as reason:
        raise Refusal("CARDS_ILLEGAL", "cards", str(reason)) from None


def _must_have_come_out(
    state: GameState, table: Table, house: House, ended: EndedCoup, command: CorrectCoup
) -> None:
    """These cards can have come out of the shoe, in the place of those that were recorded.

    The order of a virtual shoe is fixed by its commitment, and what came out of it is shown by its seed:
    nobody can have misread it.
    """
    if table.source == "virtual":
        if command.cards != ended.cards:
            words = f"table {table.name} deals from its own shoe, and coup {command.coup} got"
            raise Refusal("CARDS_GIVEN", "cards", f"{words} {' '.join(ended.cards)} from it")
        return
    shoe = state.find_shoe(table, command.shoe)
    assert shoe is not None, f"coup {command.coup} was dealt from shoe {command.shoe}, which is not there"
    others = without_cards(shoe.copies, ended.cards) if house.shoe.shuffle is Shuffle.PER_SHOE else {}
    words_or_none = impossible(with_cards(others, command.cards), shoe.decks, command.cards)
    if words_or_none is not None:
        raise Refusal("CARDS_IMPOSSIBLE", "cards", words_or_none)


def _ref(table: Table, result: Result) -> EventRef:
    stream = game_stream(table.operator, table.name)
    return EventRef(stream=stream, sequence=result.sequence, hash=result.hash)
