"""Bets from the stake to the end: wins, cancellations, and the orders in which they may come."""

from __future__ import annotations

from schemas.money import parse_amount
from services.certify.catalogue import OURS, scenario
from services.certify.stage import Stage
from services.seamless.calls import TellRound

SETTLED = "BET_ALREADY_SETTLED"
CANCELLED = "BET_CANCELLED"


@scenario("happy-path", "a stake, and a win that closes the bet")
def _(s: Stage) -> None:
    s.credit(s.debit("4.79"), "9.58")


@scenario("zero-win", "a win of nothing closes the bet")
def _(s: Stage) -> None:
    bet = s.debit("4.79")
    s.credit(bet, "0.00")
    s.credit(bet, "1.00", expect=SETTLED)


@scenario("settled-once", "a second win under another id pays nothing")
def _(s: Stage) -> None:
    bet = s.debit("4.79")
    s.credit(bet, "9.58")
    s.credit(bet, "9.58", expect=SETTLED)


@scenario("cancel", "a rollback gives the stake back")
def _(s: Stage) -> None:
    s.cancel(s.debit("4.79"))


@scenario("cancel-without-amount", "a rollback needs no amount: what was taken is given back")
def _(s: Stage) -> None:
    s.cancel(s.debit("4.79"), amount=None)


@scenario("cancel-another-amount", "a rollback of another amount than was taken is refused", dialects=OURS)
def _(s: Stage) -> None:
    bet = s.debit("4.79")
    s.cancel(bet, amount=parse_amount("9.99", bet.currency), expect="IDEMPOTENCY_CONFLICT")
    s.cancel(bet)


@scenario("cancel-after-credit", "what is settled is not rolled back")
def _(s: Stage) -> None:
    bet = s.debit("4.79")
    s.credit(bet, "9.58")
    s.cancel(bet, expect=SETTLED)


@scenario("credit-after-cancel", "what was rolled back is not paid")
def _(s: Stage) -> None:
    bet = s.debit("4.79")
    s.cancel(bet)
    s.credit(bet, "9.58", expect=SETTLED)


@scenario("tombstone", "a rollback that comes first is remembered: its late debit is refused, others are not")
def _(s: Stage) -> None:
    other = s.debit("2.00")
    late = s.bet("4.79")
    s.cancel(late, expect="TOMBSTONED")
    s.perform(late, CANCELLED)
    s.credit(other, "4.00")


@scenario("tombstone-stays", "a tombstone holds against every repeat of the late debit")
def _(s: Stage) -> None:
    late = s.bet("4.79")
    rollback = s.cancel(late, expect="TOMBSTONED")
    s.again(rollback, "TOMBSTONED")
    for _ in range(3):
        s.perform(late, CANCELLED)
    s.again(rollback, "TOMBSTONED")


@scenario("late-repeat", "a debit repeated after its rollback takes nothing")
def _(s: Stage) -> None:
    bet = s.debit("4.79")
    s.cancel(bet)
    s.again(bet, ("OK_REPLAY", CANCELLED, SETTLED))


@scenario("win-before-bet", "a win that overtakes its bet is refused for now, and paid when the bet is there")
def _(s: Stage) -> None:
    bet = s.bet("4.79")
    win = s.credit(bet, "9.58", expect="BET_NOT_FOUND")
    s.perform(bet)
    s.perform(win)


@scenario("two-rounds-at-once", "two coups side by side")
def _(s: Stage) -> None:
    first, second = s.debit("4.79"), s.debit("5.00")
    s.credit(second, "10.00")
    s.credit(first, "0.00")


@scenario("bet-before-settlement", "a bet on the next coup before the last one is settled")
def _(s: Stage) -> None:
    first = s.debit("4.79")
    second = s.debit("5.00")
    s.credit(first, "9.58")
    s.credit(second, "0.00")


@scenario("delayed-settlement", "a coup that is settled after three others")
def _(s: Stage) -> None:
    first = s.debit("4.79")
    for amount in ("1.00", "2.00", "3.00"):
        s.credit(s.debit(amount), "0.00")
    s.credit(first, "9.58")


@scenario("cancel-one-credit-other", "of two bets of a coup one is rolled back, then the other paid")
def _(s: Stage) -> None:
    first, second = s.debit("4.79", coup=77), s.debit("5.00", coup=77, spot="tie")
    s.cancel(first)
    s.credit(second, "45.00")


@scenario("credit-one-cancel-other", "of two bets of a coup one is paid, then the other rolled back")
def _(s: Stage) -> None:
    first, second = s.debit("4.79", coup=77), s.debit("5.00", coup=77, spot="tie")
    s.credit(second, "45.00")
    s.cancel(first)


@scenario("fifteen-bets", "fifteen bets of a coup: paid, rolled back and lost by turns")
def _(s: Stage) -> None:
    bets = [s.debit(f"0.{10 + number}", coup=77, seat=number % 9 + 1) for number in range(15)]
    for number, bet in enumerate(bets):
        match number % 3:
            case 0:
                s.credit(bet, "0.50")
            case 1:
                s.cancel(bet)
            case _:
                s.credit(bet, "0.00")


@scenario("hundred-and-one-bets", "a hundred bets of a coup that lose, and one that wins")
def _(s: Stage) -> None:
    bets = [s.debit("0.10", coup=77) for _ in range(101)]
    for bet in bets[:-1]:
        s.credit(bet, "0.00")
    s.credit(bets[-1], "10.10")


@scenario("three-seats", "one player at three seats of a coup: each bet by itself")
def _(s: Stage) -> None:
    bets = [s.debit("1.00", coup=77, seat=seat) for seat in (1, 4, 7)]
    for bet, paid in zip(bets, ("1.95", "0.00", "1.95"), strict=True):
        s.credit(bet, paid)


@scenario("betting-closed", "no bet on a coup after its betting closed", dialects=OURS)
def _(s: Stage) -> None:
    bet = s.debit("4.79")
    place = (bet.table or "", bet.shoe or "", bet.coup or 0)
    s.perform(TellRound(*place, "bets_closed"))
    s.debit("4.79", coup=bet.coup, expect="ROUND_CLOSED")
    s.debit("1.00")
    s.credit(bet, "9.58")
    s.perform(TellRound(*place, "closed"))


@scenario("partial-refund", "parts of a stake go back, together at most the stake", dialects=OURS)
def _(s: Stage) -> None:
    bet = s.debit("10.00")
    s.credit(bet, "4.00", kind="refund", closes=False)
    s.credit(bet, "6.01", kind="refund", closes=False, expect="REFUND_EXCEEDS_STAKE")
    s.credit(bet, "6.00", kind="refund", closes=False)
    s.credit(bet, "0.01", kind="refund", closes=False, expect=(SETTLED, "REFUND_EXCEEDS_STAKE"))


@scenario("refund-then-win", "a bet of which a part went back is paid, and no more goes back", dialects=OURS)
def _(s: Stage) -> None:
    bet = s.debit("10.00")
    s.credit(bet, "4.00", kind="refund", closes=False)
    s.credit(bet, "12.00")
    s.cancel(bet, expect=SETTLED)


@scenario("refund-then-cancel", "a rollback gives back what is left of the stake", dialects=OURS)
def _(s: Stage) -> None:
    bet = s.debit("10.00")
    s.credit(bet, "4.00", kind="refund", closes=False)
    s.cancel(bet, moved=parse_amount("6.00", bet.currency))


@scenario("correction", "a settled bet is corrected up and down", dialects=OURS)
def _(s: Stage) -> None:
    bet = s.debit("10.00")
    s.credit(bet, "1.00", kind="correction", expect="BET_OPEN")
    s.credit(bet, "0.00")
    s.credit(bet, "19.50", kind="correction")
    s.debit("9.50", kind="correction", bet_tx=bet.tx, token=None)


@scenario(
    "correction-refused", "a correction that a player cannot pay is refused, never skipped", dialects=OURS
)
def _(s: Stage) -> None:
    bet = s.debit("10.00")
    s.credit(bet, "0.00")
    emptied = s.debit(s.balance(s.alice))
    s.debit("9.50", kind="correction", bet_tx=bet.tx, token=None, expect="INSUFFICIENT_FUNDS")
    s.cancel(emptied)
    s.debit("9.50", kind="correction", bet_tx=bet.tx, token=None)


@scenario("tip", "a tip is taken, and is not rolled back", dialects=OURS)
def _(s: Stage) -> None:
    tip = s.debit("2.00", kind="tip")
    s.cancel(tip, expect=SETTLED)
