"""The verdicts are the same however the streams interleave, and whatever restarts come in between."""

import json
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.events.game import CardDealt, CoupConcluded, CoupOpened
from schemas.events.wallet import BetAccepted, BetsSealed, CoupReturned, CoupSettled
from services.audit.core.verifier import Verifier
from tests.audit.builder import HOUSES, Story, with_other_bytes
from tests.audit.stories import BETS, Heard, big_table, change, plain, replace, said, virtual


def changing_houses():
    story = Story()
    story.open()
    for number in range(1, 6):
        story.coup("KS 2H 9C 5D", BETS, number=number)
        story.set_house(HOUSES[("fr", "dk", "nl")[number % 3]])
    return story


def other_bytes():
    story = plain()
    place = story.events.index(story.of(BetAccepted)[5])
    story.events[place] = with_other_bytes(story.events[place], b'"stake":2050', b'"stake":2051')
    return story


STORIES = {
    "all is well": plain,
    "virtual": virtual,
    "big table": big_table,
    "houses change": changing_houses,
    "illegal draw": lambda: Story().open().coup("K A Q 6 5 8", BETS).coup("KS 2H 9C 5D", BETS, number=2),
    "paid twice": lambda: plain(replace(CoupSettled, lambda each: [each, each])),
    "sealed again": lambda: plain(replace(CoupReturned, lambda each: [each, _seal()])),
    "wrong seal": lambda: plain(change(BetsSealed, 2, bets=7)),
    "wrong result": lambda: plain(change(CoupConcluded, 2, outcome="tie")),
    "wrong payout": lambda: plain(change(CoupSettled, 2, bets=lambda bets: bets[1:])),
    "no seal": lambda: plain(replace(BetsSealed, lambda _: None)),
    "no opening": lambda: plain(replace(CoupOpened, lambda _: None, 2)),
    "no result": lambda: plain(replace(CoupConcluded, lambda _: None, 2)),
    "no such coup": lambda: plain(replace(BetAccepted, lambda each: each.model_copy(update={"coup": 99}), 2)),
    "a card too many": lambda: plain(change(CardDealt, 7, index=99)),
    "other bytes": other_bytes,
}


def _seal():
    return plain().of(BetsSealed)[3].data


def interleaved(story, choices):
    """The streams of a story merged in another way; each keeps its own order."""
    queues = [story.stream(name)[::-1] for name in (story.game, story.wallet)]
    merged = []
    while all(queues):
        merged.append(queues[next(choices)].pop())
    for queue in queues:
        merged += queue[::-1]
    return merged


def verdicts(payloads):
    return Counter(payload.model_dump_json() for payload in payloads)


@pytest.mark.parametrize("name", STORIES)
@given(seed=st.integers(0, 2**32), bias=st.sampled_from([0, 1, 5, 10, 19, 20]))
def test_any_interleaving_gives_the_same_verdicts(name, seed, bias):
    story = STORIES[name]()
    chance = random.Random(seed)
    choices = (int(chance.randrange(20) < bias) for _ in iter(int, 1))
    heard, told = Heard(), Heard()
    payloads = said(interleaved(story, choices), Verifier(heard))
    assert verdicts(payloads) == verdicts(said(story.events, Verifier(told)))
    assert sorted(map(repr, heard.coups)) == sorted(map(repr, told.coups))


class Rows:
    """What the live service keeps in its table of pieces."""

    def __init__(self):
        self.rows = {}

    def write(self, verifier):
        for kind, key, content in verifier.take_changes():
            if content is None:
                del self.rows[kind, key]  # only what was stored is deleted
            else:
                json.loads(content)
                self.rows[kind, key] = content

    def load(self):
        verifier = Verifier(persistent=True)
        verifier.load([(*place, content) for place, content in self.rows.items()])
        return verifier


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("batch", [1, 2, 7])
def test_a_restart_after_any_batch_changes_nothing(name, batch):
    story = STORIES[name]()
    chance = random.Random(batch)
    events = interleaved(story, (chance.randrange(2) for _ in iter(int, 1)))
    rows, verifier, payloads = Rows(), Verifier(persistent=True), []
    for start in range(0, len(events), batch):
        for event in events[start : start + batch]:
            payloads += verifier.observe(event)
        rows.write(verifier)
        verifier = rows.load()
        assert verifier.take_changes() == []
    payloads += verifier.finish()
    whole = Verifier()
    assert verdicts(payloads) == verdicts(said(story.events, whole))
    assert verifier.heads() == whole.heads()
    assert verifier.trial_balance("wallet/main") == whole.trial_balance("wallet/main")
    assert verifier.balances("wallet/main") == whole.balances("wallet/main")
    assert sorted(verifier.unrevealed()) == sorted(whole.unrevealed())


def test_the_memory_does_not_grow_with_finished_coups():
    """What corrections must know of finished coups and past houses is stored, and not in memory."""
    story = Story().open()
    story.coup("7 2 9 5", BETS, number=1)
    rows, verifier = Rows(), Verifier(persistent=True)
    sizes = []
    seen = 0
    for number in range(2, 400):
        if number % 50 == 0:
            story.set_house(HOUSES["nl"].model_copy(update={"version": number}))
        story.coup("7 2 9 5", BETS, number=number, shoe="S1")
        for event in story.events[seen:]:
            verifier.observe(event)
        seen = len(story.events)
        rows.write(verifier)
        kept = [text for (kind, _), text in rows.rows.items() if kind not in ("finished", "house")]
        sizes.append((len(kept), sum(map(len, kept))))
    counts, characters = zip(*sizes[32:], strict=True)  # so many transaction ids are remembered
    assert len(set(counts)) == 1
    assert max(characters) < min(characters) + 400  # counters get longer, nothing else
    assert Counter(kind for kind, _ in rows.rows)["finished"] == 399
    finished = [len(text) for (kind, _), text in rows.rows.items() if kind == "finished"]
    assert max(finished) < 1_500


def test_a_virtual_shoe_leaves_with_its_seed():
    story = Story("de", source="virtual").open()
    rows, verifier = Rows(), Verifier(persistent=True)
    for number in range(1, 200):
        story.load(f"R{number}", seed=number.to_bytes(32, "big"))
        story.coup("", BETS, shoe=f"R{number}", number=number)
        story.end(f"R{number}", "every_round")
    for event in story.events:
        assert not [each for each in verifier.observe(event) if "discrepancy" in each.type_name()]
        rows.write(verifier)
    kinds = Counter(kind for kind, _ in rows.rows)
    assert kinds == {"stream": 2, "table": 1, "purse": 3, "books": 1, "finished": 199}
    assert list(verifier.unrevealed()) == []


def test_nothing_is_noted_where_nobody_asks():
    verifier = Verifier()
    said(plain().events, verifier)
    assert verifier.take_changes() == []
