"""Any commands in any order: what must never happen at a table does not, and a rebuild comes to the same.

Hypothesis drives a room with a shell that forgets after each batch. The properties are asked of the whole
record at the end, as somebody would who has nothing but the events.
"""

from collections import Counter, defaultdict
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from schemas.commands.game import (
    CloseBetting,
    CommitShoe,
    CorrectCoup,
    EndShoe,
    GameCommand,
    LeaveSeat,
    LoadShoe,
    OpenCoup,
    SetHouse,
    TakeSeat,
    VoidCoup,
    VoidOverdue,
)
from schemas.envelope import decode
from schemas.events.base import EventRef
from schemas.events.game import (
    BettingClosed,
    CardBurned,
    CardDealt,
    CoupConcluded,
    CoupCorrected,
    CoupOpened,
    CoupVoided,
    SeatLeft,
    SeatTaken,
    ShoeCommitted,
    ShoeEnded,
    ShoeLoaded,
    ShoePassed,
)
from schemas.events.wallet import LargestPlayerBet
from schemas.refusal import Refusal
from services.game.core.fair import commitment, context, shoe_order
from services.game.core.tableau import check, play
from tests.rules.room import AT, HOUSES, TABLE, Room, of_type

SHOES = st.sampled_from(["A", "B", "C", "D"])
COUPS = st.integers(0, 6)
SEATS = st.integers(1, 7)
CARDS = st.lists(
    st.sampled_from([rank + suit for rank in "A23456789TJQK" for suit in ("S", "H", "")]),
    min_size=6,
    max_size=6,
)


class Table(RuleBasedStateMachine):
    @initialize(house=st.sampled_from(sorted(HOUSES)), source=st.sampled_from(["virtual", "recorded"]))
    def open_table(self, house, source):
        self.room = Room()
        self.source = source
        # Few cards and a deep cut: a shoe ends within a test, and one deck is soon out of a card.
        document = HOUSES[house]
        shoe = {"decks": 1} if house == "de" else {"decks": 1, "cut_cards_from_end": 30}
        self.house = document.model_copy(
            update={
                "shoe": document.shoe.model_copy(update=shoe),
                "table": document.table.model_copy(update={"seats": (7,)}),
            }
        )
        self.room.open_table(self.house, source)
        self.seals = set()

    def attempt(self, *commands: GameCommand):
        """Carry out what is not refused. A refusal writes nothing."""
        for command in commands:
            before = len(self.room.events)
            try:
                made = self.room.do(command)
            except Refusal:
                self.room.state.forget()
                assert len(self.room.events) == before
                continue
            # Asking once more for what is so by now says nothing, or is refused; it never repeats itself.
            if made and not isinstance(command, VoidOverdue):
                try:
                    assert self.room.do(command) == []
                except Refusal:
                    self.room.state.forget()

    @rule(shoe=SHOES, load=st.booleans())
    def commit(self, shoe, load):
        self.attempt(CommitShoe(**AT, shoe=shoe))
        if load:
            self.attempt(LoadShoe(**AT, shoe=shoe, entropy="lucky"))

    @rule(shoe=SHOES, coup=COUPS, drawn=CARDS, seat=SEATS, whole=st.booleans())
    def open(self, shoe, coup, drawn, seat, whole):
        if self.source == "virtual":
            table = self.room.table
            self.attempt(OpenCoup(**AT, shoe=table.shoe or shoe, coup=coup))
            return
        used = play(drawn, self.house.deal.order).used if whole else len(drawn)
        dealer_seat = seat if self.house.deal.dealt_by == "players" else None
        command = OpenCoup(**AT, shoe=shoe, coup=coup, cards=tuple(drawn[:used]), dealer_seat=dealer_seat)
        self.attempt(command)

    @rule(seals=st.booleans(), seats=st.lists(SEATS, max_size=3, unique=True))
    def go_on(self, seals, seats):
        """What comes next for the coup that is open."""
        coup = self.room.table.coup
        if coup is None:
            return
        self.attempt(CloseBetting(**AT, shoe=coup.shoe, coup=coup.number))
        if not seals:
            return
        largest = [LargestPlayerBet(currency="EUR", exponent=2, stake=5, seats=tuple(seats))] if seats else []
        seal = self.room.sealed(coup.number, *largest, shoe=coup.shoe)
        self.seals.add((seal.stream, seal.sequence, seal.hash))
        self.room.hear(seal)

    @rule(shoe=SHOES, count=st.integers(1, 8), data=st.data())
    def some_coups(self, shoe, count, data):
        """A stretch of play, with a shoe to play from if there is none."""
        if self.source == "virtual":
            shoe = f"shoe-{len(self.room.events)}"
        for _ in range(count):
            table = self.room.table
            if self.source == "virtual" and table.shoe is None:
                self.commit(shoe, load=True)
            last = max((event.coup for event in of_type(self.room.events, CoupOpened)), default=0)
            self.open(shoe, last + 1, data.draw(CARDS), data.draw(SEATS), whole=True)
            self.go_on(seals=True, seats=[])

    @rule(shoe=SHOES, coup=COUPS)
    def stray(self, shoe, coup):
        """A seal that nobody waits for, perhaps, and a closing."""
        self.attempt(CloseBetting(**AT, shoe=shoe, coup=coup))
        seal = self.room.sealed(coup, shoe=shoe)
        self.seals.add((seal.stream, seal.sequence, seal.hash))
        self.room.hear(seal)

    @rule(shoe=SHOES, number=COUPS, opened=st.booleans(), approver=st.sampled_from([None, "A", "B"]))
    def void(self, shoe, number, opened, approver):
        coup = self.room.table.coup
        if opened and coup is not None:
            shoe, number = coup.shoe, coup.number
        people = {} if approver is None else {"initiator": "A", "approver": approver}
        self.attempt(VoidCoup(**AT, shoe=shoe, coup=number, reason="misdeal", **people))

    @rule(drawn=CARDS, whole=st.booleans(), approver=st.sampled_from(["A", "B", "B", "B"]), data=st.data())
    def correct(self, drawn, whole, approver, data):
        """Some coup had other cards: one that is over, open, void, or was never there."""
        opened = [(event.shoe, event.coup) for event in of_type(self.room.events, CoupOpened)]
        shoe, number = data.draw(st.sampled_from([*opened, ("A", 99)]))
        used = play(drawn, self.house.deal.order).used if whole else len(drawn)
        asked = {"reason": "misread", "initiator": "A", "approver": approver}
        self.attempt(CorrectCoup(**AT, shoe=shoe, coup=number, cards=tuple(drawn[:used]), **asked))

    @rule()
    def time_out(self):
        self.attempt(VoidOverdue(closed_before=self.room.clock(self.room.now + 1)))

    @rule(shoe=SHOES)
    def end_shoe(self, shoe):
        self.attempt(EndShoe(**AT, shoe=shoe, reason="replaced"))

    @rule(seat=st.integers(1, 8), sits=st.booleans())
    def seat(self, seat, sits):
        self.attempt(TakeSeat(**AT, seat=seat) if sits else LeaveSeat(**AT, seat=seat))

    @precondition(lambda self: self.house.version < 3)
    @rule()
    def new_house(self):
        house = self.house.model_copy(update={"version": self.house.version + 1})
        self.attempt(SetHouse(**AT, house=house))
        if self.room.table.house == house:
            self.house = house

    @rule()
    def restart(self):
        """Everything in memory is lost, and made again from events and secrets."""
        other = self.room.rebuilt()
        assert other.state.tables == self.room.state.tables
        assert (other.store.shoes, other.store.coups) == (self.room.store.shoes, self.room.store.coups)
        self.room.state = other.state

    @invariant()
    def memory_holds_what_is_open(self):
        if hasattr(self, "room"):
            state = self.room.state
            (table,) = state.tables.values()
            assert not state.known_coups
            assert not state.known_shoes
            recorded = [table.coup_key(table.coup.shoe, table.coup.number)] if table.coup else []
            assert list(state.undealt.cards) == (recorded if self.source == "recorded" else [])
            assert set(state.undealt.seeds) == (
                {table.shoe_key(shoe) for shoe in table.live} if self.source == "virtual" else set()
            )

    def teardown(self):
        if hasattr(self, "room"):
            self.restart()
            self.check_record()

    def check_record(self):
        events = self.room.events
        assert [decode(event.body).data for event in events] == [event.data for event in events]
        by_shoe: dict[str, list[Any]] = defaultdict(list)
        open_coup, closed, seen = None, False, set()
        taken, dealer = set(), None
        for event in (event.data for event in events):
            match event:
                case CoupOpened():
                    assert open_coup is None
                    open_coup, closed = (event.shoe, event.coup), False
                    assert open_coup not in seen
                    seen.add(open_coup)
                    assert event.dealer_seat == (dealer if self.house.deal.dealt_by == "players" else None)
                case BettingClosed():
                    assert (event.shoe, event.coup) == open_coup
                    assert not closed
                    closed = True
                case CardDealt():
                    assert (event.shoe, event.coup) == open_coup
                    assert closed
                    seal = event.seal
                    assert (seal.stream, seal.sequence, seal.hash) in self.seals
                    by_shoe[event.shoe].append(event)
                case CoupConcluded():
                    assert (event.shoe, event.coup) == open_coup
                    cards = [c.card for c in by_shoe[event.shoe] if isinstance(c, CardDealt)]
                    result = check(cards[-event.cards :], self.house.deal.order)
                    assert (result.outcome, result.player_total) == (event.outcome, event.player_total)
                    open_coup = None
                case CoupVoided(corrects=None):
                    assert (event.shoe, event.coup) == open_coup
                    open_coup = None
                case ShoePassed():
                    assert event.from_seat in (dealer, None) or event.reason == "dealer_left"
                    dealer = event.to_seat
                    assert self.source == "recorded" or dealer in taken
                case CardBurned():
                    by_shoe[event.shoe].append(event)
                case SeatTaken():
                    taken.add(event.seat)
                case SeatLeft():
                    taken.discard(event.seat)
                    dealer = None if dealer == event.seat and self.source == "virtual" else dealer
                case _:
                    pass
        self.check_results()
        for shown in by_shoe.values():
            assert [card.index for card in shown] == list(range(1, len(shown) + 1))
        self.check_shoes(by_shoe)

    def check_results(self):
        """Of each coup one result is in force at any time, and it names the one whose place it took."""
        for event in of_type(self.room.events, CoupCorrected):
            result = check([each.card for each in event.hands], self.house.deal.order)
            assert (result.outcome, result.player_total) == (event.outcome, event.player_total)
            assert event.initiator != event.approver
        in_force: dict[Any, Any] = {}
        for event in self.room.events:
            match event.data:
                case CoupConcluded(version=1) | CoupVoided(corrects=None):
                    assert (event.data.shoe, event.data.coup) not in in_force
                case CoupConcluded():
                    raise AssertionError("the first result is version 1")
                case CoupCorrected() | CoupVoided():
                    before = in_force[event.data.shoe, event.data.coup]
                    assert isinstance(before.data, CoupConcluded | CoupCorrected), "a void is final"
                    assert event.data.version == before.data.version + 1
                    place = EventRef(stream=before.stream, sequence=before.sequence, hash=before.hash)
                    assert event.data.corrects == place
                case _:
                    continue
            in_force[event.data.shoe, event.data.coup] = event

    def check_shoes(self, by_shoe):
        every_round = self.house.shoe.cut_cards_from_end is None
        committed = {event.shoe: event for event in of_type(self.room.events, ShoeCommitted)}
        ended = of_type(self.room.events, ShoeEnded)
        assert len({event.shoe for event in ended}) == len(ended)
        for event in ended:
            shown = by_shoe[event.shoe]
            assert event.cards_out == len(shown)
            if self.source == "virtual":
                seed = bytes.fromhex(event.seed)
                assert commitment(seed, context(TABLE, event.shoe, 1)) == committed[event.shoe].commitment
                order = shoe_order(seed, TABLE, event.shoe, 1, "lucky")
                assert all(card.card in (None, order[card.index - 1]) for card in shown)
        if self.source == "recorded" and not every_round:
            for shown in by_shoe.values():
                copies = Counter(card.card for card in shown)
                assert all(n <= 1 for card, n in copies.items() if len(card) == 2)
                ranks = Counter(card.card[0] for card in shown)
                assert all(n <= 4 for n in ranks.values())
        loaded = [event.shoe for event in of_type(self.room.events, ShoeLoaded)]
        assert len(set(loaded)) == len(loaded)


Table.TestCase.settings = settings(stateful_step_count=50)
TestTable = Table.TestCase
