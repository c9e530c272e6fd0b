"""Bets in wallet's streams, up to the seal: taken, refused, taken back, sealed.

Within one wallet stream everything stands in one order: a bet is accepted, perhaps after the operator's own
wallet was asked for its stake; before the seal it can be taken back; the seal counts what is in play then.
"""

from __future__ import annotations

from typing import Any, Final

from schemas.envelope import Recorded
from schemas.events.wallet import BetAccepted, BetRefused, BetRolledBack, BetsSealed, DebitRequested
from services.audit.core.accounts import Accounts
from services.audit.core.coups import OfCoups
from services.audit.core.ledger import BONUS, IN_PLAY, SOURCE, Ledger, Line, money
from services.audit.core.purses import Holdings
from services.audit.core.room import Room
from services.audit.core.state import Bet, Coup

REFUSALS_KEPT: Final = 1_000
"""Refused bets that a coup keeps for its account."""


class Bets(OfCoups):
    """Checks what wallet says of bets before the seal, and the seal."""

    def __init__(self, room: Room, ledger: Ledger, accounts: Accounts) -> None:
        super().__init__(room, ledger)
        self._accounts = accounts

    # ------------------------------------------------------------------------------------------------ taken

    def accepted(self, event: Recorded[Any], data: BetAccepted) -> None:
        """A bet of a coup that is open for betting, and a stake that the player had."""
        coup = self._find(event, data, "a bet was accepted on")
        stake, currency, funding = data.stake, data.currency, data.funding
        envelope = event.envelope
        holdings = self._ledger.holdings(envelope.stream)
        self._accounts.may_bet(event, data, holdings, coup)
        self._ledger.check_exponent(event, currency, data.exponent, coup)
        books = holdings.books.get(data.operator) or self._ledger.books(envelope.stream, data.operator)
        books.move(IN_PLAY, currency, stake)
        due: dict[Line, int] = {
            (SOURCE[funding], None if funding == "operator" else data.account, currency): stake,
            (IN_PLAY, data.bet, currency): -stake,
        }
        if funding != "cash" or data.grant is not None:
            self._not_from_cash(event, data, holdings, coup)
        self._ledger.post(event, data.entry, due, coup)
        if coup is None:
            return
        asked = self._asked(event, data, coup) if coup.debits or funding == "operator" else 0
        if data.bet in coup.bets:
            self._say("bet", event, f"bet {data.bet} was accepted twice", coup)
            return
        bet = coup.bets[data.bet] = Bet(
            coup.key,
            data.bet,
            data.account,
            data.seat,
            data.spot,
            currency,
            data.exponent,
            stake,
            envelope.sequence,
            event.hash,
            data.tx,
            funding,
            data.grant,
            0,
            asked,
        )
        self._room.touch(bet)
        self._room.touch(coup)
        if coup.seal is not None:
            bet.late = True
            words = f"bet {data.bet} was accepted after the bets of coup {data.coup} had been sealed"
            self._say("late_bet", event, words, coup)

    def debit_requested(self, event: Recorded[Any], data: DebitRequested) -> None:
        """The operator's wallet is asked for a stake; the bet waits."""
        coup = self._find(event, data, "a stake was asked for on")
        self._ledger.purse(event, data.account)
        if coup is None:
            return
        if coup.seal is not None:
            words = (
                f"the stake of bet {data.bet} was asked for after the bets of coup {data.coup} were sealed"
            )
            self._say("debit", event, words, coup)
        coup.debits[data.bet] = [*_as_asked(data), event.sequence]
        self._room.touch(coup)

    def _asked(self, event: Recorded[Any], data: BetAccepted, coup: Coup) -> int:
        """Where the operator's wallet was asked for the stake: nowhere else does such a bet come from."""
        asked = coup.debits.pop(data.bet, None)
        if data.funding != "operator":
            if asked is not None:
                words = f"the operator's wallet was asked for bet {data.bet}, and its stake is from {{}} here"
                words = words.format("a free bet" if data.funding == "free" else "the player's cash")
                self._say("debit", event, words, coup, recorded=data.funding, expected="operator")
            return 0
        if asked is None:
            words = f"bet {data.bet} of {money(data.stake, data.currency)} was accepted, and the operator's "
            words += "wallet was not asked for it"
            self._say("debit", event, words, coup, recorded=data.stake, expected="a request before it")
            return 0
        *whole, sequence = asked
        if whole != _as_asked(data):
            words = f"bet {data.bet} was accepted for {money(data.stake, data.currency)} on {data.spot}, and "
            words += f"the operator's wallet was asked for {money(whole[-1], whole[-3])} on {whole[-4]}"
            self._say("debit", event, words, coup, recorded=data.stake, expected=whole[-1])
        return int(sequence)

    def _not_from_cash(
        self, event: Recorded[Any], data: BetAccepted, holdings: Holdings, coup: Coup | None
    ) -> None:
        """A free bet's stake is covered by what is left of it. (The id of another's counts for his purse.)"""
        self._room.touch(holdings.purses[data.account])
        if data.funding != "free":
            if data.grant is not None:
                words = f"bet {data.bet} names free bet {data.grant}, and its stake is not from there"
                self._say("grant", event, words, coup, recorded=data.funding, expected="free")
            return
        grant = holdings.grants.get(data.grant or "")
        stake, currency = data.stake, data.currency
        self._ledger.books(event.stream, data.operator).move(BONUS, currency, -stake)
        whose = (data.operator, data.account, currency)
        if grant is None or (grant.operator, grant.account, grant.currency) != whose:
            words = f"bet {data.bet} uses free bet {data.grant}, of which account {data.account} has nothing"
            self._say("grant", event, words, coup, recorded=stake, expected=0)
            return
        if grant.amount < stake:
            words = f"bet {data.bet} takes {money(stake, currency)} of free bet {grant.id}, and "
            words += f"{money(grant.amount, currency)} is left of it"
            self._say("grant", event, words, coup, recorded=stake, expected=grant.amount)
        grant.amount -= stake
        self._accounts.keep_grant(holdings, grant)

    # ---------------------------------------------------------------------------------- refused, taken back

    def refused(self, event: Recorded[Any], data: BetRefused) -> None:
        """A refused bet moves nothing; it is kept for the coup's account."""
        key = (data.operator, data.table, data.shoe, data.coup)
        coup = self._room.coups.get(key)
        if coup is None:
            if data.code == "ROUND_CLOSED" or self._is_over(data):
                return
            coup = self._room.coups[key] = Coup(*key, wallet=event.stream)
        asked = coup.debits.pop(data.bet, None)
        if asked is not None:
            # Whoever looks at a limit counts it as long as it waits.
            move = [data.bet, data.account, data.spot, data.currency]
            coup.taken_back += [[asked[-1], *move, data.stake], [event.sequence, *move, -data.stake]]
            self._room.touch(coup)
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

    def rolled_back(self, event: Recorded[Any], data: BetRolledBack) -> None:
        """Before the seal a stake goes back to where it came from, or a part of it."""
        coup = self._find(event, data, "a bet was taken back on")
        bet = None if coup is None else coup.bets.get(data.bet)
        if data.reason != "self_exclusion":
            self._accounts.is_new(event, data.account, data.tx, coup)
        amount, currency = data.amount, data.currency
        if coup is not None:
            self._check_rollback(event, data, bet, coup)
        books = self._ledger.books(event.stream, data.operator)
        books.move(IN_PLAY, currency, -amount)
        due: dict[Line, int] = {
            (IN_PLAY, data.bet, currency): amount,
            (SOURCE[data.funding], None if data.funding == "operator" else data.account, currency): -amount,
        }
        if data.funding == "free":
            self._accounts.give_grant_back(event, bet, data.account, currency, amount)
        self._ledger.post(event, data.entry, due, coup)
        if coup is None or bet is None:
            return
        bet.stake, bet.taken_back = max(0, bet.stake - amount), bet.taken_back + amount
        move = [bet.bet, bet.account, bet.spot, currency]
        coup.taken_back.append([event.sequence, *move, -amount])
        if bet.stake:
            self._room.touch(bet)
        else:
            coup.taken_back.append([bet.asked or bet.sequence, *move, bet.taken_back])
            del coup.bets[bet.bet]
            self._room.drop(bet)
        self._room.touch(coup)

    def _check_rollback(self, event: Recorded[Any], data: BetRolledBack, bet: Bet | None, coup: Coup) -> None:
        which = f"bet {data.bet} of coup {coup.number}"
        back = money(data.amount, data.currency)
        if bet is None:
            words = f"{back} of {which} was taken back, which is not in play"
            self._say("rollback", event, words, coup, recorded=data.amount, expected=0)
            return
        if coup.seal is not None:
            words = f"{back} of {which} was taken back after its bets had been sealed"
            self._say("rollback", event, words, coup, recorded=data.amount, expected=0)
        recorded = (data.account, data.target, data.spot, data.currency, data.funding)
        expected = (bet.account, bet.tx, bet.spot, bet.currency, bet.funding)
        if recorded != expected:
            words = f"{which} was taken back as another bet than was accepted"
            self._say("rollback", event, words, coup, recorded=recorded, expected=expected)
        left = bet.stake - data.amount
        if left < 0:
            words = f"{back} of {which} was taken back, of which {money(bet.stake, bet.currency)} is in play"
            self._say("rollback", event, words, coup, recorded=data.amount, expected=f"at most {bet.stake}")
        elif data.left != left:
            words = f"{money(left, bet.currency)} of {which} is left, not {money(data.left, bet.currency)}"
            self._say("rollback", event, words, coup, recorded=data.left, expected=left)

    # ----------------------------------------------------------------------------------------------- sealed

    def sealed(self, event: Recorded[Any], data: BetsSealed) -> None:
        """The seal says what the bets in play say."""
        coup = self._find(event, data, "bets were sealed for")
        if coup is None:
            return
        if coup.seal is not None:
            self._say("seal", event, f"the bets of coup {data.coup} were sealed twice", coup)
            return
        coup.seal = (event.stream, event.sequence, event.hash)
        self._room.touch(coup)
        bets = [bet for bet in coup.bets.values() if not bet.late]
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
            "digest": bets[-1].hash if bets else event.envelope.previous,
            "totals": _totals(bets),
            "largest Player bets": _largest(bets),
        }
        if recorded == expected:
            return
        for what, said in recorded.items():
            if said != expected[what]:
                words = f"the seal of coup {data.coup} has another {what} than the accepted bets"
                self._say("seal", event, words, coup, recorded=said, expected=expected[what])


def _as_asked(data: BetAccepted | DebitRequested) -> list[Any]:
    return [data.account, data.tx, data.seat, data.spot, data.currency, data.exponent, data.stake]


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
