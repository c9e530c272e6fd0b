"""What a table takes, and what a player, or his operator, has limited him to (W8, W37)."""

from datetime import time, timedelta
from typing import Any

import pytest

from schemas.commands.wallet import Deposit, GrantFreeBet, Refund, RequestWithdrawal, RollBack, SetLimit, Tip
from schemas.events.accounts import LimitSet, TransactionRefused
from schemas.events.wallet import BetRefused
from schemas.house import House, TableLimit
from schemas.refusal import Refusal
from services.runtime.settings import Settings
from services.wallet.core.limits import Bound
from services.wallet.core.state import Policy
from tests.wallet.world import HOUSES, OPERATOR, World

DAY = timedelta(days=1).total_seconds()


@pytest.fixture(params=[False, True], ids=["", "restarted"])
def between(request: pytest.FixtureRequest, world: World) -> Any:
    """What happens between two steps of a test: nothing, or a restart."""
    return world.restart if request.param else lambda: None


def limited(*limits: dict[str, str]) -> House:
    """The Dutch house with limits at the table, in euro unless said."""
    rows = tuple(TableLimit.model_validate({"currency": "EUR"} | each) for each in limits)
    return HOUSES["nl"].model_copy(update={"limits": rows})


def seated(world: World, *limits: dict[str, str], coups: int = 1) -> None:
    """Ann and Bea at a table with limits, with 1,000,000 each."""
    world.open_table(limited(*limits), coups=coups)
    for who in ("Ann", "Bea"):
        world.deposit(who, 1_000_000)


def codes(world: World, *bets: tuple[str, str, int]) -> list[str]:
    """What each of these bets (player, spot, stake) is answered."""
    return [world.bet(*bet).code for bet in bets]


OK, OVER = "OK", "LIMIT_REACHED"


# ---------------------------------------------------------------------------------------- limits of the table


def test_w8_the_minimum_is_of_a_single_bet(world):
    seated(world, {"minimum": "5.00"})
    assert codes(world, ("Ann", "tie", 499), ("Ann", "tie", 500), ("Ann", "tie", 499)) == [OVER, OK, OVER]
    (first, _) = world.events(BetRefused)
    assert (first.data.code, first.data.field) == (OVER, "stake")


def test_w8_the_maximum_is_of_a_players_bets_on_the_spot_in_the_coup(world, between):
    seated(world, {"maximum": "100.00"}, coups=2)
    bets = (
        ("Ann", "player", 6_000),
        ("Ann", "player", 4_001),
        ("Ann", "player", 4_000),
        ("Ann", "player", 1),
    )
    assert codes(world, *bets) == [OK, OVER, OK, OVER]
    between()
    assert codes(world, ("Ann", "player", 1), ("Ann", "banker", 10_000), ("Bea", "player", 10_000)) == [
        OVER,
        OK,
        OK,
    ]
    assert world.bet("Ann", "player", 10_000, coup=2).code == OK


def test_w8_what_is_taken_back_makes_room(world, between):
    seated(world, {"maximum": "100.00"})
    world.bet("Ann", "player", 10_000, tx="T1")
    between()
    world.do(Refund, target="T1", amount=2_500)
    assert codes(world, ("Ann", "player", 2_501), ("Ann", "player", 2_500)) == [OVER, OK]
    world.do(RollBack, target="T1")
    assert codes(world, ("Ann", "player", 7_501), ("Ann", "player", 7_500)) == [OVER, OK]


def test_w8_the_maximum_of_a_coup_is_everybodys(world, between):
    seated(world, {"spot": "tie", "coup_maximum": "50.00"})
    assert codes(world, ("Ann", "tie", 3_000), ("Bea", "tie", 2_001)) == [OK, OVER]
    between()
    assert codes(world, ("Bea", "tie", 2_000), ("Ann", "tie", 1), ("Ann", "player", 9_000)) == [OK, OVER, OK]


def test_w8_the_differential_between_player_and_banker(world, between):
    seated(world, {"differential": "100.00"})
    bets = (
        ("Ann", "player", 10_000),
        ("Ann", "player", 1),
        ("Bea", "banker", 15_000),  # now 5,000 more on Banker
        ("Ann", "banker", 5_001),
        ("Ann", "banker", 5_000),
        ("Ann", "tie", 900_000),
    )
    assert codes(world, *bets) == [OK, OVER, OK, OVER, OK, OK]
    between()
    assert codes(world, ("Bea", "banker", 1), ("Ann", "player", 20_001), ("Ann", "player", 20_000)) == [
        OVER,
        OVER,
        OK,
    ]


def test_w8_a_spots_own_limits_and_those_of_every_spot_hold_together(world):
    seated(world, {"minimum": "10.00", "maximum": "100.00"}, {"spot": "tie", "maximum": "20.00"})
    bets = (("Ann", "tie", 2_001), ("Ann", "tie", 999), ("Ann", "tie", 2_000), ("Ann", "banker", 10_001))
    assert codes(world, *bets) == [OVER, OVER, OK, OVER]


def test_w8_a_currency_has_its_own_limits_or_none(world):
    seated(world, {"maximum": "100.00"}, {"currency": "JPY", "maximum": "500"})
    for currency in ("JPY", "USD"):
        world.deposit("Ann", 1_000_000, currency=currency)
    assert world.bet("Ann", "tie", 501, currency="JPY").code == OVER
    assert world.bet("Ann", "tie", 500, currency="JPY").code == OK
    assert world.bet("Ann", "tie", 10_000).code == OK, "yen do not count for euros"
    assert world.bet("Ann", "tie", 1_000_000, currency="USD").code == OK


def test_w8_a_coup_keeps_the_limits_that_it_was_opened_with(world):
    seated(world, {"maximum": "100.00"})
    world.hear(world.game.set_house(limited({"maximum": "1.00"})), world.game.open(2))
    world.restart()
    assert world.bet("Ann", "tie", 10_000).code == OK
    assert world.bet("Ann", "tie", 101, coup=2).code == OVER


def test_w8_two_bets_of_one_batch_are_looked_at_one_after_the_other(world):
    seated(world, {"maximum": "100.00"})
    first, second = world.submit(
        world.bet_command("Ann", "tie", 6_000), world.bet_command("Ann", "tie", 6_000)
    )
    world.wallet.step()
    assert (first.result(0).code, second.result(0).code) == (OK, OVER)


# ------------------------------------------------------------------------------------------ a player's limits


def limit(world: World, kind: str, period: str, value: int | None, **fields: Any) -> str:
    """Set a limit of Ann's; the gaming day from which it holds."""
    currency = None if kind == "time" else "EUR"
    return world.do(
        SetLimit, **{"kind": kind, "period": period, "currency": currency, "value": value} | fields
    ).event.effective


def playing(world: World, coups: int = 40, cash: int = 1_000_000) -> None:
    world.open_table(coups=coups)
    world.deposit("Ann", cash)


def test_w37_a_limit_on_stakes_counts_what_was_staked_before_it(world, between):
    playing(world)
    world.bet("Ann", "tie", 700)
    assert limit(world, "stake", "day", 1_000) == "2026-03-01"
    between()
    assert codes(world, ("Ann", "tie", 301), ("Ann", "tie", 300), ("Ann", "tie", 1)) == [OVER, OK, OVER]


def test_w37_a_limit_for_a_coup(world, between):
    playing(world)
    limit(world, "stake", "coup", 1_000)
    assert codes(world, ("Ann", "tie", 600), ("Ann", "player", 401)) == [OK, OVER]
    between()
    assert codes(world, ("Ann", "player", 400), ("Ann", "banker", 1)) == [OK, OVER]
    assert world.bet("Ann", "player", 1_000, coup=2).code == OK


@pytest.mark.parametrize(
    ("period", "first", "days"),
    [  # 1 March 2026 is a Sunday
        ("day", "2026-03-02", 1),
        ("week", "2026-03-02", 1),
        ("month", "2026-04-01", 31),
    ],
)
def test_w37_raised_when_the_running_period_is_over(world, between, period, first, days):
    playing(world)
    assert limit(world, "stake", period, 1_000) == "2026-03-01"
    assert limit(world, "stake", period, 2_000) == first
    assert world.bet("Ann", "tie", 1_001).code == OVER
    world.clock.advance(
        (days - 1) * DAY + 17 * 3_600
    )  # 05:00 of the last day: a gaming day lasts until 06:00
    between()
    assert world.bet("Ann", "tie", 1_001).code == OVER
    world.clock.advance(3_600)
    between()
    assert world.bet("Ann", "tie", 1_001).code == OK
    assert world.bet("Ann", "tie", 1_000).code == OVER


def test_w37_a_new_week_begins_on_monday_and_not_after_seven_days(world, between):
    playing(world)
    world.clock.advance(DAY)  # Monday
    limit(world, "stake", "week", 1_000)
    world.bet("Ann", "tie", 1_000)
    for days in range(6):
        between()
        assert world.bet("Ann", "tie", 1, coup=2 + days).code == OVER
        world.clock.advance(DAY)
    between()
    assert world.bet("Ann", "tie", 1, coup=20).code == OVER, "Sunday"
    world.clock.advance(DAY)
    between()
    assert world.bet("Ann", "tie", 1_000, coup=21).code == OK, "Monday"


def test_w37_lowered_at_once(world, between):
    playing(world)
    limit(world, "stake", "day", 2_000)
    world.bet("Ann", "tie", 900)
    assert limit(world, "stake", "day", 1_000) == "2026-03-01"
    between()
    assert codes(world, ("Ann", "tie", 101), ("Ann", "tie", 100)) == [OVER, OK]


def test_w37_lowering_takes_back_a_raise_that_waits(world, between):
    playing(world)
    limit(world, "stake", "day", 1_000)
    limit(world, "stake", "day", 9_000)
    between()
    limit(world, "stake", "day", 500)
    world.clock.advance(DAY)
    between()
    assert codes(world, ("Ann", "tie", 501), ("Ann", "tie", 500)) == [OVER, OK]


def test_w37_to_have_no_limit_any_more_is_a_raise(world, between):
    playing(world)
    limit(world, "stake", "day", 1_000)
    assert limit(world, "stake", "day", None) == "2026-03-02"
    between()
    assert world.bet("Ann", "tie", 1_001).code == OVER
    world.clock.advance(DAY)
    between()
    assert world.bet("Ann", "tie", 500_000).code == OK
    assert limit(world, "stake", "day", 10) == "2026-03-02", "a new one holds at once"
    assert world.bet("Ann", "tie", 1).code == OVER


def test_w37_the_event_says_what_was_and_what_will_be(world):
    playing(world)
    limit(world, "stake", "month", 1_000)
    limit(world, "stake", "month", 5_000)
    first, second = (each.data for each in world.events(LimitSet))
    assert (first.before, first.value, first.effective, first.by) == (
        None,
        1_000,
        "2026-03-01",
        "machine:till",
    )
    assert (second.before, second.value, second.effective) == (1_000, 5_000, "2026-04-01")


def test_w37_what_is_rolled_back_was_not_staked(world, between):
    playing(world)
    limit(world, "stake", "day", 1_000)
    world.bet("Ann", "tie", 1_000, tx="T1")
    world.do(RollBack, target="T1")
    between()
    assert codes(world, ("Ann", "tie", 1_001), ("Ann", "tie", 1_000)) == [OVER, OK]
    world.hear(world.game.void(1))
    between()
    assert world.bet("Ann", "tie", 1_000, coup=2).code == OK, "nor what is void"
    world.play(2, "player")
    between()
    assert world.bet("Ann", "tie", 1, coup=3).code == OVER
    world.hear(world.game.void_after(2))
    between()
    assert world.bet("Ann", "tie", 1_000, coup=3).code == OK, "not even later"


def test_w37_a_limit_on_losses(world, between):
    playing(world)
    limit(world, "loss", "day", 1_000)
    world.bet("Ann", "player", 600)
    world.play(1, "banker")  # 600 are lost
    between()
    assert world.bet("Ann", "player", 401, coup=2).code == OVER
    assert world.bet("Ann", "player", 400, coup=2).code == OK
    world.play(2, "player")  # 400 are won: 200 are lost
    between()
    assert world.bet("Ann", "banker", 801, coup=3).code == OVER
    assert world.bet("Ann", "banker", 800, coup=3).code == OK
    world.play(3, "tie")
    between()
    assert world.bet("Ann", "banker", 800, coup=4).code == OK


def test_w37_what_is_in_play_may_be_lost_as_well(world, between):
    """Three bets of 600 before any is settled could lose 1,800."""
    playing(world)
    limit(world, "loss", "day", 1_000)
    assert world.bet("Ann", "player", 600, tx="T1").code == OK
    between()
    assert world.bet("Ann", "banker", 600).code == OVER
    assert world.bet("Ann", "player", 600, coup=2).code == OVER
    assert world.bet("Ann", "player", 400, coup=2).code == OK
    between()
    world.do(RollBack, target="T1")
    assert world.bet("Ann", "player", 601, coup=3).code == OVER
    assert world.bet("Ann", "player", 600, coup=3).code == OK


def test_w37_a_correction_changes_what_was_lost(world, between):
    playing(world)
    limit(world, "loss", "day", 1_000)
    world.bet("Ann", "player", 1_000)
    world.play(1, "banker")
    assert world.bet("Ann", "player", 1, coup=2).code == OVER
    world.hear(world.game.correct(1, "tie"))
    between()
    assert world.bet("Ann", "player", 1_000, coup=2).code == OK


def test_w37_a_free_bet_loses_nothing_of_the_players(world, between):
    playing(world)
    limit(world, "loss", "day", 1_000)
    grant = world.do(GrantFreeBet, amount=900, campaign="spring").event.grant
    world.bet("Ann", "player", 900, grant=grant)
    between()
    assert world.bet("Ann", "player", 1_000).code == OK
    world.play(1, "player")
    between()
    assert world.bet("Ann", "player", 2_001, coup=2).code == OVER
    assert world.bet("Ann", "player", 2_000, coup=2).code == OK


@pytest.mark.parametrize(("period", "days"), [("day", 1), ("week", 1), ("month", 31)])
def test_w37_a_limit_on_deposits(world, between, period, days):
    world.deposit("Ann", 600)
    limit(world, "deposit", period, 1_000)
    between()
    refused = world.deposit("Ann", 401, tx="D2")
    assert (refused.code, refused.field) == (OVER, "amount")
    assert world.deposit("Ann", 400).code == OK
    between()
    assert world.deposit("Ann", 1).code == OVER
    assert world.deposit("Ann", 5_000, currency="JPY").code == OK, "of euros"
    world.clock.advance(days * DAY)
    between()
    assert world.deposit("Ann", 401, tx="D2").code == OVER, "a final answer stays one (W6)"
    assert world.deposit("Ann", 1_000).code == OK


def test_w37_a_limit_on_time(world, between):
    playing(world)
    limit(world, "time", "day", 120)
    assert world.bet("Ann", "tie", 1).code == OK
    world.clock.advance(119 * 60 + 59)
    between()
    assert world.bet("Ann", "tie", 1).code == OK
    world.clock.advance(1)
    between()
    refused = world.bet("Ann", "tie", 1)
    assert (refused.code, refused.field) == (OVER, "stake")
    world.clock.advance(DAY)
    between()
    assert world.bet("Ann", "tie", 1).code == OK


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"kind": "time", "period": "week", "currency": None}, "period"),
        ({"kind": "time", "period": "day", "currency": "EUR"}, "period"),
        ({"kind": "stake", "period": "day", "currency": None}, "currency"),
        ({"kind": "loss", "period": "coup"}, "period"),
        ({"kind": "deposit", "period": "coup"}, "period"),
    ],
)
def test_w37_limits_that_are_none(world, fields, field):
    refusal = world.refusal(SetLimit, **{"value": 1} | fields)
    assert (refusal.code, refusal.field) == ("INVALID", field)
    assert world.events() == []


def test_w37_other_players_and_other_kinds_are_not_touched(world, between):
    playing(world)
    world.deposit("Bea", 5_000)
    limit(world, "stake", "day", 1)
    limit(world, "loss", "month", 100_000)
    between()
    assert world.bet("Bea", "tie", 5_000).code == OK
    assert world.bet("Ann", "tie", 2).code == OVER
    assert world.do(Tip, amount=700).code == OK
    assert world.do(RequestWithdrawal, amount=700).code == OK


def test_w37_limit_deposit_and_bets_of_a_new_player_in_one_batch(world):
    world.open_table()
    fields = {"kind": "stake", "period": "day", "currency": "EUR", "value": 100}
    answers = world.submit(
        world.command(SetLimit, **fields),
        world.command(SetLimit, **fields | {"kind": "deposit", "value": 1_000}),
        *(world.command(Deposit, amount=amount) for amount in (900, 200)),
        *(world.bet_command("Ann", "tie", stake) for stake in (60, 60, 40)),
    )
    world.wallet.step()
    assert [each.result(0).code for each in answers] == [OK, OK, OK, OVER, OK, OVER, OK]


def test_w37_zone_and_cut_off_say_when_a_day_ends(tmp_path):
    """In Amsterdam, at 04:00: on 29 March 2026 the clocks go from 02:00 to 03:00."""
    settings = Settings(operator=OPERATOR, zone="Europe/Amsterdam", cut_off=time(4))
    with World(tmp_path, settings) as world:
        playing(world)
        world.clock.advance(27 * DAY + 13 * 3_600)  # 29 March, 01:00 UTC: 03:00 there, the 28th
        assert limit(world, "stake", "day", 1_000) == "2026-03-28"
        assert limit(world, "stake", "day", 2_000) == "2026-03-29"
        world.clock.advance(59 * 60)
        assert world.bet("Ann", "tie", 1_001).code == OVER
        world.clock.advance(60)
        assert world.bet("Ann", "tie", 2_000).code == OK


# --------------------------------------------------------------------------------------- an operator's limits


def test_w37_limits_that_every_player_has(world, between):
    world.use(
        Policy(
            player_bounds=(
                Bound("deposit", "day", "EUR", 5_000),
                Bound("stake", "day", "EUR", 1_000),
                Bound("time", "day", None, 60),
            )
        )
    )
    world.open_table(coups=2)
    assert world.deposit("Ann", 5_001).code == OVER
    assert world.deposit("Ann", 5_000).code == OK
    between()
    assert codes(world, ("Ann", "tie", 1_001), ("Ann", "tie", 600), ("Ann", "tie", 401)) == [OVER, OK, OVER]
    between()
    assert codes(world, ("Ann", "tie", 401), ("Ann", "tie", 400)) == [OVER, OK]
    limit(world, "stake", "day", 500_000)
    assert world.bet("Ann", "tie", 1).code == OVER, "a player's own limit takes nothing away from that"
    world.clock.advance(3_600)
    world.deposit("Bea", 1_000)
    assert world.bet("Bea", "tie", 1).code == OK


def test_w37_a_player_may_set_himself_less(world, between):
    world.use(Policy(player_bounds=(Bound("stake", "day", "EUR", 1_000),)))
    world.open_table()
    world.deposit("Ann", 5_000)
    limit(world, "stake", "day", 300)
    between()
    assert codes(world, ("Ann", "tie", 301), ("Ann", "tie", 300)) == [OVER, OK]


def test_w37_limits_that_come_into_force_count_what_was_before(world):
    world.open_table()
    world.deposit("Ann", 5_000)
    world.bet("Ann", "tie", 700)
    world.use(Policy(player_bounds=(Bound("stake", "week", "EUR", 1_000),)))
    assert codes(world, ("Ann", "tie", 301), ("Ann", "tie", 300)) == [OVER, OK]


def test_w26_the_largest_single_amounts_of_an_operator(world):
    world.use(
        Policy(
            amount_max={"EUR": 10_000},
            deposit_max={"EUR": 5_000},
            withdrawal_max={"EUR": 700},
            stake_max={"EUR": 300},
        )
    )
    world.open_table()
    refused = world.deposit("Ann", 5_001, tx="D1")
    assert (refused.code, refused.field) == (OVER, "amount")
    assert world.deposit("Ann", 5_000).code == OK
    assert world.deposit("Ann", 900_000, currency="JPY").code == OK, "another currency"
    assert codes(world, ("Ann", "tie", 301), ("Ann", "tie", 300)) == [OVER, OK]
    assert world.do(RequestWithdrawal, amount=701).code == OVER
    assert world.do(RequestWithdrawal, amount=700).code == OK
    refusal = world.refusal(Tip, amount=10_001)
    assert (refusal.code, refusal.field) == (OVER, "amount")
    assert [each.data.asked["amount"] for each in world.events(TransactionRefused)] == [5_001, 701]


def test_w23_a_currency_that_the_operator_does_not_use(world):
    world.use(Policy(currencies=frozenset({"EUR"})))
    world.open_table()
    world.deposit("Ann", 100)
    for command in (
        world.command(Deposit, amount=100, currency="USD"),
        world.bet_command("Ann", "tie", 100, currency="USD"),
        world.command(Tip, amount=1, currency="USD"),
    ):
        with pytest.raises(Refusal, match="op plays in EUR, not in USD") as caught:
            world.ask(command)
        assert (caught.value.code, caught.value.field) == ("CURRENCY_MISMATCH", "currency")
