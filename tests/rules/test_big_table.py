"""The Lithuanian big table: who has the shoe, and who looks at Player's cards."""

import pytest

from schemas.commands.game import (
    LeaveSeat,
    SetHouse,
    TakeSeat,
)
from schemas.events.game import CardDealt, CardsToSqueeze, CoupConcluded, CoupOpened, ShoePassed
from schemas.events.wallet import LargestPlayerBet
from services.game.core.seating import next_seat
from tests.rules.room import AT, HOUSES, Room, of_type
from tests.rules.test_table_life import refused


def room_with(*seats: int, shoe: str = "shoe-1", entropy: str = "lucky") -> Room:
    room = Room()
    room.open_table("lt")
    room.sit(*seats)
    room.load(shoe, entropy)
    return room


def dealer_of(room: Room) -> int | None:
    (table,) = room.state.tables.values()
    return table.dealer


def largest(*seats: int, currency: str = "EUR") -> LargestPlayerBet:
    return LargestPlayerBet(currency=currency, exponent=2, stake=1000, seats=seats)


# ---------------------------------------------------------------------------------------- the first dealer


def test_the_lowest_taken_seat_deals_first():
    room = room_with(9, 4, 12)
    assert of_type(room.events, ShoePassed) == [
        ShoePassed(**AT, shoe="shoe-1", from_seat=None, to_seat=4, reason="first_dealer")
    ]
    assert of_type(room.open(1), CoupOpened)[0].dealer_seat == 4


def test_nobody_deals_at_an_empty_table_and_the_first_to_sit_does():
    room = room_with()
    assert of_type(room.events, ShoePassed) == []
    with refused("DEALER_SEAT", "dealer_seat"):
        room.open(1)
    _, passed = room.do(TakeSeat(**AT, seat=6))
    assert (passed.to_seat, passed.reason) == (6, "first_dealer")
    assert len(room.do(TakeSeat(**AT, seat=2))) == 1, "the second to sit does not take the shoe away"
    assert of_type(room.open(1), CoupOpened)[0].dealer_seat == 6


def test_who_is_said_to_deal_must_be_who_does():
    room = room_with(4)
    with refused("DEALER_SEAT", "dealer_seat"):
        room.open(1, dealer_seat=5)
    assert of_type(room.open(1, dealer_seat=4), CoupOpened)


def test_banker_gets_the_first_two_cards():
    dealt = of_type(room_with(4).play(1), CardDealt)
    assert [card.hand for card in dealt[:4]] == ["banker", "banker", "player", "player"]


# ----------------------------------------------------------------------------------------- the shoe passes


def test_the_shoe_passes_on_a_player_win_alone():
    room = room_with(2, 5, 11)
    dealer, seen = 2, set()
    following = {2: 5, 5: 11, 11: 2}
    for coup in range(1, 60):
        events = room.play(coup)
        assert of_type(events, CoupOpened)[0].dealer_seat == dealer
        outcome = of_type(events, CoupConcluded)[0].outcome
        passed = of_type(events, ShoePassed)
        if outcome == "player":
            assert [(p.from_seat, p.to_seat, p.reason) for p in passed] == [
                (dealer, following[dealer], "player_win")
            ]
            dealer = following[dealer]
        else:
            assert passed == []
        seen.add(outcome)
    assert seen == {"player", "banker", "tie"}


def test_a_player_alone_keeps_the_shoe():
    room = room_with(7)
    outcomes = set()
    for coup in range(1, 30):
        events = room.play(coup)
        assert of_type(events, ShoePassed) == []
        outcomes.add(of_type(events, CoupConcluded)[0].outcome)
    assert "player" in outcomes


def test_a_dealer_who_leaves_passes_the_shoe_on():
    room = room_with(2, 5, 11)
    _, passed = room.do(LeaveSeat(**AT, seat=2))
    assert (passed.from_seat, passed.to_seat, passed.reason) == (2, 5, "dealer_left")
    assert len(room.do(LeaveSeat(**AT, seat=11))) == 1, "who does not deal leaves without it"
    room.do(LeaveSeat(**AT, seat=5))
    assert dealer_of(room) is None
    with refused("DEALER_SEAT", "dealer_seat"):
        room.open(1)


def test_a_dealer_who_leaves_in_the_middle_of_a_coup_passes_it_on_once():
    for entropy in (f"entropy-{number}" for number in range(100)):
        room = room_with(2, 5, 11, entropy=entropy)
        room.open(1)
        room.do(LeaveSeat(**AT, seat=2))
        room.close(1)
        events = room.seal(1)
        assert dealer_of(room) == 5
        assert of_type(events, ShoePassed) == []
        if of_type(events, CoupConcluded)[0].outcome == "player":
            return
    pytest.fail("Player never won")


def test_the_shoe_stays_with_its_dealer_from_one_shoe_to_the_next():
    room = room_with(2, 5, 11)
    coup = 0
    while room.table.shoe is not None:
        coup += 1
        room.play(coup)
    dealer = dealer_of(room)
    room.load("shoe-2")
    assert dealer_of(room) == dealer
    assert of_type(room.open(1, shoe="shoe-2"), CoupOpened)[0].dealer_seat == dealer


def test_a_house_whose_croupier_deals_takes_the_shoe_back():
    lithuanian = HOUSES["lt"]
    by_croupier = lithuanian.model_copy(
        update={
            "version": 2,
            "deal": lithuanian.deal.model_copy(update={"dealt_by": "house", "shoe_passes_on": "never"}),
        }
    )
    room = room_with(4, 8)
    room.do(SetHouse(**AT, house=by_croupier))
    assert of_type(room.play(1), CoupOpened)[0].dealer_seat is None
    _, passed = room.do(SetHouse(**AT, house=lithuanian))
    assert (passed.to_seat, passed.reason) == (4, "first_dealer")


@pytest.mark.parametrize(
    ("taken", "seat", "following"),
    [
        ((1, 5, 9), 5, 9),
        ((1, 5, 9), 9, 1),
        ((1, 5, 9), 3, 5),
        ((1, 5, 9), 12, 1),
        ((5,), 5, 5),
        ((), 5, None),
    ],
)
def test_the_next_seat_goes_up_and_round(taken, seat, following):
    assert next_seat(taken, seat) == following


# --------------------------------------------------------------------------------------------- the squeeze


@pytest.mark.parametrize(
    ("bets", "seat"),
    [
        ([largest(7)], 7),
        ([largest(3, 8)], 8),  # seat 4 deals: the shoe reaches 8 before it comes round to 3
        ([largest(1, 3)], 1),
        ([largest(4, 3)], 3),  # the dealer's own seat comes last
        ([largest(4)], 4),
        ([], None),
        ([largest(7), largest(7, currency="USD")], None),
    ],
)
def test_the_largest_player_bet_looks_at_the_cards(bets, seat):
    room = room_with(4, 7, 8)
    room.open(1)
    room.close(1)
    events = room.seal(1, *bets)
    assert isinstance(events[4], CardsToSqueeze), "after the first four cards, before any other"
    assert events[4].seat == seat
    assert len(of_type(events, CardsToSqueeze)) == 1


@pytest.mark.parametrize("house", ["nl", "fr", "dk", "de"])
def test_nobody_squeezes_at_the_other_houses(house):
    room = Room()
    room.open_table(house)
    room.load()
    room.open(1)
    room.close(1)
    assert of_type(room.seal(1, largest(3)), CardsToSqueeze) == []
