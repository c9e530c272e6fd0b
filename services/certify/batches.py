"""Several actions of one player in one request."""

from __future__ import annotations

from services.certify.catalogue import OURS, scenario
from services.certify.stage import Stage
from services.seamless.calls import Credit, Debit, Done, Movement, Play, Rollback


def _win(s: Stage, bet: Debit, amount: int) -> Credit:
    return Credit(s.tx(), bet.account, bet.currency, amount, bet.tx)


def _play(s: Stage, *actions: Movement) -> list[object]:
    reply = s.perform(Play(actions[0].account, actions))
    return [each.balance if isinstance(each, Done) else each for each in reply.results]


@scenario("batch", "a batch is done in its order, and answered action by action", dialects=OURS)
def _(s: Stage) -> None:
    before = s.balance(s.alice)
    bet, other = s.bet("10.00"), s.bet("5.00")
    rollback = Rollback(s.tx(), bet.account, bet.currency, other.tx)
    balances = _play(s, bet, _win(s, bet, 1950), other, rollback)
    s.doing("a batch of four")
    expected = [before - 1000, before + 950, before + 450, before + 950]
    if balances != expected:
        raise s.fail(f"balances {expected}", f"{balances}")
    s.expect_balance(s.alice, 950)
    s.check(s.alice)


@scenario(
    "batch-all-or-nothing", "if one action is refused none is done, and each can come again", dialects=OURS
)
def _(s: Stage) -> None:
    first, too_much = s.bet("10.00"), s.bet(s.balance(s.alice))
    s.perform(Play(first.account, (first, too_much)), "INSUFFICIENT_FUNDS")
    s.check(s.alice)
    s.perform(first)
    s.cancel(first)


@scenario("batch-again", "a batch repeated moves nothing", dialects=OURS)
def _(s: Stage) -> None:
    bet = s.bet("10.00")
    batch = Play(bet.account, (bet, _win(s, bet, 1950)))
    s.balance(s.alice)
    s.perform(batch)
    s.expect_balance(s.alice, 950)
    s.check(s.alice)
    s.perform(batch, "OK_REPLAY")
    s.check(s.alice)


@scenario("batch-half-known", "a batch of which the beginning was done before does the rest", dialects=OURS)
def _(s: Stage) -> None:
    bet = s.debit("10.00")
    s.perform(Play(bet.account, (bet, _win(s, bet, 1950))))
    s.expect_balance(s.alice, 1950)
    s.check(s.alice)
