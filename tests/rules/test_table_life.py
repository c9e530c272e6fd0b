"""A table's life around the coups: opening, houses, seats, shoes, closing."""

import pytest

from schemas.commands.game import (
    CloseTable,
    CommitShoe,
    EndShoe,
    LeaveSeat,
    LoadShoe,
    OpenTable,
    SetHouse,
    TakeSeat,
)
from schemas.events.game import (
    CardBurned,
    EntropyTaken,
    HouseSet,
    SeatLeft,
    SeatTaken,
    ShoeCommitted,
    ShoeEnded,
    ShoeLoaded,
    TableClosed,
    TableOpened,
)
from schemas.refusal import Refusal
from services.game.core.fair import commitment, context, shoe_order
from services.game.core.values import BURN_WORTH
from tests.rules.room import AT, HOUSES, SHARD, TABLE, Room, of_type


def refused(code, field):
    """The refusal with this code, that names this field."""
    return pytest.raises(Refusal, check=lambda refusal: (refusal.code, refusal.field) == (code, field))


@pytest.fixture
def room():
    room = Room()
    room.open_table("nl")
    return room


# -------------------------------------------------------------------------------------------- opening


def test_a_table_opens_under_its_first_house():
    room = Room()
    opened, house = room.open_table("lt")
    assert opened == TableOpened(**AT, shard=SHARD, seats=12, source="virtual")
    assert house == HouseSet(**AT, house_number=1, house=HOUSES["lt"])


def test_opening_again_with_the_same_content_changes_nothing(room):
    assert room.open_table("nl") == []
    assert room.open_table("nl", seats=7) == []
    room.do(SetHouse(**AT, house=HOUSES["fr"]))
    assert room.open_table("nl") == [], "the opening is compared with the house it was opened with"


@pytest.mark.parametrize(
    ("field", "content"),
    [
        ("house", {"house": HOUSES["fr"]}),
        ("shard", {"shard": "S2"}),
        ("seats", {"seats": 9}),
        ("source", {"source": "recorded"}),
    ],
)
def test_opening_again_with_other_content_names_the_field(room, field, content):
    same = {**AT, "house": HOUSES["nl"], "shard": SHARD, "source": "virtual"}
    with refused("TABLE_KNOWN", field):
        room.do(OpenTable(**{**same, **content}))


def test_a_house_has_its_own_sizes_of_tables(room):
    with refused("SEATS", "seats"):
        Room().open_table("lt", seats=7)
    with refused("SEATS", "house.table.seats"):
        room.do(SetHouse(**AT, house=HOUSES["lt"]))


def test_two_operators_may_have_a_table_of_the_same_name(room):
    other = OpenTable(operator="other", table=TABLE, house=HOUSES["fr"], shard=SHARD, source="virtual")
    assert len(room.do(other)) == 2
    assert [table.house.id for table in room.state.tables.values()] == ["nl", "fr"]


def test_a_table_that_nobody_opened():
    with refused("TABLE_UNKNOWN", "table"):
        Room().do(TakeSeat(**AT, seat=1))


# --------------------------------------------------------------------------------------------- houses


def test_a_new_house_gets_the_next_number_and_the_same_house_none(room):
    assert room.do(SetHouse(**AT, house=HOUSES["nl"])) == []
    (second,) = room.do(SetHouse(**AT, house=HOUSES["fr"]))
    assert (second.house_number, second.house.id) == (2, "fr")
    (third,) = room.do(SetHouse(**AT, house=HOUSES["nl"]))
    assert third.house_number == 3


def test_a_house_is_set_between_coups_only(room):
    room.load()
    room.open(1)
    with refused("TABLE_BUSY", "house"):
        room.do(SetHouse(**AT, house=HOUSES["fr"]))
    assert room.do(SetHouse(**AT, house=HOUSES["nl"])) == []
    room.close(1)
    room.seal(1)
    assert len(room.do(SetHouse(**AT, house=HOUSES["fr"]))) == 1


def test_a_coup_names_the_house_that_it_was_opened_under(room):
    room.load()
    (first,) = room.open(1)
    room.close(1)
    room.seal(1)
    room.do(SetHouse(**AT, house=HOUSES["fr"]))
    (second,) = room.open(2)
    assert (first.house_number, second.house_number) == (1, 2)


def test_a_shoe_is_not_played_on_by_a_house_that_would_have_made_it_up_otherwise(room):
    room.do(CommitShoe(**AT, shoe="shoe-1"))
    with refused("SHOE_IN_PLAY", "house.shoe"):
        room.do(SetHouse(**AT, house=HOUSES["de"]))
    room.do(EndShoe(**AT, shoe="shoe-1", reason="replaced"))
    assert len(room.do(SetHouse(**AT, house=HOUSES["de"]))) == 1


# ---------------------------------------------------------------------------------------------- seats


def test_seats_are_taken_and_left_once(room):
    assert room.do(TakeSeat(**AT, seat=3)) == [SeatTaken(**AT, seat=3)]
    assert room.do(TakeSeat(**AT, seat=3)) == []
    assert room.do(LeaveSeat(**AT, seat=3)) == [SeatLeft(**AT, seat=3)]
    assert room.do(LeaveSeat(**AT, seat=3)) == []


@pytest.mark.parametrize("command", [TakeSeat, LeaveSeat])
def test_a_seat_that_the_table_does_not_have(room, command):
    with refused("SEAT", "seat"):
        room.do(command(**AT, seat=8))


# ---------------------------------------------------------------------------------------------- shoes


def test_the_commitment_stands_before_the_entropy(room):
    (committed,) = room.do(CommitShoe(**AT, shoe="shoe-1"))
    assert isinstance(committed, ShoeCommitted)
    loaded = room.do(LoadShoe(**AT, shoe="shoe-1", entropy="lucky"))
    assert isinstance(loaded[0], EntropyTaken)
    assert isinstance(loaded[1], ShoeLoaded)
    assert loaded[1].cut_cards_from_end == 14
    seed = room.seed_of("shoe-1")
    assert committed.commitment == commitment(seed, context(TABLE, "shoe-1", 8))
    first = shoe_order(seed, TABLE, "shoe-1", 8, "lucky")[0]
    burned = loaded[2:]
    assert [event.card for event in burned] == [first, *[None] * BURN_WORTH[first]]
    assert [event.index for event in burned] == list(range(1, 2 + BURN_WORTH[first]))


def test_committing_and_loading_again_change_nothing(room):
    (committed,) = room.do(CommitShoe(**AT, shoe="shoe-1"))
    assert room.do(CommitShoe(**AT, shoe="shoe-1")) == []
    room.do(LoadShoe(**AT, shoe="shoe-1", entropy="lucky"))
    assert room.do(LoadShoe(**AT, shoe="shoe-1", entropy="lucky")) == []
    seed = room.seed_of("shoe-1")
    assert committed.commitment == commitment(seed, context(TABLE, "shoe-1", 8)), "the first seed stays"


def test_case_21_a_shoe_cannot_be_shuffled_until_the_house_likes_it(room):
    room.load("shoe-1", "lucky")
    with refused("SHOE_KNOWN", "entropy"):
        room.do(LoadShoe(**AT, shoe="shoe-1", entropy="luckier"))
    with refused("SHOE_KNOWN", "shoe"):
        room.do(CommitShoe(**AT, shoe="shoe-1"))
    room.do(EndShoe(**AT, shoe="shoe-1", reason="replaced"))
    with refused("SHOE_KNOWN", "shoe"):
        room.do(CommitShoe(**AT, shoe="shoe-1"))
    with refused("SHOE_ENDED", "shoe"):
        room.do(LoadShoe(**AT, shoe="shoe-1", entropy="lucky"))


def test_every_commitment_ends_in_a_revealed_seed(room):
    room.load("shoe-1")
    room.do(CommitShoe(**AT, shoe="shoe-2"))
    room.do(CommitShoe(**AT, shoe="shoe-3"))
    (ended,) = room.do(EndShoe(**AT, shoe="shoe-3", reason="replaced"))
    assert (ended.cards_out, len(ended.seed)) == (0, 64)
    closed = room.do(CloseTable(**AT, reason="end of day"))
    assert [(event.shoe, event.reason) for event in of_type(closed, ShoeEnded)] == [
        ("shoe-1", "table_closed"),
        ("shoe-2", "table_closed"),
    ]
    committed = {event.shoe: event.commitment for event in of_type(room.events, ShoeCommitted)}
    for event in of_type(room.events, ShoeEnded):
        assert commitment(bytes.fromhex(event.seed), context(TABLE, event.shoe, 8)) == committed[event.shoe]
    assert room.store.seeds == {}


def test_one_shoe_is_in_play_at_a_time(room):
    room.load("shoe-1")
    room.do(CommitShoe(**AT, shoe="shoe-2"))
    with refused("SHOE_IN_PLAY", "shoe"):
        room.do(LoadShoe(**AT, shoe="shoe-2", entropy="x"))
    room.do(EndShoe(**AT, shoe="shoe-1", reason="replaced"))
    assert of_type(room.do(LoadShoe(**AT, shoe="shoe-2", entropy="x")), ShoeLoaded)


def test_only_so_many_shoes_wait(room):
    for number in range(16):
        room.do(CommitShoe(**AT, shoe=f"shoe-{number}"))
    with refused("SHOES_WAITING", "shoe"):
        room.do(CommitShoe(**AT, shoe="one-more"))


def test_a_shoe_must_be_committed_before_it_is_loaded_or_ended(room):
    with refused("SHOE_UNKNOWN", "shoe"):
        room.do(LoadShoe(**AT, shoe="shoe-1", entropy="x"))
    with refused("SHOE_UNKNOWN", "shoe"):
        room.do(EndShoe(**AT, shoe="shoe-1", reason="replaced"))


def test_ending_a_shoe_again_changes_nothing(room):
    room.load("shoe-1")
    assert len(room.do(EndShoe(**AT, shoe="shoe-1", reason="replaced"))) == 1
    assert room.do(EndShoe(**AT, shoe="shoe-1", reason="replaced")) == []


def test_a_shoe_is_not_taken_out_of_a_coup(room):
    room.load("shoe-1")
    room.open(1)
    with refused("TABLE_BUSY", "shoe"):
        room.do(EndShoe(**AT, shoe="shoe-1", reason="replaced"))


def test_a_house_that_shuffles_every_round_burns_nothing():
    room = Room()
    room.open_table("de")
    assert of_type(room.load(), CardBurned) == []


def test_a_recorded_table_commits_no_shoe():
    room = Room()
    room.open_table("nl", "recorded")
    with refused("TABLE_RECORDED", "shoe"):
        room.do(CommitShoe(**AT, shoe="shoe-1"))
    with refused("TABLE_RECORDED", "shoe"):
        room.do(LoadShoe(**AT, shoe="shoe-1", entropy="x"))


# --------------------------------------------------------------------------------------------- closing


def test_nothing_may_be_open_on_a_table_that_closes(room):
    room.load()
    room.open(1)
    with refused("TABLE_BUSY", "table"):
        room.do(CloseTable(**AT, reason="end of day"))


def test_a_closed_table_stays_closed(room):
    assert of_type(room.do(CloseTable(**AT, reason="end of day")), TableClosed)
    assert room.do(CloseTable(**AT, reason="end of day")) == []
    with refused("TABLE_CLOSED", "table"):
        room.open_table("nl")
    with refused("TABLE_CLOSED", "table"):
        room.do(TakeSeat(**AT, seat=1))


def test_a_key_that_nobody_looked_up_is_a_defect_and_not_an_absence(room):
    from services.game.core.table import decide

    with pytest.raises(KeyError):
        decide(room.state, CommitShoe(**AT, shoe="shoe-1"), bytes(32))
