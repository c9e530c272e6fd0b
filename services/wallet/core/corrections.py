"""Corrections: a coup has another result than it was paid for, or none (W21, W22, postings 10 and 12b to
12d).

The old settlement is reversed and the new one posted in one entry, under the rules that were in force when
the bets were taken. What a player must give back and no longer has, worked out on the net, he owes (1060).
"""

from __future__ import annotations

from typing import Final

from schemas.events.base import EventRef, Payload
from schemas.events.game import CoupCorrected, CoupVoided
from schemas.events.wallet import BetResult, CorrectedBet, SettlementCorrected, Shortfall
from services.wallet.core.commission import owed_id
from services.wallet.core.paytable import Paytable
from services.wallet.core.postings import (
    BONUS_COST,
    COMMISSION_OWED,
    PLAYER_BONUS,
    PLAYER_CASH,
    RECEIVABLE,
    Booking,
)
from services.wallet.core.results import book, result_of, void_result
from services.wallet.core.state import Bet, Coup, WalletState

_BETS_PER_PART: Final = 50
"""Each says two results, and may have lines for a shortfall: more would not fit in an event."""
_COMES_BACK: Final = ("push", "void")


def correct(
    state: WalletState, coup: Coup, data: CoupCorrected | CoupVoided, result: EventRef
) -> list[Payload]:
    """The events that pay a finished coup anew. ``coup`` has its bets as they ended."""
    assert data.corrects is not None, "only a coup with a result is corrected"
    assert data.version is not None, "a correction is a version"
    key = coup.key
    paytable = state.tables[key.operator, key.table].paytables[coup.house_number]
    bets = list(coup.bets.values())
    starts = range(0, max(1, len(bets)), _BETS_PER_PART)
    spent: dict[tuple[str, str], int] = {}
    marks: dict[str, int] = {}
    grants: dict[str, int] = {}
    corrections: list[Payload] = []
    for number, start in enumerate(starts, start=1):
        booking = Booking()
        corrected = []
        for bet in bets[start : start + _BETS_PER_PART]:
            before = recorded_result(paytable, bet)
            after = (
                void_result(bet)
                if isinstance(data, CoupVoided)
                else result_of(paytable, bet, data.tiers[bet.spot])
            )
            book(booking, bet, before, -1)
            book(booking, bet, after)
            corrected.append(_corrected(bet, before, after))
            _give_collected_commission_back(state, coup, booking, corrected[-1], marks)
            _bear_used_free_bets(state, booking, bet, corrected[-1], grants)
        shortfalls = _shortfalls(state, key.operator, booking, spent)
        corrections.append(
            SettlementCorrected(
                operator=key.operator,
                table=key.table,
                shoe=key.shoe,
                coup=key.coup,
                version=data.version,
                result=result,
                corrects=data.corrects,
                house_number=coup.house_number,
                outcome=None if isinstance(data, CoupVoided) else data.outcome,
                reason=data.reason,
                approver=data.approver or "",
                part=number,
                parts=len(starts),
                bets=tuple(corrected),
                shortfalls=tuple(shortfalls),
                entry=booking.entry(),
            )
        )
    return corrections


def recorded_result(paytable: Paytable, bet: Bet) -> BetResult:
    """What a bet was last paid as."""
    exact = "0"
    if bet.tier not in ("lose", "push", "void"):
        exact = paytable.pay(bet.spot, bet.tier, bet.left, bet.exponent).commission_exact
    return BetResult(
        tier=bet.tier,
        returned=bet.returned,
        commission=bet.commission,
        commission_exact=exact,
        deferred=bet.deferred,
    )


def _corrected(bet: Bet, before: BetResult, after: BetResult) -> CorrectedBet:
    return CorrectedBet(
        bet=bet.bet,
        account=bet.account,
        spot=bet.spot,
        seat=bet.seat,
        currency=bet.currency,
        exponent=bet.exponent,
        stake=bet.left,
        funding=bet.funding,
        before=before,
        after=after,
    )


def _give_collected_commission_back(
    state: WalletState, coup: Coup, booking: Booking, bet: CorrectedBet, marks: dict[str, int]
) -> None:
    """Commission that was marked, collected meanwhile, and is not due any more, goes back to the player."""
    mark, change = change_of_mark(coup, bet)
    if not change:
        return
    known = state.items.owed.get(mark)
    left = marks.get(mark, 0 if known is None else known.amount) + change
    marks[mark] = max(0, left)
    if left < 0:
        booking.add((COMMISSION_OWED, bet.account, bet.currency), -left)
        booking.add((PLAYER_CASH, bet.account, bet.currency), left)


def _bear_used_free_bets(
    state: WalletState, booking: Booking, bet: Bet, row: CorrectedBet, grants: dict[str, int]
) -> None:
    """A free bet that came back by mistake, and was used again or withdrawn meanwhile, is not there to be
    taken back: the house bears it (5010)."""
    came_back, comes_back = (each.tier in _COMES_BACK for each in (row.before, row.after))
    if bet.grant is None or came_back == comes_back:
        return
    known = state.grant(bet.grant)
    left = grants.get(bet.grant, 0 if known is None else known.left)
    left += bet.left if comes_back else -bet.left
    grants[bet.grant] = max(0, left)
    if left < 0:
        booking.add((PLAYER_BONUS, bet.account, bet.currency), left)
        booking.add((BONUS_COST, None, bet.currency), -left)


def _shortfalls(
    state: WalletState, operator: str, booking: Booking, spent: dict[tuple[str, str], int]
) -> list[Shortfall]:
    """Let nobody's cash go below nothing. ``spent``: what earlier parts of the correction took."""
    found = []
    for (ledger, account, currency), amount in list(booking.lines.items()):
        if ledger != PLAYER_CASH or account is None:
            continue
        cash = state.ledger.cash(operator, account, currency) - spent.get((account, currency), 0)
        lacking = max(0, amount - cash)
        if lacking:
            booking.add((PLAYER_CASH, account, currency), -lacking)
            booking.add((RECEIVABLE, account, currency), lacking)
            found.append(Shortfall(account=account, currency=currency, amount=lacking))
        spent[account, currency] = spent.get((account, currency), 0) + amount - lacking
    return found


def change_of_mark(coup: Coup, bet: CorrectedBet) -> tuple[str, int]:
    """The seat's mark of deferred commission that a corrected bet changes, and by how much."""
    before = bet.before.commission if bet.before.deferred else 0
    after = bet.after.commission if bet.after.deferred else 0
    return owed_id(coup.key.operator, coup.key.table, bet.seat, bet.account, bet.currency), after - before
