"""Every event of wallet: a story that audit passes, and the same told a little wrong, which it names."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.events import accounts
from schemas.events.audit import CoupVerified
from schemas.events.base import EventRef, Payload, Posting
from schemas.events.game import CoupConcluded
from schemas.events.wallet import (
    BetAccepted,
    BetRefused,
    BetRolledBack,
    BetsSealed,
    CallAnswered,
    CorrectedBet,
    CoupSettled,
    DebitRequested,
    SettlementCorrected,
    Shortfall,
)
from schemas.house import House, TableLimit
from services.audit.core.verifier import Verifier
from services.audit.verification import Tally, Verification
from tests.audit.builder import HOUSES, OPERATOR, Bet, Tamper, reference
from tests.audit.evening import Evening
from tests.audit.stories import change, findings, replace, said
from tests.audit.test_interleaving import Rows, interleaved, verdicts

BANKER_WINS = "2S 3H 5C 6D"  # 7 against 9
PLAYER_WINS = "KS 2H 9C 5D"
A_TIE = "6S 6H KC KD"
DEFERRED = HOUSES["nl"].model_copy(
    update={"commission": HOUSES["nl"].commission.model_copy(update={"collection": "deferred"})}
)


def limited(**limits: Any) -> House:
    """The Dutch house with one limit in euro."""
    return HOUSES["nl"].model_copy(update={"limits": (TableLimit(currency="EUR", **limits),)})


Teller = Callable[[Tamper | None], Evening]


def evening(tamper: Tamper | None, house: Any = "nl") -> Evening:
    story = Evening(house, tamper=tamper).open()
    assert isinstance(story, Evening)
    story.fund("alice", 10_000)
    return story


# ------------------------------------------------------------------------------------------------- stories


def standing(tamper: Tamper | None = None) -> Evening:
    """Frozen and released, excluded for a while, a rollback that came too early, limits."""
    story = evening(tamper)
    story.about(accounts.AccountFrozen, reason="looked at", by="ann")
    story.about(accounts.AccountReleased, reason="fine", by="ann")
    story.about(accounts.TombstoneCreated, target="never")
    story.about(accounts.SelfExcluded, account="alice", until="2026-01-03", by="alice")
    story.day = "2026-01-03"
    limit: Any = {"kind": "stake", "period": "day", "currency": "EUR", "exponent": 2, "by": "alice"}
    story.about(accounts.LimitSet, **limit, value=500, before=None, effective="2026-01-03")
    story.about(accounts.LimitSet, **limit, value=400, before=500, effective="2026-01-03")
    story.about(accounts.LimitSet, **limit, value=900, before=400, effective="2026-01-04")
    story.about(accounts.TransactionRefused, operation="deposit", asked={"amount": 5}, code="NO", field="")
    story.coup(PLAYER_WINS, [Bet("player", 100)])
    return story


def withdrawals(tamper: Tamper | None = None) -> Evening:
    """One that is paid and comes back, one that is rejected."""
    story = evening(tamper)
    story.request(2_000).step("approve", 2_000).request(300, "w2").step("reject", 300, "w2")
    return story.step("pay", 2_000).step("return", 2_000).request(50, "w3")


def adjustments(tamper: Tamper | None = None) -> Evening:
    story = evening(tamper)
    story.propose(500).propose(200, "p2", "debit").propose(900, "p3")
    story.adjust(500).adjust(200, "p2", "debit")
    return story.about(accounts.AdjustmentDeclined, tx="p3", decision="d3", reason="no", approver="bob")


def holds(tamper: Tamper | None = None) -> Evening:
    return evening(tamper).hold(700).hold(100, "h2").release(700)


def money(tamper: Tamper | None = None) -> Evening:
    """Tips, a chargeback that goes beyond what is there, and what is paid of it later."""
    story = evening(tamper)
    story.move(accounts.Tipped, 200, ("2010", "alice", 200), ("2080", None, -200), table="T1")
    story.charge_back(12_000)
    story.move(accounts.Deposited, 5_000, ("1030", None, 5_000), ("2010", "alice", -5_000))
    lines = (("2010", "alice", 2_000), ("1060", "alice", -2_000))
    return story.move(accounts.ReceivableRecovered, 2_000, *lines, by="ann")


def house_money(tamper: Tamper | None = None) -> Evening:
    story = evening(tamper)
    story.move(accounts.HouseFunded, 9_000, ("1020", None, 9_000), ("3010", None, -9_000), by="ann")
    paid = (("1010", None, 5_000), ("5030", None, 75), ("1030", None, -5_000), ("1020", None, -75))
    story.move(accounts.PaymentSettled, 5_000, *paid, fee=75, by="psp")
    for direction, sign in (("to_players", 1), ("to_house", -1)):
        lines = (("1010", None, sign * 400), ("1020", None, -sign * 400))
        story.move(accounts.FundsSegregated, 400, *lines, direction=direction, by="ann")
    return story


def free_bets(tamper: Tamper | None = None) -> Evening:
    """A gift that wins, loses, pushes and is void, and what is left of it goes back."""
    story = evening(tamper)
    story.grant(1_000).grant(50, "g2")
    free: dict[str, Any] = {"funding": "free", "grant": "g1"}
    story.coup(BANKER_WINS, [Bet("banker", 100, **free), Bet("player", 200, **free), Bet("tie", 300)])
    story.coup(A_TIE, [Bet("banker", 100, **free), Bet("tie", 10, **free)], number=2)
    story.coup("", [Bet("banker", 600, **free)], number=3, void="misdeal")
    return story.take_grant(690)


def two_gifts(tamper: Tamper | None = None) -> Evening:
    story = evening(tamper).grant(500).grant(500, "g2")
    bets = [Bet("tie", 400, funding="free", grant="g1"), Bet("tie", 400, funding="free", grant="g2")]
    return story.coup(BANKER_WINS, bets)  # type: ignore[return-value]


def taken_back(tamper: Tamper | None = None) -> Evening:
    bets = [Bet("tie", 200), Bet("player", 100)]
    story = evening(tamper)
    return story.coup(  # type: ignore[return-value]
        BANKER_WINS, bets, during=lambda bets: story.roll_back(bets[0])
    )


def marked(tamper: Tamper | None = None) -> Evening:
    story = evening(tamper, DEFERRED)
    return story.coup(BANKER_WINS, [Bet("banker", 1_000), Bet("banker", 400, seat=2)])  # type: ignore[return-value]


def rollbacks(tamper: Tamper | None = None) -> Evening:
    """Of each kind of stake, whole and in part."""
    story = evening(tamper)
    story.grant(1_000)

    def take_back(bets: list[BetAccepted]) -> None:
        first, second, third, fourth, _ = bets
        story.roll_back(first)
        story.roll_back(second, 40, reason="refund").roll_back(third)
        story.roll_back(second, 10, reason="refund").roll_back(fourth, reason="self_exclusion")

    bets = [
        Bet("player", 100),
        Bet("player", 200),
        Bet("banker", 300, funding="free", grant="g1"),
        Bet("banker", 400, funding="operator", account="bob"),
        Bet("banker", 500, account="bob", seat=2),
    ]
    story.coup(PLAYER_WINS, bets, during=take_back)
    story.coup(PLAYER_WINS, bets[:2], number=2, during=lambda bets: story.roll_back(bets[-1]))
    return story


def seamless(tamper: Tamper | None = None) -> Evening:
    """The operator's wallet holds the money: asked, answered, refused, and not answered in time."""
    story = evening(tamper)
    bets = [Bet("banker", 100, funding="operator"), Bet("player", 40, funding="operator", seat=2)]
    asked = {**_names(), "account": "alice", "seat": 1, "spot": "tie", "currency": "EUR"}
    asked |= {"exponent": 2, "stake": 70}

    def ask(_: object) -> None:
        for number, code in ((8, "OPERATOR_REFUSED"), (9, "DEBIT_UNKNOWN")):
            request = {**asked, "bet": f"main.{number}", "tx": f"s{number}"}
            story.say(DebitRequested, **request)
            story.say(BetRefused, **request, code=code)
        answer = {"operator": OPERATOR, "account": "alice", "code": "OK"}
        story.say(CallAnswered, **answer, call="main.1/debit", status="done")

    return story.coup(BANKER_WINS, bets, during=ask)  # type: ignore[return-value]


def deferred(tamper: Tamper | None = None) -> Evening:
    """Commission is marked on two seats and collected from one; the player has less than that."""
    story = evening(tamper, DEFERRED)
    story.coup(BANKER_WINS, [Bet("banker", 1_000), Bet("banker", 400, seat=2), Bet("player", 50)])
    return story.request(11_330).collect(50)


def limits(tamper: Tamper | None = None, **more: str) -> Evening:
    """Bets up to the limits of the table, one of them in the place of one that was taken back."""
    most = {"minimum": "0.50", "maximum": "3.00", "coup_maximum": "4.00", "differential": "3.50"}
    story = evening(tamper, limited(**{**most, **more}))
    bets = [
        Bet("player", 300),
        Bet("player", 50, account="bob"),
        Bet("tie", 50),
        Bet("banker", 300),
        Bet("player", 50, account="bob", funding="operator"),
    ]
    return story.coup(  # type: ignore[return-value]
        PLAYER_WINS, bets, during=lambda bets: story.roll_back(bets[0], 280, reason="refund")
    )


def correction(tamper: Tamper | None = None) -> Evening:
    """Banker had won; it was a tie, and then it was void. A player has spent what he must give back."""
    story = evening(tamper)
    story.grant(1_000)
    bets = [
        Bet("banker", 2_000),
        Bet("player", 300, account="bob"),
        Bet("tie", 100, account="bob"),
        Bet("banker", 400, funding="free", grant="g1"),
        Bet("banker", 500, funding="operator", account="carol"),
    ]
    story.coup(BANKER_WINS, bets)
    story.request(11_000)
    return story.correct("2S 3H 5C 4D").correct("", version=3)


def collected(tamper: Tamper | None = None) -> Evening:
    """Deferred commission that was collected is not due any more; on another seat it was not collected."""
    story = evening(tamper, DEFERRED)
    story.coup(BANKER_WINS, [Bet("banker", 1_000), Bet("banker", 400, seat=2)])
    return story.collect(50).correct("2S 3H 5C 4D").correct(BANKER_WINS, version=3).collect(50)


def borne(tamper: Tamper | None = None) -> Evening:
    """A free bet that a tie gave back is withdrawn, and then it was no tie: the house bears it."""
    story = evening(tamper)
    story.grant(1_000).coup(A_TIE, [Bet("banker", 1_000, funding="free", grant="g1")])
    story.take_grant(1_000)
    story.spent = True
    return story.correct(BANKER_WINS)


def many(tamper: Tamper | None = None) -> Evening:
    """A correction in two parts."""
    story = evening(tamper)
    story.coup(BANKER_WINS, [Bet("banker", 90, seat=None) for _ in range(101)])
    return story.correct(PLAYER_WINS)


def operators(tamper: Tamper | None = None) -> Evening:
    """Two operators in one wallet stream."""
    story = evening(tamper)
    fields: dict[str, Any] = {"operator": "other", "account": "zoe"}
    story.say(accounts.AccountOpened, **fields)
    entry = (_line("1030", None, 800), _line("2010", "zoe", -800))
    story.say(accounts.Deposited, **fields, tx="z1", currency="EUR", exponent=2, amount=800, entry=entry)
    entry = (_line("2010", "zoe", 300), _line("2090", "h1", -300))
    held = {"tx": "z2", "currency": "EUR", "exponent": 2, "amount": 300, "hold": "h1", "kind": "risk"}
    held |= {"reason": "x", "expires": None, "by": "ann"}
    story.say(accounts.FundsHeld, **fields, **held, entry=entry)
    return story.coup(PLAYER_WINS, [Bet("player", 100)])  # type: ignore[return-value]


STORIES: tuple[Teller, ...] = (
    *(standing, withdrawals, adjustments, holds, money, house_money, free_bets, two_gifts, rollbacks),
    *(taken_back, seamless, marked, borne),
    *(deferred, limits, correction, collected, many, operators),
)


def _names() -> dict[str, Any]:
    return {"operator": OPERATOR, "table": "T1", "shoe": "S1", "coup": 1}


def _line(ledger: str, party: str | None, amount: int) -> Posting:
    return Posting(ledger=ledger, party=party, currency="EUR", amount=amount)


@pytest.mark.parametrize("tell", STORIES)
def test_what_is_right_is_passed(tell: Teller) -> None:
    payloads = said(tell(None).events)
    assert [finding.words for finding in findings(payloads)] == []


@pytest.mark.parametrize("tell", STORIES)
@pytest.mark.parametrize("batch", [1, 5, 1_000])
def test_a_restart_in_between_changes_nothing(tell: Teller, batch: int) -> None:
    events = tell(None).events
    rows, verifier, payloads = Rows(), Verifier(persistent=True), []
    for start in range(0, len(events), batch):
        for event in events[start : start + batch]:
            payloads += verifier.observe(event)
        rows.write(verifier)
        verifier = rows.load()
    whole = Verifier()
    assert payloads + verifier.finish() == said(events, whole)
    assert verifier.trial_balance("wallet/main") == whole.trial_balance("wallet/main")
    assert sum(whole.trial_balance("wallet/main").values()) == 0


def test_every_event_of_wallet_is_told_of() -> None:
    from schemas.events.wallet import WALLET_EVENTS, ConflictDetected

    told = {type(event.data) for tell in STORIES for event in tell(None).events}
    assert set(WALLET_EVENTS) - told == {ConflictDetected}


# --------------------------------------------------------------------------------------------- what is wrong


class Case(NamedTuple):
    """A story told wrong: what is found, at the nth event of which kind, and what the words say of it."""

    name: str
    tell: Teller
    tamper: Callable[[], Tamper]
    check: str
    kind: type[Payload]
    nth: int
    words: tuple[str, ...]
    findings: int = 1
    """How many there are in all: one fault can make others."""


def case_of(*parts: Any) -> Case:
    """A case of its parts."""
    return Case(*parts)


def twice(kind: type[Payload], nth: int = 1, **fields: Any) -> Callable[[], Tamper]:
    return lambda: replace(kind, lambda each: [each, each.model_copy(update=fields)], nth)


def never(kind: type[Payload], nth: int = 1) -> Callable[[], Tamper]:
    return lambda: replace(kind, lambda _: None, nth)


def told(kind: type[Payload], nth: int = 1, **fields: Any) -> Callable[[], Tamper]:
    return lambda: change(kind, nth, **fields)


def scaled(kind: type[Payload], amount: int, nth: int = 1) -> Callable[[], Tamper]:
    """Another amount, and an entry that says the same."""

    def by(each: Any) -> Any:
        entry = tuple(
            line.model_copy(update={"amount": amount if line.amount > 0 else -amount}) for line in each.entry
        )
        return each.model_copy(update={"amount": amount, "entry": entry})

    return lambda: replace(kind, by, nth)


def row(nth: int, **fields: Any) -> Callable[[Any], Any]:
    """The rows of a settlement with another one in place of the nth."""
    return lambda bets: tuple(
        each.model_copy(update=fields) if place == nth else each for place, each in enumerate(bets, start=1)
    )


def result(nth: int, which: str, **fields: Any) -> Callable[[Any], Any]:
    """The rows of a correction in which a bet was, or is now, something else."""

    def changed(bets: tuple[CorrectedBet, ...]) -> tuple[CorrectedBet, ...]:
        made = getattr(bets[nth - 1], which).model_copy(update=fields)
        changed: tuple[CorrectedBet, ...] = row(nth, **{which: made})(bets)
        return changed

    return changed


def moved(*lines: tuple[str, str | None, int]) -> Callable[[Any], Any]:
    """An entry with so much more on these lines."""

    def changed(entry: tuple[Posting, ...]) -> tuple[Posting, ...]:
        sums = {(each.ledger, each.party): each.amount for each in entry}
        for ledger, party, amount in lines:
            sums[ledger, party] = sums.get((ledger, party), 0) + amount
        return tuple(_line(ledger, party, amount) for (ledger, party), amount in sums.items() if amount)

    return changed


def _frozen_bet() -> Tamper:
    return replace(accounts.AccountReleased, lambda _: None)


A, W = accounts, SettlementCorrected
CASES = (
    case_of(
        *("frozen", standing, _frozen_bet, "locked", BetAccepted, 1),
        ("bet main.1 of 1.00 EUR by account alice was accepted, and the account is frozen",),
    ),
    case_of(
        *("excluded", standing, told(A.SelfExcluded, until="2026-01-04"), "locked", BetAccepted, 1),
        ("1.00 EUR", "accepted on 2026-01-03", "excluded himself until 2026-01-04"),
    ),
    case_of(
        *("excluded for ever", standing, told(A.SelfExcluded, until=None), "locked", BetAccepted, 1),
        ("1.00 EUR", "excluded himself for ever"),
    ),
    case_of(
        *("tombstone", standing, told(A.TombstoneCreated, target="tx-1"), "tombstone", BetAccepted, 1),
        ("1.00 EUR", "tx-1 had been taken back before it came"),
    ),
    case_of(
        *("raised at once", standing, told(A.LimitSet, 3, effective="2026-01-03"), "player_limit"),
        *(A.LimitSet, 3),
        ("raised from 4.00 EUR to 9.00 EUR on 2026-01-03",),
    ),
    case_of(
        *("lowered later", standing, told(A.LimitSet, 2, effective="2026-01-09"), "player_limit"),
        *(A.LimitSet, 2),
        ("lowered from 5.00 EUR to 4.00 EUR on 2026-01-09 only",),
    ),
    case_of(
        *("a first limit later", standing, told(A.LimitSet, 1, effective="2026-01-09"), "player_limit"),
        *(A.LimitSet, 1),
        ("lowered from no limit to 5.00 EUR",),
    ),
    case_of(
        *("opened twice", standing, twice(A.AccountOpened), "account", A.AccountOpened, 2),
        ("account alice was opened twice",),
    ),
    case_of(
        *("deposited twice", standing, twice(A.Deposited), "transaction", A.Deposited, 2),
        ("transaction in-alice of account alice moves money a second time: 100.00 EUR",),
    ),
    case_of(
        *("other approved", withdrawals, scaled(A.WithdrawalApproved, 1_900), "withdrawal"),
        *(A.WithdrawalApproved, 1),
        ("withdrawal w1 was approved as 19.00 EUR of alice, and it is 20.00 EUR of alice",),
    ),
    case_of(
        *("not approved", withdrawals, never(A.WithdrawalApproved), "withdrawal", A.WithdrawalPaid, 1),
        ("withdrawal w1 of 20.00 EUR was paid, and it was requested, not approved",),
    ),
    case_of(
        *("rejected twice", withdrawals, twice(A.WithdrawalRejected), "withdrawal", A.WithdrawalRejected, 2),
        ("withdrawal w2 of 3.00 EUR was rejected, and it is not requested",),
    ),
    case_of(
        *("returned twice", withdrawals, twice(A.WithdrawalReturned), "withdrawal", A.WithdrawalReturned, 2),
        ("withdrawal w1 of 20.00 EUR was returned, and it is not paid",),
    ),
    case_of(
        *("never requested", withdrawals, never(A.WithdrawalRequested, 2), "withdrawal"),
        *(A.WithdrawalRejected, 1),
        ("withdrawal w2 of 3.00 EUR",),
    ),
    case_of(
        *("requested twice", withdrawals, twice(A.WithdrawalRequested, 3, tx="again"), "withdrawal"),
        *(A.WithdrawalRequested, 4),
        ("withdrawal w3 was requested twice",),
    ),
    case_of(
        *("not proposed", adjustments, never(A.AdjustmentProposed), "adjustment", A.Adjusted, 1),
        ("adjustment p1 of 5.00 EUR on account alice was made, and it was not proposed",),
    ),
    case_of(
        *("proposed as less", adjustments, told(A.AdjustmentProposed, amount=50), "adjustment"),
        *(A.Adjusted, 1),
        ("adjustment p1 of 5.00 EUR", "was proposed as 0.50 EUR (credit, asked for by ann)"),
    ),
    case_of(
        *("by himself", adjustments, told(A.Adjusted, approver="ann"), "four_eyes", A.Adjusted, 1),
        ("5.00 EUR", "approved by ann, who had asked for it"),
    ),
    case_of(
        *("adjusted twice", adjustments, twice(A.Adjusted, 2), "adjustment", A.Adjusted, 3),
        ("adjustment p2 of 2.00 EUR", "not proposed"),
    ),
    case_of(
        *("declined twice", adjustments, twice(A.AdjustmentDeclined), "adjustment"),
        *(A.AdjustmentDeclined, 2),
        ("adjustment p3 of account alice was declined, and it was not proposed",),
    ),
    case_of(
        *("less released", holds, scaled(A.HoldReleased, 600), "hold", A.HoldReleased, 1),
        ("hold h1 was released as 6.00 EUR of alice, and it is 7.00 EUR of alice",),
    ),
    case_of(
        *("never held", holds, never(A.FundsHeld), "hold", A.HoldReleased, 1),
        ("hold h1 of 7.00 EUR was released, and there is none",),
    ),
    case_of(
        *("overdrawn", holds, scaled(A.FundsHeld, 10_000, 2), "balance", A.FundsHeld, 2),
        ("account alice is overdrawn: its cash is -7.00 EUR",),
    ),
    case_of(
        *("tip to another account", money, told(A.Tipped, amount=300), "entry", A.Tipped, 1),
        ("the entry moves 2.00 EUR debit on 2010 of alice, and 3.00 EUR debit was due; 2.00 EUR credit",),
    ),
    case_of(
        *("a shortfall too large", money),
        told(A.ChargedBack, shortfall=2_300, entry=moved(("2010", "alice", -100), ("1060", "alice", 100))),
        *("shortfall", A.ChargedBack, 1),
        ("23.00 EUR is put down as what account alice lacks, and it lacks 22.00 EUR",),
    ),
    case_of(
        *("paid back too much", money, scaled(A.ReceivableRecovered, 2_500), "balance"),
        *(A.ReceivableRecovered, 1),
        ("account alice owes less than nothing on 1060: -3.00 EUR",),
    ),
    case_of(
        *("fee", house_money, told(A.PaymentSettled, fee=76), "entry", A.PaymentSettled, 1),
        ("the entry moves 0.75 EUR debit on 5030, and 0.76 EUR debit was due",),
    ),
    case_of(
        *("funded twice", house_money, twice(A.HouseFunded), "transaction", A.HouseFunded, 2),
        ("moves the house's money a second time",),
    ),
    case_of(
        *("segregated the other way", house_money, told(A.FundsSegregated, direction="to_house"), "entry"),
        *(A.FundsSegregated, 1),
        ("the entry moves 4.00 EUR debit on 1010, and 4.00 EUR credit was due",),
    ),
    case_of(
        *("more than is left", two_gifts, told(BetAccepted, 2, grant="g1"), "grant", BetAccepted, 2),
        ("bet main.2 takes 4.00 EUR of free bet g1, and 1.00 EUR is left of it",),
    ),
    case_of(
        *("another's gift", free_bets, told(BetAccepted, 2, grant="g9"), "grant", BetAccepted, 2),
        ("bet main.2 uses free bet g9, of which account alice has nothing",),
    ),
    case_of(
        *("more taken back", free_bets, scaled(A.FreeBetWithdrawn, 700), "grant", A.FreeBetWithdrawn, 1),
        ("7.00 EUR of free bet g1 of account alice is taken back, and 6.90 EUR is left of it",),
    ),
    case_of(
        *("granted twice", free_bets, twice(A.FreeBetGranted, tx="again"), "grant", A.FreeBetGranted, 2),
        ("free bet g1 was granted twice",),
    ),
    case_of(
        *("a free stake is paid out", free_bets),
        told(
            CoupSettled,
            bets=row(1, returned=195),
            entry=moved(("2010", "alice", -100), ("4011", None, 100)),
        ),
        *("payout", CoupSettled, 1),
        ("bet main.1 of 1.00 EUR on banker was paid 1.95 EUR, and 0.95 EUR was due",),
    ),
    case_of(
        *("more than is in play", taken_back, scaled(BetRolledBack, 210), "rollback", BetRolledBack, 1),
        ("2.10 EUR of bet main.1 of coup 1 was taken back, of which 2.00 EUR is in play",),
    ),
    case_of(
        *("another rest", rollbacks, told(BetRolledBack, 2, left=150), "rollback", BetRolledBack, 2),
        ("1.60 EUR of bet main.2 of coup 1 is left, not 1.50 EUR",),
    ),
    case_of(
        *("taken back twice", rollbacks, twice(BetRolledBack, 1, tx="again"), "rollback", BetRolledBack, 2),
        ("1.00 EUR of bet main.1 of coup 1 was taken back, which is not in play",),
    ),
    case_of(
        *("another target", rollbacks, told(BetRolledBack, 1, target="tx-9"), "rollback", BetRolledBack, 1),
        ("bet main.1 of coup 1 was taken back as another bet than was accepted",),
    ),
    case_of(
        *("same id", rollbacks, told(BetRolledBack, 1, tx="tx-1"), "transaction", BetRolledBack, 1),
        ("transaction tx-1 of account alice moves money a second time: 1.00 EUR",),
    ),
    case_of(
        *("sealed with what is gone", rollbacks, told(BetsSealed, bets=3), "seal", BetsSealed, 1),
        ("the seal of coup 1 has another number of bets than the accepted bets",),
    ),
    case_of(
        *("not asked", seamless, never(DebitRequested), "debit", BetAccepted, 1),
        ("bet main.1 of 1.00 EUR was accepted, and the operator's wallet was not asked for it",),
    ),
    case_of(
        *("asked for less", seamless, told(DebitRequested, stake=90), "debit", BetAccepted, 1),
        ("accepted for 1.00 EUR on banker, and the operator's wallet was asked for 0.90 EUR on banker",),
    ),
    case_of(
        *("left open", seamless, never(BetRefused, 2), "debit", CoupSettled, 1),
        ("asked for bet main.9 of coup 1, and it was neither accepted nor refused",),
    ),
    case_of(
        *("paid in cash", seamless),
        told(CoupSettled, entry=moved(("1050", None, 195), ("2010", "alice", -195))),
        *("entry", CoupSettled, 1),
        ("2010 of alice, and nothing was due",),
    ),
    case_of(
        *("too little collected", deferred, told(A.CommissionCollected, seat=2), "commission"),
        *(A.CommissionCollected, 1),
        ("0.50 EUR of commission is collected from account alice at table T1, seat 2, and 0.20 EUR is owed",),
    ),
    case_of(
        *("kept back", marked),
        told(
            CoupSettled,
            bets=row(1, deferred=False, returned=1_950),
            entry=moved(("1065", "alice", -50), ("2010", "alice", 50)),
        ),
        *("commission", CoupSettled, 1),
        ("the commission on bet main.1, 0.50 EUR, was kept back, and it is to be owed",),
    ),
    case_of(
        *("marked elsewhere", marked, told(CoupSettled, bets=row(2, seat=7)), "commission", CoupSettled, 1),
        ("the commission on bet main.2 is marked on seat 7, not 2",),
    ),
    case_of(
        *("below the minimum", lambda tamper: limits(tamper, minimum="0.60"), lambda: None, "limit"),
        *(BetAccepted, 2),
        ("with bet main.2 the stake came to 0.50 EUR, and the table's limit is 0.60 EUR",),
        3,
    ),
    case_of(
        *("above the maximum", lambda tamper: limits(tamper, maximum="2.99"), lambda: None, "limit"),
        *(BetAccepted, 1),
        ("with bet main.1 the player's stakes on the spot came to 3.00 EUR", "limit is 2.99 EUR"),
        2,
    ),
    case_of(
        *("above the coup's", lambda tamper: limits(tamper, coup_maximum="3.49"), lambda: None, "limit"),
        *(BetAccepted, 2),
        ("with bet main.2 all stakes on the spot came to 3.50 EUR", "limit is 3.49 EUR"),
        2,
    ),
    case_of(
        *("too far apart", lambda tamper: limits(tamper, differential="3.20"), lambda: None, "limit"),
        *(BetAccepted, 2),
        ("with bet main.2 the difference between Player and Banker came to 3.50 EUR", "limit is 3.20 EUR"),
    ),
    case_of(
        *("undone otherwise", correction, told(W, bets=result(1, "before", commission_exact="99"))),
        *("correction", W, 1),
        ("bet main.1 of coup 1 is undone as win: 3900 returned, 100 (99) of commission, in EUR",),
    ),
    case_of(
        *("another version", correction, told(W, 2, version=4), "correction", W, 2),
        ("coup 1 is paid by version 4 of its result, and version 3 is next",),
        2,
    ),
    case_of(
        *("undoes another result", correction),
        told(W, corrects=lambda ref: ref.model_copy(update={"sequence": 3})),
        *("correction", W, 1),
        ("the correction of coup 1 undoes another result than it was paid by",),
    ),
    case_of(
        *("obeys another event", correction),
        told(W, 2, result=lambda ref: ref.model_copy(update={"hash": "0" * 64})),
        *("result", W, 2),
        ("coup 1 is paid anew, and the event is not the one that game corrected it by",),
    ),
    case_of(
        *("another outcome", correction, told(W, outcome="player"), "correction", W, 1),
        ("and the outcome is not the one that game corrected it by: player, not tie",),
    ),
    case_of(
        *("another house", correction, told(W, house_number=2), "correction", W, 1),
        ("and the house is not the one that game corrected it by: 2, not 1",),
    ),
    case_of(
        *("too much for a push", correction),
        told(
            W,
            bets=result(2, "after", returned=310),
            entry=moved(("2010", "bob", -10), ("4010", None, 10)),
        ),
        *("payout", W, 1),
        ("bet main.2 of 3.00 EUR on player was paid 3.10 EUR, and 3.00 EUR was due: a tie returns the",),
        2,
    ),
    case_of(
        *("too little for a void", correction),
        told(
            W,
            2,
            bets=result(2, "after", returned=290),
            entry=moved(("2010", "bob", 10), ("4010", None, -10)),
        ),
        *("payout", W, 2),
        ("bet main.2 of 3.00 EUR came to 2.90 EUR (void)", "its coup is void: 3.00 EUR was due"),
    ),
    case_of(
        *("a shortfall too large", correction),
        told(
            W,
            shortfalls=(Shortfall(account="alice", currency="EUR", amount=1_010),),
            entry=moved(("2010", "alice", -10), ("1060", "alice", 10)),
        ),
        *("shortfall", W, 1),
        ("10.10 EUR is put down as what account alice lacks, and it lacks 10.00 EUR",),
    ),
    case_of(
        *("a shortfall where there is enough", correction),
        told(
            W,
            shortfalls=lambda each: (*each, Shortfall(account="bob", currency="EUR", amount=10)),
            entry=moved(("2010", "bob", -10), ("1060", "bob", 10)),
        ),
        *("shortfall", W, 1),
        ("0.10 EUR is put down as what account bob lacks, and it lacks 0.00 EUR",),
    ),
    case_of(
        *(
            "an entry that is not the net",
            correction,
            told(W, entry=moved(("4011", None, 5), ("4012", None, -5))),
        ),
        *("entry", W, 1),
        ("on 4011, and", "on 4012, and"),
    ),
    case_of(
        *("paid again", many, twice(W, 2), "second_settlement", W, 3),
        ("coup 1 of shoe S1 was paid by version 2 of its result, and here it is paid again",),
    ),
    case_of(
        *("a bet is forgotten", correction),
        told(
            W,
            2,
            bets=lambda bets: (bets[0], *bets[2:]),
            entry=moved(("2030", "x", 0)),
        ),
        *("correction", W, 2),
        ("bet main.2 of coup 1 was paid, and it is not corrected",),
    ),
    case_of(
        *("not given back", collected, told(W, entry=moved(("1065", "alice", -50), ("2010", "alice", 50)))),
        *("entry", W, 1),
        ("1065 of alice", "2010 of alice"),
        4,
    ),
    case_of(
        *("not borne", borne, told(W, entry=moved(("2020", "alice", 1_000), ("5010", None, -1_000)))),
        *("entry", W, 1),
        ("10.00 EUR debit on 2020 of alice, and nothing was due; 10.00 EUR credit on 5010",),
        3,
    ),
    case_of(
        *("another's account", operators, told(A.FundsHeld, operator="op"), "account", A.FundsHeld, 1),
        ("account zoe is of operator other, not of op",),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_wrong_is_named_with_its_place_and_amount(case: Case) -> None:
    story = case.tell(case.tamper())
    found = findings(said(story.events))
    place = story.of(case.kind)[case.nth - 1]
    assert [finding.check for finding in found[:1]] == [case.check], [each.words for each in found]
    assert (found[0].stream, found[0].sequence) == (place.stream, place.sequence)
    for words in case.words:
        assert words in found[0].words
    assert len(found) == case.findings, [each.words for each in found]


def test_each_version_has_a_verdict_of_its_own() -> None:
    verdicts = [each for each in said(correction().events) if isinstance(each, CoupVerified)]
    assert [(each.version, each.status, each.outcome) for each in verdicts] == [
        (1, "settled", "banker"),
        (2, "settled", "tie"),
        (3, "void", None),
    ]
    returned = [sum(row.returned for row in each.turnover) for each in verdicts]
    # A free bet's stake counts as returned where it goes back; what is owed of commission does not.
    assert returned == [3_900 + 380 + 975, 2_000 + 300 + 900 + 400 + 500, 2_000 + 300 + 100 + 400 + 500]


def test_what_the_house_keeps_is_what_its_gaming_accounts_say() -> None:
    """I8, after every correction: stakes less what came of them, and the free bets that were used."""
    for tell in (correction, collected, deferred, free_bets, seamless, rollbacks, many):
        story, result = tell(), Verification()
        verifier = Verifier(Tally(result, None))
        assert findings(said(story.events, verifier)) == []
        accounts_ = verifier.trial_balance("wallet/main")
        gaming = -sum(amount for (ledger, _), amount in accounts_.items() if "4010" <= ledger <= "4030")
        cost = sum(amount for (ledger, _), amount in accounts_.items() if ledger == "5010")
        bonus = -sum(amount for (ledger, _), amount in accounts_.items() if ledger == "2020")
        (row,) = result.turnover.values()
        assert row.staked - row.returned == gaming - cost + bonus + _won_free(story)


def _won_free(story: Evening) -> int:
    """Stakes of free bets that were lost or won: they came out of nobody's pocket."""
    return sum(
        bet.stake
        for ended in story.paid.values()
        for bet, result in ended
        if bet.funding == "free" and result.tier in ("win", "lose")
    )


@pytest.mark.parametrize("tell", [correction, collected, many])
@given(seed=st.integers(0, 2**32), bias=st.sampled_from([0, 1, 5, 10, 19, 20]))
def test_any_interleaving_gives_the_same_verdicts_on_corrections(tell: Teller, seed: int, bias: int) -> None:
    story, chance = tell(None), random.Random(seed)
    choices = (int(chance.randrange(20) < bias) for _ in iter(int, 1))
    assert verdicts(said(interleaved(story, choices))) == verdicts(said(story.events))


@pytest.mark.parametrize("tell", [correction, collected, many])
@pytest.mark.parametrize("batch", [1, 3, 1_000])
def test_finished_coups_come_back_from_where_they_are_stored(tell: Teller, batch: int) -> None:
    """As the live service does it: what is finished is not in memory, and is asked for when it is needed."""
    events = tell(None).events
    rows, verifier, payloads = Rows(), Verifier(persistent=True), []
    for start in range(0, len(events), batch):
        portion = events[start : start + batch]
        keys = verifier.lacking(portion)
        kept = [
            ("finished", key, rows.rows["finished", key]) for key in keys if ("finished", key) in rows.rows
        ]
        verifier.load(kept)
        for event in portion:
            payloads += verifier.observe(event)
        rows.write(verifier)
    assert payloads == said(events)


def test_a_correction_that_game_never_made() -> None:
    story = evening(None)
    story.coup(BANKER_WINS, [Bet("banker", 100)]).coup(BANKER_WINS, number=2)
    story.pay_anew(_names(), _reference_of(story, 1), story.of(CoupConcluded)[1], 2, "tie")
    place = story.of(SettlementCorrected)[0]
    for verifier in (Verifier(), Verifier(corrected=lambda _: False)):
        (found,) = findings(said(story.events, verifier))
        assert (found.stream, found.sequence) == (place.stream, place.sequence)
        assert "paid anew, and game has not corrected it" in found.words


def _reference_of(story: Evening, number: int) -> EventRef:
    return reference(story.of(CoupConcluded)[number - 1])


def test_only_what_will_be_corrected_is_kept() -> None:
    story = correction()
    key = (OPERATOR, "T1", "S1", 1)
    payloads = said(story.events, Verifier(corrected={key}.__contains__))
    assert payloads == said(story.events)


def test_every_operator_has_books_of_its_own() -> None:
    """What one operator's bets come to is not made good by another's."""

    def theirs(payload: Payload) -> Payload:
        if isinstance(payload, BetAccepted):
            entry = moved(("2030", "main.1", -50), ("1030", None, 50))(payload.entry)
            return payload.model_copy(update={"entry": entry})
        if isinstance(payload, accounts.FundsHeld):
            entry = moved(("2090", "h1", -50), ("1030", None, 50))(payload.entry)
            return payload.model_copy(update={"entry": entry})
        return payload

    found = findings(said(operators(theirs).events))
    assert [(each.operator, each.check) for each in found[:4]] == [
        ("other", "entry"),
        ("other", "holds"),
        (OPERATOR, "entry"),
        (OPERATOR, "bets_in_play"),
    ]
