"""What became of a transaction whose answer was lost."""

from __future__ import annotations

import contextlib
import json
from time import monotonic, sleep

import httpx2

from services.certify.catalogue import OURS, scenario
from services.certify.stage import Stage
from services.seamless.calls import AskStatus, Done, Ping, Status
from services.seamless.client import Timeouts

_PATIENCE_SECONDS = 3


@scenario("ping", "the wallet says that it is there", dialects=OURS)
def _(s: Stage) -> None:
    s.perform(Ping())


@scenario(
    "status", "a transaction is unknown before, and final with its original answer afterwards", dialects=OURS
)
def _(s: Stage) -> None:
    bet = s.bet("4.79")
    ask = AskStatus(bet.account, bet.tx)
    s.perform(ask, "unknown")
    s.balance(s.alice)
    reply, first = s.ask(bet)
    s.check_code(bet, reply, first, "OK")
    s.expect_balance(s.alice, -bet.amount)
    reply, answer = s.ask(ask)
    s.check_code(ask, reply, answer, "final")
    s.doing("status")
    original = json.loads(answer.answer.body)["response"]
    if original != {"status": 200, "body": json.loads(first.answer.body)}:
        raise s.fail(first.answer.body.decode(), json.dumps(original))
    s.check(s.alice)


@scenario("status-of-refused", "a refusal that is final is found again", dialects=OURS)
def _(s: Stage) -> None:
    bet = s.debit(s.balance(s.alice) + 10, expect="INSUFFICIENT_FUNDS")
    reply = s.perform(AskStatus(bet.account, bet.tx), "final")
    outcome = reply.status.outcome if reply.status else None
    code = getattr(outcome, "code", "nothing")
    if code != "INSUFFICIENT_FUNDS":
        raise s.fail("INSUFFICIENT_FUNDS", code)


@scenario(
    "status-after-timeout", "whose answer was not waited for is looked up, and was done once", dialects=OURS
)
def _(s: Stage) -> None:
    bet = s.bet("4.79")
    s.balance(s.alice)
    impatient = s.subject.transport(timeouts=Timeouts(connect_ms=2_000, answer_ms=1))
    s.doing("debit whose answer nobody waits for")
    try:
        request = impatient.prepare(s.adapter.request(bet))
        # An answer in a millisecond is all right, too.
        with contextlib.suppress(httpx2.HTTPError):
            impatient.send(request)
    finally:
        impatient.close()
    ask = AskStatus(bet.account, bet.tx)
    until = monotonic() + _PATIENCE_SECONDS
    while True:
        reply, exchange = s.ask(ask)
        s.check_code(ask, reply, exchange, ("unknown", "in_progress", "final"))
        if reply.status is not None and reply.status.state == "final":
            break
        if monotonic() > until:
            raise s.fail(f"final in {_PATIENCE_SECONDS} s", reply.code)
        sleep(0.02)
    if reply.status != Status("final", Done(s.balance(s.alice) - bet.amount, replayed=True)):
        raise s.fail("the answer to the debit", str(reply.status.outcome))
    s.expect_balance(s.alice, -bet.amount)
    s.check(s.alice)
    s.again(bet)


@scenario("rollback-after-timeout", "a debit whose outcome is not known can always be rolled back")
def _(s: Stage) -> None:
    known, lost = s.debit("4.79"), s.bet("5.00")
    s.cancel(known)
    s.cancel(lost, expect="TOMBSTONED")
    s.perform(lost, "BET_CANCELLED")
