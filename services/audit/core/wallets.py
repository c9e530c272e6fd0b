"""Wallet's streams: bets, seals and settlements, as far as they can be judged without the cards.

Within one wallet stream everything stands in one order: a bet is accepted, the seal counts it, and the
settlement or the return ends it, once. What a bet had to be *paid* is decided when game's side of the coup
is there too (``judgement``).
"""

from __future__ import annotations

from typing import Any, Final, Literal

from schemas.envelope import Recorded
from schemas.events.base import EventRef
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
    ReturnedBet,
    SettledBet,
)
from services.audit.core.ledger import Ledger
from services.audit.core.room import Room
from services.audit.core.state import Bet, Coup

REFUSALS_KEPT: Final = 1_000
"""Refused bets that a coup keeps for its account."""
SAID_ONE_BY_ONE: Final = 10
"""Findings of one kind in one event that are said singly; then comes how many more there are."""

CoupEvent = BetAccepted | BetRefused | BetsSealed | CoupSettled | CoupReturned


class Wallets:
    """Checks what wallet says."""

    def __init__(self, room: Room, ledger: Ledger) -> None:
        self._room, self._ledger = room, ledger

    # --------------------------------------------------------------------------------------------- accounts

    def account_opened(self, event: Recorded[Any], data: AccountOpened) -> None:
        """An account opens once."""
        self._ledger.open_account(event, data.account, data.operator)

    def deposited(self, event: Recorded[Any], data: Deposited) -> None:
        """Money comes in."""
        self._ledger.deposit(event, data)

    def conflict(self, event: Recorded[Any], data: ConflictDetected) -> None:
        """Somebody asked for a payment a second time. Nothing moved, but somebody should know."""
        if data.kind != "repeated_settlement":
            return
        which = f"coup {data.coup} of shoe {data.shoe}"
        words = f"{which} was to be settled a second time; nobody was paid again"
        self._room.report("repeated_settlement", event, words)

    # ------------------------------------------------------------------------------------------------- bets

    def bet_accepted(self, event: Recorded[Any], data: BetAccepted) -> None:
        """A bet of a coup that is open for betting, and a stake that the player had."""
        coup = self._find(event, data, "a bet was accepted on")
        self._ledger.stake(event, data, coup)
        if coup is None:
            return
        if data.bet in coup.bets:
            self._say("bet", event, f"bet {data.bet} was accepted twice", coup)
            return
        bet = coup.bets[data.bet] = Bet(
            coup.key,
            data.bet,
            data.account,
            data.seat,
            data.spot,
            data.currency,
            data.exponent,
            data.stake,
            event.sequence,
        )
        self._room.touch(bet)
        self._room.touch(coup)
        if coup.seal is None:
            coup.last_bet_hash = event.hash
        else:
            bet.late = True
            words = f"bet {data.bet} was accepted after the bets of coup {data.coup} had been sealed"
            self._say("late_bet", event, words, coup)

    def bet_refused(self, event: Recorded[Any], data: BetRefused) -> None:
        """A refused bet moves nothing; it is kept for the coup's account."""
        key = (data.operator, data.table, data.shoe, data.coup)
        coup = self._room.coups.get(key)
        if coup is None:
            if data.code == "ROUND_CLOSED" or self._is_over(data):
                return
            coup = self._room.coups[key] = Coup(*key, wallet=event.stream)
        if len(coup.refused) < REFUSALS_KEPT and not coup.paid:
            coup.refused.append(
                [
                    data.bet,
                    data.account,
                    data.seat,
                    data.spot,
                    data.currency,
                    data.exponent,
                    data.stake,
                    data.code,
                ]
            )
            self._room.touch(coup)

    def sealed(self, event: Recorded[Any], data: BetsSealed) -> None:
        """The seal says what the accepted bets say."""
        coup = self._find(event, data, "bets were sealed for")
        if coup is None:
            return
        if coup.seal is not None:
            self._say("seal", event, f"the bets of coup {data.coup} were sealed twice", coup)
            return
        coup.seal = (event.stream, event.sequence, event.hash)
        self._room.touch(coup)
        bets = [bet for bet in coup.bets.values() if not bet.late]
        digest = coup.last_bet_hash if bets else event.envelope.previous
        recorded: dict[str, object] = {
            "number of bets": data.bets,
            "first bet": data.first,
            "last bet": data.last,
            "digest": data.digest,
            "totals": sorted((t.currency, t.exponent, t.spot, t.bets, t.stake) for t in data.totals),
            "largest Player bets": sorted(
                (each.currency, each.exponent, each.stake, sorted(each.seats)) for each in data.largest_player
            ),
        }
        expected: dict[str, object] = {
            "number of bets": len(bets),
            "first bet": bets[0].sequence if bets else None,
            "last bet": bets[-1].sequence if bets else None,
            "digest": digest,
            "totals": _totals(bets),
            "largest Player bets": _largest(bets),
        }
        if recorded == expected:
            return
        for what, said in recorded.items():
            if said != expected[what]:
                words = f"the seal of coup {data.coup} has another {what} than the accepted bets"
                self._say("seal", event, words, coup, recorded=said, expected=expected[what])

    # ------------------------------------------------------------------------------------------ settlements

    def settled(self, event: Recorded[Any], data: CoupSettled) -> Coup | None:
        """One part of a settlement; the coup, if its books can be judged now."""
        coup = self._begin(event, data, "settled")
        if coup is not None:
            coup.settled_version, coup.settled_outcome = data.version, data.outcome
            coup.settled_house = data.house_number
            if coup.seal is None:
                self._say("seal", event, f"coup {data.coup} was settled before its bets were sealed", coup)
            for each in self._known_bets(event, data.bets, coup):
                bet = coup.bets[each.bet]
                bet.tier, bet.returned, bet.commission = each.tier, each.returned, each.commission
                bet.exact = each.commission_exact
        self._ledger.settle(event, data.bets, data.entry, coup)
        return self._end(event, data, coup)

    def returned(self, event: Recorded[Any], data: CoupReturned) -> Coup | None:
        """One part of a return of stakes."""
        coup = self._begin(event, data, "returned")
        if coup is not None:
            for each in self._known_bets(event, data.bets, coup):
                bet = coup.bets[each.bet]
                bet.tier, bet.returned = "returned", each.stake
        self._ledger.give_back(event, data.bets, data.entry, coup)
        return self._end(event, data, coup)

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

    def _known_bets(self, event: Recorded[Any], rows: tuple[Any, ...], coup: Coup) -> list[Any]:
        """The rows that end an accepted bet, each once and as it was accepted."""
        known = []
        wrong: list[str] = []
        for row in rows:
            bet = coup.bets.get(row.bet)
            if bet is None:
                wrong.append(f"bet {row.bet} is paid in coup {coup.number} and was never accepted for it")
                continue
            if bet.ended:
                wrong.append(f"bet {row.bet} of coup {coup.number} is paid twice")
                continue
            if (row.account, row.spot, row.currency, row.exponent, row.stake) != (
                bet.account,
                bet.spot,
                bet.currency,
                bet.exponent,
                bet.stake,
            ):
                wrong.append(
                    f"bet {row.bet} ends as {_as_words(row)}, and it was accepted as {_as_words(bet)}"
                )
            bet.ended = event.sequence
            self._ledger.close_stake(event.stream, bet.currency, bet.stake)
            self._room.touch(bet)
            known.append(row)
        self._say_all("settlement", event, wrong, coup)
        return known

    def _end(self, event: Recorded[Any], data: CoupSettled | CoupReturned, coup: Coup | None) -> Coup | None:
        if coup is None:
            return None
        self._room.touch(coup)
        if data.part < data.parts:
            return coup
        coup.settlement = (event.stream, event.sequence, event.hash)
        forgotten = [bet for bet in coup.bets.values() if not bet.ended]
        self._say_all(
            "settlement",
            event,
            [f"bet {bet.bet} of coup {coup.number} was accepted and not paid" for bet in forgotten],
            coup,
        )
        coup.paid = True
        return coup

    # ------------------------------------------------------------------------------------------- in private

    def _find(self, event: Recorded[Any], data: CoupEvent, what: str) -> Coup | None:
        """The coup that an event of wallet is about; one that is over is a finding, one unknown is early."""
        key = (data.operator, data.table, data.shoe, data.coup)
        coup = self._room.coups.get(key)
        if coup is None:
            if self._is_over(data):
                self._late(event, data, what)
                return None
            coup = self._room.coups[key] = Coup(*key, wallet=event.stream)
        elif coup.paid:
            self._late(event, data, what)
            return None
        self._check_stream(event, coup)
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

    def _check_stream(self, event: Recorded[Any], coup: Coup) -> None:
        if not coup.wallet:
            coup.wallet = event.stream
        elif coup.wallet != event.stream:
            words = f"the money of coup {coup.number} is in {event.stream}, and it began in {coup.wallet}"
            self._say("shard", event, words, coup, recorded=event.stream, expected=coup.wallet)

    def _has_passed(self, result: EventRef) -> bool:
        """Whether game's stream was followed beyond this place: then its coup is known, or it is over."""
        stream = self._room.streams.get(result.stream)
        return stream is not None and stream.sequence >= result.sequence

    def _is_over(self, data: CoupEvent) -> bool:
        """Whether game opened this coup and we have let go of it, or its shoe has ended."""
        table = self._room.tables.get(f"game/{data.operator}.{data.table}")
        if table is None:
            return False
        shoe = table.shoes.get(data.shoe)
        if shoe is None:
            return data.shoe in table.ended_shoes
        return shoe.was_opened(data.coup)

    def _late(self, event: Recorded[Any], data: CoupEvent, what: str) -> None:
        words = f"{what} coup {data.coup} of shoe {data.shoe}, which was over"
        self._room.report("late", event, words)

    def _paid_again(self, event: Recorded[Any], data: CoupSettled | CoupReturned) -> None:
        words = f"coup {data.coup} of shoe {data.shoe} was paid, and here it is paid again"
        self._room.report("second_settlement", event, words)

    def _say(
        self,
        check: str,
        event: Recorded[Any],
        words: str,
        coup: Coup,
        *,
        recorded: object = "",
        expected: object = "",
    ) -> None:
        self._room.report(check, event, words, recorded=recorded, expected=expected, coup=coup)

    def _say_all(self, check: str, event: Recorded[Any], sentences: list[str], coup: Coup) -> None:
        for words in sentences[:SAID_ONE_BY_ONE]:
            self._say(check, event, words, coup)
        if len(sentences) > SAID_ONE_BY_ONE:
            more = len(sentences) - SAID_ONE_BY_ONE
            self._say(check, event, f"and {more} more bets of coup {coup.number} likewise", coup)


def _totals(bets: list[Bet]) -> list[tuple[str, int, str, int, int]]:
    sums: dict[tuple[str, int, str], list[int]] = {}
    for bet in bets:
        row = sums.setdefault((bet.currency, bet.exponent, bet.spot), [0, 0])
        row[0] += 1
        row[1] += bet.stake
    return sorted((*key, count, stake) for key, (count, stake) in sums.items())


def _largest(bets: list[Bet]) -> list[tuple[str, int, int, list[int]]]:
    by_currency: dict[tuple[str, int], dict[int, int]] = {}
    for bet in bets:
        if bet.spot == "player" and bet.seat is not None:
            seats = by_currency.setdefault((bet.currency, bet.exponent), {})
            seats[bet.seat] = seats.get(bet.seat, 0) + bet.stake
    return sorted(
        (currency, exponent, largest, sorted(seat for seat, stake in seats.items() if stake == largest))
        for (currency, exponent), seats in by_currency.items()
        for largest in [max(seats.values())]
    )


def _as_words(bet: SettledBet | ReturnedBet | Bet) -> str:
    return f"{bet.stake} minor units of {bet.currency} on {bet.spot} by {bet.account}"
