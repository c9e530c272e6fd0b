"""Decisions about a coup up to its seal: open it, close its betting, void it.

What becomes of a coup that has its result already is in ``correcting``.

One coup is open at a table at a time, so that the cards of a recorded coup are as good as reserved while
it is: no second one of the same shoe can be checked against the same copies. A command that asks for what
is so already says nothing and is not refused, so that a file of recorded coups can be fed in twice. Asking
for the same coup with *other* cards is refused, and names what differs.
"""

from __future__ import annotations

from schemas.cards import Card
from schemas.commands.game import (
    CloseBetting,
    OpenCoup,
    VoidCoup,
    VoidOverdue,
)
from schemas.events.base import Payload
from schemas.events.game import BettingClosed, CoupOpened, CoupVoided, ShoeLoaded, ShoePassed
from schemas.house import Shuffle
from schemas.refusal import Refusal
from services.game.core.correcting import void_concluded
from services.game.core.loading import end_shoe, must_not_be_ended
from services.game.core.opening import must_be_between_coups
from services.game.core.shoe import impossible, with_cards
from services.game.core.state import Coup, GameState, Shoe, Table
from services.game.core.tableau import CardsIllegal, check
from services.game.core.tiers import spots_of

SEAL_TIMEOUT = "seal_timeout"
"""Why a coup is voided that waited too long for its seal."""


def open_coup(state: GameState, command: OpenCoup) -> list[Payload]:
    """Open betting; nothing if the very same coup is open or over.

    Raises:
        Refusal: see ``_open_recorded`` and ``_open_virtual``; further TABLE_UNKNOWN, TABLE_CLOSED, and
            TABLE_BUSY while another coup is open.
    """
    table = state.table(command.operator, command.table)
    if table.source == "recorded":
        return _open_recorded(state, table, command)
    return _open_virtual(state, table, command)


def _is_open(table: Table, command: OpenCoup | CloseBetting | VoidCoup) -> bool:
    coup = table.coup
    return coup is not None and (coup.shoe, coup.number) == (command.shoe, command.coup)


def _opened(table: Table, command: OpenCoup, dealer_seat: int | None) -> CoupOpened:
    return CoupOpened(
        operator=table.operator,
        table=table.name,
        shoe=command.shoe,
        coup=command.coup,
        house_number=table.house_number,
        spots=spots_of(table.house),
        dealer_seat=dealer_seat,
        dealer=command.dealer,
        video=command.video,
    )


# ----------------------------------------------------------------------------------------- virtual shoes


def _open_virtual(state: GameState, table: Table, command: OpenCoup) -> list[Payload]:
    """Raises Refusal: CARDS_GIVEN, DEALER_SEAT, COUP_KNOWN, SHOE_UNKNOWN, SHOE_ENDED, SHOE_NOT_LOADED."""
    if command.cards is not None:
        raise Refusal(
            "CARDS_GIVEN", "cards", f"table {table.name} deals from its own shoe: nobody else names its cards"
        )
    if _is_open(table, command):
        return []
    shoe = state.find_shoe(table, command.shoe)
    if shoe is None:
        raise Refusal(
            "SHOE_UNKNOWN", "shoe", f"shoe {command.shoe} is not committed: commit and load it first"
        )
    if command.coup <= shoe.last_coup:
        raise Refusal(
            "COUP_KNOWN", "coup", f"shoe {shoe.name} has had coup {shoe.last_coup}: the next number is higher"
        )
    must_not_be_ended(shoe)
    if not shoe.loaded:
        raise Refusal(
            "SHOE_NOT_LOADED", "shoe", f"shoe {shoe.name} is committed and not loaded: load it first"
        )
    must_be_between_coups(table, "coup")
    if table.players_deal and table.dealer is None:
        raise Refusal("DEALER_SEAT", "dealer_seat", "players deal here and nobody sits at the table")
    dealer_seat = table.dealer if table.players_deal else None
    if command.dealer_seat is not None and command.dealer_seat != dealer_seat:
        deals = f"seat {dealer_seat} deals" if dealer_seat is not None else "a croupier deals"
        raise Refusal("DEALER_SEAT", "dealer_seat", f"{deals}, not seat {command.dealer_seat}")
    return [_opened(table, command, dealer_seat)]


# ---------------------------------------------------------------------------------------- recorded cards


def _open_recorded(state: GameState, table: Table, command: OpenCoup) -> list[Payload]:
    """Raises Refusal: CARDS_MISSING, COUP_KNOWN, DEALER_SEAT, SHOE_ENDED, CARDS_ILLEGAL, CARDS_IMPOSSIBLE."""
    cards = command.cards
    if cards is None:
        raise Refusal(
            "CARDS_MISSING", "cards", f"the cards of table {table.name} are recorded: send the coup's"
        )
    if _is_repeat(state, table, command, cards):
        return []
    must_be_between_coups(table, "coup")
    shoe = state.find_shoe(table, command.shoe)
    if shoe is not None:
        must_not_be_ended(shoe)
    _must_be_a_coup(table, cards)
    _must_be_able_to_deal(table, command.dealer_seat)
    _must_be_in_the_shoe(table, shoe, cards)
    events: list[Payload] = []
    if shoe is None:
        events.append(
            ShoeLoaded(
                operator=table.operator,
                table=table.name,
                shoe=command.shoe,
                decks=table.house.shoe.decks,
                source="recorded",
                cut_cards_from_end=None,
            )
        )
    if command.dealer_seat is not None and command.dealer_seat != table.dealer:
        events.append(
            ShoePassed(
                operator=table.operator,
                table=table.name,
                shoe=command.shoe,
                from_seat=table.dealer,
                to_seat=command.dealer_seat,
                reason="recorded",
            )
        )
    return [*events, _opened(table, command, command.dealer_seat)]


def _is_repeat(state: GameState, table: Table, command: OpenCoup, cards: tuple[Card, ...]) -> bool:
    """Whether this coup is known, open or over, with the same content.

    Raises:
        Refusal: COUP_KNOWN, with other content.
    """
    if _is_open(table, command) and table.coup is not None:
        known = state.undealt.cards[table.coup_key(command.shoe, command.coup)]
        dealer_seat = table.coup.dealer_seat
    else:
        ended = state.find_ended(table, command.shoe, command.coup)
        if ended is None:
            return False
        known, dealer_seat = ended.cards, ended.dealer_seat
    for field, differs, words in (
        ("cards", known != cards, "with other cards"),
        ("dealer_seat", dealer_seat != command.dealer_seat, "dealt from another seat"),
    ):
        if differs:
            raise Refusal(
                "COUP_KNOWN", field, f"coup {command.coup} of shoe {command.shoe} is known, {words}"
            )
    return True


def _must_be_a_coup(table: Table, cards: tuple[Card, ...]) -> None:
    try:
        check(cards, table.house.deal.order)
    except CardsIllegal as reason:
        raise Refusal("CARDS_ILLEGAL", "cards", str(reason)) from None


def _must_be_able_to_deal(table: Table, seat: int | None) -> None:
    if not table.players_deal:
        if seat is not None:
            raise Refusal(
                "DEALER_SEAT", "dealer_seat", "a croupier deals at this house: leave dealer_seat out"
            )
    elif seat is None:
        raise Refusal("DEALER_SEAT", "dealer_seat", "players deal at this house: say which seat dealt")
    elif seat > table.seats:
        raise Refusal(
            "DEALER_SEAT",
            "dealer_seat",
            f"table {table.name} has {table.seats} seats, and none is number {seat}",
        )


def _must_be_in_the_shoe(table: Table, shoe: Shoe | None, cards: tuple[Card, ...]) -> None:
    """Whole decks hold each card so often. Where every round is shuffled, a coup is counted by itself."""
    decks = table.house.shoe.decks
    if shoe is not None and shoe.decks != decks:
        raise Refusal(
            "SHOE_DECKS",
            "shoe",
            f"shoe {shoe.name} was loaded with {shoe.decks} decks, and the house now plays with {decks}",
        )
    by_shoe = shoe is not None and table.house.shoe.shuffle is Shuffle.PER_SHOE
    words = impossible(with_cards(shoe.copies if shoe and by_shoe else {}, cards), decks, cards)
    if words is not None:
        raise Refusal("CARDS_IMPOSSIBLE", "cards", words)


# ------------------------------------------------------------------------------------------ close and void


def close_betting(state: GameState, command: CloseBetting) -> list[Payload]:
    """No more bets, and the seal is awaited; nothing if betting is closed already, or the coup is over.

    Raises:
        Refusal: TABLE_UNKNOWN, TABLE_CLOSED, COUP_UNKNOWN.
    """
    table = state.table(command.operator, command.table)
    coup = table.coup
    if coup is None or not _is_open(table, command):
        _must_be_over(state, table, command)
        return []
    if coup.closed_at is not None:
        return []
    return [BettingClosed(operator=table.operator, table=table.name, shoe=coup.shoe, coup=coup.number)]


def _must_be_over(state: GameState, table: Table, command: CloseBetting) -> None:
    if state.find_ended(table, command.shoe, command.coup) is None:
        raise Refusal(
            "COUP_UNKNOWN", "coup", f"table {table.name} has no coup {command.coup} of shoe {command.shoe}"
        )


def void_coup(state: GameState, command: VoidCoup) -> list[Payload]:
    """The coup does not count; nothing if it is void already. One that has a result needs two people for it.

    Raises:
        Refusal: TABLE_UNKNOWN, COUP_UNKNOWN, FOUR_EYES.
    """
    table = state.table_of_old(command.operator, command.table)
    coup = table.coup
    if coup is not None and _is_open(table, command):
        return _voided(state, table, coup, command.reason, command.approver)
    return void_concluded(state, table, command)


def void_overdue(state: GameState, command: VoidOverdue) -> list[Payload]:
    """Void every coup that closed its betting before a moment and still has no seal, at any virtual table.

    A recorded coup was dealt long ago: it waits for its seal however long wallet is away.
    """
    return [
        event
        for table in state.tables.values()
        if table.source == "virtual"
        and (coup := table.coup) is not None
        and coup.closed_at is not None
        and coup.closed_at < command.closed_before
        for event in _voided(state, table, coup, SEAL_TIMEOUT, None)
    ]


def _voided(state: GameState, table: Table, coup: Coup, reason: str, approver: str | None) -> list[Payload]:
    events: list[Payload] = [
        CoupVoided(
            operator=table.operator,
            table=table.name,
            shoe=coup.shoe,
            coup=coup.number,
            reason=reason,
            approver=approver,
        )
    ]
    if table.source == "virtual" and table.house.shoe.shuffle is Shuffle.EVERY_ROUND:
        events.append(end_shoe(state, table, table.live[coup.shoe], "every_round"))
    return events
