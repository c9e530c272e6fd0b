"""Wallet's core, plugged into the runtime."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection

from schemas.commands.wallet import (
    AccountCommand,
    Deposit,
    ExpireHolds,
    PlaceBet,
    Refund,
    RepairSettlement,
    RollBack,
    SetLimit,
    WalletCommand,
)
from schemas.envelope import Recorded, UnknownType
from schemas.events.accounts import TombstoneCreated, TransactionRefused
from schemas.events.base import Payload, wallet_stream
from schemas.events.game import (
    BettingClosed,
    CoupConcluded,
    CoupCorrected,
    CoupOpened,
    CoupVoided,
    HouseSet,
    SeatLeft,
    ShoeEnded,
    TableClosed,
    TableOpened,
)
from schemas.events.wallet import BetAccepted, BetRefused, CallAnswered, DebitRequested
from schemas.refusal import Refusal
from services.runtime.inbox import Irregularity
from services.runtime.ports import Ids
from services.wallet import played, store
from services.wallet.core.deciding import decide, is_tombstone_of, transaction_key
from services.wallet.core.evolve import evolve, observe
from services.wallet.core.operations import currency_of, differing_fields, operation_of
from services.wallet.core.settling import coup_key, react
from services.wallet.core.state import Changes, CoupKey, Policy, TransactionKey, WalletState

_PLAYS_MAX: Final = 100_000
"""Beyond so many players memory lets go of what they have played; it is looked up again."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a transaction."""

    operation: str
    code: str
    """``OK``, ``TOMBSTONED``, ``IN_PROGRESS``, or why it was refused for good."""
    field: str
    """What was in the way, if it was refused."""
    event: Payload
    """The event that says it."""
    balance: int
    """Player's cash in the event's currency right after it, in minor units: a replay says the same."""
    replayed: bool
    """Whether it had been answered before, and nothing moved now."""
    current: int
    """Player's cash now."""

    @property
    def bet(self) -> str:
        """The bet's id, where it is about one."""
        bet: str = getattr(self.event, "bet", "")
        return bet


class WalletService:
    """One wallet shard."""

    name = "wallet"
    reads: Collection[type[Payload]] | None = (
        TableOpened,
        HouseSet,
        CoupOpened,
        BettingClosed,
        CoupConcluded,
        CoupCorrected,
        CoupVoided,
        SeatLeft,
        ShoeEnded,
        TableClosed,
    )
    is_waited_for = True
    reactions_are_pure = True
    consumes: tuple[str, ...] = ("game.events",)

    def __init__(self, shard: str, ids: Ids, policies: Mapping[str, Policy] | None = None) -> None:
        """``policies``: what the operators' contracts say, as it is at each moment."""
        self._shard, self._ids, self._policies = shard, ids, policies or {}
        self.state = WalletState(shard, policies=self._policies)
        self._references: dict[tuple[str, str], str] = {}
        self._new_references: dict[tuple[str, str], str] = {}
        self._stored: set[TransactionKey] = set()
        self._limited: frozenset[tuple[str, str]] = frozenset()
        """Whose limits this batch sets: what they play in it counts, too, if they are new."""

    @property
    def shard(self) -> str:
        """The shard's name."""
        return self._shard

    def load(self, db: Connection) -> None:
        self.state = store.load_state(db, self._shard)
        self.state.policies = self._policies

    def begin(self, now: str, day_of: Callable[[str], str]) -> None:
        self.state.now, self.state.day_of = now, day_of

    def prepare(
        self, db: Connection, events: Sequence[Recorded[Any]], commands: Sequence[WalletCommand]
    ) -> None:
        self.state.forget_the_past()
        self._new_references.clear()
        # A question to an operator's wallet gives way to its answer, or to a refusal at the seal.
        self._stored = {
            TransactionKey(call.account, call.tx)
            for call in self.state.items.calls.values()
            if call.kind == "debit"
        }
        if commands:
            self._prepare_commands(db, commands)
        self._prepare_coups(db, events, commands)

    def _prepare_commands(self, db: Connection, commands: Sequence[WalletCommand]) -> None:
        state = self.state
        personal = [each for each in commands if isinstance(each, AccountCommand)]
        self._references = store.find_references(db, [(each.operator, each.account) for each in personal])
        keys: list[TransactionKey] = []
        for each in commands:
            account = ""
            if isinstance(each, AccountCommand):
                known = self._references.get((each.operator, each.account))
                if known is None:
                    continue  # who has no account has used no id
                account = known
                if isinstance(each, RollBack | Refund):
                    keys.append(TransactionKey(account, each.target))
            if (key := transaction_key(each, account)) is not None:
                keys.append(key)
        found = store.find_transactions(db, self._shard, keys)
        self._stored |= found.keys()
        state.transactions.update(found)
        targets = {
            store.number_of(transaction.event.bet): key
            for key, transaction in found.items()
            if key not in state.open_bets and isinstance(transaction.event, BetAccepted)
        }
        if any(isinstance(each, RollBack | Refund) for each in commands):
            state.past_statuses.update(store.find_statuses(db, targets))
        self._prepare_plays(db, personal)

    def _prepare_plays(self, db: Connection, commands: Sequence[AccountCommand]) -> None:
        """Look up what players with limits have played, who were not looked up since the start."""
        state = self.state
        if len(state.plays) > _PLAYS_MAX:
            state.plays.clear()
        self._limited = frozenset(
            (each.operator, each.account) for each in commands if isinstance(each, SetLimit)
        )
        for each in commands:
            if not isinstance(each, PlaceBet | Deposit | SetLimit):
                continue
            account = self._references.get((each.operator, each.account), "")
            if not account or account in state.plays:
                continue
            limited = account in state.items.limits or state.policy(each.operator).player_bounds
            if limited or isinstance(each, SetLimit):
                day = state.day_of(each.operator)
                state.plays[account] = played.find_plays(db, self._shard, account, day)

    def _prepare_coups(
        self, db: Connection, events: Sequence[Recorded[Any]], commands: Sequence[WalletCommand]
    ) -> None:
        state = self.state
        asked = {
            CoupKey(each.operator, each.table, each.shoe, each.coup)
            for each in commands
            if isinstance(each, PlaceBet | RepairSettlement)
        }
        results = (CoupOpened, BettingClosed, CoupConcluded, CoupCorrected, CoupVoided)
        asked |= {coup_key(event.data) for event in events if isinstance(event.data, results)}
        past = sorted(key for key in asked if key not in state.coups)
        if past:
            found = store.find_coups(db, past)
            state.known_coups.update(
                (key, known) for key, known in found.items() if known[0] in ("settled", "returned")
            )
        corrected = {
            key
            for event in events
            if isinstance(event.data, CoupCorrected | CoupVoided)
            and (key := coup_key(event.data)) in state.known_coups
        }
        if corrected:
            state.finished.update(store.find_finished(db, self._shard, sorted(corrected)))
            grants = {
                bet.grant
                for key in corrected
                for bet in state.finished[key].bets.values()
                if bet.grant is not None
            }
            state.found_grants.update(store.find_grants(db, sorted(grants)))

    def react(self, event: Recorded[Any]) -> Sequence[Payload]:
        return react(self.state, event)

    def skipped(self, event: UnknownType) -> None:
        """Nothing: what this program does not know changes nothing here."""

    def irregular(self, what: Irregularity) -> Sequence[Payload]:
        del what  # findings are audit's
        return ()

    def observe(self, event: Recorded[Any]) -> None:
        observe(self.state, event)

    def decide(self, command: WalletCommand) -> Sequence[Payload]:
        return decide(self.state, command, self._account(command))

    def evolve(self, event: Recorded[Any]) -> None:
        evolve(self.state, event)

    def answer(self, command: WalletCommand, events: Sequence[Recorded[Any]]) -> Any:
        """An ``Answer``; of what has no transaction id, whether it changed anything.

        Raises:
            Refusal: ``IDEMPOTENCY_CONFLICT``, naming the fields that differ.
        """
        if isinstance(command, RepairSettlement):
            return "already settled: nobody was paid again"
        account = self._account(command)
        key = transaction_key(command, account)
        if key is None:
            return bool(events)
        known = self.state.transactions[key]
        event = known.event
        replayed = not any(each.data is event for each in events)
        if replayed and not (isinstance(command, PlaceBet) and is_tombstone_of(event, command)):
            differing = differing_fields(event, command)
            if differing:
                names = ", ".join(differing)
                words = f"transaction {key.tx!r} was used before with another {names}; nothing moved"
                raise Refusal("IDEMPOTENCY_CONFLICT", differing[0], words)
        code, field = outcome_of(event)
        current = known.balance
        currency = currency_of(event)
        if replayed and currency:
            current = self.state.ledger.cash(event.operator, getattr(event, "account", ""), currency)
        return Answer(operation_of(event), code, field, event, known.balance, replayed, current)

    def overdue(self, now: str) -> Sequence[WalletCommand]:
        del now  # a hold ends by its operator's gaming day, which ``begin`` told
        today = self.state.day_of
        due = any(
            hold.expires is not None and hold.expires <= today(hold.operator)
            for hold in self.state.items.holds.values()
        )
        return [ExpireHolds()] if due else ()

    def stream_of(self, payload: Payload) -> str:
        del payload
        return wallet_stream(self._shard)

    def save(self, db: Connection) -> None:
        state = self.state
        # A command that came to nothing leaves no account behind.
        opened = {key: account for key, account in self._new_references.items() if account in state.accounts}
        store.save_references(db, opened)
        store.save_changes(db, state.ledger, state.changes, self._stored)
        self._stored |= state.changes.transactions.keys()
        self._new_references.clear()
        state.changes = Changes()
        state.ledger.touched.clear()

    def _account(self, command: WalletCommand) -> str:
        """The opaque id behind the operator's reference; a new reference gets a new one."""
        if not isinstance(command, AccountCommand):
            return ""
        key = (command.operator, command.account)
        account = self._references.get(key)
        if account is None:
            account = self._references[key] = self._new_references[key] = self._ids.account()
            if key in self._limited or self.state.policy(command.operator).player_bounds:
                self.state.plays[account] = {}  # who is new has played nothing
        return account


def outcome_of(event: Payload) -> tuple[str, str]:
    """The code of a transaction that ended with this event, and what was in the way if it was refused."""
    match event:
        case BetRefused() | TransactionRefused():
            return event.code, event.field
        case TombstoneCreated():
            return "TOMBSTONED", ""
        case DebitRequested():
            return "IN_PROGRESS", ""
        case CallAnswered():
            return event.status.upper(), ""
        case _:
            return "OK", ""
