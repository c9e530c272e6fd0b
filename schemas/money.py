"""Money: integers of the currency's minor unit inside, decimal strings outside, never a float.

Exponents are those of ISO 4217 (``currencies.toml``); anything else is a unit that somebody declared
there. Conversions are exact or refused (wallet behaviour W23, cases 14 and 15 of the money cases).
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Final

AMOUNT_LIMIT_MINOR_UNITS: Final = 10**15
"""The largest single amount that is accepted, in minor units: above it lies a typing error, not a bet."""

_DECIMAL: Final = re.compile(r"(\d{1,30})(?:\.(\d{1,30}))?", re.ASCII)


class MoneyError(ValueError):
    """An amount or a currency that cannot be taken. ``field`` is ``amount`` or ``currency``."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@cache
def exponents() -> dict[str, int]:
    """Digits after the decimal point, by currency code: EUR 2, JPY 0, KWD 3."""
    table = tomllib.loads((files("schemas") / "currencies.toml").read_text("utf-8"))
    return {**table["iso4217"], **table["declared"]}


def exponent_of(currency: str) -> int:
    """Digits after the decimal point of ``currency``.

    Raises:
        MoneyError: the code is neither in ISO 4217 nor declared.
    """
    try:
        return exponents()[currency]
    except (KeyError, TypeError):
        raise MoneyError(
            "currency",
            f"{currency!r} is not a currency we know: use an ISO 4217 code such as EUR, "
            "or declare the unit in schemas/currencies.toml",
        ) from None


def parse_amount(text: object, currency: str) -> int:
    """The minor units that a decimal string states: ``parse_amount("25.00", "EUR") == 2500``.

    Raises:
        MoneyError: not a string, not a plain decimal, more decimals than the currency has, above the
            limit, or an unknown currency. Zero is a number like any other here; whoever needs a
            positive amount checks that.
    """
    exponent = exponent_of(currency)
    if not isinstance(text, str):
        raise MoneyError("amount", f'an amount is a decimal string such as "25.00", not {text!r}')
    match = _DECIMAL.fullmatch(text)
    if match is None:
        raise MoneyError("amount", f'{text!r} is not an amount: write digits and a point, such as "25.00"')
    whole, fraction = match[1], match[2] or ""
    if len(fraction) > exponent:
        allowed = f"{exponent} decimals" if exponent else "no decimals"
        raise MoneyError("amount", f"{text!r} has too many decimals: {currency} has {allowed}")
    units = int(whole + fraction.ljust(exponent, "0"))
    if units > AMOUNT_LIMIT_MINOR_UNITS:
        raise MoneyError("amount", f"{text!r} is above the largest single amount we take")
    return units


def format_amount(units: int, currency: str) -> str:
    """The decimal string of so many minor units: ``format_amount(-5, "EUR") == "-0.05"``."""
    return format_units(units, exponent_of(currency))


def format_units(units: int, exponent: int) -> str:
    """As ``format_amount``, for an exponent that is already known."""
    sign = "-" if units < 0 else ""
    digits = str(abs(units)).rjust(exponent + 1, "0")
    return f"{sign}{digits[:-exponent]}.{digits[-exponent:]}" if exponent else sign + digits
