"""How a card is written."""

import pytest
from pydantic import TypeAdapter, ValidationError

from schemas.cards import RANKS, SUITS, Card, parse_card, rank_of, suit_of

EVERY = [rank + suit for rank in RANKS for suit in ("", *SUITS)]


def test_there_are_thirteen_ranks_with_and_without_four_suits():
    assert len(set(EVERY)) == 13 * 5
    assert [parse_card(card) for card in EVERY] == EVERY


@pytest.mark.parametrize("card", EVERY)
def test_rank_and_suit_make_the_card_again(card):
    assert rank_of(card) + (suit_of(card) or "") == card
    assert (suit_of(card) is None) == (len(card) == 1)


@pytest.mark.parametrize(
    ("text", "card"), [("10", "T"), ("10H", "TH"), ("10C", "TC"), ("8C", "8C"), ("A", "A")]
)
def test_ten_may_be_written_in_digits(text, card):
    assert parse_card(text) == card


@pytest.mark.parametrize(
    "text",
    ["", "1", "1S", "0", "11", "8c", "c8", "8X", "8CC", " 8C", "8C ", "8C\n", "♠A", "10X", "AS\x00", "a"],
)
def test_what_is_no_card_is_refused_in_words(text):
    with pytest.raises(ValueError, match="is not a card: write the rank"):
        parse_card(text)


@pytest.mark.parametrize("thing", [None, 8, 8.0, ["8C"], b"8C", {"rank": 8}])
def test_what_is_no_text_is_refused_in_the_same_words(thing):
    with pytest.raises(ValueError, match="is not a card"):
        parse_card(thing)


@pytest.mark.parametrize("text", ["10H", "8c", "8C\n", "", "1"])
def test_an_event_takes_only_the_notation_of_events(text):
    with pytest.raises(ValidationError):
        TypeAdapter(Card).validate_python(text)
