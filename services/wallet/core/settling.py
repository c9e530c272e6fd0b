"""Settlement: what game's events make wallet say. A coup of ours is paid by them alone, each bet once a
version."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from schemas.envelope import Recorded
from schemas.events.base import CoupPayload, EventRef, Payload
from schemas.events.game import (
    BettingClosed,
    CoupConcluded,
    CoupCorrected,
    CoupOpened,
    CoupVoided,
    SeatLeft,
    ShoeEnded,
    TableClosed,
    TableOpened,
)
from schemas.events.wallet import (
    BETS_PER_PART,
    BetResult,
    BetsSealed,
    ConflictDetected,
    CoupReturned,
    CoupSettled,
    LargestPlayerBet,
    ReturnedBet,
    SettledBet,
    SpotTotal,
)
from services.wallet.core.betting import refused_debit
from services.wallet.core.commission import collect, marks_at
from services.wallet.core.corrections import correct
from services.wallet.core.postings import Booking
from services.wallet.core.results import book, result_of
from services.wallet.core.rollbacks import GIVEN_BACK
from services.wallet.core.state import Bet, Coup, CoupKey, WalletState

READS: Final = (
    BettingClosed,
    CoupConcluded,
    CoupCorrected,
    CoupOpened,
    CoupVoided,
    SeatLeft,
    ShoeEnded,
    TableClosed,
)


def coup_key(payload: CoupPayload) -> CoupKey:
    """The coup that an event is about."""
    return CoupKey(payload.operator, payload.table, payload.shoe, payload.coup)


def react(state: WalletState, event: Recorded[Any]) -> Sequence[Payload]:
    """What an event of game makes wallet say: a seal, a settlement, a return, a correction, a collection.

    Raises:
        ValueError: the event contradicts what game said before; it must not be passed over.
    """
    data = event.data
    if isinstance(data, TableOpened):
        if (data.operator, data.table) in state.tables:
            raise ValueError(f"table {data.table} of {data.operator} was opened before")
        return ()
    if not isinstance(data, READS) or (data.operator, data.table) not in state.tables:
        return ()
    match data:
        case SeatLeft():
            return collect(state, marks_at(state, data.operator, data.table, data.seat), "seat_left")
        case ShoeEnded():
            return collect(state, marks_at(state, data.operator, data.table), "shoe_ended")
        case TableClosed():
            return collect(state, marks_at(state, data.operator, data.table), "table_closed")
        case CoupOpened():
            return _opened(state, data)
        case BettingClosed():
            return _closed(state, data)
        case _:
            result = EventRef(stream=event.stream, sequence=event.sequence, hash=event.hash)
            return _resulted(state, data, result)


def _opened(state: WalletState, data: CoupOpened) -> Sequence[Payload]:
    key = coup_key(data)
    if key in state.coups or key in state.known_coups:
        raise ValueError(f"coup {key} was opened before")
    if data.house_number not in state.tables[data.operator, data.table].paytables:
        raise ValueError(f"coup {key} is played by house {data.house_number}, which was never set")
    return ()


def _closed(state: WalletState, data: BettingClosed) -> Sequence[Payload]:
    key = coup_key(data)
    coup = state.coups.get(key)
    if coup is None:
        if key not in state.known_coups:
            raise ValueError(f"coup {key} was never opened")
        return ()
    if coup.phase != "open":
        return ()
    late = [bet for bet in coup.bets.values() if bet.status == "pending"]
    return [*(refused_debit(bet, "DEBIT_UNKNOWN") for bet in late), _seal(state, coup)]


def _resulted(
    state: WalletState, data: CoupConcluded | CoupCorrected | CoupVoided, result: EventRef
) -> Sequence[Payload]:
    key = coup_key(data)
    coup = state.coups.get(key)
    if coup is None:
        known = state.known_coups.get(key)
        if known is None:
            raise ValueError(f"coup {key} was never opened")
        if isinstance(data, CoupConcluded) or data.corrects is None or data.version is None:
            return [repeated_settlement(key)]
        if known[1] >= data.version or known[0] == "returned":
            return [repeated_settlement(key)]
        return correct(state, state.finished[key], data, result)
    if isinstance(data, CoupVoided):
        return _return(coup, data, result)
    if coup.phase != "sealed" or isinstance(data, CoupCorrected):
        raise ValueError(f"coup {key} has a result before its bets were sealed")
    return _settle(state, coup, data, result)


def repeated_settlement(key: CoupKey) -> ConflictDetected:
    """Somebody wants a coup paid that is paid."""
    return ConflictDetected(
        operator=key.operator,
        kind="repeated_settlement",
        table=key.table,
        shoe=key.shoe,
        coup=key.coup,
        fields=(),
    )


def _seal(state: WalletState, coup: Coup) -> BetsSealed:
    totals: defaultdict[tuple[str, str, int], list[int]] = defaultdict(list)
    on_player: defaultdict[tuple[str, int], defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    bets = [bet for bet in coup.bets.values() if bet.status == "open"]
    bets.sort(key=lambda bet: bet.sequence)
    for bet in bets:
        totals[bet.currency, bet.spot, bet.exponent].append(bet.left)
        if bet.spot == "player" and bet.seat is not None:
            on_player[bet.currency, bet.exponent][bet.seat] += bet.left
    largest = []
    for (currency, exponent), seats in sorted(on_player.items()):
        most = max(seats.values())
        tied = tuple(sorted(seat for seat, stake in seats.items() if stake == most))
        largest.append(LargestPlayerBet(currency=currency, exponent=exponent, stake=most, seats=tied))
    key = coup.key
    return BetsSealed(
        operator=key.operator,
        table=key.table,
        shoe=key.shoe,
        coup=key.coup,
        first=bets[0].sequence if bets else None,
        last=bets[-1].sequence if bets else None,
        bets=len(bets),
        totals=tuple(
            SpotTotal(spot=spot, currency=currency, exponent=exponent, bets=len(stakes), stake=sum(stakes))
            for (currency, spot, exponent), stakes in sorted(totals.items())
        ),
        largest_player=tuple(largest),
        digest=bets[-1].hash if bets else state.head,
    )


def parts_of(bets: Iterable[Bet]) -> list[Sequence[Bet]]:
    """The bets in portions that one event can hold; one empty portion where nobody bet."""
    listed = list(bets)
    return [listed[start : start + BETS_PER_PART] for start in range(0, max(1, len(listed)), BETS_PER_PART)]


def _settle(state: WalletState, coup: Coup, data: CoupConcluded, result: EventRef) -> list[Payload]:
    key = coup.key
    paytable = state.tables[key.operator, key.table].paytables[coup.house_number]
    parts = parts_of(coup.bets.values())
    settlements: list[Payload] = []
    for number, part in enumerate(parts, start=1):
        booking = Booking()
        settled = []
        for bet in part:
            outcome = result_of(paytable, bet, data.tiers[bet.spot])
            book(booking, bet, outcome)
            settled.append(_settled(bet, outcome))
        settlements.append(
            CoupSettled(
                operator=key.operator,
                table=key.table,
                shoe=key.shoe,
                coup=key.coup,
                version=data.version,
                result=result,
                house_number=coup.house_number,
                outcome=data.outcome,
                part=number,
                parts=len(parts),
                bets=tuple(settled),
                entry=booking.entry(),
            )
        )
    return settlements


def _settled(bet: Bet, outcome: BetResult) -> SettledBet:
    return SettledBet(
        bet=bet.bet,
        account=bet.account,
        spot=bet.spot,
        tier=outcome.tier,
        currency=bet.currency,
        exponent=bet.exponent,
        stake=bet.left,
        returned=outcome.returned,
        commission=outcome.commission,
        commission_exact=outcome.commission_exact,
        funding=bet.funding,
        deferred=outcome.deferred,
        seat=bet.seat,
    )


def _return(coup: Coup, data: CoupVoided, result: EventRef) -> list[Payload]:
    key = coup.key
    # What the operator's wallet has not answered is not in play: it is rolled back.
    late = [bet for bet in coup.bets.values() if bet.status == "pending"]
    parts = parts_of(bet for bet in coup.bets.values() if bet.status == "open")
    returns: list[Payload] = [refused_debit(bet, "DEBIT_UNKNOWN") for bet in late]
    for number, part in enumerate(parts, start=1):
        booking = Booking()
        for bet in part:
            number_of = GIVEN_BACK[bet.funding]
            parties = {"account": bet.account, "bet": bet.bet}
            booking.book(number_of, bet.currency, {"stake": bet.left}, parties)
        returns.append(
            CoupReturned(
                operator=key.operator,
                table=key.table,
                shoe=key.shoe,
                coup=key.coup,
                result=result,
                reason=data.reason,
                part=number,
                parts=len(parts),
                bets=tuple(
                    ReturnedBet(
                        bet=bet.bet,
                        account=bet.account,
                        spot=bet.spot,
                        currency=bet.currency,
                        exponent=bet.exponent,
                        stake=bet.left,
                        funding=bet.funding,
                    )
                    for bet in part
                ),
                entry=booking.entry(),
            )
        )
    return returns
