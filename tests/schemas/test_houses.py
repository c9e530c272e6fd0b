"""A house is data, and every mistake in it is named by its place."""

from copy import deepcopy
from fractions import Fraction
from importlib.resources import files

import pytest

from schemas.envelope import decode
from schemas.events.game import HouseSet
from schemas.house import HouseError, load_house, parse_house, profit_per_unit, shipped_houses
from tests.contracts.streams import Stream

HOUSES = shipped_houses()
PLAYER_FIRST = ("player", "banker", "player", "banker")


def sheet(**changes: object) -> dict[str, object]:
    """The Dutch sheet, with values at key paths changed; ``None`` takes a key away."""
    document = HOUSES["nl"].model_dump(mode="json", exclude_none=True)
    for path, value in changes.items():
        *sections, key = path.split("__")
        section = document
        for name in sections:
            section = section[name]
        if value is None:
            del section[key]
        else:
            section[key] = value
    return deepcopy(document)


def problems(document: dict[str, object]) -> dict[str, str]:
    with pytest.raises(HouseError) as refused:
        parse_house(document, "test")
    return dict(refused.value.problems)


# ------------------------------------------------------------------------------------------- what is shipped


def test_the_five_houses_load():
    assert list(HOUSES) == ["de", "dk", "fr", "lt", "nl"]
    assert all(house.id == name and house.version == 1 for name, house in HOUSES.items())


def test_what_the_sheets_have_in_common():
    for house in HOUSES.values():
        assert profit_per_unit(house.prices.player) == profit_per_unit(house.prices.banker) == 1
        assert profit_per_unit(house.prices.tie) == 8
        assert Fraction(house.commission.rate) == Fraction(5, 100)
        assert (house.commission.rounding_unit, house.commission.rounding_mode) == ("minor", "half_up")


@pytest.mark.parametrize(
    ("name", "decks", "shuffle", "burn", "cut", "order", "dealt_by", "passes"),
    [
        ("nl", 8, "per_shoe", "first_card_value", 14, PLAYER_FIRST, "house", "never"),
        ("fr", 8, "per_shoe", "first_card_value", 14, PLAYER_FIRST, "house", "never"),
        ("dk", 8, "per_shoe", "first_card_value", 14, PLAYER_FIRST, "house", "never"),
        ("de", 6, "every_round", "none", None, PLAYER_FIRST, "house", "never"),
        (
            "lt",
            8,
            "per_shoe",
            "first_card_value",
            14,
            ("banker", "banker", "player", "player"),
            "players",
            "player_win",
        ),
    ],
)
def test_what_differs(name, decks, shuffle, burn, cut, order, dealt_by, passes):  # noqa: PLR0917
    house = HOUSES[name]
    assert (house.shoe.decks, house.shoe.shuffle, house.shoe.burn) == (decks, shuffle, burn)
    assert house.shoe.cut_cards_from_end == cut
    assert (house.deal.order, house.deal.dealt_by, house.deal.shoe_passes_on) == (order, dealt_by, passes)


def test_the_german_and_the_danish_sheet_in_their_own_words():
    assert HOUSES["de"].prices.model_dump() == {"player": "2 for 1", "banker": "2 for 1", "tie": "9 for 1"}
    assert [(claim.spot, claim.edge_percent) for claim in HOUSES["dk"].claims] == [
        ("banker", "1.06"),
        ("player", "1.24"),
        ("tie", "9.5"),
    ]
    assert HOUSES["lt"].deal.squeeze == "largest_player_bet"
    assert HOUSES["lt"].table.seats == (12, 14)


# ---------------------------------------------------------------------------------------------------- prices


@pytest.mark.parametrize(
    ("price", "profit"),
    [
        ("8 to 1", 8),
        ("9 for 1", 8),
        ("1 to 1", 1),
        ("2 for 1", 1),
        ("9 to 1", 9),
        ("0.95 to 1", Fraction(95, 100)),
        ("17 to 2", Fraction(17, 2)),
        ("3 for 2", Fraction(1, 2)),
        ("16 to 2", 8),
    ],
)
def test_rules_case_13_both_notations_of_a_price(price, profit):
    assert profit_per_unit(price) == profit


@pytest.mark.parametrize(
    "price",
    [
        "",
        "8",
        "8:1",
        "8 TO 1",
        "eight to 1",
        "8 to 0",
        "8  to 1",
        " 8 to 1",
        "8 to 1\n",
        "-8 to 1",
        "1e1 to 1",
    ],
)
def test_what_is_no_price(price):
    with pytest.raises(ValueError, match="is not a price"):
        profit_per_unit(price)


@pytest.mark.parametrize("price", ["1 for 1", "0 to 1", "1 for 2"])
def test_a_price_that_gains_nothing(price):
    with pytest.raises(ValueError, match="gains nothing"):
        profit_per_unit(price)


# -------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("changes", "path", "reason"),
    [
        ({"prices__tie": "8:1"}, "prices.tie", "is not a price"),
        ({"prices__tie": "17 to 2"}, "prices.tie", "parts of a minor unit"),
        ({"prices__banker": "0.95 to 1"}, "prices.banker", "parts of a minor unit"),
        ({"prices__player": "1 for 1"}, "prices.player", "gains nothing"),
        ({"prices__tie": 8}, "prices.tie", "valid string"),
        ({"prices__tie": None}, "prices.tie", "required"),
        ({"prices": None}, "prices", "required"),
        ({"commission__rate": "5 %"}, "commission.rate", "is not a rate"),
        ({"commission__rate": "1.5"}, "commission.rate", "is not a rate"),
        ({"commission__rate": "-0.05"}, "commission.rate", "is not a rate"),
        ({"commission__rate": 0.05}, "commission.rate", "valid string"),
        ({"commission__rounding_unit": "0"}, "commission.rounding_unit", "is not a rounding unit"),
        ({"commission__rounding_unit": "cent"}, "commission.rounding_unit", "is not a rounding unit"),
        ({"commission__rounding_mode": "bankers"}, "commission.rounding_mode", "half_even"),
        ({"shoe__decks": 0}, "shoe.decks", "greater than or equal to 1"),
        ({"shoe__decks": 13}, "shoe.decks", "less than or equal to 12"),
        ({"shoe__decks": "8"}, "shoe.decks", "valid integer"),
        ({"shoe__decks": True}, "shoe.decks", "valid integer"),
        ({"shoe__shuffle": "sometimes"}, "shoe.shuffle", "per_shoe"),
        ({"shoe__burn": "all"}, "shoe.burn", "first_card_value"),
        ({"shoe__cut_cards_from_end": 5}, "shoe.cut_cards_from_end", "greater than or equal to 6"),
        ({"shoe__cut_cards_from_end": 0}, "shoe.cut_cards_from_end", "greater than or equal to 6"),
        ({"shoe__cut_cards_from_end": 105}, "shoe.cut_cards_from_end", "less than or equal to 104"),
        ({"shoe__cut_cards_from_end": None}, "shoe", "needs cut_cards_from_end"),
        ({"shoe__shuffle": "every_round"}, "shoe", "have no cut card"),
        (
            {"shoe__decks": 1, "shoe__cut_cards_from_end": 36},
            "shoe",
            "no room for the burn and a single coup",
        ),
        ({"deal__order": ["player", "banker", "player"]}, "deal.order.3", "required"),
        ({"deal__order": ["player", "player", "player", "banker"]}, "deal", "two of the first four"),
        ({"deal__order": ["punto", "banker", "player", "banker"]}, "deal.order.0", "'player' or 'banker'"),
        ({"deal__dealt_by": "nobody"}, "deal.dealt_by", "'house' or 'players'"),
        ({"deal__shoe_passes_on": "player_win"}, "deal", "only a shoe that players deal can pass"),
        ({"table__seats": []}, "table.seats", "at least 1"),
        ({"table__seats": [7, 0]}, "table.seats.1", "greater than or equal to 1"),
        ({"id": "NL"}, "id", "pattern"),
        ({"version": 0}, "version", "greater than or equal to 1"),
        ({"version": None}, "version", "required"),
        ({"language": "nld"}, "language", "pattern"),
        ({"claims": [{"spot": "pair", "edge_percent": "1"}]}, "claims.0.spot", "'player', 'banker' or 'tie'"),
        ({"colour": "red"}, "colour", "not permitted"),
        ({"prices__dragon": "30 to 1"}, "prices.dragon", "not permitted"),
        ({"commission__rounding": "up"}, "commission.rounding", "not permitted"),
        ({"shoe__cut_card_from_end": 14}, "shoe.cut_card_from_end", "not permitted"),
    ],
)
def test_a_mistake_is_named_by_its_key_path(changes, path, reason):
    found = problems(sheet(**changes))
    assert path in found, found
    assert reason in found[path]


def test_every_round_has_no_burn_either():
    document = sheet(shoe__shuffle="every_round", shoe__cut_cards_from_end=None)
    assert "have no burn" in problems(document)["shoe"]


def test_all_mistakes_are_named_at_once():
    found = problems(sheet(prices__tie="8:1", commission__rate="5", version=0, colour="red"))
    assert set(found) == {"prices.tie", "commission.rate", "version", "colour"}


def test_the_words_name_the_house_and_each_mistake():
    with pytest.raises(HouseError) as refused:
        parse_house(sheet(version=0, colour="red"), "mine")
    assert str(refused.value).startswith("house 'mine' cannot run: ")
    assert "version: Input should be" in str(refused.value)
    assert "colour: Extra inputs are not permitted" in str(refused.value)


@pytest.mark.parametrize("cut", [6, 11, 12, 14, 104])
def test_rules_case_14_the_cut_card_is_deep_enough_for_a_coup(cut):
    assert parse_house(sheet(shoe__cut_cards_from_end=cut), "test").shoe.cut_cards_from_end == cut


def test_a_file_that_is_no_toml():
    with pytest.raises(HouseError) as refused:
        load_house("id = nl", "broken")
    ((path, reason),) = refused.value.problems
    assert path == "file"
    assert "line 1" in reason


@pytest.mark.parametrize("name", sorted(HOUSES))
def test_a_shipped_sheet_with_a_misspelt_key_would_not_run(name):
    text = (files("schemas") / "houses" / f"{name}.toml").read_text("utf-8")
    assert load_house(text, name) == HOUSES[name]
    with pytest.raises(HouseError, match=r"commission\.rounding_mod: Extra"):
        load_house(text.replace("rounding_mode", "rounding_mod"), name)


# ------------------------------------------------------------------------------------------- inside an event


def test_a_whole_house_travels_in_an_event():
    for house in HOUSES.values():
        event = Stream("game/op.T1").next(HouseSet(operator="op", table="T1", house_number=1, house=house))
        assert decode(event.body).data.house == house


def test_inside_an_event_a_later_versions_keys_are_tolerated():
    house = HOUSES["nl"]
    event = Stream("game/op.T1").next(HouseSet(operator="op", table="T1", house_number=1, house=house))
    later = event.body.replace(b'"house":{', b'"house":{"colour":"red",', 1)
    later = later.replace(b'"prices":{', b'"prices":{"dragon":"30 to 1",', 1)
    assert later != event.body
    assert decode(later).data.house == house


def test_inside_an_event_a_house_is_checked_all_the_same():
    event = Stream("game/op.T1").next(HouseSet(operator="op", table="T1", house_number=1, house=HOUSES["nl"]))
    with pytest.raises(ValueError, match="cut_cards_from_end"):
        decode(event.body.replace(b'"cut_cards_from_end":14', b'"cut_cards_from_end":5'))
