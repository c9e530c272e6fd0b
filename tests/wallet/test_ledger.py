"""The ledger is a fold of the events: its invariants, its golden examples, and its tables made again."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from schemas.chart import chart
from schemas.envelope import decode
from schemas.events.accounts import Deposited
from schemas.events.base import Posting
from schemas.events.wallet import (
    BetAccepted,
    BetsSealed,
    ConflictDetected,
    CoupReturned,
    CoupSettled,
)
from schemas.refusal import Refusal
from services.runtime.database import migrate, open_sqlite
from services.wallet import store, tables
from services.wallet.core.evolve import evolve, observe
from services.wallet.core.ledger import Ledger, Unbalanced
from services.wallet.core.postings import Booking, entry_of
from services.wallet.core.state import WalletState
from tests.wallet.world import OPERATOR, TIERS, World, entries, rows_of

PLAYERS, CURRENCIES = ("Ann", "Bea", "Cleo"), ("EUR", "JPY")
CASH, IN_PLAY, DEPOSITS = "2010", "2030", "1030"
GAMING = ("4010", "4011", "4012", "4013", "4020", "4030")


def trial_balance(world: World, currency: str = "EUR") -> dict[str, int]:
    """Net debit of each account number."""
    totals: dict[str, int] = defaultdict(int)
    for (_, number, _, of), amount in world.state.ledger.balances().items():
        if of == currency:
            totals[number] += amount
    return {number: amount for number, amount in totals.items() if amount}


def ggr(world: World) -> int:
    """Gross gaming revenue: the net credit of the gaming accounts (wallet reference, 3.1)."""
    return -sum(trial_balance(world).get(number, 0) for number in GAMING)


# ------------------------------------------------------------------------------------------- golden examples


def test_the_trial_balance_of_the_reference(world):
    """Postings 2, 3 (banker) and 4 on one player (wallet reference, 3.3)."""
    world.open_table()
    world.deposit("Ann", 50_000)
    world.bet("Ann", "banker", 10_000)
    assert trial_balance(world) == {DEPOSITS: 50_000, CASH: -40_000, IN_PLAY: -10_000}
    world.play(1, "banker")
    balance = trial_balance(world)
    assert balance == {DEPOSITS: 50_000, CASH: -59_500, "4011": 10_000, "4020": -500}
    assert sum(amount for amount in balance.values() if amount > 0) == 60_000
    assert sum(amount for amount in balance.values() if amount < 0) == -60_000
    assert ggr(world) == -9_500


def test_the_five_rounds_of_the_reference(world):
    """Wallet reference, 2.4: handle 31,000, payouts 38,500, GGR -7,500, and the players win as much."""
    world.open_table(coups=5)
    world.deposit("Ann", 100_000)
    for coup, (spot, stake) in enumerate(
        [("banker", 10_000), ("player", 10_000), ("tie", 1_000), ("banker", 10_000), ("player", 5_000)], 1
    ):
        world.bet("Ann", spot, stake, coup=coup)
    for coup, outcome in enumerate(("banker", "banker", "tie", "tie"), 1):
        world.play(coup, outcome)
    world.hear(world.game.void(5))
    bets = [bet for coup in range(1, 6) for bet in world.bets(coup)]
    handle = sum(bet.stake for bet in bets if bet.status != "void")
    payouts = sum(bet.returned for bet in bets if bet.status != "void")
    assert (handle, payouts) == (31_000, 38_500)
    assert sum(bet.stake for bet in bets if bet.status == "void") == 5_000
    assert sum(bet.stake for bet in bets if bet.status == "push") == 10_000
    assert ggr(world) == -7_500 == handle - payouts
    assert trial_balance(world) == {
        DEPOSITS: 100_000,
        CASH: -107_500,
        "4010": -10_000,
        "4011": 10_000,
        "4012": 8_000,
        "4020": -500,
    }


@pytest.mark.parametrize(
    ("spot", "outcome", "stake", "postings"),
    [  # the lines of 3.2 by their numbers; a credit is negative
        ("banker", "banker", 10_000, {IN_PLAY: 10_000, "4011": 10_000, CASH: -19_500, "4020": -500}),  # 4
        ("banker", "banker", 1_010, {IN_PLAY: 1_010, "4011": 1_010, CASH: -1_969, "4020": -51}),  # 4b
        ("player", "player", 10_000, {IN_PLAY: 10_000, "4010": 10_000, CASH: -20_000}),  # 5
        ("player", "banker", 10_000, {IN_PLAY: 10_000, "4010": -10_000}),  # 6
        ("banker", "player", 10_000, {IN_PLAY: 10_000, "4011": -10_000}),
        ("tie", "player", 1_000, {IN_PLAY: 1_000, "4012": -1_000}),
        ("banker", "tie", 10_000, {IN_PLAY: 10_000, CASH: -10_000}),  # 7
        ("tie", "tie", 1_000, {IN_PLAY: 1_000, "4012": 8_000, CASH: -9_000}),  # 8
    ],
)
def test_the_postings_of_the_reference(world, spot, outcome, stake, postings):
    world.open_table()
    world.deposit("Ann", 10_000)
    bet = world.bet("Ann", spot, stake)
    world.play(1, outcome)
    ((entry,),) = (list(entries(world.events(CoupSettled))),)
    assert {posting.ledger: posting.amount for posting in entry} == postings
    parties = {IN_PLAY: bet.event.bet, CASH: world.account("Ann")}
    assert all(posting.party == parties.get(posting.ledger) for posting in entry)
    (deposit,) = entries(world.events(Deposited))
    assert [(each.ledger, each.amount) for each in deposit] == [(DEPOSITS, 10_000), (CASH, -10_000)]  # 2
    (stake_moved,) = entries(world.events(BetAccepted))
    assert [(each.ledger, each.amount) for each in stake_moved] == [(CASH, stake), (IN_PLAY, -stake)]  # 3


def test_one_player_on_several_spots_is_paid_in_one_line(world):
    world.open_table()
    world.deposit("Ann", 3_000)
    for spot in ("player", "banker", "tie"):
        world.bet("Ann", spot, 1_000)
    world.play(1, "player")
    (entry,) = entries(world.events(CoupSettled))
    assert [(each.party, each.amount) for each in entry if each.ledger == CASH] == [
        (world.account("Ann"), -2_000)
    ]
    assert {each.ledger: each.amount for each in entry if each.party is None} == {
        "4010": 1_000,
        "4011": -1_000,
        "4012": -1_000,
    }


# ------------------------------------------------------------------------------------- what a ledger refuses


def line(number: str, amount: int, party: str | None = None, currency: str = "EUR") -> Posting:
    return Posting(ledger=number, party=party, currency=currency, amount=amount)


def test_an_entry_that_does_not_sum_to_zero_is_refused():
    with pytest.raises(Unbalanced, match="does not sum to zero"):
        Ledger().post(OPERATOR, (line(DEPOSITS, 100), line(CASH, -99, "ann")))


def test_an_entry_must_sum_to_zero_in_each_currency():
    with pytest.raises(Unbalanced, match="does not sum to zero"):
        Ledger().post(OPERATOR, (line(DEPOSITS, 100), line(CASH, -100, "ann", "USD")))


def test_nobodys_cash_is_ever_overdrawn():
    ledger = Ledger()
    ann = {"account": "ann", "bet": "main.1"}
    ledger.post(OPERATOR, entry_of("2", "EUR", {"amount": 100}, ann))
    ledger.post(OPERATOR, entry_of("3", "EUR", {"stake": 100}, ann))
    with pytest.raises(Unbalanced, match="Player cash of ann would be overdrawn by 1 EUR"):
        ledger.post(OPERATOR, entry_of("3", "EUR", {"stake": 1}, ann))
    with pytest.raises(Unbalanced, match="overdrawn"):
        ledger.post("another", entry_of("3", "EUR", {"stake": 1}, ann))


def test_a_line_that_comes_to_nothing_is_not_written():
    ann = {"account": "ann", "bet": "main.1"}
    booking = Booking().book("6", "EUR", {"stake": 100}, ann, spot="banker")
    booking.book("6", "EUR", {"stake": 100}, ann, sign=-1, spot="banker")
    booking.book("7", "EUR", {"stake": 100}, ann)
    assert [(each.ledger, each.amount) for each in booking.entry()] == [(IN_PLAY, 100), (CASH, -100)]


# ----------------------------------------------------------------------------- what holds whatever people do

# Not shrunk: each try opens databases, and forty steps can be read as they are.
AS_FOUND = (Phase.explicit, Phase.reuse, Phase.generate)

KINDS = (
    "deposit",
    "repeat",
    "batch",
    "close",
    "void",
    "open",
    "restart",
    "again",
    "all_in",
    *["bet"] * 4,
    *["conclude"] * 2,
)
"""Kinds of steps; what is here several times is drawn more often."""
Step = tuple[str, int, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.integers(0, 11),
        st.integers(1, 2_000),
        st.integers(0, 5),
    ),
    min_size=5,
    max_size=40,
)


class Story:
    """Carries out random steps. It knows which coups are where, so that game never contradicts itself."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.open: list[int] = []
        self.closed: list[int] = []
        self.outcomes: dict[int, str] = {}
        self.commands: list[Any] = []
        world.hear(world.game.open_table())
        for _ in range(3):
            self._open()

    def take(self, steps: Sequence[Step]) -> None:
        for kind, which, amount, other in steps:
            getattr(self, "_" + kind)(which, amount, other)

    def _open(self, *_: int) -> None:
        coup = len(self.outcomes) + len(self.open) + len(self.closed) + 1
        self.world.hear(self.world.game.open(coup))
        self.open.append(coup)

    def _deposit(self, which: int, amount: int, other: int) -> None:
        self.world.deposit(PLAYERS[which % 3], amount * 10, currency=CURRENCIES[other % 2])

    def _command(self, which: int, amount: int, other: int) -> Any:
        coups = [*self.open, *self.closed[:1], *list(self.outcomes)[:1]]
        bet = self.world.bet_command(
            PLAYERS[which % 3],
            ("player", "banker", "tie")[other % 3],
            amount,
            coup=coups[which % len(coups)],
            currency=CURRENCIES[other % 2],
            seat=which + 1 if other < 4 else None,
        )
        self.commands.append(bet)
        return bet

    def _bet(self, which: int, amount: int, other: int) -> None:
        self._ask([self._command(which, amount, other)])

    def _all_in(self, which: int, amount: int, other: int) -> None:
        """A bet of all that the player has."""
        if self.open:
            who, currency = PLAYERS[which % 3], CURRENCIES[other % 2]
            account = self._account(who)
            cash = self.world.state.ledger.cash(OPERATOR, account, currency) if account else 0
            bet = self.world.bet_command(who, "tie", cash or 1, coup=self.open[0], currency=currency)
            self._ask([bet])

    def _account(self, who: str) -> str | None:
        with self.world.reader.connect() as db, db.begin():
            return store.find_references(db, [(OPERATOR, who)]).get((OPERATOR, who))

    def _batch(self, which: int, amount: int, other: int) -> None:
        """Several in one transaction, one of them twice."""
        bets = [self._command(which + n, amount + n, (other + n) % 6) for n in range(4)]
        self._ask([*bets, bets[0]])

    def _repeat(self, which: int, amount: int, other: int) -> None:
        """A command that was given before: as it was, or with another stake."""
        if self.commands:
            known = self.commands[which % len(self.commands)]
            changed = known.model_copy(update={"stake": amount})
            self._ask([known if other % 2 else changed])

    def _ask(self, commands: Sequence[Any]) -> None:
        answers = self.world.submit(*commands)
        self.world.run()
        for answer in answers:
            error = answer.exception(0)
            assert error is None or isinstance(error, Refusal)

    def _close(self, which: int, *_: int) -> None:
        if self.open:
            self.closed.append(self.open.pop(which % len(self.open)))
            self.world.hear(self.world.game.close(self.closed[-1]))

    def _conclude(self, which: int, *_: int) -> None:
        if not self.closed:
            self._close(which)
        if self.closed:
            coup, outcome = self.closed.pop(0), ("player", "banker", "tie")[which % 3]
            self.outcomes[coup] = outcome
            self.world.hear(self.world.game.conclude(coup, outcome))  # type: ignore[arg-type]

    def _void(self, which: int, *_: int) -> None:
        coups = self.open if which % 2 else self.closed
        if coups:
            coup = coups.pop(0)
            self.outcomes[coup] = "void"
            self.world.hear(self.world.game.void(coup))

    def _again(self, which: int, *_: int) -> None:
        """A result that was announced is announced again: as the same record, and as a new event."""
        ended = [coup for coup, outcome in self.outcomes.items() if outcome != "void"]
        if ended:
            coup = ended[which % len(ended)]
            again = self.world.game.conclude(coup, self.outcomes[coup])  # type: ignore[arg-type]
            self.world.hear(self.world.game.stream.record(1 + which % 5), again, again)

    def _restart(self, *_: int) -> None:
        self.world.restart()


@settings(max_examples=50, phases=AS_FOUND)
@given(STEPS)
def test_what_holds_whatever_people_do(steps):
    """The invariants at every position, one end for every bet, and tables that are the fold of the events."""
    with TemporaryDirectory() as folder, World(Path(folder)) as world:
        story = Story(world)
        story.take(steps)
        assert world.wallet.inbox.held == {}
        for check in CHECKS:
            check(story)


def check_invariants(story: Story) -> None:
    """Balances at every position, by folding the events one by one with an arithmetic of its own."""
    balances: dict[tuple[str, str | None, str], int] = defaultdict(int)
    for event in story.world.events():
        data = event.data
        before = {c: _in_hands(balances, c) for c in CURRENCIES}
        house_before = {c: _of_house(balances, c) for c in CURRENCIES}
        sums: dict[str, int] = defaultdict(int)
        for posting in getattr(data, "entry", ()):
            assert posting.ledger in chart()
            assert type(posting.amount) is int
            assert posting.amount != 0
            sums[posting.currency] += posting.amount
            balances[posting.ledger, posting.party, posting.currency] += posting.amount
        assert not any(sums.values()), "I1: every entry balances"
        assert sum(balances.values()) == 0, "the sum of all balances is nothing"
        assert all(amount <= 0 for (number, *_), amount in balances.items() if number == CASH), "I5"
        assert all(amount <= 0 for (number, *_), amount in balances.items() if number == IN_PLAY), "I4"
        for currency in CURRENCIES:
            moved = _in_hands(balances, currency) - before[currency]
            won_by_house = _of_house(balances, currency) - house_before[currency]
            match data:
                case Deposited(currency=c, amount=amount):
                    assert moved == (amount if c == currency else 0)
                case CoupSettled():
                    assert moved == -won_by_house, "what players win the house loses, to the last unit"
                    expected = sum(_net(bet) for bet in data.bets if bet.currency == currency)
                    assert moved == expected
                case BetAccepted() | CoupReturned() | BetsSealed() | ConflictDetected():
                    assert moved == won_by_house == 0, "between deposits and results nothing is won or lost"
                case _:
                    assert moved == 0
    live = {line: amount for line, amount in balances.items() if amount}
    recorded = {line[1:]: amount for line, amount in story.world.state.ledger.balances().items()}
    assert live == recorded, "I3: balances are folds of entries"
    open_stakes: dict[str, int] = defaultdict(int)
    for coup in story.world.state.coups.values():
        for bet in coup.bets.values():
            open_stakes[bet.currency] += bet.stake
    in_play: dict[str, int] = defaultdict(int)
    for (number, _, currency), amount in live.items():
        if number == IN_PLAY:
            in_play[currency] -= amount
    assert in_play == open_stakes, "I4: what is in play are the stakes of the open bets"


def _in_hands(balances: dict[tuple[str, str | None, str], int], currency: str) -> int:
    """Players' cash and what they have in play."""
    return -sum(a for (number, _, c), a in balances.items() if number in (CASH, IN_PLAY) and c == currency)


def _of_house(balances: dict[tuple[str, str | None, str], int], currency: str) -> int:
    return -sum(a for (number, _, c), a in balances.items() if number in GAMING and c == currency)


def _net(bet: Any) -> int:
    """What a bet brings its player beyond the stake, by the Dutch sheet, in whole cents."""
    if bet.tier == "lose":
        return -bet.stake
    if bet.tier == "push":
        return 0
    winnings = bet.stake * (8 if bet.spot == "tie" else 1)
    return winnings - ((winnings * 5 + 50) // 100 if bet.spot == "banker" else 0)


def check_ends(story: Story) -> None:
    """Every accepted bet ends once, and as its coup did; no other bet ends."""
    ends: dict[str, list[str]] = defaultdict(list)
    for event in story.world.events(CoupSettled, CoupReturned):
        for bet in event.data.bets:
            ends[bet.bet].append(bet.tier if isinstance(event.data, CoupSettled) else "void")
    accepted = {event.data.bet: event.data for event in story.world.events(BetAccepted)}
    assert len(accepted) == len(story.world.events(BetAccepted)), "no id is given twice"
    for number, bet in accepted.items():
        outcome = story.outcomes.get(bet.coup)
        expected = [] if outcome is None else ["void"] if outcome == "void" else [TIERS[outcome][bet.spot]]  # type: ignore[index]
        assert ends.pop(number, []) == expected
    assert ends == {}, "nothing ended that was not accepted"


def check_rebuilt(story: Story) -> None:
    """Every projection is made again from the events alone, row by row, and a restart forgets nothing."""
    world = story.world
    rebuilt = WalletState(world.settings.shard)
    for event in story.world.game.stream.events:
        observe(rebuilt, decode(event.body))
    for event in world.events():
        evolve(rebuilt, event)
    engine = open_sqlite(world.folder / "rebuilt.db", writer=True)
    migrate(engine, "wallet")
    with engine.begin() as db:
        store.save_changes(db, rebuilt.ledger, rebuilt.changes, frozenset())
    with engine.connect() as db, db.begin():
        for table in tables.PROJECTIONS:
            assert rows_of(db, table) == world.rows(table), f"{table.name} is not the fold of the events"
    assert dict(rebuilt.ledger.balances()) == dict(world.state.ledger.balances())
    assert rebuilt.head == world.state.head
    assert rebuilt.bets_taken == world.state.bets_taken
    live, world_after = world.state, None
    world.restart()
    world_after = world.state
    assert world_after.coups == live.coups, "what a restart loads is what was known before it"
    assert dict(world_after.ledger.balances()) == dict(live.ledger.balances())
    assert (world_after.head, world_after.bets_taken) == (live.head, live.bets_taken)
    assert world_after.accounts == live.accounts


CHECKS: tuple[Callable[[Story], None], ...] = (check_invariants, check_ends, check_rebuilt)


def test_the_story_reaches_what_it_should(tmp_path):
    """Random steps that never settle or refuse anything would prove nothing."""
    steps: list[Step] = [("deposit", n, 1_000, n) for n in range(6)]
    steps += [("bet", n, 300 + n, n % 6) for n in range(12)] + [("batch", 2, 100, 1), ("restart", 0, 1, 0)]
    steps += [("repeat", 3, 77, 0), ("repeat", 3, 77, 1), ("close", 0, 1, 0), ("bet", 2, 50, 2)]
    steps += [("conclude", n, 1, 0) for n in range(2)] + [("void", 1, 1, 0), ("again", 0, 1, 0)]
    steps += [("open", 0, 1, 0), ("all_in", 1, 1, 0)]  # a balance that comes to nothing and stays so
    with World(tmp_path) as world:
        story = Story(world)
        story.take(steps)
        kinds = {type(event.data).__name__ for event in world.events()}
        assert kinds == {
            "AccountOpened",
            "Deposited",
            "BetAccepted",
            "BetRefused",
            "BetsSealed",
            "CoupSettled",
            "CoupReturned",
            "ConflictDetected",
        }
        assert story.world.cash("Bea") == 0
        for check in CHECKS:
            check(story)
