"""Audit's tableau, cell by cell, against the public cases, and over every legal coup."""

import json
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from schemas.house import Side
from services.audit.core.odds import outcome_shares
from services.audit.core.tableau import (
    POINTS,
    TooFewCards,
    entitled,
    expected_play,
    rule_in_words,
    why_nobody_draws,
)

FIXTURES = Path(__file__).parent.parent / "fixtures" / "rules"
PUNTO: tuple[Side, ...] = ("player", "banker", "player", "banker")
BIG_TABLE: tuple[Side, ...] = ("banker", "banker", "player", "player")
RANKS = "A23456789TJQK"
LETTER = {0: "K", 1: "A", **{value: str(value) for value in range(2, 10)}}

# Rows: Player's third card. Columns: Banker's total on two cards, 0 to 7. D draws, S stands.
LITHUANIAN_SHEET = {
    #     01234567
    "2": "DDDDDSSS",
    "3": "DDDDDSSS",
    "4": "DDDDDDSS",
    "5": "DDDDDDSS",
    "6": "DDDDDDDS",
    "7": "DDDDDDDS",
    "8": "DDDSSSSS",
    "A": "DDDDSSSS",
    "9": "DDDDSSSS",
    "T": "DDDDSSSS",
    "J": "DDDDSSSS",
    "Q": "DDDDSSSS",
    "K": "DDDDSSSS",
}


def points(text):
    """Cards from the notation of the cases, ``P1,B1,P2,B2,P3,B3``: those that were drawn."""
    return [LETTER[int(each)] for each in text.split(",") if each != "-"]


def test_the_sheet_has_a_row_for_every_rank_and_a_cell_for_every_total():
    assert set(LITHUANIAN_SHEET) == set(RANKS)
    assert all(len(row) == 8 for row in LITHUANIAN_SHEET.values())


@pytest.mark.parametrize("third", RANKS)
@pytest.mark.parametrize("banker", range(8))
def test_every_cell_where_player_drew(third, banker):
    cards = ["K", LETTER[banker], "K", "K", third]  # Player 0 draws, Banker has the total
    draws = LITHUANIAN_SHEET[third][banker] == "D"
    assert entitled(["K", "K", third], [LETTER[banker], "K"], PUNTO) == ("banker" if draws else None)
    play = expected_play([*cards, "2"], PUNTO)
    assert play.used == (6 if draws else 5)
    assert play.banker_total == (banker + 2 * draws) % 10
    if draws:
        with pytest.raises(TooFewCards, match=f"Banker had {banker} against a third card {third}"):
            expected_play(cards, PUNTO)
    else:
        assert expected_play(cards, PUNTO) == play


@pytest.mark.parametrize("player", [6, 7])
@pytest.mark.parametrize("banker", range(8))
def test_every_cell_where_player_stood(player, banker):
    cards = [LETTER[player], LETTER[banker], "K", "K", "2"]
    play = expected_play(cards, PUNTO)
    assert play.used == (5 if banker <= 5 else 4)
    assert play.player == (LETTER[player], "K")
    assert len(play.banker) == (3 if banker <= 5 else 2)


@pytest.mark.parametrize("player", range(10))
@pytest.mark.parametrize("banker", range(10))
def test_player_draws_on_5_and_less_unless_somebody_has_a_natural(player, banker):
    hands = [LETTER[player], "K"], [LETTER[banker], "K"]
    natural = player >= 8 or banker >= 8
    play = expected_play([LETTER[player], LETTER[banker], "K", "K", "K", "K"], PUNTO)
    assert play.natural is natural
    assert (len(play.player) == 3) is (not natural and player <= 5)
    assert (entitled(*hands, PUNTO) == "player") is (not natural and player <= 5)
    if natural:
        assert play.used == 4


def test_values_of_every_card_with_and_without_suit():
    for value, ranks in {0: "TJQK", **{n: str(n) for n in range(2, 10)}, 1: "A"}.items():
        for rank, suit in product(ranks, ("", *"SHDC")):
            assert POINTS[rank + suit] == value
    assert len(POINTS) == 65


@pytest.mark.parametrize(
    ("written", "player", "banker", "outcome", "used"),
    [
        pytest.param("0,0,1,6,5,-", 6, 6, "tie", 5, id="case 1"),
        pytest.param("0,0,0,4,0,-", 0, 4, "banker", 5, id="case 2"),
        pytest.param("0,0,0,3,0,7", 0, 0, "tie", 6, id="case 3"),
        pytest.param("0,0,0,0,8,8", 8, 8, "tie", 6, id="case 4"),
        pytest.param("8,9,0,0,-,-", 8, 9, "banker", 4, id="case 5"),
        pytest.param("7,3,0,0,-,5", 7, 8, "banker", 5, id="case 6"),
        pytest.param("9,3,9,5,-,-", 8, 8, "tie", 4, id="case 7"),
        pytest.param("6,0,0,0,-,3", 6, 3, "player", 5, id="case 8"),
        pytest.param("0,1,0,6,5,-", 5, 7, "banker", 5, id="case 15"),
        pytest.param("9,2,7,3,-,2", 6, 7, "banker", 5, id="case 16"),
        pytest.param("0,0,1,6,5,-", 6, 6, "tie", 5, id="case 18"),
    ],
)
def test_faults_that_real_engines_had(written, player, banker, outcome, used):
    play = expected_play(points(written), PUNTO)
    assert (play.player_total, play.banker_total, play.outcome, play.used) == (player, banker, outcome, used)


def test_case_15_says_who_may_not_draw():
    cards = points("0,1,0,6,5,8")
    play = expected_play(cards, PUNTO)
    assert play.used == 5
    words = why_nobody_draws(play.player, play.banker, cards[5])
    assert words == "Banker had 7 and stands: the sixth card 8 may not be drawn"


def test_public_vectors():
    for vector in json.loads((FIXTURES / "coup_vectors.json").read_text()):
        drawn = [vector[name] for name in ("P1", "B1", "P2", "B2", "P3", "B3") if vector[name] is not None]
        play = expected_play([LETTER[value] for value in drawn], PUNTO)
        winner = {"P": "player", "B": "banker", "T": "tie"}[vector["winner"]]
        assert (play.player_total, play.banker_total, play.outcome, play.used, play.natural) == (
            vector["player"],
            vector["banker"],
            winner,
            vector["cards"],
            vector["natural"],
        ), vector["name"]


def test_big_table_deals_banker_first():
    play = expected_play(["9", "8", "2", "3", "K"], BIG_TABLE)
    assert (play.banker, play.player) == (("9", "8"), ("2", "3", "K"))
    assert (play.banker_total, play.player_total, play.used) == (7, 5, 5)


@pytest.mark.parametrize("order", sorted(set(product(("player", "banker"), repeat=4))))
def test_every_order_of_four_cards_gives_each_hand_its_own(order):
    if order.count("player") != 2:
        return
    cards = ["9S", "2H", "7D", "4C", "3S", "5H"]
    play = expected_play(cards, order)
    assert play.player[:2] == tuple(
        card for card, hand in zip(cards, order, strict=False) if hand == "player"
    )
    assert play.banker[:2] == tuple(
        card for card, hand in zip(cards, order, strict=False) if hand == "banker"
    )
    assert [entitled([], [], order), entitled(["9S"], [], order)] == [
        order[0],
        order[1],
    ]


@pytest.mark.parametrize("dealt", range(4))
def test_less_than_four_cards_is_no_coup(dealt):
    with pytest.raises(TooFewCards, match=f"only {dealt} were dealt") as lacking:
        expected_play(["9", "2", "7"][:dealt], PUNTO)
    assert lacking.value.hand == PUNTO[dealt]


def test_player_who_must_draw_is_missed():
    with pytest.raises(TooFewCards, match="Player had 4 and must draw a third card"):
        expected_play(points("4,0,0,0"), PUNTO)
    with pytest.raises(TooFewCards, match="Player stood and Banker had 3 and must draw"):
        expected_play(points("6,3,0,0"), PUNTO)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (
            "8,9,0,0",
            "Player had a natural 8 and Banker had a natural 9, so both hands stand: the fifth card 2",
        ),
        ("6,6,0,0", "Player stood on 6 and Banker had 6, so both stand: the fifth card 2"),
        ("0,6,0,0,5", "Banker had 6 and stands against a third card 5: the sixth card 2"),
        ("0,0,0,0,5,5", "Banker has his third card already: the seventh card 2"),
    ],
)
def test_why_a_further_card_is_illegal(written, words):
    play = expected_play(points(written), PUNTO)
    assert entitled(play.player, play.banker, PUNTO) is None
    assert why_nobody_draws(play.player, play.banker, "2") == words + " may not be drawn"


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("8,9,0,0", "Player has a natural 8 and Banker has a natural 9: both hands stand."),
        ("9,0,0,0", "Player has a natural 9: both hands stand."),
        ("6,5,0,0,2", "Player 6 stands; then Banker draws on 0 to 5: Banker 5 draws."),
        ("7,6,0,0", "Player 7 stands; then Banker draws on 0 to 5: Banker 6 stands."),
        ("5,3,0,0,8", "Player 5 draws; against a third card 8 Banker draws on 0 to 2: Banker 3 stands."),
        ("5,6,0,0,7,1", "Player 5 draws; against a third card 7 Banker draws on 0 to 6: Banker 6 draws."),
    ],
)
def test_the_row_that_applied_in_words(written, words):
    assert rule_in_words(expected_play(points(written), PUNTO)) == words


def test_every_legal_coup():
    """All 1,659,001 sequences of ranks that are a coup: as many, and as they end, as two counts elsewhere."""
    by_cards: Counter[int] = Counter()
    by_outcome: Counter[str] = Counter()
    for four in product(RANKS, repeat=4):
        player, banker = [four[0], four[2]], [four[1], four[3]]
        first = entitled(player, banker, PUNTO)
        if first is None:
            _count(four, by_cards, by_outcome)
            continue
        for fifth in RANKS:
            five = (*four, fifth)
            if first == "player" and entitled([*player, fifth], banker, PUNTO) == "banker":
                for sixth in RANKS:
                    _count((*five, sixth), by_cards, by_outcome)
            else:
                _count(five, by_cards, by_outcome)
    assert by_cards == {4: 10_816, 5: 112_560, 6: 1_535_625}
    assert sum(by_cards.values()) == 1_659_001
    assert by_outcome == {"player": 797_176, "banker": 692_104, "tie": 169_721}


def _count(cards, by_cards, by_outcome):
    play = expected_play(cards, PUNTO)
    assert play.used == len(cards)
    by_cards[play.used] += 1
    by_outcome[play.outcome] += 1


@pytest.mark.parametrize("decks", [6, 8])
def test_outcomes_come_as_often_as_was_counted(decks):
    counts = json.loads((FIXTURES / f"counts-{decks}.json").read_text())
    shares = outcome_shares(decks)
    assert {outcome: share * counts["total"] for outcome, share in shares.items()} == counts["wins"]
