"""Coups from a virtual shoe: no card before the seal, and every card from the committed order."""

import pytest

from schemas.commands.game import (
    VoidCoup,
    VoidOverdue,
)
from schemas.events.game import (
    BettingClosed,
    CardBurned,
    CardDealt,
    CoupConcluded,
    CoupOpened,
    CoupVoided,
    ShoeEnded,
    ShoeLoaded,
)
from services.game.core.fair import shoe_order
from services.game.core.tableau import play
from tests.rules.room import AT, HOUSES, PUNTO, SHARD, TABLE, Room, of_type
from tests.rules.test_table_life import refused


@pytest.fixture
def room():
    room = Room()
    room.open_table("nl")
    room.load()
    return room


def test_a_coup_from_its_opening_to_its_end(room):
    burned = len(of_type(room.events, CardBurned))
    order = shoe_order(room.seed_of("shoe-1"), TABLE, "shoe-1", 8, "lucky")
    expected = play(order[burned:], PUNTO)
    assert room.open(1) == [
        CoupOpened(
            **AT,
            shoe="shoe-1",
            coup=1,
            house_number=1,
            spots=("player", "banker", "tie"),
            dealer_seat=None,
        )
    ]
    assert room.close(1) == [BettingClosed(**AT, shoe="shoe-1", coup=1)]
    seal = room.sealed(1)
    *dealt, concluded = room.hear(seal)
    assert tuple(card.card for card in dealt) == order[burned : burned + expected.used]
    assert [card.index for card in dealt] == list(range(burned + 1, burned + 1 + expected.used))
    assert {(card.seal.stream, card.seal.sequence, card.seal.hash) for card in dealt} == {
        (seal.stream, seal.sequence, seal.hash)
    }
    assert [(card.hand, card.position) for card in dealt[:4]] == [
        ("player", 1),
        ("banker", 1),
        ("player", 2),
        ("banker", 2),
    ]
    assert isinstance(concluded, CoupConcluded)
    assert (concluded.version, concluded.cards) == (1, expected.used)
    assert (concluded.player_total, concluded.banker_total) == (expected.player_total, expected.banker_total)
    assert concluded.outcome == expected.outcome


def test_no_card_before_betting_is_closed(room):
    room.open(1)
    assert room.seal(1) == []
    assert of_type(room.events, CardDealt) == []


@pytest.mark.parametrize(
    "seal",
    [
        {"shard": "S2"},
        {"table": "T2"},
        {"shoe": "shoe-2"},
        {"coup": 2},
    ],
)
def test_only_the_seal_that_is_awaited_opens_the_shoe(room, seal):
    room.open(1)
    room.close(1)
    assert room.hear(room.sealed(**{"coup": 1, **seal})) == []
    assert of_type(room.events, CardDealt) == []
    assert of_type(room.seal(1), CoupConcluded)


def test_a_seal_counts_once(room):
    room.open(1)
    room.close(1)
    assert of_type(room.seal(1), CoupConcluded)
    assert room.seal(1) == []


def test_other_events_of_wallet_say_nothing(room):
    assert room.hear(room.events[0]) == []


def test_case_20_nobody_names_the_cards_of_a_virtual_shoe(room):
    with refused("CARDS_GIVEN", "cards"):
        room.open(1, ["9S", "8H", "KS", "KH"])


def test_opening_and_closing_again_change_nothing(room):
    room.open(1)
    assert room.open(1) == []
    room.close(1)
    assert room.close(1) == []
    assert room.open(1) == []
    room.seal(1)
    assert room.close(1) == []


def test_numbers_rise_within_a_shoe(room):
    room.play(5)
    for number in (5, 4, 0):
        with refused("COUP_KNOWN", "coup"):
            room.open(number)
    assert of_type(room.open(7), CoupOpened)


def test_one_coup_at_a_time(room):
    room.open(1)
    with refused("TABLE_BUSY", "coup"):
        room.open(2)


def test_a_coup_needs_a_shoe_that_is_loaded(room):
    with refused("SHOE_UNKNOWN", "shoe"):
        room.open(1, shoe="shoe-9")
    from schemas.commands.game import CommitShoe

    room.do(CommitShoe(**AT, shoe="shoe-2"))
    with refused("SHOE_NOT_LOADED", "shoe"):
        room.open(1, shoe="shoe-2")


def test_a_coup_that_is_not_there_is_not_closed(room):
    with refused("COUP_UNKNOWN", "coup"):
        room.close(1)


def test_a_house_table_has_no_dealing_seat(room):
    with refused("DEALER_SEAT", "dealer_seat"):
        room.open(1, dealer_seat=3)


# ----------------------------------------------------------------------------------------------- voids


def void(coup, shoe="shoe-1"):
    return VoidCoup(**AT, shoe=shoe, coup=coup, reason="misdeal", approver="pit-boss")


def test_a_void_takes_no_card_from_the_shoe(room):
    room.open(1)
    room.close(1)
    (voided,) = room.do(void(1))
    assert voided == CoupVoided(**AT, shoe="shoe-1", coup=1, reason="misdeal", approver="pit-boss")
    burned = len(of_type(room.events, CardBurned))
    assert of_type(room.play(2), CardDealt)[0].index == burned + 1


def test_a_void_coup_is_not_dealt_when_its_seal_comes_late(room):
    room.open(1)
    room.close(1)
    late = room.sealed(1)
    room.do(void(1))
    assert room.hear(late) == []


def test_voiding_again_changes_nothing_and_a_result_is_not_voided_by_one_alone(room):
    room.open(1)
    room.do(void(1))
    assert room.do(void(1)) == []
    room.play(2)
    with refused("FOUR_EYES", "initiator"):
        room.do(void(2))
    with refused("COUP_UNKNOWN", "coup"):
        room.do(void(3))


def test_coups_that_wait_too_long_are_void_and_others_are_not(room):
    room.open_table("nl", table="T2")
    room.open(1)
    opened = room.now
    assert room.do(VoidOverdue(closed_before=room.clock(opened + 60))) == [], "betting is still open"
    room.close(1)
    closed = room.now
    assert room.do(VoidOverdue(closed_before=room.clock(closed))) == [], "not before that moment"
    (voided,) = room.do(VoidOverdue(closed_before=room.clock(closed + 1)))
    assert (voided.coup, voided.reason, voided.approver) == (1, "seal_timeout", None)
    assert room.do(VoidOverdue(closed_before=room.clock(closed + 60))) == []


# ------------------------------------------------------------------------------------------ whole shoes


def play_shoe(room: Room, shoe: str) -> int:
    """Play a shoe until it ends; the number of coups."""
    coup = 0
    while not of_type(room.events[-1:], ShoeEnded):
        coup += 1
        room.play(coup, shoe=shoe)
        assert coup < 200
    return coup


PER_SHOE = [house for house in HOUSES if HOUSES[house].shoe.cut_cards_from_end is not None]


@pytest.mark.parametrize("house", PER_SHOE)
def test_a_whole_shoe_to_the_cut_card(house):
    room = Room()
    room.open_table(house)
    room.sit(1, 5, 9) if house == "lt" else room.sit(1)
    room.load("shoe-1", "entropy-of-a-client")
    coups = play_shoe(room, "shoe-1")
    assert 74 <= coups <= 87, "eight decks, cut card 14 from the end (rules/baccarat.md 1.2)"
    (ended,) = of_type(room.events, ShoeEnded)
    burned, dealt = of_type(room.events, CardBurned), of_type(room.events, CardDealt)
    assert [card.index for card in [*burned, *dealt]] == list(range(1, ended.cards_out + 1))
    assert ended.reason == "cut_card"
    # The cut card was not out before the last coup, and is after it.
    last_coup = [card for card in dealt if card.coup == coups]
    assert 416 - ended.cards_out < 14 <= 416 - (ended.cards_out - len(last_coup))
    order = shoe_order(bytes.fromhex(ended.seed), TABLE, "shoe-1", 8, "entropy-of-a-client")
    assert tuple(card.card for card in dealt) == order[len(burned) : ended.cards_out]
    assert sorted(order) == sorted(8 * [rank + suit for rank in "A23456789TJQK" for suit in "SHDC"])
    with refused("SHOE_ENDED", "shoe"):
        room.open(coups + 1)


def test_the_shoe_never_runs_dry_at_the_least_safe_cut():
    house = HOUSES["nl"]
    tight = house.model_copy(update={"shoe": house.shoe.model_copy(update={"cut_cards_from_end": 6})})
    room = Room()
    room.open_table(tight)
    least = 6
    for number in range(40):
        room.load(f"shoe-{number}")
        room.events.clear()
        room.heads.clear()
        play_shoe(room, f"shoe-{number}")
        (ended,) = of_type(room.events, ShoeEnded)
        least = min(least, 416 - ended.cards_out)
    assert least == 0, "one of forty shoes used its very last card, and none wanted one more"


def test_cards_that_are_shuffled_every_round_are_one_coup_each():
    room = Room()
    room.open_table("de")
    room.load("round-1")
    events = room.play(1, shoe="round-1")
    assert of_type(events, CardDealt)[0].index == 1
    (ended,) = of_type(events, ShoeEnded)
    concluded = of_type(events, CoupConcluded)[0]
    assert (ended.reason, ended.cards_out) == ("every_round", concluded.cards)
    assert len(shoe_order(bytes.fromhex(ended.seed), TABLE, "round-1", 6, "lucky")) == 312
    assert of_type(events, ShoeLoaded) == []


def test_a_void_round_ends_its_cards_as_well():
    room = Room()
    room.open_table("de")
    room.load("round-1")
    room.open(1, shoe="round-1")
    voided, ended = room.do(void(1, "round-1"))
    assert isinstance(voided, CoupVoided)
    assert (ended.reason, ended.cards_out) == ("every_round", 0)
    room.load("round-2")
    room.open(1, shoe="round-2")
    room.close(1, "round-2")
    overdue = room.do(VoidOverdue(closed_before=room.clock(room.now + 1)))
    assert [type(event) for event in overdue] == [CoupVoided, ShoeEnded]


def test_a_seal_of_another_shard_is_not_ours(room):
    assert SHARD == "S1"
    room.open(1)
    room.close(1)
    assert room.hear(room.sealed(1, shard="S1x")) == []
