"""The same request again, another one under the same id, and many at the same moment."""

from __future__ import annotations

import json
from dataclasses import replace

from services.certify.catalogue import OURS, scenario
from services.certify.stage import Stage, problem_of
from services.seamless.calls import Done


@scenario("debit-again", "a debit repeated takes nothing more, and the bet is paid as if it had come once")
def _(s: Stage) -> None:
    bet = s.debit("4.79")
    s.again(bet)
    s.credit(bet, "9.58")
    s.again(bet)


@scenario("debit-another-amount", "another amount under the same id moves nothing; the bet stands as it was")
def _(s: Stage) -> None:
    bet = s.debit("4.79")
    s.again(replace(bet, amount=bet.amount - 63), "IDEMPOTENCY_CONFLICT")
    s.credit(bet, "9.58")


@scenario("credit-again", "a win repeated pays once")
def _(s: Stage) -> None:
    win = s.credit(s.debit("4.79"), "9.58")
    s.again(win)


@scenario("cancel-again", "a rollback repeated gives back once")
def _(s: Stage) -> None:
    rollback = s.cancel(s.debit("4.79"))
    s.again(rollback)


@scenario("cancel-under-another-id", "a second rollback of a bet is answered as the first, and moves nothing")
def _(s: Stage) -> None:
    bet = s.debit("4.79")
    rollback = s.cancel(bet)
    s.again(replace(rollback, tx=s.tx()))


@scenario("refused-stays-refused", "a bet refused for lack of money is refused again after money came")
def _(s: Stage) -> None:
    too_much = s.debit(s.balance(s.alice) + 10, expect="INSUFFICIENT_FUNDS")
    s.promote("promo_reward")
    s.again(too_much, "INSUFFICIENT_FUNDS")


@scenario(
    "same-bytes", "a repeat has the bytes of the first answer; today's balance is beside it", dialects=OURS
)
def _(s: Stage) -> None:
    bet = s.bet("4.79")
    before = s.balance(s.alice)
    _, first = s.ask(bet)
    s.expect_balance(s.alice, -bet.amount)
    s.debit("1.00")
    reply, second = s.ask(bet)
    s.doing("debit again")
    if second.answer.body != first.answer.body:
        raise s.fail(
            first.answer.body.decode("utf-8", "replace"), second.answer.body.decode("utf-8", "replace")
        )
    if not (isinstance(reply.outcome, Done) and reply.outcome.replayed):
        raise s.fail("Idempotent-Replayed: true", "no such header")
    current = before - bet.amount - 100
    if reply.current != current:
        raise s.fail(f"Sabot-Current-Balance of {current} minor units", f"{reply.current}")
    s.check(s.alice)


@scenario("spelling", "the same amount spelt otherwise is the same request", dialects=OURS)
def _(s: Stage) -> None:
    bet = s.debit("5.00")
    s.perform(bet, "OK_REPLAY", moved=0, edit=lambda body: body.replace(b'"5.00"', b'"5.0"'))


@scenario(
    "conflict-names-fields",
    "a conflict names what differs, moves nothing, and is no use to repeat",
    dialects=OURS,
)
def _(s: Stage) -> None:
    bet = s.debit("10.00", spot="banker")
    reply, exchange = s.ask(replace(bet, spot="player"))
    s.check_code(bet, reply, exchange, "IDEMPOTENCY_CONFLICT")
    s.doing("debit on another spot")
    if reply.fields != ("spot",):
        raise s.fail('fields ["spot"]', json.dumps(list(reply.fields)))
    document = json.loads(exchange.answer.body)
    if document.get("retryable") is not problem_of("IDEMPOTENCY_CONFLICT")["retryable"]:
        raise s.fail('"retryable": false', str(document.get("retryable")))
    s.check(s.alice)


@scenario("conflict-across-kinds", "an id that a debit has is none for a credit", dialects=OURS)
def _(s: Stage) -> None:
    bet = s.debit("4.79")
    s.credit(bet, "9.58", tx=bet.tx, expect="IDEMPOTENCY_CONFLICT")
    s.credit(bet, "9.58")


@scenario("case-of-ids", "ids that differ in case only are two ids")
def _(s: Stage) -> None:
    tx = s.tx() + "-x"
    s.debit("1.00", tx=tx)
    s.debit("2.00", tx=tx.upper())


@scenario("ten-at-once", "ten identical debits at the same moment take one stake")
def _(s: Stage) -> None:
    bet = s.bet("4.79")
    before = s.balance(s.alice)
    replies = s.at_once([bet] * 10)
    s.expect_balance(s.alice, -bet.amount)
    allowed = {name for code in ("OK", "OK_REPLAY", "IN_PROGRESS") for name in s.adapter.codes(code, bet)}
    strange = [each.code for each in replies if each.code not in allowed]
    if strange:
        raise s.fail(" or ".join(sorted(allowed)), strange[0])
    s.check(s.alice)
    if s.adapter.name == "sabot":
        balances = {each.outcome.balance for each in replies if isinstance(each.outcome, Done)}
        if balances != {before - bet.amount}:
            raise s.fail("one balance in all answers", f"{len(balances)}")
    s.again(bet)


@scenario("overdraw-at-once", "of ten debits at once, each of a third of the balance, three are taken")
def _(s: Stage) -> None:
    third = s.balance(s.alice) // 3
    bets = [s.bet(third) for _ in range(10)]
    replies = s.at_once(bets)
    taken = [bet for bet, reply in zip(bets, replies, strict=True) if isinstance(reply.outcome, Done)]
    if len(taken) != 3:
        raise s.fail("3 taken", f"{len(taken)} taken")
    s.expect_balance(s.alice, -3 * third)
    s.check(s.alice)
    for bet in taken:
        s.cancel(bet)
