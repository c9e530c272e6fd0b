"""What a bet comes to in a tier, by where its stake came from, and how that is booked."""

from __future__ import annotations

from typing import Final

from schemas.events.wallet import BetResult
from services.wallet.core.paytable import Paytable
from services.wallet.core.postings import Booking
from services.wallet.core.rollbacks import GIVEN_BACK
from services.wallet.core.state import Bet

_WINS: Final = {"cash": "4", "free": "13c", "operator": "17b"}
_NOTHING: Final = "0"


def result_of(paytable: Paytable, bet: Bet, tier: str) -> BetResult:
    """What the bet comes to. Of a free bet only the winnings are paid; its stake is the house's."""
    payment = paytable.pay(bet.spot, tier, bet.left, bet.exponent)
    free = bet.funding == "free"
    if tier in ("lose", "push"):
        returned = 0 if free else payment.returned
        return BetResult(tier=tier, returned=returned, commission=0, commission_exact=_NOTHING)
    returned, deferred = payment.returned, False
    if free:
        returned -= bet.left
    elif paytable.defers_commission and payment.commission and bet.funding == "cash":
        returned, deferred = returned + payment.commission, True
    return BetResult(
        tier=tier,
        returned=returned,
        commission=payment.commission,
        commission_exact=payment.commission_exact,
        deferred=deferred,
    )


def void_result(bet: Bet) -> BetResult:
    """What a bet of a void coup comes to: its stake, back where it came from."""
    returned = 0 if bet.funding == "free" else bet.left
    return BetResult(tier="void", returned=returned, commission=0, commission_exact=_NOTHING)


def book(booking: Booking, bet: Bet, result: BetResult, sign: int = 1) -> None:
    """Book what a bet came to; with ``sign`` -1 take it back."""
    stake, commission = bet.left, result.commission
    parties = {"account": bet.account, "bet": bet.bet}
    match result.tier:
        case "lose":
            booking.book("6", bet.currency, {"stake": stake}, parties, sign=sign, spot=bet.spot)
        case "push" | "void":
            number = GIVEN_BACK[bet.funding]
            booking.book(number, bet.currency, {"stake": stake}, parties, sign=sign)
        case _:
            number = "4d" if result.deferred else _WINS[bet.funding]
            winnings = result.returned + (0 if result.deferred else commission)
            winnings -= 0 if bet.funding == "free" else stake
            quantities = {"stake": stake, "winnings": winnings, "commission": commission}
            booking.book(number, bet.currency, quantities, parties, sign=sign, spot=bet.spot)
