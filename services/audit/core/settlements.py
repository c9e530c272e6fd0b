"""Settlements and returns in wallet's streams: every bet in play ends once, and its money goes where it must.

What a bet had to be *paid* is decided when game's side of the coup is there too (``judgement``).
"""

from __future__ import annotations

from typing import Any, Literal

from schemas.envelope import Recorded
from schemas.events.wallet import (
    BETS_PER_PART,
    CoupReturned,
    CoupSettled,
    ReturnedBet,
    SettledBet,
)
from services.audit.core.accounts import Accounts
from services.audit.core.coups import OfCoups
from services.audit.core.ledger import (
    BONUS_COST,
    CASH,
    COMMISSION,
    COMMISSION_OWED,
    IN_PLAY,
    SIDE_BETS,
    SOURCE,
    SPOT_LEDGER,
    Ledger,
    Line,
    add,
)
from services.audit.core.room import Room
from services.audit.core.state import Bet, Coup, Result

UNPAID = ("lose", "push", "void", "returned")
"""Tiers in which nothing is won."""
STAKE_BACK = ("push", "void", "returned")


class Settlements(OfCoups):
    """Checks how bets end."""

    def __init__(self, room: Room, ledger: Ledger, accounts: Accounts) -> None:
        super().__init__(room, ledger)
        self._accounts = accounts

    def settled(self, event: Recorded[Any], data: CoupSettled) -> Coup | None:
        """One part of a settlement; the coup, if its books can be judged now."""
        coup = self._begin(event, data, "settled")
        due: dict[Line, int] = {}
        known: dict[str, Bet] = {}
        if coup is not None:
            coup.settled_version, coup.settled_outcome = data.version, data.outcome
            coup.settled_house = data.house_number
            if coup.seal is None:
                self._say("seal", event, f"coup {data.coup} was settled before its bets were sealed", coup)
            known = self._known_bets(event, data.bets, coup)
        for each in data.bets:
            result = (each.tier, each.returned, each.commission, each.commission_exact, each.deferred)
            bet = known.get(each.bet)
            if bet is not None:
                bet.tier, bet.returned, bet.commission, bet.exact, bet.deferred = result
            if each.deferred:
                self._mark(event, each, bet, coup)
            if each.funding == "free" and each.tier in STAKE_BACK:
                self._accounts.give_grant_back(event, bet, each.account, each.currency, each.stake)
            book(due, each, each.funding, result)
        self._ledger.post(event, data.entry, due, coup)
        return self._end(event, data, coup)

    def returned(self, event: Recorded[Any], data: CoupReturned) -> Coup | None:
        """One part of a return of stakes."""
        coup = self._begin(event, data, "returned")
        due: dict[Line, int] = {}
        known = {} if coup is None else self._known_bets(event, data.bets, coup)
        for each in data.bets:
            bet = known.get(each.bet)
            free = each.funding == "free"
            result: Result = ("returned", 0 if free else each.stake, 0, "0", False)
            if bet is not None:
                bet.set_result(result)
            if free:
                self._accounts.give_grant_back(event, bet, each.account, each.currency, each.stake)
            book(due, each, each.funding, result)
        self._ledger.post(event, data.entry, due, coup)
        return self._end(event, data, coup)

    def _mark(self, event: Recorded[Any], row: SettledBet, bet: Bet | None, coup: Coup | None) -> None:
        """Commission is marked where the bet was, to be collected later."""
        if bet is not None and row.seat != bet.seat:
            words = f"the commission on bet {bet.bet} is marked on seat {row.seat}, not {bet.seat}"
            self._say("commission", event, words, coup, recorded=row.seat, expected=bet.seat)
        self._accounts.mark(event, row, row.commission)

    def _begin(
        self, event: Recorded[Any], data: CoupSettled | CoupReturned, kind: Literal["settled", "returned"]
    ) -> Coup | None:
        coup = self._find_by_result(event, data)
        if coup is None:
            return None
        result = (data.result.stream, data.result.sequence, data.result.hash)
        if coup.part == 0:
            coup.settled_as, coup.settled_result, coup.parts = kind, result, data.parts
        elif coup.settled_as != kind:
            self._say("settlement", event, f"coup {data.coup} was both settled and returned", coup)
        elif coup.settled_result != result:
            words = f"the parts of the settlement of coup {data.coup} obey different events of game"
            self._say("settlement", event, words, coup)
        if data.part != coup.part + 1 or data.parts != coup.parts:
            words = f"part {data.part} of {data.parts} follows part {coup.part} of {coup.parts}"
            self._say(
                "settlement",
                event,
                f"the settlement of coup {data.coup} is out of order: {words}",
                coup,
                recorded=f"{data.part}/{data.parts}",
                expected=f"{coup.part + 1}/{coup.parts}",
            )
        if len(data.bets) > BETS_PER_PART:
            words = f"a part of the settlement of coup {data.coup} holds {len(data.bets)} bets"
            self._say("settlement", event, words, coup, recorded=len(data.bets), expected=BETS_PER_PART)
        coup.part = data.part
        return coup

    def _known_bets(
        self, event: Recorded[Any], rows: tuple[SettledBet, ...] | tuple[ReturnedBet, ...], coup: Coup
    ) -> dict[str, Bet]:
        """The bets that end here, each once and as it was accepted."""
        known: dict[str, Bet] = {}
        wrong: list[str] = []
        ended: dict[str, int] = {}
        for row in rows:
            bet = coup.bets.get(row.bet)
            if bet is None:
                wrong.append(f"bet {row.bet} is paid in coup {coup.number} and was never accepted for it")
                continue
            if bet.ended:
                wrong.append(f"bet {row.bet} of coup {coup.number} is paid twice")
                continue
            if (row.account, row.spot, row.currency, row.exponent, row.stake, row.funding) != (
                bet.account,
                bet.spot,
                bet.currency,
                bet.exponent,
                bet.stake,
                bet.funding,
            ):
                wrong.append(f"bet {row.bet} ends as {as_words(row)}, and it was accepted as {as_words(bet)}")
            bet.ended = event.envelope.sequence
            ended[bet.currency] = ended.get(bet.currency, 0) + bet.stake
            self._room.touch(bet)
            known[row.bet] = bet
        books = self._ledger.books(event.stream, coup.operator)
        for currency, stakes in ended.items():
            books.move(IN_PLAY, currency, -stakes)
        self._say_all("settlement", event, wrong, coup)
        return known

    def _end(self, event: Recorded[Any], data: CoupSettled | CoupReturned, coup: Coup | None) -> Coup | None:
        if coup is None:
            return None
        self._room.touch(coup)
        if data.part < data.parts:
            return coup
        coup.settlement = (event.stream, event.sequence, event.hash)
        forgotten = [f"bet {bet.bet} of coup {coup.number} was accepted and not paid"
                     for bet in coup.bets.values() if not bet.ended]  # fmt: skip
        self._say_all("settlement", event, forgotten, coup)
        waiting = [f"the operator's wallet was asked for bet {bet} of coup {coup.number}, and it was neither "
                   "accepted nor refused" for bet in coup.debits]  # fmt: skip
        self._say_all("debit", event, waiting, coup)
        coup.paid = True
        return coup

    def _find_by_result(self, event: Recorded[Any], data: CoupSettled | CoupReturned) -> Coup | None:
        """As ``_find``; here the event of game that is obeyed tells early from late."""
        key = (data.operator, data.table, data.shoe, data.coup)
        coup = self._room.coups.get(key)
        if coup is None:
            if self._has_passed(data.result):
                self._paid_again(event, data)
                return None
            coup = self._room.coups[key] = Coup(*key, wallet=event.stream)
        elif coup.paid:
            self._paid_again(event, data)
            return None
        self._check_stream(event, coup)
        return coup

    def _paid_again(self, event: Recorded[Any], data: CoupSettled | CoupReturned) -> None:
        words = f"coup {data.coup} of shoe {data.shoe} was paid, and here it is paid again"
        self._room.report("second_settlement", event, words)


def book(due: dict[Line, int], bet: Any, funding: str, result: Result, sign: int = 1) -> None:
    """Add to an entry how a bet ends; with ``sign`` -1 how that is undone."""
    tier, returned, commission, _, deferred = result
    if funding == "cash" and sign > 0 and not deferred:  # written out: it is what there is most of
        currency, stake = bet.currency, bet.stake
        line: Line = (IN_PLAY, bet.bet, currency)
        due[line] = due.get(line, 0) + stake
        if returned:
            line = (CASH, bet.account, currency)
            due[line] = due.get(line, 0) - returned
        if commission:
            line = (COMMISSION, None, currency)
            due[line] = due.get(line, 0) - commission
        line = (SPOT_LEDGER.get(bet.spot, SIDE_BETS), None, currency)
        due[line] = due.get(line, 0) + returned + commission - stake
        return
    currency, stake = bet.currency, sign * bet.stake
    returned, commission = sign * returned, sign * commission
    add(due, IN_PLAY, bet.bet, currency, stake)
    party = None if funding == "operator" else bet.account
    won = returned + commission - stake
    if funding == "free":
        if tier in STAKE_BACK:
            add(due, SOURCE[funding], bet.account, currency, -stake)
            won = returned
        elif tier not in UNPAID:
            add(due, BONUS_COST, None, currency, -stake)
            won = returned + commission
        add(due, CASH, bet.account, currency, -returned)
    else:
        add(due, SOURCE[funding], party, currency, -returned)
        if deferred:
            add(due, COMMISSION_OWED, bet.account, currency, commission)
            won = returned - stake
    if commission:
        add(due, COMMISSION, None, currency, -commission)
    add(due, SPOT_LEDGER.get(bet.spot, SIDE_BETS), None, currency, won)


def as_words(bet: Any) -> str:
    """A bet in words."""
    source = {"free": " from a free bet", "operator": " from the operator's wallet"}.get(bet.funding, "")
    return f"{bet.stake} minor units of {bet.currency} on {bet.spot} by {bet.account}{source}"
