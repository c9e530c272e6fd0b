"""What game says: tables, shoes, cards and outcomes. Streams ``game/<operator>.<table>``."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from schemas.cards import Card
from schemas.events.base import (
    CoupPayload,
    EventRef,
    Hand,
    Hash,
    Model,
    Name,
    Outcome,
    Seat,
    ShoePayload,
    Spot,
    TablePayload,
    Tier,
)
from schemas.house import House

Seed = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""32 bytes in hexadecimal."""
CardSource = Literal["virtual", "recorded"]
CardPlace = Annotated[int, Field(ge=1)]


class TableOpened(TablePayload):
    """A table opens. Its money lives in exactly one wallet shard, named here."""

    NAME: ClassVar[str] = "sabot.game.table.opened"

    shard: Name
    seats: Annotated[int, Field(ge=1, le=99)]
    source: CardSource
    """Where the cards come from: a virtual shoe, or a record of cards that were dealt elsewhere."""


class TableClosed(TablePayload):
    """A table closes; nothing may be open on it."""

    NAME: ClassVar[str] = "sabot.game.table.closed"

    reason: str


class HouseSet(TablePayload):
    """From here on the table plays by this house. A coup uses the version in force at its opening."""

    NAME: ClassVar[str] = "sabot.game.house.set"

    house_number: Annotated[int, Field(ge=1)]
    """Counts the houses of this table from 1; a coup names the one that it is played by."""
    house: House


class SeatTaken(TablePayload):
    """Somebody sits down. Game knows no account, only that the seat is taken."""

    NAME: ClassVar[str] = "sabot.game.seat.taken"

    seat: Seat


class SeatLeft(TablePayload):
    """A seat becomes free."""

    NAME: ClassVar[str] = "sabot.game.seat.left"

    seat: Seat


class ShoeCommitted(ShoePayload):
    """The house commits itself to a secret seed before it sees any entropy (scheme ``bacfair/1``)."""

    NAME: ClassVar[str] = "sabot.game.shoe.committed"

    scheme: Literal["bacfair/1"]
    decks: Annotated[int, Field(ge=1, le=12)]
    commitment: Hash


class EntropyTaken(ShoePayload):
    """Entropy that the house could not know when it committed itself."""

    NAME: ClassVar[str] = "sabot.game.entropy.taken"

    kind: Annotated[int, Field(ge=1, le=1)]
    """1: a client's seed, 1 to 64 printable ASCII characters without space."""
    entropy: Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,64}$")]
    nonce: Annotated[int, Field(ge=0)] = 0


class ShoeLoaded(ShoePayload):
    """A shoe is ready to be dealt from."""

    NAME: ClassVar[str] = "sabot.game.shoe.loaded"

    decks: Annotated[int, Field(ge=1, le=12)]
    source: CardSource
    cut_cards_from_end: int | None
    """Cards behind the cut card; none where cards are shuffled every round or were dealt elsewhere."""


class CardBurned(ShoePayload):
    """A card leaves the shoe unplayed. The first is shown, those that it makes follow are not."""

    NAME: ClassVar[str] = "sabot.game.card.burned"

    index: CardPlace
    """Place in the shoe, from 1."""
    card: Card | None
    """Null where the card left face down: the revealed seed says which it was."""


class ShoeEnded(ShoePayload):
    """No further card comes from this shoe; a virtual shoe's seed is revealed."""

    NAME: ClassVar[str] = "sabot.game.shoe.ended"

    reason: Literal["cut_card", "every_round", "table_closed", "replaced"]
    cards_out: Annotated[int, Field(ge=0)]
    """Cards that left the shoe, burned ones included."""
    seed: Seed | None


class CoupOpened(CoupPayload):
    """Betting is open."""

    NAME: ClassVar[str] = "sabot.game.coup.opened"

    house_number: Annotated[int, Field(ge=1)]
    spots: tuple[Spot, ...]
    dealer_seat: Seat | None
    """The seat that deals, where players deal."""
    dealer: Name | None = None
    """The croupier's opaque id, where one is known."""
    video: str | None = None
    """A reference to the recording, where the table sends one."""


class BettingClosed(CoupPayload):
    """No more bets. Game now waits for wallet's seal: no card before it."""

    NAME: ClassVar[str] = "sabot.game.betting.closed"


class CardDealt(CoupPayload):
    """A card leaves the shoe for a hand. It names the seal without which it could not have."""

    NAME: ClassVar[str] = "sabot.game.card.dealt"

    seal: EventRef
    index: CardPlace
    """Place in the shoe, from 1; for a recorded shoe, which has no burn to check, cards seen so far."""
    hand: Hand
    position: Annotated[int, Field(ge=1, le=3)]
    card: Card


class DealtCard(Model):
    """A card of a hand."""

    hand: Hand
    position: Annotated[int, Field(ge=1, le=3)]
    card: Card


class CardsToSqueeze(CoupPayload):
    """Who looks at Player's first two cards: the largest Player bettor, or a croupier (null)."""

    NAME: ClassVar[str] = "sabot.game.cards.to.squeeze"

    seat: Seat | None


class CoupConcluded(CoupPayload):
    """The coup has a result: for each spot of the house the tier that it reached."""

    NAME: ClassVar[str] = "sabot.game.coup.concluded"

    version: Annotated[int, Field(ge=1)]
    """1 for the first result; a correction has the next."""
    outcome: Outcome
    player_total: Annotated[int, Field(ge=0, le=9)]
    banker_total: Annotated[int, Field(ge=0, le=9)]
    natural: bool
    cards: Annotated[int, Field(ge=4, le=6)]
    tiers: dict[Spot, Tier]


class CoupCorrected(CoupPayload):
    """The coup has another result than was announced: it is paid anew, by the house that was in force
    (W22)."""

    NAME: ClassVar[str] = "sabot.game.coup.corrected"

    version: Annotated[int, Field(ge=2)]
    """One more than the result that it replaces."""
    corrects: EventRef
    """The event with the result that it replaces."""
    outcome: Outcome
    player_total: Annotated[int, Field(ge=0, le=9)]
    banker_total: Annotated[int, Field(ge=0, le=9)]
    natural: bool
    hands: tuple[DealtCard, ...]
    """The cards as they lay, in the order in which they were dealt."""
    tiers: dict[Spot, Tier]
    reason: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    initiator: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    approver: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    """Somebody else than the initiator."""


class CoupVoided(CoupPayload):
    """The coup does not count: every stake goes back. Cards that left the shoe stay out.

    A coup that was paid can be void, too: then ``corrects`` is the result that no longer counts, and
    ``version`` is one more than its own.
    """

    NAME: ClassVar[str] = "sabot.game.coup.voided"

    reason: str
    approver: Name | None = None
    corrects: EventRef | None = None
    version: Annotated[int, Field(ge=2)] | None = None
    initiator: str | None = None


class ShoePassed(ShoePayload):
    """The right to deal goes to another seat."""

    NAME: ClassVar[str] = "sabot.game.shoe.passed"

    from_seat: Seat | None
    to_seat: Seat
    reason: Literal["player_win", "first_dealer", "dealer_left", "recorded"]


GAME_EVENTS = (
    TableOpened,
    TableClosed,
    HouseSet,
    SeatTaken,
    SeatLeft,
    ShoeCommitted,
    EntropyTaken,
    ShoeLoaded,
    CardBurned,
    ShoeEnded,
    CoupOpened,
    BettingClosed,
    CardDealt,
    CardsToSqueeze,
    CoupConcluded,
    CoupCorrected,
    CoupVoided,
    ShoePassed,
)
