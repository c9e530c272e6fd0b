"""Accounts and the money beside the bets: withdrawals, adjustments, holds, free bets, debts (W32 to W35)."""

from typing import Any

import pytest

from schemas.commands.wallet import (
    ChargeBack,
    CollectCommission,
    DecideAdjustment,
    Deposit,
    FreezeAccount,
    GrantFreeBet,
    HoldFunds,
    ProposeAdjustment,
    RecoverReceivable,
    ReleaseAccount,
    ReleaseHold,
    RequestWithdrawal,
    SelfExclude,
    Tip,
    WithdrawalStep,
    WithdrawFreeBet,
)
from schemas.events import accounts, wallet
from services.runtime.settings import Settings
from services.wallet.core.state import Policy
from tests.wallet.world import OPERATOR, World, house

DAY = 24 * 3_600


@pytest.fixture(params=[False, True], ids=["", "restarted"])
def between(request: pytest.FixtureRequest, world: World) -> Any:
    """What happens between two steps of a test: nothing, or a restart."""
    return world.restart if request.param else lambda: None


# ---------------------------------------------------------------------------------------------- withdrawals

STEPS = ("approve", "reject", "pay", "return")
ALLOWED = {
    "requested": {"approve": "approved", "reject": "rejected"},
    "approved": {"pay": "paid"},
    "paid": {"return": "returned"},
    "rejected": {},
    "returned": {},
}
WAYS = {
    "requested": (),
    "approved": ("approve",),
    "paid": ("approve", "pay"),
    "rejected": ("reject",),
    "returned": ("approve", "pay", "return"),
}
VIEWS = {
    "requested": {"cash": "70.00", "withdrawable": "70.00", "withdrawing": "30.00"},
    "approved": {"cash": "70.00", "withdrawable": "70.00"},
    "paid": {"cash": "70.00", "withdrawable": "70.00"},
    "rejected": {"cash": "100.00", "withdrawable": "100.00"},
    "returned": {"cash": "100.00", "withdrawable": "100.00"},
}


@pytest.mark.parametrize("phase", ALLOWED)
@pytest.mark.parametrize("step", STEPS)
def test_a_withdrawal_goes_its_way_and_no_other(world, between, phase, step):
    world.deposit("Ann", 10_000)
    asked = world.do(RequestWithdrawal, tx="W1", amount=3_000)
    assert (asked.code, asked.balance, asked.event.withdrawal) == ("OK", 7_000, "main.w1")
    for each in WAYS[phase]:
        assert world.do(WithdrawalStep, withdrawal="main.w1", step=each).code == "OK"
    assert world.wealth() == VIEWS[phase]
    between()
    after = ALLOWED[phase].get(step)
    if after is None:
        before = world.events()
        refusal = world.refusal(WithdrawalStep, withdrawal="main.w1", step=step)
        gone = phase in ("rejected", "returned")
        assert refusal.code == ("WITHDRAWAL_UNKNOWN" if gone else "WITHDRAWAL_STATE")
        assert world.events() == before
    else:
        answer = world.do(WithdrawalStep, withdrawal="main.w1", step=step, by="person:anna")
        assert (answer.code, answer.event.amount) == ("OK", 3_000)
        assert "person:anna" in (getattr(answer.event, "approver", ""), getattr(answer.event, "by", ""))
        assert world.wealth() == VIEWS[after]


def test_the_words_of_a_wrong_step(world):
    world.deposit("Ann", 100)
    world.do(RequestWithdrawal, amount=100)
    refusal = world.refusal(WithdrawalStep, withdrawal="main.w1", step="pay")
    assert (refusal.field, refusal.words) == (
        "step",
        "the withdrawal is requested; to pay it takes one that is approved",
    )


@pytest.mark.parametrize("step", ["reject", "return"])
def test_a_withdrawal_is_not_refused_without_a_reason(world, step):
    world.deposit("Ann", 100)
    world.do(RequestWithdrawal, amount=100)
    for each in WAYS["paid"] if step == "return" else ():
        world.do(WithdrawalStep, withdrawal="main.w1", step=each)
    refusal = world.refusal(WithdrawalStep, withdrawal="main.w1", step=step, reason=None)
    assert (refusal.code, refusal.field) == ("INVALID", "reason")


def test_two_withdrawals_are_two(world, between):
    world.deposit("Ann", 1_000)
    for amount in (600, 400):
        assert world.do(RequestWithdrawal, amount=amount).code == "OK"
    assert world.do(RequestWithdrawal, amount=1).code == "INSUFFICIENT_FUNDS"
    between()
    world.do(WithdrawalStep, withdrawal="main.w2", step="reject")
    world.do(WithdrawalStep, withdrawal="main.w1", step="approve")
    assert world.totals() == {"1030": 1_000, "1040": -600, "2010": -400}
    assert world.refusal(WithdrawalStep, withdrawal="main.w3", step="approve").code == "WITHDRAWAL_UNKNOWN"


def test_one_operator_cannot_touch_anothers_withdrawal_hold_or_free_bet(world):
    world.deposit("Ann", 1_000)
    world.do(RequestWithdrawal, amount=100)
    world.do(HoldFunds, amount=100, kind="risk")
    world.do(GrantFreeBet, amount=100, campaign="spring")
    for kind, fields, code in (
        (WithdrawalStep, {"withdrawal": "main.w1", "step": "approve"}, "WITHDRAWAL_UNKNOWN"),
        (ReleaseHold, {"hold": "main.h2"}, "HOLD_UNKNOWN"),
        (WithdrawFreeBet, {"grant": "main.g3", "reason": "expired"}, "GRANT_UNKNOWN"),
    ):
        assert world.refusal(kind, operator="other", **fields).code == code
        assert world.do(kind, **fields).code == "OK"


# ---------------------------------------------------------------------------------------------- adjustments


def test_an_adjustment_takes_two_people(world, between):
    world.deposit("Ann", 5_000)
    world.do(ProposeAdjustment, tx="A1", amount=2_000, direction="credit", relates_to="B7", reason="miscount")
    assert world.cash("Ann") == 5_000
    between()
    refusal = world.refusal(DecideAdjustment, target="A1", approve=True, approver="person:carl")
    assert (refusal.code, refusal.field) == ("FOUR_EYES", "approver")
    assert world.refusal(DecideAdjustment, target="A1", approve=False, approver="person:carl").code == (
        "FOUR_EYES"
    )
    assert world.do(DecideAdjustment, tx="Y1", target="A1", approve=True).balance == 7_000
    (adjusted,) = world.events(accounts.Adjusted)
    assert (adjusted.data.tx, adjusted.data.decision, adjusted.data.reason) == ("A1", "Y1", "miscount")
    assert (adjusted.data.relates_to, adjusted.data.direction) == ("B7", "credit")
    between()
    assert world.refusal(DecideAdjustment, target="A1", approve=True).code == "ADJUSTMENT_UNKNOWN"


def test_an_adjustment_that_is_declined_moves_nothing(world, between):
    world.deposit("Ann", 5_000)
    world.do(ProposeAdjustment, tx="A1", amount=2_000, direction="debit")
    between()
    assert world.do(DecideAdjustment, target="A1", approve=False, reason="no proof").code == "OK"
    (declined,) = world.events(accounts.AdjustmentDeclined)
    assert (declined.data.reason, declined.data.approver) == ("no proof", "person:anna")
    assert world.cash("Ann") == 5_000
    between()
    assert world.refusal(DecideAdjustment, target="A1", approve=True).code == "ADJUSTMENT_UNKNOWN"


def test_an_adjustment_never_overdraws(world, between):
    world.deposit("Ann", 500)
    world.do(ProposeAdjustment, tx="A1", amount=501, direction="debit")
    refusal = world.refusal(DecideAdjustment, tx="Y1", target="A1", approve=True)
    assert (refusal.code, refusal.field) == ("INSUFFICIENT_FUNDS", "amount")
    world.deposit("Ann", 1)
    between()
    assert world.do(DecideAdjustment, tx="Y1", target="A1", approve=True).balance == 0, "it was not final"


def test_an_adjustment_of_another_player_is_not_decided(world):
    world.do(ProposeAdjustment, tx="A1", amount=500, direction="credit")
    assert world.refusal(DecideAdjustment, account="Bea", target="A1", approve=True).code == (
        "ADJUSTMENT_UNKNOWN"
    )
    assert [each.data.account for each in world.events(accounts.AccountOpened)] == [world.account("Ann")]


# ---------------------------------------------------------------------------------------------------- holds


@pytest.mark.parametrize("kind", ["withdrawal", "dispute", "risk"])
def test_w33_a_hold_and_its_release(world, between, kind):
    world.deposit("Ann", 5_000)
    world.open_table()
    held = world.do(HoldFunds, amount=3_000, kind=kind, reason="a complaint", by="person:anna").event
    assert (held.hold, held.kind, held.reason, held.expires) == ("main.h1", kind, "a complaint", None)
    between()
    assert world.wealth() == {"cash": "20.00", "held": "30.00", "withdrawable": "20.00"}
    assert world.bet("Ann", "tie", 2_001).code == "INSUFFICIENT_FUNDS"
    assert world.do(RequestWithdrawal, amount=2_001).code == "INSUFFICIENT_FUNDS"
    assert world.do(ReleaseHold, hold="main.h1", reason="settled").balance == 5_000
    between()
    assert world.refusal(ReleaseHold, hold="main.h1").code == "HOLD_UNKNOWN"
    assert world.wealth() == {"cash": "50.00", "withdrawable": "50.00"}


def test_w33_a_hold_expires_with_the_gaming_day(tmp_path):
    """Not at midnight, and not in London: at 06:00 in Amsterdam."""
    with World(tmp_path, Settings(operator=OPERATOR, zone="Europe/Amsterdam")) as world:
        world.deposit("Ann", 5_000)  # 1 March, 12:00 UTC
        world.do(HoldFunds, amount=3_000, kind="risk", expires="2026-03-03")
        world.do(HoldFunds, amount=1_000, kind="risk", expires="2026-03-04")
        world.clock.advance(DAY + 16 * 3_600 + 3_599)  # 3 March, 05:59:59 there
        world.run()
        assert world.cash("Ann") == 1_000
        world.restart()
        world.clock.advance(1)
        world.run()
        assert world.cash("Ann") == 4_000
        (released,) = world.events(accounts.HoldReleased)
        assert (released.data.hold, released.data.reason, released.data.by) == ("main.h1", "expired", "sabot")
        world.run()
        assert len(world.events(accounts.HoldReleased)) == 1
        world.clock.advance(DAY)
        world.restart()
        assert world.cash("Ann") == 5_000, "also what came due while wallet was away"


def test_w33_a_hold_that_ends_by_hand_does_not_expire_as_well(world):
    world.deposit("Ann", 5_000)
    world.do(HoldFunds, amount=3_000, kind="risk", expires="2026-03-02")
    world.do(ReleaseHold, hold="main.h1")
    world.clock.advance(2 * DAY)
    world.run()
    assert world.cash("Ann") == 5_000
    assert len(world.events(accounts.HoldReleased)) == 1


# ----------------------------------------------------------------------------------------------------- tips


def test_w35_a_tip(world, between):
    world.deposit("Ann", 500)
    answer = world.do(Tip, amount=200, table="T1", dealer="dora")
    assert (answer.code, answer.balance, answer.event.table, answer.event.dealer) == ("OK", 300, "T1", "dora")
    between()
    refused = world.do(Tip, amount=301)
    assert (refused.code, refused.operation) == ("INSUFFICIENT_FUNDS", "tip")
    assert world.totals() == {"1030": 500, "2010": -300, "2080": -200}


# ------------------------------------------------------------------------------------------------ free bets


def test_w34_a_free_bet_in_portions(world, between):
    world.open_table(coups=4)
    grant = world.do(GrantFreeBet, amount=1_000, campaign="spring").event.grant
    assert (grant, world.wealth()) == ("main.g1", {"bonus": "10.00"})
    assert world.bet("Ann", "banker", 400, grant=grant).code == "OK"
    between()
    assert world.wealth() == {"bonus": "6.00", "in_play": "4.00"}
    assert world.bet("Ann", "banker", 601, coup=2, grant=grant).code == "INSUFFICIENT_FUNDS"
    assert world.bet("Ann", "banker", 600, coup=2, grant=grant).code == "OK"
    world.play(1, "banker")
    between()
    assert world.wealth() == {"cash": "3.80", "withdrawable": "3.80", "in_play": "6.00"}
    world.play(2, "tie")
    between()
    assert world.wealth() == {"cash": "3.80", "withdrawable": "3.80", "bonus": "6.00"}
    assert world.bet("Ann", "player", 600, coup=3, grant=grant).code == "OK", "what was pushed came back"
    world.play(3, "banker")
    between()
    assert world.bet("Ann", "player", 1, coup=4, grant=grant).code == "GRANT_UNKNOWN", "it is used up"
    assert world.totals() == {
        "5010": 600,
        "2010": -380,
        "4011": 400,
        "4020": -20,
        "4010": -600,
    }


def test_w34_a_free_bet_is_of_one_player_and_one_currency(world):
    world.open_table()
    grant = world.do(GrantFreeBet, amount=1_000, campaign="spring").event.grant
    world.deposit("Bea", 1_000)
    assert world.bet("Bea", "banker", 100, grant=grant).code == "GRANT_UNKNOWN"
    assert world.bet("Ann", "banker", 100, currency="JPY", grant=grant).code == "GRANT_UNKNOWN"
    assert world.bet("Ann", "banker", 100).code == "INSUFFICIENT_FUNDS", "a gift is no cash"
    assert world.do(RequestWithdrawal, amount=100).code == "INSUFFICIENT_FUNDS"


@pytest.mark.parametrize("reason", ["expired", "cancelled"])
@pytest.mark.parametrize(("outcome", "left"), [("player", 0), ("tie", 400)])
def test_w34_what_is_in_play_outlives_the_end_of_a_free_bet(world, between, reason, outcome, left):
    world.open_table(coups=2)
    grant = world.do(GrantFreeBet, amount=1_000, campaign="spring").event.grant
    world.bet("Ann", "banker", 400, grant=grant)
    answer = world.do(WithdrawFreeBet, grant=grant, reason=reason)
    assert (answer.event.amount, answer.event.reason) == (600, reason)
    assert world.refusal(WithdrawFreeBet, grant=grant, reason=reason).code == "GRANT_UNKNOWN"
    between()
    world.play(1, outcome)
    between()
    assert world.totals().get("2020", 0) == -left
    if left:
        assert world.do(WithdrawFreeBet, grant=grant, reason=reason).event.amount == left
    assert world.refusal(WithdrawFreeBet, grant=grant, reason=reason).code == "GRANT_UNKNOWN"
    assert world.wealth() == {}


# ------------------------------------------------------------------------------------ chargebacks and debts


def test_a_chargeback_takes_what_there_is_and_the_rest_is_owed(world, between):
    world.deposit("Ann", 5_000)
    world.do(Tip, amount=1_500)
    answer = world.do(ChargeBack, amount=5_000, reason="stolen card")
    assert (answer.balance, answer.event.shortfall, answer.event.reason) == (0, 1_500, "stolen card")
    between()
    assert world.wealth() == {"negative_receivable": "15.00"}
    world.deposit("Ann", 2_000)
    assert world.wealth() == {"cash": "20.00", "negative_receivable": "15.00", "withdrawable": "5.00"}
    assert world.do(RecoverReceivable, amount=1_500).balance == 500
    between()
    assert world.wealth() == {"cash": "5.00", "withdrawable": "5.00"}
    assert world.do(RecoverReceivable, amount=1).code == "LIMIT_REACHED"


def test_a_chargeback_of_a_player_whom_nobody_knows(world):
    assert world.do(ChargeBack, amount=5_000).event.shortfall == 5_000
    assert world.totals() == {"1060": 5_000, "1030": -5_000}


# ------------------------------------------------------------------------------------- freeze and exclusion


def test_a_frozen_account_takes_nothing_and_what_is_sealed_is_paid(world, between):
    world.open_table(coups=2)
    world.deposit("Ann", 5_000)
    world.bet("Ann", "player", 1_000)
    world.do(FreezeAccount, reason="papers")
    between()
    assert world.bet("Ann", "player", 1_000, coup=2).code == "ACCOUNT_LOCKED"
    for kind in (Deposit, RequestWithdrawal, Tip):
        refused = world.do(kind, amount=100)
        assert (refused.code, refused.field) == ("ACCOUNT_LOCKED", "account")
    world.play(1, "player")
    assert world.cash("Ann") == 6_000
    world.do(ReleaseAccount, reason="papers are here")
    between()
    assert world.bet("Ann", "player", 1_000, coup=2).code == "OK"
    (frozen,) = world.events(accounts.AccountFrozen)
    (released,) = world.events(accounts.AccountReleased)
    assert (frozen.data.reason, released.data.reason) == ("papers", "papers are here")


def test_a_self_exclusion_voids_unsealed_bets_and_sealed_ones_stand(world, between):
    world.open_table(coups=3)
    for who in ("Ann", "Bea"):
        world.deposit(who, 5_000)
        for coup in (1, 2, 3):
            world.bet(who, "player", 1_000, coup=coup)
    world.hear(world.game.close(1))
    between()
    answer = world.do(SelfExclude, until="2026-06-01")
    assert (answer.code, answer.event.until) == ("OK", "2026-06-01")
    assert world.cash("Ann") == 4_000
    assert {each.data.reason for each in world.events(wallet.BetRolledBack)} == {"self_exclusion"}
    assert [each.status for coup in (1, 2, 3) for each in world.bets(coup)] == [
        "open", "open", "rolled_back", "open", "rolled_back", "open",
    ]  # fmt: skip
    world.hear(world.game.conclude(1, "player"))
    world.play(2, "player")
    between()
    assert (world.cash("Ann"), world.cash("Bea")) == (6_000, 6_000)
    assert world.bet("Ann", "player", 100, coup=3).code == "SELF_EXCLUDED"
    assert world.deposit("Ann", 100).code == "SELF_EXCLUDED"
    assert world.do(Tip, amount=100).code == "SELF_EXCLUDED"
    assert world.do(RequestWithdrawal, amount=6_000).code == "OK", "his money is his"
    assert world.bet("Bea", "player", 100, coup=3).code == "OK"


def test_a_self_exclusion_ends_on_its_gaming_day(world, between):
    world.open_table()
    world.deposit("Ann", 5_000)
    world.do(SelfExclude, until="2026-03-03")
    world.clock.advance(DAY + 18 * 3_600 - 1)  # 3 March, 05:59:59
    between()
    assert world.bet("Ann", "player", 100).code == "SELF_EXCLUDED"
    world.clock.advance(1)
    between()
    assert world.bet("Ann", "player", 100).code == "OK"


def test_a_self_exclusion_is_never_shortened(world, between):
    world.deposit("Ann", 5_000)
    world.do(SelfExclude, until="2026-06-01")
    between()
    for until in ("2026-05-31", "2026-03-01"):
        refusal = world.refusal(SelfExclude, until=until)
        assert (refusal.code, refusal.field) == ("INVALID", "until")
    assert world.do(SelfExclude, until="2026-06-02").code == "OK"
    assert world.do(SelfExclude, until=None).code == "OK"
    between()
    assert world.refusal(SelfExclude, until="2099-01-01").code == "INVALID"
    world.clock.advance(3_650 * DAY)
    assert world.deposit("Ann", 1).code == "SELF_EXCLUDED"


def test_who_excludes_himself_before_he_ever_came(world, between):
    world.open_table()
    assert world.do(SelfExclude, account="Zoe", until=None).code == "OK"
    between()
    assert world.deposit("Zoe", 100).code == "SELF_EXCLUDED"


# ------------------------------------------------------------------------------------- the balance view (W32)


def test_w32_the_view_of_a_balance_at_every_step(world, between):
    world.hear(world.game.open_table(house(collection="deferred")), *(world.game.open(n) for n in (1, 2)))

    def shows(**amounts: str) -> None:
        between()
        view = dict.fromkeys(("cash", "withdrawable"), amounts.pop("cash", "")) | amounts
        assert world.wealth() == {name: text for name, text in view.items() if text}

    world.deposit("Ann", 100_000)
    shows(cash="1000.00")
    world.do(RequestWithdrawal, amount=10_000)
    shows(cash="900.00", withdrawing="100.00")
    world.do(HoldFunds, amount=20_000, kind="risk")
    shows(cash="700.00", withdrawing="100.00", held="200.00")
    grant = world.do(GrantFreeBet, amount=5_000, campaign="spring").event.grant
    shows(cash="700.00", withdrawing="100.00", held="200.00", bonus="50.00")
    world.bet("Ann", "banker", 30_000, seat=3)
    world.bet("Ann", "player", 5_000, grant=grant)
    shows(cash="400.00", withdrawing="100.00", held="200.00", in_play="350.00")
    world.play(1, "banker")
    shows(cash="1000.00", withdrawing="100.00", held="200.00")
    world.do(CollectCommission, table="T1", seat=3)
    shows(cash="985.00", withdrawing="100.00", held="200.00")
    world.do(ReleaseHold, hold="main.h2")
    world.do(WithdrawalStep, withdrawal="main.w1", step="approve")
    shows(cash="1185.00")
    world.do(ChargeBack, amount=100_000)
    shows(cash="185.00")
    world.do(ChargeBack, amount=20_000)
    shows(negative_receivable="15.00")
    world.deposit("Ann", 1_000)
    shows(cash="10.00", withdrawable="", negative_receivable="15.00")


def test_w32_each_currency_by_itself(world):
    world.deposit("Ann", 100)
    world.deposit("Ann", 100, currency="JPY")
    world.do(HoldFunds, amount=40, kind="risk", currency="JPY")
    assert world.wealth() == {"cash": "1.00", "withdrawable": "1.00"}
    assert world.wealth(currency="JPY") == {"cash": "60", "withdrawable": "60", "held": "40"}


# ------------------------------------------------------------------------------------------------- seamless


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Deposit, {}),
        (RequestWithdrawal, {}),
        (Tip, {}),
        (HoldFunds, {"kind": "risk"}),
        (ChargeBack, {}),
    ],
)
def test_where_balances_are_the_operators_nothing_moves_here(world, kind, fields):
    world.use(Policy(seamless=True))
    assert world.refusal(kind, amount=100, **fields).code == "SEAMLESS"
    assert world.events() == []
