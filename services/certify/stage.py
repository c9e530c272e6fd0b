"""The vocabulary of the scenarios: steps that are made, and what is expected of each.

Every step is held to a code, to the exact balance, to the time limit, and to a connection that stays open.
What is not as expected ends its scenario, with what was expected and what was got.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final

import httpx2

from schemas.money import exponent_of, format_amount, parse_amount
from schemas.seamless import CODES, problem_body
from services.runtime.ports import Clock, Rng
from services.runtime.signing import Key
from services.seamless.adapter import Adapter, HttpRequest, Reply, Unreadable
from services.seamless.calls import AskBalance, AskStatus, Call, Credit, Debit, Done, Movement, Rollback
from services.seamless.client import Exchange, Timeouts, Transport

Codes = str | tuple[str, ...]

UNITS_NEEDED: Final = 200
"""What each player needs to have for the scenarios, in whole units of the currency."""


class Failed(Exception):
    """A step did not turn out as it should."""

    def __init__(self, step: str, expected: str, got: str) -> None:
        super().__init__(f"{step}: expected {expected}, got {got}")
        self.step, self.expected, self.got = step, expected, got


@dataclass(frozen=True, slots=True)
class Player:
    """A player of the wallet under test."""

    name: str
    currency: str = "EUR"
    token: str | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """The wallet under test, and how it is spoken to."""

    url: str
    key: Key
    adapter: Adapter
    players: list[Player]
    """At least two in the currency of the first. A list, for a session may get another name on the way."""
    limit_ms: int
    clock: Clock
    rng: Rng

    @property
    def timeouts(self) -> Timeouts:
        """Well beyond the limit, so that a slow answer is told from none."""
        return Timeouts(connect_ms=2_000, answer_ms=max(1_200, self.limit_ms + 500))

    def transport(self, *, key: Key | None = None, timeouts: Timeouts | None = None) -> Transport:
        """Connections of one's own to it, maybe with another key."""
        return Transport(
            self.url,
            key or self.key,
            self.adapter,
            clock=self.clock,
            rng=self.rng,
            timeouts=timeouts or self.timeouts,
        )


class Stage:
    """Where one scenario plays. It knows what every player must have after each step."""

    def __init__(self, subject: Subject, transport: Transport, name: str) -> None:
        """``name``: unique to this scenario and this run; every id begins with it."""
        self.subject, self.adapter = subject, subject.adapter
        self.steps = 0
        self.rng = subject.rng
        self._transport, self._name = transport, name
        self._ids, self._coups = count(1), count(1)
        self._expected: dict[str, int] = {}
        self._address: object = None
        self._doing = ""
        self.alice, self.bob = [each for each in subject.players if each.currency == _main(subject)][:2]

    # ---------------------------------------------------------------------------------------------- steps

    def debit(
        self, amount: str | int = "10.00", *, player: Player | None = None, expect: Codes = "OK", **more: Any
    ) -> Debit:
        """Take a stake; the call, to which later steps refer.

        ``amount`` as text, or in minor units. ``more``: other fields of the call.
        """
        call = self.bet(amount, player=player, **more)
        self.perform(call, expect)
        return call

    def credit(
        self,
        bet: Debit,
        amount: str = "20.00",
        *,
        expect: Codes = "OK",
        player: Player | None = None,
        **more: Any,
    ) -> Credit:
        """Pay a bet; the call."""
        who = player or self._player(bet.account)
        call = Credit(
            more.pop("tx", None) or self.tx(),
            who.name,
            who.currency,
            parse_amount(amount, who.currency),
            bet.tx,
            table=bet.table,
            shoe=bet.shoe,
            coup=bet.coup,
            **more,
        )
        self.perform(call, expect)
        return call

    def cancel(
        self,
        bet: Debit,
        *,
        expect: Codes = "OK",
        player: Player | None = None,
        moved: int | None = None,
        **more: Any,
    ) -> Rollback:
        """Roll a debit back; the call. ``moved``: what must come back, where it is not the whole stake."""
        who = player or self._player(bet.account)
        fields: dict[str, Any] = {"tx": self.tx(), "target": bet.tx, "amount": bet.amount, **more}
        call = Rollback(
            account=who.name, currency=who.currency, table=bet.table, shoe=bet.shoe, coup=bet.coup, **fields
        )
        self.perform(call, expect, moved=bet.amount if moved is None else moved)
        return call

    def promote(self, kind: str, amount: str = "3.00") -> Credit:
        """Pay a promotion; the call."""
        who = self.alice
        call = Credit(
            self.tx(),
            who.name,
            who.currency,
            parse_amount(amount, who.currency),
            None,
            closes=False,
            kind=kind,
        )
        self.perform(call)
        return call

    def again(self, call: Call, expect: Codes = "OK_REPLAY") -> Reply:
        """The same call once more. It moves nothing."""
        return self.perform(call, expect, moved=0)

    def perform(
        self,
        call: Call,
        expect: Codes = "OK",
        *,
        moved: int | None = None,
        edit: Callable[[bytes], bytes] = bytes,
    ) -> Reply:
        """Make a call, and hold the answer to the code and to the exact balance.

        ``moved``: how far the player's balance moves if the code is ``OK``; without, what the call says.
        ``edit`` changes the body before it is signed.
        """
        self._doing = _named(call)
        # A player whom the wallet does not know has no balance.
        accounts = [each for each in _accounts(call) if self._is_known(each)]
        for account in accounts:
            self._know(account)
        self._doing = _named(call)
        reply, exchange = self.ask(call, edit=edit)
        self.check_code(call, reply, exchange, expect)
        done = isinstance(reply.outcome, Done)
        # Balances are held to what is expected, and not to what is said: an answer "OK" may be a repeat.
        if expect == "OK" and isinstance(call, Debit | Credit | Rollback):
            self._expected[call.account] += _shift(call) if moved is None else moved
        if expect == "OK" and done and isinstance(call, Debit | Credit | Rollback):
            self._check_balance(call.account, reply)
        else:
            for account in accounts:
                self.check(account)
        return reply

    def check(self, account: str | Player) -> int:
        """Ask for a balance, and hold it to what it must be; the balance."""
        player = self._player(account) if isinstance(account, str) else account
        doing, self._doing = self._doing, f"balance after {self._doing}"
        units = self._ask_balance(player)
        expected = self._expected.setdefault(player.name, units)
        if units != expected:
            raise Failed(
                self._step, self._money(expected, player.currency), self._money(units, player.currency)
            )
        self._doing = doing
        return units

    def expect_balance(self, player: Player, change: int) -> None:
        """Something that was sent another way has moved so much."""
        self._know(player.name)
        self._expected[player.name] += change

    def at_once(self, calls: Sequence[Call]) -> list[Reply]:
        """Make calls at the same moment, each over a connection of its own."""
        self._doing = f"{len(calls)} requests at once"
        for call in calls:
            for account in _accounts(call):
                self._know(account)
        self._address = None
        with ThreadPoolExecutor(len(calls)) as pool:
            exchanges = list(pool.map(self._exchange_alone, calls))
        return [self._reply(call, each) for call, each in zip(calls, exchanges, strict=True)]

    # ---------------------------------------------------------------------------------- what steps are of

    def tx(self) -> str:
        """An id that was never used."""
        return f"{self._name}-{next(self._ids)}"

    def bet(self, amount: str | int = "10.00", *, player: Player | None = None, **more: Any) -> Debit:
        """A debit that is not sent yet; by itself of a coup of its own."""
        who = player or self.alice
        tx = more.pop("tx", None) or self.tx()
        units = amount if isinstance(amount, int) else parse_amount(amount, who.currency)
        fields: dict[str, Any] = {
            "table": "certify",
            "shoe": self._name,
            "coup": next(self._coups),
            "bet": self.tx(),
            "spot": "banker",
            "token": who.token,
            **more,
        }
        return Debit(tx, who.name, fields.pop("currency", who.currency), units, **fields)

    def player_in(self, currency: str) -> Player:
        """The player who plays in that currency."""
        return next(each for each in self.subject.players if each.currency == currency)

    def renew(self, player: Player, token: str) -> Player:
        """The player's session has another name from now on."""
        renewed = replace(player, token=token)
        self.subject.players[self.subject.players.index(player)] = renewed
        return renewed

    def balance(self, player: Player) -> int:
        """What a player has, in minor units."""
        return self._know(player.name)

    def fail(self, expected: str, got: str) -> Failed:
        """What to raise where something else than a code or a balance is wrong."""
        return Failed(self._step, expected, got)

    def doing(self, what: str) -> None:
        """Say what the next step is, where it is none of those above."""
        self._doing = what

    # --------------------------------------------------------------------------------------- the wire

    def ask(self, call: Call, *, edit: Callable[[bytes], bytes] = bytes) -> tuple[Reply, Exchange]:
        """Send a call; the answer is held to the time limit and to the connection, and to nothing else."""
        exchange = self.send(self.prepare(call, edit=edit))
        return self._reply(call, exchange), exchange

    def prepare(
        self, call: Call, *, edit: Callable[[bytes], bytes] = bytes, timestamp: int | None = None
    ) -> HttpRequest:
        """The signed request of a call, its body changed before."""
        request = self.adapter.request(call)
        return self._transport.prepare(replace(request, body=edit(request.body)), timestamp=timestamp)

    def send(self, request: HttpRequest, transport: Transport | None = None) -> Exchange:
        """Send what was prepared."""
        self.steps += 1
        try:
            exchange = (transport or self._transport).send(request)
        except httpx2.TimeoutException:
            self._address = None
            raise self.fail("an answer", f"none in {self.subject.timeouts.answer_ms:,} ms") from None
        except httpx2.HTTPError as error:
            self._address = None
            raise self.fail("an answer", str(error) or type(error).__name__) from None
        if exchange.seconds * 1000 > self.subject.limit_ms:
            limit = f"an answer in {self.subject.limit_ms} ms"
            raise self.fail(limit, f"one in {exchange.seconds * 1000:,.0f} ms")
        if transport is None:
            closed = exchange.answer.headers.get("connection", "").lower() == "close"
            if closed or (self._address is not None and self._address != exchange.address):
                raise self.fail("a connection that stays open", "one that was closed")
            self._address = exchange.address
        return exchange

    def check_code(self, call: Call, reply: Reply, exchange: Exchange, expect: Codes) -> None:
        """Hold an answer to one of these codes of ours, and to what goes with it."""
        wanted = (expect,) if isinstance(expect, str) else expect
        allowed = sorted({name for code in wanted for name in self.adapter.codes(code, call)})
        if reply.code not in allowed:
            raise self.fail(" or ".join(allowed), reply.code)
        if self.adapter.name != "sabot":
            return
        status = CODES[reply.code].status if reply.code in CODES else 200
        if exchange.answer.status != status:
            raise self.fail(f"{reply.code} with status {status}", f"status {exchange.answer.status}")
        outcome = reply.outcome
        if wanted == ("OK_REPLAY",) and isinstance(outcome, Done) and not outcome.replayed:
            raise self.fail("Idempotent-Replayed: true", "no such header")

    def _reply(self, call: Call, exchange: Exchange) -> Reply:
        try:
            return self.adapter.reply(call, exchange.answer)
        except Unreadable as error:
            raise self.fail("an answer of the protocol", str(error)) from None

    def _exchange_alone(self, call: Call) -> Exchange:
        transport = self.subject.transport()
        try:
            return self.send(transport.prepare(self.adapter.request(call)), transport)
        finally:
            transport.close()

    def _check_balance(self, account: str, reply: Reply) -> None:
        player = self._player(account)
        units = reply.outcome.balance if isinstance(reply.outcome, Done) else None
        expected = self._expected[account]
        if units != expected:
            got = "no balance" if units is None else self._money(units, player.currency)
            raise self.fail(self._money(expected, player.currency), got)

    def _know(self, account: str) -> int:
        """A player's balance must be known before the first step that could move it."""
        if account not in self._expected and self._is_known(account):
            self._expected[account] = self._ask_balance(self._player(account))
        return self._expected.get(account, 0)

    def _ask_balance(self, player: Player) -> int:
        call = AskBalance(player.name, player.currency, player.token)
        reply, exchange = self.ask(call)
        self.check_code(call, reply, exchange, "OK")
        if not isinstance(reply.outcome, Done) or reply.outcome.balance is None:
            raise self.fail("a balance", reply.code)
        return reply.outcome.balance

    def _is_known(self, account: str) -> bool:
        return any(each.name == account for each in self.subject.players)

    def _player(self, account: str) -> Player:
        return next(each for each in self.subject.players if each.name == account)

    def _money(self, units: int, currency: str) -> str:
        return f"{format_amount(units, currency)} {currency}"

    @property
    def _step(self) -> str:
        return f"step {self.steps}, {self._doing}"


def is_rich(player: Player, units: int) -> bool:
    """Whether a player has what the scenarios need."""
    scale: int = 10 ** exponent_of(player.currency)
    return units >= UNITS_NEEDED * scale


def problem_of(code: str) -> Mapping[str, Any]:
    """What a problem document of that code says beside its words."""
    return problem_body(code, "", "")


def _main(subject: Subject) -> str:
    """The currency that two players share."""
    return subject.players[0].currency


def _accounts(call: Call) -> tuple[str, ...]:
    return () if not isinstance(call, Movement) else (call.account,)


def _shift(call: Debit | Credit | Rollback) -> int:
    if isinstance(call, Debit):
        return -call.amount
    return call.amount or 0


def _named(call: Call) -> str:
    if isinstance(call, Debit | Credit | Rollback):
        amount = "" if call.amount is None else f" {format_amount(call.amount, call.currency)}"
        kind = "" if isinstance(call, Rollback) or call.kind in ("bet", "win") else f" ({call.kind})"
        return f"{type(call).__name__.lower()}{amount}{kind}"
    return "status" if isinstance(call, AskStatus) else type(call).__name__.lower()
