"""Every journal entry is that of the wallet reference, 3.2: written here by hand, a debit positive."""

import tomllib
from importlib.resources import files
from typing import Any

import pytest

from schemas.chart import chart
from schemas.commands.wallet import (
    AnswerDebit,
    ChargeBack,
    CollectCommission,
    DecideAdjustment,
    FundHouse,
    GrantFreeBet,
    HoldFunds,
    ProposeAdjustment,
    RecoverReceivable,
    ReleaseHold,
    RequestWithdrawal,
    RollBack,
    SegregateFunds,
    SelfExclude,
    SettlePayment,
    Tip,
    WithdrawalStep,
    WithdrawFreeBet,
)
from schemas.events import accounts, wallet
from schemas.postings import templates
from services.wallet.core.postings import Booking, entry_of
from services.wallet.core.state import Policy
from tests.wallet.world import World, house, lines_of

PARTIES = {"account": "ann", "bet": "main.1", "withdrawal": "main.w1", "hold": "main.h1"}

REFERENCE: dict[str, dict[str, int]] = {
    "1": {"1020": 1_000_000, "3010": -1_000_000},
    "2": {"1030": 50_000, "2010": -50_000},
    # The two halves of the reference in one: 49,250 and the 750 that the house tops up are in the bank.
    "2b": {"1010": 50_000, "5030": 750, "1030": -50_000, "1020": -750},
    "3": {"2010": 10_000, "2030": -10_000},
    "4": {"2030": 10_000, "4011": 10_000, "2010": -19_500, "4020": -500},
    "4d": {"2030": 10_000, "4011": 10_000, "1065": 500, "2010": -20_000, "4020": -500},
    "6": {"2030": 10_000, "4010": -10_000},
    "7": {"2030": 10_000, "2010": -10_000},
    "11": {"2010": 20_000, "2040": -20_000},
    "11b": {"2040": 20_000, "1040": -20_000},
    "11c": {"1040": 20_000, "1010": -20_000},
    "11d": {"2040": 20_000, "2010": -20_000},
    "11e": {"1010": 20_000, "2010": -20_000},
    "12": {"5020": 2_000, "2010": -2_000},
    "12x": {"2010": 2_000, "5020": -2_000},
    "13": {"5010": 1_000, "2020": -1_000},
    "13b": {"2020": 1_000, "2030": -1_000},
    "13c": {"4011": 1_000, "2030": 1_000, "2010": -950, "4020": -50, "5010": -1_000},
    "13e": {"2030": 1_000, "2020": -1_000},
    "13f": {"2020": 1_000, "5010": -1_000},
    "14": {"2010": 400, "1060": 100, "1065": -500},
    "15": {"2010": 200, "2080": -200},
    "17": {"1050": 10_000, "2030": -10_000},
    "17b": {"2030": 10_000, "4011": 10_000, "1050": -19_500, "4020": -500},
    "17c": {"2030": 10_000, "1050": -10_000},
    "18": {"2010": 12_000, "1060": 38_000, "1030": -50_000},
    "21": {"2010": 3_000, "2090": -3_000},
    "21b": {"2090": 3_000, "2010": -3_000},
    "22": {"2010": 3_000, "1060": -3_000},
    "23": {"1010": 9_500, "1020": -9_500},
    "23x": {"1020": 9_500, "1010": -9_500},
}
"""Number of a posting, and what it comes to with the figures of the reference."""


SAMPLES: list[tuple[str, dict[str, Any]]] = [
    (number, table["sample"])
    for number, table in tomllib.loads((files("schemas") / "postings.toml").read_text("utf-8")).items()
]


def summed(entry: Any) -> dict[str, int]:
    return {each.ledger: each.amount for each in entry}


def test_no_posting_is_without_its_figures():
    assert list(templates()) == list(REFERENCE) == [number for number, _ in SAMPLES]


@pytest.mark.parametrize(("number", "sample"), SAMPLES)
def test_a_posting_booked_with_its_sample_is_that_of_the_reference(number, sample):
    figures = dict(sample)
    spot = figures.pop("spot", "")
    entry = entry_of(number, "EUR", figures, PARTIES, spot=spot)
    assert summed(entry) == REFERENCE[number]
    assert sum(each.amount for each in entry) == 0
    for each in entry:
        party = chart()[each.ledger].party
        assert each.party == (None if party is None else PARTIES[party])
        assert (each.currency, type(each.amount)) == ("EUR", int)


@pytest.mark.parametrize(("number", "sample"), SAMPLES)
def test_a_posting_and_its_reversal_are_nothing(number, sample):
    figures = dict(sample)
    spot = figures.pop("spot", "")
    booking = Booking().book(number, "EUR", figures, PARTIES, spot=spot)
    assert booking.book(number, "EUR", figures, PARTIES, spot=spot, sign=-1).entry() == ()


@pytest.mark.parametrize(
    ("number", "spot", "figures", "lines"),
    [
        # 4b: stake 1,010, exact commission 50.5, charged 51
        (
            "4",
            "banker",
            {"stake": 1_010, "winnings": 1_010, "commission": 51},
            {"2030": 1_010, "4011": 1_010, "2010": -1_969, "4020": -51},
        ),
        # 5
        (
            "4",
            "player",
            {"stake": 10_000, "winnings": 10_000, "commission": 0},
            {"2030": 10_000, "4010": 10_000, "2010": -20_000},
        ),
        # 8
        (
            "4",
            "tie",
            {"stake": 1_000, "winnings": 8_000, "commission": 0},
            {"2030": 1_000, "4012": 8_000, "2010": -9_000},
        ),
        ("6", "banker", {"stake": 10_000}, {"2030": 10_000, "4011": -10_000}),
        ("6", "tie", {"stake": 1_000}, {"2030": 1_000, "4012": -1_000}),
        ("6", "dragon", {"stake": 1_000}, {"2030": 1_000, "4013": -1_000}),
        ("13d", "banker", {"stake": 1_000}, {"2030": 1_000, "4011": -1_000}),
    ],
)
def test_the_same_posting_with_other_figures_of_the_reference(number, spot, figures, lines):
    number = "6" if number == "13d" else number  # a free bet loses like any other
    assert summed(entry_of(number, "EUR", figures, PARTIES, spot=spot)) == lines


# ------------------------------------------------------------------------------------- by commands and events


def test_postings_1_2b_and_23_the_houses_own_money(world):
    world.do(FundHouse, amount=1_000_000)
    world.deposit("Ann", 50_000)
    world.do(SettlePayment, amount=50_000, fee=750)
    world.do(SegregateFunds, amount=9_500, direction="to_players")
    world.do(SegregateFunds, amount=4_000, direction="to_house")
    kinds = (
        accounts.HouseFunded,
        accounts.PaymentSettled,
        accounts.FundsSegregated,
    )
    assert [lines_of(each) for each in world.events(*kinds)] == [
        {"1020": 1_000_000, "3010": -1_000_000},
        {"1010": 50_000, "5030": 750, "1030": -50_000, "1020": -750},
        {"1010": 9_500, "1020": -9_500},
        {"1020": 4_000, "1010": -4_000},
    ]
    assert world.totals() == {
        "1010": 55_500,
        "1020": 1_000_000 - 750 - 9_500 + 4_000,
        "3010": -1_000_000,
        "5030": 750,
        "2010": -50_000,
    }


def test_a_fee_above_what_was_paid_is_refused(world):
    refusal = world.refusal(SettlePayment, amount=100, fee=101)
    assert (refusal.code, refusal.field) == ("INVALID", "fee")
    assert world.do(SettlePayment, amount=100, fee=100).code == "OK"


def test_posting_10_a_void_after_a_banker_win(world):
    world.open_table()
    world.deposit("Ann", 10_000)
    world.bet("Ann", "banker", 10_000)
    world.play(1, "banker")
    world.hear(world.game.void_after(1))
    (corrected,) = world.events(wallet.SettlementCorrected)
    assert lines_of(corrected) == {"2010": 9_500, "4020": 500, "4011": -10_000}
    assert world.totals() == {"1030": 10_000, "2010": -10_000}


def test_posting_10b_the_player_holds_only_5_000(world):
    world.open_table()
    world.deposit("Ann", 10_000)
    world.bet("Ann", "banker", 10_000)
    world.play(1, "banker")
    world.do(Tip, amount=14_500)
    assert world.cash("Ann") == 5_000
    world.hear(world.game.void_after(1))
    (corrected,) = world.events(wallet.SettlementCorrected)
    assert lines_of(corrected) == {"2010": 5_000, "1060": 4_500, "4020": 500, "4011": -10_000}
    assert [(each.account, each.amount) for each in corrected.data.shortfalls] == [
        (world.account("Ann"), 4_500)
    ]


def test_posting_11_a_withdrawal_in_all_its_steps(world):
    world.deposit("Ann", 50_000)
    withdrawal = world.do(RequestWithdrawal, amount=20_000).event.withdrawal
    for step in ("approve", "pay", "return"):
        world.do(WithdrawalStep, withdrawal=withdrawal, step=step)
    other = world.do(RequestWithdrawal, amount=7_000).event.withdrawal
    world.do(WithdrawalStep, withdrawal=other, step="reject")
    events = [each for each in world.events() if isinstance(each.data, accounts.WithdrawalMoney)]
    assert [lines_of(each) for each in events] == [
        {"2010": 20_000, "2040": -20_000},
        {"2040": 20_000, "1040": -20_000},
        {"1040": 20_000, "1010": -20_000},
        {"1010": 20_000, "2010": -20_000},
        {"2010": 7_000, "2040": -7_000},
        {"2040": 7_000, "2010": -7_000},
    ]
    assert world.totals() == {"1030": 50_000, "2010": -50_000}


@pytest.mark.parametrize(
    ("direction", "lines"),
    [("credit", {"5020": 2_000, "2010": -2_000}), ("debit", {"2010": 2_000, "5020": -2_000})],
)
def test_posting_12_an_adjustment(world, direction, lines):
    world.deposit("Ann", 5_000)
    world.do(ProposeAdjustment, tx="A1", amount=2_000, direction=direction)
    world.do(DecideAdjustment, target="A1", approve=True)
    (adjusted,) = world.events(accounts.Adjusted)
    assert lines_of(adjusted) == lines
    assert (adjusted.data.initiator, adjusted.data.approver) == ("person:carl", "person:anna")


@pytest.mark.parametrize(
    ("spot", "stake", "lines"),
    [
        # 12b on the net: reverse 4 (2010 19,500 · 4020 500 / 2030 10,000 · 4011 10,000), then 7
        ("banker", 10_000, {"2010": 9_500, "4020": 500, "4011": -10_000}),
        # 12c: reverse 6 (4010 / 2030), then 7 (2030 / 2010)
        ("player", 10_000, {"4010": 10_000, "2010": -10_000}),
        # 12d: reverse 6 (4012 / 2030), then 8 (2030 1,000 · 4012 8,000 / 2010 9,000)
        ("tie", 1_000, {"4012": 9_000, "2010": -9_000}),
    ],
)
def test_postings_12b_12c_12d_banker_becomes_a_tie(world, spot, stake, lines):
    world.open_table()
    world.deposit("Ann", stake)
    world.bet("Ann", spot, stake)
    world.play(1, "banker")
    world.hear(world.game.correct(1, "tie"))
    (corrected,) = world.events(wallet.SettlementCorrected)
    assert lines_of(corrected) == lines
    assert "2030" not in world.totals()


def free(world: World, stake: int = 1_000) -> None:
    """Postings 13 and 13b: a free bet of Ann's on Banker."""
    world.open_table()
    grant = world.do(GrantFreeBet, amount=stake, campaign="spring").event.grant
    assert world.bet("Ann", "banker", stake, grant=grant).code == "OK"


def test_postings_13_and_13b_a_free_bet_is_granted_and_used(world):
    free(world)
    granted, taken = world.events(accounts.FreeBetGranted, wallet.BetAccepted)
    assert lines_of(granted) == {"5010": 1_000, "2020": -1_000}
    assert lines_of(taken) == {"2020": 1_000, "2030": -1_000}


@pytest.mark.parametrize(
    ("outcome", "lines", "totals"),
    [
        (  # 13c
            "banker",
            {"4011": 1_000, "2030": 1_000, "2010": -950, "4020": -50, "5010": -1_000},
            {"4011": 1_000, "2010": -950, "4020": -50},
        ),
        ("player", {"2030": 1_000, "4011": -1_000}, {"5010": 1_000, "4011": -1_000}),  # 13d
        ("tie", {"2030": 1_000, "2020": -1_000}, {"5010": 1_000, "2020": -1_000}),  # 13e
    ],
)
def test_postings_13c_13d_13e_how_a_free_bet_ends(world, outcome, lines, totals):
    free(world)
    world.play(1, outcome)
    (settled,) = world.events(wallet.CoupSettled)
    assert lines_of(settled) == lines
    assert world.totals() == totals


def test_posting_13e_a_void_coup_gives_a_free_bet_back(world):
    free(world)
    world.hear(world.game.void(1))
    (returned,) = world.events(wallet.CoupReturned)
    assert lines_of(returned) == {"2030": 1_000, "2020": -1_000}


def test_posting_13f_what_is_left_of_a_free_bet_expires(world):
    grant = world.do(GrantFreeBet, amount=1_000, campaign="spring").event.grant
    world.do(WithdrawFreeBet, grant=grant, reason="expired")
    (withdrawn,) = world.events(accounts.FreeBetWithdrawn)
    assert lines_of(withdrawn) == {"2020": 1_000, "5010": -1_000}
    assert world.totals() == {}


def test_posting_14_deferred_commission(world):
    world.open_table(house(collection="deferred"))
    world.deposit("Ann", 10_000)
    world.bet("Ann", "banker", 10_000, seat=3)
    world.play(1, "banker")
    (settled,) = world.events(wallet.CoupSettled)
    assert lines_of(settled) == {"2030": 10_000, "4011": 10_000, "1065": 500, "2010": -20_000, "4020": -500}
    world.do(Tip, amount=19_600)
    world.do(CollectCommission, table="T1", seat=3)
    (collected,) = world.events(accounts.CommissionCollected)
    assert lines_of(collected) == {"2010": 400, "1060": 100, "1065": -500}


def test_posting_15_a_tip(world):
    world.deposit("Ann", 500)
    world.do(Tip, amount=200)
    (tipped,) = world.events(accounts.Tipped)
    assert lines_of(tipped) == {"2010": 200, "2080": -200}


@pytest.mark.parametrize(
    ("outcome", "lines"),
    [
        ("banker", {"2030": 10_000, "4011": 10_000, "1050": -19_500, "4020": -500}),
        ("player", {"2030": 10_000, "4011": -10_000}),
        ("tie", {"2030": 10_000, "1050": -10_000}),
    ],
)
def test_posting_17_a_seamless_bet(world, outcome, lines):
    world.use(Policy(seamless=True))
    world.open_table()
    asked = world.bet("Ann", "banker", 10_000)
    assert asked.code == "IN_PROGRESS"
    assert world.totals() == {}, "nothing moves before the operator's wallet has answered"
    assert world.do(AnswerDebit, bet=asked.event.bet, status="done", code="OK")
    (taken,) = world.events(wallet.BetAccepted)
    assert lines_of(taken) == {"1050": 10_000, "2030": -10_000}
    world.play(1, outcome)
    (settled,) = world.events(wallet.CoupSettled)
    assert lines_of(settled) == lines
    assert "2010" not in world.totals()


def test_posting_17c_a_seamless_bet_of_a_void_coup(world):
    world.use(Policy(seamless=True))
    world.open_table()
    asked = world.bet("Ann", "banker", 10_000)
    world.do(AnswerDebit, bet=asked.event.bet, status="done", code="OK")
    world.hear(world.game.void(1))
    (returned,) = world.events(wallet.CoupReturned)
    assert lines_of(returned) == {"2030": 10_000, "1050": -10_000}
    assert world.totals() == {}


def test_posting_18_a_chargeback_of_more_than_the_player_holds(world):
    world.deposit("Ann", 50_000)
    world.do(Tip, amount=38_000)
    world.do(ChargeBack, amount=50_000)
    (charged,) = world.events(accounts.ChargedBack)
    assert lines_of(charged) == {"2010": 12_000, "1060": 38_000, "1030": -50_000}
    assert charged.data.shortfall == 38_000
    assert world.totals() == {"1060": 38_000, "2080": -38_000}


def test_posting_20_a_self_exclusion_gives_unsealed_bets_back(world):
    world.open_table()
    world.deposit("Ann", 10_000)
    world.bet("Ann", "banker", 10_000)
    world.do(SelfExclude, until="2027-03-01")
    (back,) = world.events(wallet.BetRolledBack)
    assert lines_of(back) == {"2030": 10_000, "2010": -10_000}
    assert (back.data.reason, back.data.left) == ("self_exclusion", 0)


def test_posting_9_a_bet_that_is_rolled_back(world):
    world.open_table()
    world.deposit("Ann", 10_000)
    world.bet("Ann", "banker", 10_000, tx="T1")
    world.do(RollBack, target="T1")
    (back,) = world.events(wallet.BetRolledBack)
    assert lines_of(back) == {"2030": 10_000, "2010": -10_000}


def test_postings_21_and_22_held_money_and_a_debt_that_is_paid(world):
    world.deposit("Ann", 3_000)
    hold = world.do(HoldFunds, amount=3_000, kind="risk").event.hold
    world.do(ReleaseHold, hold=hold)
    world.do(Tip, amount=3_000)
    world.do(ChargeBack, amount=3_000)
    world.deposit("Ann", 3_000)
    world.do(RecoverReceivable, amount=3_000)
    kinds = (accounts.FundsHeld, accounts.HoldReleased, accounts.ReceivableRecovered)
    assert [lines_of(each) for each in world.events(*kinds)] == [
        {"2010": 3_000, "2090": -3_000},
        {"2090": 3_000, "2010": -3_000},
        {"2010": 3_000, "1060": -3_000},
    ]


def test_gross_gaming_revenue_of_a_free_bet_is_inside_the_gaming_accounts(world):
    """The stake of a free bet is the house's cost, and what it wins or loses is gaming win."""
    free(world)
    world.play(1, "player")
    gaming = [number for number, account in chart().items() if account.gaming_win]
    assert -sum(world.totals().get(number, 0) for number in gaming) == 1_000
    assert world.totals()["5010"] == 1_000
