"""The verdict on a coup, when game has ended it and wallet has paid or returned all of it.

Everything that needs both sides is looked at here: the seal that the cards name, the event that the
settlement obeys, what each bet had to come to, who could look at the cards. The verdict depends only on
what game said up to the coup's end and wallet up to its last part, so it is the same however the two
streams interleave.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from schemas.events.audit import CoupVerified
from schemas.events.base import EventRef, Outcome, wallet_stream
from services.audit.core.coups import SAID_ONE_BY_ONE
from services.audit.core.dealers import Dealers
from services.audit.core.facts import (
    BetAccount,
    BetStatus,
    CorrectionListener,
    CoupAccount,
    Verdict,
    turnover_of,
)
from services.audit.core.ledger import money
from services.audit.core.limits import Move
from services.audit.core.payouts import Wrong, due_result, wrong_payouts, wrong_void
from services.audit.core.room import FAULTS_KEPT, Room
from services.audit.core.settlements import STAKE_BACK
from services.audit.core.state import (
    Announced,
    Bet,
    Correction,
    Coup,
    HouseRules,
    Ref,
    Table,
)

_STATUS: dict[str, BetStatus] = {
    "win": "won",
    "lose": "lost",
    "push": "push",
    "returned": "returned",
    "void": "returned",
}
_OUTCOMES: dict[str, Outcome] = {"player": "player", "banker": "banker", "tie": "tie"}


class Judgement:
    """Judges coups, once each."""

    def __init__(self, room: Room, dealers: Dealers) -> None:
        self._room, self._dealers = room, dealers

    def judge(self, coup: Coup) -> None:
        """Say the verdict if both sides are complete, and let the coup go; then those on later results."""
        if not coup.judged:
            if not (coup.ended and coup.paid):
                return
            self._judge_first(coup)
        while coup.corrections and coup.corrections[0].done and len(coup.announced) >= coup.judged:
            self._judge_correction(coup, coup.corrections[0], coup.announced[coup.judged - 1])

    def _judge_first(self, coup: Coup) -> None:
        table = self._room.tables[coup.stream]
        rules = self._room.rules_of(table, coup.house_number)
        self._check_settlement(coup, table)
        self._check_seal(coup)
        if rules is not None:
            self._check_bets(coup, table, rules)
            self._dealers.squeeze(coup, rules)
        bets = _bets(coup)
        if not coup.faults:
            self._verified(coup, bets)
        self._hand_out(coup, rules, bets, "discrepancy" if coup.faults else "verified")
        coup.judged, coup.doubtful = 1, bool(coup.faults)
        self._room.drop_coup(coup)

    def _judge_correction(self, coup: Coup, paid: Correction, said: Announced) -> None:
        """What was paid anew is what the later result makes due, by the house that was in force then."""
        rules = self._room.rules_of(self._room.tables[coup.stream], coup.house_number)
        at = (coup.wallet, paid.at, paid.hash)
        for check, what, recorded, expected in (
            ("result", "the event", _ref(paid.result), _ref(said.end)),
            ("correction", "the version", paid.version, said.version),
            ("correction", "the outcome", paid.outcome or "void", said.outcome or "void"),
            ("correction", "the house", paid.house_number, coup.house_number),
        ):
            if recorded != expected:
                words = (
                    f"coup {coup.number} is paid anew, and {what} is not the one that game corrected it by"
                )
                words += "" if what == "the event" else f": {recorded}, not {expected}"
                self._money(
                    coup, check, words, at=paid.at, recorded=recorded, expected=expected, correction=paid
                )
        before = self._account(coup, rules, _bets(coup), "discrepancy" if coup.doubtful else "verified")
        wrong: list[Wrong] = []
        outcome = _OUTCOMES.get(said.due_outcome)
        for bet in coup.bets.values():
            result = paid.bets.get(bet.bet)
            if result is None:
                continue
            if not said.outcome:
                wrong += wrong_void(bet, result)
            elif outcome is not None and rules is not None and bet.spot in rules.payouts.spots:
                wrong += wrong_payouts(bet, result, outcome, rules)
            bet.set_result(result)
        self._say_wrong(coup, wrong, at, paid)
        faults = [*said.faults, *paid.faults]
        coup.judged += 1
        coup.doubtful = bool(faults)
        coup.corrections.pop(0)
        coup.settled_result, coup.settled_version, coup.settlement = paid.result, paid.version, at
        self._room.touch_coup(coup)
        bets = _bets(coup)
        if not faults:
            self._verified(coup, bets, said)
        if isinstance(self._room.listener, CorrectionListener):
            verdict: Verdict = "discrepancy" if faults else "verified"
            after = replace(self._account(coup, rules, bets, verdict), findings=tuple(faults[:FAULTS_KEPT]))
            self._room.listener.correction(before, after)

    def account_for_open(self, coup: Coup) -> None:
        """Hand out a coup that is not finished where the events end."""
        table = self._room.tables.get(coup.stream)
        rules = None if table is None else table.rules.get(coup.house_number)
        self._hand_out(coup, rules, _bets(coup), "open")

    # ------------------------------------------------------------------------------------------- in private

    def _check_settlement(self, coup: Coup, table: Table) -> None:
        """Wallet obeyed game's event, and in the stream in which the table's money lives."""
        if coup.settled_result != coup.end:
            words = f"the settlement of coup {coup.number} does not name the event that ended the coup"
            self._money(coup, "result", words, recorded=_ref(coup.settled_result), expected=_ref(coup.end))
        if coup.wallet != wallet_stream(table.shard):
            words = (
                f"the money of coup {coup.number} is in {coup.wallet}; its table names shard {table.shard}"
            )
            self._money(coup, "shard", words, recorded=coup.wallet, expected=wallet_stream(table.shard))
        if (coup.ended == "voided") != (coup.settled_as == "returned"):
            due = "is void, so that every stake goes back" if coup.ended == "voided" else "has a result"
            words = f"coup {coup.number} {due}, and wallet {coup.settled_as} it"
            self._money(coup, "settlement", words, recorded=coup.settled_as)
            return
        if coup.ended == "voided":
            return
        for what, recorded, expected in (
            ("outcome", coup.settled_outcome, coup.outcome),
            ("version", coup.settled_version, coup.version),
            ("house", coup.settled_house, coup.house_number),
        ):
            if recorded != expected:
                words = f"coup {coup.number} was settled by {what} {recorded}, and game said {expected}"
                self._money(coup, "settlement", words, recorded=recorded, expected=expected)

    def _check_seal(self, coup: Coup) -> None:
        """The cards came after the very seal that stands in wallet's stream."""
        if coup.seal_named is None or coup.seal_named == coup.seal:
            return
        if coup.seal is None:
            words = f"the cards of coup {coup.number} name a seal that wallet never made"
        else:
            words = f"the cards of coup {coup.number} name another seal than wallet's"
        self._room.report_at(
            "seal",
            coup.operator,
            (coup.stream, coup.first_card),
            words,
            recorded=_ref(coup.seal_named),
            expected=_ref(coup.seal),
            place=coup.place,
            coup=coup,
        )

    def _check_bets(self, coup: Coup, table: Table, rules: HouseRules) -> None:
        """Every bet was on a spot of the house from a seat of the table, and came to what it had to."""
        wrong: list[Wrong] = []
        outcome = _OUTCOMES.get(coup.due_outcome)
        paid = coup.ended == "concluded" and coup.settled_as == "settled" and outcome is not None
        for bet in coup.bets.values():
            if bet.spot not in coup.spots or bet.spot not in rules.payouts.spots:
                words = f"bet {bet.bet} is on {bet.spot}, which coup {coup.number} does not offer"
                wrong.append(Wrong(bet, "spots", words, bet.spot, ", ".join(coup.spots)))
                continue
            if bet.seat is not None and bet.seat > table.seats:
                words = f"bet {bet.bet} is from seat {bet.seat}, and the table has {table.seats}"
                wrong.append(Wrong(bet, "seat", words, bet.seat, f"at most {table.seats}"))
            if bet.ended and paid and outcome is not None and bet.result != due_result(bet, outcome, rules):
                wrong += wrong_payouts(bet, bet.result, outcome, rules)
        self._say_wrong(coup, wrong, coup.settlement)
        if rules.limits:
            self._check_limits(coup, rules)

    def _check_limits(self, coup: Coup, rules: HouseRules) -> None:
        """No bet was beyond the table's limits when it was taken."""
        moves = [
            Move(
                bet.asked or bet.sequence,
                bet.bet,
                bet.account,
                bet.spot,
                bet.currency,
                bet.stake + bet.taken_back,
            )
            for bet in coup.bets.values()
        ]
        moves += [Move(*row) for row in coup.taken_back]
        for excess in rules.limits.exceeded(moves):
            is_, limit = money(excess.amount, excess.currency), money(excess.limit, excess.currency)
            words = f"with bet {excess.bet} {excess.what} came to {is_}, and the table's limit is {limit}"
            self._money(
                coup, "limit", words, at=excess.sequence, recorded=excess.amount, expected=excess.limit
            )

    def _say_wrong(
        self, coup: Coup, wrong: list[Wrong], at: Ref | None, correction: Correction | None = None
    ) -> None:
        """``correction``: what was paid anew, where it is not about the first result."""
        sequence = at[1] if correction is not None and at else 0
        for each in wrong[:SAID_ONE_BY_ONE]:
            self._money(
                coup,
                each.check,
                each.words,
                at=sequence or each.bet.ended or each.bet.sequence,
                recorded=each.recorded,
                expected=each.expected,
                correction=correction,
            )
        if len(wrong) > SAID_ONE_BY_ONE:
            more = len(wrong) - SAID_ONE_BY_ONE
            words = f"and {more} more bets of coup {coup.number} likewise"
            self._money(coup, "payout", words, at=sequence, correction=correction)

    def _money(
        self,
        coup: Coup,
        check: str,
        words: str,
        *,
        at: int = 0,
        recorded: object = "",
        expected: object = "",
        correction: Correction | None = None,
    ) -> None:
        sequence = at or (coup.settlement[1] if coup.settlement else 0)
        if correction is not None:
            correction.faults.append(words)
        self._room.report_at(
            check,
            coup.operator,
            (coup.wallet, sequence),
            words,
            recorded=recorded,
            expected=expected,
            place=coup.place,
            coup=coup if correction is None else None,
        )

    def _verified(self, coup: Coup, bets: tuple[BetAccount, ...], later: Announced | None = None) -> None:
        assert coup.end is not None
        assert coup.settlement is not None
        void = coup.ended == "voided" if later is None else not later.outcome
        outcome = coup.outcome if later is None else later.outcome
        self._room.said.append(
            CoupVerified(
                operator=coup.operator,
                table=coup.table,
                shoe=coup.shoe,
                coup=coup.number,
                status="void" if void else "settled",
                version=coup.version if later is None else later.version,
                outcome=None if void else _OUTCOMES[outcome],
                cards=tuple(coup.cards),
                bets=len(coup.bets),
                turnover=turnover_of(bets),
                result=_event_ref(coup.end if later is None else later.end),
                settlement=_event_ref(coup.settlement),
            )
        )

    def _hand_out(
        self, coup: Coup, rules: HouseRules | None, bets: tuple[BetAccount, ...], verdict: Verdict
    ) -> None:
        if self._room.listener is not None:
            self._room.listener.coup(self._account(coup, rules, bets, verdict))

    def _account(
        self, coup: Coup, rules: HouseRules | None, bets: tuple[BetAccount, ...], verdict: Verdict
    ) -> CoupAccount:
        status: Literal["settled", "void", "open"] = "void" if coup.ended == "voided" else "settled"
        concluded = coup.ended == "concluded"
        outcome, version, totals = coup.outcome, coup.version, concluded
        if coup.judged > 1:
            last = coup.announced[coup.judged - 2]
            outcome, version, concluded, totals = last.outcome, last.version, bool(last.outcome), False
            status = "settled" if last.outcome else "void"
        return CoupAccount(
            operator=coup.operator,
            table=coup.table,
            shoe=coup.shoe,
            coup=coup.number,
            house="" if rules is None else rules.house.id,
            house_number=coup.house_number,
            status="open" if verdict == "open" else status,
            dealt=tuple(zip(coup.hands, coup.cards, strict=True)),
            player_total=coup.player_total if totals else None,
            banker_total=coup.banker_total if totals else None,
            outcome=_OUTCOMES[outcome] if concluded else None,
            natural=coup.natural,
            dealer=coup.dealer,
            dealer_seat=coup.dealer_seat,
            squeezed=bool(coup.squeezed),
            squeezed_by=coup.squeezed_by,
            bets=(*bets, *_refused(coup)),
            turnover=turnover_of(bets),
            verdict=verdict,
            findings=tuple(coup.faults),
            version=version,
        )


def _bets(coup: Coup) -> tuple[BetAccount, ...]:
    return tuple(
        BetAccount(
            bet=bet.bet,
            account=bet.account,
            seat=bet.seat,
            spot=bet.spot,
            currency=bet.currency,
            exponent=bet.exponent,
            stake=bet.stake,
            returned=bet.returned if bet.funding == "cash" and not bet.deferred else _in_effect(bet),
            commission=bet.commission,
            status=_STATUS.get(bet.tier, "open") if bet.ended else "open",
        )
        for bet in coup.bets.values()
    )


def _in_effect(bet: Bet) -> int:
    """What comes of a bet all in all: less the commission that is owed, and with the free bet that goes back.

    So what the house keeps of all bets is what its gaming accounts say.
    """
    if bet.funding == "free" and bet.ended and bet.tier in STAKE_BACK:
        return bet.stake
    return bet.returned - bet.commission if bet.deferred else bet.returned


def _refused(coup: Coup) -> tuple[BetAccount, ...]:
    return tuple(
        BetAccount(bet, account, seat, spot, currency, exponent, stake, 0, 0, "refused", code)
        for bet, account, seat, spot, currency, exponent, stake, code in coup.refused
    )


def _ref(ref: Ref | None) -> str:
    return "nothing" if ref is None else f"{ref[0]} {ref[1]} {ref[2]}"


def _event_ref(ref: Ref) -> EventRef:
    return EventRef(stream=ref[0], sequence=ref[1], hash=ref[2])
