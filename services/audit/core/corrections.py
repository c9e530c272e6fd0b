"""Corrections in wallet's streams: a coup that was paid is paid by another result, or is void.

The old result of each bet is undone and the new one booked, in one entry a part. What a player must give back
and does not have is owed (1060); what was collected of commission that is not due any more goes back; of a
free bet that came back by mistake and was used again, the house bears the stake (5010). Whether the new
result is the right one is decided when game's side of it is there (``judgement``).
"""

from __future__ import annotations

from typing import Any

from schemas.envelope import Recorded
from schemas.events.audit import DiscrepancyFound
from schemas.events.base import EventRef
from schemas.events.wallet import BETS_PER_PART, BetResult, CorrectedBet, SettlementCorrected
from services.audit.core.accounts import Accounts
from services.audit.core.coups import OfCoups
from services.audit.core.ledger import BONUS, BONUS_COST, CASH, COMMISSION_OWED, OWED, Ledger, Line, add
from services.audit.core.room import Room
from services.audit.core.settlements import STAKE_BACK, as_words, book
from services.audit.core.state import Correction, Coup, Ref, Result


class Corrections(OfCoups):
    """Checks what is paid anew."""

    def __init__(self, room: Room, ledger: Ledger, accounts: Accounts) -> None:
        super().__init__(room, ledger)
        self._accounts = accounts

    def corrected(self, event: Recorded[Any], data: SettlementCorrected) -> Coup | None:
        """One part of a correction; the coup, if it can be judged now."""
        before = len(self._room.said)
        coup = self._room.known_coup((data.operator, data.table, data.shoe, data.coup))
        correction = None
        if coup is None or not coup.paid:
            words = f"coup {data.coup} of shoe {data.shoe} is paid anew, and "
            words += "it was not paid" if coup is not None else "game has not corrected it"
            self._say("correction", event, words, None, recorded=f"version {data.version}")
        elif _is_paid_by(coup, _ref(data.result)):
            words = f"coup {data.coup} of shoe {data.shoe} was paid by version {data.version} of its result, "
            self._say("second_settlement", event, words + "and here it is paid again", None)
        else:
            correction = self._begin(event, data, coup)
            self._check_bets(event, data, coup, correction)
        self._post(event, data, coup)
        if coup is None or correction is None:
            return None
        correction.faults += [
            said.words for said in self._room.said[before:] if isinstance(said, DiscrepancyFound)
        ]
        self._room.touch_coup(coup)
        return coup

    # ------------------------------------------------------------------------------------------- in private

    def _begin(self, event: Recorded[Any], data: SettlementCorrected, coup: Coup) -> Correction:
        """The correction that this is a part of: the next version, of what was paid before it."""
        latest = coup.corrections[-1] if coup.corrections else None
        result, corrects = _ref(data.result), _ref(data.corrects)
        outcome = data.outcome or ""
        if latest is not None and not latest.done:
            correction = latest
            if (correction.result, correction.version, correction.outcome) != (result, data.version, outcome):
                words = f"the parts of the correction of coup {coup.number} obey different events of game"
                self._say("correction", event, words, None)
        else:
            version = coup.settled_version if latest is None else latest.version
            paid_by = coup.settled_result if latest is None else latest.result
            correction = Correction(data.version, result, corrects, outcome, data.house_number, data.parts)
            coup.corrections.append(correction)
            if data.version != version + 1:
                words = f"coup {coup.number} is paid by version {data.version} of its result, and "
                words += f"version {version + 1} is next"
                self._say("correction", event, words, None, recorded=data.version, expected=version + 1)
            if corrects != paid_by:
                words = f"the correction of coup {coup.number} undoes another result than it was paid by"
                self._say(
                    "correction", event, words, None, recorded=as_place(corrects), expected=as_place(paid_by)
                )
            if coup.settled_as == "returned" or (latest is not None and not latest.outcome):
                words = f"coup {coup.number} is void, and it is paid anew"
                self._say("correction", event, words, None)
        if data.part != correction.part + 1 or data.parts != correction.parts:
            words = f"the correction of coup {coup.number} is out of order: part {data.part} of {data.parts} "
            words += f"follows part {correction.part} of {correction.parts}"
            expected = f"{correction.part + 1}/{correction.parts}"
            self._say(
                "correction", event, words, None, recorded=f"{data.part}/{data.parts}", expected=expected
            )
        if len(data.bets) > BETS_PER_PART:
            words = f"a part of the correction of coup {coup.number} holds {len(data.bets)} bets"
            self._say("correction", event, words, None, recorded=len(data.bets), expected=BETS_PER_PART)
        correction.part, correction.at, correction.hash = data.part, event.sequence, event.hash
        return correction

    def _check_bets(
        self, event: Recorded[Any], data: SettlementCorrected, coup: Coup, correction: Correction
    ) -> None:
        """Every bet of the coup once, undone as it was paid."""
        wrong: list[str] = []
        for row in data.bets:
            bet = coup.bets.get(row.bet)
            if bet is None or not bet.ended:
                wrong.append(f"bet {row.bet} is paid anew in coup {coup.number}, where it was never paid")
                continue
            if row.bet in correction.bets:
                wrong.append(f"bet {row.bet} of coup {coup.number} is paid anew twice")
                continue
            recorded = (row.account, row.seat, row.spot, row.currency, row.exponent, row.stake, row.funding)
            accepted = (bet.account, bet.seat, bet.spot, bet.currency, bet.exponent, bet.stake, bet.funding)
            if recorded != accepted:
                wrong.append(f"bet {row.bet} is corrected as {as_words(row)}, and it was {as_words(bet)}")
            was, paid = _result(row.before), coup.result_of(bet)
            if was != paid:
                words = (
                    f"bet {row.bet} of coup {coup.number} is undone as {_paid(was, row)}, and it was paid "
                )
                words += f"as {_paid(paid, row)}"
                self._say("correction", event, words, None, recorded=was, expected=paid)
            correction.bets[row.bet] = _result(row.after)
        if correction.done:
            wrong += [
                f"bet {bet.bet} of coup {coup.number} was paid, and it is not corrected"
                for bet in coup.bets.values()
                if bet.ended and bet.bet not in correction.bets
            ]
        self._say_all("correction", event, wrong, coup, blame=False)

    def _post(self, event: Recorded[Any], data: SettlementCorrected, coup: Coup | None) -> None:
        """The net of what is undone and what is booked, what is owed, and what was collected too much."""
        due: dict[Line, int] = {}
        for row in data.bets:
            was, after = _result(row.before), _result(row.after)
            book(due, row, row.funding, was, -1)
            book(due, row, row.funding, after)
            owed = (after[2] if after[4] else 0) - (was[2] if was[4] else 0)
            if owed:
                excess = self._accounts.mark(event, row, owed)
                if excess:
                    add(due, COMMISSION_OWED, row.account, row.currency, excess)
                    add(due, CASH, row.account, row.currency, -excess)
            if row.funding == "free":
                back = (after[0] in STAKE_BACK) - (was[0] in STAKE_BACK)
                bet = None if coup is None else coup.bets.get(row.bet)
                stake = back * row.stake
                borne = self._accounts.give_grant_back(event, bet, row.account, row.currency, stake)
                if borne:
                    add(due, BONUS, row.account, row.currency, -borne)
                    add(due, BONUS_COST, None, row.currency, borne)
        recorded = {(each.account, each.currency): each.amount for each in data.shortfalls}
        self._check_shortfalls(event, due, recorded)
        for (account, currency), amount in recorded.items():
            add(due, CASH, account, currency, -amount)
            add(due, OWED, account, currency, amount)
        self._ledger.post(event, data.entry, due, None)

    def _check_shortfalls(
        self, event: Recorded[Any], due: dict[Line, int], recorded: dict[tuple[str, str], int]
    ) -> None:
        lacking: dict[tuple[str, str], int] = dict.fromkeys(recorded, 0)
        for (ledger, account, currency), amount in due.items():
            if ledger == CASH and account is not None and amount > 0:
                lacking[account, currency] = self._ledger.lacks(event, account, currency, amount)
        for (account, currency), amount in lacking.items():
            put_down = recorded.get((account, currency), 0)
            if put_down != amount:
                self._accounts.wrong_shortfall(event, account, currency, put_down, amount)


def _is_paid_by(coup: Coup, result: Ref) -> bool:
    """Whether a coup was paid by this result already, all of it."""
    if not coup.corrections:
        return coup.settled_result == result
    return coup.corrections[-1].done and coup.corrections[-1].result == result


def _result(result: BetResult) -> Result:
    return result.tier, result.returned, result.commission, result.commission_exact, result.deferred


def _ref(ref: EventRef) -> Ref:
    return ref.stream, ref.sequence, ref.hash


def as_place(ref: Ref | None) -> str:
    """A place in a stream, for a finding."""
    return "nothing" if ref is None else f"{ref[0]} {ref[1]} {ref[2]}"


def _paid(result: Result, row: CorrectedBet) -> str:
    tier, returned, commission, exact, deferred = result
    owed = " owed" if deferred else ""
    return f"{tier}: {returned} returned, {commission} ({exact}) of commission{owed}, in {row.currency}"
