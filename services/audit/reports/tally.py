"""Sums over the coups of a report, taken as they pass by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from schemas.events.base import Outcome
from schemas.house import House, Shuffle
from schemas.money import format_units
from services.audit.core.facts import BetAccount, CoupAccount, ShoeAccount
from services.audit.core.odds import outcome_shares

OUTCOMES: Final[tuple[Outcome, ...]] = ("banker", "player", "tie")


SHOES_LISTED: Final = 100


@dataclass(slots=True)
class MoneyRow:
    """Bets of one kind in one currency, in minor units."""

    currency: str
    exponent: int
    bets: int = 0
    staked: int = 0
    returned: int = 0
    commission: int = 0
    net: int = 0
    """What the players won; an open bet has won and lost nothing yet."""

    def add(self, bet: BetAccount, sign: int = 1) -> None:
        """Count a bet that was taken; with ``sign`` -1 no more."""
        self.bets += sign
        self.staked += sign * bet.stake
        self.returned += sign * bet.returned
        self.commission += sign * bet.commission
        self.net += sign * bet.net

    @property
    def in_play(self) -> int:
        """Stakes of bets that have not ended."""
        return self.staked - self.returned + self.net

    @property
    def house_win(self) -> int:
        """What the house kept. Commission is inside it: a smaller payout, never added again."""
        return -self.net

    def amount(self, units: int) -> str:
        """So many minor units of this row's currency."""
        return amount(units, self.exponent)


def total_of(rows: Iterable[MoneyRow]) -> MoneyRow:
    """The sum of rows of one currency, which is what a totals row shows."""
    rows = list(rows)
    total = MoneyRow(rows[0].currency, rows[0].exponent)
    for row in rows:
        assert row.currency == total.currency, "different currencies are never added"
        total.bets += row.bets
        total.staked += row.staked
        total.returned += row.returned
        total.commission += row.commission
        total.net += row.net
    return total


def by_currency(bets: Iterable[BetAccount]) -> list[MoneyRow]:
    """One row a currency of the bets that were taken."""
    rows: dict[str, MoneyRow] = {}
    for bet in bets:
        if bet.status != "refused":
            rows.setdefault(bet.currency, MoneyRow(bet.currency, bet.exponent)).add(bet)
    return [rows[currency] for currency in sorted(rows)]


@dataclass(slots=True)
class Bead:
    """One coup on the bead plate."""

    anchor: str
    coup: int
    outcome: Outcome
    totals: str
    player_pair: bool
    banker_pair: bool


@dataclass(slots=True)
class Tally:
    """What the summary of a report says."""

    coups: int = 0
    void: int = 0
    corrected: int = 0
    """Later results of coups that had one."""
    verdicts: dict[str, int] = field(default_factory=lambda: {"verified": 0, "discrepancy": 0, "open": 0})
    outcomes: dict[Outcome, int] = field(default_factory=lambda: {"banker": 0, "player": 0, "tie": 0})
    naturals: int = 0
    cards: int = 0
    refused: int = 0
    by_decks: dict[int, int] = field(default_factory=dict)
    """Coups with an outcome, by the number of decks that they came from."""
    money: dict[tuple[str, str], MoneyRow] = field(default_factory=dict)
    """By currency and spot."""
    beads: dict[tuple[str, str], list[Bead]] = field(default_factory=dict)
    """By table and shoe; without a shoe where every round is one of its own."""
    found: list[tuple[str, str, str]] = field(default_factory=list)
    """Anchor, coup and sentence of the first findings."""
    shoes: list[ShoeAccount] = field(default_factory=list)
    """Committed shoes: the first of them, and the first that are not as they were committed."""
    shoes_wrong: int = 0
    shoes_more: int = 0
    """Verified shoes that are not listed."""

    def add_shoe(self, shoe: ShoeAccount) -> None:
        """Count a shoe that had a commitment."""
        if shoe.commitment is None:
            return
        listed = len(self.shoes) < SHOES_LISTED if shoe.verified else self.shoes_wrong < SHOES_LISTED
        self.shoes_wrong += not shoe.verified
        if listed:
            self.shoes.append(shoe)
        else:
            self.shoes_more += shoe.verified

    def add(self, coup: CoupAccount, anchor: str, house: House | None) -> None:
        """Count a coup, played by this house."""
        self.coups += 1
        self.void += coup.status == "void"
        self.verdicts[coup.verdict] += 1
        for bet in coup.bets:
            if bet.status == "refused":
                self.refused += 1
                continue
            row = self.money.setdefault((bet.currency, bet.spot), MoneyRow(bet.currency, bet.exponent))
            row.add(bet)
        if coup.outcome is not None:
            self.outcomes[coup.outcome] += 1
            self.naturals += coup.natural
            self.cards += len(coup.dealt)
            shoe = coup.shoe
            if house is not None:
                self.by_decks[house.shoe.decks] = self.by_decks.get(house.shoe.decks, 0) + 1
                shoe = "" if house.shoe.shuffle is Shuffle.EVERY_ROUND else shoe
            self.beads.setdefault((coup.table, shoe), []).append(
                Bead(
                    anchor,
                    coup.coup,
                    coup.outcome,
                    f"{coup.player_total}–{coup.banker_total}",
                    _is_pair(coup.player),
                    _is_pair(coup.banker),
                )
            )

    def correct(self, before: CoupAccount, after: CoupAccount) -> None:
        """What was counted of a coup by its old result counts by the new one. Its bead stays as it fell."""
        self.corrected += 1
        if after.verdict != before.verdict:
            self.verdicts[before.verdict] -= 1
            self.verdicts[after.verdict] += 1
        for account, sign in ((before, -1), (after, 1)):
            self.void += sign * (account.status == "void")
            if account.outcome is not None:
                self.outcomes[account.outcome] += sign
            for bet in account.bets:
                if bet.status != "refused":
                    self.money[bet.currency, bet.spot].add(bet, sign)

    @property
    def decided(self) -> int:
        """Coups with an outcome."""
        return sum(self.outcomes.values())

    def expected(self) -> dict[Outcome, float]:
        """The share of each outcome that so many coups from such shoes must have on average."""
        known = sum(self.by_decks.values())
        shares: dict[Outcome, float] = dict.fromkeys(OUTCOMES, 0.0)
        for decks, coups in self.by_decks.items():
            for outcome, share in outcome_shares(decks).items():
                shares[outcome] += coups / known * float(share)
        return shares

    def currencies(self) -> Iterator[tuple[str, list[tuple[str, MoneyRow]]]]:
        """Each currency with its rows by spot."""
        for currency in sorted({currency for currency, _ in self.money}):
            order = {"player": 0, "banker": 1, "tie": 2}
            spots = sorted(
                (spot for each, spot in self.money if each == currency), key=lambda s: (order.get(s, 3), s)
            )
            yield currency, [(spot, self.money[currency, spot]) for spot in spots]


def amount(units: int, exponent: int) -> str:
    """A decimal string with commas between thousands and a real minus sign."""
    text = format_units(abs(units), exponent)
    whole, point, rest = text.partition(".")
    return f"{'−' if units < 0 else ''}{int(whole):,}{point}{rest}"


def signed(units: int, exponent: int) -> str:
    """As ``amount``, with a plus where something was gained."""
    return ("+" if units > 0 else "") + amount(units, exponent)


def _is_pair(cards: tuple[str, ...]) -> bool:
    """Two cards of one rank; their value does not make a pair."""
    return len(cards) > 1 and cards[0][0] == cards[1][0]
