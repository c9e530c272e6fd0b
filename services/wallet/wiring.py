"""How wallet is put together."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Final

from schemas.commands.wallet import WalletCommand
from schemas.events.accounts import LimitKind, LimitPeriod
from services.runtime.installation import Installation
from services.runtime.operator_entries import SeamlessEntry
from services.runtime.operators import Operator, Operators
from services.runtime.ports import Bus, Clock, Ids, Rng
from services.runtime.settings import Settings
from services.runtime.writer import Limits, Writer
from services.seamless.adapters import adapter_named
from services.seamless.client import SeamlessClient, Timeouts
from services.wallet.core.limits import Bound
from services.wallet.core.state import Policy
from services.wallet.service import WalletService


class Policies(Mapping[str, Policy]):
    """What the operators' entries say, as far as decisions depend on it; as they are at each moment."""

    def __init__(self, operators: Operators) -> None:
        self._operators = operators
        self._known: dict[str, tuple[Operator, Policy]] = {}

    def __getitem__(self, name: str) -> Policy:
        operator = self._operators.find(name)
        if operator is None:
            raise KeyError(name)
        known = self._known.get(name)
        if known is None or known[0] is not operator:
            known = self._known[name] = operator, policy_of(operator)
        return known[1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._operators.table.operators)

    def __len__(self) -> int:
        return len(self._operators.table.operators)


def policy_of(operator: Operator) -> Policy:
    """What an operator's entry says, in wallet's words."""
    return Policy(
        currencies=frozenset(operator.currencies) or None,
        seamless=operator.seamless is not None,
        amount_max=_most(operator, "amount_max"),
        deposit_max=_most(operator, "deposit_max"),
        withdrawal_max=_most(operator, "withdrawal_max"),
        stake_max=_most(operator, "stake_max"),
        player_bounds=tuple(_player_bounds(operator)),
        blocks_on_recovery=operator.seamless is not None and operator.seamless.recovery == "block",
    )


def _most(operator: Operator, name: str) -> dict[str, int]:
    """A limit by currency, where there is one."""
    return {
        currency: value
        for currency, limits in operator.limits.items()
        if (value := getattr(limits, name)) is not None
    }


_KINDS: Final[tuple[LimitKind, ...]] = ("deposit", "stake", "loss")
_PERIODS: Final[tuple[LimitPeriod, ...]] = ("day", "week", "month")


def _player_bounds(operator: Operator) -> Iterator[Bound]:
    for kind in _KINDS:
        for period in _PERIODS:
            for currency, value in _most(operator, f"player_{kind}_{period}").items():
                yield Bound(kind, period, currency, value)
    if operator.player_minutes_day is not None:
        yield Bound("time", "day", None, operator.player_minutes_day)


_COMMANDS: Final = 2_000
_PART: Final = 250
"""Commands of a batch after which the database is given what they made."""


def open_wallet(
    installation: Installation,
    bus: Bus,
    settings: Settings,
    *,
    clock: Clock,
    ids: Ids,
    operators: Operators | None = None,
) -> Writer[WalletCommand]:
    """Wallet's writer over its database. Each shard reads game's events for itself."""
    operators = operators or Operators.open(settings)
    engine = installation.open_database("wallet")
    service = WalletService(settings.shard, ids, Policies(operators))
    return Writer(
        service,
        engine,
        bus,
        clock=clock,
        ids=ids,
        calendar=operators,
        group=f"sabot-wallet-{settings.shard}",
        limits=Limits(commands=_COMMANDS),
        part=None if installation.database is None else _PART,
    )


class OperatorWallets:
    """The clients of the operators' own wallets, each opened when it is first needed."""

    def __init__(self, operators: Operators, clock: Clock, rng: Rng) -> None:
        self._operators, self._clock, self._rng = operators, clock, rng
        self._lock = threading.Lock()
        self._clients: dict[str, tuple[SeamlessEntry, SeamlessClient]] = {}

    def of(self, name: str) -> SeamlessClient | None:
        """The wallet of an operator; None where his balances are here."""
        operator = self._operators.find(name)
        if operator is None or operator.seamless is None:
            return None
        entry = operator.seamless
        with self._lock:
            known = self._clients.get(name)
            if known is None or known[0] != entry:
                key = self._operators.table.outgoing(name)
                timeouts = Timeouts(entry.connect_timeout_ms, entry.timeout_ms)
                adapter = adapter_named(entry.dialect)
                client = SeamlessClient.open(
                    entry.url, key, adapter, clock=self._clock, rng=self._rng, timeouts=timeouts
                )
                known = self._clients[name] = entry, client
            return known[1]

    def close(self) -> None:
        """Close all connections."""
        for _, client in self._clients.values():
            client.close()
