"""Amounts: exact or refused, to the last of a balance, and of any size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from services.certify.catalogue import OURS, scenario
from services.certify.stage import Stage
from services.seamless.calls import AskStatus


def _instead(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    """Another amount in a body; in our protocol it is a text, in others a number."""
    return lambda body: body.replace(old, new)


@scenario("insufficient-funds", "a debit of more than there is is refused, and takes nothing")
def _(s: Stage) -> None:
    s.debit(s.balance(s.alice) + 10, expect="INSUFFICIENT_FUNDS")


@scenario("whole-balance", "the whole balance may go, to exactly nothing, and come back")
def _(s: Stage) -> None:
    bet = s.debit(s.balance(s.alice))
    s.debit("0.01", expect="INSUFFICIENT_FUNDS")
    s.cancel(bet)


@scenario("big-payout", "a win of 63 million is paid exactly, and can be staked again")
def _(s: Stage) -> None:
    s.credit(s.debit("1.00"), "63727092.34")
    s.credit(s.debit("63727092.34"), "0.00")


@scenario("ten-cents-thrice", "three stakes of 0.10 from 0.30 leave exactly nothing")
def _(s: Stage) -> None:
    rest = s.debit(s.balance(s.alice) - 30)
    bets = [s.debit("0.10") for _ in range(3)]
    s.debit("0.01", expect="INSUFFICIENT_FUNDS")
    for bet in (*bets, rest):
        s.cancel(bet)


@scenario("zero-bet", "a stake of nothing is refused")
def _(s: Stage) -> None:
    s.debit("0.00", expect="INVALID")


@scenario("precision", "an amount finer than the currency is refused, never rounded")
def _(s: Stage) -> None:
    s.perform(s.bet("10.00"), "PRECISION", edit=_instead(b"10.00", b"10.005"))
    s.perform(s.bet("10.00"), "PRECISION", edit=_instead(b"10.00", b"10.004"))


@scenario("json-number", "an amount that is a JSON number is refused", dialects=OURS)
def _(s: Stage) -> None:
    s.perform(s.bet("10.00"), "INVALID", edit=_instead(b'"10.00"', b"10.00"))
    s.perform(s.bet("10.00"), "INVALID", edit=_instead(b'"10.00"', b"10"))


@scenario("no-amounts", "texts that are no amounts are refused", dialects=OURS)
def _(s: Stage) -> None:
    for text in (b'"-10.00"', b'"1e1"', b'"10,00"', b'""', b'" 10.00"', b"null", b'"NaN"'):
        s.perform(s.bet("10.00"), "INVALID", edit=_instead(b'"10.00"', text))


@scenario("yen", "the yen has no decimals: 150 is 150, and 1.5 is refused", currency="JPY")
def _(s: Stage) -> None:
    yuki = s.player_in("JPY")
    s.credit(s.debit("150", player=yuki), "300")
    s.perform(s.bet("150", player=yuki), "PRECISION", edit=_instead(b"150", b"1.5"))


@scenario("dinar", "the Kuwaiti dinar has three: 1.234 is taken, 1.2345 refused", currency="KWD")
def _(s: Stage) -> None:
    khalid = s.player_in("KWD")
    s.credit(s.debit("1.234", player=khalid), "2.468")
    s.perform(s.bet("1.234", player=khalid), "PRECISION", edit=_instead(b"1.234", b"1.2345"))


@scenario("another-currency", "a stake in another currency than the player's is refused")
def _(s: Stage) -> None:
    other = "USD" if s.alice.currency != "USD" else "EUR"
    s.perform(s.bet("4.79", currency=other), "CURRENCY_MISMATCH", moved=0)


@scenario("unknown-fields", "fields that a wallet does not know are passed over")
def _(s: Stage) -> None:
    bet = s.bet("4.79")
    s.perform(bet, edit=lambda body: b'{"a_field_of_next_year":{"x":[1]},' + body[1:])
    s.credit(bet, "9.58")


@scenario("unknown-kind", "a kind of credit that is none is refused", dialects=OURS)
def _(s: Stage) -> None:
    bet = s.debit("4.79")
    s.credit(bet, "9.58", kind="gift", expect="KIND_UNKNOWN")
    s.credit(bet, "9.58")


@scenario("long-ids", "an id of 64 characters is taken, one of 65 refused", dialects=OURS)
def _(s: Stage) -> None:
    tx = s.tx().ljust(64, "x")
    s.again(s.debit("1.00", tx=tx))
    s.perform(replace(s.bet("1.00"), tx=tx + "x"), "INVALID")


@scenario(
    "strange-ids",
    "ids with a slash, a space, a percent sign and letters of any script are ids",
    dialects=OURS,
)
def _(s: Stage) -> None:
    bet = s.debit("1.00", tx=s.tx() + "/ %2F?ü賭")
    s.again(bet)
    s.perform(AskStatus(bet.account, bet.tx), "final")
    s.credit(bet, "2.00")
