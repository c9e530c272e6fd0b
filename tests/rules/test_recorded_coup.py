"""Coups from recorded cards: what was dealt elsewhere, checked against house and shoe before it counts."""

import pytest

from schemas.commands.game import (
    CloseTable,
    EndShoe,
    SetHouse,
    VoidCoup,
    VoidOverdue,
)
from schemas.events.game import (
    CardDealt,
    CoupConcluded,
    CoupOpened,
    CoupVoided,
    ShoeEnded,
    ShoeLoaded,
    ShoePassed,
)
from schemas.refusal import Refusal
from tests.rules.room import AT, HOUSES, Room, cards, of_type
from tests.rules.test_table_life import refused

NATURAL = ("9S", "8H", "KS", "KH")
FIVE = ("9S", "2H", "7D", "3C", "2S")  # case 16: Player stands on 6, the fifth card is Banker's
SIX = ("AS", "2H", "3D", "KC", "4S", "5H")


@pytest.fixture
def room():
    room = Room()
    room.open_table("nl", "recorded")
    return room


def test_the_first_coup_brings_the_shoe_with_it(room):
    loaded, opened = room.open(17, NATURAL)
    assert loaded == ShoeLoaded(**AT, shoe="shoe-1", decks=8, source="recorded", cut_cards_from_end=None)
    assert (opened.coup, opened.dealer_seat) == (17, None)
    assert "9S" not in room.events[-1].body.decode(), "the cards are a secret until the seal"
    room.close(17)
    *dealt, concluded = room.seal(17)
    assert [(card.hand, card.position, card.card, card.index) for card in dealt] == [
        ("player", 1, "9S", 1),
        ("banker", 1, "8H", 2),
        ("player", 2, "KS", 3),
        ("banker", 2, "KH", 4),
    ]
    assert (concluded.outcome, concluded.natural, concluded.cards) == ("player", True, 4)


def test_case_16_whose_is_the_fifth_card(room):
    dealt = of_type(room.play(1, FIVE), CardDealt)
    assert [(card.hand, card.position) for card in dealt][4] == ("banker", 3)


def test_a_recorded_coup_waits_for_its_seal_however_long(room):
    room.open(1, NATURAL)
    room.close(1)
    assert room.do(VoidOverdue(closed_before=room.clock(room.now + 86_400))) == []
    assert of_type(room.seal(1), CoupConcluded)


def test_numbers_may_have_gaps_and_come_in_any_order(room):
    for number in (40, 7, 1000, 8):
        assert of_type(room.play(number, NATURAL), CoupConcluded)
    assert len(of_type(room.events, ShoeLoaded)) == 1


def test_an_earlier_shoe_may_come_back(room):
    room.play(1, NATURAL, shoe="A")
    room.play(1, NATURAL, shoe="B")
    events = room.play(2, SIX, shoe="A")
    assert of_type(events, ShoeLoaded) == []
    assert of_type(events, CardDealt)[0].index == 5, "four cards of this shoe were seen before"
    assert [event.shoe for event in of_type(room.events, ShoeLoaded)] == ["A", "B"]


def test_the_same_coup_again_changes_nothing(room):
    room.open(1, NATURAL)
    assert room.open(1, NATURAL) == []
    room.close(1)
    assert room.open(1, NATURAL) == []
    room.seal(1)
    assert room.open(1, NATURAL) == []
    room.open(2, SIX)
    assert room.open(1, NATURAL) == [], "not even while another one is open"
    assert room.close(1) == []


def test_the_same_coup_with_other_cards_is_refused(room):
    room.open(1, NATURAL)
    with refused("COUP_KNOWN", "cards"):
        room.open(1, SIX)
    room.close(1)
    room.seal(1)
    with refused("COUP_KNOWN", "cards"):
        room.open(1, SIX)
    with refused("COUP_KNOWN", "cards"):
        room.open(1, ("9", "8", "K", "K"))


def test_another_coup_waits(room):
    room.open(1, NATURAL)
    with refused("TABLE_BUSY", "coup"):
        room.open(2, SIX)


def test_a_record_without_cards(room):
    with refused("CARDS_MISSING", "cards"):
        room.open(1)


def test_case_15_an_illegal_record_is_refused_in_words(room):
    with pytest.raises(Refusal, match="Banker stands on 7: nobody may draw a sixth card") as refusal:
        room.open(1, cards("0 1 0 6 5 8"))
    assert (refusal.value.code, refusal.value.field) == ("CARDS_ILLEGAL", "cards")
    assert room.table.coup is None
    assert room.events == room.events[:2], "nothing was written"


def test_a_record_is_read_in_the_houses_order():
    room = Room()
    room.open_table("lt", "recorded")
    room.play(1, ("9", "8", "K", "K", "A"), dealer_seat=4)
    dealt = of_type(room.events, CardDealt)
    assert [(card.hand, card.position) for card in dealt] == [
        ("banker", 1),
        ("banker", 2),
        ("player", 1),
        ("player", 2),
        ("player", 3),
    ]


# ----------------------------------------------------------------------------------- what decks can hold


def test_a_suited_card_comes_once_a_deck(room):
    for number in range(1, 9):
        room.play(number, NATURAL)
    with pytest.raises(Refusal, match="9S would have come out 9 times, and 8 decks hold 8") as refusal:
        room.open(9, NATURAL)
    assert (refusal.value.code, refusal.value.field) == ("CARDS_IMPOSSIBLE", "cards")
    assert of_type(room.play(1, NATURAL, shoe="another"), CoupConcluded)


def test_a_rank_comes_four_times_a_deck(room):
    for number in range(1, 9):
        room.play(number, ("4", "4", "4", "4"))
    with pytest.raises(Refusal, match="4 would have come out 33 times, and 8 decks hold 32"):
        room.open(9, ("4", "9", "5", "9"))
    assert of_type(room.play(9, ("5", "9", "K", "K")), CoupConcluded)


def test_one_coup_alone_can_be_impossible():
    house = HOUSES["nl"]
    small = house.model_copy(update={"shoe": house.shoe.model_copy(update={"decks": 1})})
    room = Room()
    room.open_table(small, "recorded")
    with refused("CARDS_IMPOSSIBLE", "cards"):
        room.open(1, ("9S", "9S", "KS", "KH"))


def test_cards_that_are_shuffled_every_round_are_counted_by_the_coup():
    room = Room()
    room.open_table("de", "recorded")
    for number in range(1, 12):
        assert of_type(room.play(number, NATURAL), CoupConcluded)
    with refused("CARDS_IMPOSSIBLE", "cards"):
        house = HOUSES["de"]
        one = house.model_copy(update={"shoe": house.shoe.model_copy(update={"decks": 1})})
        other = Room()
        other.open_table(one, "recorded")
        other.open(1, ("9S", "9S", "KS", "KH"))
    assert of_type(room.events, ShoeEnded) == []


def test_what_a_void_coup_took_from_the_shoe_stays_taken(room):
    for number in range(1, 8):
        room.play(number, NATURAL)
    room.open(8, NATURAL)
    room.do(VoidCoup(**AT, shoe="shoe-1", coup=8, reason="misdeal"))
    with refused("CARDS_IMPOSSIBLE", "cards"):
        room.open(9, NATURAL)
    assert room.open(8, NATURAL) == [], "known, and void"
    with refused("COUP_KNOWN", "cards"):
        room.open(8, SIX)
    assert of_type(room.events, CoupVoided)[0].coup == 8


def test_a_shoe_keeps_its_decks():
    house = HOUSES["nl"]
    six = house.model_copy(update={"shoe": house.shoe.model_copy(update={"decks": 6})})
    room = Room()
    room.open_table("nl", "recorded")
    room.play(1, NATURAL)
    room.do(SetHouse(**AT, house=six))
    with refused("SHOE_DECKS", "shoe"):
        room.open(2, SIX)
    assert of_type(room.open(1, SIX, shoe="new"), ShoeLoaded)[0].decks == 6


# -------------------------------------------------------------------------------------------- who dealt


BANKER_WINS = ("9S", "KS", "8H", "KH")  # at the big table the first two cards are Banker's
PLAYER_WINS = ("8S", "QS", "9H", "QH")


def test_where_players_deal_the_record_says_which_seat():
    room = Room()
    room.open_table("lt", "recorded")
    with refused("DEALER_SEAT", "dealer_seat"):
        room.open(1, BANKER_WINS)
    with refused("DEALER_SEAT", "dealer_seat"):
        room.open(1, BANKER_WINS, dealer_seat=13)


def test_a_record_says_when_the_shoe_passes_and_to_whom():
    room = Room()
    room.open_table("lt", "recorded")
    first = room.play(1, BANKER_WINS, dealer_seat=4)
    assert of_type(first, ShoePassed) == [
        ShoePassed(**AT, shoe="shoe-1", from_seat=None, to_seat=4, reason="recorded")
    ]
    assert of_type(first, CoupOpened)[0].dealer_seat == 4
    won = room.play(2, PLAYER_WINS, dealer_seat=4)
    assert of_type(won, CoupConcluded)[0].outcome == "player"
    assert of_type(won, ShoePassed) == [], "who deals after a Player win is said by the next record"
    passed = room.play(3, BANKER_WINS, dealer_seat=9)
    assert of_type(passed, ShoePassed) == [
        ShoePassed(**AT, shoe="shoe-1", from_seat=4, to_seat=9, reason="recorded")
    ]
    with refused("COUP_KNOWN", "dealer_seat"):
        room.open(3, BANKER_WINS, dealer_seat=10)


def test_where_a_croupier_deals_a_record_names_no_seat(room):
    with refused("DEALER_SEAT", "dealer_seat"):
        room.open(1, NATURAL, dealer_seat=4)


# --------------------------------------------------------------------------------------------- the end


def test_a_recorded_shoe_ends_when_somebody_says_so(room):
    room.play(1, NATURAL, shoe="A")
    room.play(1, NATURAL, shoe="B")
    (ended,) = room.do(EndShoe(**AT, shoe="A", reason="replaced"))
    assert ended == ShoeEnded(**AT, shoe="A", reason="replaced", cards_out=4, seed=None)
    with refused("SHOE_ENDED", "shoe"):
        room.open(2, SIX, shoe="A")
    assert room.open(1, NATURAL, shoe="A") == []
    closed = room.do(CloseTable(**AT, reason="end of day"))
    assert [event.shoe for event in of_type(closed, ShoeEnded)] == ["B"]


def test_memory_does_not_grow_with_what_is_over(room):
    for number in range(1, 30):
        room.play(number, ("9", "8", "K", "K"), shoe=f"shoe-{number // 3}")
    (table,) = room.state.tables.values()
    assert len(table.live) == 1
    assert (room.state.known_coups, room.state.known_shoes, room.state.undealt.cards) == ({}, {}, {})
    assert len(room.store.coups) == 29
    assert room.store.cards == {}
