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
from schemas.commands.wallet import (
    ChargeBack,
    DecideAdjustment,
    GrantFreeBet,
    HoldFunds,
    ProposeAdjustment,
    Refund,
    ReleaseHold,
    RequestWithdrawal,
    RollBack,
    Tip,
    WithdrawalStep,
    WithdrawFreeBet,
)
from schemas.envelope import decode
from schemas.events.accounts import (
    Adjusted,
    ChargedBack,
    Deposited,
    FreeBetGranted,
    FreeBetWithdrawn,
    Tipped,
    WithdrawalApproved,
    WithdrawalReturned,
)
from schemas.events.base import Posting
from schemas.events.wallet import (
    BetAccepted,
    BetRolledBack,
    CoupReturned,
    CoupSettled,
    SettlementCorrected,
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
PLAYERS_OWN = ("1060", CASH, "2020", IN_PLAY, "2040", "2090")
"""What is a player's, wherever it is; what he owes goes off."""
HOUSES_OWN = (*GAMING, "5010", "5020")
"""What the house wins, and what it gives away."""


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
    "roll_back",
    "refund",
    "withdraw",
    "step",
    "adjust",
    "hold",
    "free",
    "spend",
    "charge_back",
    *["correct"] * 2,
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
        self.versions: dict[int, int] = {}
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

    def _roll_back(self, which: int, amount: int, other: int) -> None:
        """A bet that was asked for, or one that never was, is taken back: with an id of its own or a used
        one."""
        if self.commands:
            bet = self.commands[which % len(self.commands)]
            target = bet.tx if other % 3 else f"later-{amount}"
            tx = f"R{which}" if other % 2 else self.world.tx()
            self._ask([self._taking_back(RollBack, bet, tx=tx, target=target)])
            if self.open and not other % 3:
                late = self.world.bet_command(bet.account, "tie", amount, coup=self.open[0], tx=target)
                self._ask([late])

    def _taking_back(self, kind: type[Any], bet: Any, **fields: Any) -> Any:
        return self.world.command(kind, account=bet.account, currency=bet.currency, **fields)

    def _refund(self, which: int, amount: int, other: int) -> None:
        if self.commands:
            bet = self.commands[which % len(self.commands)]
            amount = bet.stake if other == 5 else amount % bet.stake + 1
            self._ask([self._taking_back(Refund, bet, target=bet.tx, amount=amount)])

    def _withdraw(self, which: int, amount: int, other: int) -> None:
        self._do(RequestWithdrawal, which, other, amount=amount)

    def _step(self, which: int, amount: int, other: int) -> None:
        """The next step of a withdrawal, or a step that is not its next."""
        known = sorted(self.world.state.items.withdrawals)
        if known:
            step = ("approve", "pay", "return", "reject")[other % 4]
            withdrawal = known[(which + amount) % len(known)]
            self._ask([self.world.command(WithdrawalStep, withdrawal=withdrawal, step=step)])

    def _adjust(self, which: int, amount: int, other: int) -> None:
        direction = "debit" if amount % 2 else "credit"
        tx = self.world.tx()
        self._do(ProposeAdjustment, which, other, tx=tx, amount=amount, direction=direction)
        if other:
            self._do(DecideAdjustment, which, other, target=tx, approve=other > 1)

    def _hold(self, which: int, amount: int, other: int) -> None:
        self._do(HoldFunds, which, other, amount=amount, kind="risk")
        held = sorted(self.world.state.items.holds)
        if held and other % 2:
            self._ask([self.world.command(ReleaseHold, hold=held[which % len(held)])])

    def _free(self, which: int, amount: int, other: int) -> None:
        """A free bet is granted and used, more or less of it; an old one may end."""
        known = sorted(self.world.state.items.grants)
        if known and other == 5:
            end = known[which % len(known)]
            self._ask([self.world.command(WithdrawFreeBet, grant=end, reason="expired")])
        self._do(GrantFreeBet, which, other, amount=amount, campaign="spring")
        for grant, item in sorted(self.world.state.items.grants.items()):
            if item.account == self._account(PLAYERS[which % 3]):
                bet = self._command(which, max(1, amount - other), other)
                self._ask([bet.model_copy(update={"grant": grant, "currency": item.currency})])
                self.commands[-1] = bet.model_copy(update={"grant": grant, "currency": item.currency})

    def _spend(self, which: int, amount: int, other: int) -> None:
        """A player has nothing left, should a correction want it back."""
        account = self._account(PLAYERS[which % 3])
        currency = CURRENCIES[other % 2]
        cash = self.world.state.ledger.cash(OPERATOR, account, currency) if account else 0
        self._do(Tip, which, other, amount=cash or amount)

    def _charge_back(self, which: int, amount: int, other: int) -> None:
        self._do(ChargeBack, which, other, amount=amount)

    def _do(self, kind: type[Any], which: int, other: int, /, **fields: Any) -> None:
        if "currency" in kind.model_fields:
            fields["currency"] = CURRENCIES[other % 2]
        self._ask([self.world.command(kind, account=PLAYERS[which % 3], **fields)])

    def _correct(self, which: int, amount: int, other: int) -> None:
        """A coup had another result, or none at all."""
        ended = [coup for coup, outcome in self.outcomes.items() if outcome != "void"]
        if ended:
            coup = ended[(which + amount) % len(ended)]
            version = self.versions[coup] = self.versions.get(coup, 1) + 1
            outcome = self.outcomes[coup] = ("player", "banker", "tie", "void")[other % 4]
            game = self.world.game
            self.world.hear(
                game.void_after(coup, version) if outcome == "void" else game.correct(coup, outcome, version)  # type: ignore[arg-type]
            )

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
            latest = self.world.game.results[coup]
            again = self.world.game.conclude(coup, self.outcomes[coup])  # type: ignore[arg-type]
            self.world.game.results[coup] = latest
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
        assert all(amount <= 0 for (number, *_), amount in balances.items() if number in ("2020", IN_PLAY))
        assert all(amount >= 0 for (number, *_), amount in balances.items() if number == "1060")
        for currency in CURRENCIES:
            moved = _in_hands(balances, currency) - before[currency]
            won_by_house = _of_house(balances, currency) - house_before[currency]
            assert moved == _expected(data, currency)
            if isinstance(data, MONEY_IN_AND_OUT):
                assert won_by_house == 0, "what comes in or goes out is nobody's win"
            else:
                assert moved == -won_by_house, "what players win the house loses, to the last unit"
    live = {line: amount for line, amount in balances.items() if amount}
    recorded = {line[1:]: amount for line, amount in story.world.state.ledger.balances().items()}
    assert live == recorded, "I3: balances are folds of entries"
    open_stakes: dict[str, int] = defaultdict(int)
    for coup in story.world.state.coups.values():
        for bet in coup.bets.values():
            open_stakes[bet.currency] += bet.left
    in_play: dict[str, int] = defaultdict(int)
    for (number, _, currency), amount in live.items():
        if number == IN_PLAY:
            in_play[currency] -= amount
    assert in_play == open_stakes, "I4: what is in play are the stakes of the open bets"


MONEY_IN_AND_OUT = (Deposited, ChargedBack, Tipped, WithdrawalApproved, WithdrawalReturned)


def _expected(data: Any, currency: str) -> int:
    """What an event brings the players in a currency, worked out from its figures alone."""
    match data:
        case CoupSettled():
            return sum(_net(bet, bet.tier) for bet in data.bets if bet.currency == currency)
        case SettlementCorrected():
            return sum(
                _net(bet, bet.after.tier) - _net(bet, bet.before.tier)
                for bet in data.bets
                if bet.currency == currency
            ) + _borne(data, currency)
        case Deposited() | WithdrawalReturned() | FreeBetGranted():
            sign = 1
        case ChargedBack() | Tipped() | WithdrawalApproved() | FreeBetWithdrawn():
            sign = -1
        case Adjusted():
            sign = 1 if data.direction == "credit" else -1
        case _:
            return 0
    amount: int = data.amount
    return sign * amount if data.currency == currency else 0


def _borne(data: SettlementCorrected, currency: str) -> int:
    """What the house bears of free bets that came back by mistake and were used again."""
    lines = [each for each in data.entry if each.ledger == "5010" and each.currency == currency]
    won = [bet for bet in data.bets if bet.funding == "free" and bet.currency == currency]
    due = sum((bet.before.tier == "win") * bet.stake - (bet.after.tier == "win") * bet.stake for bet in won)
    return sum(each.amount for each in lines) - due


def _in_hands(balances: dict[tuple[str, str | None, str], int], currency: str) -> int:
    """What is the players', wherever it lies, less what they owe."""
    return -sum(a for (number, _, c), a in balances.items() if number in PLAYERS_OWN and c == currency)


def _of_house(balances: dict[tuple[str, str | None, str], int], currency: str) -> int:
    return -sum(a for (number, _, c), a in balances.items() if number in HOUSES_OWN and c == currency)


def _net(bet: Any, tier: str) -> int:
    """What a bet brings its player beyond the stake, by the Dutch sheet, in whole cents."""
    if tier == "lose":
        return -bet.stake
    if tier in ("push", "void"):
        return 0
    winnings = bet.stake * (8 if bet.spot == "tie" else 1)
    winnings -= (winnings * 5 + 50) // 100 if bet.spot == "banker" else 0
    return winnings - (bet.stake if bet.funding == "free" else 0)


def check_ends(story: Story) -> None:
    """Every accepted bet ends once, and as its coup did; no other bet ends."""
    ends: dict[str, list[str]] = defaultdict(list)
    for event in story.world.events(CoupSettled, CoupReturned, SettlementCorrected):
        for bet in event.data.bets:
            match event.data:
                case SettlementCorrected():
                    assert ends[bet.bet] == [bet.before.tier], "what is undone is what was paid"
                    ends[bet.bet] = [bet.after.tier]
                case CoupSettled():
                    ends[bet.bet].append(bet.tier)
                case _:
                    ends[bet.bet].append("void")
    accepted = {event.data.bet: event.data for event in story.world.events(BetAccepted)}
    assert len(accepted) == len(story.world.events(BetAccepted)), "no id is given twice"
    taken_back: dict[str, int] = defaultdict(int)
    for event in story.world.events(BetRolledBack):
        taken_back[event.data.bet] += event.data.amount
        assert event.data.left == accepted[event.data.bet].stake - taken_back[event.data.bet] >= 0
    for number, bet in accepted.items():
        outcome = story.outcomes.get(bet.coup)
        expected = [] if outcome is None else ["void"] if outcome == "void" else [TIERS[outcome][bet.spot]]  # type: ignore[index]
        assert ends.pop(number, []) == ([] if taken_back[number] == bet.stake else expected)
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
    assert world_after.items == live.items


CHECKS: tuple[Callable[[Story], None], ...] = (check_invariants, check_ends, check_rebuilt)


def test_the_story_reaches_what_it_should(tmp_path):
    """Random steps that never settle or refuse anything would prove nothing."""
    steps: list[Step] = [("deposit", n, 1_000, n) for n in range(6)]
    steps += [("bet", n, 300 + n, n % 6) for n in range(12)] + [("batch", 2, 100, 1), ("restart", 0, 1, 0)]
    steps += [("repeat", 3, 77, 0), ("repeat", 3, 77, 1), ("close", 0, 1, 0), ("bet", 2, 50, 2)]
    steps += [("conclude", n, 1, 0) for n in range(2)] + [("void", 1, 1, 0), ("again", 0, 1, 0)]
    steps += [("open", 0, 1, 0), ("all_in", 1, 1, 0)]  # a balance that comes to nothing and stays so
    steps += [("deposit", 2, 1_000, 0), ("bet", 5, 40, 1), ("refund", -1, 30, 0), ("bet", 8, 40, 1)]
    steps += [("roll_back", -1, 1, 1), ("roll_back", -1, 7, 0), ("withdraw", 2, 90, 0), ("step", 0, 0, 0)]
    steps += [("step", 0, 0, 1), ("step", 0, 0, 2), ("withdraw", 2, 80, 0), ("step", 0, 0, 3)]
    steps += [("adjust", 2, 50, 2), ("adjust", 2, 50, 1), ("hold", 2, 60, 3), ("free", 2, 70, 4)]
    steps += [("free", 2, 70, 5), ("conclude", 1, 1, 0), ("spend", 2, 1, 0), ("correct", 0, 0, 2)]
    steps += [("correct", 0, 0, 0), ("correct", 0, 0, 3), ("charge_back", 2, 5, 0)]
    steps += [("correct", n, 0, 2) for n in range(3)] + [("spend", n, 1, n) for n in range(6)]
    steps += [("correct", n, 0, 0) for n in range(3)]  # what was given back is spent, and owed
    with World(tmp_path) as world:
        story = Story(world)
        story.take(steps)
        kinds = {type(event.data).__name__ for event in world.events()}
        assert kinds == {
            "AccountOpened",
            "Deposited",
            "ChargedBack",
            "WithdrawalRequested",
            "WithdrawalApproved",
            "WithdrawalRejected",
            "WithdrawalPaid",
            "WithdrawalReturned",
            "AdjustmentProposed",
            "AdjustmentDeclined",
            "Adjusted",
            "Tipped",
            "FreeBetGranted",
            "FreeBetWithdrawn",
            "FundsHeld",
            "HoldReleased",
            "TombstoneCreated",
            "BetAccepted",
            "BetRefused",
            "BetRolledBack",
            "BetsSealed",
            "CoupSettled",
            "CoupReturned",
            "SettlementCorrected",
            "ConflictDetected",
        }
        assert any(event.data.shortfalls for event in world.events(SettlementCorrected))
        for check in CHECKS:
            check(story)
