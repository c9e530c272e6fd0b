"""A room whose services run elsewhere.

Commands go over HTTP, as any operator gives them; what came of them is read in the services' databases. What
is asked of one table, or for one account, is asked in order, and everything else at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack, closing
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Final, Generic, TypeVar, get_args

from sqlalchemy import Connection

from schemas.commands.game import (
    CloseBetting,
    CloseTable,
    CommitShoe,
    EndShoe,
    GameCommand,
    LeaveSeat,
    LoadShoe,
    OpenCoup,
    OpenTable,
    SetHouse,
    TakeSeat,
    VoidCoup,
)
from schemas.commands.wallet import (
    Deposit,
    PlaceBet,
    WalletCommand,
)
from schemas.events.wallet import RefusalCode
from schemas.money import format_amount
from schemas.refusal import Refusal
from services.game.core.state import Table
from services.room import readers
from services.room.calls import Caller, Reply, Sign
from services.room.room import Stalled
from services.runtime.installation import Installation
from services.runtime.ports_system import SystemClock, SystemRng
from services.runtime.settings import Settings
from services.runtime.signing import Key, signed_headers
from services.wallet.core.state import CoupKey

C = TypeVar("C")

_ROUTES: Final[dict[type, str]] = {
    OpenTable: "/v1/tables/open",
    CloseTable: "/v1/tables/close",
    SetHouse: "/v1/houses/set",
    TakeSeat: "/v1/seats/take",
    LeaveSeat: "/v1/seats/leave",
    CommitShoe: "/v1/shoes/commit",
    LoadShoe: "/v1/shoes/load",
    EndShoe: "/v1/shoes/end",
    OpenCoup: "/v1/coups/open",
    CloseBetting: "/v1/coups/close",
    VoidCoup: "/v1/coups/void",
    Deposit: "/v1/deposits",
    PlaceBet: "/v1/bets",
}
_REFUSED_FOR_GOOD: Final = frozenset(get_args(RefusalCode))
"""A bet with such an answer was taken note of; it is refused, and that is its end."""

_FIND_SECONDS: Final = 5.0
"""A service that has just begun to work on its database may not answer yet."""
_STALLED_SECONDS: Final = 30.0
_TURN_SECONDS: Final = 0.005
_SETTLE_SECONDS: Final = 0.02


def _signer(settings: Settings) -> Sign | None:
    """Signs requests with the key of the settings, if there is one.

    Raises:
        OSError: its file cannot be read.
    """
    if settings.key is None:
        return None
    key_id, _, place = settings.key.partition(":")
    key = Key(key_id, Path(place).read_bytes().rstrip(b"\r\n"))
    clock, rng = SystemClock(), SystemRng()

    def sign(method: str, path: str, body: bytes) -> Mapping[str, str]:
        route, _, query = path.partition("?")
        now, nonce = int(clock.now().timestamp()), rng.token(16).hex()
        return signed_headers(key, method, route, query, body, timestamp=now, nonce=nonce)

    return sign


class _Asked(Generic[C]):
    """One service, asked over HTTP."""

    def __init__(self, caller: Caller, outstanding: set[Future[Reply]]) -> None:
        self._caller, self._outstanding = caller, outstanding

    def submit(self, command: C) -> Future[Any]:
        body = _body(command)
        answer = self._caller.post(body.get("account") or body["table"], _ROUTES[type(command)], body)
        self._outstanding.add(answer)
        return answer


class _Wallet(_Asked[WalletCommand]):
    """Wallet: a bet that is refused for good has its answer, and is no failure."""

    def submit(self, command: WalletCommand) -> Future[Any]:
        answer = super().submit(command)
        return _with_refused_bets(answer) if isinstance(command, PlaceBet) else answer


class RemoteRoom:
    """Game and wallet at these URLs, over the databases of ``installation``. A context manager.

    Raises:
        AddressError: a URL is none.
        NoSuchService: nobody answers there.
        DatabaseUnavailable: the databases cannot be reached.
    """

    wallet_reads_at_once = False

    def __init__(self, installation: Installation, settings: Settings, *, game: str, wallet: str) -> None:
        self.settings = settings
        self._outstanding: set[Future[Reply]] = set()
        with ExitStack() as opened:
            self._callers = [
                opened.enter_context(closing(Caller(name, url, sign)))
                for name, url, sign in (("game", game, None), ("wallet", wallet, _signer(settings)))
            ]
            self.game: _Asked[GameCommand] = _Asked(self._callers[0], self._outstanding)
            self.wallet = _Wallet(self._callers[1], self._outstanding)
            for caller in self._callers:
                caller.find(_FIND_SECONDS)
            self.game_reader, self.wallet_reader, self._audit_reader = (
                _reader(opened, installation, service) for service in ("game", "wallet", "audit")
            )
            self._opened = opened.pop_all()
        self._in_play = readers.coups_in_play(self.wallet_reader)
        self._progress = monotonic()

    def __enter__(self) -> RemoteRoom:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def table(self, name: str) -> Table | None:
        return readers.find_table(self.game_reader, self.settings.operator, name)

    def tables(self) -> list[Table]:
        names = readers.table_names(self.game_reader, self.settings.operator)
        return [table for name in names if (table := self.table(name)) is not None]

    def shoes(self, table: str) -> int:
        return readers.count_shoes(self.game_reader, self.settings.operator, table)

    def in_play(self, coup: CoupKey) -> bool:
        return coup in self._in_play

    def is_paid(self, coup: CoupKey) -> bool:
        return coup not in self._in_play and readers.is_paid(self.wallet_reader, coup)

    def cash(self, accounts: Sequence[str], currency: str) -> dict[str, int]:
        return readers.find_cash(self.wallet_reader, self.settings.operator, accounts, currency)

    def turn(self) -> None:
        """Wait a moment for an answer, and look what is in play.

        Raises:
            Stalled: nothing has moved for half a minute.
        """
        if self._outstanding:
            done = wait(self._outstanding, timeout=_TURN_SECONDS, return_when=FIRST_COMPLETED).done
            self._outstanding.difference_update(done)
            if any(each.exception() is None for each in done):
                self._progress = monotonic()
        else:
            sleep(_TURN_SECONDS)
        in_play = readers.coups_in_play(self.wallet_reader)
        if in_play != self._in_play:
            self._in_play, self._progress = in_play, monotonic()
        if monotonic() - self._progress > _STALLED_SECONDS:
            troubles = [caller.trouble for caller in self._callers if caller.trouble is not None]
            words = "; ".join(troubles) or "the services do not go on"
            raise Stalled(f"nothing has moved for {_STALLED_SECONDS:g} seconds: {words}")

    def settle(self) -> None:
        """Wait until every service has read what the others wrote, and all of it is on the bus.

        Raises:
            Stalled: one of them does not come to it.
        """
        game, wallet, audit = self.game_reader, self.wallet_reader, self._audit_reader
        for name, consumer, producer in (
            ("wallet", wallet, game),
            ("game", game, wallet),
            ("audit", audit, game),
            ("audit", audit, wallet),
        ):
            _until(lambda: readers.has_read(consumer, producer), name)  # noqa: B023  # used in this turn
        for name, producer in (("game", game), ("wallet", wallet), ("audit", audit)):
            _until(lambda: readers.has_published(producer), name)  # noqa: B023  # used in this turn

    def result(self, answer: Future[Any]) -> Any:
        """Wait until a command is answered.

        Raises:
            Refusal: the command was refused.
        """
        return answer.result()


def _until(done: Callable[[], bool], name: str) -> None:
    since = monotonic()
    while not done():
        if monotonic() - since > _STALLED_SECONDS:
            raise Stalled(f"{name} has not read all that there is in {_STALLED_SECONDS:g} seconds")
        sleep(_SETTLE_SECONDS)


def _reader(opened: ExitStack, installation: Installation, service: str) -> Connection:
    engine = installation.open_reader(service)
    opened.callback(engine.dispose)
    return opened.enter_context(engine.connect())


def _body(command: Any) -> dict[str, Any]:
    """A command as the service's HTTP interface takes it: amounts are decimal strings there."""
    body: dict[str, Any] = command.model_dump(mode="json", exclude_none=True)
    for name in ("amount", "stake"):
        if name in body:
            body[name] = format_amount(body[name], body["currency"])
    return body


def _with_refused_bets(answer: Future[Reply]) -> Future[Reply]:
    result: Future[Reply] = Future()

    def pass_on(done: Future[Reply]) -> None:
        error = done.exception() if not done.cancelled() else Refusal("TEMPORARY", "", "it was not asked")
        if error is None:
            result.set_result(done.result())
        elif isinstance(error, Refusal) and error.code in _REFUSED_FOR_GOOD:
            result.set_result(Reply({"code": error.code}, replayed=False))
        else:
            result.set_exception(error)

    answer.add_done_callback(pass_on)
    return result
