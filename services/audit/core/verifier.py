"""Audit's verifier: every event of game and wallet in, verdicts and findings out.

``observe`` takes the events of each stream in their order; how streams interleave does not matter. What
wallet says before game's side of it has come waits in the coup. A coup's verdict is said once: verified
if everything agreed, and otherwise a finding for each fault.

The state is a set of pieces (``services.audit.core.state``) which a shell can store and hand back, so that
a restart replays nothing and memory holds only what is unfinished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final

from schemas.envelope import Envelope, Recorded
from schemas.events.base import Payload
from schemas.events.game import (
    BettingClosed,
    CardBurned,
    CardDealt,
    CardsToSqueeze,
    CoupConcluded,
    CoupCorrected,
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
    BetAccepted,
    BetRefused,
    BetRolledBack,
    BetsSealed,
    CallAnswered,
    ConflictDetected,
    CoupReturned,
    CoupSettled,
    DebitRequested,
    SettlementCorrected,
)
from services.audit.core.accounts import Accounts
from services.audit.core.bets import Bets
from services.audit.core.chain import Chain
from services.audit.core.corrections import Corrections
from services.audit.core.dealers import Dealers
from services.audit.core.facts import Listener
from services.audit.core.judgement import Judgement
from services.audit.core.ledger import Ledger
from services.audit.core.room import Change, Room
from services.audit.core.settlements import Settlements
from services.audit.core.shoes import Shoes
from services.audit.core.state import Coup, CoupKey, Table
from services.audit.core.steps import Steps
from services.audit.core.tables import Tables

__all__ = ["Change", "Verifier"]

_FROM_GAME: Final = "game/"
_FROM_WALLET: Final = "wallet/"

_OfTable = Callable[[Recorded[Any], Any, Table], Coup | None]
_OfWallet = Callable[[Recorded[Any], Any], Coup | None]


class Verifier:
    """Audit's judgement, one event at a time.

    ``persistent`` keeps note of what changed, for ``take_changes``. ``gaps_are_known`` is for a reader
    that holds a stream at a gap itself: what is missing here then are events of a type that it skipped.
    ``corrected`` says of a coup whether game will correct its result, so that only such a coup is kept after
    its verdict; without it all are kept (or, where the state is persistent, stored).
    """

    def __init__(
        self,
        listener: Listener | None = None,
        *,
        persistent: bool = False,
        gaps_are_known: bool = False,
        corrected: Callable[[CoupKey], bool] | None = None,
    ) -> None:
        self._room = room = Room(listener, persistent=persistent, corrected=corrected)
        self._chain = Chain(room, gaps_are_known=gaps_are_known)
        self._dealers = Dealers(room)
        self._shoes = Shoes(room)
        self._tables = Tables(room, self._shoes, self._dealers)
        ledger = Ledger(room)
        self._accounts = Accounts(room, ledger)
        self._steps = Steps(room, ledger, self._accounts)
        self._bets = Bets(room, ledger, self._accounts)
        self._settlements = Settlements(room, ledger, self._accounts)
        self._corrections = Corrections(room, ledger, self._accounts)
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
        finished = (each.coup for each in self._room.finished.values() if each.coup.corrections)
        for coup in sorted(finished, key=lambda coup: (coup.stream, coup.opened, coup.number)):
            self._look_for_correction(coup)
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

    def _look_for_correction(self, coup: Coup) -> None:
        for paid in coup.corrections[max(0, len(coup.announced) - coup.judged + 1) :]:
            if paid.done and self._passed(paid.result[0], paid.result[1]):
                words = f"coup {coup.number} is paid anew, and game has not corrected it"
                at = (coup.wallet, paid.at)
                self._room.report_at("result", coup.operator, at, words, place=coup.place)

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
        holdings = self._room.holdings.get(wallet)
        if holdings is None:
            return {}
        return {
            (purse.account, currency): cash
            for purse in holdings.purses.values()
            for currency, cash in purse.cash.items()
        }

    def trial_balance(self, wallet: str) -> dict[tuple[str, str], int]:
        """Net debit of every ledger account of a wallet stream, all operators' together, by (number,
        currency). Sums to zero."""
        holdings = self._room.holdings.get(wallet)
        sums: dict[str, int] = {}
        for name, amount in chain.from_iterable(
            books.totals.items() for books in (holdings.books.values() if holdings else ())
        ):
            sums[name] = sums.get(name, 0) + amount
        return {
            (ledger, currency): amount
            for name, amount in sorted(sums.items())
            for ledger, currency in [name.split(" ")]
        }

    def lacking(self, events: Iterable[Recorded[Any]]) -> list[str]:
        """Keys of finished coups that these events correct, and that are not in memory: ``load`` them first
        (kind ``finished``)."""
        keys = (corrected_by(event.data) for event in events)
        return ["/".join(map(str, key)) for key in keys if key is not None and not self._room.known_coup(key)]

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
            CoupCorrected: self._tables.corrected,
            CoupVoided: self._tables.voided,
        }

    def _wallet_handlers(self) -> dict[type[Payload], _OfWallet]:
        return {
            **self._accounts.handlers(),
            **self._steps.handlers(),
            BetAccepted: self._bets.accepted,
            BetRefused: self._bets.refused,
            BetRolledBack: self._bets.rolled_back,
            DebitRequested: self._bets.debit_requested,
            CallAnswered: self._of_no_concern,
            BetsSealed: self._bets.sealed,
            CoupSettled: self._settlements.settled,
            CoupReturned: self._settlements.returned,
            SettlementCorrected: self._corrections.corrected,
            ConflictDetected: self._conflict,
        }

    def _of_no_concern(self, event: Recorded[Any], data: CallAnswered) -> None:
        """An answer of the operator's wallet moves no money."""

    def _conflict(self, event: Recorded[Any], data: ConflictDetected) -> None:
        """Somebody asked for a payment a second time. Nothing moved, but somebody should know."""
        if data.kind == "repeated_settlement":
            which = f"coup {data.coup} of shoe {data.shoe}"
            words = f"{which} was to be settled a second time; nobody was paid again"
            self._room.report("repeated_settlement", event, words)


def corrected_by(data: Payload) -> CoupKey | None:
    """The coup whose result this event corrects, or pays anew."""
    if isinstance(data, CoupCorrected | SettlementCorrected) or (
        isinstance(data, CoupVoided) and data.corrects is not None
    ):
        return data.operator, data.table, data.shoe, data.coup
    return None
