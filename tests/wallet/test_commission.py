"""Commission that is marked on a seat and collected later: on request, on leaving, at the end (1065)."""

from typing import Any

import pytest

from schemas.commands.wallet import CollectCommission, Tip
from schemas.events.accounts import CommissionCollected
from schemas.events.wallet import CoupSettled
from tests.wallet.world import SHOE, TABLE, Game, World, house


@pytest.fixture(params=[False, True], ids=["", "restarted"])
def between(request: pytest.FixtureRequest, world: World) -> Any:
    """What happens between two steps of a test: nothing, or a restart."""
    return world.restart if request.param else lambda: None


def won(world: World, *bets: tuple[str, int | None, int], coup: int = 1, currency: str = "EUR") -> None:
    """These (player, seat, stake) win on Banker. Who plays has just as much as he stakes."""
    for who, seat, stake in bets:
        world.deposit(who, stake, currency=currency)
        assert world.bet(who, "banker", stake, seat=seat, coup=coup, currency=currency).code == "OK"
    world.play(coup, "banker")


@pytest.fixture
def table(world: World) -> World:
    world.open_table(house(collection="deferred"), coups=5)
    return world


def marks(world: World) -> dict[tuple[str, int | None, str], int]:
    """What is marked: by table, seat and currency, all accounts together."""
    found: dict[tuple[str, int | None, str], int] = {}
    for each in world.state.items.owed.values():
        key = (each.table, each.seat, each.currency)
        found[key] = found.get(key, 0) + each.amount
    return found


def collected(world: World) -> list[tuple[int | None, int, int, str]]:
    """Seat, amount, shortfall and reason of what was collected."""
    return [
        (each.data.seat, each.data.amount, each.data.shortfall, each.data.reason)
        for each in world.events(CommissionCollected)
    ]


def test_it_is_marked_on_each_seat(table, between):
    won(table, ("Ann", 3, 10_000), ("Ann", 4, 4_000), ("Bea", 4, 2_010), ("Cleo", None, 1_000))
    between()
    assert marks(table) == {(TABLE, 3, "EUR"): 500, (TABLE, 4, "EUR"): 301, (TABLE, None, "EUR"): 50}
    assert table.totals()["1065"] == 851 == -table.totals()["4020"]
    assert [table.cash(who) for who in ("Ann", "Bea", "Cleo")] == [28_000, 4_020, 2_000]
    (settled,) = table.events(CoupSettled)
    assert [
        (bet.deferred, bet.commission, bet.returned, bet.commission_exact) for bet in settled.data.bets
    ] == [
        (True, 500, 20_000, "500"),
        (True, 200, 8_000, "200"),
        (True, 101, 4_020, "201/2"),
        (True, 50, 2_000, "50"),
    ]


def test_marks_of_a_seat_add_up(table, between):
    won(table, ("Ann", 3, 10_000))
    between()
    won(table, ("Ann", 3, 2_000), coup=2)
    assert marks(table) == {(TABLE, 3, "EUR"): 600}
    assert table.do(CollectCommission, table=TABLE, seat=3).event.amount == 600


def test_collected_on_request(table, between):
    won(table, ("Ann", 3, 10_000), ("Ann", 4, 4_000))
    between()
    answer = table.do(CollectCommission, tx="C1", table=TABLE, seat=3)
    assert (answer.code, answer.balance, answer.event.tx) == ("OK", 27_500, "C1")
    assert marks(table) == {(TABLE, 4, "EUR"): 200}
    between()
    for seat, currency in ((3, "EUR"), (5, "EUR"), (4, "JPY"), (None, "EUR")):
        refusal = table.refusal(CollectCommission, table=TABLE, seat=seat, currency=currency)
        assert (refusal.code, refusal.field) == ("NOTHING_OWED", "seat")
    assert table.refusal(CollectCommission, account="Bea", table=TABLE, seat=4).code == "NOTHING_OWED"
    assert collected(table) == [(3, 500, 0, "request")]


def test_collected_when_the_seat_is_left(table, between):
    won(table, ("Ann", 3, 10_000), ("Bea", 3, 4_000), ("Ann", 4, 2_000))
    between()
    table.hear(table.game.leave_seat(3))
    assert sorted(collected(table)) == [(3, 200, 0, "seat_left"), (3, 500, 0, "seat_left")]
    assert marks(table) == {(TABLE, 4, "EUR"): 100}
    between()
    table.hear(table.game.leave_seat(3), table.game.leave_seat(9))
    assert len(collected(table)) == 2, "nothing was marked any more"
    assert (table.cash("Ann"), table.cash("Bea")) == (23_500, 7_800)


@pytest.mark.parametrize("end", ["shoe_ended", "table_closed"])
def test_collected_at_the_end(table, between, end):
    won(table, ("Ann", 3, 10_000), ("Ann", None, 4_000), ("Bea", 4, 2_000))
    won(table, ("Ann", 3, 2_000), coup=2, currency="JPY")
    other = Game("T2")
    table.hear(other.open_table(house(collection="deferred")), other.open(1))
    table.deposit("Ann", 1_000)
    table.bet("Ann", "banker", 1_000, seat=3, table="T2")
    table.hear(other.close(1), other.conclude(1, "banker"))
    between()
    table.hear(table.game.end_shoe() if end == "shoe_ended" else table.game.close_table())
    assert marks(table) == {("T2", 3, "EUR"): 50}
    assert sorted(collected(table), key=str) == [
        (3, 100, 0, end),
        (3, 500, 0, end),
        (4, 100, 0, end),
        (None, 200, 0, end),
    ]
    assert table.totals()["1065"] == 50
    assert "1065" not in table.totals("JPY")
    event = table.events(CommissionCollected)[0]
    assert event.envelope.causationid == table.game.stream.events[-1].envelope.id


def test_what_a_player_lacks_is_owed(table, between):
    won(table, ("Ann", 3, 10_000))
    table.do(Tip, amount=19_600)
    between()
    table.hear(table.game.leave_seat(3))
    assert collected(table) == [(3, 500, 100, "seat_left")]
    assert table.totals() == {"1030": 10_000, "1060": 100, "2080": -19_600, "4011": 10_000, "4020": -500}
    assert table.wealth() == {"negative_receivable": "1.00"}


def test_two_seats_of_a_player_share_what_he_has(table, between):
    """500 and 200 are due and 600 are there: 100 are owed, whichever seat comes first."""
    won(table, ("Ann", 3, 10_000), ("Ann", 4, 4_000))
    table.do(Tip, amount=27_400)
    between()
    table.hear(table.game.end_shoe())
    assert sum(each[2] for each in collected(table)) == 100
    assert (table.cash("Ann"), table.totals()["1060"]) == (0, 100)


@pytest.mark.parametrize("outcome", ["player", "tie"])
def test_nothing_is_marked_for_what_does_not_win(table, outcome):
    table.deposit("Ann", 10_000)
    table.bet("Ann", "banker", 10_000, seat=3)
    table.play(1, outcome)
    assert marks(table) == {}


def test_a_commission_that_comes_to_nothing_is_not_marked(world):
    world.open_table(house(collection="deferred", rounding_mode="down"))
    won(world, ("Ann", 3, 19))
    assert (marks(world), world.cash("Ann")) == ({}, 38)


def test_the_house_at_the_coups_opening_says_how_it_is_collected(table, between):
    table.hear(table.game.set_house("nl"), table.game.open(9))
    for coup in (1, 9):
        table.deposit("Ann", 1_000)
        table.bet("Ann", "banker", 1_000, seat=3, coup=coup)
    between()
    table.play(1, "banker")
    table.play(9, "banker")
    assert marks(table) == {(TABLE, 3, "EUR"): 50}
    assert table.cash("Ann") == 2_000 + 1_950


def test_a_new_shoe_begins_without_marks(table, between):
    won(table, ("Ann", 3, 10_000))
    table.hear(table.game.end_shoe())
    between()
    won(table, ("Ann", 3, 2_000), coup=2)
    assert marks(table) == {(TABLE, 3, "EUR"): 100}
    assert SHOE == "S1"


def test_the_settlement_and_the_end_of_the_shoe_in_one_batch(table):
    table.deposit("Ann", 10_000)
    table.bet("Ann", "banker", 10_000, seat=3)
    table.hear(table.game.close(1), table.game.conclude(1, "banker"), table.game.end_shoe())
    assert collected(table) == [(3, 500, 0, "shoe_ended")]
    assert table.cash("Ann") == 19_500
