"""The shoe as a pile: burn, cut card, and how often a card can come out of so many decks."""

import pytest

from schemas.cards import RANKS, SUITS
from schemas.house import Burn
from services.game.core.shoe import burned, cut_card_is_out, impossible, with_cards


@pytest.mark.parametrize(("first", "follow"), [("A", 1), ("2", 2), ("9", 9), ("T", 10), ("J", 10), ("K", 10)])
def test_the_first_card_says_how_many_follow_it_face_down(first, follow):
    order = (first + "S", *(rank + "H" for rank in RANKS))
    assert burned(order, Burn.FIRST_CARD_VALUE) == (first + "S", *[None] * follow)


def test_a_house_without_a_burn_burns_nothing():
    assert burned(("KS", "KH"), Burn.NONE) == ()


@pytest.mark.parametrize(
    ("cards_out", "out"),
    [
        (401, False),  # the last card before the cut card is still in the shoe
        (402, False),  # the cut card is next: the coup that begins now is the last
        (403, True),  # one card from behind it has come out
        (416, True),
    ],
)
def test_the_cut_card_is_out_with_the_first_card_from_behind_it(cards_out, out):
    assert cut_card_is_out(decks=8, cut_cards_from_end=14, cards_out=cards_out) == out


def test_a_shoe_of_suited_cards_holds_each_of_them_once_a_deck():
    whole = {rank + suit: 6 for rank in RANKS for suit in SUITS}
    assert impossible(whole, 6, whole) is None
    for card in whole:
        words = impossible(with_cards(whole, [card]), 6, [card])
        assert words == f"{card} would have come out 7 times, and 6 decks hold 6"


def test_a_rank_comes_four_times_a_deck_whether_suits_were_recorded_or_not():
    mixed = {"8": 20, "8S": 4, "8H": 8}
    assert impossible(mixed, 8, ["8"]) is None
    words = impossible(with_cards(mixed, ["8"]), 8, ["8"])
    assert words == "8 would have come out 33 times, and 8 decks hold 32"
    assert impossible(with_cards(mixed, ["8D"]), 8, ["8D"]) is not None


def test_one_deck_is_singular():
    assert impossible({"KS": 2}, 1, ["KS"]) == "KS would have come out 2 times, and 1 deck holds 1"
