"""Results that were announced wrong: paid anew, by the rules of their time, and owed where it is spent (W17,
W21, W22)."""

from typing import Any

import pytest

from schemas.commands.wallet import (
    AnswerDebit,
    CollectCommission,
    GrantFreeBet,
    RecoverReceivable,
    Refund,
    RequestWithdrawal,
    RollBack,
    Tip,
    WithdrawalStep,
    WithdrawFreeBet,
)
from schemas.envelope import EVENT_BYTES_MAX
from schemas.events.base import EventRef
from schemas.events.wallet import (
    ConflictDetected,
    CoupReturned,
    CoupSettled,
    SettlementCorrected,
    Shortfall,
)
from services.runtime.settings import Settings
from services.wallet.core.state import Policy
from tests.wallet.world import OPERATOR, Game, World, house, lines_of


@pytest.fixture(params=[False, True], ids=["", "restarted"])
def between(request: pytest.FixtureRequest, world: World) -> Any:
    """What happens between two steps of a test: nothing, or a restart."""
    return world.restart if request.param else lambda: None


def corrections(world: World) -> list[SettlementCorrected]:
    return [each.data for each in world.events(SettlementCorrected)]


def how(world: World, coup: int = 1) -> list[tuple[str, str, int, int]]:
    """Spot, status, what came back, and commission of each bet."""
    return [(each.spot, each.status, each.returned, each.commission) for each in world.bets(coup)]


def three_spots(world: World) -> None:
    """Ann has 1,000 on each spot, out of 3,000."""
    world.open_table()
    world.deposit("Ann", 3_000)
    for spot in ("player", "banker", "tie"):
        world.bet("Ann", spot, 1_000)


CASH_AFTER = {"player": 2_000, "banker": 1_950, "tie": 11_000, "void": 3_000}
"""What Ann has when the coup ends like that: the price of a tie is 8 to 1, a Banker win costs 50."""


# --------------------------------------------------------------------------------------- another result (W22)


@pytest.mark.parametrize("first", ["player", "banker", "tie"])
@pytest.mark.parametrize("second", ["player", "banker", "tie", "void"])
def test_w22_whatever_was_paid_first_the_end_is_that_of_the_right_result(world, between, first, second):
    three_spots(world)
    world.play(1, first)
    assert world.cash("Ann") == CASH_AFTER[first]
    between()
    world.hear(world.game.void_after(1) if second == "void" else world.game.correct(1, second))
    assert world.cash("Ann") == CASH_AFTER[second]
    direct = {
        "player": {"4010": 1_000, "4011": -1_000, "4012": -1_000},
        "banker": {"4010": -1_000, "4011": 1_000, "4012": -1_000, "4020": -50},
        "tie": {"4012": 8_000},
        "void": {},
    }[second]
    assert world.totals() == {"1030": 3_000, "2010": -CASH_AFTER[second]} | direct
    (corrected,) = corrections(world)
    assert (corrected.version, corrected.part, corrected.parts) == (2, 1, 1)
    assert corrected.outcome == (None if second == "void" else second)
    assert corrected.shortfalls == ()


def test_w22_what_a_correction_says(world, between):
    three_spots(world)
    world.play(1, "banker")
    concluded = world.game.stream.events[-1]
    between()
    world.hear(world.game.correct(1, "player", reason="a nine was read as a six"))
    told = world.game.stream.events[-1]
    (event,) = world.events(SettlementCorrected)
    data = event.data
    for ref, said in ((data.result, told), (data.corrects, concluded)):
        assert (ref.stream, ref.sequence, ref.hash) == (said.stream, said.sequence, said.hash)
    assert (data.house_number, data.outcome, data.reason, data.approver) == (
        1,
        "player",
        "a nine was read as a six",
        "person:boss",
    )
    assert [(each.bet, each.before.tier, each.after.tier) for each in data.bets] == [
        ("main.1", "lose", "win"),
        ("main.2", "win", "lose"),
        ("main.3", "lose", "lose"),
    ]
    banker = data.bets[1]
    assert (banker.before.returned, banker.before.commission, banker.before.commission_exact) == (
        1_950,
        50,
        "50",
    )
    assert (banker.after.returned, banker.after.commission, banker.after.commission_exact) == (0, 0, "0")
    assert lines_of(event) == {"2010": -50, "4010": 2_000, "4011": -2_000, "4020": 50}
    assert event.envelope.causationid == told.envelope.id
    assert how(world) == [("player", "won", 2_000, 0), ("banker", "lost", 0, 0), ("tie", "lost", 0, 0)]


def test_w22_the_exact_commission_of_before_is_said_again(world):
    world.open_table()
    world.deposit("Ann", 1_010)
    world.bet("Ann", "banker", 1_010)
    world.play(1, "banker")
    world.hear(world.game.correct(1, "tie"))
    (bet,) = corrections(world)[0].bets
    assert (bet.before.commission, bet.before.commission_exact, bet.after.returned) == (51, "101/2", 1_010)


def test_w22_by_the_rules_that_were_in_force_when_the_bet_was_taken(world, between):
    world.open_table(house(rate="0.1"))
    world.deposit("Ann", 1_000)
    world.bet("Ann", "banker", 1_000)
    world.play(1, "player")
    world.hear(world.game.set_house("nl"))
    between()
    world.hear(world.game.correct(1, "banker"))
    assert world.cash("Ann") == 1_900
    assert (corrections(world)[0].house_number, how(world)) == (1, [("banker", "won", 1_900, 100)])


def test_w22_a_chain_of_corrections(world, between):
    three_spots(world)
    world.play(1, "player")
    version = 1
    for outcome in ("banker", "tie", "tie", "player", "banker"):
        version += 1
        between()
        world.hear(world.game.correct(1, outcome, version))
        assert world.cash("Ann") == CASH_AFTER[outcome]
    world.hear(world.game.void_after(1, version + 1))
    assert world.cash("Ann") == 3_000
    assert world.totals() == {"1030": 3_000, "2010": -3_000}
    assert [each.version for each in corrections(world)] == [2, 3, 4, 5, 6, 7]
    for before, after in zip(corrections(world), corrections(world)[1:], strict=False):
        assert after.corrects == before.result
    assert [each[1] for each in how(world)] == ["void"] * 3
    assert len(world.events(CoupSettled)) == 1
    assert world.events(CoupReturned) == []


def test_w22_an_older_or_repeated_correction_pays_nobody(world, between):
    three_spots(world)
    world.play(1, "player")
    world.hear(world.game.correct(1, "banker"))
    between()
    again = world.game.stream.record(len(world.game.stream.events))
    world.hear(again, again)
    assert len(corrections(world)) == 1
    assert world.events(ConflictDetected) == []
    world.hear(world.game.correct(1, "tie", 2), world.game.conclude(1, "tie", version=3))
    assert world.cash("Ann") == CASH_AFTER["banker"]
    assert [each.data.kind for each in world.events(ConflictDetected)] == ["repeated_settlement"] * 2
    assert world.wallet.inbox.held == {}


def test_w22_settled_and_corrected_in_one_batch(world):
    three_spots(world)
    world.hear(world.game.close(1), world.game.conclude(1, "player"), world.game.correct(1, "tie"))
    assert world.cash("Ann") == CASH_AFTER["tie"]
    assert len(corrections(world)) == 1


def test_w22_two_corrections_in_one_batch(world, between):
    three_spots(world)
    world.play(1, "player")
    between()
    world.hear(world.game.correct(1, "tie"), world.game.correct(1, "banker", 3))
    assert world.cash("Ann") == CASH_AFTER["banker"]


def test_w22_a_coup_without_bets_is_corrected_too(world):
    world.open_table()
    world.play(1, "player")
    world.hear(world.game.correct(1, "tie"))
    (corrected,) = corrections(world)
    assert (corrected.bets, corrected.entry, corrected.parts) == ((), (), 1)


def test_w22_what_was_taken_back_or_refused_has_no_part_in_it(world, between):
    world.open_table()
    world.deposit("Ann", 3_000)
    world.bet("Ann", "player", 1_000, tx="T1")
    world.bet("Ann", "player", 1_000, tx="T2")
    world.bet("Ann", "player", 9_000)
    world.do(RollBack, target="T1")
    world.do(Refund, target="T2", amount=400)
    world.play(1, "banker")
    between()
    world.hear(world.game.correct(1, "player"))
    assert [(each.bet, each.stake, each.after.returned) for each in corrections(world)[0].bets] == [
        ("main.2", 600, 1_200)
    ]
    assert world.cash("Ann") == 3_600


def test_a_void_coup_is_not_corrected(world, between):
    three_spots(world)
    world.hear(world.game.close(1), world.game.void(1))
    between()
    world.game.results[1] = _ref(world)
    world.hear(world.game.correct(1, "tie"), world.game.void_after(1))
    assert world.cash("Ann") == 3_000
    assert corrections(world) == []
    assert len(world.events(ConflictDetected)) == 2


def _ref(world: World) -> EventRef:
    event = world.game.stream.events[-1]
    return EventRef(stream=event.stream, sequence=event.sequence, hash=event.hash)


# ---------------------------------------------------------------------------- void after settlement (W21)


def test_w21_a_void_gives_every_stake_back_and_takes_every_win(world, between):
    world.open_table()
    for who, spot in (("Ann", "banker"), ("Bea", "player"), ("Cleo", "tie")):
        world.deposit(who, 10_000)
        world.bet(who, spot, 10_000)
    world.play(1, "banker")
    assert [world.cash(who) for who in ("Ann", "Bea", "Cleo")] == [19_500, 0, 0]
    between()
    world.hear(world.game.void_after(1, reason="two shoes were mixed"))
    assert [world.cash(who) for who in ("Ann", "Bea", "Cleo")] == [10_000] * 3
    assert world.totals() == {"1030": 30_000, "2010": -30_000}
    (corrected,) = corrections(world)
    assert (corrected.outcome, corrected.reason, corrected.approver) == (None, "two shoes were mixed", "boss")
    assert [(each.after.tier, each.after.returned) for each in corrected.bets] == [("void", 10_000)] * 3
    assert [each.status for each in world.bets()] == ["void"] * 3


def test_w21_a_void_coup_is_over_for_good(world, between):
    three_spots(world)
    world.play(1, "banker")
    world.hear(world.game.void_after(1))
    between()
    world.hear(world.game.correct(1, "tie", 3), world.game.void_after(1, 4))
    assert world.cash("Ann") == 3_000
    assert len(corrections(world)) == 1
    assert len(world.events(ConflictDetected)) == 2


# --------------------------------------------------------------------------------------- what is spent (W17)


def test_w17_money_case_11_a_win_taken_back_from_a_player_who_spent_it(world, between):
    """Cash 0; win 9,500; withdraw 9,000; take the win back: cash 0, receivable 9,000, and it is said."""
    world.open_table()
    world.deposit("Ann", 10_000)
    world.bet("Ann", "banker", 10_000)
    assert world.cash("Ann") == 0
    world.play(1, "banker")
    world.do(Tip, amount=10_000)  # the stake
    assert world.cash("Ann") == 9_500
    withdrawal = world.do(RequestWithdrawal, amount=9_000).event.withdrawal
    for step in ("approve", "pay"):
        world.do(WithdrawalStep, withdrawal=withdrawal, step=step)
    between()
    world.hear(world.game.void_after(1))
    assert world.cash("Ann") == 0
    assert world.totals()["1060"] == 9_000
    assert corrections(world)[0].shortfalls == (
        Shortfall(account=world.account("Ann"), currency="EUR", amount=9_000),
    )
    assert world.wealth() == {"negative_receivable": "90.00"}


def test_w17_the_shortfall_is_that_of_the_net(world, between):
    """What comes back for one bet pays what must be given back for another."""
    world.open_table()
    world.deposit("Ann", 2_000)
    world.bet("Ann", "banker", 1_000)
    world.bet("Ann", "player", 1_000)
    world.play(1, "banker")  # 1,950 and nothing
    world.do(Tip, amount=1_950)
    between()
    world.hear(world.game.correct(1, "player"))  # nothing and 2,000: 50 more than was paid
    assert (world.cash("Ann"), world.totals().get("1060", 0)) == (50, 0)
    assert corrections(world)[0].shortfalls == ()


def test_w17_the_debt_stays_until_it_is_paid(world, between):
    world.open_table()
    world.deposit("Ann", 1_000)
    world.bet("Ann", "player", 1_000)
    world.play(1, "player")
    world.do(Tip, amount=2_000)
    world.hear(world.game.correct(1, "banker"))
    assert world.totals()["1060"] == 2_000
    world.deposit("Ann", 1_500)
    between()
    assert world.wealth() == {"cash": "15.00", "negative_receivable": "20.00"}
    assert world.do(RequestWithdrawal, amount=1).code == "INSUFFICIENT_FUNDS", "nothing is withdrawable"
    assert world.do(RecoverReceivable, amount=2_001).code == "LIMIT_REACHED"
    assert world.do(RecoverReceivable, amount=2_000).code == "INSUFFICIENT_FUNDS"
    assert world.do(RecoverReceivable, amount=1_500).code == "OK"
    assert world.wealth() == {"negative_receivable": "5.00"}
    world.deposit("Ann", 700)
    assert world.wealth() == {"cash": "7.00", "negative_receivable": "5.00", "withdrawable": "2.00"}
    assert world.do(RequestWithdrawal, amount=201).code == "INSUFFICIENT_FUNDS"
    assert world.do(RequestWithdrawal, amount=200).code == "OK"


def test_w17_corrected_to_and_fro_nothing_is_lost(world, between):
    """What was owed after the first correction comes back as cash with the second: the books agree."""
    world.open_table()
    world.deposit("Ann", 1_000)
    world.bet("Ann", "player", 1_000)
    world.play(1, "player")
    world.do(Tip, amount=1_500)
    world.hear(world.game.correct(1, "banker"))
    between()
    world.hear(world.game.correct(1, "player", 3))
    assert world.totals() == {"1030": 1_000, "1060": 1_500, "2010": -2_000, "2080": -1_500, "4010": 1_000}
    world.do(RecoverReceivable, amount=1_500)
    assert world.cash("Ann") == 500


# ------------------------------------------------------------------------------------- where stakes come from


@pytest.mark.parametrize("outcome", ["banker", "player", "tie", "void"])
@pytest.mark.parametrize("first", ["banker", "player", "tie"])
def test_a_free_bet_is_corrected(world, between, first, outcome):
    world.open_table()
    grant = world.do(GrantFreeBet, amount=1_000, campaign="spring").event.grant
    world.bet("Ann", "banker", 1_000, grant=grant)
    world.play(1, first)
    between()
    world.hear(world.game.void_after(1) if outcome == "void" else world.game.correct(1, outcome))
    totals = {
        "banker": {"4011": 1_000, "2010": -950, "4020": -50},
        "player": {"5010": 1_000, "4011": -1_000},
        "tie": {"5010": 1_000, "2020": -1_000},
        "void": {"5010": 1_000, "2020": -1_000},
    }[outcome]
    assert world.totals() == totals
    between()
    world.hear(world.game.open(2))
    comes_back = outcome in ("tie", "void")
    again = world.bet("Ann", "player", 1_000, coup=2, grant=grant)
    assert again.code == ("OK" if comes_back else "GRANT_UNKNOWN")


def test_a_free_bet_is_settled_and_corrected_in_one_batch(world):
    """Wherever a batch ends: the stake that comes back can be used again."""
    world.open_table()
    grant = world.do(GrantFreeBet, amount=1_000, campaign="spring").event.grant
    world.bet("Ann", "banker", 1_000, grant=grant)
    world.hear(world.game.close(1), world.game.conclude(1, "player"), world.game.correct(1, "tie"))
    world.hear(world.game.open(2))
    assert world.wealth() == {"bonus": "10.00"}
    assert world.bet("Ann", "player", 1_000, coup=2, grant=grant).code == "OK"


@pytest.mark.parametrize("end", ["used", "withdrawn"])
def test_a_free_bet_that_was_given_back_by_mistake_is_gone_already(world, between, end):
    """A tie gave it back, it was used again or taken back, and then the coup was none: it cannot be paid
    twice."""
    world.open_table(coups=2)
    grant = world.do(GrantFreeBet, amount=1_000, campaign="spring").event.grant
    world.bet("Ann", "banker", 1_000, grant=grant)
    world.play(1, "tie")
    if end == "used":
        world.bet("Ann", "player", 1_000, coup=2, grant=grant)
    else:
        world.do(WithdrawFreeBet, grant=grant, reason="cancelled")
    between()
    world.hear(world.game.correct(1, "player"))
    assert world.wallet.inbox.held == {}
    assert world.deposit("Ann", 100).code == "OK", "and wallet goes on"
    assert len(corrections(world)) == 1
    assert world.totals().get("2020", 0) == 0
    if end == "used":
        world.play(2, "tie")
        assert world.bet("Ann", "player", 1_000, coup=2, grant=grant).code == "ROUND_CLOSED"


def deferred(world: World, *, collected: bool) -> None:
    """Ann won 10,000 on Banker; 500 of commission were marked, and collected."""
    world.open_table(house(collection="deferred"), coups=2)
    world.deposit("Ann", 10_000)
    world.bet("Ann", "banker", 10_000, seat=3)
    world.play(1, "banker")
    assert (world.cash("Ann"), world.totals()["1065"]) == (20_000, 500)
    if collected:
        world.do(CollectCommission, table="T1", seat=3)
        assert (world.cash("Ann"), world.totals().get("1065")) == (19_500, None)


@pytest.mark.parametrize("collected", [False, True])
@pytest.mark.parametrize(("outcome", "cash"), [("player", 0), ("tie", 10_000), ("void", 10_000)])
def test_a_deferred_commission_is_corrected(world, between, collected, outcome, cash):
    deferred(world, collected=collected)
    between()
    world.hear(world.game.void_after(1) if outcome == "void" else world.game.correct(1, outcome))
    assert world.cash("Ann") == cash
    assert "1065" not in world.totals()
    assert "4020" not in world.totals()
    assert world.refusal(CollectCommission, table="T1", seat=3).code == "NOTHING_OWED"
    if outcome == "player":
        between()
        world.hear(world.game.correct(1, "banker", 3))
        assert (world.cash("Ann"), world.totals()["1065"]) == (20_000, 500)
        assert world.do(CollectCommission, table="T1", seat=3).balance == 19_500


def test_a_collected_commission_is_taken_from_another_mark_of_the_seat(world, between):
    """Marks are one sum on a seat: what was collected for one coup settles what is marked for the next."""
    deferred(world, collected=True)
    world.bet("Ann", "banker", 4_000, seat=3, coup=2)
    world.play(2, "banker")
    assert world.totals()["1065"] == 200
    between()
    world.hear(world.game.correct(1, "player"))
    assert "1065" not in world.totals()
    assert world.cash("Ann") == 19_500 + 4_000 - 20_000 + 300
    assert world.totals()["4020"] == -200
    assert world.refusal(CollectCommission, table="T1", seat=3).code == "NOTHING_OWED"


def test_the_commission_of_another_seat_is_not_touched(world, between):
    deferred(world, collected=True)
    world.bet("Ann", "banker", 4_000, seat=4, coup=2)
    world.play(2, "banker")
    between()
    world.hear(world.game.correct(1, "player"))
    assert world.totals()["1065"] == 200
    assert world.do(CollectCommission, table="T1", seat=4).event.amount == 200


def test_a_seamless_correction_is_a_call_and_not_a_shortfall(world, between):
    world.use(Policy(seamless=True))
    world.open_table()
    asked = world.bet("Ann", "banker", 10_000)
    world.do(AnswerDebit, bet=asked.event.bet, status="done", code="OK")
    world.play(1, "banker")
    between()
    world.hear(world.game.correct(1, "player"))
    assert world.totals() == {"1050": 10_000, "4011": -10_000}
    assert corrections(world)[0].shortfalls == ()
    calls = {each.id: (each.kind, each.amount) for each in world.state.items.calls.values()}
    assert calls["main.1/2"] == ("correction_debit", 19_500)


# ------------------------------------------------------------------------------------------------- many bets


def test_a_correction_of_250_bets_comes_in_parts(world, between):
    world.open_table()
    players = [f"player-{number}" for number in range(250)]
    spots = ("player", "banker", "tie")
    for who in players:
        world.deposit(who, 1_010)
    world.submit(*(world.bet_command(who, spots[n % 3], 1_010) for n, who in enumerate(players)))
    world.run()
    world.play(1, "banker")
    for who in players[1::3][:10]:  # ten Banker players have spent their win
        world.do(Tip, account=who, amount=1_969)
    between()
    world.hear(world.game.correct(1, "tie"))
    parts = corrections(world)
    assert sum(len(each.bets) for each in parts) == 250
    assert [each.part for each in parts] == list(range(1, parts[0].parts + 1))
    assert {(each.version, each.parts) for each in parts} == {(2, len(parts))}
    assert len({bet.bet for each in parts for bet in each.bets}) == 250
    assert max(len(each.body) for each in world.events(SettlementCorrected)) < EVENT_BYTES_MAX
    assert [sum(line.amount for line in each.entry) for each in parts] == [0] * len(parts)
    assert [world.cash(who) for who in players[:3]] == [1_010, 0, 9_090]
    assert world.cash(players[-3]) == 1_010
    assert sorted(each.amount for part in parts for each in part.shortfalls) == [959] * 10
    assert world.totals()["1060"] == 9_590
    between()
    world.hear(world.game.void_after(1, 3))
    assert [world.cash(who) for who in players[:3]] == [1_010, 0, 1_010]
    assert {each.status for each in world.bets()} == {"void"}


def test_one_player_with_bets_in_several_parts_owes_the_sum(world, between):
    """230 bets of one player: what an earlier part took is not there for a later one."""
    world.open_table()
    world.deposit("Ann", 23_000)
    world.submit(*(world.bet_command("Ann", "player", 100) for _ in range(230)))
    world.run()
    world.play(1, "player")
    assert world.cash("Ann") == 46_000
    world.do(Tip, amount=31_000)
    between()
    world.hear(world.game.correct(1, "banker"))
    assert (world.cash("Ann"), world.totals()["1060"]) == (0, 31_000)
    assert sum(each.amount for part in corrections(world) for each in part.shortfalls) == 31_000


@pytest.mark.parametrize("second", ["player", "void"])
@pytest.mark.parametrize("collection", ["each_win", "deferred"])
def test_the_longest_part_of_a_correction_fits_in_an_event(tmp_path, second, collection):
    """A hundred largest bets of a hundred players who spent it all, under names as long as they may be."""
    settings = Settings(operator=OPERATOR, shard="s" * 40)
    with World(tmp_path, settings) as world:
        world.game = Game(table="ß" * 64)
        rules = house(rate="0.049999", collection=collection)
        world.hear(world.game.open_table(rules, shard=settings.shard), world.game.open(1))
        for number in range(100):
            who = f"player-{number}"
            world.deposit(who, 10**15 - 1, tx="D" * 64)
            bet = world.bet_command(who, "banker", 10**15 - 1, tx="B" * 64, table="ß" * 64, seat=99)
            assert world.ask(bet).code == "OK"
        world.hear(world.game.close(1), world.game.conclude(1, "banker"))
        assert world.wallet.inbox.held == {}, "it is settled"
        for number in range(100):
            who = f"player-{number}"
            world.do(Tip, account=who, amount=min(world.cash(who), 10**15))
        reason = "ü" * 200
        world.hear(
            world.game.void_after(1, reason=reason)
            if second == "void"
            else world.game.correct(1, "player", reason=reason)
        )
        assert world.wallet.inbox.held == {}, "it is corrected"
        assert sum(len(each.bets) for each in corrections(world)) == 100
        assert max(len(each.body) for each in world.events(CoupSettled, SettlementCorrected)) <= 65_535
