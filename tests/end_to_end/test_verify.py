"""``sabot verify`` on a directory that somebody has laid hands on: it is found, and the place is named."""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from schemas.envelope import Recorded, encode
from schemas.events.audit import CoupVerified, DiscrepancyFound, Turnover
from schemas.events.game import CardDealt, CoupConcluded
from schemas.events.wallet import CoupSettled, SettledBet
from services.audit.places import NothingToVerify
from services.audit.verification import Verification
from services.audit.verify import verify
from services.runtime.installation import Installation
from tests.end_to_end.support import (
    PLACES,
    PRODUCERS,
    Forger,
    Place,
    append_to_the_bus,
    change_body,
    complaint,
    coup_of,
    database,
    delete,
    events_of,
    place_in_words,
    sabot,
    sabot_json,
)

COUPS = 12

# Player 0 draws a five, Banker stands on 7: case 15 of the rules.
RECORDED = [
    {"type": "deposit", "account": "alice", "amount": "100.00", "currency": "EUR", "tx": "d"},
    {
        "type": "coup",
        "table": "T1",
        "house": "nl",
        "shoe": "S1",
        "coup": 1,
        "cards": ["KC", "AC", "QC", "6C", "5C"],
        "bets": [
            {"account": "alice", "spot": "banker", "stake": "20.00", "currency": "EUR", "tx": "b1"},
            {"account": "alice", "spot": "player", "stake": "5.00", "currency": "EUR", "tx": "b2"},
        ],
    },
]


class Evidence:
    """A small data directory: two operators, five streams, of which one has a single event."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._copies = folder, count(1)
        self.data = folder / "data"
        sabot("demo", "--coups", str(COUPS - 1), "--seats", "3", "--seed", "verify", "--data", self.data)
        recorded = folder / "coups.jsonl"
        recorded.write_text("".join(json.dumps(line) + "\n" for line in RECORDED), encoding="utf-8")
        sabot("ingest", recorded, "--data", self.data, env={"SABOT_OPERATOR": "second"})
        self.events = events_of(self.data)

    def copy(self) -> Path:
        """A directory to lay hands on."""
        copy = self._folder / f"copy-{next(self._copies)}"
        shutil.copytree(self.data, copy)
        return copy

    def last(self, stream: str) -> Recorded[Any]:
        return [event for event in self.events if event.stream == stream][-1]

    def one(self, kind: type, stream: str, coup: int | None = None) -> Recorded[Any]:
        """The only event of this kind, of this coup, in a stream."""
        [found] = [
            event
            for event in self.events
            if event.stream == stream
            and isinstance(event.data, kind)
            and (coup is None or getattr(event.data, "coup", None) == coup)
        ]
        return found


@pytest.fixture(scope="module")
def evidence(tmp_path_factory):
    return Evidence(tmp_path_factory.mktemp("evidence"))


def verified_away(data: Path) -> Verification:
    """Verify a copy, and clear it away: hundreds of them are made."""
    try:
        return verify(Installation(data))
    finally:
        shutil.rmtree(data)


def assert_one_finding(result: Verification, place: Place, event: Recorded[Any]) -> DiscrepancyFound:
    """Exactly what is wrong is said, where, and of which coup; the coups themselves are as good as before."""
    assert not result.ok
    assert (len(result.findings), result.findings_count) == (1, 1), [each.words for each in result.findings]
    [finding] = result.findings
    assert place_in_words(place, event.stream) in finding.words
    assert (finding.stream, finding.sequence) == (event.stream, event.sequence)
    if coup_of(event) is not None:
        assert (finding.table, finding.shoe, finding.coup) == coup_of(event)
    assert (result.verified, result.discrepant, result.open) == (COUPS, 0, 0)
    return finding


def is_an_end(event: Recorded[Any], evidence: Evidence) -> bool:
    return event.sequence == 1 or event.sequence == evidence.last(event.stream).sequence


def sampled(evidence: Evidence, producer: str) -> Iterator[tuple[Recorded[Any], Place, random.Random]]:
    """Every event of a producer at one of the places, in turn; the first and last of a stream at each."""
    chance = random.Random(producer)
    mine = [event for event in evidence.events if event.stream.startswith(producer + "/")]
    offset = chance.randrange(3)
    for number, event in enumerate(mine):
        for place in PLACES if is_an_end(event, evidence) else [PLACES[(number + offset) % 3]]:
            yield event, place, chance


def flip(chance: random.Random, size: int) -> Callable[[bytes], bytes]:
    at, bit = chance.randrange(size), chance.randrange(8)

    def change(body: bytes) -> bytes:
        changed = bytearray(body)
        changed[at] ^= 1 << bit
        return bytes(changed)

    return change


def test_the_directory_as_it_was_is_verified(evidence):
    result = verify(Installation(evidence.data))
    assert result.ok
    assert (result.verified, result.streams, result.events) == (COUPS, 5, len(evidence.events))
    assert evidence.last("audit/second").sequence == 1, "there should be a stream of one event"
    assert not list(evidence.data.glob("*-wal")), "nothing was left beside the evidence"


@pytest.mark.parametrize("producer", PRODUCERS)
def test_one_flipped_bit_is_one_finding_that_names_the_place(evidence, producer):
    for event, place, chance in sampled(evidence, producer):
        data = evidence.copy()
        change_body(data, place, event, flip(chance, 32 if place == "record" else len(event.body)))
        finding = assert_one_finding(verified_away(data), place, event)
        assert finding.check == "integrity_changed"


def test_a_flipped_bit_is_said_on_the_command_line(evidence):
    event = evidence.one(CoupSettled, "wallet/main", coup=5)
    for place in PLACES:
        data = evidence.copy()
        change_body(data, place, event, flip(random.Random(1), 32))
        document = sabot_json("verify", "--data", data, status=1)
        assert (document["ok"], document["findings_count"]) == (False, 1)
        assert document["findings"][0]["coup"] == 5
        said = " ".join(complaint("verify", "--data", data, status=1).split())
        assert place_in_words(place, event.stream) in said
        assert f"wallet/main#{event.sequence}, coup 5 of shoe S1 at T1" in said


def test_what_was_changed_is_said_field_by_field(evidence):
    data = evidence.copy()
    event = evidence.one(CoupConcluded, "game/second.T1")
    change_body(data, "store", event, lambda body: body.replace(b'"outcome":"banker"', b'"outcome":"player"'))
    finding = assert_one_finding(verified_away(data), "store", event)
    assert 'data.outcome is "player" instead of "banker"' in finding.words


@pytest.mark.parametrize("producer", PRODUCERS)
def test_a_deleted_event_is_one_finding_that_names_the_place(evidence, producer):
    for event, place, chance in sampled(evidence, producer):
        if not is_an_end(event, evidence) and chance.random() < 0.6:
            continue
        data = evidence.copy()
        delete(data, place, event)
        finding = assert_one_finding(verified_away(data), place, event)
        assert finding.check == "integrity_missing"


@pytest.mark.parametrize("apart", [1, 2, 20])
@pytest.mark.parametrize("stream", ["game/main.T1", "wallet/main"])
def test_two_events_that_changed_places_on_the_bus_are_found(evidence, stream, apart):
    events = [event for event in evidence.events if event.stream == stream]
    chance = random.Random(f"{stream} {apart}")
    first = chance.randrange(1, len(events) - apart)
    data = evidence.copy()
    with database(data / "bus.db") as db:
        places = [
            db.execute('SELECT "offset" FROM record WHERE body = ?', (event.body,)).fetchone()[0]
            for event in (events[first], events[first + apart])
        ]
        for event, place in zip((events[first + apart], events[first]), places, strict=True):
            db.execute('UPDATE record SET body = ? WHERE "offset" = ?', (event.body, place))
    result = verified_away(data)
    assert not result.ok
    assert all("the bus" in finding.words for finding in result.findings)
    assert 1 <= result.findings_count <= 2
    assert result.verified == COUPS


@pytest.mark.parametrize("stream", ["game/main.T1", "wallet/main", "audit/main", "audit/second"])
def test_a_forged_event_at_the_end_of_the_bus_is_one_finding(evidence, stream):
    # It follows the last one in every respect, and only the bus has it: nobody is paid by it, not even here.
    last = evidence.last(stream)
    kept = {name: getattr(last.envelope, name) for name in ("source", "time", "gamingday")}
    forged = encode(
        last.data,
        stream=stream,
        sequence=last.sequence + 1,
        previous=last.hash,
        causationid="c",
        correlationid="c",
        **kept,
    )
    data = evidence.copy()
    append_to_the_bus(data, stream, forged.body)
    finding = assert_one_finding(verified_away(data), "bus", forged)
    assert "that no other place has" in finding.words


def test_a_second_event_with_other_bytes_on_the_bus_is_one_finding(evidence):
    last = evidence.last("wallet/main")
    data = evidence.copy()
    append_to_the_bus(data, last.stream, last.body.replace(b'"causationid":"', b'"causationid":"x'))
    finding = assert_one_finding(verified_away(data), "bus", last)
    assert "a second event" in finding.words


def test_an_event_that_was_published_twice_is_no_finding(evidence):
    data = evidence.copy()
    for stream in ("game/main.T1", "wallet/main", "audit/second"):
        append_to_the_bus(data, stream, evidence.last(stream).body)
    assert verified_away(data).ok


@pytest.mark.parametrize("behind", [1, 2, 9])
@pytest.mark.parametrize("stream", ["game/main.T1", "wallet/main", "audit/main"])
def test_what_the_bus_lost_and_was_published_again_is_missing_no_more(evidence, stream, behind):
    events = [event for event in evidence.events if event.stream == stream]
    lost = events[-1 - behind]
    data = evidence.copy()
    delete(data, "bus", lost)
    # The event alone, moved to the end, does not fill the gap: who waited there needs those behind it too.
    append_to_the_bus(data, stream, lost.body)
    assert_one_of_the_bus(verify(Installation(data)))
    for event in events[-behind:]:
        append_to_the_bus(data, stream, event.body)
    assert verified_away(data).ok


def test_publishing_again_is_how_a_gap_is_filled(evidence):
    data = evidence.copy()
    delete(data, "bus", next(event for event in evidence.events if event.stream == "game/main.T1"))
    assert not verify(Installation(data)).ok
    assert "events of game/main.T1 published again" in sabot(
        "game", "republish", "game/main.T1", "1", "--data", data
    )
    assert verified_away(data).ok


def assert_one_of_the_bus(result: Verification) -> None:
    assert not result.ok
    assert all("the bus" in finding.words for finding in result.findings)
    assert result.verified == COUPS


def test_a_table_that_only_the_bus_knows_is_found(evidence):
    data = evidence.copy()
    first = next(event for event in evidence.events if event.stream == "game/main.T1")
    stranger = first.body.replace(b"main.T1", b"main.T9").replace(b'"table":"T1"', b'"table":"T9"')
    append_to_the_bus(data, "game/main.T9", stranger)
    result = verified_away(data)
    assert [(each.stream, each.sequence) for each in result.findings] == [("game/main.T9", 1)]
    assert "the bus has an event 1 of game/main.T9 that no other place has" in result.findings[0].words


# ------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("name", ["game.db", "wallet.db", "audit.db", "bus.db"])
@pytest.mark.parametrize("kept", [0, 100, 4096, 0.5])
def test_a_database_that_was_cut_off_is_one_finding(evidence, name, kept):
    data = evidence.copy()
    with (data / name).open("r+b") as file:
        file.truncate(kept if isinstance(kept, int) else int((data / name).stat().st_size * kept))
    result = verified_away(data)
    assert not result.ok
    [finding] = result.findings
    assert f"{name} is damaged" in finding.words
    # What the other places have is still worked out.
    assert result.verified == COUPS


@pytest.mark.parametrize("name", ["game.db", "wallet.db", "audit.db", "bus.db"])
def test_something_that_is_no_database_is_a_finding(evidence, name):
    data = evidence.copy()
    (data / name).write_bytes(b"something else altogether " * 1000)
    assert f"{name} is damaged" in sabot_json("verify", "--data", data, status=1)["findings"][0]["words"]


@pytest.mark.parametrize("name", ["game.db", "wallet.db", "audit.db", "bus.db"])
def test_a_database_that_is_missing_is_named(evidence, name):
    data = evidence.copy()
    (data / name).unlink()
    said = " ".join(complaint("verify", "--data", data).split())
    assert f"has lost {name}" in said
    assert not (data / name).exists(), "verify writes nothing"


def test_a_directory_without_data_is_told_from_one_that_lost_some(tmp_path):
    with pytest.raises(NothingToVerify, match="run 'sabot demo'"):
        verify(Installation(tmp_path))


@pytest.mark.parametrize("value", ["text", b"\xff", 1.5, -1, 2**62])
@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("game.db", "UPDATE event SET sequence = ? WHERE position = 7"),
        ("wallet.db", "UPDATE stream SET sequence = ?"),
        ("audit.db", "UPDATE audit_evidence SET sequence = ? WHERE stream_id = 1 AND sequence = 7"),
        ("bus.db", 'UPDATE record SET "key" = ? WHERE "offset" = 7'),
    ],
)
def test_a_number_that_cannot_be_is_a_finding_and_no_fault_of_ours(evidence, name, statement, value):
    data = evidence.copy()
    with database(data / name) as db:
        db.execute(statement, (value,))
    result = verified_away(data)
    assert not result.ok
    assert result.findings


def test_whatever_byte_of_the_files_is_flipped_verify_ends_in_words(evidence):
    chance = random.Random("files")
    for _ in range(40):
        data = evidence.copy()
        file = data / chance.choice(["game.db", "wallet.db", "audit.db", "bus.db"])
        content = bytearray(file.read_bytes())
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        file.write_bytes(content)
        result = verified_away(data)
        assert result.ok == (not result.findings)


# ----------------------------------------------------------------------------------------- forgeries


def more_money(payload: Any) -> CoupSettled:
    """The settlement, with a bet that lost paid all the same; the entry balances."""
    lost = next(bet for bet in payload.bets if bet.tier == "lose")
    paid = lost.model_copy(update={"returned": 2 * lost.stake, "tier": "win"})
    bets = tuple(paid if bet is lost else bet for bet in payload.bets)
    return payload.model_copy(update={"bets": bets, "entry": entry_of(bets)})


def entry_of(bets: tuple[SettledBet, ...]) -> tuple[Any, ...]:
    """The balanced entry that these bets come to."""
    from schemas.events.base import Posting

    spots = {"player": "4010", "banker": "4011", "tie": "4012"}
    lines: dict[tuple[str, str | None], int] = {}
    for bet in bets:
        for line, units in (
            (("2030", bet.bet), bet.stake),
            (("2010", bet.account), -bet.returned),
            (("4020", None), -bet.commission),
            ((spots[bet.spot], None), bet.returned + bet.commission - bet.stake),
        ):
            lines[line] = lines.get(line, 0) + units
    return tuple(
        Posting(ledger=ledger, party=party, currency=bets[0].currency, amount=units)
        for (ledger, party), units in lines.items()
        if units
    )


def losing_settlement(evidence: Evidence) -> Recorded[Any]:
    """A settlement from the middle, with a bet that lost."""
    settled = [event for event in evidence.events if isinstance(event.data, CoupSettled)]
    return next(event for event in settled[4:] if any(bet.tier == "lose" for bet in event.data.bets))


@pytest.mark.parametrize("producer", ["game", "wallet"])
def test_a_store_that_was_written_anew_in_a_perfect_chain_is_named(evidence, producer):
    data = evidence.copy()
    forger = Forger(data, evidence.events)
    target = (
        losing_settlement(evidence)
        if producer == "wallet"
        else evidence.one(CoupConcluded, "game/main.T1", 5)
    )
    change = (
        more_money if producer == "wallet" else lambda payload: payload.model_copy(update={"natural": True})
    )
    told = forger.retold({(target.stream, target.sequence): change})
    forger.write_stores(told, [producer])
    result = verified_away(data)
    assert not result.ok
    store = place_in_words("store", target.stream)
    named = [finding for finding in result.findings if store in finding.words]
    assert (named[0].stream, named[0].sequence, named[0].coup) == (*_at(target), target.data.coup)
    # Every event behind it has another hash, and each is named; nothing else is.
    behind = evidence.last(target.stream).sequence - target.sequence + 1
    assert len(named) == result.findings_count >= behind
    assert result.verified == COUPS


def _at(event: Recorded[Any]) -> tuple[str, int]:
    return event.stream, event.sequence


@pytest.mark.parametrize("place", ["bus", "record"])
def test_a_bus_or_a_record_that_was_written_anew_is_named(evidence, place):
    data = evidence.copy()
    forger = Forger(data, evidence.events)
    target = losing_settlement(evidence)
    told = forger.retold({_at(target): more_money})
    (forger.write_bus if place == "bus" else forger.write_record)(told)
    result = verified_away(data)
    assert result.findings_count > 1
    assert all(place_in_words(place, finding.stream) in finding.words for finding in result.findings)
    assert any((each.stream, each.sequence) == _at(target) for each in result.findings)
    assert result.verified == COUPS


def forged_everywhere(evidence: Evidence, changes: dict[tuple[str, int], Any]) -> Verification:
    data = evidence.copy()
    forger = Forger(data, evidence.events)
    forger.write_everywhere(forger.retold(changes))
    return verified_away(data)


def test_telling_the_same_story_again_is_no_forgery(evidence):
    assert forged_everywhere(evidence, {}).ok


def test_money_that_was_forged_at_all_three_places_is_found_by_the_rules(evidence):
    target = losing_settlement(evidence)
    verdict = evidence.one(CoupVerified, "audit/main", target.data.coup)

    def richer(payload: Any) -> CoupVerified:
        bets = more_money(target.data).bets
        [row] = payload.turnover
        returned = sum(bet.returned for bet in bets)
        return payload.model_copy(update={"turnover": (row.model_copy(update={"returned": returned}),)})

    result = forged_everywhere(evidence, {_at(target): more_money, _at(verdict): richer})
    assert not result.ok
    assert (result.verified, result.discrepant) == (COUPS - 1, 1)
    assert {finding.coup for finding in result.findings} == {target.data.coup}
    assert {finding.check for finding in result.findings} >= {"tiers", "payout", "verdict"}
    payout = next(finding for finding in result.findings if finding.check == "payout")
    assert (payout.stream, payout.sequence) == _at(target)
    assert "was paid" in payout.words
    assert "0.00 EUR was due" in payout.words
    assert result.balanced, "a balanced forgery: only the rules tell"


def test_an_entry_that_does_not_sum_is_found(evidence):
    target = losing_settlement(evidence)

    def skimmed(payload: Any) -> CoupSettled:
        *rest, last = payload.entry
        return payload.model_copy(
            update={"entry": (*rest, last.model_copy(update={"amount": last.amount + 1}))}
        )

    result = forged_everywhere(evidence, {_at(target): skimmed})
    assert not result.ok
    assert not result.balanced
    assert {"entry", "entry_sum"} <= {finding.check for finding in result.findings}
    assert {finding.coup for finding in result.findings if finding.check == "entry_sum"} == {target.data.coup}


def test_a_card_that_nobody_might_draw_is_found(evidence):
    """Case 15: Banker stands on 7, and a sixth card makes Player win."""
    fifth = next(
        event
        for event in evidence.events
        if event.stream == "game/second.T1" and isinstance(event.data, CardDealt) and event.data.card == "5C"
    )
    end = evidence.one(CoupConcluded, "game/second.T1")
    paid = _settlement_of_second(evidence)
    verdict = evidence.one(CoupVerified, "audit/second")

    def and_a_sixth(payload: Any) -> list[CardDealt]:
        more = {"index": payload.index + 1, "hand": "banker", "position": 3, "card": "4C"}
        return [payload, payload.model_copy(update=more)]

    def player_wins(payload: Any) -> CoupConcluded:
        result = {"outcome": "player", "player_total": 5, "banker_total": 1, "cards": 6}
        tiers = {"player": "win", "banker": "lose", "tie": "lose"}
        return payload.model_copy(update={**result, "tiers": tiers})

    def player_is_paid(payload: Any) -> CoupSettled:
        to_player = {"tier": "win", "returned": 1000, "commission": 0, "commission_exact": "0"}
        to_banker = {"tier": "lose", "returned": 0, "commission": 0, "commission_exact": "0"}
        bets = tuple(
            bet.model_copy(update=to_player if bet.spot == "player" else to_banker) for bet in payload.bets
        )
        return payload.model_copy(update={"outcome": "player", "bets": bets, "entry": entry_of(bets)})

    def all_is_well(payload: Any) -> CoupVerified:
        money = Turnover(currency="EUR", exponent=2, staked=2500, returned=1000, commission=0)
        cards = (*payload.cards, "4C")
        return payload.model_copy(update={"outcome": "player", "cards": cards, "turnover": (money,)})

    changes = {
        _at(fifth): and_a_sixth,
        _at(end): player_wins,
        _at(paid): player_is_paid,
        _at(verdict): all_is_well,
    }
    result = forged_everywhere(evidence, changes)
    assert (result.ok, result.verified, result.discrepant) == (False, COUPS - 1, 1)
    assert {(each.operator, each.coup) for each in result.findings} == {("second", 1)}
    [drawn] = [finding for finding in result.findings if finding.check == "tableau"]
    assert (drawn.stream, drawn.sequence) == (fifth.stream, fifth.sequence + 1)
    assert "4C" in drawn.words
    assert {"tableau", "result", "payout", "verdict"} <= {finding.check for finding in result.findings}


def _settlement_of_second(evidence: Evidence) -> Recorded[Any]:
    [paid] = [
        event
        for event in evidence.events
        if isinstance(event.data, CoupSettled) and event.data.operator == "second"
    ]
    return paid


def test_an_outcome_that_the_cards_do_not_make_is_found(evidence):
    end = evidence.one(CoupConcluded, "game/main.T1", 7)
    other = "player" if end.data.outcome == "banker" else "banker"
    paid = evidence.one(CoupSettled, "wallet/main", 7)

    def announced(payload: Any) -> CoupConcluded:
        return payload.model_copy(update={"outcome": other})

    def obeyed(payload: Any) -> CoupSettled:
        return payload.model_copy(update={"outcome": other})

    result = forged_everywhere(evidence, {_at(end): announced, _at(paid): obeyed})
    assert (result.ok, result.verified, result.discrepant) == (False, COUPS - 1, 1)
    assert {finding.coup for finding in result.findings} == {7}
    wrong = next(finding for finding in result.findings if finding.check == "result")
    assert (wrong.stream, wrong.sequence) == _at(end)
    assert "was announced as" in wrong.words
    assert "its cards make it" in wrong.words


def test_cards_that_were_forged_with_all_that_follows_are_betrayed_by_audits_verdict(evidence):
    """Suits change no total: only the revealed seed, or what audit said at the time, tells."""
    first = next(
        event
        for event in evidence.events
        if event.stream == "game/second.T1" and isinstance(event.data, CardDealt) and event.data.card == "KC"
    )
    result = forged_everywhere(
        evidence, {_at(first): lambda payload: payload.model_copy(update={"card": "KD"})}
    )
    assert result.verified == COUPS
    [finding] = result.findings
    assert (finding.stream, finding.sequence, finding.coup) == ("audit/second", 1, 1)
    assert finding.words == "audit verified coup 1 of shoe S1 with another cards than it has now"


def test_a_verdict_on_a_coup_that_never_was_is_found(evidence):
    verdict = evidence.last("audit/main")

    def one_more(payload: Any) -> list[CoupVerified]:
        return [payload, payload.model_copy(update={"coup": 99})]

    result = forged_everywhere(evidence, {_at(verdict): one_more})
    [finding] = result.findings
    assert (finding.stream, finding.sequence, finding.coup) == ("audit/main", verdict.sequence + 1, 99)
    assert "its events do not say so" in finding.words
