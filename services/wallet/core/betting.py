"""Decisions: what a command, or an event of game, makes wallet say. Nothing here changes anything.

A coup of ours is paid by game's events alone. A bet is taken while its coup is open; the seal ends
that; a result pays every sealed bet exactly once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from schemas.commands import Deposit, PlaceBet, RepairSettlement
from schemas.envelope import Recorded
from schemas.events.base import EventRef, Payload
from schemas.events.game import BettingClosed, CoupConcluded, CoupOpened, CoupVoided, TableOpened
from schemas.events.wallet import (
    BETS_PER_PART,
    AccountOpened,
    BetAccepted,
    BetRefused,
    BetsSealed,
    ConflictDetected,
    CoupReturned,
    CoupSettled,
    Deposited,
    LargestPlayerBet,
    RefusalCode,
    ReturnedBet,
    SettledBet,
    SpotTotal,
)
from schemas.money import AMOUNT_LIMIT_MINOR_UNITS, exponent_of
from schemas.refusal import Refusal
from services.wallet.core.evolve import bet_content, coup_key, deposit_content
from services.wallet.core.ledger import Settling, deposit_entry, stake_entry
from services.wallet.core.state import Bet, Coup, CoupKey, TransactionKey, WalletState


def decide_deposit(state: WalletState, command: Deposit, account: str) -> Sequence[Payload]:
    """Take money in for ``account``, the opaque id of the command's reference.

    Raises:
        Refusal: ``CURRENCY_UNKNOWN``, ``LIMIT_REACHED``.
    """
    exponent = _exponent(command.currency)
    _check_limit(command.amount, "amount")
    content = deposit_content(command.currency, command.amount)
    if (repeat := _repeat(state, command.operator, account, command.tx, content)) is not None:
        return repeat
    return [
        *_opening(state, command.operator, account),
        Deposited(
            operator=command.operator,
            account=account,
            tx=command.tx,
            currency=command.currency,
            exponent=exponent,
            amount=command.amount,
            entry=deposit_entry(account, command.currency, command.amount),
        ),
    ]


def decide_bet(state: WalletState, command: PlaceBet, account: str) -> Sequence[Payload]:
    """Take a bet, or refuse it for good.

    Raises:
        Refusal: ``CURRENCY_UNKNOWN``, ``LIMIT_REACHED``; ``COUP_UNKNOWN`` where game has not opened such a
            coup *yet*, which is not final: the same bet may be sent again.
    """
    exponent = _exponent(command.currency)
    _check_limit(command.stake, "stake")
    key = CoupKey(command.operator, command.table, command.shoe, command.coup)
    content = bet_content(
        key, seat=command.seat, spot=command.spot, currency=command.currency, stake=command.stake
    )
    if (repeat := _repeat(state, command.operator, account, command.tx, content)) is not None:
        return repeat
    code = _reason_against(state, key, command, account)
    fields: dict[str, Any] = {
        "operator": command.operator,
        "table": command.table,
        "shoe": command.shoe,
        "coup": command.coup,
        "bet": f"{state.shard}.{state.bets_taken + 1}",
        "account": account,
        "tx": command.tx,
        "seat": command.seat,
        "spot": command.spot,
        "currency": command.currency,
        "exponent": exponent,
        "stake": command.stake,
    }
    bet: Payload
    if code is None:
        entry = stake_entry(account, fields["bet"], command.currency, command.stake)
        bet = BetAccepted(**fields, entry=entry)
    else:
        bet = BetRefused(**fields, code=code)
    return [*_opening(state, command.operator, account), bet]


def decide_repair(state: WalletState, command: RepairSettlement) -> Sequence[Payload]:
    """Settle again what is settled: nobody is paid, and the attempt is reported.

    Raises:
        Refusal: ``COUP_UNKNOWN``, or ``RESULT_UNKNOWN`` while game has not announced a result. There is no
            third case: wallet settles in the transaction in which it learns the result.
    """
    key = CoupKey(command.operator, command.table, command.shoe, command.coup)
    if key in state.coups:
        raise Refusal("RESULT_UNKNOWN", "coup", "game has not announced a result of this coup")
    if key not in state.known_coups:
        raise Refusal("COUP_UNKNOWN", "coup", "this wallet knows no such coup")
    return [_repeated_settlement(key)]


def react(state: WalletState, event: Recorded[Any]) -> Sequence[Payload]:
    """What an event of game makes wallet say: a seal, a settlement, a return.

    Raises:
        ValueError: the event contradicts what game said before; it must not be passed over.
    """
    data = event.data
    if isinstance(data, TableOpened):
        if (data.operator, data.table) in state.tables:
            raise ValueError(f"table {data.table} of {data.operator} was opened before")
        return ()
    if not isinstance(data, CoupOpened | BettingClosed | CoupConcluded | CoupVoided):
        return ()
    terms = state.tables.get((data.operator, data.table))
    if terms is None:
        return ()
    key = coup_key(data)
    coup = state.coups.get(key)
    if isinstance(data, CoupOpened):
        if coup is not None or key in state.known_coups:
            raise ValueError(f"coup {key} was opened before")
        if data.house_number not in terms.paytables:
            raise ValueError(f"coup {key} is played by house {data.house_number}, which was never set")
        return ()
    if coup is None:
        if key not in state.known_coups:
            raise ValueError(f"coup {key} was never opened")
        return () if isinstance(data, BettingClosed) else [_repeated_settlement(key)]
    if isinstance(data, BettingClosed):
        return [_seal(state, coup)] if coup.phase == "open" else ()
    result = EventRef(stream=event.stream, sequence=event.sequence, hash=event.hash)
    if isinstance(data, CoupVoided):
        return _return(coup, data, result)
    if coup.phase != "sealed":
        raise ValueError(f"coup {key} has a result before its bets were sealed")
    return _settle(state, coup, data, result)


def _exponent(currency: str) -> int:
    try:
        return exponent_of(currency)
    except ValueError as error:
        raise Refusal("CURRENCY_UNKNOWN", "currency", str(error)) from None


def _check_limit(amount: int, field: str) -> None:
    # Whatever way a command came: beyond this lies a typing error, and further on the database's numbers end.
    if amount > AMOUNT_LIMIT_MINOR_UNITS:
        raise Refusal("LIMIT_REACHED", field, "the amount is above the largest single amount we take")


def _opening(state: WalletState, operator: str, account: str) -> list[Payload]:
    return [] if account in state.accounts else [AccountOpened(operator=operator, account=account)]


def _repeat(
    state: WalletState, operator: str, account: str, tx: str, content: dict[str, str | int | None]
) -> Sequence[Payload] | None:
    """None where the id is new; nothing to say for a replay (W3); a conflict for another body (W4)."""
    known = state.transactions.get(TransactionKey(account, tx))
    if known is None:
        return None
    differing = conflicting_fields(known.content, content)
    if not differing:
        return ()
    return [ConflictDetected(operator=operator, kind="idempotency", account=account, tx=tx, fields=differing)]


def conflicting_fields(
    known: dict[str, str | int | None], asked: dict[str, str | int | None]
) -> tuple[str, ...]:
    """Names of the fields in which two bodies of one transaction id differ."""
    if known.get("operation") != asked.get("operation"):
        return ("operation",)
    return tuple(name for name in asked if known.get(name) != asked[name])


def _reason_against(state: WalletState, key: CoupKey, command: PlaceBet, account: str) -> RefusalCode | None:
    coup = state.coups.get(key)
    if coup is None:
        if key in state.known_coups:
            return "ROUND_CLOSED"
        raise Refusal("COUP_UNKNOWN", "coup", "no such coup is open for betting; try again when it is")
    if coup.phase != "open":
        return "BETTING_CLOSED"
    if command.spot not in coup.spots:
        return "SPOT_UNKNOWN"
    if state.ledger.cash(account, command.currency) < command.stake:
        return "INSUFFICIENT_FUNDS"
    return None


def _repeated_settlement(key: CoupKey) -> ConflictDetected:
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
    for bet in coup.bets:
        totals[bet.currency, bet.spot, bet.exponent].append(bet.stake)
        if bet.spot == "player" and bet.seat is not None:
            on_player[bet.currency, bet.exponent][bet.seat] += bet.stake
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
        first=coup.bets[0].sequence if coup.bets else None,
        last=coup.bets[-1].sequence if coup.bets else None,
        bets=len(coup.bets),
        totals=tuple(
            SpotTotal(spot=spot, currency=currency, exponent=exponent, bets=len(stakes), stake=sum(stakes))
            for (currency, spot, exponent), stakes in sorted(totals.items())
        ),
        largest_player=tuple(largest),
        digest=coup.last_bet[1] if coup.last_bet else state.head,
    )


def _parts(bets: Sequence[Bet]) -> list[Sequence[Bet]]:
    """The bets in portions that one event can hold; one empty portion where nobody bet."""
    return [bets[start : start + BETS_PER_PART] for start in range(0, max(1, len(bets)), BETS_PER_PART)]


def _settle(state: WalletState, coup: Coup, data: CoupConcluded, result: EventRef) -> list[Payload]:
    key = coup.key
    paytable = state.tables[key.operator, key.table].paytables[coup.house_number]
    parts = _parts(coup.bets)
    settlements: list[Payload] = []
    for number, part in enumerate(parts, start=1):
        settling = Settling()
        settled = []
        for bet in part:
            tier = data.tiers[bet.spot]
            payment = paytable.pay(bet.spot, tier, bet.stake, bet.exponent)
            settling.settle(
                bet.bet,
                bet.account,
                bet.spot,
                bet.currency,
                stake=bet.stake,
                returned=payment.returned,
                commission=payment.commission,
            )
            settled.append(
                SettledBet(
                    bet=bet.bet,
                    account=bet.account,
                    spot=bet.spot,
                    tier=tier,
                    currency=bet.currency,
                    exponent=bet.exponent,
                    stake=bet.stake,
                    returned=payment.returned,
                    commission=payment.commission,
                    commission_exact=payment.commission_exact,
                )
            )
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
                entry=settling.entry(),
            )
        )
    return settlements


def _return(coup: Coup, data: CoupVoided, result: EventRef) -> list[Payload]:
    key = coup.key
    parts = _parts(coup.bets)
    returns: list[Payload] = []
    for number, part in enumerate(parts, start=1):
        settling = Settling()
        for bet in part:
            settling.give_back(bet.bet, bet.account, bet.currency, bet.stake)
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
                        stake=bet.stake,
                    )
                    for bet in part
                ),
                entry=settling.entry(),
            )
        )
    return returns
