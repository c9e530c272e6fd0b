"""Audit's verifier: every event of game and wallet in, verdicts and findings out.

``observe`` takes the events of each stream in their order; how streams interleave does not matter. What
wallet says before game's side of it has come waits in the coup. A coup's verdict is said once: verified
if everything agreed, and otherwise a finding for each fault.

The state is a set of pieces (``services.audit.core.state``) which a shell can store and hand back, so that
a restart replays nothing and memory holds only what is unfinished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from schemas.envelope import Envelope, Recorded
from schemas.events.base import Payload
from schemas.events.game import (
    BettingClosed,
    CardBurned,
    CardDealt,
    CardsToSqueeze,
    CoupConcluded,
    CoupOpened,
    CoupVoided,
    EntropyTaken,
    HouseSet,
    SeatLeft,
    SeatTaken,
    ShoeCommitted,
    ShoeEnded,
    ShoeLoaded,
    ShoePassed,
    TableClosed,
    TableOpened,
)
from schemas.events.wallet import (
    AccountOpened,
    BetAccepted,
    BetRefused,
    BetsSealed,
    ConflictDetected,
    CoupReturned,
    CoupSettled,
    Deposited,
)
from services.audit.core.chain import Chain
from services.audit.core.dealers import Dealers
from services.audit.core.facts import Listener
from services.audit.core.judgement import Judgement
from services.audit.core.ledger import Ledger
from services.audit.core.room import Change, Room
from services.audit.core.shoes import Shoes
from services.audit.core.state import Coup, Table
from services.audit.core.tables import Tables
from services.audit.core.wallets import Wallets

__all__ = ["Change", "Verifier"]

_FROM_GAME: Final = "game/"
_FROM_WALLET: Final = "wallet/"

_OfTable = Callable[[Recorded[Any], Any, Table], Coup | None]
_OfWallet = Callable[[Recorded[Any], Any], Coup | None]


class Verifier:
    """Audit's judgement, one event at a time.

    ``persistent`` keeps note of what changed, for ``take_changes``. ``gaps_are_known`` is for a reader
    that holds a stream at a gap itself: what is missing here then are events of a type that it skipped.
    """

    def __init__(
        self, listener: Listener | None = None, *, persistent: bool = False, gaps_are_known: bool = False
    ) -> None:
        self._room = room = Room(listener, persistent=persistent)
        self._chain = Chain(room, gaps_are_known=gaps_are_known)
        self._dealers = Dealers(room)
        self._shoes = Shoes(room)
        self._tables = Tables(room, self._shoes, self._dealers)
        self._wallets = Wallets(room, Ledger(room))
        self._judgement = Judgement(room, self._dealers)
        self._of_table = self._game_handlers()
        self._of_wallet = self._wallet_handlers()

    # ---------------------------------------------------------------------------------------------- events

    def observe(self, event: Recorded[Any]) -> list[Payload]:
        """The next event of its stream: verdicts (``CoupVerified``) and findings (``DiscrepancyFound``)."""
        said = self._room.said
        said.clear()
        if self._chain.follow(event.envelope, event.hash):
            stream = event.envelope.stream
            if stream.startswith(_FROM_WALLET):
                self._observe_wallet(event)
            elif stream.startswith(_FROM_GAME):
                self._observe_game(event)
        return list(said) if said else []

    def observe_unknown(self, envelope: Envelope[Any], hash_: str) -> list[Payload]:
        """An event of a type that this program does not know: it keeps its place and is skipped."""
        self._room.said.clear()
        self._chain.follow(envelope, hash_)
        return list(self._room.said)

    def _observe_game(self, event: Recorded[Any]) -> None:
        data = event.data
        handler = self._of_table.get(type(data))
        if handler is None:
            self._misplaced(event)
            return
        table = self._room.tables.get(event.envelope.stream)
        if table is None or table.name != data.table or table.operator != data.operator:
            table = self._tables.find(event)
        coup = handler(event, data, table)
        if coup is not None:
            self._judgement.judge(coup)

    def _observe_wallet(self, event: Recorded[Any]) -> None:
        data = event.data
        handler = self._of_wallet.get(type(data))
        if handler is None:
            self._misplaced(event)
            return
        coup = handler(event, data)
        if coup is not None:
            self._judgement.judge(coup)

    def _misplaced(self, event: Recorded[Any]) -> None:
        words = f"{event.envelope.type} has no place in {event.stream}"
        self._room.report("stream", event, words, recorded=event.envelope.type)

    # ------------------------------------------------------------------------------------------- at the end

    def finish(self) -> list[Payload]:
        """Findings that only the end of all streams can show; the listener gets the open coups.

        A coup in flight is no fault. But a bet on a coup that game never opened, a card that names a seal
        which wallet's stream has passed, and a settlement that obeys an event which is not there, are.
        """
        self._room.said.clear()
        for coup in sorted(
            self._room.coups.values(), key=lambda coup: (coup.stream, coup.opened, coup.number)
        ):
            self._look_once_more(coup)
            self._judgement.account_for_open(coup)
        return list(self._room.said)

    def _look_once_more(self, coup: Coup) -> None:
        if not coup.opened and (coup.bets or coup.seal or coup.settled_as):
            first = min((bet.sequence for bet in coup.bets.values()), default=0)
            at = first or (coup.seal or coup.settled_result or ("", 0, ""))[1]
            words = f"wallet speaks of coup {coup.number} of shoe {coup.shoe}, which game never opened"
            self._report(coup, "coup", (coup.wallet, at), words)
        named, seen = coup.seal_named, coup.seal
        if named is not None and seen is None and self._passed(named[0], named[1]):
            words = f"the cards of coup {coup.number} name a seal that wallet never made"
            self._report(coup, "seal", (coup.stream, coup.first_card), words)
        obeyed = coup.settled_result
        paid = coup.settlement
        if obeyed is not None and paid is not None and not coup.ended and self._passed(obeyed[0], obeyed[1]):
            words = f"coup {coup.number} was {coup.settled_as}, and game has not ended it"
            self._report(coup, "result", paid[:2], words)

    def _passed(self, stream: str, sequence: int) -> bool:
        followed = self._room.streams.get(stream)
        return followed is not None and followed.sequence >= sequence

    def _report(self, coup: Coup, check: str, at: tuple[str, int], words: str) -> None:
        self._room.report_at(check, coup.operator, at, words, place=coup.place, coup=coup)

    # -------------------------------------------------------------------------------------------- questions

    @property
    def open_coups(self) -> int:
        """Coups that have no verdict yet."""
        return len(self._room.coups)

    def unrevealed(self) -> Iterator[tuple[str, str]]:
        """Table stream and name of every committed shoe whose seed has not been revealed (case 21)."""
        for table in self._room.tables.values():
            for shoe in table.shoes.values():
                if shoe.commitment is not None:
                    yield table.stream, shoe.name

    def heads(self) -> dict[str, tuple[int, str]]:
        """The last event seen of every stream: sequence and hash."""
        return {name: (stream.sequence, stream.hash) for name, stream in self._room.streams.items()}

    def balances(self, wallet: str) -> dict[tuple[str, str], int]:
        """Cash of every account of a wallet stream by (account, currency), as the entries have it."""
        books = self._room.books.get(wallet)
        if books is None:
            return {}
        return {
            (purse.account, currency): cash
            for purse in books.purses.values()
            for currency, cash in purse.cash.items()
        }

    def trial_balance(self, wallet: str) -> dict[tuple[str, str], int]:
        """Net debit of every ledger account of a wallet stream, by (number, currency). Sums to zero."""
        books = self._room.books.get(wallet)
        if books is None:
            return {}
        return {
            (ledger, currency): amount
            for name, amount in sorted(books.totals.items())
            for ledger, currency in [name.split(" ")]
        }

    # ------------------------------------------------------------------------------------------ persistence

    def take_changes(self) -> list[Change]:
        """Rows that must be written, or deleted (first), to keep the state over a restart."""
        return self._room.take_changes()

    def load(self, rows: Iterable[tuple[str, str, str]]) -> None:
        """Take up the state from rows of (kind, key, content), in any order."""
        self._room.load(rows)

    # --------------------------------------------------------------------------------------------- dispatch

    def _game_handlers(self) -> dict[type[Payload], _OfTable]:
        return {
            TableOpened: self._tables.opened,
            TableClosed: self._tables.closed,
            HouseSet: self._tables.house,
            SeatTaken: self._dealers.seat_taken,
            SeatLeft: self._dealers.seat_left,
            ShoePassed: self._dealers.passed,
            ShoeCommitted: self._shoes.committed,
            EntropyTaken: self._shoes.entropy,
            ShoeLoaded: self._shoes.loaded,
            CardBurned: self._shoes.burned,
            ShoeEnded: self._shoes.ended,
            CoupOpened: self._tables.coup_opened,
            BettingClosed: self._tables.betting_closed,
            CardDealt: self._tables.card_dealt,
            CardsToSqueeze: self._tables.squeezed,
            CoupConcluded: self._tables.concluded,
            CoupVoided: self._tables.voided,
        }

    def _wallet_handlers(self) -> dict[type[Payload], _OfWallet]:
        return {
            AccountOpened: self._wallets.account_opened,
            Deposited: self._wallets.deposited,
            BetAccepted: self._wallets.bet_accepted,
            BetRefused: self._wallets.bet_refused,
            BetsSealed: self._wallets.sealed,
            CoupSettled: self._wallets.settled,
            CoupReturned: self._wallets.returned,
            ConflictDetected: self._wallets.conflict,
        }
