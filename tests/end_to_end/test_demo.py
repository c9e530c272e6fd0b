"""``sabot demo``: each house plays by itself, pays every bet, and audit verifies every coup."""

import itertools
import json
import re
from collections import Counter
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from schemas.events.game import (
    CardsToSqueeze,
    CoupConcluded,
    CoupOpened,
    ShoeCommitted,
    ShoeEnded,
    ShoePassed,
)
from schemas.events.wallet import BetAccepted
from tests.end_to_end.support import (
    Forger,
    accounts_of,
    change_body,
    complaint,
    coups_of,
    events_of,
    sabot,
    sabot_json,
    stream_of,
)

COUPS = 12


class MoneyTables(HTMLParser):
    """The rows of the report's money tables: a name, and what stands in the cells behind it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._inside = ("class", "money") in attrs
        elif self._inside and tag == "tr":
            self.rows.append([])
        elif self._inside and tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside and self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def amount(text: str) -> Decimal:
    return Decimal(text.replace(",", "").replace("−", "-"))


def money(row: list[str]) -> dict[str, Decimal]:
    return dict(zip(("bets", "staked", "returned", "commission", "house"), map(amount, row[1:]), strict=True))


@pytest.mark.parametrize("house", ["nl", "fr", "de", "dk", "lt"])
def test_a_house_plays_pays_and_is_verified(tmp_path, house):
    done = sabot_json(
        "demo", "--house", house, "--coups", str(COUPS), "--seats", "5", "--data", tmp_path / "d"
    )
    assert done["ok"] is True
    assert done["coups"] == {"verified": COUPS, "of_these_void": 0, "discrepancy": 0, "open": 0}
    assert sum(done["outcomes"].values()) == COUPS
    assert done["bets"] == COUPS * 5
    [row] = done["money"]
    staked, returned, kept = Decimal(row["staked"]), Decimal(row["returned"]), Decimal(row["house"])
    assert staked - returned == kept

    page = Path(done["report"]).read_text("utf-8")
    rows = MoneyTables(page).rows[1:]
    *spots, total = map(money, rows)
    assert total == {name: sum(each[name] for each in spots) for name in total}
    expected = {name: Decimal(row[name]) for name in ("staked", "returned", "commission", "house")}
    assert total == {"bets": COUPS * 5, **expected}

    # The spots themselves are those of the coups, one by one.
    bets = [bet for coup in coups_of(tmp_path / "d") for bet in coup["bets"]]
    for name, spot in zip([each[0] for each in rows], spots, strict=False):
        of_spot = [bet for bet in bets if name.lower().endswith(bet["spot"])]
        assert spot["bets"] == len(of_spot)
        assert spot["staked"] == sum(Decimal(bet["stake"]) for bet in of_spot)
        assert spot["returned"] == sum(Decimal(bet["returned"]) for bet in of_spot)


def test_the_report_needs_nothing_from_anywhere(tmp_path):
    done = sabot_json("demo", "--coups", "3", "--data", tmp_path / "d")
    page = Path(done["report"]).read_text("utf-8")
    assert "http:" not in page
    assert "https:" not in page
    assert not re.search(r"<(script|link|img|iframe|object|embed)\b|@import|\bsrc\s*=", page)
    assert all(
        target.startswith("#") for target in re.findall(r"""(?:href|url)\s*[=(]\s*["']?([^"')\s>]+)""", page)
    )
    assert page.count("<article ") == 3


def test_what_people_read_says_what_machines_read(tmp_path):
    words = sabot("demo", "--coups", "4", "--seed", "words", "--data", tmp_path / "d")
    again = sabot_json("verify", "--data", tmp_path / "d")
    assert "4 of 4 coups verified" in words
    assert "the ledger balances" in words
    [row] = again["money"]
    line = next(line for line in words.splitlines() if line.startswith("│ EUR"))
    cells = [cell.strip() for cell in line.strip("│").split("│")]
    assert cells == ["EUR", row["staked"], row["returned"], row["house"], row["commission"]]


def without_ids(coup: dict[str, Any]) -> dict[str, Any]:
    return {
        **coup,
        "bets": [{k: v for k, v in bet.items() if k not in ("account", "bet")} for bet in coup["bets"]],
    }


@pytest.mark.parametrize("house", ["nl", "lt"])
def test_a_seed_gives_the_same_cards_and_money(tmp_path, house):
    for name, seed in (("one", "s"), ("two", "s"), ("other", "t")):
        sabot("demo", "--house", house, "--coups", "8", "--seed", seed, "--data", tmp_path / name)
    one, two, other = (
        [without_ids(coup) for coup in coups_of(tmp_path / name)] for name in ("one", "two", "other")
    )
    assert one == two
    assert [coup["player"] for coup in one] != [coup["player"] for coup in other]
    assert [coup["bets"] for coup in one] != [coup["bets"] for coup in other]


def test_without_a_seed_no_two_runs_are_alike(tmp_path):
    for name in ("one", "two"):
        sabot("demo", "--coups", "4", "--data", tmp_path / name)
    one, two = (coups_of(tmp_path / name) for name in ("one", "two"))
    assert [(coup["player"], coup["banker"]) for coup in one] != [
        (coup["player"], coup["banker"]) for coup in two
    ]


def test_demonstrations_in_one_directory_play_on(tmp_path):
    # The same seed twice: new players at a new table must not be taken for the old ones.
    for number, (house, seed) in enumerate([("nl", "s"), ("nl", "s"), ("lt", "u")], start=1):
        done = sabot_json("demo", "--house", house, "--coups", "4", "--seed", seed, "--data", tmp_path)
        assert done["coups"]["verified"] == 4 * number
    coups = coups_of(tmp_path)
    assert Counter((coup["table"], coup["house"]) for coup in coups) == {
        ("T1", "nl"): 4,
        ("T2", "nl"): 4,
        ("T3", "lt"): 4,
    }
    assert len({bet["account"] for coup in coups for bet in coup["bets"]}) == 21


def test_a_demonstration_takes_no_table_that_is_there(tmp_path):
    lines = [
        {"type": "deposit", "account": "T2-player-1", "amount": "10.00", "currency": "EUR", "tx": "d"},
        {
            "type": "coup",
            "table": "T2",
            "house": "fr",
            "shoe": "S1",
            "coup": 1,
            "cards": ["6C", "6D", "KH", "KS"],
        },
    ]
    (tmp_path / "coups.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    data = tmp_path / "data"
    sabot("ingest", tmp_path / "coups.jsonl", "--data", data)
    sabot("demo", "--coups", "2", "--data", data)
    sabot("demo", "--coups", "2", "--data", data)
    assert Counter(coup["table"] for coup in coups_of(data)) == {"T1": 2, "T2": 1, "T3": 2}


def test_a_shoe_is_played_to_its_cut_card(tmp_path):
    # Six cards must be left for every coup, fourteen lie behind the cut card: 70 to 90 coups of 416 cards.
    done = sabot_json("demo", "--shoes", "2", "--seats", "1", "--data", tmp_path)
    verification, heard = accounts_of(tmp_path)
    assert verification.ok
    assert [(shoe.reason, shoe.verified) for shoe in heard.shoes] == [("cut_card", True)] * 2
    # The last coup begins with fourteen cards left at the least, and takes six at the most.
    assert all(416 - 14 < shoe.cards_out <= 416 - 14 + 6 for shoe in heard.shoes)
    assert done["coups"]["verified"] == len(heard.coups)
    assert all(65 <= count <= 95 for count in Counter(coup.shoe for coup in heard.coups).values())


def test_de_shuffles_for_every_coup(tmp_path):
    sabot("demo", "--house", "de", "--coups", "9", "--data", tmp_path)
    verification, heard = accounts_of(tmp_path)
    assert verification.ok
    assert [shoe.reason for shoe in heard.shoes] == ["every_round"] * 9
    assert len({coup.shoe for coup in heard.coups}) == 9
    events = stream_of(tmp_path, "game/main.T1")
    assert sum(isinstance(event.data, ShoeCommitted) for event in events) == 9
    seeds = [event.data.seed for event in events if isinstance(event.data, ShoeEnded)]
    assert len(set(seeds)) == 9


def test_lt_passes_the_shoe_after_player_wins_and_gives_the_cards_to_the_largest_bettor(tmp_path):
    sabot("demo", "--house", "lt", "--coups", "24", "--seats", "6", "--seed", "lt", "--data", tmp_path)
    game = stream_of(tmp_path, "game/main.T1")
    story = [event.data for event in game if isinstance(event.data, CoupOpened | CoupConcluded | ShoePassed)]

    # The first dealer is given the shoe; after that it moves with each Player win and at no other time.
    first, *rest = story
    assert isinstance(first, ShoePassed)
    assert (first.reason, first.to_seat) == ("first_dealer", 1)
    holder, wins = 1, 0
    for before, data in itertools.pairwise([first, *rest]):
        if isinstance(data, ShoePassed):
            assert data.reason == "player_win"
            assert isinstance(before, CoupConcluded)
            assert before.outcome == "player"
            assert (data.from_seat, data.to_seat) == (holder, holder % 6 + 1)
            holder, wins = data.to_seat, wins + 1
        elif isinstance(data, CoupOpened):
            assert data.dealer_seat == holder
            assert not (isinstance(before, CoupConcluded) and before.outcome == "player")
    outcomes = [data.outcome for data in rest if isinstance(data, CoupConcluded)]
    assert wins == outcomes.count("player") > 0
    assert len(set(outcomes)) > 1

    stakes: dict[int, dict[int, int]] = {}
    for event in events_of(tmp_path):
        bet = event.data
        if isinstance(bet, BetAccepted) and bet.spot == "player" and bet.seat is not None:
            stakes.setdefault(bet.coup, {})[bet.seat] = bet.stake
    squeezes = {event.data.coup: event.data.seat for event in game if isinstance(event.data, CardsToSqueeze)}
    assert set(squeezes) == set(range(1, 25))
    dealers = {data.coup: data.dealer_seat for data in rest if isinstance(data, CoupOpened)}
    for coup, seat in squeezes.items():
        on_player = stakes.get(coup, {})
        if not on_player:
            assert seat is None
            continue
        equals = [each for each, stake in on_player.items() if stake == max(on_player.values())]
        dealer = dealers[coup] or 0
        assert seat == min(equals, key=lambda each: (each - dealer - 1) % 6)
    assert any(seat is not None for seat in squeezes.values())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--house", "xx"], "there is no house 'xx'; there are de, dk, fr, lt, nl"),
        (["--house", "lt", "--seats", "15"], "--seats"),
        (["--seats", "0"], "--seats"),
        (["--coups", "0"], "--coups"),
        (["--shoes", "0"], "--shoes"),
    ],
)
def test_what_cannot_be_played_is_refused_in_words(tmp_path, arguments, words):
    data = tmp_path / "d"
    said = complaint("demo", *arguments, "--data", data)
    assert words in said
    assert "Traceback" not in said
    assert not data.exists()


def test_a_coup_that_is_not_as_it_was_paid_gives_exit_status_1(tmp_path):
    sabot("demo", "--coups", "3", "--data", tmp_path)
    last = stream_of(tmp_path, "wallet/main")[-1]
    change_body(tmp_path, "store", last, lambda body: body.replace(b'"version":1', b'"version":2'))
    verified = sabot_json("verify", "--data", tmp_path, status=1)
    assert (verified["ok"], verified["findings_count"]) == (False, 1)
    # The table plays on, and the fault stays.
    demo = sabot_json("demo", "--coups", "2", "--data", tmp_path, status=1)
    assert (demo["coups"]["verified"], demo["findings_count"]) == (5, 1)


def test_a_coup_that_was_paid_wrongly_gives_exit_status_1(tmp_path):
    sabot("demo", "--coups", "3", "--seed", "paid", "--data", tmp_path)
    forger = Forger(tmp_path)
    last = stream_of(tmp_path, "wallet/main")[-1]
    wrong = last.data.model_copy(update={"outcome": "tie"})
    forger.write_everywhere(forger.retold({(last.stream, last.sequence): lambda _: wrong}))
    verified = sabot_json("verify", "--data", tmp_path, status=1)
    assert verified["coups"] == {"verified": 2, "of_these_void": 0, "discrepancy": 1, "open": 0}
    assert "2 of 3 coups verified" in sabot("verify", "--data", tmp_path, status=1)
