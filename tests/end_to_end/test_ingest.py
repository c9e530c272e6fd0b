"""Recorded coups through the whole room: what comes out, what is rejected and why; nothing is done twice."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from services.cli.main import build
from tests.end_to_end.support import run_command

REPOSITORY = Path(__file__).parents[2]

app = build()
runner = CliRunner()

DEPOSIT: dict[str, Any] = {
    "type": "deposit",
    "account": "alice",
    "amount": "1000.00",
    "currency": "EUR",
    "tx": "d1",
}
COUP: dict[str, Any] = {
    "type": "coup",
    "table": "T1",
    "house": "nl",
    "shoe": "S1",
    "coup": 1,
    "cards": ["8C", "8C", "7C", "5D", "9D", "QH"],
    "bets": [{"account": "alice", "spot": "banker", "stake": "25.00", "currency": "EUR", "tx": "b1"}],
}


def bet(tx, stake="10.00", spot="banker", account="alice", currency="EUR", **more):
    return {"account": account, "spot": spot, "stake": stake, "currency": currency, "tx": tx, **more}


def coup(number, *cards, bets=(), **more):
    return {**COUP, "coup": number, "cards": list(cards), "bets": list(bets), **more}


class Ingested:
    """One run of the command over lines, and what it left behind."""

    def __init__(self, folder: Path, lines, name="coups.jsonl"):
        self.file = folder / name
        self.out = folder / (name + ".csv")
        text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
        self.file.write_text(text, encoding="utf-8")
        command = ["ingest", str(self.file), "--data", str(folder / "data"), "--out", str(self.out), "--json"]
        result = runner.invoke(app, command)
        self.status, self.summary = result.exit_code, json.loads(result.stdout)
        self.csv = self.out.read_bytes()
        self.rows = list(csv.DictReader(self.csv.decode().splitlines()))
        rejects = folder / (name + ".rejected.jsonl")
        self.rejected = (
            [json.loads(line) for line in rejects.read_text("utf-8").splitlines()] if rejects.exists() else []
        )

    def row(self, tx):
        [found] = [row for row in self.rows if row["tx"] == tx]
        return found


def test_the_line_of_the_documentation_is_settled_to_the_cent(tmp_path):
    done = Ingested(tmp_path, [DEPOSIT, COUP])
    assert done.status == 0
    assert done.csv.decode() == (
        "table,shoe,coup,outcome,player_total,banker_total,account,tx,spot,stake,returned,commission,currency,status\n"
        "T1,S1,1,player,4,3,alice,b1,banker,25.00,0.00,0.00,EUR,lost\n"
    )


def test_commission_tie_and_push_come_out_as_the_sheet_says(tmp_path):
    done = Ingested(
        tmp_path,
        [
            DEPOSIT,
            coup(1, "KC", "4D", "QH", "3S", "2D", bets=[bet("win", "10.10"), bet("even", "10.00", "player")]),
            coup(
                2,
                "6C",
                "6D",
                "KH",
                "KS",
                bets=[bet("tie", "10.00", "tie"), bet("push", "7.77"), bet("both", "5.00", "player")],
            ),
        ],
    )
    # Player 0 draws 2; Banker 7 stands: 2 against 7. 5 % of 10.10 is 0.505, half up 0.51.
    assert done.row("win") | {"returned": "19.69", "commission": "0.51", "status": "won"} == done.row("win")
    assert done.row("even")["status"] == "lost"
    assert (done.row("tie")["returned"], done.row("tie")["status"]) == ("90.00", "won")
    assert (done.row("push")["returned"], done.row("push")["commission"]) == ("7.77", "0.00")
    assert {done.row(tx)["status"] for tx in ("push", "both")} == {"push"}


def test_the_same_file_again_changes_nothing_and_gives_the_same_output(tmp_path):
    lines = [
        DEPOSIT,
        COUP,
        coup(2, "6C", "6D", "KH", "KS", bets=[bet("poor", "5000.00"), bet("rich", "1.00")]),
    ]
    first = Ingested(tmp_path, lines)
    events = _events(tmp_path)
    second = Ingested(tmp_path, lines)
    assert second.csv == first.csv
    assert _events(tmp_path) == events
    assert second.summary["repeated_lines"] == 3


def test_a_line_that_stands_twice_in_a_file_gives_its_rows_once(tmp_path):
    done = Ingested(tmp_path, [DEPOSIT, COUP, COUP])
    assert [row["tx"] for row in done.rows] == ["b1"]
    assert done.status == 0


def test_not_enough_money_refuses_that_bet_only(tmp_path):
    done = Ingested(
        tmp_path, [DEPOSIT, coup(1, "6C", "6D", "KH", "KS", bets=[bet("a", "1000.01"), bet("b", "1000.00")])]
    )
    assert done.row("a") | {"status": "refused", "returned": "0.00", "commission": "0.00"} == done.row("a")
    assert done.row("b")["status"] == "push"


def test_an_account_that_never_paid_in_is_refused_not_rejected(tmp_path):
    done = Ingested(tmp_path, [coup(1, "6C", "6D", "KH", "KS", bets=[bet("x", account="nobody")])])
    assert (done.status, done.row("x")["status"], done.row("x")["account"]) == (0, "refused", "nobody")


def test_a_balance_that_was_won_can_be_bet_in_the_next_line(tmp_path):
    done = Ingested(
        tmp_path,
        [
            {**DEPOSIT, "amount": "100.00"},
            coup(1, "9C", "8D", "KH", "KS", bets=[bet("one", "100.00", "player")]),
            coup(2, "9C", "8D", "KH", "KS", bets=[bet("two", "200.00", "player")]),
            {**coup(1, "9C", "8D", "KH", "KS", bets=[bet("three", "400.00", "player")]), "table": "T2"},
            {**coup(2, "9C", "8D", "KH", "KS", bets=[bet("four", "800.01", "player")]), "table": "T2"},
        ],
    )
    assert [done.row(tx)["status"] for tx in ("one", "two", "three", "four")] == [
        "won",
        "won",
        "won",
        "refused",
    ]


REJECTED = {
    "a card too few": (coup(2, "8C", "8C", "7C", "5D", "9D"), "cards", "sixth card is missing"),
    "a card too many": (coup(2, "8C", "8C", "7C", "5D", "9D", "QH", "2C"), "cards", "seventh card"),
    "a fifth card that nobody may draw": (coup(2, "8C", "8D", "KC", "5D", "9D"), "cards", "natural 8"),
    "a card that is none": (coup(2, "8C", "1X", "KC", "5D"), "cards[1]", "not a card"),
    "the same coup with other cards": (coup(1, "6C", "6D", "KH", "KS"), "cards", "other cards"),
    "the same coup at another house": ({**COUP, "house": "fr"}, "house", "'nl'"),
    "the same coup with other bets": (
        {**COUP, "bets": [*COUP["bets"], bet("b9")]},
        "bets[1].tx",
        "without this bet",
    ),
    "the same coup without its bets": ({**COUP, "bets": []}, "bets", "1 bets"),
    "an unknown spot": (
        coup(2, "6C", "6D", "KH", "KS", bets=[bet("b9", spot="pair")]),
        "bets[0].spot",
        "'pair'",
    ),
    "an unknown house": ({**coup(2, "6C", "6D", "KH", "KS"), "house": "xx"}, "house", "'xx'"),
    "a stake of zero": (
        coup(2, "6C", "6D", "KH", "KS", bets=[bet("b9", "0.00")]),
        "bets[0].stake",
        "more than zero",
    ),
    "a negative stake": (
        coup(2, "6C", "6D", "KH", "KS", bets=[bet("b9", "-5")]),
        "bets[0].stake",
        "not an amount",
    ),
    "too many decimals": (
        coup(2, "6C", "6D", "KH", "KS", bets=[bet("b8"), bet("b9", "10.005")]),
        "bets[1].stake",
        "too many decimals",
    ),
    "a stake that is a number": (
        coup(2, "6C", "6D", "KH", "KS", bets=[{**bet("b9"), "stake": 10}]),
        "bets[0].stake",
        "decimal string",
    ),
    "a currency nobody knows": (
        coup(2, "6C", "6D", "KH", "KS", bets=[bet("b9", currency="XYZ")]),
        "bets[0].currency",
        "'XYZ'",
    ),
    "a second deposit of another amount": ({**DEPOSIT, "amount": "1000.01"}, "amount", "another amount"),
    "a second bet of another stake": (
        coup(2, "6C", "6D", "KH", "KS", bets=[bet("b1", "26.00")]),
        "bets[0].tx",
        "used before",
    ),
    "one id twice in a line": (
        coup(2, "6C", "6D", "KH", "KS", bets=[bet("b9"), bet("b9", "11.00")]),
        "bets[1].stake",
        "bets[0]",
    ),
    "a dealer's seat that lt needs": (
        {**coup(2, "KC", "6D", "KH", "6S"), "house": "lt"},
        "dealer_seat",
        "which seat",
    ),
    "a seat that lt does not have": (
        {**coup(2, "KC", "6D", "KH", "6S"), "house": "lt", "dealer_seat": 15},
        "dealer_seat",
        "1 to 14",
    ),
    "a coup number below zero": (coup(-1, "6C", "6D", "KH", "KS"), "coup", "greater than or equal to 0"),
    "a key that stands twice": (
        '{"type":"deposit","account":"alice","amount":"1.00","amount":"2.00","currency":"EUR","tx":"d9"}',
        "amount",
        "twice",
    ),
    "a bet that is no object": ({**COUP, "coup": 2, "bets": ["b9"]}, "bets[0]", "must be an object"),
    "a number that is none": ('{"type":"coup","coup":NaN}', "line", "NaN is no number"),
    "broken JSON": ('{"type":"coup",', "line", "not valid JSON"),
    "no object": ("[1]", "line", "JSON object"),
    "an unknown type": ({"type": "withdrawal"}, "type", "'withdrawal'"),
    "a missing field": (
        {"type": "deposit", "account": "alice", "amount": "1.00", "currency": "EUR"},
        "tx",
        "missing",
    ),
}


@pytest.mark.parametrize("name", REJECTED)
def test_a_line_that_cannot_be_is_rejected_whole_and_the_rest_goes_on(tmp_path, name):
    line, field, words = REJECTED[name]
    after = coup(3, "6C", "6D", "KH", "KS", bets=[bet("after")])
    done = Ingested(tmp_path, [DEPOSIT, COUP, line, after])
    assert done.status == 3
    [rejected] = done.rejected
    assert (rejected["line"], rejected["field"]) == (3, field)
    assert words in rejected["reason"]
    assert [row["tx"] for row in done.rows] == ["b1", "after"]
    assert done.row("after")["status"] == "push"
    # Nothing of the line is in the books: alice has what the other lines left her.
    assert _cash(tmp_path, "alice") == "975.00"


def test_rejections_stand_in_the_order_of_the_file(tmp_path):
    lines = [DEPOSIT, coup(1, "8C", "8C", "7C"), "{", coup(2, "8C", "8D", "KC", "5D", "9D"), {"type": "x"}]
    assert [each["line"] for each in Ingested(tmp_path, lines).rejected] == [2, 3, 4, 5]


def test_copies_of_a_card_are_counted_over_the_shoe(tmp_path):
    eights = [coup(number, "8C", "8C", "8C", "8C") for number in (1, 2, 3)]
    done = Ingested(tmp_path, [*eights, {**coup(4, "8C", "8C", "8C", "8C"), "shoe": "S2"}])
    [rejected] = done.rejected
    assert rejected["line"] == 3
    assert "8C" in rejected["reason"]
    assert "8 decks" in rejected["reason"]


def test_ranks_without_suits_count_too(tmp_path):
    # Thirty-two eights in eight decks: the ninth coup of four would make thirty-six.
    lines = [coup(number, "8", "8", "8H", "8") for number in range(1, 10)]
    assert [each["line"] for each in Ingested(tmp_path, lines).rejected] == [9]


def test_where_every_round_is_shuffled_copies_count_per_coup(tmp_path):
    lines = [{**coup(number, "8C", "8C", "8C", "8C"), "house": "de"} for number in range(1, 20)]
    assert Ingested(tmp_path, lines).status == 0
    seven = {**coup(99, "8C", "AC", "AC", "AC", "AC", "AC"), "house": "de"}
    assert Ingested(tmp_path, [seven], "more.jsonl").status in (0, 3)


def test_coup_numbers_start_anywhere_and_may_have_gaps_and_an_earlier_shoe_may_return(tmp_path):
    lines = [
        coup(0, "6C", "6D", "KH", "KS"),
        coup(7, "6C", "6D", "KH", "KS"),
        {**coup(41, "6C", "6D", "KH", "KS"), "shoe": "S2"},
        coup(3, "6C", "6D", "KH", "KS"),
    ]
    done = Ingested(tmp_path, lines)
    assert (done.status, done.summary["coups"]) == (0, 4)


def test_ten_may_be_written_10(tmp_path):
    done = Ingested(tmp_path, [DEPOSIT, coup(1, "10C", "6D", "6H", "10", bets=[bet("b1")])])
    assert (done.row("b1")["player_total"], done.row("b1")["banker_total"]) == ("6", "6")


def test_yen_have_no_decimals_and_dinars_three(tmp_path):
    done = Ingested(
        tmp_path,
        [
            {**DEPOSIT, "amount": "1000", "currency": "JPY", "tx": "j"},
            {**DEPOSIT, "amount": "1.234", "currency": "KWD", "tx": "k"},
            {**DEPOSIT, "amount": "1.5", "currency": "JPY", "tx": "x"},
            coup(
                1,
                "KC",
                "4D",
                "QH",
                "3S",
                "2D",
                bets=[bet("j1", "100", currency="JPY"), bet("k1", "1.234", currency="KWD")],
            ),
        ],
    )
    assert [each["field"] for each in done.rejected] == ["amount"]
    assert done.row("j1") | {"stake": "100", "returned": "195", "commission": "5"} == done.row("j1")
    # 5 % of 1.234 is 0.0617: 0.062.
    assert done.row("k1") | {"returned": "2.406", "commission": "0.062"} == done.row("k1")


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path):
    done = Ingested(tmp_path, ["\ufeff" + json.dumps(DEPOSIT), COUP])
    assert (done.status, done.row("b1")["status"]) == (0, "lost")


@pytest.mark.parametrize("target", ["coups.jsonl", "data/game.db", "data/bus.db", "data"])
def test_the_settlements_never_take_the_place_of_what_they_are_made_from(tmp_path, target):
    Ingested(tmp_path, [DEPOSIT, COUP])
    before = {path: path.read_bytes() for path in (tmp_path / "data").iterdir()}
    command = ["ingest", str(tmp_path / "coups.jsonl"), "--data", str(tmp_path / "data")]
    assert runner.invoke(app, [*command, "--out", str(tmp_path / target)]).exit_code == 2
    assert {path: path.read_bytes() for path in (tmp_path / "data").iterdir()} == before
    assert json.loads((tmp_path / "coups.jsonl").read_text("utf-8").splitlines()[0]) == DEPOSIT


def test_a_link_is_written_through_and_stays_a_link(tmp_path):
    (tmp_path / "coups.jsonl.csv").symlink_to(tmp_path / "elsewhere.csv")
    done = Ingested(tmp_path, [DEPOSIT, COUP])
    assert done.out.is_symlink()
    assert (tmp_path / "elsewhere.csv").read_bytes() == done.csv


@pytest.mark.parametrize("house", ["nl", "fr", "de", "dk", "lt"])
def test_the_shipped_example_of_each_house_is_taken_whole_and_verified(tmp_path, house):
    example = REPOSITORY / "examples" / f"{house}.jsonl"
    done = Ingested(tmp_path, example.read_text("utf-8").splitlines())
    assert (done.status, done.summary["coups"]) == (0, 12)
    verified = runner.invoke(app, ["verify", "--data", str(tmp_path / "data"), "--json"])
    assert verified.exit_code == 0
    assert json.loads(verified.stdout)["coups"]["verified"] == 12


def _events(folder):
    from services.runtime.bus.embedded import EmbeddedBus

    bus = EmbeddedBus(folder / "data" / "bus.db", read_only=True)
    try:
        return [
            each.body
            for topic in ("game.events", "wallet.events", "audit.events")
            for each in bus.read(topic)
        ]
    finally:
        bus.close()


def _cash(folder, account):
    from services.runtime.database import open_sqlite
    from services.wallet.queries import balances_of

    with open_sqlite(folder / "data" / "wallet.db", writer=False).connect() as db:
        return balances_of(db, "main", account)[0]["cash"]


def test_who_interrupts_it_is_told_what_was_kept(tmp_path, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "coups.jsonl").write_text(json.dumps(DEPOSIT), encoding="utf-8")
    monkeypatch.setattr("services.cli.ingest._run", interrupted)
    ended = run_command("ingest", tmp_path / "coups.jsonl", "--data", tmp_path / "data")
    assert (ended.status, ended.out) == (130, "")
    assert ended.err == "\nstopped; what was committed is kept, and the same command goes on from there\n"
