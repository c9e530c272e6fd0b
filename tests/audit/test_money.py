"""Audit's own money: payouts and commission in exact fractions."""

from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

import pytest

from schemas.house import House, RoundingMode
from services.audit.core.money import ROUNDING, Payouts, profit, rounding_unit
from tests.audit.builder import HOUSES


def house(mode="half_up", unit="minor", rate="0.05", tie="8 to 1", base="nl") -> House:
    document = HOUSES[base]
    commission = document.commission.model_copy(
        update={"rate": rate, "rounding_unit": unit, "rounding_mode": RoundingMode(mode)}
    )
    prices = document.prices.model_copy(update={"tie": tie})
    return document.model_copy(update={"commission": commission, "prices": prices})


def banker_wins(stake, exponent=2, **terms):
    return Payouts(house(**terms)).pay("banker", "banker", stake, exponent)


@pytest.mark.parametrize(
    ("mode", "charged"),
    [
        ("down", (0, 0, 1, 5, 50, 99)),
        ("half_even", (0, 0, 1, 5, 50, 100)),
        ("half_up", (0, 1, 1, 5, 51, 100)),
        ("up", (1, 1, 2, 6, 51, 100)),
    ],
)
def test_case_16_five_per_cent_in_every_mode(mode, charged):
    stakes = (9, 10, 25, 101, 1010, 1999)
    payouts = [banker_wins(stake, mode=mode) for stake in stakes]
    assert tuple(payout.commission for payout in payouts) == charged
    assert [payout.exact for payout in payouts] == [Fraction(stake, 20) for stake in stakes]
    assert all(p.returned == 2 * s - c for p, s, c in zip(payouts, stakes, charged, strict=True))


def test_case_16_commission_is_taken_bet_by_bet():
    assert sum(banker_wins(10).commission for _ in range(3)) == 3
    assert banker_wins(30).commission == 2


def test_case_17_a_tie_returns_the_stakes_on_both_hands():
    payouts = Payouts(house())
    assert [payouts.pay(spot, "tie", stake, 2)[:3] for spot, stake in
            (("banker", 10_000), ("player", 10_000), ("tie", 1_000))] == [
        ("push", 10_000, 0),
        ("push", 10_000, 0),
        ("win", 9_000, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("stake", [60, 120, 140, 240])
def test_case_12_where_floats_go_wrong(stake):
    assert banker_wins(stake).returned - stake == {60: 57, 120: 114, 140: 133, 240: 228}[stake]


def test_case_11_commission_is_of_the_winnings_alone():
    assert banker_wins(100).returned == 195


@pytest.mark.parametrize(
    ("price", "gain"),
    [
        ("8 to 1", 8),
        ("9 for 1", 8),
        ("9 to 1", 9),
        ("2 for 1", 1),
        ("1 to 1", 1),
        ("0.95 to 1", Fraction(19, 20)),
    ],
)
def test_case_13_prices_in_both_notations(price, gain):
    assert profit(price) == gain


@pytest.mark.parametrize("price", ["8:1", "8 on 1", "-1 to 1", "8  to 1", ""])
def test_what_is_no_price(price):
    with pytest.raises(ValueError, match="is not a price"):
        profit(price)


def test_nine_for_one_is_paid_as_eight_to_one():
    assert Payouts(house(tie="9 for 1")).pay("tie", "tie", 10, 2).returned == 90
    assert Payouts(house(tie="9 to 1")).pay("tie", "tie", 10, 2).returned == 100


@pytest.mark.parametrize(
    ("unit", "exponent", "minor"),
    [
        ("minor", 2, 1),
        ("0.25", 2, 25),
        ("1.00", 2, 100),
        ("1", 0, 1),
        ("0.25", 3, 250),
        ("0.25", 0, 1),
        ("0.015", 2, 3),
    ],
)
def test_rounding_units_in_minor_units(unit, exponent, minor):
    assert rounding_unit(unit, exponent) == minor


@pytest.mark.parametrize(
    ("stake", "charged"),
    [(100, 25), (500, 25), (501, 50), (1_000, 50), (1_500, 75), (2_000, 100), (5_000, 250)],
)
def test_up_to_the_next_quarter(stake, charged):
    assert banker_wins(stake, mode="up", unit="0.25").commission == charged


def test_the_commission_is_never_more_than_the_winnings():
    payout = banker_wins(50, mode="up", unit="1.00")
    assert (payout.commission, payout.returned) == (50, 50)


def test_only_a_winning_banker_bet_pays_commission():
    payouts = Payouts(house())
    for spot in ("player", "banker", "tie"):
        for outcome in ("player", "banker", "tie"):
            payout = payouts.pay(spot, outcome, 1_010, 2)
            assert (payout.commission > 0) is (spot == outcome == "banker")
            assert (
                payout.returned
                == {"win": 2_020 if spot != "tie" else 9_090, "push": 1_010, "lose": 0}[payout.tier]
                - payout.commission
            )


def test_every_stake_to_a_thousand_against_decimals():
    payouts = Payouts(house())
    for stake in range(1, 100_001):
        due = (Decimal(stake) * Decimal("0.05")).quantize(Decimal(1), ROUND_HALF_UP)
        assert payouts.pay("banker", "banker", stake, 2).commission == due


def test_roundings_agree_with_their_names():
    for twentieths in range(200):
        exact = Fraction(twentieths, 20)
        down, up = ROUNDING[RoundingMode.DOWN](exact), ROUNDING[RoundingMode.UP](exact)
        assert down <= exact <= up
        assert up - down == (exact.denominator > 1)
        for mode in (RoundingMode.HALF_UP, RoundingMode.HALF_EVEN):
            nearest = ROUNDING[mode](exact)
            assert abs(nearest - exact) <= Fraction(1, 2)
            if abs(nearest - exact) == Fraction(1, 2):
                assert nearest == up if mode is RoundingMode.HALF_UP else nearest % 2 == 0


def test_an_unknown_spot_is_an_error():
    with pytest.raises(KeyError):
        Payouts(house()).pay("dragon", "banker", 100, 2)


@pytest.mark.parametrize("base", sorted(HOUSES))
def test_the_shipped_houses_pay_the_same(base):
    payouts = Payouts(HOUSES[base])
    assert payouts.pay("tie", "tie", 1_000, 2).returned == 9_000
    assert payouts.pay("banker", "banker", 10_000, 2).returned == 19_500
    assert payouts.pay("player", "player", 10_000, 2).returned == 20_000
