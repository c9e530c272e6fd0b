"""Money: integers inside, decimal strings outside, exact or refused."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.money import (
    AMOUNT_LIMIT_MINOR_UNITS,
    MoneyError,
    exponent_of,
    exponents,
    format_amount,
    format_units,
    parse_amount,
)

CURRENCIES = st.sampled_from(sorted(exponents()))
UNITS = st.integers(0, AMOUNT_LIMIT_MINOR_UNITS)


@given(UNITS, CURRENCIES)
def test_what_is_written_is_read_again(units, currency):
    text = format_amount(units, currency)
    assert parse_amount(text, currency) == units
    assert Decimal(text) == Decimal(units).scaleb(-exponent_of(currency))
    assert len(text.partition(".")[2]) == exponent_of(currency)


@given(st.integers(-(10**40), 10**40), st.integers(0, 18))
def test_totals_of_any_size_and_sign_are_written_exactly(units, exponent):
    text = format_units(units, exponent)
    assert Fraction(text) == Fraction(units, 10**exponent)
    assert len(text.partition(".")[2]) == exponent


@given(st.decimals(min_value=0, max_value=10**12, places=5), CURRENCIES)
def test_a_decimal_is_taken_exactly_or_not_at_all(number, currency):
    text = f"{number:f}"
    scaled = number.scaleb(exponent_of(currency))
    decimals = len(text.partition(".")[2])
    if decimals > exponent_of(currency) or scaled > AMOUNT_LIMIT_MINOR_UNITS:
        with pytest.raises(MoneyError):
            parse_amount(text, currency)
    else:
        assert parse_amount(text, currency) == scaled


@pytest.mark.parametrize(
    ("text", "currency", "units"),
    [
        ("1000", "JPY", 1_000),  # money case 14
        ("1.234", "KWD", 1_234),
        ("25.00", "EUR", 2_500),
        ("25", "EUR", 2_500),
        ("25.5", "EUR", 2_550),
        ("0.01", "EUR", 1),
        ("0", "EUR", 0),
        ("007", "EUR", 700),
        ("0.00000001", "BTC", 1),
        ("10000000000000.00", "EUR", AMOUNT_LIMIT_MINOR_UNITS),
    ],
)
def test_money_case_14_what_is_taken(text, currency, units):
    assert parse_amount(text, currency) == units


@pytest.mark.parametrize(
    ("text", "currency"),
    [("1.5", "JPY"), ("10.005", "EUR"), ("1.2345", "KWD"), ("1.000", "EUR"), ("1.0", "JPY")],
)
def test_money_case_14_more_decimals_than_the_currency_has(text, currency):
    with pytest.raises(MoneyError, match="too many decimals") as refused:
        parse_amount(text, currency)
    assert refused.value.field == "amount"


@pytest.mark.parametrize("number", [25, 25.0, True, None, Decimal("25.00"), b"25.00", ["25.00"]])
def test_an_amount_is_text_and_nothing_else(number):
    with pytest.raises(MoneyError, match="an amount is a decimal string"):
        parse_amount(number, "EUR")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "-1",
        "+1",
        "1e3",
        "1,00",
        ".5",
        "5.",
        "1.0.0",
        " 1",
        "1\n",
        "\u0661",
        "\uff11",
        "0x1",
        "inf",
        "nan",
        "1_0",
    ],
)
def test_what_is_no_plain_decimal_is_refused(text):
    with pytest.raises(MoneyError, match="is not an amount") as refused:
        parse_amount(text, "EUR")
    assert refused.value.field == "amount"


@pytest.mark.parametrize("text", ["10000000000000.01", "9" * 30, "1" + "0" * 14])
def test_above_the_largest_single_amount(text):
    with pytest.raises(MoneyError, match="above the largest"):
        parse_amount(text, "EUR")


def test_a_text_without_end_is_refused_at_once():
    with pytest.raises(MoneyError):
        parse_amount("1" * 1_000_000, "EUR")


@pytest.mark.parametrize("currency", ["XXQ", "eur", "", "EURO", None, 978])
def test_a_currency_that_is_not_known(currency):
    with pytest.raises(MoneyError, match="is not a currency we know") as refused:
        parse_amount("1", currency)
    assert refused.value.field == "currency"


@pytest.mark.parametrize(
    ("currency", "exponent"),
    [("EUR", 2), ("JPY", 0), ("KWD", 3), ("BHD", 3), ("TND", 3), ("BTC", 8), ("DKK", 2)],
)
def test_exponents_are_those_of_iso_4217_and_those_declared(currency, exponent):
    assert exponent_of(currency) == exponent


def test_every_exponent_fits_in_an_event():
    assert all(0 <= exponent <= 18 for exponent in exponents().values())
    assert all(2 <= len(code) <= 8 and code.isascii() and code.isupper() for code in exponents())


@pytest.mark.parametrize(
    ("units", "currency", "text"),
    [
        (-5, "EUR", "-0.05"),
        (0, "EUR", "0.00"),
        (5, "JPY", "5"),
        (-1_234, "KWD", "-1.234"),
        (100, "EUR", "1.00"),
    ],
)
def test_how_an_amount_is_written(units, currency, text):
    assert format_amount(units, currency) == text
