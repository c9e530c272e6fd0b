"""Recorded coups as JSON Lines: what a line may say, and how it is refused in words.

Pure: text in, a line or a ``LineError`` out. What only the services can know (cards that the house's
rules do not allow, a transaction id that was used before) is checked by them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from schemas.cards import Card, parse_card
from schemas.commands.wallet import (
    AccountReference,
)
from schemas.events.accounts import TransactionId
from schemas.events.base import CoupNumber, Name, Seat
from schemas.house import House
from schemas.money import MoneyError, parse_amount

SPOTS: Final = ("player", "banker", "tie")


class LineError(ValueError):
    """A line that cannot be. ``field`` is the path of what was wrong, such as ``bets[0].stake``."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field, self.reason = field, reason


@dataclass(frozen=True, slots=True)
class DepositLine:
    """Money that came in."""

    account: str
    tx: str
    currency: str
    amount: int


@dataclass(frozen=True, slots=True)
class BetLine:
    """A bet of a recorded coup, with its place in the line's list."""

    index: int
    account: str
    tx: str
    seat: int | None
    spot: str
    currency: str
    stake: int


@dataclass(frozen=True, slots=True)
class CoupLine:
    """A coup that was dealt. ``cards`` are in the order in which they left the shoe."""

    table: str
    house: House
    shoe: str
    coup: int
    cards: tuple[Card, ...]
    dealer_seat: int | None
    bets: tuple[BetLine, ...]


S = TypeVar("S", bound="_Shape")


class _Shape(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class _Deposit(_Shape):
    type: Literal["deposit"]
    account: AccountReference
    tx: TransactionId
    currency: str
    amount: Any


class _Bet(_Shape):
    account: AccountReference
    tx: TransactionId
    seat: Seat | None = None
    spot: str
    currency: str
    stake: Any


class _Coup(_Shape):
    type: Literal["coup"]
    table: Name
    house: str
    shoe: Name
    coup: CoupNumber
    cards: Annotated[list[Any], Field(max_length=100)]
    dealer_seat: Seat | None = None
    bets: Annotated[list[_Bet], Field(max_length=10_000)] = []


def parse_line(raw: bytes, houses: Mapping[str, House]) -> DepositLine | CoupLine:
    """What the line says.

    Raises:
        LineError: the field, and what to do about it.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LineError("line", f"is not UTF-8 text (byte {error.start + 1})") from None
    try:
        document = json.loads(text, object_pairs_hook=_each_key_once, parse_constant=_no_constant)
    except LineError:
        raise
    except (ValueError, RecursionError) as error:
        raise LineError("line", f"is not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise LineError("line", 'must be a JSON object such as {"type":"coup",…}')
    match document.get("type"):
        case "deposit":
            return _deposit(_shape(_Deposit, document))
        case "coup":
            return _coup(_shape(_Coup, document), houses)
        case None:
            raise LineError("type", "is missing: write 'deposit' or 'coup'")
        case other:
            raise LineError("type", f"{other!r} is not known: write 'deposit' or 'coup'")


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object. One key with two values says two things, and which one was meant nobody can tell."""
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(key for place, (key, _) in enumerate(pairs) if key in dict(pairs[:place]))
        raise LineError(twice, "stands twice in one object")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _shape(shape: type[S], document: dict[str, Any]) -> S:
    try:
        return shape.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        raise LineError(_path(first["loc"]), _reason(first["type"], first["msg"], first["input"])) from None


def _path(location: tuple[str | int, ...]) -> str:
    path = ""
    for key in location:
        path += f"[{key}]" if isinstance(key, int) else f".{key}" if path else key
    return path or "line"


def _reason(kind: str, message: str, value: object) -> str:
    if kind == "missing":
        return "is missing"
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        message = "it must be an object such as {…}"
    elif kind == "string_pattern_mismatch":
        message = "it has a character that is not allowed there (a control character, a slash in a name, …)"
    shown = repr(value)
    return f"{shown if len(shown) <= 60 else shown[:57] + '...'} cannot be taken: {message.lower()}"


def _deposit(shape: _Deposit) -> DepositLine:
    amount = _amount(shape.amount, shape.currency, "amount", "currency")
    return DepositLine(shape.account, shape.tx, shape.currency, amount)


def _coup(shape: _Coup, houses: Mapping[str, House]) -> CoupLine:
    house = houses.get(shape.house)
    if house is None:
        raise LineError("house", f"{shape.house!r} is not a house; there are {', '.join(sorted(houses))}")
    cards = tuple(_card(value, f"cards[{index}]") for index, value in enumerate(shape.cards))
    seats = max(house.table.seats)
    bets = tuple(_bet(bet, index, house, seats) for index, bet in enumerate(shape.bets))
    if shape.dealer_seat is not None and shape.dealer_seat > seats:
        raise LineError("dealer_seat", f"house {house.id} has seats 1 to {seats}, not {shape.dealer_seat}")
    return CoupLine(
        table=shape.table,
        house=house,
        shoe=shape.shoe,
        coup=shape.coup,
        cards=cards,
        dealer_seat=shape.dealer_seat,
        bets=_without_repeats(bets),
    )


def _card(value: object, field: str) -> Card:
    try:
        return parse_card(value)  # type: ignore[arg-type]
    except ValueError as error:
        raise LineError(field, str(error)) from None


def _bet(shape: _Bet, index: int, house: House, seats: int) -> BetLine:
    path = f"bets[{index}]"
    if shape.spot not in SPOTS:
        raise LineError(f"{path}.spot", f"{shape.spot!r} is not a spot; there are {', '.join(SPOTS)}")
    if shape.seat is not None and shape.seat > seats:
        raise LineError(f"{path}.seat", f"house {house.id} has seats 1 to {seats}, not {shape.seat}")
    stake = _amount(shape.stake, shape.currency, f"{path}.stake", f"{path}.currency")
    return BetLine(index, shape.account, shape.tx, shape.seat, shape.spot, shape.currency, stake)


def _amount(value: object, currency: str, field: str, currency_field: str) -> int:
    try:
        units = parse_amount(value, currency)
    except MoneyError as error:
        raise LineError(currency_field if error.field == "currency" else field, str(error)) from None
    if units == 0:
        raise LineError(field, "must be more than zero")
    return units


def _without_repeats(bets: tuple[BetLine, ...]) -> tuple[BetLine, ...]:
    """The bets, each transaction once. The same id with another content cannot be."""
    known: dict[tuple[str, str], BetLine] = {}
    for bet in bets:
        first = known.setdefault((bet.account, bet.tx), bet)
        for name in ("spot", "stake", "currency", "seat"):
            if getattr(first, name) != getattr(bet, name):
                raise LineError(
                    f"bets[{bet.index}].{name}",
                    f"transaction {bet.tx!r} stands in bets[{first.index}] with another {name}",
                )
    return tuple(known.values())
