"""Another result, or none: audit works out what game says of a coup that had one already."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.commands.game import CorrectCoup, GameCommand, VoidCoup
from schemas.envelope import Recorded
from schemas.events.audit import CoupVerified, DiscrepancyFound
from schemas.events.base import EventRef, Payload
from schemas.events.game import CardDealt, CoupConcluded, CoupCorrected, CoupOpened, CoupVoided, DealtCard
from schemas.refusal import Refusal
from services.audit.core.tableau import expected_play
from services.audit.core.verifier import Verifier
from services.game.core.tableau import play
from tests.audit.builder import HOUSES, OPERATOR, WORTH, Story, reference, tiers_of
from tests.audit.stories import BETS, change, findings, said
from tests.audit.test_interleaving import interleaved
from tests.rules.room import AT, Room

ALTERNATING = ("player", "banker", "player", "banker", "player", "banker")
BANKER = "8S 9D KC KH"  # Player 8, Banker 9
TIE = "9S 9D KC KH"
PLAYER = "9S 7D KC KH"
SIX = "AS 2H 3D KC 4S 5H"
TURNED = HOUSES["nl"].model_copy(
    update={"deal": HOUSES["nl"].deal.model_copy(update={"order": HOUSES["lt"].deal.order})}
)
"""The first two cards are Banker's."""


def in_force(story: Story, number: int = 1) -> Recorded[Any]:
    """The last event that said what the coup came to."""
    kinds = (CoupConcluded, CoupCorrected, CoupVoided)
    return [each for each in story.events if isinstance(each.data, kinds) and each.data.coup == number][-1]


def correct(
    story: Story, cards: str, *, number: int = 1, hands: tuple[str, ...] = ALTERNATING, **other: Any
) -> Recorded[Any]:
    """The coup had these cards: counted here by hand."""
    last = in_force(story, number)
    dealt, positions = [], {"player": 0, "banker": 0}
    for card, hand in zip(cards.split(), hands, strict=False):
        positions[hand] += 1
        dealt.append(DealtCard(hand=hand, position=positions[hand], card=card))  # type: ignore[arg-type]
    total = {hand: sum(WORTH[each.card[0]] for each in dealt if each.hand == hand) % 10 for hand in positions}
    two = [
        sum(WORTH[each.card[0]] for each in dealt if each.hand == hand and each.position < 3) % 10
        for hand in positions
    ]
    outcome = (
        "tie"
        if total["player"] == total["banker"]
        else "player"
        if total["player"] > total["banker"]
        else "banker"
    )
    said: dict[str, Any] = {
        "operator": OPERATOR,
        "table": story.table,
        "shoe": last.data.shoe,
        "coup": number,
        "version": (last.data.version or 1) + 1,
        "corrects": reference(last),
        "outcome": outcome,
        "player_total": total["player"],
        "banker_total": total["banker"],
        "natural": max(two) >= 8,
        "hands": tuple(dealt),
        "tiers": tiers_of(outcome),
        "reason": "a card was misread",
        "initiator": "key:floor-2",
        "approver": "anna",
    }
    return story.say(CoupCorrected, **{**said, **other})


def void(story: Story, number: int = 1, **other: Any) -> Recorded[Any]:
    """The coup that has a result does not count."""
    last = in_force(story, number)
    said: dict[str, Any] = {
        "operator": OPERATOR,
        "table": story.table,
        "shoe": last.data.shoe,
        "coup": number,
        "reason": "the shoe was marked",
        "approver": "anna",
        "corrects": reference(last),
        "version": (last.data.version or 1) + 1,
        "initiator": "key:floor-2",
    }
    return story.say(CoupVoided, **{**said, **other})


def of_game(story: Story, verifier: Verifier | None = None) -> list[DiscrepancyFound]:
    """What is wrong in game's stream. What wallet makes of it is looked at elsewhere."""
    return [each for each in findings(said(story.events, verifier)) if each.stream == story.game]


def told(**options: Any) -> Story:
    return Story(**options).open().coup(BANKER, BETS)


# ---------------------------------------------------------------------------------------- what is right


@pytest.mark.parametrize("cards", [TIE, PLAYER, SIX, "8C 9D KC KH"])
def test_another_result(cards):
    story = told()
    correct(story, cards)
    assert of_game(story) == []


def test_one_after_another_and_a_void_at_the_end():
    story = told()
    correct(story, TIE)
    story.coup(SIX, BETS, number=2)
    correct(story, PLAYER)
    correct(story, SIX, number=2, outcome="player")
    correct(story, BANKER)
    void(story)
    void(story, 2)
    assert of_game(story) == []
    assert [each.data.version for each in story.of(CoupCorrected)] == [2, 3, 2, 4]


def test_a_shoe_that_ended_and_a_table_that_closed_are_no_hindrance():
    story = told()
    story.end("S1", "table_closed").close()
    correct(story, TIE)
    void(story)
    assert of_game(story) == []


def test_the_first_verdict_is_what_it_was():
    story = told()
    correct(story, TIE, outcome="banker", tiers=tiers_of("banker"))
    payloads = said(story.events)
    first = next(each for each in payloads if isinstance(each, CoupVerified))
    assert (first.coup, first.version, first.outcome) == (1, 1, "banker")
    assert "result" in {each.check for each in findings(payloads)}


def test_the_house_is_the_one_of_then():
    story = told()
    for version in (2, 3):
        story.set_house(TURNED.model_copy(update={"version": version}))
    correct(story, TIE)
    assert of_game(story) == []


def test_a_house_that_was_set_later_does_not_count():
    story = told()
    story.set_house(TURNED)
    correct(story, TIE, hands=("banker", "banker", "player", "player"))
    (finding,) = of_game(story)
    assert (finding.check, finding.recorded, finding.expected) == ("deal_order", "banker 1", "player 1")


def test_nothing_else_changes():
    story = Story(decks=1).open().coup(BANKER, BETS)
    correct(story, "8S 9D KC QH")
    story.coup("AS 2H 6D KD 2C", BETS, number=2)
    assert of_game(story) == []
    story.coup("3S 8H 5C KH", BETS, number=3)  # the KH that was misread left the shoe for good
    assert [each.check for each in of_game(story)] == ["decks"]


# ---------------------------------------------------------------------------------------- what is wrong


def other_place(named: EventRef) -> EventRef:
    return named.model_copy(update={"sequence": named.sequence - 1})


def other_hash(named: EventRef) -> EventRef:
    return named.model_copy(update={"hash": "0" * 64})


@pytest.mark.parametrize(
    ("changes", "check", "words"),
    [
        ({"approver": "key:floor-2"}, "four_eyes", "was approved by who asked for it"),
        ({"reason": " "}, "result", "was corrected without a reason"),
        ({"version": 3}, "correction", "version 3 of the result of coup 1 follows version 1"),
        ({"corrects": other_place}, "correction", "in the place of an event that is not the result in force"),
        ({"corrects": other_hash}, "correction", "in the place of an event that is not the result in force"),
        ({"player_total": 8}, "result", "corrected to 8–9, a tie, a natural, with 4 cards"),
        ({"natural": False}, "result", "corrected to 9–9, a tie, with 4 cards"),
        (
            {"outcome": "player", "tiers": tiers_of("player")},
            "result",
            "the cards make it 9–9, a tie, a natural, with 4 cards",
        ),
        ({"tiers": tiers_of("banker")}, "tiers", "after a tie, banker is announced as win, not push"),
        ({"tiers": {**tiers_of("tie"), "pairs": "win"}}, "tiers", "pairs is announced as win, not nothing"),
        ({"coup": 9}, "order", "coup 9 of shoe S1 has another result, and it was never opened"),
        ({"shoe": "S9"}, "order", "coup 1 of shoe S9 has another result, and it was never opened"),
    ],
)
def test_what_a_correction_says_is_worked_out_again(changes, check, words):
    story = told(tamper=change(CoupCorrected, **changes))
    correct(story, TIE)
    found = of_game(story)
    assert {each.check for each in found} == {check}
    assert any(words in each.words for each in found), [each.words for each in found]
    assert all((each.table, each.sequence) == ("T1", story.events[-1].sequence) for each in found)


@pytest.mark.parametrize(
    ("cards", "check", "words"),
    [
        ("9S 9D KC", "tableau", "Banker must get two cards, and only 3 were dealt"),
        ("9S 9D KC KH 2C", "tableau", "both hands stand: the fifth card 2C may not be drawn"),
        ("2S 2H KC KH", "tableau", "Player had 2 and must draw a third card"),
        ("KS 7H KC KH 5D 5C", "tableau", "Banker had 7 and stands: the sixth card 5C may not be drawn"),
    ],
)
def test_the_cards_must_be_a_coup(cards, check, words):
    story = told()
    correct(story, cards)
    assert [(each.check, words in each.words) for each in of_game(story)] == [(check, True)]


def test_a_third_card_goes_to_who_draws_it():
    story = told()
    correct(story, "6S 5H KC KH 2D", hands=("player", "banker", "player", "banker", "player"))
    (finding,) = of_game(story)
    assert (finding.check, finding.recorded, finding.expected) == ("tableau", "player 3", "banker 3")


def test_a_correction_that_is_not_the_next():
    story = told()
    first = reference(in_force(story))
    correct(story, TIE)
    correct(story, PLAYER, corrects=first, version=2)
    assert [each.check for each in of_game(story)] == ["correction", "correction"]


def test_a_void_is_final():
    story = told()
    void(story)
    correct(story, TIE, version=3)
    assert [each.words for each in of_game(story)] == ["coup 1 was corrected after it was void"]
    story = Story().open().coup("", BETS, void="misdeal")
    correct(story, TIE)
    assert [each.words for each in of_game(story)] == ["coup 1 was corrected after it was void"]


def test_a_coup_without_a_result_cannot_have_another_one():
    corrected = correct(told(), TIE).data

    def tamper(payload: Payload) -> Any:
        return [payload, corrected] if isinstance(payload, CoupOpened) else payload

    story = Story(tamper=tamper).open().coup(BANKER, BETS)
    assert [(each.check, each.words) for each in of_game(story)] == [
        ("order", "coup 1 of shoe S1 has another result before it has one")
    ]


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"initiator": None}, "four_eyes"),
        ({"approver": None}, "four_eyes"),
        ({"initiator": "anna"}, "four_eyes"),
        ({"reason": " "}, "result"),
        ({"version": None}, "correction"),
        ({"version": 4}, "correction"),
        ({"corrects": other_hash}, "correction"),
        ({"corrects": None}, "order"),
    ],
)
def test_what_a_void_says_is_looked_at(changes, check):
    story = told(tamper=change(CoupVoided, **changes))
    void(story)
    assert [each.check for each in of_game(story)] == [check]


def test_cards_that_the_decks_do_not_hold():
    story = Story(decks=1).open().coup(BANKER).coup("AS 2H 6D KD 2C", number=2)
    correct(story, "8S 9D KC KH", number=2)
    found = of_game(story)
    assert {each.check for each in found} == {"decks"}
    assert found[0].words == "coup 2 was corrected: 8S would have come out 2 times"
    assert found[0].expected == "at most 1"
    story = Story("de", decks=1).open().coup(BANKER).coup("AS 2H 6D KD 2C", number=2)
    correct(story, BANKER, number=2)
    assert of_game(story) == [], "every round is shuffled"
    correct(story, "8S 9D 8S 9D", number=2)
    assert {each.check for each in of_game(story)} == {"decks"}


def test_a_virtual_shoe_cannot_have_been_misread():
    story = Story(source="virtual").open().load("V1").coup("", BETS, shoe="V1")
    dealt = [each.data for each in story.of(CardDealt)]
    correct(story, " ".join(each.card for each in dealt), hands=tuple(each.hand for each in dealt))
    assert of_game(story) == []
    correct(story, TIE)
    assert [each.check for each in of_game(story)] == ["commitment"]


@given(seed=st.integers(0, 2**32), bias=st.sampled_from([0, 1, 10, 19, 20]))
def test_any_interleaving_finds_the_same(seed, bias):
    story = told()
    correct(story, TIE, version=4)
    story.coup(SIX, BETS, number=2)
    void(story, 2, approver=None)
    correct(story, PLAYER)
    chance = random.Random(seed)
    choices = (int(chance.randrange(20) < bias) for _ in iter(int, 1))
    other = told()
    other.events = interleaved(story, choices)

    def in_words(story: Story) -> list[str]:
        return sorted(each.model_dump_json() for each in of_game(story))

    assert in_words(other) == in_words(story)
    assert len(in_words(story)) == 2


# ------------------------------------------------------------------------------------- two formulations

RANKS = st.lists(st.sampled_from("A23456789TJQK"), min_size=6, max_size=6)


def observed(room: Room) -> list[str]:
    verifier = Verifier()
    payloads = [payload for event in room.events for payload in verifier.observe(event)]
    return [each.words for each in findings(payloads)]


@given(
    first=RANKS, second=RANKS, third=RANKS, house=st.sampled_from([HOUSES["nl"], TURNED]), voids=st.booleans()
)
def test_what_game_says_audit_agrees_with(first, second, third, house, voids):
    room = Room()
    room.open_table(house, "recorded")
    one, two, three = (tuple(each[: play(each, house.deal.order).used]) for each in (first, second, third))
    room.play(1, one)
    people = {"initiator": "A", "approver": "B"}
    for reason, cards in (("a", two), ("b", three)):
        attempt(room, CorrectCoup(**AT, shoe="shoe-1", coup=1, cards=cards, reason=reason, **people))
    if voids:
        attempt(room, VoidCoup(**AT, shoe="shoe-1", coup=1, reason="c", **people))
    assert observed(room) == []
    outcomes = [each.data.outcome for each in room.events if isinstance(each.data, CoupCorrected)]
    assert set(outcomes) <= {expected_play(each, house.deal.order).outcome for each in (two, three)}


def attempt(room: Room, command: GameCommand) -> None:
    """What is in force already is refused, and that is as it should be."""
    try:
        room.do(command)
    except Refusal:
        room.state.forget()
