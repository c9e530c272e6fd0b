"""What game says a coup came to, the first time and later: worked out again from the cards.

A coup that has a result can have another one, or be void: two people say so, and the event names the one
whose place it takes. All that game ever announced of a coup is kept with it (``Coup.announced``), in order;
the verdict on what was paid for the first result does not change with the second. So what is wrong with a
later result is noted there, and not among the coup's own faults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from schemas.envelope import Recorded
from schemas.events.base import EventRef
from schemas.events.game import CoupConcluded, CoupCorrected, CoupVoided
from services.audit.core.room import Room
from services.audit.core.shoes import Shoes
from services.audit.core.state import ENDED_SHOES_REMEMBERED, Announced, Coup, HouseRules, Ref, Table
from services.audit.core.tableau import Play, TooFewCards, entitled, expected_play, why_nobody_draws

HAND_NAMES = {"player": "Player", "banker": "Banker"}


class InForce(NamedTuple):
    """What counts for a coup at a moment."""

    version: int
    end: Ref
    void: bool


def in_force(coup: Coup) -> InForce:
    """What game said last of a coup that is over."""
    if coup.announced:
        last = coup.announced[-1]
        return InForce(last.version, last.end, not last.outcome)
    assert coup.end is not None, f"coup {coup.key} is not over"
    return InForce(coup.version, coup.end, coup.ended == "voided")


class Results:
    """Checks what game says of results."""

    def __init__(self, room: Room, shoes: Shoes) -> None:
        self._room, self._shoes = room, shoes

    # ------------------------------------------------------------------------------------ the first result

    def concluded(self, event: Recorded[Any], data: CoupConcluded, coup: Coup, rules: HouseRules) -> None:
        """The announced result must be what the cards make."""
        try:
            play = expected_play(coup.cards, rules.order)
        except TooFewCards as lacking:
            words = f"{lacking}, and coup {data.coup} was concluded with {len(coup.cards)} cards"
            self._room.report("tableau", event, words, recorded=f"{len(coup.cards)} cards", coup=coup)
        else:
            coup.due_outcome = play.outcome
            recorded = in_words(data.player_total, data.banker_total, data.outcome, data.natural, data.cards)
            expected = in_words(*_due(play))
            if recorded != expected:
                words = f"coup {data.coup} was announced as {recorded}; its cards make it {expected}"
                self._room.report("result", event, words, recorded=recorded, expected=expected, coup=coup)
        due = {spot: tier for spot, tier in rules.payouts.tiers(data.outcome).items() if spot in coup.spots}
        for told, expected, words in wrong_tiers(data.outcome, data.tiers, due):
            self._room.report("tiers", event, words, recorded=told, expected=expected, coup=coup)

    # ---------------------------------------------------------------------------------------- later results

    def corrected(self, event: Recorded[Any], data: CoupCorrected, table: Table) -> Coup | None:
        """Another result: legal cards, what they make, by the house of then, in the place of the last one."""
        later = _Later(self._room, event)
        if data.initiator == data.approver:
            words = f"the correction of coup {data.coup} was approved by who asked for it"
            later.say("four_eyes", words, recorded=data.approver)
        if not data.reason.strip():
            later.say("result", f"coup {data.coup} was corrected without a reason")
        coup = self._find(data, table, later)
        if coup is None:
            return None
        self._follows(data.version, data.corrects, coup, later, "corrected")
        due_outcome: str = data.outcome
        rules = self._room.rules_of(table, coup.house_number)
        if rules is not None:
            due_outcome = self._worked_out(data, rules, later) or due_outcome
            due = {
                spot: tier
                for spot, tier in rules.payouts.tiers(data.outcome).items()
                if spot in rules.payouts.spots
            }
            for told, expected, words in wrong_tiers(data.outcome, data.tiers, due):
                later.say("tiers", words, recorded=told, expected=expected)
            self._from_the_shoe(data, coup, table, rules, later)
        return self._announce(coup, later.result(data.version, data.outcome, due_outcome))

    def voided(self, event: Recorded[Any], data: CoupVoided, table: Table) -> Coup | None:
        """A coup that has a result does not count: two people say so, and nothing comes after it."""
        later = _Later(self._room, event)
        if data.initiator is None or data.approver is None:
            words = f"coup {data.coup} had a result, and one alone voided it"
            later.say("four_eyes", words, recorded=data.initiator or data.approver or "")
        elif data.initiator == data.approver:
            words = f"the void of coup {data.coup} was approved by who asked for it"
            later.say("four_eyes", words, recorded=data.approver)
        if not data.reason.strip():
            later.say("result", f"coup {data.coup} was voided without a reason")
        coup = self._find(data, table, later)
        if coup is None:
            return None
        assert data.corrects is not None, "a void that corrects nothing ends a coup that is open"
        self._follows(data.version, data.corrects, coup, later, "voided")
        version = in_force(coup).version + 1 if data.version is None else data.version
        return self._announce(coup, later.result(version, "", ""))

    # ------------------------------------------------------------------------------------------- in private

    def _find(self, data: CoupCorrected | CoupVoided, table: Table, later: _Later) -> Coup | None:
        """The coup, if it is over. One that we have let go of for good is not judged."""
        coup = self._room.known_coup((data.operator, data.table, data.shoe, data.coup))
        which = f"coup {data.coup} of shoe {data.shoe}"
        if coup is None or not coup.opened:
            shoe = table.shoes.get(data.shoe)
            ended = table.ended_shoes  # of the last so many only
            over = (
                data.shoe in ended or len(ended) == ENDED_SHOES_REMEMBERED
                if shoe is None
                else shoe.was_opened(data.coup)
            )
            if coup is not None or not over:
                later.say("order", f"{which} has another result, and it was never opened")
            return None
        if not coup.ended:
            later.say("order", f"{which} has another result before it has one")
            return None
        return coup

    def _follows(self, version: int | None, named: EventRef, coup: Coup, later: _Later, what: str) -> None:
        """The result takes the place of the one in force, by its place, its hash and its version."""
        last = in_force(coup)
        if last.void:
            later.say("order", f"coup {coup.number} was {what} after it was void")
        if version != last.version + 1:
            words = f"version {version} of the result of coup {coup.number} follows version {last.version}"
            later.say("correction", words, recorded=version, expected=last.version + 1)
        ref = (named.stream, named.sequence, named.hash)
        if ref != last.end:
            words = f"coup {coup.number} was {what} in the place of an event that is not the result in force"
            later.say("correction", words, recorded=_spelled(ref), expected=_spelled(last.end))

    def _worked_out(self, data: CoupCorrected, rules: HouseRules, later: _Later) -> str | None:
        """The outcome that the corrected cards make; none where they make no coup, which is said."""
        hands: dict[str, list[str]] = {"player": [], "banker": []}
        player, banker = hands["player"], hands["banker"]
        for nth, each in enumerate(data.hands, start=1):
            due = entitled(player, banker, rules.order)
            if due is None:
                words = f"coup {data.coup} was corrected: {why_nobody_draws(player, banker, each.card)}"
                told = f"{each.card} to {each.hand}"
                later.say("tableau", words, recorded=told, expected="no further card")
                return None
            place = (due, len(hands[due]) + 1)
            if (each.hand, each.position) != place:
                words = (
                    f"coup {data.coup} was corrected: its card {nth}, {each.card}, is "
                    f"{HAND_NAMES[due]}'s in place {place[1]}"
                )
                told = f"{each.hand} {each.position}"
                check = "deal_order" if nth <= len(rules.order) else "tableau"
                later.say(check, words, recorded=told, expected=f"{due} {place[1]}")
                return None
            hands[due].append(each.card)
        try:
            play = expected_play([each.card for each in data.hands], rules.order)
        except TooFewCards as lacking:
            words = f"{lacking}, and coup {data.coup} was corrected to {len(data.hands)} cards"
            later.say("tableau", words, recorded=f"{len(data.hands)} cards")
            return None
        told = in_words(data.player_total, data.banker_total, data.outcome, data.natural, len(data.hands))
        expected = in_words(*_due(play))
        if told != expected:
            words = f"coup {data.coup} was corrected to {told}; the cards make it {expected}"
            later.say("result", words, recorded=told, expected=expected)
        return play.outcome

    def _from_the_shoe(
        self, data: CoupCorrected, coup: Coup, table: Table, rules: HouseRules, later: _Later
    ) -> None:
        """A virtual shoe's cards are what they are; of recorded ones there cannot be more than decks hold."""
        cards = [each.card for each in data.hands]
        if table.source == "virtual":
            if cards != coup.cards:
                words = f"coup {data.coup} was corrected to cards that did not come out of its shoe"
                later.say("commitment", words, recorded=" ".join(cards), expected=" ".join(coup.cards))
            return
        shoe = table.shoes.get(data.shoe)
        if shoe is None:
            return
        others = not rules.every_round
        for what, copies, most in self._shoes.too_many(shoe, coup.cards, cards, others=others):
            words = f"coup {data.coup} was corrected: {what} would have come out {copies} times"
            later.say("decks", words, recorded=copies, expected=f"at most {most}")

    def _announce(self, coup: Coup, result: Announced) -> Coup:
        coup.announced.append(result)
        self._room.touch_coup(coup)
        return coup


class _Later:
    """Collects what is wrong with a later result."""

    def __init__(self, room: Room, event: Recorded[Any]) -> None:
        self._room, self._event = room, event
        self.faults: list[str] = []

    def say(self, check: str, words: str, *, recorded: object = "", expected: object = "") -> None:
        self.faults.append(words)
        self._room.report(check, self._event, words, recorded=recorded, expected=expected)

    def result(self, version: int, outcome: str, due: str) -> Announced:
        """The result, with all that was said of it."""
        end = (self._event.stream, self._event.sequence, self._event.hash)
        return Announced(version, end, outcome, due, self.faults)


def in_words(player: int, banker: int, outcome: str, natural: bool, cards: int) -> str:
    """A result, as it is said in a finding."""
    won = "a tie" if outcome == "tie" else f"{HAND_NAMES[outcome]} wins"
    return f"{player}–{banker}, {won}{', a natural' if natural else ''}, with {cards} cards"


def wrong_tiers(outcome: str, told: Mapping[str, str], due: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """What does not follow from an announced outcome: the tier that was told, the one due, and words.

    A wrong outcome is a finding of its own.
    """
    wrong = []
    for spot in sorted(due.keys() | told.keys()):
        recorded, expected = told.get(spot, "nothing"), due.get(spot, "nothing")
        if recorded != expected:
            after = "a tie" if outcome == "tie" else f"{outcome} wins"
            words = f"after {after}, {spot} is announced as {recorded}, not {expected}"
            wrong.append((recorded, expected, words))
    return wrong


def _due(play: Play) -> tuple[int, int, str, bool, int]:
    return play.player_total, play.banker_total, play.outcome, play.natural, play.used


def _spelled(ref: Ref) -> str:
    return f"{ref[0]} {ref[1]} {ref[2]}"
