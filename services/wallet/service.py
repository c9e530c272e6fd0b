"""Wallet's core, plugged into the runtime."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from schemas.commands import Deposit, PlaceBet, RepairSettlement, WalletCommand
from schemas.envelope import Recorded, UnknownType
from schemas.events.base import Payload, wallet_stream
from schemas.events.game import (
    BettingClosed,
    CoupConcluded,
    CoupOpened,
    CoupVoided,
    HouseSet,
    TableOpened,
)
from schemas.refusal import Refusal
from services.runtime.inbox import Irregularity
from services.runtime.ports import Ids
from services.wallet import store
from services.wallet.core import betting
from services.wallet.core.evolve import bet_content, coup_key, deposit_content, evolve, observe
from services.wallet.core.state import Changes, CoupKey, TransactionKey, WalletState


@dataclass(frozen=True, slots=True)
class DepositTaken:
    """Answer to a deposit. ``replayed``: it had been taken before, nothing moved now."""

    account: str
    balance: int
    """Player's cash in this currency right after the deposit, in minor units: a replay says the same."""
    replayed: bool
    current: int
    """Player's cash now."""


@dataclass(frozen=True, slots=True)
class BetAnswer:
    """Answer to a bet. ``code`` is ``OK``, or why it was refused for good."""

    bet: str
    account: str
    code: str
    balance: int
    """Player's cash in this currency right after the bet, in minor units: a replay says the same."""
    replayed: bool
    current: int
    """Player's cash now."""


class WalletService:
    """One wallet shard."""

    name = "wallet"
    reads: Collection[type[Payload]] | None = (
        TableOpened,
        HouseSet,
        CoupOpened,
        BettingClosed,
        CoupConcluded,
        CoupVoided,
    )
    is_waited_for = True
    reactions_are_pure = True
    consumes: tuple[str, ...] = ("game.events",)

    def __init__(self, shard: str, ids: Ids) -> None:
        self._shard, self._ids = shard, ids
        self.state = WalletState(shard)
        self._references: dict[tuple[str, str], str] = {}
        self._new_references: dict[tuple[str, str], str] = {}

    def load(self, db: Connection) -> None:
        self.state = store.load_state(db, self._shard)

    def prepare(
        self, db: Connection, events: Sequence[Recorded[Any]], commands: Sequence[WalletCommand]
    ) -> None:
        state = self.state
        state.known_coups.clear()
        state.transactions.clear()
        self._new_references.clear()
        personal = [command for command in commands if isinstance(command, Deposit | PlaceBet)]
        self._references = store.find_references(db, [(each.operator, each.account) for each in personal])
        keys = [
            TransactionKey(account, each.tx)
            for each in personal
            if (account := self._references.get((each.operator, each.account))) is not None
        ]
        state.transactions.update(store.find_transactions(db, keys))
        asked = {
            CoupKey(each.operator, each.table, each.shoe, each.coup)
            for each in commands
            if isinstance(each, PlaceBet | RepairSettlement)
        }
        asked |= {
            coup_key(event.data)
            for event in events
            if isinstance(event.data, CoupOpened | BettingClosed | CoupConcluded | CoupVoided)
        }
        if past := [key for key in asked if key not in state.coups]:
            found = store.find_coups(db, sorted(past))
            state.known_coups.update(
                (key, known) for key, known in found.items() if known[0] in ("settled", "returned")
            )

    def react(self, event: Recorded[Any]) -> Sequence[Payload]:
        return betting.react(self.state, event)

    def skipped(self, event: UnknownType) -> None:
        """Nothing: what this program does not know changes nothing here."""

    def irregular(self, what: Irregularity) -> Sequence[Payload]:
        del what  # findings are audit's
        return ()

    def observe(self, event: Recorded[Any]) -> None:
        observe(self.state, event)

    def decide(self, command: WalletCommand) -> Sequence[Payload]:
        match command:
            case Deposit():
                return betting.decide_deposit(self.state, command, self._account(command))
            case PlaceBet():
                return betting.decide_bet(self.state, command, self._account(command))
            case RepairSettlement():
                return betting.decide_repair(self.state, command)

    def evolve(self, event: Recorded[Any]) -> None:
        evolve(self.state, event)

    def answer(self, command: WalletCommand, events: Sequence[Recorded[Any]]) -> Any:
        if isinstance(command, RepairSettlement):
            return "already settled: nobody was paid again"
        account = self._account(command)
        known = self.state.transactions[TransactionKey(account, command.tx)]
        if isinstance(command, Deposit):
            content = deposit_content(command.currency, command.amount)
        else:
            key = CoupKey(command.operator, command.table, command.shoe, command.coup)
            content = bet_content(
                key, seat=command.seat, spot=command.spot, currency=command.currency, stake=command.stake
            )
        if differing := betting.conflicting_fields(known.content, content):
            names = ", ".join(differing)
            words = f"transaction {command.tx!r} was used before with another {names}; nothing moved"
            raise Refusal("IDEMPOTENCY_CONFLICT", differing[0], words)
        current = self.state.ledger.cash(account, command.currency)
        if isinstance(command, Deposit):
            return DepositTaken(account, known.balance, not events, current)
        return BetAnswer(known.bet or "", account, known.code, known.balance, not events, current)

    def overdue(self, now: str) -> Sequence[WalletCommand]:
        del now  # time limits are game's: wallet obeys its events
        return ()

    def stream_of(self, payload: Payload) -> str:
        del payload
        return wallet_stream(self._shard)

    def save(self, db: Connection) -> None:
        # A command that came to nothing leaves no account behind.
        opened = {
            key: account for key, account in self._new_references.items() if account in self.state.accounts
        }
        store.save_references(db, opened)
        store.save_changes(db, self.state.ledger, self.state.changes)
        self.state.changes = Changes()
        self.state.ledger.touched.clear()

    def _account(self, command: Deposit | PlaceBet) -> str:
        """The opaque id behind the operator's reference; a new reference gets a new one."""
        key = (command.operator, command.account)
        account = self._references.get(key)
        if account is None:
            account = self._references[key] = self._new_references[key] = self._ids.account()
        return account
