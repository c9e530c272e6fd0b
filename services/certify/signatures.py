"""Who asks: requests that are signed wrongly, late, twice, or not at all."""

from __future__ import annotations

from dataclasses import replace

from services.certify.catalogue import OURS, scenario
from services.certify.stage import Stage
from services.runtime.signing import SIGNATURE, Key
from services.seamless.adapter import HttpRequest
from services.seamless.calls import AskBalance, Call

_BAD = "BAD_SIGNATURE"
_LATE_SECONDS = 3600


def _refused(s: Stage, call: Call, request: HttpRequest, what: str) -> None:
    """That request must be refused for who sends it."""
    s.doing(what)
    exchange = s.send(request)
    s.check_code(call, s.adapter.reply(call, exchange.answer), exchange, _BAD)
    s.check(s.alice)


def _with_key(s: Stage, key: Key, what: str) -> None:
    s.check(s.alice)
    bet = s.bet("4.79")
    transport = s.subject.transport(key=key)
    try:
        request = transport.prepare(s.adapter.request(bet))
    finally:
        transport.close()
    _refused(s, bet, request, what)


@scenario("wrong-secret", "a request signed with another secret is refused")
def _(s: Stage) -> None:
    _with_key(s, Key(s.subject.key.id, b"another secret, of no operator at all"), "debit with another secret")


@scenario("key-for-secret", "a request signed with the key's id instead of its secret is refused")
def _(s: Stage) -> None:
    key = s.subject.key
    _with_key(s, Key(key.id, key.id.encode()), "debit signed with the key's id")


@scenario("unknown-key", "a key that nobody knows is refused", dialects=OURS)
def _(s: Stage) -> None:
    _with_key(s, Key("no-such-key", s.subject.key.secret), "debit with an unknown key")


@scenario("not-signed", "a request without a signature is refused", dialects=OURS)
def _(s: Stage) -> None:
    s.check(s.alice)
    bet = s.bet("4.79")
    request = s.prepare(bet)
    bare = {name: value for name, value in request.headers.items() if not name.lower().startswith("sabot-")}
    _refused(s, bet, replace(request, headers=bare), "debit that is not signed")


@scenario("changed-body", "a body that was changed after it was signed is refused", dialects=OURS)
def _(s: Stage) -> None:
    s.check(s.alice)
    bet = s.bet("4.79")
    request = s.prepare(bet)
    changed = replace(request, body=request.body.replace(b'"4.79"', b'"4.78"'))
    _refused(s, bet, changed, "debit that was changed")


@scenario("changed-query", "a query that was changed after it was signed is refused", dialects=OURS)
def _(s: Stage) -> None:
    ask = AskBalance(s.alice.name, s.alice.currency)
    request = s.prepare(ask)
    _refused(s, ask, replace(request, query=request.query + "&x=1"), "balance with another query")


@scenario("changed-path", "a signature is good for one path only", dialects=OURS)
def _(s: Stage) -> None:
    s.check(s.alice)
    bet = s.bet("4.79")
    request = s.prepare(bet)
    _refused(s, bet, replace(request, path=request.path.replace("debit", "credit")), "debit sent to credit")


@scenario("old-signature", "a request that was signed an hour ago, or in an hour, is refused", dialects=OURS)
def _(s: Stage) -> None:
    s.check(s.alice)
    now = int(s.subject.clock.now().timestamp())
    for timestamp in (now - _LATE_SECONDS, now + _LATE_SECONDS):
        bet = s.bet("4.79")
        _refused(s, bet, s.prepare(bet, timestamp=timestamp), "debit signed at another time")


@scenario("same-request-twice", "the same signed request a second time is refused", dialects=OURS)
def _(s: Stage) -> None:
    s.balance(s.alice)
    bet = s.bet("4.79")
    request = s.prepare(bet)
    s.doing("debit")
    exchange = s.send(request)
    s.check_code(bet, s.adapter.reply(bet, exchange.answer), exchange, "OK")
    s.expect_balance(s.alice, -bet.amount)
    _refused(s, bet, request, "the same bytes again")


@scenario("cut-signature", "a signature of which a part is missing is refused", dialects=OURS)
def _(s: Stage) -> None:
    s.check(s.alice)
    bet = s.bet("4.79")
    request = s.prepare(bet)
    name = next(each for each in request.headers if each.lower() == SIGNATURE)
    cut = {**request.headers, name: request.headers[name][:-1]}
    _refused(s, bet, replace(request, headers=cut), "debit with a part of the signature")
