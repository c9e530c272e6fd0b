"""Taking bets back: only before the seal, never twice, and never a bet that has not come yet (W11 to W16)."""

from typing import Any

import pytest

from schemas.commands.wallet import Deposit, GrantFreeBet, Refund, RollBack, SelfExclude
from schemas.events.accounts import AccountOpened, FreeBetGranted, TombstoneCreated
from schemas.events.wallet import BetAccepted, BetRefused, BetRolledBack, ConflictDetected, CoupSettled
from tests.wallet.world import World, lines_of


def table(world: World, cash: int = 20_000, coups: int = 1) -> None:
    """An open coup, and Ann with so much."""
    world.open_table(coups=coups)
    world.deposit("Ann", cash)


def statuses(world: World, coup: int = 1) -> list[tuple[str, str, int, int]]:
    """Transaction, status, stake, and what of it is left of each bet."""
    return [(each.tx, each.status, each.stake, each.left) for each in world.bets(coup)]


@pytest.fixture(params=[False, True], ids=["", "restarted"])
def between(request: pytest.FixtureRequest, world: World) -> Any:
    """What happens between two steps of a test: nothing, or a restart."""
    return world.restart if request.param else lambda: None


# --------------------------------------------------------------------------------------------- one end a bet


def test_w11_a_bet_has_one_end(world):
    """Open to settled, to cancelled: no way leads from one to the other, or back."""
    table(world, coups=2)
    world.bet("Ann", "banker", 1_000, tx="T1")
    world.bet("Ann", "banker", 1_000, tx="T2", coup=2)
    world.do(RollBack, target="T2")
    world.play(1, "banker")
    world.play(2, "banker")
    assert (statuses(world), statuses(world, 2)) == (
        [("T1", "won", 1_000, 1_000)],
        [("T2", "rolled_back", 1_000, 0)],
    )
    assert [len(each.data.bets) for each in world.events(CoupSettled)] == [1, 0]
    assert world.refusal(RollBack, target="T1").code == "BET_ALREADY_SETTLED"
    assert world.refusal(RollBack, target="T2").code == "ALREADY_ROLLED_BACK"
    assert world.cash("Ann") == 20_950


# ----------------------------------------------------------------------------------------- the amount is ours


def test_w12_a_rollback_takes_the_amount_from_our_record(world, between):
    table(world)
    world.bet("Ann", "banker", 1_234, tx="T1")
    between()
    answer = world.do(RollBack, tx="R1", target="T1")
    assert (answer.code, answer.balance, answer.event.amount, answer.event.left) == ("OK", 20_000, 1_234, 0)
    assert statuses(world) == [("T1", "rolled_back", 1_234, 0)]
    assert "2030" not in world.totals()


@pytest.mark.parametrize("amount", [1_233, 1_235, 1])
def test_w12_a_rollback_of_another_amount_is_a_conflict(world, amount):
    table(world)
    world.bet("Ann", "banker", 1_234, tx="T1")
    refusal = world.refusal(RollBack, tx="R1", target="T1", amount=amount)
    assert (refusal.code, refusal.field) == ("IDEMPOTENCY_CONFLICT", "amount")
    assert world.events(BetRolledBack) == []
    assert world.do(RollBack, tx="R1", target="T1", amount=1_234).code == "OK", "nothing was remembered"


def test_w12_a_repeat_may_leave_the_amount_out_and_not_change_it(world):
    table(world)
    world.bet("Ann", "banker", 1_234, tx="T1")
    world.do(RollBack, tx="R1", target="T1", amount=1_234)
    assert world.do(RollBack, tx="R1", target="T1").replayed
    refusal = world.refusal(RollBack, tx="R1", target="T1", amount=1_000)
    assert (refusal.code, refusal.field) == ("IDEMPOTENCY_CONFLICT", "amount")
    assert world.cash("Ann") == 20_000


# ------------------------------------------------------------------------------------------------ tombstones


def test_w13_a_rollback_before_its_bet(world, between):
    """Money case 6: rollback of T9; five minutes later the bet T9 of 5,000."""
    table(world)
    first = world.do(RollBack, tx="R9", target="T9")
    assert (first.code, first.replayed) == ("TOMBSTONED", False)
    world.clock.advance(5 * 60)
    between()
    late = world.bet("Ann", "banker", 5_000, tx="T9")
    assert (late.code, late.field, late.replayed) == ("BET_CANCELLED", "tx", False)
    between()
    again = world.bet("Ann", "banker", 5_000, tx="T9")
    assert (again.code, again.replayed) == ("BET_CANCELLED", True)
    assert world.do(RollBack, tx="R9", target="T9").replayed
    assert world.cash("Ann") == 20_000
    (tombstone,) = world.events(TombstoneCreated)
    assert (tombstone.data.tx, tombstone.data.target) == ("R9", "T9")
    (refused,) = world.events(BetRefused)
    assert (refused.data.code, refused.data.stake) == ("BET_CANCELLED", 5_000)
    assert world.events(BetAccepted) == []


def test_w13_a_tombstone_a_day_later(world):
    table(world)
    world.do(RollBack, target="T9")
    world.clock.advance(24 * 3_600)
    world.restart()
    world.clock.advance(130 * 24 * 3_600)
    assert world.bet("Ann", "banker", 5_000, tx="T9").code == "BET_CANCELLED"


def test_w13_a_rollback_and_its_bet_in_one_batch(world):
    table(world)
    back, bet, again = world.submit(
        world.command(RollBack, tx="R9", target="T9"),
        world.bet_command("Ann", "banker", 5_000, tx="T9"),
        world.bet_command("Ann", "banker", 5_000, tx="T9"),
    )
    world.wallet.step()
    assert (back.result(0).code, bet.result(0).code, again.result(0).code) == (
        "TOMBSTONED",
        "BET_CANCELLED",
        "BET_CANCELLED",
    )
    assert (bet.result(0).replayed, again.result(0).replayed) == (False, True)
    assert world.cash("Ann") == 20_000


def test_w13_a_rollback_for_a_player_whom_nobody_has_seen(world, between):
    """The first that is heard of him is that a bet of his must not be taken."""
    world.open_table()
    assert world.do(RollBack, account="Zoe", tx="R9", target="T9").code == "TOMBSTONED"
    assert [type(each.data) for each in world.events()] == [AccountOpened, TombstoneCreated]
    between()
    world.deposit("Zoe", 10_000)
    assert world.bet("Zoe", "banker", 5_000, tx="T9").code == "BET_CANCELLED"
    assert world.cash("Zoe") == 10_000


def test_w13_the_tombstone_is_of_one_player_only(world):
    table(world)
    world.deposit("Bea", 5_000)
    world.do(RollBack, target="T9")
    assert world.bet("Bea", "banker", 5_000, tx="T9").code == "OK"


def test_w13_two_rollbacks_of_a_bet_that_never_came(world, between):
    table(world)
    for tx in ("R1", "R2"):
        assert world.do(RollBack, tx=tx, target="T9").code == "TOMBSTONED"
        between()
    assert world.bet("Ann", "banker", 5_000, tx="T9").code == "BET_CANCELLED"
    assert [world.do(RollBack, tx=tx, target="T9").replayed for tx in ("R1", "R2")] == [True, True]


def test_w13_a_rollback_after_the_refusal_does_not_change_it(world, between):
    """A refusal is final: what a rollback says of it later is not what the bet is told again (W6)."""
    table(world, cash=100)
    first = world.bet("Ann", "banker", 5_000, tx="T1")
    assert first.code == "INSUFFICIENT_FUNDS"
    between()
    assert world.do(RollBack, tx="R1", target="T1").code == "TOMBSTONED"
    between()
    again = world.bet("Ann", "banker", 5_000, tx="T1")
    assert (again.code, again.event, again.replayed) == ("INSUFFICIENT_FUNDS", first.event, True)
    assert world.cash("Ann") == 100


def test_w13_the_same_id_for_the_rollback_and_its_bet(world):
    """Somebody's protocol has one id for both: it is the bet's that counts, and nothing moves."""
    table(world)
    world.bet("Ann", "banker", 5_000, tx="T1")
    refusal = world.refusal(RollBack, tx="T1", target="T1")
    assert (refusal.code, refusal.field) == ("IDEMPOTENCY_CONFLICT", "operation")
    assert world.do(RollBack, tx="T9", target="T9").code == "TOMBSTONED"
    assert world.bet("Ann", "banker", 5_000, tx="T9").code == "BET_CANCELLED"
    assert world.cash("Ann") == 15_000


def test_w13_a_tombstone_and_another_operation_with_that_id(world):
    table(world)
    world.do(RollBack, target="T9")
    refusal = world.refusal(Deposit, tx="T9", amount=100)
    assert (refusal.code, refusal.field) == ("IDEMPOTENCY_CONFLICT", "operation")


@pytest.mark.parametrize("kind", [RollBack, Refund])
def test_what_is_no_bet_is_not_taken_back(world, kind):
    table(world)
    world.deposit("Ann", 500, tx="D1")
    amount = {"amount": 500} if kind is Refund else {}
    refusal = world.refusal(kind, target="D1", **amount)
    assert (refusal.code, refusal.field) == ("BET_NOT_FOUND", "target")
    assert world.cash("Ann") == 20_500


# ------------------------------------------------------------------------------------- too late: seal and end


@pytest.mark.parametrize("kind", [RollBack, Refund])
def test_w14_a_sealed_bet_is_not_taken_back(world, between, kind):
    table(world)
    world.bet("Ann", "banker", 5_000, tx="T1")
    world.hear(world.game.close(1))
    between()
    amount = {"amount": 1} if kind is Refund else {}
    refusal = world.refusal(kind, tx="R1", target="T1", **amount)
    assert (refusal.code, refusal.field) == ("BET_SEALED", "target")
    assert (world.cash("Ann"), world.events(BetRolledBack)) == (15_000, [])
    world.hear(world.game.void(1))
    assert world.cash("Ann") == 20_000, "only a void gives it back"


@pytest.mark.parametrize("kind", [RollBack, Refund])
@pytest.mark.parametrize("end", ["banker", "player", "tie", "void"])
def test_w14_a_settled_bet_is_not_taken_back(world, between, kind, end):
    table(world)
    world.bet("Ann", "banker", 5_000, tx="T1")
    if end == "void":
        world.hear(world.game.void(1))
    else:
        world.play(1, end)
    cash = world.cash("Ann")
    between()
    amount = {"amount": 1} if kind is Refund else {}
    refusal = world.refusal(kind, tx="R1", target="T1", **amount)
    assert (refusal.code, refusal.field) == ("BET_ALREADY_SETTLED", "target")
    assert world.cash("Ann") == cash


def test_w14_the_end_of_betting_and_a_rollback_in_one_batch(world):
    """What game said counts first."""
    table(world)
    world.bet("Ann", "banker", 5_000, tx="T1")
    (back,) = world.submit(world.command(RollBack, target="T1"))
    world.bus.publish([world.game.close(1)])
    world.wallet.step()
    assert back.exception(0).code == "BET_SEALED"


# -------------------------------------------------------------------------------------------------- once only


def test_w15_a_second_rollback_is_a_replay_of_the_first(world, between):
    table(world)
    world.bet("Ann", "banker", 5_000, tx="T1")
    first = world.do(RollBack, tx="R1", target="T1")
    world.deposit("Ann", 7)
    between()
    again = world.do(RollBack, tx="R1", target="T1")
    assert (again.event, again.balance, again.current) == (first.event, 20_000, 20_007)
    assert (first.replayed, again.replayed) == (False, True)
    assert len(world.events(BetRolledBack)) == 1


def test_w15_after_the_seal_the_replay_is_still_one(world, between):
    table(world)
    world.bet("Ann", "banker", 5_000, tx="T1")
    world.do(RollBack, tx="R1", target="T1")
    world.play(1, "banker")
    between()
    assert world.do(RollBack, tx="R1", target="T1").replayed
    assert world.bet("Ann", "banker", 5_000, tx="T1").replayed, "and the bet's own answer stays what it was"
    assert world.cash("Ann") == 20_000


def test_w15_a_rollback_with_another_id_moves_nothing(world, between):
    table(world)
    world.bet("Ann", "banker", 5_000, tx="T1")
    world.do(RollBack, tx="R1", target="T1")
    between()
    refusal = world.refusal(RollBack, tx="R2", target="T1")
    assert (refusal.code, refusal.field) == ("ALREADY_ROLLED_BACK", "target")
    assert world.cash("Ann") == 20_000


def test_w15_bet_and_two_rollbacks_in_one_batch(world):
    table(world)
    bet, *backs = world.submit(
        world.bet_command("Ann", "banker", 5_000, tx="T1"),
        world.command(RollBack, tx="R1", target="T1"),
        world.command(RollBack, tx="R1", target="T1"),
        world.command(RollBack, tx="R2", target="T1"),
    )
    world.wallet.step()
    assert [each.result(0).replayed for each in (bet, *backs[:2])] == [False, False, True]
    assert backs[2].exception(0).code == "ALREADY_ROLLED_BACK"
    assert world.cash("Ann") == 20_000


def test_w15_two_rollbacks_of_an_older_bet_in_one_batch(world):
    table(world)
    world.bet("Ann", "banker", 5_000, tx="T1")
    first, second = world.submit(
        world.command(RollBack, tx="R1", target="T1"), world.command(RollBack, tx="R2", target="T1")
    )
    world.wallet.step()
    assert first.result(0).code == "OK"
    assert second.exception(0).code == "ALREADY_ROLLED_BACK"


def test_another_target_under_a_used_id_is_a_conflict(world):
    table(world)
    for tx in ("T1", "T2"):
        world.bet("Ann", "banker", 5_000, tx=tx)
    world.do(RollBack, tx="R1", target="T1")
    refusal = world.refusal(RollBack, tx="R1", target="T2")
    assert (refusal.code, refusal.field) == ("IDEMPOTENCY_CONFLICT", "target")
    (conflict,) = world.events(ConflictDetected)
    assert (conflict.data.tx, conflict.data.fields) == ("R1", ("target",))
    assert statuses(world)[1] == ("T2", "open", 5_000, 5_000)


# -------------------------------------------------------------------------------------------- partial refunds


def test_w16_refunds_up_to_the_stake(world, between):
    table(world)
    world.bet("Ann", "banker", 5_000, tx="T1")
    for number, (amount, left) in enumerate([(1_000, 4_000), (2_500, 1_500)], 1):
        between()
        answer = world.do(Refund, tx=f"F{number}", target="T1", amount=amount)
        assert (answer.operation, answer.event.amount, answer.event.left) == ("refund", amount, left)
        assert statuses(world) == [("T1", "open", 5_000, left)]
        assert world.totals()["2030"] == -left
    refusal = world.refusal(Refund, tx="F3", target="T1", amount=1_501)
    assert (refusal.code, refusal.field) == ("LIMIT_REACHED", "amount")
    between()
    last = world.do(Refund, tx="F3", target="T1", amount=1_500)
    assert (last.event.left, last.balance) == (0, 20_000)
    assert statuses(world) == [("T1", "rolled_back", 5_000, 0)]
    assert world.refusal(Refund, target="T1", amount=1).code == "ALREADY_ROLLED_BACK"
    assert sum(each.data.amount for each in world.events(BetRolledBack)) == 5_000
    assert lines_of(world.events(BetRolledBack)[0]) == {"2030": 1_000, "2010": -1_000}


def test_w16_what_is_left_is_what_is_paid_and_sealed(world, between):
    table(world)
    world.bet("Ann", "banker", 5_000, tx="T1", seat=2)
    world.do(Refund, target="T1", amount=3_000)
    between()
    world.play(1, "banker")
    assert world.cash("Ann") == 20_000 + 2_000 - 100
    assert statuses(world) == [("T1", "won", 5_000, 2_000)]
    world.hear(world.game.correct(1, "player"))
    assert world.cash("Ann") == 18_000


def test_w16_a_rollback_takes_what_refunds_left(world):
    table(world)
    world.bet("Ann", "banker", 5_000, tx="T1")
    world.do(Refund, target="T1", amount=3_000)
    assert world.refusal(RollBack, target="T1", amount=5_000).code == "IDEMPOTENCY_CONFLICT"
    assert world.do(RollBack, target="T1", amount=2_000).event.amount == 2_000
    assert world.cash("Ann") == 20_000


def test_w16_a_repeated_refund_is_a_replay_and_another_amount_a_conflict(world, between):
    table(world)
    world.bet("Ann", "banker", 5_000, tx="T1")
    world.do(Refund, tx="F1", target="T1", amount=1_000)
    between()
    assert world.do(Refund, tx="F1", target="T1", amount=1_000).replayed
    refusal = world.refusal(Refund, tx="F1", target="T1", amount=2_000)
    assert (refusal.code, refusal.field) == ("IDEMPOTENCY_CONFLICT", "amount")
    refusal = world.refusal(RollBack, tx="F1", target="T1")
    assert (refusal.code, refusal.field) == ("IDEMPOTENCY_CONFLICT", "operation")
    assert statuses(world) == [("T1", "open", 5_000, 4_000)]


def test_w16_a_refund_of_what_is_not_there(world):
    table(world)
    assert world.refusal(Refund, target="T9", amount=1).code == "BET_NOT_FOUND"
    assert world.events(TombstoneCreated) == []
    world.do(RollBack, target="T9")
    assert world.refusal(Refund, target="T9", amount=1).code == "BET_NOT_FOUND"


def test_w16_a_refund_of_a_refused_bet(world):
    table(world, cash=100)
    world.bet("Ann", "banker", 5_000, tx="T1")
    assert world.refusal(Refund, target="T1", amount=1).code == "BET_NOT_FOUND"


# ------------------------------------------------------------------------------------------ where stakes go


def test_a_free_bet_that_is_rolled_back_can_be_used_again(world, between):
    world.open_table()
    grant = world.do(GrantFreeBet, amount=1_000, campaign="spring").event.grant
    world.bet("Ann", "banker", 1_000, tx="T1", grant=grant)
    between()
    world.do(RollBack, target="T1")
    assert world.totals() == {"5010": 1_000, "2020": -1_000}
    between()
    assert world.bet("Ann", "player", 1_000, tx="T2", grant=grant).code == "OK"
    (granted,) = world.events(FreeBetGranted)
    assert granted.data.grant == grant


def test_nobody_takes_another_players_bet_back(world):
    table(world)
    world.bet("Ann", "banker", 5_000, tx="T1")
    assert world.do(RollBack, account="Bea", target="T1").code == "TOMBSTONED"
    assert statuses(world) == [("T1", "open", 5_000, 5_000)]


def test_a_bet_that_was_taken_back_by_an_exclusion_is_not_taken_back_again(world, between):
    table(world)
    world.bet("Ann", "banker", 5_000, tx="T1")
    world.do(SelfExclude, until=None)
    between()
    refusal = world.refusal(RollBack, target="T1")
    assert refusal.code == "ALREADY_ROLLED_BACK"
    assert world.cash("Ann") == 20_000


def test_a_seal_says_nothing_of_what_was_taken_back(world):
    table(world)
    kept = world.bet("Ann", "player", 700, tx="T1", seat=1).event
    world.bet("Ann", "player", 5_000, tx="T2", seat=2)
    world.bet("Ann", "banker", 300, tx="T3")
    world.do(RollBack, target="T2")
    world.do(Refund, target="T3", amount=100)
    world.hear(world.game.close(1))
    seal = world.events()[-1].data
    assert seal.bets == 2
    assert [(each.spot, each.stake) for each in seal.totals] == [("banker", 200), ("player", 700)]
    assert [(each.seats, each.stake) for each in seal.largest_player] == [((1,), 700)]
    assert kept.bet == "main.1"
