"""The HTML report: well-formed, self-contained, escaped, and every total the sum of its rows."""

import io
import random
import re
from collections.abc import Callable
from dataclasses import replace as altered
from html.parser import HTMLParser

import pytest

from schemas.events.game import CardDealt
from schemas.events.wallet import CoupSettled
from services.audit.core.facts import BetAccount, CoupAccount
from services.audit.core.verifier import Verifier
from services.audit.reports.cards import name_of, symbols
from services.audit.reports.shoe_html import ShoeReport, write_report
from services.audit.reports.tally import amount, signed
from tests.audit.builder import HOUSES, Bet, Story
from tests.audit.evening import Evening
from tests.audit.stories import BETS, Heard, big_table, change, findings, plain, said, virtual

VOID = {"meta", "br", "link", "img", "hr", "input"}


class Page(HTMLParser):
    """Reads a page: its tables by class, its text, its ids, links and the tags that were left open."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.tables: dict[str, list[dict[str, list[list[str]]]]] = {}
        self.words: list[str] = []
        self._part = ""
        self._cell: list[str] | None = None
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self.attributes += attrs
        if "id" in named:
            self.ids.append(named["id"] or "")
        if named.get("href", "").startswith("#"):
            self.links.append((named["href"] or "")[1:])
        if tag == "table":
            self._table: dict[str, list[list[str]]] = {"thead": [], "tbody": [], "tfoot": []}
            self.tables.setdefault(named.get("class") or "", []).append(self._table)
        elif tag in ("thead", "tbody", "tfoot"):
            self._part = tag
        elif tag == "tr":
            self._table[self._part].append([])
        elif tag in ("td", "th"):
            self._cell = []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes something else"
        if tag in ("td", "th") and self._cell is not None:
            self._table[self._part][-1].append("".join(self._cell).strip())
            self._cell = None

    def handle_data(self, data):
        if self.open and self.open[-1] in ("style", "script"):
            return
        self.words.append(data)
        if self._cell is not None:
            self._cell.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def number(cell: str) -> int:
    """The digits of an amount, with its sign; whatever its currency's decimals are."""
    sign = -1 if cell.startswith("−") else 1
    return sign * int(re.sub(r"[^0-9]", "", cell) or 0)


def page_of(story: Story, **options) -> tuple[str, Page]:
    out = io.StringIO()
    report = ShoeReport(out, **options)
    said(story.events, Verifier(report))
    report.finish()
    text = out.getvalue()
    return text, Page(text)


def evening(bets_a_coup: int = 7) -> Story:
    chance = random.Random(3)
    story = Story(source="virtual").open().load("V1")
    number_ = 0
    while story.out["V1"] <= 8 * 52 - 14:
        number_ += 1
        bets = [
            Bet(
                chance.choice(["player", "banker", "tie"]),
                chance.choice([500, 1_010, 2_550, 99]),
                account=f"account-{seat}",
                seat=seat,
                currency="JPY" if seat == 3 else "EUR",
                refused="INSUFFICIENT_FUNDS" if chance.random() < 0.05 else None,
            )
            for seat in range(1, bets_a_coup + 1)
        ]
        story.coup("", bets, shoe="V1", number=number_, void="misdeal" if number_ == 20 else None)
    return story.end("V1")


STORIES: dict[str, Callable[[], Story]] = {
    "plain": plain,
    "big table": big_table,
    "evening": evening,
    "nothing": lambda: Story().open(),
    "illegal": lambda: Story().open().coup("K A Q 6 5 8", BETS),
    "not settled": lambda: plain(lambda each: None if isinstance(each, CoupSettled) else each),
    "wrong shoe": lambda: virtual(change(CardDealt, 3, card="2S")),
}


@pytest.mark.parametrize("name", STORIES)
def test_the_page_is_well_formed_and_needs_nothing_else(name):
    text, page = page_of(STORIES[name](), title="A <run> & more", facts=[("Seed", '"7"'), ("<b>", "</dl>")])
    assert text.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert len(page.ids) == len(set(page.ids))
    assert set(page.links) <= set(page.ids), "every link and every card that is used is there"
    assert not re.search(r"https?:|//|@import|url\(|<script|<link|src=", text)
    assert "A <run> & more" in page.text
    assert "<run>" not in text


@pytest.mark.parametrize("name", STORIES)
def test_every_total_is_the_sum_of_the_rows_that_are_printed(name):
    _, page = page_of(STORIES[name]())
    for table in page.tables.get("money", []):
        (total,) = table["tfoot"]
        for column in range(1, 6):
            assert number(total[column]) == sum(number(row[column]) for row in table["tbody"])
        if name != "not settled":
            assert number(total[2]) - number(total[3]) == number(total[5])
    for table in page.tables.get("coup-bets", []):
        taken = [row for row in table["tbody"] if not row[3].startswith("refused")]
        assert len(table["tfoot"]) == len({row[4].split()[1] for row in taken})
        for total in table["tfoot"]:
            bets, currency = re.findall(r"Total of (\d+) bets?, (\w+)", total[0])[0]
            rows = [row for row in taken if row[4].endswith(currency)]
            assert len(rows) == int(bets)
            for column in (4, 5, 6, 7):
                assert number(total[column - 3]) == sum(number(row[column]) for row in rows)
    for outcomes in page.tables["outcomes"]:
        assert number(outcomes["tfoot"][0][1]) == sum(number(row[1]) for row in outcomes["tbody"])


def test_the_summary_is_the_sum_of_the_coups():
    _, page = page_of(evening())
    rows = [
        row
        for table in page.tables["coup-bets"]
        for row in table["tbody"]
        if not row[3].startswith("refused")
    ]
    for table in page.tables["money"]:
        total = table["tfoot"][0]
        currency = next(
            c
            for c in ("EUR", "JPY")
            if sum(number(r[4]) for r in rows if r[4].endswith(c)) == number(total[2])
        )
        mine = [row for row in rows if row[4].endswith(currency)]
        assert number(total[1]) == len(mine)
        assert number(total[3]) == sum(number(row[5]) for row in mine)
        assert number(total[5]) == -sum(number(row[7]) for row in mine)


def test_a_shoe_of_eighty_coups_with_seven_bets_stays_small():
    story = evening()
    text, page = page_of(story)
    coups = len(page.tables["coup-bets"])
    assert coups > 75
    assert f"All {coups} coups are verified" in page.text
    assert len(text.encode()) < 500_000


def test_cards_lie_in_dealing_order_with_both_totals():
    text, page = page_of(Story().open().coup("AS 2H 3C 5D 4C"))
    assert re.findall(r'href="#k(\w\w)"/></svg>(\d)', text) == [
        ("AS", "1"), ("3C", "3"), ("4C", "5"), ("2H", "2"), ("5D", "4"),
    ]  # fmt: skip
    assert "4 on two cards, then 8" in page.text
    assert (
        "Player wins, 8 to 7. Player 4 draws; against a third card 4 Banker draws on 0 to 5: Banker 7 stands."
        in page.text
    )
    labels = [value for name, value in page.attributes if name == "aria-label"]
    assert "Player: ace of spades, three of clubs, four of clubs" in labels
    assert "Banker: two of hearts, five of diamonds" in labels


def test_bead_plate_goes_down_six_and_then_right():
    story = Story().open()
    for coup in range(1, 9):
        story.coup("KS 2H 9C 5D" if coup % 2 else "6S 6H KC KD", number=coup)
    text, page = page_of(story)
    beads = re.findall(r'<circle class="f([BPT])" cx="(\d+)" cy="(\d+)"', text)
    assert [bead[0] for bead in beads] == list("PTPTPTPT")
    assert [(int(x) // 26, int(y) // 26) for _, x, y in beads] == [
        (place // 6, place % 6) for place in range(8)
    ]
    assert "Coup 1: Player, 9–7" in page.text
    assert "Bead plate: 0 Banker, 4 Player, 4 Tie" in [value for _, value in page.attributes]


def test_pairs_are_by_rank_and_not_by_value():
    assert 'class="dP"' in page_of(Story().open().coup("KS 2H KC 5D 4S"))[0]
    assert 'class="dP"' not in page_of(Story().open().coup("KS 2H QC 5D 4S"))[0]
    assert 'class="dB"' in page_of(Story().open().coup("KS 4H 9C 4D"))[0]


def test_rounds_that_are_shuffled_each_share_a_plate():
    story = Story("de", source="virtual").open()
    for number_ in range(1, 4):
        story.load(f"R{number_}", seed=bytes([number_]) * 32).coup("", shoe=f"R{number_}", number=number_)
        story.end(f"R{number_}", "every_round")
    assert page_of(story)[0].count('class="bead"') == 1
    story = Story().open().coup("K 2 9 5", shoe="A").coup("K 2 9 5", shoe="B")
    text, page = page_of(story)
    assert text.count('class="bead"') == 2
    assert "Table T1, shoe A" in page.text


def test_a_long_plate_goes_on_below():
    story = Story("de").open()
    for coup in range(1, 250):
        story.coup("K 2 9 5", number=coup)
    text, _ = page_of(story)
    assert text.count('class="bead"') == 2


def test_findings_are_on_top_and_at_their_coup():
    text, page = page_of(Story().open().coup("K 2 9 5").coup("K A Q 6 5 8", BETS, number=2))
    words = "Banker had 7 and stands: the sixth card 8 may not be drawn"
    assert text.count(words) == 2
    assert f'<a href="#c2">T1 · shoe S1 · coup 2</a>: {words}' in text
    assert "Not as the rules have it: 1 of 2 coups" in page.text
    assert "1 coup verified" in page.text


def test_a_shoe_that_is_not_as_committed_is_no_good_evening():
    _, page = page_of(STORIES["wrong shoe"]())
    assert "Not as the rules have it: 1 of 4 coups and 1 shoe" in page.text
    assert "commitment or cards do not agree" in page.text
    assert "what was dealt does not follow from what the house had committed itself to" in page.text


def test_commitment_entropy_and_seed_are_shown():
    story = virtual()
    _, page = page_of(story)
    assert story.seeds["V1"].hex() in page.text
    assert "entropy lucky-panda-88" in page.text
    assert "commitment and every card verified" in page.text


def test_coups_that_wait_are_said_to():
    _, page = page_of(STORIES["not settled"]())
    assert "1 of 5 coups verified" in page.text
    assert "4 not settled yet" in page.text
    assert "150.00 is still in play and counts for nobody." in page.text
    assert number(page.tables["money"][0]["tfoot"][0][5]) == 0


def test_beyond_the_limit_coups_are_counted_and_not_drawn():
    text, page = page_of(plain(), coups_max=2)
    assert text.count("<article") == 2
    assert "The first 2 of 5 coups are shown; the sums above are those of all." in page.text
    assert number(page.tables["money"][0]["tfoot"][0][1]) == 20


def test_prices_say_which_reading_is_in_force():
    story = Story("de").open().coup("K 2 9 5")
    _, page = page_of(story)
    assert "Tie 9 for 1 (a profit of 8 to 1)" in page.text
    assert "6 decks, shuffled for every round" in page.text
    _, page = page_of(plain())
    assert "Player 1 to 1, Banker 1 to 1, Tie 8 to 1" in page.text
    assert "Commission 5 % of Banker’s winnings, rounded to one minor unit, half up" in page.text


def test_everything_that_came_from_outside_is_escaped():
    heard = Heard()
    said(plain().events, Verifier(heard))
    evil = '"><script>alert(1)</script>'
    bet = BetAccount(evil, evil, 1, evil, "EUR", 2, 100, 0, 0, "refused", evil)
    coup: CoupAccount = altered(
        heard.coups[0],
        table=evil,
        shoe=evil,
        house=evil,
        bets=(bet,),
        findings=(evil,),
        verdict="discrepancy",
    )
    house = HOUSES["nl"].model_copy(update={"name": evil})
    out = io.StringIO()
    write_report(out, [coup], houses=[(evil, 1, house)], title=evil, facts=[(evil, evil)])
    assert "<script" not in out.getvalue()
    Page(out.getvalue())


def test_expected_shares_go_by_the_decks_that_were_dealt():
    _, page = page_of(plain())
    rows = {row[0].split()[-1]: row for row in page.tables["outcomes"][0]["tbody"]}
    assert (rows["Banker"][3], rows["Player"][3], rows["Tie"][3]) == ("45.86 %", "44.62 %", "9.52 %")
    story = Story("de").open().coup("K 2 9 5")
    rows = {row[0].split()[-1]: row for row in page_of(story)[1].tables["outcomes"][0]["tbody"]}
    assert (rows["Banker"][3], rows["Player"][3], rows["Tie"][3]) == ("45.87 %", "44.63 %", "9.51 %")


def test_amounts():
    assert amount(123_456_789, 2) == "1,234,567.89"
    assert amount(-5, 2) == "−0.05"
    assert amount(1_000, 0) == "1,000"
    assert signed(5, 3) == "+0.005"
    assert (signed(0, 2), signed(-100, 2)) == ("0.00", "−1.00")


def test_every_card_can_be_drawn_and_named():
    every = [rank + suit for rank in "A23456789TJQK" for suit in ("", *"SHDC")]
    drawn = symbols(every)
    for card in every:
        assert f'id="k{card}"' in drawn
    assert (name_of("8C"), name_of("T"), name_of("QH")) == ("eight of clubs", "ten", "queen of hearts")
    for rank, pips in (("A", 1), *((str(value), value) for value in range(2, 10)), ("T", 10)):
        half = re.search(rf'<g id="h{rank}S">(.*?)</g>', drawn)
        whole = re.search(rf'<symbol id="k{rank}S".*?</symbol>', drawn)
        assert half
        assert whole
        in_half, in_all = half[1].count("#sS") - 1, whole[0].count("#sS") - 2
        assert in_half + in_all + 1 - in_half + in_half == pips


def test_a_corrected_coup_is_shown_again_and_counts_by_its_last_result():
    out = io.StringIO()
    report = ShoeReport(out, title="Corrected")
    story = Evening()
    story.open().fund("alice", 10_000)
    story.coup("2S 3H 5C 6D", [Bet("banker", 1_000)])
    story.correct("2S 3H 5C 4D")
    assert findings(said(story.events, Verifier(report))) == []
    report.finish()
    page = out.getvalue()
    assert "Coup 1, corrected (result 2)" in page
    assert "The result was corrected: the coup was a tie. The bets were paid anew." in page
    assert "The coup is verified" in page
