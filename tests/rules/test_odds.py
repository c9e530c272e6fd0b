"""The counts over every ordered deal, to the last digit, and the edges of the five houses."""

import json
from collections import Counter
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest

from services.game.core.odds import count, edges, percent, statement
from services.game.core.tableau import play
from tests.rules.room import HOUSES, PUNTO, cards

FIXTURES = Path(__file__).parents[1] / "fixtures" / "rules"
PUBLISHED = {decks: json.loads((FIXTURES / f"counts-{decks}.json").read_text()) for decks in (6, 8)}


@pytest.mark.parametrize("decks", [6, 8])
def test_every_count_equals_the_published_one(decks):
    ours, theirs = count(decks), PUBLISHED[decks]
    assert ours.total == theirs["total"]
    assert ours.wins == theirs["wins"]
    assert {str(cards): sequences for cards, sequences in ours.cards.items()} == theirs["ncards"]
    assert {f"{player}-{banker}": n for (player, banker), n in ours.totals.items()} == theirs["totals"]


def test_the_figures_of_the_rule_sheet():
    eight, six = count(8), count(6)
    assert eight.total == 4_998_398_275_503_360
    assert eight.wins == {
        "banker": 2_292_252_566_437_888,
        "player": 2_230_518_282_592_256,
        "tie": 475_627_426_473_216,
    }
    assert six.total == 878_869_206_895_680
    assert six.wins == {
        "banker": 403_095_751_234_560,
        "player": 392_220_492_728_832,
        "tie": 83_552_962_932_288,
    }


@pytest.mark.parametrize("decks", range(1, 13))
def test_every_deal_is_counted_once(decks):
    counts = count(decks)
    cards_in_shoe = 52 * decks
    deals = 1
    for drawn in range(6):
        deals *= cards_in_shoe - drawn
    assert counts.total == deals
    assert sum(counts.wins.values()) == sum(counts.cards.values()) == sum(counts.totals.values()) == deals


@pytest.mark.parametrize(
    ("house", "player", "banker", "tie"),
    [
        ("nl", "1.2351", "1.0579", "14.3596"),
        ("fr", "1.2351", "1.0579", "14.3596"),
        ("de", "1.2374", "1.0558", "14.4382"),
        ("dk", "1.2351", "1.0579", "14.3596"),
        ("lt", "1.2351", "1.0579", "14.3596"),
    ],
)
def test_the_edges_of_a_house(house, player, banker, tie):
    shown = {spot: percent(edge) for spot, edge in edges(HOUSES[house]).items()}
    assert shown == {"player": player, "banker": banker, "tie": tie}


@pytest.mark.parametrize(
    ("house", "at_eight", "at_nine"), [("nl", "14.3596", "4.8440"), ("de", "14.4382", "4.9313")]
)
def test_both_tie_prices_stand_side_by_side(house, at_eight, at_nine):
    odds = statement(HOUSES[house])
    assert {profit: percent(edge) for profit, edge in odds.tie_edges.items()} == {8: at_eight, 9: at_nine}
    assert odds.tie_profit == 8


def test_a_german_house_that_means_nine_to_one_says_so():
    german = HOUSES["de"]
    generous = german.model_copy(update={"prices": german.prices.model_copy(update={"tie": "9 to 1"})})
    odds = statement(generous)
    assert odds.tie_profit == 9
    assert percent(odds.edges["tie"]) == "4.9313"
    assert percent(statement(german).edges["tie"]) == "14.4382"


def test_the_danish_claims_are_checked_and_not_believed():
    claims = {claim.spot: claim for claim in statement(HOUSES["dk"]).claims}
    assert (claims["banker"].agrees, claims["player"].agrees) == (True, True)
    assert not claims["tie"].agrees
    assert (claims["tie"].claimed_percent, percent(claims["tie"].edge, 2)) == ("9.5", "14.36")


def test_without_commission_banker_would_favour_the_player():
    free = HOUSES["nl"].model_copy(
        update={"commission": HOUSES["nl"].commission.model_copy(update={"rate": "0"})}
    )
    assert percent(edges(free)["banker"]) == "-1.2351"


@pytest.mark.parametrize(
    ("fraction", "decimals", "text"),
    [
        (Fraction(1, 8), 1, "12.5"),
        (Fraction(1, 8), 0, "13"),
        (Fraction(1, 200), 0, "1"),
        (Fraction(1, 300), 2, "0.33"),
        (Fraction(-1, 200), 4, "-0.5000"),
        (Fraction(-1, 10**9), 4, "0.0000"),
    ],
)
def test_percent_rounds_half_away_from_zero(fraction, decimals, text):
    assert percent(fraction, decimals) == text


# ---------------------------------------------------------------------- what must and must not happen


def four_card_deals(decks: int = 8) -> Counter[tuple[int, int]]:
    """Ordered deals of coups that end with four cards, by final totals: enumerated with the tableau."""
    left = [16 * decks] + [4 * decks] * 9
    found: Counter[tuple[int, int]] = Counter()
    for values in product(range(10), repeat=4):
        result = play(cards(" ".join(map(str, (*values, 0, 0)))), PUNTO)
        if result.used == 4:
            ways, rest = 1, list(left)
            for value in values:
                ways *= rest[value]
                rest[value] -= 1
            found[result.player_total, result.banker_total] += ways
    return found


def test_with_four_cards_both_hands_win_equally_often():
    deals = four_card_deals()
    for player, banker in deals:
        assert deals[player, banker] == deals[banker, player]
    assert sum(deals.values()) * (416 - 4) * (416 - 5) == count(8).cards[4]


def test_hands_that_cannot_win_on_two_cards():
    # Player stands on 6 and 7 only, and Banker on two cards below 3 never.
    won: dict[str, set[int]] = {"player": set(), "banker": set()}
    for values in product(range(10), repeat=3):
        player, banker, third = values
        for sixth in range(10):
            result = play(cards(f"{player} {banker} 0 0 {third} {sixth}"), PUNTO)
            hand = result.player if result.outcome == "player" else result.banker
            if result.outcome != "tie" and len(hand) == 2:
                won[result.outcome].add(player if result.outcome == "player" else banker)
    assert won == {"player": {6, 7, 8, 9}, "banker": {3, 4, 5, 6, 7, 8, 9}}
