"""A story in which money moves in every way that wallet has: withdrawals, holds, gifts, corrections.

Written from the wallet reference (section 3), as ``builder``; nothing here asks wallet or audit what is due.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from schemas.events import accounts
from schemas.events.base import Payload, Posting
from schemas.events.game import CoupCorrected, CoupVoided, DealtCard
from schemas.events.wallet import (
    BetAccepted,
    BetResult,
    BetRolledBack,
    CorrectedBet,
    SettlementCorrected,
    Shortfall,
)
from tests.audit.builder import (
    OPERATOR,
    Story,
    _entry,
    _post,
    _result_of,
    _third_hands,
    end_bet,
    reference,
    source_of,
    tiers_of,
)

Line = tuple[str, str | None, int]


class Evening(Story):
    """An evening with more than bets."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.number = 0
        self.spent = False
        """Whether free bets that came back are gone again when a coup is corrected."""
        self.balance: dict[tuple[str, str], int] = defaultdict(int)
        """Cash, as the entries that were written have it."""
        self.owed: dict[tuple[int | None, str, str], int] = defaultdict(int)
        """Below nothing where the commission of a seat, account and currency was collected."""

    def write(self, payload: Payload, stream: str | None = None) -> Any:
        event = super().write(payload, stream)
        for posting in getattr(payload, "entry", ()):
            if posting.ledger == "2010":
                self.balance[str(posting.party), posting.currency] -= posting.amount
        return event

    def tx(self) -> str:
        """A new transaction id."""
        self.number += 1
        return f"t{self.number}"

    # ----------------------------------------------------------------------------------------------- accounts

    def move(self, kind: Any, amount: int, /, *lines: Line, account: str = "alice", **more: Any) -> Evening:
        """Money moves on an account; ``lines`` are ledger, party and net debit."""
        currency = more.pop("currency", "EUR")
        fields = {
            "operator": OPERATOR,
            "tx": more.pop("tx", None) or self.tx(),
            "currency": currency,
            "exponent": 2,
            "amount": amount,
            "entry": tuple(
                Posting(ledger=ledger, party=party, currency=currency, amount=units)
                for ledger, party, units in lines
                if units
            ),
        }
        if not issubclass(kind, accounts.HouseMoney):
            fields["account"] = account
        self.say(kind, **fields, **more)
        return self

    def about(self, kind: Any, /, account: str = "alice", **more: Any) -> Evening:
        """Something is said of an account, and nothing moves."""
        self.say(kind, operator=OPERATOR, account=account, tx=more.pop("tx", None) or self.tx(), **more)
        return self

    def request(self, amount: int, withdrawal: str = "w1", account: str = "alice") -> Evening:
        """Ask for a withdrawal."""
        return self.move(
            accounts.WithdrawalRequested,
            amount,
            ("2010", account, amount),
            ("2040", withdrawal, -amount),
            withdrawal=withdrawal,
            account=account,
        )

    def step(self, what: str, amount: int, withdrawal: str = "w1", account: str = "alice") -> Evening:
        """The next step of a withdrawal: approve, reject, pay or return."""
        kind, debit, credit, more = {
            "approve": (accounts.WithdrawalApproved, "2040", "1040", {"approver": "ann"}),
            "reject": (accounts.WithdrawalRejected, "2040", "2010", {"approver": "ann", "reason": "no"}),
            "pay": (accounts.WithdrawalPaid, "1040", "1010", {"by": "bank"}),
            "return": (accounts.WithdrawalReturned, "1010", "2010", {"by": "bank", "reason": "closed"}),
        }[what]
        party = {"2040": withdrawal, "2010": account}
        return self.move(
            kind,
            amount,
            (debit, party.get(debit), amount),
            (credit, party.get(credit), -amount),
            withdrawal=withdrawal,
            account=account,
            **more,
        )

    def grant(self, amount: int, grant: str = "g1", account: str = "alice") -> Evening:
        """A free bet."""
        lines = (("5010", None, amount), ("2020", account, -amount))
        more = {"grant": grant, "campaign": "spring", "by": "ann", "account": account}
        return self.move(accounts.FreeBetGranted, amount, *lines, **more)

    def take_grant(self, amount: int, grant: str = "g1", account: str = "alice") -> Evening:
        """What is left of a free bet goes back."""
        lines = (("2020", account, amount), ("5010", None, -amount))
        more = {"grant": grant, "reason": "expired", "by": "ann", "account": account}
        return self.move(accounts.FreeBetWithdrawn, amount, *lines, **more)

    def hold(self, amount: int, hold: str = "h1", account: str = "alice") -> Evening:
        """Money is put aside."""
        lines = (("2010", account, amount), ("2090", hold, -amount))
        more: Any = {"kind": "risk", "reason": "looked at", "expires": None, "by": "ann", "account": account}
        return self.move(accounts.FundsHeld, amount, *lines, hold=hold, **more)

    def release(self, amount: int, hold: str = "h1", account: str = "alice") -> Evening:
        """And given back."""
        lines = (("2090", hold, amount), ("2010", account, -amount))
        more = {"hold": hold, "reason": "fine", "by": "ann", "account": account}
        return self.move(accounts.HoldReleased, amount, *lines, **more)

    def propose(self, amount: int, tx: str = "p1", direction: str = "credit") -> Evening:
        """Somebody asks for a manual correction."""
        more: Any = {"currency": "EUR", "exponent": 2, "amount": amount, "direction": direction}
        return self.about(accounts.AdjustmentProposed, tx=tx, reason="goodwill", initiator="ann", **more)

    def adjust(self, amount: int, tx: str = "p1", direction: str = "credit", **more: Any) -> Evening:
        """Somebody else approves it."""
        sign = 1 if direction == "credit" else -1
        lines = (("5020", None, sign * amount), ("2010", "alice", -sign * amount))
        fields = {"direction": direction, "reason": "goodwill", "initiator": "ann", "approver": "bob"}
        fields |= {"decision": "d1", **more}
        return self.move(accounts.Adjusted, amount, *lines, tx=tx, **fields)

    def take(self, kind: Any, amount: int, credit: str, account: str = "alice", **more: Any) -> Evening:
        """Take money from a player, who owes what he does not have."""
        lacking = max(0, amount - self.balance[account, "EUR"])
        party = account if credit == "1065" else None
        lines: Sequence[Line] = (
            ("2010", account, amount - lacking),
            ("1060", account, lacking),
            (credit, party, -amount),
        )
        return self.move(kind, amount, *lines, shortfall=lacking, account=account, **more)

    def charge_back(self, amount: int, account: str = "alice") -> Evening:
        """A deposit is taken back."""
        more = {"reason": "disputed", "by": "bank"}
        return self.take(accounts.ChargedBack, amount, "1030", account, **more)

    def collect(self, amount: int, account: str = "alice", seat: int | None = 1) -> Evening:
        """Commission is collected."""
        more = {"table": self.table, "seat": seat, "reason": "seat_left", "tx": f"seat_left {seat}"}
        self.owed[seat, account, "EUR"] -= amount
        return self.take(accounts.CommissionCollected, amount, "1065", account, **more)

    # ------------------------------------------------------------------------------------------------- bets

    def roll_back(self, bet: BetAccepted, amount: int | None = None, *, reason: str = "requested") -> Evening:
        """Take a bet back before the seal, or a part of it."""
        amount = self.left[bet.bet] if amount is None else amount
        self.left[bet.bet] -= amount
        self.say(
            BetRolledBack,
            operator=OPERATOR,
            table=bet.table,
            shoe=bet.shoe,
            coup=bet.coup,
            bet=bet.bet,
            account=bet.account,
            tx=bet.tx if reason == "self_exclusion" else self.tx(),
            target=bet.tx,
            spot=bet.spot,
            currency=bet.currency,
            exponent=bet.exponent,
            amount=amount,
            left=self.left[bet.bet],
            funding=bet.funding,
            reason=reason,
            entry=(
                _post("2030", bet.bet, bet.currency, amount),
                _post(*source_of(bet), bet.currency, -amount),
            ),
        )
        return self

    # ------------------------------------------------------------------------------------------ corrections

    def correct(
        self, cards: str, number: int = 1, shoe: str = "S1", version: int = 2, outcome: str | None = None
    ) -> Evening:
        """The coup had other cards (or, without any, is void), and is paid anew."""
        names = {"operator": OPERATOR, "table": self.table, "shoe": shoe, "coup": number}
        ended = [
            each
            for each in self.stream(self.game)
            if (getattr(each.data, "shoe", ""), getattr(each.data, "coup", 0)) == (shoe, number)
            and each.envelope.type.split(".")[3] in ("concluded", "corrected", "voided")
        ]
        last = reference(ended[-1])
        people = {"reason": "misread", "initiator": "ann", "approver": "bob"}
        if cards:
            hands: dict[str, list[str]] = {"player": [], "banker": []}
            dealt = []
            order: list[Any] = [*self.house.deal.order, *_third_hands(cards.split(), self.house.deal.order)]
            for card, hand in zip(cards.split(), order, strict=False):
                hands[hand].append(card)
                dealt.append(DealtCard(hand=hand, position=len(hands[hand]), card=card))
            result = _result_of(hands)
            del result["cards"]
            event = self.say(
                CoupCorrected,
                **names,
                version=version,
                corrects=last,
                hands=tuple(dealt),
                tiers=tiers_of(result["outcome"]),
                **result,
                **people,
            )
            self.pay_anew(names, last, event, version, outcome or str(result["outcome"]))
        else:
            event = self.say(CoupVoided, **names, corrects=last, version=version, **people)
            self.pay_anew(names, last, event, version, outcome or "")
        return self

    def pay_anew(self, names: dict[str, Any], last: Any, event: Any, version: int, outcome: str) -> None:
        """Reverse and repost, a hundred bets at a time."""
        paid = self.paid[names["shoe"], names["coup"]]
        parts = [paid[at : at + 100] for at in range(0, max(1, len(paid)), 100)]
        self.paid[names["shoe"], names["coup"]] = []
        for number, part in enumerate(parts, start=1):
            lines: dict[tuple[str, str | None, str], int] = defaultdict(int)
            rows = [self._anew(bet, before, outcome, lines) for bet, before in part]
            shortfalls = []
            for (ledger, account, currency), amount in list(lines.items()):
                if ledger == "2010" and account is not None:
                    lacking = max(0, amount - self.balance[account, currency])
                    if lacking:
                        lines["2010", account, currency] -= lacking
                        lines["1060", account, currency] += lacking
                        shortfalls.append(Shortfall(account=account, currency=currency, amount=lacking))
            self.say(
                SettlementCorrected,
                **names,
                version=version,
                result=reference(event),
                corrects=last,
                house_number=self.house_number,
                outcome=outcome or None,
                reason="misread",
                approver="bob",
                part=number,
                parts=len(parts),
                bets=tuple(rows),
                shortfalls=tuple(shortfalls),
                entry=_entry(lines),
            )

    def _anew(self, bet: BetAccepted, before: BetResult, outcome: str, lines: Any) -> CorrectedBet:
        after = self.result_of(bet, outcome)
        end_bet(lines, bet, before, -1)
        end_bet(lines, bet, after)
        seat = (bet.seat, bet.account, bet.currency)
        change = after.commission * after.deferred - before.commission * before.deferred
        if self.collected(seat) and change < 0:
            lines["1065", bet.account, bet.currency] -= change
            lines["2010", bet.account, bet.currency] += change
        if bet.funding == "free" and before.tier in ("push", "void") and self.spent:
            lines["2020", bet.account, bet.currency] -= bet.stake
            lines["5010", None, bet.currency] += bet.stake
        self.paid[bet.shoe, bet.coup].append((bet, after))
        return CorrectedBet(
            bet=bet.bet,
            account=bet.account,
            spot=bet.spot,
            seat=bet.seat,
            currency=bet.currency,
            exponent=bet.exponent,
            stake=bet.stake,
            funding=bet.funding,
            before=before,
            after=after,
        )

    def collected(self, mark: tuple[int | None, str, str]) -> bool:
        """Whether the commission of a seat was collected; then what is taken away of it goes back."""
        return self.owed[mark] < 0
