"""Two players, nobody, and sessions that are over."""

from __future__ import annotations

from dataclasses import replace

from services.certify.catalogue import BOTH, scenario
from services.certify.stage import Player, Stage

_NOBODY = "nobody-of-that-name"


@scenario("two-players", "two players, two bets each, in one coup: neither's balance moves the other's")
def _(s: Stage) -> None:
    bets = [
        s.debit(amount, player=player, coup=77, seat=seat)
        for player, seat in ((s.alice, 1), (s.bob, 2))
        for amount in ("4.79", "5.00")
    ]
    for bet, paid in zip(bets, ("9.58", "0.00", "0.00", "10.00"), strict=True):
        s.credit(bet, paid)
    s.check(s.alice)
    s.check(s.bob)


@scenario("same-id-two-players", "an id counts for one player: both may have it")
def _(s: Stage) -> None:
    tx = s.tx()
    first = s.debit("1.00", tx=tx)
    second = s.debit("2.00", tx=tx, player=s.bob)
    s.credit(first, "2.00")
    s.cancel(second)


@scenario("unknown-player", "nobody's debit, win and rollback are refused; the right win is paid afterwards")
def _(s: Stage) -> None:
    bet = s.debit("4.79")
    nobody = Player(_NOBODY, s.alice.currency, s.alice.token)
    s.debit("4.79", player=nobody, expect="PLAYER_UNKNOWN")
    s.credit(bet, "9.58", player=nobody, expect="PLAYER_UNKNOWN")
    s.cancel(bet, player=nobody, expect="PLAYER_UNKNOWN")
    s.credit(bet, "9.58")


@scenario("others-bet", "one player's win for another player's bet is refused")
def _(s: Stage) -> None:
    bet = s.debit("4.79")
    s.check(s.bob)
    s.credit(bet, "9.58", player=s.bob, expect="BET_NOT_FOUND")
    s.credit(bet, "9.58")


@scenario("wrong-session", "a bet with a session that is not alive is refused, and takes nothing")
def _(s: Stage) -> None:
    s.debit("4.79", token="session-that-never-was", expect="TOKEN_EXPIRED")
    s.debit("4.79")


@scenario("others-session", "a bet with another player's session is refused")
def _(s: Stage) -> None:
    token = s.bob.token or "session-of-nobody"
    s.debit("4.79", token=token, expect="TOKEN_EXPIRED")


@scenario(
    "session-over",
    "wins and rollbacks need no session: a bet is paid after the player has gone",
    dialects=BOTH,
)
def _(s: Stage) -> None:
    # Neither call names a session. (That none need be alive is proven in our own tests of the sandbox.)
    first, second = s.debit("4.79"), s.debit("5.00")
    s.credit(first, "9.58")
    s.cancel(second)


@scenario("repeat-without-session", "a debit repeated after the session ended is still the same")
def _(s: Stage) -> None:
    bet = s.debit("4.79")
    s.again(replace(bet, token=None))
