"""What audit found out about coups, shoes and houses, for those who print it.

The verifier hands these to a ``Listener`` as it goes along, each once, and keeps none of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from schemas.events.audit import Turnover
from schemas.events.base import Hand, Outcome
from schemas.house import House

BetStatus = Literal["won", "lost", "push", "returned", "open", "refused"]
Verdict = Literal["verified", "discrepancy", "open"]


@dataclass(frozen=True, slots=True)
class BetAccount:
    """One bet, as it was recorded. Amounts in minor units; ``returned`` includes the stake.

    ``returned`` is less the commission, also where that is collected later, and includes a free bet's stake
    where that goes back.
    """

    bet: str
    account: str
    seat: int | None
    spot: str
    currency: str
    exponent: int
    stake: int
    returned: int
    commission: int
    status: BetStatus
    refusal: str | None = None
    """Why it was not taken, where it was not."""

    @property
    def net(self) -> int:
        """What the player won, or lost (negative). A refused bet moved nothing."""
        return self.returned - self.stake if self.status in ("won", "lost", "push", "returned") else 0


@dataclass(frozen=True, slots=True)
class CoupAccount:
    """One coup from opening to settlement, and what audit says of it."""

    operator: str
    table: str
    shoe: str
    coup: int
    house: str
    """The house's id, such as ``nl``."""
    house_number: int
    status: Literal["settled", "void", "open"]
    dealt: tuple[tuple[Hand, str], ...]
    """The cards in the order in which they came, each with the hand that got it."""
    player_total: int | None
    banker_total: int | None
    outcome: Outcome | None
    natural: bool
    dealer: str | None
    dealer_seat: int | None
    squeezed: bool
    """Whether somebody looked at Player's cards first."""
    squeezed_by: int | None
    """The seat that did; none where a croupier turned them."""
    bets: tuple[BetAccount, ...]
    turnover: tuple[Turnover, ...]
    verdict: Verdict
    findings: tuple[str, ...]
    version: int = 1
    """Of its result."""

    @property
    def player(self) -> tuple[str, ...]:
        """Player's cards."""
        return tuple(card for hand, card in self.dealt if hand == "player")

    @property
    def banker(self) -> tuple[str, ...]:
        """Banker's cards."""
        return tuple(card for hand, card in self.dealt if hand == "banker")


@dataclass(frozen=True, slots=True)
class ShoeAccount:
    """A shoe of which no further card can come."""

    operator: str
    table: str
    shoe: str
    source: str
    decks: int
    cards_out: int
    reason: str
    commitment: str | None
    entropy: str | None
    seed: str | None
    verified: bool
    """Whether commitment and every card follow from the revealed seed (always, of recorded cards)."""


class Listener(Protocol):
    """Who wants to know more than verdicts."""

    def house(self, operator: str, table: str, number: int, house: House) -> None:
        """A table plays by this house from here on."""

    def shoe(self, account: ShoeAccount) -> None:
        """A shoe ended."""

    def coup(self, account: CoupAccount) -> None:
        """A coup is finished and was judged; or the events end before that, and it is open."""


@runtime_checkable
class CorrectionListener(Listener, Protocol):
    """Who wants to know of later results, too. ``coup`` was told of the first one."""

    def correction(self, before: CoupAccount, after: CoupAccount) -> None:
        """A coup has another result than it had, and was paid anew."""


def turnover_of(bets: Iterable[BetAccount]) -> tuple[Turnover, ...]:
    """The money of these bets, one row a currency; refused bets are not among it."""
    sums: dict[str, list[int]] = {}
    for bet in bets:
        if bet.status == "refused":
            continue
        row = sums.setdefault(bet.currency, [bet.exponent, 0, 0, 0])
        row[1] += bet.stake
        row[2] += bet.returned
        row[3] += bet.commission
    return tuple(
        Turnover(
            currency=currency, exponent=exponent, staked=staked, returned=returned, commission=commission
        )
        for currency, (exponent, staked, returned, commission) in sorted(sums.items())
    )
