"""The verdict on a coup, when game has ended it and wallet has paid or returned all of it.

Everything that needs both sides is looked at here: the seal that the cards name, the event that the
settlement obeys, what each bet had to come to, who could look at the cards. The verdict depends only on
what game said up to the coup's end and wallet up to its last part, so it is the same however the two
streams interleave.
"""

from __future__ import annotations

from typing import Literal

from schemas.events.audit import CoupVerified
from schemas.events.base import EventRef, Outcome, wallet_stream
from schemas.money import format_units
from services.audit.core.dealers import Dealers
from services.audit.core.facts import BetAccount, BetStatus, CoupAccount, Verdict, turnover_of
from services.audit.core.money import Payout
from services.audit.core.room import Room
from services.audit.core.state import Bet, Coup, HouseRules, Ref, Table
from services.audit.core.wallets import SAID_ONE_BY_ONE

_STATUS: dict[str, BetStatus] = {"win": "won", "lose": "lost", "push": "push", "returned": "returned"}
_OUTCOMES: dict[str, Outcome] = {"player": "player", "banker": "banker", "tie": "tie"}


class Judgement:
    """Judges coups, once each."""

    def __init__(self, room: Room, dealers: Dealers) -> None:
        self._room, self._dealers = room, dealers

    def judge(self, coup: Coup) -> None:
        """Say the verdict if both sides are complete, and let the coup go."""
        if not (coup.ended and coup.paid):
            return
        table = self._room.tables[coup.stream]
        rules = table.rules.get(coup.house_number)
        self._check_settlement(coup, table)
        self._check_seal(coup)
        if rules is not None:
            self._check_bets(coup, table, rules)
            self._dealers.squeeze(coup, rules)
        bets = _bets(coup)
        if not coup.faults:
            self._verified(coup, bets)
        self._hand_out(coup, rules, bets, "discrepancy" if coup.faults else "verified")
        self._room.drop_coup(coup)

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
        wrong: list[tuple[Bet, str, str, object, object]] = []
        for bet in coup.bets.values():
            if bet.spot not in coup.spots or bet.spot not in rules.payouts.spots:
                words = f"bet {bet.bet} is on {bet.spot}, which coup {coup.number} does not offer"
                wrong.append((bet, "spots", words, bet.spot, ", ".join(coup.spots)))
                continue
            if bet.seat is not None and bet.seat > table.seats:
                words = f"bet {bet.bet} is from seat {bet.seat}, and the table has {table.seats}"
                wrong.append((bet, "seat", words, bet.seat, f"at most {table.seats}"))
            if bet.ended and coup.ended == "concluded" and coup.settled_as == "settled":
                self._check_payout(coup, bet, rules, wrong)
        for bet, check, words, recorded, expected in wrong[:SAID_ONE_BY_ONE]:
            self._money(
                coup, check, words, at=bet.ended or bet.sequence, recorded=recorded, expected=expected
            )
        if len(wrong) > SAID_ONE_BY_ONE:
            more = len(wrong) - SAID_ONE_BY_ONE
            self._money(coup, "payout", f"and {more} more bets of coup {coup.number} likewise")

    def _check_payout(
        self, coup: Coup, bet: Bet, rules: HouseRules, wrong: list[tuple[Bet, str, str, object, object]]
    ) -> None:
        due = rules.payouts.pay(bet.spot, _OUTCOMES[coup.due_outcome], bet.stake, bet.exponent)
        if bet.tier != due.tier:
            words = f"bet {bet.bet} on {bet.spot} was settled as {bet.tier}, and {due.tier} was due"
            wrong.append((bet, "tiers", words, bet.tier, due.tier))
        if bet.commission != due.commission or bet.exact != str(due.exact):
            words = (
                f"the commission on bet {bet.bet} of {_amount(bet.stake, bet)} was "
                f"{_amount(bet.commission, bet)} (exactly {bet.exact} minor units), "
                f"and {_amount(due.commission, bet)} ({due.exact}) was due"
            )
            wrong.append((bet, "commission", words, bet.commission, due.commission))
        if bet.returned != due.returned:
            words = (
                f"bet {bet.bet} of {_amount(bet.stake, bet)} on {bet.spot} was paid "
                f"{_amount(bet.returned, bet)}, and {_amount(due.returned, bet)} was due{_because(bet, due)}"
            )
            wrong.append((bet, "payout", words, bet.returned, due.returned))

    def _money(
        self,
        coup: Coup,
        check: str,
        words: str,
        *,
        at: int = 0,
        recorded: object = "",
        expected: object = "",
    ) -> None:
        sequence = at or (coup.settlement[1] if coup.settlement else 0)
        self._room.report_at(
            check,
            coup.operator,
            (coup.wallet, sequence),
            words,
            recorded=recorded,
            expected=expected,
            place=coup.place,
            coup=coup,
        )

    def _verified(self, coup: Coup, bets: tuple[BetAccount, ...]) -> None:
        assert coup.end is not None
        assert coup.settlement is not None
        void = coup.ended == "voided"
        self._room.said.append(
            CoupVerified(
                operator=coup.operator,
                table=coup.table,
                shoe=coup.shoe,
                coup=coup.number,
                status="void" if void else "settled",
                version=coup.version,
                outcome=None if void else _OUTCOMES[coup.outcome],
                cards=tuple(coup.cards),
                bets=len(coup.bets),
                turnover=turnover_of(bets),
                result=_event_ref(coup.end),
                settlement=_event_ref(coup.settlement),
            )
        )

    def _hand_out(
        self, coup: Coup, rules: HouseRules | None, bets: tuple[BetAccount, ...], verdict: Verdict
    ) -> None:
        if self._room.listener is None:
            return
        status: Literal["settled", "void", "open"] = "void" if coup.ended == "voided" else "settled"
        concluded = coup.ended == "concluded"
        self._room.listener.coup(
            CoupAccount(
                operator=coup.operator,
                table=coup.table,
                shoe=coup.shoe,
                coup=coup.number,
                house="" if rules is None else rules.house.id,
                house_number=coup.house_number,
                status="open" if verdict == "open" else status,
                dealt=tuple(zip(coup.hands, coup.cards, strict=True)),
                player_total=coup.player_total if concluded else None,
                banker_total=coup.banker_total if concluded else None,
                outcome=_OUTCOMES[coup.outcome] if concluded else None,
                natural=coup.natural,
                dealer=coup.dealer,
                dealer_seat=coup.dealer_seat,
                squeezed=bool(coup.squeezed),
                squeezed_by=coup.squeezed_by,
                bets=(*bets, *_refused(coup)),
                turnover=turnover_of(bets),
                verdict=verdict,
                findings=tuple(coup.faults),
            )
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
            returned=bet.returned,
            commission=bet.commission,
            status=_STATUS.get(bet.tier, "open") if bet.ended else "open",
        )
        for bet in coup.bets.values()
    )


def _refused(coup: Coup) -> tuple[BetAccount, ...]:
    return tuple(
        BetAccount(bet, account, seat, spot, currency, exponent, stake, 0, 0, "refused", code)
        for bet, account, seat, spot, currency, exponent, stake, code in coup.refused
    )


def _amount(units: int, bet: Bet) -> str:
    return f"{format_units(units, bet.exponent)} {bet.currency}"


def _because(bet: Bet, due: Payout) -> str:
    if due.tier == "push":
        return ": a tie returns the stake"
    if due.tier == "win" and due.commission:
        return f": stake and winnings, less {_amount(due.commission, bet)} commission"
    return ""


def _ref(ref: Ref | None) -> str:
    return "nothing" if ref is None else f"{ref[0]} {ref[1]} {ref[2]}"


def _event_ref(ref: Ref) -> EventRef:
    return EventRef(stream=ref[0], sequence=ref[1], hash=ref[2])
