"""An operator's wallet, called over HTTP. What is not known is said to be unknown, and never guessed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final, Protocol
from urllib.parse import urlsplit

import httpx2

from schemas.refusal import Refusal
from services.runtime.ports import Clock, Rng
from services.runtime.signing import Key
from services.seamless.adapter import Adapter, HttpAnswer, HttpRequest, NotSpoken, Reply, Unreadable
from services.seamless.calls import (
    AskBalance,
    AskStatus,
    Call,
    Credit,
    Debit,
    Movement,
    Outcome,
    Ping,
    Play,
    Refused,
    Rollback,
    Status,
    TellRound,
    Unknown,
)

ANSWER_BYTES_MAX: Final = 1024 * 1024
_NONCE_BYTES: Final = 16
_NEVER_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class OperatorWallet(Protocol):
    """A wallet in which somebody else has the balances. Methods do not raise: an outcome says it all."""

    def debit(self, call: Debit) -> Outcome:
        """Take money of a player."""

    def credit(self, call: Credit) -> Outcome:
        """Give money to a player."""

    def rollback(self, call: Rollback) -> Outcome:
        """Give a debit back, or make sure that it never comes to count."""

    def play(self, account: str, actions: Sequence[Movement]) -> Outcome | tuple[Outcome, ...]:
        """Several movements of one player. All are done (an outcome each), or none is (one outcome)."""

    def round(self, call: TellRound) -> Outcome:
        """Say how far a coup is. For their records; nothing depends on it here."""

    def status(self, account: str, tx: str) -> Status | Refused | Unknown:
        """What became of a transaction. ``Refused`` with ``NOT_SPOKEN`` where the protocol has no look-up."""

    def balance(self, account: str, currency: str, token: str | None = None) -> Outcome:
        """What a player has."""

    def ping(self) -> Outcome:
        """Whether somebody answers."""

    def close(self) -> None:
        """Close the connections."""


class UrlError(ValueError):
    """A URL that is none of a wallet."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Milliseconds until a connection, and then the whole answer, is given up."""

    connect_ms: int = 1_000
    answer_ms: int = 3_000


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer, with what ``certify`` looks at beside."""

    answer: HttpAnswer
    seconds: float
    address: object
    """Our end of the connection: another one means that it was not kept alive."""


class Transport:
    """Sends signed requests to one base URL, over connections that stay open. Thread-safe."""

    def __init__(
        self, url: str, key: Key, adapter: Adapter, *, clock: Clock, rng: Rng, timeouts: Timeouts = Timeouts()
    ) -> None:
        """``url`` such as ``https://wallet.example/sabot``.

        Raises:
            UrlError: it is no such URL.
        """
        self._base, self._prefix = _parts_of(url)
        self.adapter = adapter
        self._key, self._clock, self._rng, self._timeouts = key, clock, rng, timeouts
        seconds = timeouts.answer_ms / 1000
        self._client = httpx2.Client(
            timeout=httpx2.Timeout(seconds, connect=timeouts.connect_ms / 1000),
            limits=httpx2.Limits(max_connections=64, max_keepalive_connections=64, keepalive_expiry=60),
            # What an environment says of proxies is for people's browsers.
            trust_env=False,
        )

    def prepare(self, request: HttpRequest, *, timestamp: int | None = None) -> HttpRequest:
        """The request as it is sent: below the base URL, and saying who sends it, now."""
        now = int(self._clock.now().timestamp()) if timestamp is None else timestamp
        nonce = self._rng.token(_NONCE_BYTES).hex()
        placed = HttpRequest(
            request.method, self._prefix + request.path, request.query, request.body, request.headers
        )
        return self.adapter.authenticate(placed, self._key, now, nonce)

    def send(self, request: HttpRequest) -> Exchange:
        """Send what was prepared, and read the whole answer.

        Raises:
            httpx2.HTTPError: there is none.
        """
        target = request.path + (f"?{request.query}" if request.query else "")
        began = monotonic()
        until = began + self._timeouts.answer_ms / 1000
        # The URL is made of bytes that are signed: a client that escaped it anew would break the signature.
        url = httpx2.URL(self._base).copy_with(raw_path=target.encode("ascii"))
        outgoing = self._client.build_request(
            request.method, url, content=request.body or None, headers=dict(request.headers)
        )
        answer = self._client.send(outgoing, stream=True)
        try:
            body = bytearray()
            for part in answer.iter_bytes():
                body += part
                if len(body) > ANSWER_BYTES_MAX:
                    raise httpx2.ReadError("the answer is too long")
                if monotonic() > until:
                    # A read that gets a byte now and then never times out by itself.
                    raise httpx2.ReadTimeout("the answer took too long")
            address = _our_end(answer)
        finally:
            answer.close()
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return Exchange(HttpAnswer(answer.status_code, headers, bytes(body)), monotonic() - began, address)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _our_end(answer: httpx2.Response) -> object:
    stream = answer.extensions.get("network_stream")
    try:
        return None if stream is None else stream.get_extra_info("client_addr")
    except OSError:  # the other side has closed it already
        return None


class SeamlessClient:
    """An ``OperatorWallet`` behind an HTTP interface. Thread-safe."""

    def __init__(self, transport: Transport) -> None:
        self._transport, self._adapter = transport, transport.adapter

    @classmethod
    def open(
        cls, url: str, key: Key, adapter: Adapter, *, clock: Clock, rng: Rng, timeouts: Timeouts = Timeouts()
    ) -> SeamlessClient:
        """A client with connections of its own.

        Raises:
            UrlError: ``url`` is none of a wallet.
        """
        return cls(Transport(url, key, adapter, clock=clock, rng=rng, timeouts=timeouts))

    def debit(self, call: Debit) -> Outcome:
        """Take money of a player."""
        return _outcome(self._ask(call))

    def credit(self, call: Credit) -> Outcome:
        """Give money to a player."""
        return _outcome(self._ask(call))

    def rollback(self, call: Rollback) -> Outcome:
        """Give a debit back, or make sure that it never comes to count."""
        return _outcome(self._ask(call))

    def play(self, account: str, actions: Sequence[Movement]) -> Outcome | tuple[Outcome, ...]:
        """Several movements of one player, all or none."""
        reply = self._ask(Play(account, tuple(actions)))
        return reply.results if isinstance(reply, Reply) and reply.results else _outcome(reply)

    def round(self, call: TellRound) -> Outcome:
        """Say how far a coup is."""
        return _outcome(self._ask(call))

    def status(self, account: str, tx: str) -> Status | Refused | Unknown:
        """What became of a transaction."""
        reply = self._ask(AskStatus(account, tx))
        if isinstance(reply, Reply):
            if reply.status is not None:
                return reply.status
            reply = reply.outcome if isinstance(reply.outcome, Refused | Unknown) else Unknown("no status")
        return reply

    def balance(self, account: str, currency: str, token: str | None = None) -> Outcome:
        """What a player has."""
        return _outcome(self._ask(AskBalance(account, currency, token)))

    def ping(self) -> Outcome:
        """Whether somebody answers."""
        return _outcome(self._ask(Ping()))

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def _ask(self, call: Call) -> Reply | Refused | Unknown:
        try:
            request = self._adapter.request(call)
        except NotSpoken as error:
            return Refused("NOT_SPOKEN", str(error))
        except Refusal as error:
            return Refused(error.code, error.words, error.field)
        try:
            exchange = self._transport.send(self._transport.prepare(request))
            return self._adapter.reply(call, exchange.answer)
        except _NEVER_SENT as error:
            return Unknown(_words(error), sent=False)
        except httpx2.HTTPError as error:
            return Unknown(_words(error))
        except Unreadable as error:
            return Unknown(str(error))


def _outcome(reply: Reply | Refused | Unknown) -> Outcome:
    return reply.outcome if isinstance(reply, Reply) else reply


def _words(error: httpx2.HTTPError) -> str:
    if isinstance(error, httpx2.TimeoutException):
        return "the operator's wallet did not answer in time"
    return f"the operator's wallet did not answer: {str(error) or type(error).__name__}"


def _parts_of(url: str) -> tuple[str, str]:
    """Scheme with host and port, and the path before every other."""
    try:
        parts = urlsplit(url)
        sound = (
            parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
        )
    except ValueError:  # a port that is none, half an IPv6 address
        sound = None
    if not sound or parts.query or parts.fragment or parts.username or not url.isascii():
        raise UrlError(f"{url!r} is not where a wallet answers; write https://wallet.example/sabot")
    return f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
