"""A house is data: what one rule sheet says, checked when it is loaded.

The five shipped houses are ``schemas/houses/*.toml``. The whole document travels in the ``house set``
event of a table, so that a coup can be judged years later by the rules that were in force. What no
house varies (the tableau, who wins, that a tie returns the Player and Banker stakes) is not here.
"""

from __future__ import annotations

import re
import tomllib
from enum import StrEnum
from fractions import Fraction
from importlib.resources import files
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from schemas.money import MoneyError, parse_amount

Side = Literal["player", "banker"]

_PRICE: Final = re.compile(r"(\d{1,4}(?:\.\d{1,4})?) (to|for) (\d{1,4})", re.ASCII)


class HouseError(ValueError):
    """A house that cannot run. ``problems`` are pairs of key path and reason."""

    def __init__(self, house: str, problems: list[tuple[str, str]]) -> None:
        self.house, self.problems = house, problems
        listed = "; ".join(f"{path}: {reason}" for path, reason in problems)
        super().__init__(f"house {house!r} cannot run: {listed}")


def profit_per_unit(price: str) -> Fraction:
    """What a winning unit stake gains, beside itself: ``8 to 1`` and ``9 for 1`` are both 8.

    Raises:
        ValueError: the price is not of the form ``8 to 1`` or ``9 for 1``, or gains nothing.
    """
    match = _PRICE.fullmatch(price)
    if match is None or int(match[3]) == 0:
        raise ValueError(f"{price!r} is not a price: write '8 to 1' (profit) or '9 for 1' (stake included)")
    gain = Fraction(match[1]) / int(match[3])
    profit = gain - 1 if match[2] == "for" else gain
    if profit <= 0:
        raise ValueError(f"{price!r} gains nothing: a winning stake must be paid more than itself")
    return profit


def _check_price(price: str) -> str:
    if profit_per_unit(price).denominator != 1:
        raise ValueError(
            f"{price!r} would pay parts of a minor unit: the profit must be a whole multiple of the stake"
        )
    return price


Price = Annotated[str, AfterValidator(_check_price)]


def _check_rate(rate: str) -> str:
    if not re.fullmatch(r"0(\.\d{1,6})?", rate, re.ASCII):
        raise ValueError(f"{rate!r} is not a rate: write a fraction of one, such as '0.05' for 5 %")
    return rate


def _check_unit(unit: str) -> str:
    if unit != "minor" and not (re.fullmatch(r"\d{1,9}(\.\d{1,8})?", unit, re.ASCII) and Fraction(unit) > 0):
        raise ValueError(f"{unit!r} is not a rounding unit: write 'minor', or an amount such as '0.25'")
    return unit


class Shuffle(StrEnum):
    """When the cards are shuffled."""

    PER_SHOE = "per_shoe"
    EVERY_ROUND = "every_round"


class Burn(StrEnum):
    """What is burned before the first coup."""

    NONE = "none"
    FIRST_CARD_VALUE = "first_card_value"
    """The first card, face up, and as many more as it is worth, a ten or a court card counting ten."""


class RoundingMode(StrEnum):
    """How a commission that falls between two units is settled."""

    HALF_UP = "half_up"
    HALF_EVEN = "half_even"
    UP = "up"
    """For the house."""
    DOWN = "down"
    """For the player."""


class _Section(BaseModel):
    # Inside an event a house of a later version may have more keys. In a rule sheet an unknown key is a
    # misspelled one and would be a silent default: ``parse_house`` forbids it.
    model_config = ConfigDict(frozen=True, extra="ignore")


class ShoeRules(_Section):
    """The cards: decks, shuffle, burn and cut card."""

    decks: int = Field(ge=1, le=12, strict=True)
    shuffle: Shuffle
    burn: Burn
    cut_cards_from_end: int | None = Field(ge=6, le=104, strict=True, default=None)
    """Cards behind the cut card; the coup in which it comes out is the last. Six is the least depth with
    which a shoe cannot run dry in the middle of a coup."""

    @model_validator(mode="after")
    def _together(self) -> ShoeRules:
        if self.shuffle is Shuffle.PER_SHOE and self.cut_cards_from_end is None:
            raise ValueError("a shoe that is not shuffled every round needs cut_cards_from_end")
        if self.shuffle is Shuffle.EVERY_ROUND and self.cut_cards_from_end is not None:
            raise ValueError(
                "cards that are shuffled every round have no cut card: leave cut_cards_from_end out"
            )
        if self.shuffle is Shuffle.EVERY_ROUND and self.burn is not Burn.NONE:
            raise ValueError("cards that are shuffled every round have no burn: write burn = 'none'")
        if self.cut_cards_from_end is not None and self.cut_cards_from_end > self.decks * 52 - 17:
            raise ValueError("the cut card leaves no room for the burn and a single coup")
        return self


class DealRules(_Section):
    """In which order the first four cards come, and who looks at them."""

    order: tuple[Side, Side, Side, Side]
    dealt_by: Literal["house", "players"] = "house"
    shoe_passes_on: Literal["never", "player_win"] = "never"
    squeeze: Literal["none", "largest_player_bet"] = "none"

    @model_validator(mode="after")
    def _two_each(self) -> DealRules:
        if self.order.count("player") != 2:
            raise ValueError("each hand gets two of the first four cards")
        if self.shoe_passes_on != "never" and self.dealt_by != "players":
            raise ValueError("only a shoe that players deal can pass: write dealt_by = 'players'")
        return self


class TableRules(_Section):
    """The table: how many seats it may have."""

    seats: tuple[Annotated[int, Field(ge=1, le=99, strict=True)], ...] = Field(min_length=1)
    """The sizes that may be chosen, the default first."""


class Prices(_Section):
    """What a winning bet is paid, in the sheet's own notation."""

    player: Price
    banker: Price
    tie: Price


class CommissionRules(_Section):
    """What the house keeps of a winning Banker bet: a rate of the *winnings*, and its rounding."""

    rate: Annotated[str, AfterValidator(_check_rate)]
    rounding_unit: Annotated[str, AfterValidator(_check_unit)]
    """``minor`` for one minor unit of the bet's currency, or an amount such as ``0.25``."""
    rounding_mode: RoundingMode
    collection: Literal["each_win", "deferred"] = "each_win"
    """``deferred``: it is marked on the seat and collected later (when asked for, when the player leaves, at
    the end of the shoe, when the table closes)."""


class TableLimit(_Section):
    """What may lie on one spot in one currency, or (``differential``) between Player and Banker.

    Amounts are decimal strings; what is not named is not limited.
    """

    currency: str = Field(pattern=r"^[A-Z][A-Z0-9]{1,7}$")
    spot: Literal["player", "banker", "tie"] | None = None
    """Null: each spot by itself."""
    minimum: str | None = None
    """Of a single bet."""
    maximum: str | None = None
    """Of one player's bets on the spot in one coup."""
    coup_maximum: str | None = None
    """Of everybody's bets on the spot in one coup."""
    differential: str | None = None
    """How much more may lie on Player than on Banker, or the other way, in one coup."""

    @model_validator(mode="after")
    def _amounts(self) -> TableLimit:
        for name in ("minimum", "maximum", "coup_maximum", "differential"):
            if (text := getattr(self, name)) is not None:
                try:
                    units = parse_amount(text, self.currency)
                except MoneyError as error:
                    raise ValueError(f"{name}: {error}") from None
                if not units:
                    raise ValueError(f"{name}: a limit of nothing lets nobody play; leave it out")
        if self.differential is not None and self.spot is not None:
            raise ValueError("a differential is between Player and Banker: leave the spot out")
        return self


class Claim(_Section):
    """An edge that the sheet states, as it states it (per cent): shown beside ours, never used."""

    spot: Literal["player", "banker", "tie"]
    edge_percent: str


class House(_Section):
    """One rule sheet, as data. ``version`` rises whenever anything in it changes."""

    id: str = Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")
    version: int = Field(ge=1, strict=True)
    name: str = Field(min_length=1, max_length=120)
    language: str = Field(pattern=r"^[a-z]{2}$")
    notes: tuple[str, ...] = ()
    shoe: ShoeRules
    deal: DealRules
    table: TableRules
    prices: Prices
    commission: CommissionRules
    limits: tuple[TableLimit, ...] = ()
    """Of a table that plays by this house."""
    claims: tuple[Claim, ...] = ()


def parse_house(document: dict[str, Any], name: str) -> House:
    """The house that a parsed TOML or JSON document describes.

    Raises:
        HouseError: with the key path and the reason of every mistake, not only of the first.
    """
    try:
        return House.model_validate(document, extra="forbid")
    except ValidationError as error:
        problems = [
            (".".join(str(key) for key in each["loc"]) or "house", each["msg"].removeprefix("Value error, "))
            for each in error.errors()
        ]
        raise HouseError(name, problems) from None


def load_house(text: str, name: str) -> House:
    """The house that a TOML text describes.

    Raises:
        HouseError: the text is not TOML, or not a house.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise HouseError(name, [("file", f"is not valid TOML: {error}")]) from None
    return parse_house(document, name)


def shipped_houses() -> dict[str, House]:
    """The five houses, by id, in the order of their ids."""
    folder = files("schemas") / "houses"
    sheets = sorted(
        (sheet for sheet in folder.iterdir() if sheet.name.endswith(".toml")), key=lambda s: s.name
    )
    houses = [load_house(sheet.read_text("utf-8"), sheet.name.removesuffix(".toml")) for sheet in sheets]
    return {house.id: house for house in houses}
