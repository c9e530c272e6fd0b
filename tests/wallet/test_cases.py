"""Faults that other people's wallets and engines had, each with the answer that is right here.

Numbers are those of the money cases and the rules cases; ``w`` is a behaviour of the wallet reference.
Amounts are minor units of EUR unless said.
"""

import signal
import subprocess
import sys
import threading
from fractions import Fraction
from math import floor

import pytest
import sqlalchemy as sa

from schemas.commands.wallet import (
    Deposit,
    RepairSettlement,
)
from schemas.envelope import EVENT_BYTES_MAX
from schemas.events.accounts import AccountOpened, Deposited
from schemas.events.wallet import (
    BetAccepted,
    BetRefused,
    BetsSealed,
    ConflictDetected,
    CoupReturned,
    CoupSettled,
    LargestPlayerBet,
    SpotTotal,
)
from schemas.money import MoneyError, parse_amount
from schemas.refusal import Refusal
from services.runtime.bus.embedded import EmbeddedBus
from services.runtime.process import WriterThread
from services.runtime.settings import Settings
from services.wallet.core.paytable import Paytable
from services.wallet.queries import balances_of
from tests.contracts.bus import ROOT
from tests.contracts.streams import record_of
from tests.wallet.world import HOUSES, OPERATOR, SHOE, TABLE, Game, World, house, wealth


def returned(world: World, coup: int = 1) -> list[tuple[str, str, int, int]]:
    """Spot, status, what came back, and commission of each bet."""
    return [(each.spot, each.status, each.returned, each.commission) for each in world.bets(coup)]


def refused(world: World, *args, **fields) -> Refusal:
    """The refusal of a bet."""
    with pytest.raises(Refusal) as caught:
        world.bet(*args, **fields)
    return caught.value


# ----------------------------------------------------------------------------------- one payer an obligation


def test_money_case_1_a_result_said_twice_and_a_repair_job_pay_once(world):
    world.open_table()
    world.deposit("Ann", 10_000)
    world.bet("Ann", "banker", 1_010)
    world.play(1, "banker")
    assert world.cash("Ann") == 8_990 + 1_969
    before = world.balances()
    world.hear(world.game.conclude(1, "banker"))
    assert world.repair(1) == "already settled: nobody was paid again"
    world.hear(world.game.conclude(1, "banker", version=2))
    assert world.balances() == before
    assert len(world.events(CoupSettled)) == 1
    conflicts = world.events(ConflictDetected)
    assert [(each.data.kind, each.data.table, each.data.shoe, each.data.coup) for each in conflicts] == [
        ("repeated_settlement", TABLE, SHOE, 1)
    ] * 3
    assert world.wallet.inbox.held == {}


def test_money_case_1_a_coup_that_was_returned_is_not_paid_as_well(world):
    world.open_table()
    world.deposit("Ann", 1_000)
    world.bet("Ann", "tie", 1_000)
    world.hear(world.game.close(1), world.game.void(1), world.game.conclude(1, "tie"), world.game.void(1))
    world.repair(1)
    assert world.cash("Ann") == 1_000
    assert len(world.events(CoupReturned)) == 1
    assert world.events(CoupSettled) == []
    assert len(world.events(ConflictDetected)) == 3


def test_money_case_1_only_what_was_announced_can_be_repaired(world):
    world.open_table()
    world.deposit("Ann", 1_000)
    world.bet("Ann", "tie", 1_000)
    for coup, code in ((1, "RESULT_UNKNOWN"), (2, "COUP_UNKNOWN")):
        with pytest.raises(Refusal) as caught:
            world.repair(coup)
        assert caught.value.code == code
    assert world.events(ConflictDetected) == []
    assert world.cash("Ann") == 0


def test_money_case_2_a_repeat_after_191_minutes_is_a_replay(world):
    world.open_table()
    world.deposit("Ann", 20_000)
    first = world.bet("Ann", "banker", 10_000, tx="T1")
    world.clock.advance(191 * 60)
    world.restart()
    again = world.bet("Ann", "banker", 10_000, tx="T1")
    assert (first.replayed, again.replayed) == (False, True)
    assert world.cash("Ann") == 10_000
    assert len(world.events(BetAccepted)) == 1


def test_money_case_3_two_threads_settle_a_thousand_coups_at_a_barrier(world):
    coups = range(1, 1_001)
    world.open_table(coups=len(coups))
    world.deposit("Ann", 100 * len(coups))
    world.submit(*(world.bet_command("Ann", "banker", 100, coup=coup) for coup in coups))
    world.run()
    world.hear([world.game.close(coup) for coup in coups])
    results = [world.game.conclude(coup, "banker") for coup in coups]
    stepping = WriterThread(world.wallet, threading.Event())
    stepping.start()
    barrier, faults = threading.Barrier(2), []
    repairs = [
        RepairSettlement(operator=OPERATOR, table=TABLE, shoe=SHOE, coup=coup, version=1) for coup in coups
    ]

    def settle(repairing: bool) -> None:
        bus, answers = EmbeddedBus(world.folder / "bus.db"), []
        try:
            for result, repair in zip(results, repairs, strict=True):
                barrier.wait(30)
                if repairing:
                    answers.append(world.wallet.submit(repair))
                bus.publish([result])
            for answer in answers:
                error = answer.exception(30)
                # Where the repair job came first there was nothing to repair yet: it says so, and no more.
                if error is not None and getattr(error, "code", None) != "RESULT_UNKNOWN":
                    faults.append(error)
        except Exception as error:
            faults.append(error)
            barrier.abort()
        finally:
            bus.close()

    settlers = [threading.Thread(target=settle, args=(repairing,)) for repairing in (False, True)]
    for each in settlers:
        each.start()
    for each in settlers:
        each.join()
    again = [world.wallet.submit(command) for command in repairs]
    assert faults == []
    assert {answer.result(30) for answer in again} == {"already settled: nobody was paid again"}
    stepping.finish()
    world.restart()
    settled = world.events(CoupSettled)
    assert sorted(event.data.coup for event in settled) == list(coups)
    assert world.cash("Ann") == 195 * len(coups)


KILLED_CHILD = """
import os, signal, sys
from pathlib import Path
import sqlalchemy as sa
from tests.wallet.world import World

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

folder, point = sys.argv[1:]
world = World(Path(folder))
if point == "guard":  # passed, and nothing posted
    world.wallet.store.append = die
elif point == "posting":  # done, and not committed
    sa.event.listen(world.wallet.store._connection.engine, "commit", die)
elif point == "commit":  # done, and nothing published
    world.wallet.on_commit = die
world.run()
"""


@pytest.mark.parametrize(("point", "settled"), [("guard", False), ("posting", False), ("commit", True)])
def test_money_case_4_killed_between_guard_and_posting(world, point, settled):
    world.open_table()
    world.deposit("Ann", 10_000)
    world.bet("Ann", "banker", 10_000)
    world.hear(world.game.close(1))
    world.bus.publish([world.game.conclude(1, "banker")])
    world.wallet.close()
    child = subprocess.run(
        [sys.executable, "-c", KILLED_CHILD, str(world.folder), point],
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (child.returncode, child.stderr) == (-signal.SIGKILL, b"")
    statuses = [each.status for each in world.bets()]
    assert (len(world.events(CoupSettled)), statuses) == ((1, ["won"]) if settled else (0, ["open"]))
    world.wallet = world._open()
    assert world.cash("Ann") == (19_500 if settled else 0)
    world.run()
    assert world.cash("Ann") == 19_500
    assert len(world.events(CoupSettled)) == 1
    assert world.events(ConflictDetected) == []
    assert [each.body for each in world.bus.read("wallet.events")][-1] == world.events()[-1].body


def test_money_case_5_one_batch_with_the_same_id_twice(world):
    world.open_table()
    world.deposit("Ann", 5_000)
    bet = world.bet_command("Ann", "tie", 1_000, tx="T1")
    first, second = world.submit(bet, bet)
    assert world.wallet.step() == 2
    assert (first.result(0).replayed, second.result(0).replayed) == (False, True)
    assert first.result(0).event.bet == second.result(0).event.bet
    assert world.cash("Ann") == 4_000
    assert len(world.events(BetAccepted)) == 1


def test_money_case_5_one_batch_with_the_first_deposit_twice(world):
    """The account itself is opened by the first of the two."""
    deposit = Deposit(operator=OPERATOR, account="Ann", tx="D1", currency="EUR", amount=500)
    first, second = world.submit(deposit, deposit)
    world.wallet.step()
    assert (first.result(0).replayed, second.result(0).replayed) == (False, True)
    assert first.result(0).event.account == second.result(0).event.account
    assert [type(event.data) for event in world.events()] == [AccountOpened, Deposited]
    assert world.cash("Ann") == 500


def test_money_case_12_same_key_other_body(world):
    world.open_table()
    world.deposit("Ann", 5_000, tx="D1")
    world.bet("Ann", "banker", 1_000, tx="T1")
    before = world.balances()
    conflict = refused(world, "Ann", "player", 1_000, tx="T1")
    assert (conflict.code, conflict.field) == ("IDEMPOTENCY_CONFLICT", "spot")
    assert "another spot" in conflict.words
    assert world.balances() == before
    (event,) = world.events(ConflictDetected)
    assert (event.data.kind, event.data.tx, event.data.fields) == ("idempotency", "T1", ("spot",))
    assert event.data.account == world.account("Ann")
    assert b"player" not in event.body
    assert world.bet("Ann", "banker", 1_000, tx="T1").replayed, "the first body is still the right one"


@pytest.mark.parametrize(
    ("other", "fields"),
    [
        ({"stake": 999}, ("stake",)),
        ({"coup": 2}, ("coup",)),
        ({"seat": 4}, ("seat",)),
        ({"currency": "USD"}, ("currency",)),
        ({"table": "T2"}, ("table",)),
        ({"shoe": "S2"}, ("shoe",)),
        ({"spot": "tie", "stake": 1}, ("spot", "stake")),
    ],
)
def test_money_case_12_every_field_counts(world, other, fields):
    world.open_table(coups=2)
    world.deposit("Ann", 5_000)
    bet = world.bet_command("Ann", "banker", 1_000, tx="T1")
    world.ask(bet)
    with pytest.raises(Refusal) as caught:
        world.ask(bet.model_copy(update=other))
    assert (caught.value.code, caught.value.field) == ("IDEMPOTENCY_CONFLICT", fields[0])
    assert world.events(ConflictDetected)[0].data.fields == fields
    assert world.cash("Ann") == 4_000


def test_money_case_12_a_deposits_key_used_for_a_bet(world):
    world.open_table()
    world.deposit("Ann", 5_000, tx="T1")
    assert refused(world, "Ann", "tie", 5_000, tx="T1").field == "operation"
    with pytest.raises(Refusal) as caught:
        world.deposit("Ann", 6_000, tx="T1")
    assert caught.value.field == "amount"
    assert world.cash("Ann") == 5_000


def test_money_case_12_both_bodies_in_one_batch(world):
    world.open_table()
    world.deposit("Ann", 5_000)
    one = world.bet_command("Ann", "banker", 1_000, tx="T1")
    first, second = world.submit(one, one.model_copy(update={"spot": "player"}))
    world.wallet.step()
    assert first.result(0).code == "OK"
    assert second.exception(0).code == "IDEMPOTENCY_CONFLICT"
    assert world.cash("Ann") == 4_000


def test_money_case_13_the_first_of_300_is_still_known(world):
    world.open_table()
    world.deposit("Ann", 300)
    bets = [world.bet_command("Ann", "tie", 1) for _ in range(300)]
    for bet in bets:
        assert world.ask(bet).code == "OK"
    assert world.ask(bets[0]).replayed
    assert world.cash("Ann") == 0


def test_money_case_14_major_and_minor_units(world):
    world.deposit("Ann", parse_amount("1000", "JPY"), currency="JPY")
    world.deposit("Ann", parse_amount("1.234", "KWD"), currency="KWD")
    world.deposit("Ann", parse_amount("10.00", "EUR"), currency="EUR")
    for text, currency in (("1.5", "JPY"), ("10.005", "EUR"), ("0.1234", "KWD")):
        with pytest.raises(MoneyError, match="too many decimals"):
            parse_amount(text, currency)
    assert [world.cash("Ann", currency) for currency in ("JPY", "KWD", "EUR")] == [1_000, 1_234, 1_000]
    assert [(each.data.currency, each.data.exponent) for each in world.events(Deposited)] == [
        ("JPY", 0),
        ("KWD", 3),
        ("EUR", 2),
    ]
    with world.reader.connect() as db, db.begin():
        said = {each["currency"]: each["cash"] for each in balances_of(db, OPERATOR, "Ann")}
    assert said == {"JPY": "1000", "KWD": "1.234", "EUR": "10.00"}


def test_money_case_14_currencies_do_not_mix(world):
    world.open_table()
    world.deposit("Ann", 1_000, currency="JPY")
    assert world.bet("Ann", "tie", 1_000).code == "INSUFFICIENT_FUNDS"
    assert world.bet("Ann", "banker", 1_000, currency="JPY").code == "OK"
    world.play(1, "banker")
    assert (world.cash("Ann", "JPY"), world.cash("Ann", "EUR")) == (1_950, 0)
    assert {line[2] for line in world.balances()} == {"JPY"}


def test_money_case_15_three_bets_of_ten_cents_from_thirty(world):
    world.open_table()
    world.deposit("Ann", parse_amount("0.30", "EUR"))
    answers = [world.bet("Ann", "tie", parse_amount("0.10", "EUR")) for _ in range(3)]
    assert [answer.balance for answer in answers] == [20, 10, 0]
    assert world.cash("Ann") == 0
    assert world.bet("Ann", "tie", 1).code == "INSUFFICIENT_FUNDS"


WINNINGS = (9, 10, 25, 101, 1010, 1999)


@pytest.mark.parametrize(
    ("mode", "commissions"),
    [
        ("down", (0, 0, 1, 5, 50, 99)),
        ("half_even", (0, 0, 1, 5, 50, 100)),
        ("half_up", (0, 1, 1, 5, 51, 100)),
        ("up", (1, 1, 2, 6, 51, 100)),
    ],
)
def test_money_case_16_the_rounding_of_a_commission(world, mode, commissions):
    world.open_table(house(rounding_mode=mode))
    for number, stake in enumerate(WINNINGS):
        world.deposit(f"player-{number}", stake)
        world.bet(f"player-{number}", "banker", stake)
    world.play(1, "banker")
    assert returned(world) == [
        ("banker", "won", 2 * stake - commission, commission)
        for stake, commission in zip(WINNINGS, commissions, strict=True)
    ]
    (settled,) = world.events(CoupSettled)
    assert [Fraction(bet.commission_exact) for bet in settled.data.bets] == [
        Fraction(stake, 20) for stake in WINNINGS
    ]
    assert sum(posting.amount for posting in settled.data.entry) == 0
    assert world.balances()["4020", None, "EUR"] == -sum(commissions)


@pytest.mark.parametrize(("mode", "commission"), [("half_up", 3), ("half_even", 0), ("up", 3), ("down", 0)])
def test_money_case_16_it_is_rounded_for_each_bet_and_not_for_the_coup(world, mode, commission):
    world.open_table(house(rounding_mode=mode))
    world.deposit("Ann", 30)
    for _ in range(3):
        world.bet("Ann", "banker", 10)
    world.play(1, "banker")
    assert world.cash("Ann") == 60 - commission
    assert world.balances().get(("4020", None, "EUR"), 0) == -commission


@pytest.mark.parametrize(
    ("unit", "currency_exponent", "stakes", "mode", "commissions"),
    [
        # Exact commissions 12.5, 37.5, 62.5, 50.5 and 0.5 cents: half a chip of 0.25, one and a half, …
        ("0.25", 2, (250, 750, 1_250, 1_010, 10), "down", (0, 25, 50, 50, 0)),
        ("0.25", 2, (250, 750, 1_250, 1_010, 10), "half_even", (0, 50, 50, 50, 0)),
        ("0.25", 2, (250, 750, 1_250, 1_010, 10), "half_up", (25, 50, 75, 50, 0)),
        ("0.25", 2, (250, 750, 1_250, 1_010, 10), "up", (25, 50, 75, 75, 10)),  # never more than was won
        ("1.00", 2, (1_000, 3_000, 2_000, 20, 5_000), "down", (0, 100, 100, 0, 200)),
        ("1.00", 2, (1_000, 3_000, 2_000, 20, 5_000), "half_even", (0, 200, 100, 0, 200)),
        ("1.00", 2, (1_000, 3_000, 2_000, 20, 5_000), "half_up", (100, 200, 100, 0, 300)),
        ("1.00", 2, (1_000, 3_000, 2_000, 20, 5_000), "up", (100, 200, 100, 20, 300)),
        ("1.00", 0, (10, 29, 30, 31), "half_up", (1, 1, 2, 2)),  # JPY: one yen is the minor unit
        ("0.25", 0, (10, 29, 30, 31), "half_up", (1, 1, 2, 2)),  # no yen in four parts
        ("0.25", 3, (2_500, 5_000, 7_499), "half_up", (250, 250, 250)),
    ],
)
def test_money_case_16_other_rounding_units(unit, currency_exponent, stakes, mode, commissions):
    paytable = Paytable(house(rounding_unit=unit, rounding_mode=mode))
    payments = [paytable.pay("banker", "win", stake, currency_exponent) for stake in stakes]
    assert tuple(payment.commission for payment in payments) == commissions
    assert [payment.returned for payment in payments] == [
        2 * stake - commission for stake, commission in zip(stakes, commissions, strict=True)
    ]


def test_money_case_17_a_push_is_neither_a_loss_nor_a_win(world):
    world.open_table()
    world.deposit("Ann", 21_000)
    for spot, stake in (("banker", 10_000), ("player", 10_000), ("tie", 1_000)):
        world.bet("Ann", spot, stake)
    world.play(1, "tie")
    assert returned(world) == [
        ("banker", "push", 10_000, 0),
        ("player", "push", 10_000, 0),
        ("tie", "won", 9_000, 0),
    ]
    assert world.cash("Ann") == 29_000
    assert ("4020", None, "EUR") not in world.balances()


def test_money_case_19_and_20_what_comes_twice_from_the_bus_changes_nothing(world):
    world.open_table()
    world.deposit("Ann", 10_000)
    world.bet("Ann", "player", 4_000)
    world.play(1, "player")
    before = (world.balances(), world.events())
    world.hear(*(world.game.stream.record(n) for n in range(1, len(world.game.stream.events) + 1)))
    assert (world.balances(), world.events()) == before
    world.restart()
    assert (world.balances(), world.events()) == before


def test_money_case_21_an_undecodable_record_between_two_good_ones(world):
    rubbish = record_of(b'{"amount":', world.game.stream.name)
    world.hear(world.game.open_table(), rubbish, world.game.open(1))
    world.deposit("Ann", 100)
    assert world.bet("Ann", "tie", 100).code == "OK"
    with world.reader.connect() as db, db.begin():
        letters = db.execute(sa.text("SELECT body, topic FROM dead_letter")).all()
    assert [tuple(row) for row in letters] == [(b'{"amount":', "game.events")]
    registry = world.wallet.metrics.registry
    labels = {"topic": "game.events", "verdict": "not_ours"}
    assert registry.get_sample_value("wallet_records_consumed_total", labels) == 1


# ---------------------------------------------------------------------------------------- cases of the rules


def test_rules_case_10_a_tie_gives_the_whole_stake_back(world):
    world.open_table()
    world.deposit("Ann", 10_000)
    world.bet("Ann", "player", 10_000)
    world.play(1, "tie")
    assert (world.cash("Ann"), returned(world)) == (10_000, [("player", "push", 10_000, 0)])


def test_rules_case_11_commission_is_of_the_winnings_alone(world):
    world.open_table()
    world.deposit("Ann", 10_000)
    world.bet("Ann", "banker", 10_000)
    world.play(1, "banker")
    assert returned(world) == [("banker", "won", 19_500, 500)]
    assert world.cash("Ann") == 19_500


@pytest.mark.parametrize(("stake", "winnings"), [(60, 57), (120, 114), (140, 133), (240, 228)])
def test_rules_case_12_stakes_that_a_float_gets_wrong(world, stake, winnings):
    world.open_table()
    world.deposit("Ann", stake)
    world.bet("Ann", "banker", stake)
    world.play(1, "banker")
    assert world.cash("Ann") - stake == winnings


@pytest.mark.parametrize(
    ("mode", "rounded"),
    [
        ("half_up", lambda exact: floor(exact + Fraction(1, 2))),
        ("half_even", round),  # of a Fraction: to the even one
        ("up", lambda exact: -floor(-exact)),
        ("down", floor),
    ],
)
def test_rules_case_12_every_stake_from_one_cent_to_a_thousand_euros(mode, rounded):
    paytable = Paytable(house(rounding_mode=mode))
    for stake in range(1, 100_001):
        exact = Fraction(5, 100) * stake
        payment = paytable.pay("banker", "win", stake, 2)
        assert payment.commission == rounded(exact)
        assert payment.returned == 2 * stake - payment.commission
        assert Fraction(payment.commission_exact) == exact


@pytest.mark.parametrize(("rules", "back"), [("de", 9_000), ("nl", 9_000)])
def test_rules_case_13_nine_for_one_is_eight_to_one(rules, back):
    assert Paytable(HOUSES[rules]).pay("tie", "win", 1_000, 2).returned == back


def test_rules_case_13_a_house_that_means_nine_to_one_pays_that():
    document = HOUSES["de"].model_dump()
    document["prices"]["tie"] = "9 to 1"
    assert (
        Paytable(type(HOUSES["de"]).model_validate(document)).pay("tie", "win", 1_000, 2).returned == 10_000
    )


def test_rules_case_19_the_same_settlement_twice_is_one_credit(world):
    world.open_table()
    world.deposit("Ann", 1_000)
    world.bet("Ann", "player", 1_000)
    result = [world.game.close(1), world.game.conclude(1, "player")]
    world.hear(*result, *result)
    world.hear(result[1])
    assert world.cash("Ann") == 2_000
    assert len(world.events(CoupSettled)) == 1
    assert world.events(ConflictDetected) == []


def test_rules_case_23_the_whole_balance_can_be_bet_and_no_more(world):
    world.open_table()
    world.deposit("Ann", 100)
    assert world.bet("Ann", "banker", 100).code == "OK"
    assert world.bet("Ann", "banker", 1).code == "INSUFFICIENT_FUNDS"


# --------------------------------------------------------------------------------------- ids and repetitions


def test_w1_ids_are_unique_for_a_player_only(world):
    world.open_table()
    world.deposit("Ann", 1_000, tx="D1")
    world.deposit("Bea", 2_000, tx="D1")
    ann, bea = (world.bet(who, "tie", 500, tx="T1") for who in ("Ann", "Bea"))
    assert not ann.replayed
    assert not bea.replayed
    assert ann.event.bet != bea.event.bet
    assert (world.cash("Ann"), world.cash("Bea")) == (500, 1_500)


def test_w1_one_batch_with_the_same_id_of_two_players(world):
    world.open_table()
    ann, bea = world.submit(
        *(
            Deposit(operator=OPERATOR, account=who, tx="D1", currency="EUR", amount=amount)
            for who, amount in (("Ann", 1_000), ("Bea", 2_000))
        )
    )
    world.wallet.step()
    assert (ann.result(0).balance, bea.result(0).balance) == (1_000, 2_000)
    ann, bea = world.submit(
        world.bet_command("Ann", "tie", 300, tx="T1"), world.bet_command("Bea", "player", 500, tx="T1")
    )
    world.wallet.step()
    assert (ann.result(0).balance, bea.result(0).balance) == (700, 1_500)


def test_w1_ids_are_opaque_and_case_sensitive(world):
    world.open_table()
    world.deposit("Ann", 1_000)
    ids = ["t1", "T1", " T1", "ﬁ", "fi", "'; --", "x" * 64]
    assert [world.bet("Ann", "tie", 10, tx=tx).replayed for tx in ids] == [False] * len(ids)
    assert [world.bet("Ann", "tie", 10, tx=tx).replayed for tx in ids] == [True] * len(ids)


def test_w1_the_same_reference_at_two_operators_is_two_accounts(world):
    for operator in ("op", "other"):
        world.ask(Deposit(operator=operator, account="Ann", tx="D1", currency="EUR", amount=100))
    assert len({event.data.account for event in world.events(AccountOpened)}) == 2
    assert world.cash("Ann") == 100


def test_w3_a_replay_answers_what_was_answered_and_writes_nothing(world):
    world.open_table()
    world.deposit("Ann", 1_000)
    first = world.bet("Ann", "player", 300, tx="T1")
    world.play(1, "player")
    world.deposit("Ann", 50)
    world.restart()
    before = world.events()
    again = world.bet("Ann", "player", 300, tx="T1")
    assert (first.event.bet, first.code, first.balance, first.current) == (again.event.bet, "OK", 700, 700)
    assert (again.balance, again.current, again.replayed) == (700, 1_350, True)
    assert world.events() == before


def test_w3_a_deposit_answers_the_same_again(world):
    first = world.deposit("Ann", 1_000, tx="D1")
    world.deposit("Ann", 500)
    again = world.deposit("Ann", 1_000, tx="D1")
    assert (first.balance, first.replayed) == (1_000, False)
    assert (again.balance, again.current, again.replayed) == (1_000, 1_500, True)
    assert world.cash("Ann") == 1_500


def test_w6_refused_for_lack_of_money_stays_refused_after_a_deposit(world):
    world.open_table()
    world.deposit("Ann", 100)
    assert world.bet("Ann", "tie", 500, tx="T1").code == "INSUFFICIENT_FUNDS"
    world.deposit("Ann", 1_000)
    again = world.bet("Ann", "tie", 500, tx="T1")
    assert (again.code, again.replayed, again.balance) == ("INSUFFICIENT_FUNDS", True, 100)
    assert world.bet("Ann", "tie", 500, tx="T2").code == "OK"
    assert world.cash("Ann") == 600
    assert [event.data.tx for event in world.events(BetRefused)] == ["T1"]


def test_a_bet_on_a_coup_that_is_not_known_yet_is_not_stored_and_may_be_repeated(world):
    world.deposit("Ann", 1_000)
    assert refused(world, "Ann", "tie", 500, tx="T1").code == "COUP_UNKNOWN"
    world.hear(world.game.open_table())
    assert refused(world, "Ann", "tie", 500, tx="T1").code == "COUP_UNKNOWN"
    world.hear(world.game.open(1))
    answer = world.bet("Ann", "tie", 500, tx="T1")
    assert (answer.code, answer.replayed) == ("OK", False)
    assert world.events(BetRefused, ConflictDetected) == []


def test_a_refused_command_leaves_no_account_behind(world):
    assert refused(world, "Zoe", "tie", 500).code == "COUP_UNKNOWN"
    with pytest.raises(Refusal):
        world.deposit("Zoe", 500, currency="XXQ")
    with world.reader.connect() as db, db.begin():
        assert db.execute(sa.text("SELECT count(*) FROM wallet_reference")).scalar() == 0
        with pytest.raises(Refusal, match="has no account 'Zoe'"):
            balances_of(db, OPERATOR, "Zoe")
    assert world.events() == []
    world.deposit("Zoe", 500)
    assert world.cash("Zoe") == 500


@pytest.mark.parametrize(
    ("command", "field"),
    [("deposit", "amount"), ("bet", "stake")],
)
def test_w26_an_amount_above_the_limit_is_refused_and_stops_nobody(world, command, field):
    world.open_table()
    too_much = {
        "deposit": lambda: world.deposit("Ann", 10**15 + 1),
        "bet": lambda: world.bet("Ann", "tie", 2**64),
    }
    with pytest.raises(Refusal) as caught:
        too_much[command]()
    assert (caught.value.code, caught.value.field) == ("LIMIT_REACHED", field)
    assert world.deposit("Ann", 10**15).balance == 10**15


def test_w26_totals_beyond_64_bits(world):
    """9,300 deposits of ten million millions of euros: more cents than a signed 64-bit number can hold."""
    deposits = [
        Deposit(operator=OPERATOR, account="Ann", tx=f"D{number}", currency="EUR", amount=10**15)
        for number in range(9_300)
    ]
    answers = world.submit(*deposits)
    world.run()
    assert answers[-1].result(0).balance == 9_300 * 10**15 > 2**63
    world.open_table()
    world.bet("Ann", "tie", 10**15)
    world.restart()
    assert world.cash("Ann") == 9_299 * 10**15
    world.play(1, "tie")
    assert world.cash("Ann") == 9_308 * 10**15
    assert world.balances()["1030", None, "EUR"] == 9_300 * 10**15
    assert world.ask(deposits[-1]).balance == 9_300 * 10**15
    with world.reader.connect() as db, db.begin():
        assert balances_of(db, OPERATOR, "Ann") == [
            wealth("EUR", cash="93080000000000000.00", in_play="0.00")
        ]


# ---------------------------------------------------------------------------- a coup from opening to payment


def test_a_late_bet_is_refused_by_the_seal_and_not_by_a_clock(world):
    world.open_table()
    world.deposit("Ann", 1_000)
    world.hear(world.game.close(1))
    world.clock.advance(-3_600)
    assert world.bet("Ann", "tie", 100, tx="late").code == "BETTING_CLOSED"
    world.hear(world.game.conclude(1, "tie"))
    assert world.bet("Ann", "tie", 100).code == "ROUND_CLOSED"
    assert world.bet("Ann", "tie", 100, tx="late").code == "BETTING_CLOSED"
    assert (world.cash("Ann"), returned(world)) == (1_000, [("tie", "refused", 0, 0)] * 2)
    world.restart()
    assert world.bet("Ann", "tie", 100).code == "ROUND_CLOSED"


def test_a_bet_and_the_end_of_betting_in_one_batch(world):
    """What is on the bus counts first: a bet that wallet has not taken when it reads of the end is late."""
    world.open_table()
    world.deposit("Ann", 1_000)
    (bet,) = world.submit(world.bet_command("Ann", "tie", 100))
    world.bus.publish([world.game.close(1)])
    world.wallet.step()
    assert bet.result(0).code == "BETTING_CLOSED"
    assert world.events(BetsSealed)[0].data.bets == 0


def test_a_spot_that_the_table_does_not_offer(world):
    world.hear(world.game.open_table(), world.game.open(1, spots=("player", "banker")))
    world.deposit("Ann", 1_000)
    assert world.bet("Ann", "tie", 100).code == "SPOT_UNKNOWN"
    assert world.cash("Ann") == 1_000


def test_what_the_seal_says(world):
    world.open_table(coups=2)
    for who in ("Ann", "Bea", "Cleo"):
        world.deposit(who, 10_000)
        world.deposit(who, 10_000, currency="JPY")
    world.bet("Ann", "tie", 50, coup=2)  # another coup's
    for who, spot, stake, seat, currency in (
        ("Ann", "player", 600, 4, "EUR"),
        ("Ann", "player", 400, 4, "EUR"),
        ("Bea", "player", 1_000, 2, "EUR"),
        ("Cleo", "player", 999, 1, "EUR"),
        ("Cleo", "player", 5_000, None, "EUR"),  # nobody's seat
        ("Bea", "banker", 9_000, 2, "EUR"),
        ("Bea", "player", 70, 2, "JPY"),
        ("Ann", "banker", 20_000, 4, "EUR"),  # refused
    ):
        world.bet(who, spot, stake, seat=seat, currency=currency)
    world.bet("Ann", "tie", 50, coup=2)
    accepted = [event for event in world.events(BetAccepted) if event.data.coup == 1]
    world.hear(world.game.close(1))
    (seal,) = world.events(BetsSealed)
    assert (seal.data.table, seal.data.shoe, seal.data.coup, seal.data.bets) == (TABLE, SHOE, 1, 7)
    assert (seal.data.first, seal.data.last) == (accepted[0].sequence, accepted[-1].sequence)
    assert seal.data.digest == accepted[-1].hash
    assert seal.data.totals == (
        SpotTotal(spot="banker", currency="EUR", exponent=2, bets=1, stake=9_000),
        SpotTotal(spot="player", currency="EUR", exponent=2, bets=5, stake=7_999),
        SpotTotal(spot="player", currency="JPY", exponent=0, bets=1, stake=70),
    )
    assert seal.data.largest_player == (
        LargestPlayerBet(currency="EUR", exponent=2, stake=1_000, seats=(2, 4)),
        LargestPlayerBet(currency="JPY", exponent=0, stake=70, seats=(2,)),
    )
    assert seal.envelope.causationid == world.game.stream.events[-1].envelope.id


@pytest.mark.parametrize("restart", [False, True])
def test_a_seal_without_bets_names_the_streams_latest_event(world, restart):
    world.open_table(coups=2)
    world.hear(world.game.close(1))
    first = world.events(BetsSealed)[0]
    assert (first.data.bets, first.data.first, first.data.last) == (0, None, None)
    assert (first.data.totals, first.data.largest_player) == ((), ())
    assert first.data.digest == first.envelope.previous == "0" * 64, "nothing was written before"
    world.deposit("Ann", 100)
    if restart:
        world.restart()
    world.hear(world.game.close(2))
    second = world.events(BetsSealed)[1]
    assert second.data.digest == second.envelope.previous == world.events(Deposited)[0].hash


def test_a_seal_after_a_restart_says_the_same(world):
    world.open_table()
    world.deposit("Ann", 1_000)
    for stake in (100, 200):
        world.bet("Ann", "player", stake, seat=3)
    last = world.events(BetAccepted)[-1]
    world.restart()
    world.hear(world.game.close(1))
    (seal,) = world.events(BetsSealed)
    assert (seal.data.last, seal.data.digest) == (last.sequence, last.hash)
    assert seal.data.largest_player[0].stake == 300


def test_a_coup_of_250_bets_is_settled_in_three_parts_in_one_transaction(world):
    world.open_table()
    players = [f"player-{number}" for number in range(250)]
    for who in players:
        world.deposit(who, 1_010)
    spots = ("player", "banker", "tie")
    world.submit(*(world.bet_command(who, spots[n % 3], 1_010) for n, who in enumerate(players)))
    world.run()
    world.hear(world.game.close(1))
    commits = []
    engine = world.wallet.store._connection.engine
    sa.event.listen(engine, "commit", lambda db: commits.append(world.wallet.store.position))
    world.hear(world.game.conclude(1, "banker"))
    parts = world.events(CoupSettled)
    assert [(each.data.part, each.data.parts, len(each.data.bets)) for each in parts] == [
        (1, 3, 100),
        (2, 3, 100),
        (3, 3, 50),
    ]
    assert [each.sequence for each in parts] == list(range(parts[0].sequence, parts[0].sequence + 3))
    assert commits.count(world.wallet.store.position) >= 1
    assert parts[0].sequence not in commits, "no commit saw a part without the others"
    assert parts[1].sequence not in commits
    assert [sum(posting.amount for posting in each.data.entry) for each in parts] == [0, 0, 0]
    assert max(len(each.body) for each in parts) < EVENT_BYTES_MAX
    assert len({bet.bet for each in parts for bet in each.data.bets}) == 250
    assert [world.cash(who) for who in players[:3]] == [0, 1_969, 0]
    assert {each.status for each in world.bets()} == {"won", "lost"}


@pytest.mark.parametrize("end", ["settled", "returned"])
def test_the_longest_part_that_can_be_fits_in_an_event(tmp_path, end):
    """A hundred largest bets of a hundred players, under names as long as they may be."""
    settings = Settings(operator=OPERATOR, shard="s" * 40)
    with World(tmp_path, settings) as world:
        world.game = Game(table="ß" * 64)
        rules = house(rate="0.049999", rounding_mode="half_up")
        world.hear(world.game.open_table(rules, shard=settings.shard), world.game.open(1))
        for number in range(100):
            who = f"player-{number}"
            world.deposit(who, 10**15 - 1, tx="D" * 64)
            bet = world.bet_command(who, "banker", 10**15 - 1, tx="B" * 64, table="ß" * 64)
            assert world.ask(bet).code == "OK"
        world.hear(world.game.close(1))
        world.hear(world.game.conclude(1, "banker") if end == "settled" else world.game.void(1, "v" * 200))
        (event,) = world.events(CoupSettled, CoupReturned)
        assert len(event.data.bets) == 100
        assert len(event.body) <= EVENT_BYTES_MAX


def test_a_coup_without_bets_is_settled_all_the_same(world):
    world.open_table(coups=2)
    world.play(1, "player")
    world.hear(world.game.void(2))
    (settled,), (gone_back,) = world.events(CoupSettled), world.events(CoupReturned)
    assert (settled.data.part, settled.data.parts, settled.data.bets, settled.data.entry) == (1, 1, (), ())
    assert (gone_back.data.part, gone_back.data.parts, gone_back.data.entry) == (1, 1, ())


def test_a_settlement_names_the_result_that_it_obeys(world):
    world.open_table()
    world.play(1, "player")
    (settled,) = world.events(CoupSettled)
    result = world.game.stream.events[-1]
    assert (settled.data.result.stream, settled.data.result.sequence, settled.data.result.hash) == (
        result.stream,
        result.sequence,
        result.hash,
    )
    assert (settled.data.version, settled.data.house_number, settled.data.outcome) == (1, 1, "player")
    assert settled.envelope.causationid == result.envelope.id
    assert settled.envelope.correlationid == f"{OPERATOR}/{TABLE}/{SHOE}/1"


@pytest.mark.parametrize("closed", [True, False])
def test_a_void_coup_gives_every_stake_back(world, closed):
    world.open_table()
    world.deposit("Ann", 1_000)
    for spot in ("player", "banker", "tie"):
        world.bet("Ann", spot, 300)
    assert world.cash("Ann") == 100
    if closed:
        world.hear(world.game.close(1))
    world.hear(world.game.void(1, "the shoe was dropped"))
    assert world.cash("Ann") == 1_000
    assert returned(world) == [(spot, "void", 300, 0) for spot in ("player", "banker", "tie")]
    (event,) = world.events(CoupReturned)
    assert event.data.reason == "the shoe was dropped"
    assert sum(posting.amount for posting in event.data.entry) == 0
    assert {line[0] for line in world.balances()} == {"1030", "2010"}


def test_a_coup_is_paid_by_the_house_that_was_in_force_when_it_was_opened(world):
    world.open_table()
    world.deposit("Ann", 2_000)
    world.hear(world.game.set_house(house(rate="0.1")), world.game.open(2))
    for coup in (1, 2):
        world.bet("Ann", "banker", 1_000, coup=coup)
    world.restart()
    for coup in (1, 2):
        world.play(coup, "banker")
    assert [returned(world, coup) for coup in (1, 2)] == [
        [("banker", "won", 1_950, 50)],
        [("banker", "won", 1_900, 100)],
    ]


def test_tables_of_another_shard_are_none_of_our_business(world):
    world.hear(world.game.open_table(shard="elsewhere"), world.game.open(1), world.game.close(1))
    world.hear(world.game.conclude(1, "tie"))
    assert world.events() == []
    assert world.wallet.inbox.held == {}
    world.deposit("Ann", 100)
    assert refused(world, "Ann", "tie", 100).code == "COUP_UNKNOWN"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (lambda game: [game.conclude(1, "tie")], "has a result before its bets were sealed"),
        (lambda game: [game.close(7)], "was never opened"),
        (lambda game: [game.conclude(7, "tie")], "was never opened"),
        (lambda game: [game.open(1)], "was opened before"),
        (lambda game: [game.void(1), game.open(1)], "was opened before"),
        (lambda game: game.open_table()[:1], "was opened before"),
        (lambda game: [game.open(2, house_number=5)], "house 5, which was never set"),
        (lambda game: [game.close(1), game.conclude(1, "tie", tiers={"player": "win"})], "banker"),
        (lambda game: [game.close(1), game.conclude(1, "tie", tiers={"banker": "most"})], "no tier 'most'"),
    ],
)
@pytest.mark.parametrize("restart", [False, True])
def test_game_contradicting_itself_holds_that_table_and_moves_nothing(world, said, words, restart):
    world.open_table()
    other = Game("T2")
    world.hear(other.open_table(), other.open(1))
    world.deposit("Ann", 1_000)
    world.bet("Ann", "banker", 500)
    before = world.cash("Ann")
    if restart:
        world.restart()
    *well, wrong = said(world.game)
    world.hear(*well)
    cash = world.cash("Ann")
    world.hear(wrong, world.game.set_house("nl"))
    assert list(world.wallet.inbox.held) == [world.game.stream.name]
    assert words in world.wallet.inbox.held[world.game.stream.name]
    assert world.cash("Ann") == cash
    assert world.bet("Ann", "player", 100, table="T2").code == "OK", "other tables go on"
    assert before == 500


def test_betting_closed_twice_is_one_seal(world):
    world.open_table()
    world.hear(world.game.close(1), world.game.close(1), world.game.conclude(1, "tie"), world.game.close(1))
    assert len(world.events(BetsSealed)) == 1
    assert world.wallet.inbox.held == {}


def test_open_bets_outlive_a_restart_and_are_paid(world):
    world.open_table(coups=3)
    world.deposit("Ann", 900)
    for coup in (1, 2, 3):
        world.bet("Ann", "player", 300, coup=coup)
    world.hear(world.game.close(1))
    world.restart()
    assert world.cash("Ann") == 0
    world.hear(world.game.conclude(1, "player"), world.game.void(2))
    world.restart()
    world.play(3, "banker")
    assert world.cash("Ann") == 600 + 300
    assert [returned(world, coup)[0][1] for coup in (1, 2, 3)] == ["won", "void", "lost"]
    assert world.balances().get(("2030", None, "EUR"), 0) == 0


def test_no_event_knows_the_operators_name_for_a_player(world):
    references = ["Jörg Müller-4711", "ann@example.com", "+31 6 1234 5678"]
    world.open_table(coups=2)
    for who in references:
        world.deposit(who, 1_000)
        world.bet(who, "banker", 400)
        world.bet(who, "banker", 9_000)  # refused
        world.bet(who, "tie", 1, tx="again", coup=2)
        assert refused(world, who, "tie", 2, tx="again", coup=2).code == "IDEMPOTENCY_CONFLICT"
    world.play(1, "banker")
    world.hear(world.game.void(2))
    kinds = {type(event.data) for event in world.events()}
    assert kinds >= {Deposited, BetAccepted, BetRefused, ConflictDetected, CoupSettled, CoupReturned}
    everything = b"".join(each.body for each in world.bus.read("wallet.events"))
    for who in references:
        for spelt in (who, who.encode("unicode_escape").decode(), who.split()[0]):
            assert spelt.encode() not in everything
    accounts = {event.data.account for event in world.events(AccountOpened)}
    assert len(accounts) == 3
    assert len({account[:2] for account in accounts}) == 3, "an id does not say which came first"
