"""What an adapter is: a module that speaks one operator protocol, and nothing else.

It maps our calls to the protocol's paths, names, amounts and codes, and its answers back. It does no I/O, has
no clock and keeps nothing. ``adapters/`` has the protocol of ours, and one for the debit/credit/cancel
pattern.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation, localcontext
from typing import Any, Final, Protocol

from schemas.money import AMOUNT_LIMIT_MINOR_UNITS, exponent_of, format_amount
from schemas.refusal import Refusal
from services.runtime.signing import Key
from services.seamless.calls import Call, Outcome, Status


class Unreadable(ValueError):
    """An answer from which nobody can tell what happened."""


class NotSpoken(Exception):
    """A call for which the protocol has no words."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request as it is sent, below the operator's base URL. ``query`` is escaped, without ``?``."""

    method: str
    path: str
    query: str = ""
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    def with_headers(self, headers: Mapping[str, str]) -> HttpRequest:
        """The same with more headers."""
        return replace(self, headers={**self.headers, **headers})


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer as it came. ``headers`` by lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer in our words."""

    outcome: Outcome
    code: str
    """The protocol's own code, as it stands in the answer."""
    results: tuple[Outcome, ...] = ()
    """Of a batch."""
    status: Status | None = None
    """Of a look-up."""
    fields: tuple[str, ...] = ()
    """The names of what differs, at a conflict."""
    current: int | None = None
    """Beside a repeated answer: the balance now."""


class Adapter(Protocol):
    """One protocol."""

    name: str
    has_status: bool
    """Whether a transaction can be looked up. Without, an unknown outcome is resolved by asking again."""

    def request(self, call: Call) -> HttpRequest:
        """The request that makes a call.

        Raises:
            Refusal: ``PRECISION``: the protocol cannot say that amount exactly.
            NotSpoken: it has no words for the call.
        """

    def authenticate(self, request: HttpRequest, key: Key, timestamp: int, nonce: str) -> HttpRequest:
        """The same request, saying who sends it. ``request.path`` is the whole path here, as it is sent."""

    def reply(self, call: Call, answer: HttpAnswer) -> Reply:
        """What an answer means.

        Raises:
            Unreadable: nothing that can be relied on.
        """

    def codes(self, code: str, call: Call) -> frozenset[str]:
        """The protocol's own codes by which an answer to ``call`` may say what we call ``code``."""


# ---------------------------------------------------------------------------------------------- amounts


class Amounts(Protocol):
    """How a protocol writes amounts. Both ways are exact, or refused (W23)."""

    def write(self, units: int, currency: str) -> Any:
        """Minor units as the protocol has them.

        Raises:
            Refusal: ``PRECISION``.
        """

    def read(self, value: object, currency: str) -> int:
        """Minor units of what stands in an answer.

        Raises:
            Unreadable: it is no amount of that currency.
        """


class DecimalTexts:
    """``"25.00"``."""

    def write(self, units: int, currency: str) -> str:
        """A decimal string."""
        return format_amount(units, currency)

    def read(self, value: object, currency: str) -> int:
        """Minor units of a decimal string; a JSON number is none."""
        if not isinstance(value, str):
            raise Unreadable(f"an amount is {value!r}, which is no decimal string")
        return _scaled(value, exponent_of(currency))


@dataclass(frozen=True, slots=True)
class DecimalNumbers:
    """``25.00`` as a JSON number, at most ``places`` decimals. Never a float in between."""

    places: int = 6

    def write(self, units: int, currency: str) -> Decimal:
        """A number with the currency's decimals, for ``dump``."""
        exponent = exponent_of(currency)
        number = Decimal(units).scaleb(-exponent)
        if exponent > self.places and number != number.quantize(Decimal(1).scaleb(-self.places)):
            raise _imprecise(units, currency)
        return number

    def read(self, value: object, currency: str) -> int:
        """Minor units of a number that ``load`` has read."""
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise Unreadable(f"an amount is {value!r}, which is no number")
        return _scaled(value, exponent_of(currency))


@dataclass(frozen=True, slots=True)
class ScaledIntegers:
    """Whole numbers of 1/``factor`` of a currency's unit, such as 100,000 for Hub88."""

    factor: int

    def write(self, units: int, currency: str) -> int:
        """A whole number."""
        scale: int = 10 ** exponent_of(currency)
        scaled, rest = divmod(units * self.factor, scale)
        if rest:
            raise _imprecise(units, currency)
        return scaled

    def read(self, value: object, currency: str) -> int:
        """Minor units of a whole number."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise Unreadable(f"an amount is {value!r}, which is no whole number")
        scale: int = 10 ** exponent_of(currency)
        units, rest = divmod(value * scale, self.factor)
        if rest:
            raise Unreadable(f"{value} is not a whole number of minor units of {currency}")
        return units


class MinorIntegers:
    """Whole numbers of minor units."""

    def write(self, units: int, currency: str) -> int:
        """A whole number."""
        exponent_of(currency)
        return units

    def read(self, value: object, currency: str) -> int:
        """Minor units."""
        return ScaledIntegers(10 ** exponent_of(currency)).read(value, currency)


_BALANCE_LIMIT: Final = 10**6 * AMOUNT_LIMIT_MINOR_UNITS


def _scaled(value: str | int | Decimal, exponent: int) -> int:
    with localcontext() as context:
        context.prec = 60
        try:
            number = Decimal(value)
            whole = number.scaleb(exponent) if number.is_finite() else None
        except InvalidOperation:
            whole = None
        # Balances may be below zero, and above what a single amount may be.
        if whole is None or abs(whole) > _BALANCE_LIMIT or whole != whole.to_integral_value():
            raise Unreadable(f"{value!s:.40} is no amount with {exponent} decimals")
        return int(whole)


def _imprecise(units: int, currency: str) -> Refusal:
    words = f"{format_amount(units, currency)} {currency} cannot be said exactly in the operator's protocol"
    return Refusal("PRECISION", "amount", words)


# ------------------------------------------------------------------------------------------------- JSON


def dump(value: Any) -> str:
    """JSON with exact decimal numbers, which the standard library cannot write."""
    match value:
        case Decimal():
            return format(value, "f")
        case dict():
            return "{" + ",".join(f"{json.dumps(key)}:{dump(each)}" for key, each in value.items()) + "}"
        case list() | tuple():
            return "[" + ",".join(map(dump, value)) + "]"
        case _:
            return json.dumps(value)


def load(body: bytes) -> dict[str, Any]:
    """The JSON object of an answer, with exact decimal numbers.

    Raises:
        Unreadable: there is none.
    """
    try:
        document = json.loads(body, parse_float=Decimal, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"the answer is no JSON: {body[:60]!r}") from error
    if not isinstance(document, dict):
        raise Unreadable(f"the answer is no JSON object: {body[:60]!r}")
    return document


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")
