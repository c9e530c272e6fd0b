"""A coup that has a result had another one, or is void: what counts changes, and what happened does not."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from schemas.commands.game import (
    CloseBetting,
    CloseTable,
    CorrectCoup,
    EndShoe,
    OpenCoup,
    OpenTable,
    SetHouse,
    VoidCoup,
)
from schemas.envelope import Recorded
from schemas.events.base import EventRef
from schemas.events.game import (
    CardDealt,
    CoupConcluded,
    CoupCorrected,
    CoupVoided,
    DealtCard,
    ShoeEnded,
    ShoePassed,
)
from services.game import store
from services.game.api import game_app
from services.game.core.state import CoupKey, Result
from services.game.core.tableau import CardsIllegal, check
from services.game.wiring import open_game
from services.runtime.bus.embedded import EmbeddedBus
from services.runtime.database import migrate, open_sqlite
from services.runtime.installation import Installation
from services.runtime.ports import Record
from services.runtime.ports_system import ManualClock, SeededRng, SystemIds
from services.runtime.process import WriterThread
from services.runtime.settings import Settings
from tests.rules.room import AT, HOUSES, OPERATOR, SHARD, TABLE, Room, of_type
from tests.rules.test_stored_table import StoredRoom
from tests.rules.test_table_life import refused

BANKER = ("8S", "9D", "KC", "KH")  # Player 8, Banker 9
TIE = ("9S", "9D", "KC", "KH")
PLAYER = ("9S", "7D", "KC", "KH")
AT_BIG_TABLE = ("9S", "KS", "8H", "KH")  # there Banker's two come first: 9 against 8
TIE_AT_BIG_TABLE = ("9S", "KS", "9H", "KH")
OF_TWELVE = HOUSES["nl"].model_copy(update={"table": HOUSES["nl"].table.model_copy(update={"seats": (12,)})})
SIX = ("AS", "2H", "3D", "KC", "4S", "5H")
KEY = CoupKey(OPERATOR, TABLE, "shoe-1", 1)


def correct(cards: tuple[str, ...] = TIE, **other: Any) -> CorrectCoup:
    """The first coup was misread."""
    asked: dict[str, Any] = {
        **AT,
        "shoe": "shoe-1",
        "coup": 1,
        "cards": cards,
        "reason": "the 9 was read as an 8",
        "initiator": "key:floor-2",
        "approver": "anna",
    }
    return CorrectCoup(**{**asked, **other})


def void(**other: Any) -> VoidCoup:
    asked: dict[str, Any] = {
        **AT,
        "shoe": "shoe-1",
        "coup": 1,
        "reason": "the shoe was marked",
        "initiator": "key:floor-2",
        "approver": "anna",
    }
    return VoidCoup(**{**asked, **other})


def last(room: Room, kind: type) -> EventRef:
    event: Recorded[Any] = [event for event in room.events if isinstance(event.data, kind)][-1]
    return EventRef(stream=event.stream, sequence=event.sequence, hash=event.hash)


@pytest.fixture
def room() -> Room:
    room = Room()
    room.open_table("nl", "recorded")
    room.play(1, BANKER)
    return room


# --------------------------------------------------------------------------------------- another result


def test_the_result_is_worked_out_from_the_cards(room):
    (corrected,) = room.do(correct())
    assert corrected == CoupCorrected(
        **AT,
        shoe="shoe-1",
        coup=1,
        version=2,
        corrects=last(room, CoupConcluded),
        outcome="tie",
        player_total=9,
        banker_total=9,
        natural=True,
        hands=(
            DealtCard(hand="player", position=1, card="9S"),
            DealtCard(hand="banker", position=1, card="9D"),
            DealtCard(hand="player", position=2, card="KC"),
            DealtCard(hand="banker", position=2, card="KH"),
        ),
        tiers={"player": "push", "banker": "push", "tie": "win"},
        reason="the 9 was read as an 8",
        initiator="key:floor-2",
        approver="anna",
    )
    ended = room.store.coups[KEY]
    assert (ended.status, ended.outcome, ended.in_force.version) == ("concluded", "tie", 2)


def test_third_cards_may_come_to_light(room):
    (corrected,) = room.do(correct(SIX))
    assert [(each.hand, each.position) for each in corrected.hands] == [
        ("player", 1),
        ("banker", 1),
        ("player", 2),
        ("banker", 2),
        ("player", 3),
        ("banker", 3),
    ]
    assert (corrected.player_total, corrected.banker_total, corrected.natural) == (8, 7, False)


def test_a_correction_names_the_one_before_it(room):
    room.do(correct())
    before = last(room, CoupCorrected)
    (again,) = room.do(correct(PLAYER, reason="it was Banker's card"))
    assert (again.version, again.corrects, again.outcome) == (3, before, "player")
    (back,) = room.do(correct(BANKER, reason="both were wrong"))
    assert (back.version, back.outcome) == (4, "banker")
    results = room.store.coups[KEY].results
    assert [(each.version, each.outcome, each.cards) for each in results] == [
        (1, "banker", BANKER),
        (2, "tie", TIE),
        (3, "player", PLAYER),
        (4, "banker", BANKER),
    ]


def test_cards_may_be_corrected_where_the_outcome_stays(room):
    (corrected,) = room.do(correct(("8C", "9D", "KC", "KH")))
    assert (corrected.version, corrected.outcome) == (2, "banker")


def test_the_house_is_the_one_of_then():
    room = Room()
    room.open_table("lt", "recorded")
    room.play(1, AT_BIG_TABLE, dealer_seat=4)
    room.do(SetHouse(**AT, house=OF_TWELVE))
    (corrected,) = room.do(correct(TIE_AT_BIG_TABLE))
    assert [each.hand for each in corrected.hands] == ["banker", "banker", "player", "player"]
    assert (corrected.player_total, corrected.banker_total, corrected.outcome) == (9, 9, "tie")


def test_nothing_else_changes(room):
    room.do(SetHouse(**AT, house=HOUSES["nl"].model_copy(update={"version": 9})))
    room.open(2, SIX)
    before = repr((room.state.tables, room.store.shoes, room.store.cards))
    room.do(correct(SIX))
    assert repr((room.state.tables, room.store.shoes, room.store.cards)) == before
    room.close(2)
    assert of_type(room.seal(2), CardDealt)[0].index == 5, "four cards left the shoe before"
    assert room.open(1, BANKER) == [], "the record of the coup is the one that it was"
    with refused("COUP_KNOWN", "cards"):
        room.open(1, SIX)


def test_who_deals_is_not_changed():
    room = Room()
    room.open_table("lt", "recorded")
    room.play(1, AT_BIG_TABLE, dealer_seat=4)
    (corrected,) = room.do(correct(("8S", "KS", "9H", "KH")))
    assert corrected.outcome == "player"
    assert room.table.dealer == 4
    assert of_type(room.play(2, AT_BIG_TABLE, dealer_seat=4), ShoePassed) == []


def test_a_shoe_that_ended_and_a_table_that_closed_are_no_hindrance(room):
    room.do(EndShoe(**AT, shoe="shoe-1", reason="replaced"))
    assert room.do(correct())[0].version == 2
    room.do(CloseTable(**AT, reason="end of day"))
    assert room.do(correct(PLAYER))[0].version == 3
    assert room.do(void())[0].version == 4


# ------------------------------------------------------------------------------------------------- refusals


def test_the_same_again_changes_nothing(room):
    room.do(correct())
    assert room.do(correct()) == []
    assert room.do(correct(), correct()) == []


def test_what_came_late_does_not_bring_an_old_result_back(room):
    room.do(correct())
    room.do(correct(BANKER, reason="it was an 8 after all"))
    with refused("CORRECTION_SUPERSEDED", "reason"):
        room.do(correct())
    assert room.do(correct(reason="the camera shows a 9"))[0].version == 4


def test_a_correction_to_what_is_in_force(room):
    with refused("NOTHING_TO_CORRECT", "cards"):
        room.do(correct(BANKER))
    room.do(correct())
    for other in (correct(reason="again"), correct(approver="bert"), correct(initiator="carl")):
        with refused("NOTHING_TO_CORRECT", "cards"):
            room.do(other)


def test_nobody_approves_what_he_asks_for(room):
    with refused("FOUR_EYES", "approver"):
        room.do(correct(initiator="anna"))
    with refused("FOUR_EYES", "approver"):
        room.do(void(initiator="anna"))
    assert len(room.store.coups[KEY].results) == 1


def test_there_must_be_a_result(room):
    with refused("COUP_UNKNOWN", "coup"):
        room.do(correct(coup=2))
    with refused("TABLE_UNKNOWN", "table"):
        room.do(correct(table="T9"))
    room.open(2, SIX)
    with refused("COUP_NOT_CONCLUDED", "coup"):
        room.do(correct(coup=2))
    room.close(2)
    with refused("COUP_NOT_CONCLUDED", "coup"):
        room.do(correct(coup=2))
    room.do(void(coup=2, initiator=None, approver=None))
    with refused("COUP_VOID", "coup"):
        room.do(correct(coup=2))


@pytest.mark.parametrize(
    ("cards", "words"),
    [
        (("9S", "8H", "KS"), "Banker still needs his second card"),
        (("9S", "8H", "KS", "KH", "2C"), "nobody may draw a fifth card"),
        (("2S", "2H", "KS", "KH"), "Player must draw on 2: the fifth card is missing"),
    ],
)
def test_the_cards_must_be_a_coup(room, cards, words):
    with pytest.raises(CardsIllegal, match=words):
        check(cards, HOUSES["nl"].deal.order)
    with refused("CARDS_ILLEGAL", "cards"):
        room.do(correct(cards))


def test_the_cards_must_have_been_in_the_shoe(room):
    for number in range(2, 9):
        room.play(number, TIE, shoe="shoe-1")
    assert room.do(correct())[0].outcome == "tie", "the eighth 9S, in the place of another card"
    with refused("CARDS_IMPOSSIBLE", "cards"):
        room.do(correct(("9S", "9D", "9S", "9D"), coup=2))


def test_cards_that_are_shuffled_every_round_are_counted_by_the_coup():
    room = Room()
    room.open_table("de", "recorded")
    for number in range(1, 9):
        room.play(number, TIE)
    assert room.do(correct(PLAYER, coup=8))[0].outcome == "player"
    with refused("CARDS_IMPOSSIBLE", "cards"):
        house = HOUSES["de"]
        one = house.model_copy(update={"shoe": house.shoe.model_copy(update={"decks": 1})})
        other = Room()
        other.open_table(one, "recorded")
        other.play(1, TIE)
        other.do(correct(("9S", "9S", "KC", "KH")))


def test_nobody_can_have_misread_a_virtual_shoe():
    room = Room()
    room.open_table("nl")
    room.load()
    dealt = tuple(card.card for card in of_type(room.play(1), CardDealt))
    other = PLAYER if dealt != PLAYER else TIE
    with refused("CARDS_GIVEN", "cards"):
        room.do(correct(other))
    with refused("NOTHING_TO_CORRECT", "cards"):
        room.do(correct(dealt))
    assert room.do(void())[0].version == 2


# ------------------------------------------------------------------------------------------------- void


def test_two_people_may_void_a_coup_that_has_a_result(room):
    concluded = last(room, CoupConcluded)
    (voided,) = room.do(void())
    assert voided == CoupVoided(
        **AT,
        shoe="shoe-1",
        coup=1,
        reason="the shoe was marked",
        approver="anna",
        corrects=concluded,
        version=2,
        initiator="key:floor-2",
    )
    ended = room.store.coups[KEY]
    assert (ended.status, ended.outcome, ended.cards) == ("voided", None, BANKER)


@pytest.mark.parametrize("missing", ["initiator", "approver"])
def test_it_takes_both(room, missing):
    with refused("FOUR_EYES", missing):
        room.do(void(**{missing: None}))


def test_a_void_is_final(room):
    room.do(correct())
    corrected = last(room, CoupCorrected)
    (voided,) = room.do(void())
    assert (voided.version, voided.corrects) == (3, corrected)
    assert room.do(void()) == []
    assert room.do(void(reason="another one", initiator=None)) == []
    for cards in (TIE, PLAYER):
        with refused("COUP_VOID", "coup"):
            room.do(correct(cards))
    assert room.open(1, BANKER) == [], "known, and void"


def test_before_the_result_nothing_is_different(room):
    room.open(2, SIX)
    (voided,) = room.do(void(coup=2, initiator=None, approver=None))
    assert (voided.corrects, voided.version, voided.initiator) == (None, None, None)


def test_the_shoe_of_a_single_round_ended_with_it():
    room = Room()
    room.open_table("de")
    room.load()
    assert of_type(room.play(1), ShoeEnded)
    assert of_type(room.do(void()), ShoeEnded) == []


# ---------------------------------------------------------------------------------------- what is kept


def test_a_rebuild_knows_all_that_was_said(room):
    room.do(correct())
    room.open(2, SIX)
    room.do(void())
    other = room.rebuilt()
    assert (other.store.coups, other.store.shoes) == (room.store.coups, room.store.shoes)
    assert other.state.tables == room.state.tables


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[StoredRoom]:
    engine = open_sqlite(tmp_path / "game.db", writer=True)
    migrate(engine, "game")
    with engine.begin() as db:
        yield StoredRoom(db)


def test_a_fresh_start_knows_all_that_was_said(stored):
    stored.open_table("lt", "recorded")
    stored.play(1, AT_BIG_TABLE, dealer_seat=4)
    stored.do(SetHouse(**AT, house=OF_TWELVE))
    stored.play(1, TIE, shoe="another")
    first = next(event for event in stored.events if isinstance(event.data, CoupConcluded))
    result = Result(1, first.sequence, first.hash, AT_BIG_TABLE, "banker", 8, 9)
    assert store.find_coups(stored.db, [KEY])[KEY].results == (result,)
    (corrected,) = stored.do(correct(TIE_AT_BIG_TABLE))
    assert corrected.corrects.hash == first.hash
    assert stored.do(correct(TIE_AT_BIG_TABLE)) == []
    stored.do(correct(("8S", "KS", "9H", "KH")), void())
    with refused("COUP_VOID", "coup"):
        stored.do(correct())
    ended = store.find_coups(stored.db, [KEY])[KEY]
    assert [(each.version, each.outcome, each.approver) for each in ended.results] == [
        (1, "banker", None),
        (2, "tie", "anna"),
        (3, "player", "anna"),
        (4, None, "anna"),
    ]
    assert (ended.status, ended.cards, ended.dealer_seat) == ("voided", AT_BIG_TABLE, 4)


def test_a_coup_of_before_can_be_corrected(tmp_path):
    """A database of the second version did not know which event had ended a coup."""
    engine = open_sqlite(tmp_path / "old.db", writer=True)
    migrate(engine, "game", to="game_0002")
    room = Room()
    room.open_table("nl", "recorded")
    room.play(1, BANKER)
    room.open(2, SIX)
    room.do(void(coup=2, initiator=None))
    with engine.begin() as db:
        db.execute(
            sa.text("INSERT INTO stream (id, name, sequence, hash) VALUES (1, :name, :sequence, :hash)"),
            {
                "name": room.events[0].stream,
                "sequence": len(room.events),
                "hash": room.events[-1].hash,
            },
        )
        for event in room.events:
            db.execute(
                sa.text("INSERT INTO event (stream_id, sequence, body) VALUES (1, :sequence, :body)"),
                {"sequence": event.sequence, "body": event.body},
            )
        for row in (
            "1, 'concluded', '8S 9D KC KH', NULL, 1, 'banker', 8, 9",
            "2, 'voided', 'AS 2H 3D KC 4S 5H', NULL, 1, NULL, NULL, NULL",
        ):
            db.execute(sa.text(f"INSERT INTO game_coup VALUES ('{OPERATOR}', '{TABLE}', 'shoe-1', {row})"))
    migrate(engine, "game")
    second = KEY._replace(coup=2)
    with engine.begin() as db:
        found = store.find_coups(db, [KEY, second])
    assert found == {key: room.store.coups[key] for key in (KEY, second)}


# ------------------------------------------------------------------------------------------------- HTTP


class Served:
    """Game over HTTP, with a bus on which the test says what wallet would."""

    def __init__(self, data: Path) -> None:
        where = Installation(data)
        self.bus = EmbeddedBus(data / "bus.db")
        self.writer = open_game(
            where,
            self.bus,
            Settings(),
            clock=ManualClock(datetime(2026, 1, 2, 20, tzinfo=UTC)),
            ids=SystemIds(),
            rng=SeededRng("tests"),
        )
        self.reader = where.open_reader("game")
        self.wallet = Room()

    def play(self, coup: int, cards: tuple[str, ...]) -> None:
        at = {**AT, "shoe": "shoe-1", "coup": coup}
        self.ask(OpenCoup(**at, cards=cards))
        self.ask(CloseBetting(**at))
        seal = self.wallet.sealed(coup)
        self.bus.publish([Record("wallet.events", SHARD, seal.body)])
        self.settle()

    def ask(self, command: Any) -> None:
        answer = self.writer.submit(command)
        self.settle()
        answer.result()

    def settle(self) -> None:
        for _ in range(5):
            self.writer.step()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    served = Served(tmp_path)
    served.ask(OpenTable(**AT, house=HOUSES["nl"], shard=SHARD, source="recorded"))
    served.play(1, BANKER)
    thread = WriterThread(served.writer, threading.Event())
    thread.start()
    with TestClient(game_app(served.writer, served.reader)) as client:
        yield client
    thread.finish()
    served.bus.close()


def test_over_http(client):
    address = f"/v1/coups/{OPERATOR}/{TABLE}/shoe-1/1"
    first = client.get(address).json()
    assert (first["version"], first["outcome"], len(first["history"])) == (1, "banker", 1)
    body = correct().model_dump(mode="json") | {"cards": ["9S", "9D", "KC", "KH"]}
    answer = client.post("/v1/coups/correct", json=body)
    assert (answer.status_code, answer.json()["code"]) == (200, "OK")
    (event,) = answer.json()["events"]
    assert client.post("/v1/coups/correct", json=body).json() == {"code": "OK_REPLAY", "events": []}
    found = client.get(address).json()
    assert (found["version"], found["outcome"], found["cards"]) == (2, "tie", list(TIE))
    assert found["history"][0] == first["history"][0]
    assert found["history"][1] == {
        "version": 2,
        "event": event,
        "status": "concluded",
        "cards": list(TIE),
        "outcome": "tie",
        "player_total": 9,
        "banker_total": 9,
        "reason": "the 9 was read as an 8",
        "initiator": "key:floor-2",
        "approver": "anna",
    }
    for changed, code, field in (
        ({"approver": body["initiator"]}, "FOUR_EYES", "approver"),
        ({"cards": ["9S", "9D", "KC", "1H"]}, "INVALID", "cards[3]"),
        ({"cards": ["9S", "9D", "KC"]}, "CARDS_ILLEGAL", "cards"),
        ({"reason": ""}, "INVALID", "reason"),
        ({"coup": 7}, "COUP_UNKNOWN", "coup"),
    ):
        refusal = client.post("/v1/coups/correct", json=body | changed).json()
        assert (refusal["code"], refusal["field"]) == (code, field)
    assert client.post("/v1/coups/void", json=void().model_dump()).json()["code"] == "OK"
    over = client.get(address).json()
    assert (over["status"], over["version"], over["outcome"], over["cards"]) == ("voided", 3, None, [])
    assert [each["status"] for each in over["history"]] == ["concluded", "concluded", "voided"]
