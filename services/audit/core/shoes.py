"""Shoes: commitment, burn, cut card, deck counts, and the reveal that proves all of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from schemas.envelope import Recorded
from schemas.events.game import CardBurned, EntropyTaken, ShoeCommitted, ShoeEnded, ShoeLoaded
from schemas.house import Burn
from services.audit.core import fair
from services.audit.core.facts import ShoeAccount
from services.audit.core.room import Room
from services.audit.core.state import (
    ENDED_SHOES_REMEMBERED,
    FACE_DOWN,
    RANK_COUNTS,
    RANK_PLACES,
    UNSUITED,
    Coup,
    HouseRules,
    Shoe,
    Table,
)

CARDS_IN_A_DECK: Final = 52

BURN: Final = {
    rank + suit: worth
    for rank, worth in zip("A23456789TJQK", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10), strict=True)
    for suit in ("", "S", "H", "D", "C")
}
"""How many cards a first burned card makes follow: here a ten or a court card is ten."""


class Shoes:
    """Checks what game says of its shoes."""

    def __init__(self, room: Room) -> None:
        self._room = room

    # ---------------------------------------------------------------------------------- what game may say

    def committed(self, event: Recorded[Any], data: ShoeCommitted, table: Table) -> None:
        """A commitment must be the first and only word on its shoe (case 21)."""
        if data.shoe in table.shoes or data.shoe in table.ended_shoes:
            self._say("commitment", event, f"a second commitment was made for shoe {data.shoe}")
            return
        shoe = table.shoes[data.shoe] = Shoe(
            table.stream, data.shoe, decks=data.decks, commitment=data.commitment
        )
        self._check_decks(event, table, data.decks)
        self._room.touch(shoe)

    def entropy(self, event: Recorded[Any], data: EntropyTaken, table: Table) -> None:
        """Entropy comes once, after the commitment and before any card."""
        shoe = table.shoes.get(data.shoe)
        if shoe is None or shoe.commitment is None:
            self._say("commitment", event, f"entropy was taken for shoe {data.shoe} before its commitment")
            return
        if shoe.entropy is not None or shoe.loaded:
            self._say("commitment", event, f"entropy was taken for shoe {data.shoe} a second time")
            return
        if data.nonce:
            words = (
                f"shoe {data.shoe} uses nonce {data.nonce}, and a house may not try one shuffle after another"
            )
            self._say("commitment", event, words, recorded=data.nonce, expected=0)
        shoe.entropy, shoe.nonce = data.entropy, data.nonce
        self._room.touch(shoe)

    def loaded(self, event: Recorded[Any], data: ShoeLoaded, table: Table) -> None:
        """A virtual shoe is loaded once, committed and with entropy; a recorded one when it is first seen."""
        shoe = table.shoes.get(data.shoe)
        if data.source != table.source and table.source:
            words = f"shoe {data.shoe} has {data.source} cards at a table of {table.source} cards"
            self._say("shoe", event, words, recorded=data.source, expected=table.source)
        if data.shoe in table.ended_shoes:
            self._say("shoe", event, f"shoe {data.shoe} was loaded again after it had ended")
        if shoe is None:
            shoe = table.shoes[data.shoe] = Shoe(table.stream, data.shoe, decks=data.decks)
        elif shoe.loaded:
            self._say("shoe", event, f"shoe {data.shoe} was loaded twice")
            return
        if data.source == "virtual" and (shoe.commitment is None or shoe.entropy is None):
            lacking = "a commitment" if shoe.commitment is None else "entropy"
            self._say("commitment", event, f"shoe {data.shoe} was loaded without {lacking}")
        if data.decks != shoe.decks:
            words = f"shoe {data.shoe} was committed with {shoe.decks} decks and loaded with {data.decks}"
            self._say("decks", event, words, recorded=data.decks, expected=shoe.decks)
        self._check_decks(event, table, data.decks)
        rules = table.rules.get(table.house_number)
        cut = rules.house.shoe.cut_cards_from_end if rules is not None and data.source == "virtual" else None
        if rules is not None and data.cut_cards_from_end != cut:
            words = f"the cut card of shoe {data.shoe} is not where the house puts it"
            self._say("cut_card", event, words, recorded=data.cut_cards_from_end, expected=cut)
        shoe.source, shoe.decks, shoe.cut, shoe.loaded = (
            data.source,
            data.decks,
            data.cut_cards_from_end,
            True,
        )
        burns = (
            rules is not None and rules.house.shoe.burn is Burn.FIRST_CARD_VALUE and data.source == "virtual"
        )
        shoe.burn_due = None if burns else 0
        self._room.touch(shoe)

    def burned(self, event: Recorded[Any], data: CardBurned, table: Table) -> None:
        """The first burned card is shown and says how many follow, face down."""
        shoe = self._in_play(event, data.shoe, table)
        if shoe is None:
            return
        if shoe.starts:
            self._say("burn", event, f"a card of shoe {data.shoe} was burned after its first coup")
        self.take_place(event, shoe, data.index)
        if shoe.burned == 0 and shoe.burn_due is None:
            if data.card is None:
                self._say("burn", event, f"the first burned card of shoe {data.shoe} was not shown")
            else:
                shoe.burn_due = 1 + BURN[data.card]
        elif data.card is not None:
            self._say(
                "burn", event, f"burned card {data.index} of shoe {data.shoe} was shown", recorded=data.card
            )
        shoe.burned += 1
        if shoe.burn_due is not None and shoe.burned > shoe.burn_due:
            words = f"shoe {data.shoe} burned {shoe.burned} cards where {shoe.burn_due} were due"
            self._say("burn", event, words, recorded=shoe.burned, expected=shoe.burn_due)
        shoe.note(data.card)
        if data.card is not None:
            self.count(event, shoe, data.card, None)
        self._room.touch(shoe)

    def ended(self, event: Recorded[Any], data: ShoeEnded, table: Table) -> None:
        """An ended shoe tells the truth about its cards, and a virtual one reveals its seed."""
        shoe = table.shoes.get(data.shoe)
        if shoe is None:
            self._say("shoe", event, f"shoe {data.shoe} ended without ever having been in play")
            return
        if table.current is not None and table.current.shoe == data.shoe:
            self._say("shoe", event, f"shoe {data.shoe} ended during coup {table.current.number}")
        if data.cards_out != shoe.out:
            words = f"{shoe.out} cards left shoe {data.shoe}, not {data.cards_out}"
            self._say("shoe", event, words, recorded=data.cards_out, expected=shoe.out)
        if data.reason == "cut_card" and not cut_card_is_out(shoe):
            words = f"shoe {data.shoe} ended for its cut card, which had not come out after {shoe.out} cards"
            self._say("cut_card", event, words, recorded=data.reason)
        verified = self._reveal(event, data, table, shoe) if shoe.commitment is not None else True
        if self._room.listener is not None:
            self._room.listener.shoe(
                ShoeAccount(
                    operator=table.operator,
                    table=table.name,
                    shoe=shoe.name,
                    source=shoe.source,
                    decks=shoe.decks,
                    cards_out=shoe.out,
                    reason=data.reason,
                    commitment=shoe.commitment,
                    entropy=shoe.entropy,
                    seed=data.seed,
                    verified=verified,
                )
            )
        self._room.drop_shoe(table, shoe)
        table.ended_shoes.append(shoe.name)
        del table.ended_shoes[:-ENDED_SHOES_REMEMBERED]
        self._room.touch(table)

    # ------------------------------------------------------------------------------- what a coup asks for

    def ready(self, event: Recorded[Any], coup: Coup, table: Table, rules: HouseRules) -> None:
        """A coup may begin only with a shoe that is loaded, burned, and before its cut card."""
        shoe = self._in_play(event, coup.shoe, table, coup)
        if shoe is None:
            return
        if shoe.was_opened(coup.number):
            words = f"coup {coup.number} of shoe {coup.shoe} was opened before"
            self._room.report("order", event, words, coup=coup)
        shoe.open(coup.number)
        if shoe.source == "virtual":
            if shoe.burned != shoe.burn_due:
                due = "a burn" if shoe.burn_due is None else f"{shoe.burn_due}"
                words = (
                    f"shoe {coup.shoe} began with {shoe.burned} burned cards where the house asks for {due}"
                )
                self._room.report(
                    "burn", event, words, recorded=shoe.burned, expected=shoe.burn_due or "", coup=coup
                )
                shoe.burn_due = shoe.burned
            if cut_card_is_out(shoe):
                words = f"coup {coup.number} was opened after the cut card of shoe {coup.shoe} had come out"
                self._room.report("cut_card", event, words, recorded=f"{shoe.out} cards out", coup=coup)
            if rules.every_round and shoe.out:
                words = (
                    f"shoe {coup.shoe} was not shuffled for coup {coup.number}: {shoe.out} cards had left it"
                )
                self._room.report("shuffle", event, words, recorded=shoe.out, expected=0, coup=coup)
            shoe.starts.append([shoe.out + 1, coup.number])
        elif rules.every_round:
            shoe.counts = bytearray(len(shoe.counts))
        self._room.touch(shoe)

    def deal(self, event: Recorded[Any], shoe: Shoe, index: int, card: str, coup: Coup) -> None:
        """A card must be the next one, and there cannot be more of it than the decks hold."""
        if index == shoe.out + 1:
            shoe.out = index
        else:
            self.take_place(event, shoe, index, coup)
        if shoe.source == "virtual":
            shoe.note(card)
        self.count(event, shoe, card, coup)

    def take_place(self, event: Recorded[Any], shoe: Shoe, index: int, coup: Coup | None = None) -> None:
        """Cards leave a shoe one after another: none is passed over, none comes twice."""
        if index != shoe.out + 1:
            words = f"card {index} of shoe {shoe.name} came after card {shoe.out}"
            self._room.report("index", event, words, recorded=index, expected=shoe.out + 1, coup=coup)
        shoe.out = index

    def count(self, event: Recorded[Any], shoe: Shoe, card: str, coup: Coup | None) -> None:
        """Count a card, and find one that so many decks do not have."""
        counts = shoe.counts
        place = RANK_PLACES[card]
        copies = counts[place] = min(counts[place] + 1, 255)
        if copies > 4 * shoe.decks:
            self._too_many(event, shoe, f"card of rank {card[0]}", copies, coup)
            return
        if len(card) == 2:
            code = fair.CODES[card]
            assert code < RANK_COUNTS
            copies = counts[code] = min(counts[code] + 1, 255)
            if copies > shoe.decks:
                self._too_many(event, shoe, card, copies, coup)

    def too_many(
        self, shoe: Shoe, read: Sequence[str], right: Sequence[str], *, others: bool
    ) -> list[tuple[str, int, int]]:
        """Cards that so many decks do not have, if a coup had these where others were read: which, how many
        there would be, and how many there can be. ``others``: the shoe's other coups count too.

        Nothing is counted anew: what left a shoe is what was recorded when it did.
        """
        counts = list(shoe.counts) if others else [0] * len(shoe.counts)
        for cards, change in ((read if others else (), -1), (right, 1)):
            for card in cards:
                for place in _places(card):
                    counts[place] = max(counts[place] + change, 0)
        found = {}
        for card in right:
            for place in _places(card):
                rank = place >= RANK_COUNTS
                most = 4 * shoe.decks if rank else shoe.decks
                if counts[place] > most:
                    found[place] = (f"card of rank {card[0]}" if rank else card, counts[place], most)
        return list(found.values())

    # ------------------------------------------------------------------------------------------- in private

    def _say(
        self, check: str, event: Recorded[Any], words: str, *, recorded: object = "", expected: object = ""
    ) -> None:
        self._room.report(check, event, words, recorded=recorded, expected=expected)

    def _too_many(self, event: Recorded[Any], shoe: Shoe, what: str, copies: int, coup: Coup | None) -> None:
        decks = f"{shoe.decks} deck{'s' if shoe.decks > 1 else ''}"
        words = f"{what} came out for the {copies}{_suffix(copies)} time, from a shoe of {decks}"
        most = shoe.decks if len(what) == 2 else 4 * shoe.decks
        self._room.report("decks", event, words, recorded=copies, expected=f"at most {most}", coup=coup)

    def _in_play(
        self, event: Recorded[Any], name: str, table: Table, coup: Coup | None = None
    ) -> Shoe | None:
        shoe = table.shoes.get(name)
        if shoe is None or not shoe.loaded:
            why = "had ended" if name in table.ended_shoes else "was not loaded"
            self._room.report("shoe", event, f"shoe {name} is used, but it {why}", coup=coup)
            return None
        return shoe

    def _check_decks(self, event: Recorded[Any], table: Table, decks: int) -> None:
        rules = table.rules.get(table.house_number)
        if rules is not None and decks != rules.house.shoe.decks:
            words = (
                f"a shoe of {decks} decks, where house {rules.house.id} plays with {rules.house.shoe.decks}"
            )
            self._say("decks", event, words, recorded=decks, expected=rules.house.shoe.decks)

    def _reveal(self, event: Recorded[Any], data: ShoeEnded, table: Table, shoe: Shoe) -> bool:
        """Work commitment and cards out again from the revealed seed."""
        if data.seed is None:
            self._say("commitment", event, f"the seed of shoe {shoe.name} was not revealed")
            return False
        seed = bytes.fromhex(data.seed)
        commitment = fair.commitment_of(seed, table.name, shoe.name, shoe.decks)
        if commitment != shoe.commitment:
            words = f"the revealed seed of shoe {shoe.name} is not the one that the house committed itself to"
            self._say("commitment", event, words, recorded=shoe.commitment, expected=commitment)
            return False
        if shoe.entropy is None:
            return True  # never loaded: there is nothing that could have been dealt
        key = fair.key_of(
            seed, table.name, shoe.name, shoe.decks, entropy=shoe.entropy.encode("ascii"), nonce=shoe.nonce
        )
        order = fair.order_of(key, shoe.decks)
        verified = True
        for place, (recorded, due) in enumerate(zip(shoe.codes, order, strict=False), start=1):
            if recorded not in (due, FACE_DOWN):
                verified = False
                self._not_as_shuffled(event, table, shoe, place, recorded=recorded, due=due)
        if len(shoe.codes) > len(order):
            verified = False
            words = f"{len(shoe.codes)} cards left shoe {shoe.name}, which has {len(order)}"
            self._say("commitment", event, words, recorded=len(shoe.codes), expected=len(order))
        return verified

    def _not_as_shuffled(
        self, event: Recorded[Any], table: Table, shoe: Shoe, place: int, *, recorded: int, due: int
    ) -> None:
        name = "a card without suit" if recorded == UNSUITED else fair.CARDS[recorded]
        number = shoe.coup_at(place)
        which = f"card {place} of shoe {shoe.name}" + ("" if number is None else f", dealt in coup {number},")
        self._room.report(
            "commitment",
            event,
            f"{which} was {name}, but the committed shuffle has {fair.CARDS[due]} there",
            recorded=name,
            expected=fair.CARDS[due],
            place=(table.name, shoe.name, number),
        )


def cut_card_is_out(shoe: Shoe) -> bool:
    """Whether a card from behind the cut card has left the shoe: the coup in which that happens is the last.

    With exactly as many cards left as lie behind it, the cut card is only next, and one more coup is dealt.
    """
    return shoe.cut is not None and shoe.out > shoe.decks * CARDS_IN_A_DECK - shoe.cut


def _places(card: str) -> tuple[int, ...]:
    """Where a shoe's counts have a card: its rank, and itself if its suit was recorded."""
    rank = RANK_PLACES[card]
    return (rank, fair.CODES[card]) if len(card) == 2 else (rank,)


def _suffix(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
