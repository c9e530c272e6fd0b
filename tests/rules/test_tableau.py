"""The draw rules: every published vector, every cell of the tableau, and the faults of real engines."""

import json
from pathlib import Path

import pytest

from schemas.cards import RANKS, SUITS
from schemas.house import HouseError, load_house, profit_per_unit, shipped_houses
from services.game.core.tableau import (
    CardsIllegal,
    CoupUnfinished,
    banker_draws,
    check,
    is_natural,
    places,
    play,
    player_draws,
)
from services.game.core.values import BURN_WORTH, WORTH
from tests.rules.room import BIG_TABLE, LETTERS, PUNTO, cards, coup_cards

FIXTURES = Path(__file__).parents[1] / "fixtures" / "rules"
VECTORS = json.loads((FIXTURES / "coup_vectors.json").read_text())

OUTCOMES = {"P": "player", "B": "banker", "T": "tie"}


# --------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("ranks", "worth"),
    [("A", 1), ("2", 2), ("3", 3), ("4", 4), ("5", 5), ("6", 6), ("7", 7), ("8", 8), ("9", 9), ("TJQK", 0)],
)
def test_what_a_card_is_worth_does_not_depend_on_its_suit(ranks, worth):
    assert {WORTH[rank + suit] for rank in ranks for suit in ("", *SUITS)} == {worth}


def test_tens_and_courts_burn_ten_and_are_worth_nothing():
    assert [BURN_WORTH[rank] for rank in RANKS] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10]


# -------------------------------------------------------------------------------------- thirty vectors


def test_there_are_thirty_vectors():
    assert len(VECTORS) == 30


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_vector(vector):
    points = [vector[place] for place in ("P1", "B1", "P2", "B2", "P3", "B3")]
    recorded = [LETTERS[each] for each in points if each is not None]
    result = check(recorded, PUNTO)
    assert (result.player_total, result.banker_total) == (vector["player"], vector["banker"])
    assert result.outcome == OUTCOMES[vector["winner"]]
    assert (result.used, result.natural) == (vector["cards"], vector["natural"])
    assert (len(result.player) == 3) == (vector["P3"] is not None)
    assert (len(result.banker) == 3) == (vector["B3"] is not None)


# ------------------------------------------------------------------------------------------- the tableau

# Written out once more from the rule sheet, so that a slip in the product's table shows here:
# Banker's two-card total, the third cards of Player's to which he draws, those to which he stands.
TABLEAU = [
    (0, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, set()),
    (1, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, set()),
    (2, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, set()),
    (3, {0, 1, 2, 3, 4, 5, 6, 7, 9}, {8}),
    (4, {2, 3, 4, 5, 6, 7}, {0, 1, 8, 9}),
    (5, {4, 5, 6, 7}, {0, 1, 2, 3, 8, 9}),
    (6, {6, 7}, {0, 1, 2, 3, 4, 5, 8, 9}),
    (7, set(), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}),
]


@pytest.mark.parametrize(("total", "draws", "stands"), TABLEAU)
def test_every_cell(total, draws, stands):
    assert draws | stands == set(range(10))
    assert {third for third in range(10) if banker_draws(total, third)} == draws
    # And as it is played: Banker's two cards are `total` and a king, Player's total is 0 to 5.
    for player_total in range(6):
        for third in range(10):
            result = play(cards(f"{player_total} {total} 0 0 {third} 0"), PUNTO)
            assert result.used == (6 if third in draws else 5), (player_total, third)


@pytest.mark.parametrize("total", range(8))
def test_banker_after_a_player_who_stood_draws_to_five(total):
    assert banker_draws(total, None) == (total <= 5)
    for player_total in (6, 7):
        result = play(cards(f"{player_total} {total} 0 0 9 9"), PUNTO)
        assert (len(result.player), len(result.banker)) == (2, 3 if total <= 5 else 2)


def test_player_draws_to_five():
    assert [total for total in range(8) if player_draws(total)] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("natural", [8, 9])
@pytest.mark.parametrize("other", range(10))
def test_a_natural_of_either_hand_overrides_everything(natural, other):
    for player, banker in ((natural, other), (other, natural)):
        assert is_natural(player, banker)
        result = play(cards(f"{player} {banker} 0 0 5 5"), PUNTO)
        assert (result.used, result.natural) == (4, True)
        assert (result.player_total, result.banker_total) == (player, banker)


def test_a_three_card_eight_is_no_natural():
    assert not play(cards("0 0 0 0 8 8"), PUNTO).natural


# ----------------------------------------------------------------- cases/rules.md: faults of real engines


@pytest.mark.parametrize(
    ("case", "points", "totals", "outcome", "used"),
    [
        (1, "0,0,1,6,5,-", (6, 6), "tie", 5),
        (2, "0,0,0,4,0,-", (0, 4), "banker", 5),
        (3, "0,0,0,3,0,7", (0, 0), "tie", 6),
        (4, "0,0,0,0,8,8", (8, 8), "tie", 6),
        (5, "8,9,0,0,-,-", (8, 9), "banker", 4),
        (6, "7,3,0,0,-,5", (7, 8), "banker", 5),
        (7, "9,3,9,5,-,-", (8, 8), "tie", 4),
        (8, "6,0,0,0,-,3", (6, 3), "player", 5),
        (16, "9,2,7,3,-,2", (6, 7), "banker", 5),
    ],
)
def test_case(case, points, totals, outcome, used):
    result = check(coup_cards(points), PUNTO)
    assert (result.player_total, result.banker_total) == totals, case
    assert (result.outcome, result.used) == (outcome, used)


def test_case_2_holds_for_each_of_the_four_ranks_worth_nothing():
    for rank in "TJQK":
        assert check((rank, rank, rank, "4", rank), PUNTO).outcome == "banker"


def test_case_9_the_third_card_of_the_coup_before_is_gone():
    shoe = cards("0 0 0 3 5 9 7 6 0 0")
    first = play(shoe, PUNTO)
    assert (first.used, len(first.player), len(first.banker)) == (6, 3, 3)
    second = play(shoe[first.used :], PUNTO)
    assert (second.player, second.banker, second.used) == (("7", "K"), ("6", "K"), 4)
    assert play(shoe[first.used :], PUNTO) == play(cards("7 6 0 0"), PUNTO)


def test_case_13_nine_for_one_is_eight_to_one():
    assert profit_per_unit("9 for 1") == profit_per_unit("8 to 1") == 8
    assert 10 + 10 * profit_per_unit("9 for 1") == 90
    assert 10 + 10 * profit_per_unit("9 to 1") == 100
    assert profit_per_unit(shipped_houses()["de"].prices.tie) == 8


NL = (Path(__file__).parents[2] / "schemas" / "houses" / "nl.toml").read_text()


def test_case_14_a_cut_card_that_lets_the_shoe_run_dry_is_refused():
    with pytest.raises(HouseError, match=r"shoe\.cut_cards_from_end"):
        load_house(NL.replace("cut_cards_from_end = 14", "cut_cards_from_end = 5"), "nl")
    safest = load_house(NL.replace("cut_cards_from_end = 14", "cut_cards_from_end = 6"), "nl")
    assert safest.shoe.cut_cards_from_end == 6


def test_case_15_right_totals_do_not_excuse_an_illegal_draw():
    with pytest.raises(CardsIllegal, match="Banker stands on 7: nobody may draw a sixth card"):
        check(coup_cards("0,1,0,6,5,8"), PUNTO)
    right = check(coup_cards("0,1,0,6,5,-"), PUNTO)
    assert (right.player_total, right.banker_total, right.outcome) == (5, 7, "banker")


# ------------------------------------------------------------------------------------- recorded coups


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ("", "Player still needs his first card: a coup has at least four cards and 0 were recorded"),
        ("9 0", "Player still needs his second card: a coup has at least four cards and 2 were recorded"),
        ("9 0 2", "Banker still needs his second card: a coup has at least four cards and 3 were recorded"),
        ("2 7 3 0", "Player must draw on 5: the fifth card is missing"),
        ("6 5 0 0", "Player stood on 6 and Banker must draw on 5: the fifth card is missing"),
        ("2 3 3 0 7", "Banker must draw on 3 to Player's third card, 7: the sixth card is missing"),
        ("2 3 3 0 0", "Banker must draw on 3 to Player's third card, K (worth 0): the sixth card is missing"),
        ("7 6 0 0 3", "Player stood on 7 and Banker stands on 6: nobody may draw a fifth card"),
        ("8 0 0 0 3", "Player has a natural 8: nobody may draw a fifth card"),
        ("5 9 0 0 3", "Banker has a natural 9: nobody may draw a fifth card"),
        ("9 8 0 0 3 4", "Player has a natural 9 and Banker has a natural 8: nobody may draw a fifth card"),
        ("6 0 0 0 3 9", "Player stood on 6 and Banker has drawn: nobody may draw a sixth card"),
        ("1 6 0 0 5 9", "Banker stands on 6 to Player's third card, 5: nobody may draw a sixth card"),
        ("1 6 0 0 7 9 9", "both hands have drawn their third card: nobody may draw a seventh card"),
    ],
)
def test_an_illegal_record_says_why(points, words):
    with pytest.raises(CardsIllegal) as refused:
        check(cards(points), PUNTO)
    assert str(refused.value) == words


def test_the_order_of_dealing_decides_whose_cards_they_are():
    as_punto = check(("9", "8", "K", "K"), PUNTO)
    assert (as_punto.player_total, as_punto.banker_total, as_punto.outcome) == (9, 8, "player")
    as_big_table = check(("9", "8", "K", "K", "A"), BIG_TABLE)
    assert (as_big_table.player, as_big_table.banker) == (("K", "K", "A"), ("9", "8"))
    assert as_big_table.outcome == "banker"
    with pytest.raises(CardsIllegal, match="Banker still needs his second card"):
        check(("9",), BIG_TABLE)


def test_places_name_each_card_as_it_left_the_shoe():
    six = cards("1 2 3 0 4 5")
    assert places(play(six, PUNTO), PUNTO) == [
        ("player", 1, "A"),
        ("banker", 1, "2"),
        ("player", 2, "3"),
        ("banker", 2, "K"),
        ("player", 3, "4"),
        ("banker", 3, "5"),
    ]
    five = cards("2 1 6 0 9")  # Banker 3, Player 6, and so the fifth card is Banker's
    assert [place[:2] for place in places(play(five, BIG_TABLE), BIG_TABLE)] == [
        ("banker", 1),
        ("banker", 2),
        ("player", 1),
        ("player", 2),
        ("banker", 3),
    ]


@pytest.mark.parametrize("given", range(6))
def test_a_shoe_without_enough_cards_is_not_a_coup(given):
    with pytest.raises(CoupUnfinished):
        play(cards("0 0 0 0 0 0")[:given], PUNTO)
