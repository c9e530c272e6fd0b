"""The whole over a real Kafka and a real PostgreSQL: the same that files give, and found where it was changed."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from schemas.envelope import Recorded, encode
from schemas.events.game import CardDealt
from schemas.events.wallet import CoupSettled
from services.audit.verification import Verification
from services.audit.verify import verify
from services.runtime.installation import Installation
from services.runtime.ports import Record
from services.runtime.topics import key_of, topic_of
from tests.end_to_end.servers import NOWHERE, Servers, Topics
from tests.end_to_end.support import PRODUCERS, coup_of, place_in_words, sabot, sabot_json
from tests.support.postgres import Databases

EXAMPLES = Path(__file__).parents[2] / "examples"
OPERATORS = {"nl": "main", "lt": "second"}
"""Two houses at one installation, each with an operator of its own."""
COUPS = 24


class Evidence:
    """The same recorded coups in an installation on servers and in a data directory."""

    def __init__(self, servers: Servers, folder: Path) -> None:
        self.servers, self.folder, self.data = servers, folder, folder / "data"
        self.settlements = {}
        for house in OPERATORS:
            on_files = self.ingest(house, ["--data", self.data])[1]
            self.settlements[house] = on_files, self.ingest(house, servers.options)[1]
        self.events = servers.events()

    def ingest(self, house: str, where: Sequence[str | Path]) -> tuple[Any, bytes]:
        """The summary, and the settlements file."""
        file, out = self.folder / f"{house}.jsonl", self.folder / "settlements.csv"
        file.write_bytes((EXAMPLES / file.name).read_bytes())
        env = {"SABOT_OPERATOR": OPERATORS[house]}
        return sabot_json("ingest", file, *where, "--out", out, env=env), out.read_bytes()

    def last(self, stream: str) -> Recorded[Any]:
        return [event for event in self.events if event.stream == stream][-1]

    def settled(self, coup: int, operator: str = "main") -> Recorded[Any]:
        """How wallet paid a coup."""
        [found] = [
            event
            for event in self.events
            if isinstance(event.data, CoupSettled)
            and (event.data.operator, event.data.coup) == (operator, coup)
        ]
        return found


@pytest.fixture(scope="module")
def evidence(kafka_cluster, postgres, tmp_path_factory) -> Iterator[Evidence]:
    databases = Databases(postgres)
    try:
        yield Evidence(
            Servers(Topics(kafka_cluster.bootstrap), databases), tmp_path_factory.mktemp("evidence")
        )
    finally:
        databases.close()


# ------------------------------------------------------------------------------------- the same as over files


@pytest.mark.parametrize("house", OPERATORS)
def test_the_settlements_are_to_the_byte_those_that_files_give(evidence, house):
    on_files, on_servers = evidence.settlements[house]
    assert on_servers == on_files
    assert on_servers.count(b"\n") > 40


def test_the_same_file_again_changes_nothing_and_gives_the_same_output(evidence):
    before = evidence.servers.topics.records()
    summary, again = evidence.ingest("nl", evidence.servers.options)
    assert again == evidence.settlements["nl"][0]
    assert (summary["coups"], summary["repeated_lines"], summary["rejected_lines"]) == (12, 17, 0)
    assert evidence.servers.topics.records() == before


@pytest.mark.parametrize("role", ["each service's own", "the reader's"])
def test_nothing_is_found_by_whichever_role_may_look(evidence, role):
    database = evidence.servers.as_reader if role == "the reader's" else evidence.servers.database
    document = sabot_json("verify", "--kafka", evidence.servers.kafka, "--database", database)
    assert document["ok"] is True
    assert document["coups"] == {"verified": COUPS, "of_these_void": 0, "discrepancy": 0, "open": 0}
    assert (document["findings"], document["notices"]) == ([], [])


def test_servers_and_kafka_alone_give_the_numbers_that_files_give(evidence):
    on_files = verify(Installation(evidence.data))
    servers = evidence.servers
    assert (on_files.ok, on_files.verified, on_files.streams) == (True, COUPS, 5)
    assert on_files.trial_balance["2010", "EUR"] < 0, "there should be money in the books"
    for where in (servers.where, Installation(NOWHERE, servers.kafka)):
        assert verify(where) == on_files
    assert sabot_json("verify", "--kafka", servers.kafka) == sabot_json("verify", "--data", evidence.data)


def test_every_coup_is_told_as_over_files(evidence):
    """Cards, totals, bets and money of each, in the order in which they were played."""
    servers = evidence.servers
    told = []
    for number, where in enumerate((["--data", evidence.data], servers.options, ["--kafka", servers.kafka])):
        details = evidence.folder / f"details-{number}.jsonl"
        sabot("verify", *where, "--details", details)
        told.append([_without_ids(json.loads(line)) for line in details.read_text("utf-8").splitlines()])
    assert len(told[0]) == COUPS
    assert told[0] == told[1] == told[2]


def _without_ids(coup: dict[str, Any]) -> dict[str, Any]:
    bets = [{name: each[name] for name in each if name not in ("account", "bet")} for each in coup["bets"]]
    return {**coup, "bets": bets}


# ------------------------------------------------------------------------------- somebody changes a database


def assert_one_finding(result: Verification, place: str, event: Recorded[Any], check: str) -> None:
    """Exactly what is wrong is said, where, and of which coup; the coups themselves are as good as before."""
    assert (result.ok, result.findings_count) == (False, 1), [each.words for each in result.findings]
    [finding] = result.findings
    assert (finding.check, finding.stream, finding.sequence) == (check, event.stream, event.sequence)
    assert place in finding.words
    if coup_of(event) is not None:
        assert (finding.table, finding.shoe, finding.coup) == coup_of(event)
    assert (result.verified, result.discrepant, result.open) == (COUPS, 0, 0)


def test_one_changed_byte_in_wallets_store_is_one_finding_that_names_it_and_the_coup(evidence):
    event = evidence.settled(5)
    changed = event.body.replace(b'"returned":', b'"returned":9', 1)
    with evidence.servers.tampered("wallet", "event") as hands:
        hands.execute("UPDATE event SET body = %s WHERE body = %s", (changed, event.body))
        result = verify(evidence.servers.where)
        document = sabot_json("verify", *evidence.servers.options, status=1)
    assert_one_finding(result, "wallet's store", event, "integrity_changed")
    assert "data.bets[0].returned" in result.findings[0].words
    assert (document["ok"], document["findings"][0]["coup"]) == (False, 5)
    assert verify(evidence.servers.where).ok, "he put it back"


@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize("place", ["the middle", "the end"])
def test_a_deleted_event_is_one_finding_that_names_the_store(evidence, producer, place):
    stream = [event for event in evidence.events if event.stream == f"{producer}/main" or event.stream == "game/main.T1" and producer == "game"]
    event = stream[-1 if place == "the end" else len(stream) // 2]
    with evidence.servers.tampered(producer, "event") as hands:
        hands.execute("DELETE FROM event WHERE body = %s", (event.body,))
        assert hands.rowcount == 1
        result = verify(evidence.servers.where)
    assert_one_finding(result, place_in_words("store", event.stream), event, "integrity_missing")


@pytest.mark.parametrize("producer", PRODUCERS)
def test_a_changed_hash_in_audits_evidence_is_one_finding(evidence, producer):
    event = next(each for each in evidence.events if each.stream.startswith(producer) and each.sequence == 4)
    with evidence.servers.tampered("audit", "audit_evidence") as hands:
        hands.execute(
            "UPDATE audit_evidence SET hash = %s WHERE hash = %s", (bytes(32), bytes.fromhex(event.hash))
        )
        assert hands.rowcount == 1
        result = verify(evidence.servers.where)
    assert_one_finding(result, "audit's record", event, "integrity_changed")


def test_evidence_that_is_gone_is_one_finding(evidence):
    event = evidence.settled(3, "second")
    with evidence.servers.tampered("audit", "audit_evidence") as hands:
        hands.execute("DELETE FROM audit_evidence WHERE hash = %s", (bytes.fromhex(event.hash),))
        result = verify(evidence.servers.where)
    assert_one_finding(result, "audit's record", event, "integrity_missing")


# ---------------------------------------------------------------------------------- somebody writes to Kafka


def retold(evidence: Evidence, change: Callable[[list[Any]], Sequence[Any]]) -> Topics:
    """Other topics, with everything that is on ours, and a change."""
    topics = Topics(evidence.servers.kafka.partition("/")[0])
    topics.publish(change(evidence.servers.topics.records()))
    return topics


def against_the_stores(evidence: Evidence, topics: Topics) -> Verification:
    return verify(Installation(NOWHERE, topics.address, evidence.servers.database))


def alone(topics: Topics) -> Verification:
    return verify(Installation(NOWHERE, topics.address))


def test_the_same_records_on_other_topics_are_no_finding(evidence):
    topics = retold(evidence, lambda records: records)
    assert against_the_stores(evidence, topics).ok
    assert alone(topics).ok


@pytest.mark.parametrize("stream", ["game/main.T1", "wallet/main", "audit/second"])
def test_a_forged_event_at_the_end_of_kafka_is_one_finding(evidence, stream):
    """It follows the last one in every respect: only the stores can tell that nobody of ours wrote it."""
    last = evidence.last(stream)
    forged = encode(
        last.data,
        stream=stream,
        sequence=last.sequence + 1,
        previous=last.hash,
        causationid="c",
        correlationid="c",
        **{name: getattr(last.envelope, name) for name in ("source", "time", "gamingday")},
    )
    topics = retold(evidence, lambda records: [*records, Record(topic_of(stream), key_of(stream), forged.body)])
    assert_one_finding(against_the_stores(evidence, topics), "the bus", forged, "integrity_extra")


def test_probe(evidence):
    import shutil
    from tests.end_to_end.test_verify import append_to_the_bus
    def show(name, r):
        print("==", name, r.ok, r.verified, r.discrepant, r.open, r.balanced)
        for f in r.findings[:6]: print("   ", f.check, f.stream, f.sequence, f.coup, f.words)
        for f in r.notices[:3]: print("   notice", f.check, f.stream, f.sequence, f.coup, f.words)
    e = evidence.settled(5)
    def strew(stream, body):
        topics = retold(evidence, lambda records: [*records, Record(topic_of(stream), key_of(stream), body)])
        copy = evidence.folder / "copy"
        shutil.copytree(evidence.data, copy)
        append_to_the_bus(copy, stream, body)
        show("servers", against_the_stores(evidence, topics)); show("alone", alone(topics)); show("files", verify(Installation(copy)))
        shutil.rmtree(copy)
    strew("wallet/main", b"hello")
    strew("game/main.T1", b'{"specversion":"1.0","id":"x","source":"elsewhere","type":"com.example.thing","data":{}}')
    strew("wallet/main", evidence.last("wallet/main").body.replace(b'"causationid":"', b'"causationid":"x'))
    first = next(ev for ev in evidence.events if ev.stream == "game/main.T1")
    strew("game/main.T9", first.body.replace(b"main.T1", b"main.T9").replace(b'"table":"T1"', b'"table":"T9"'))
    card=[ev for ev in evidence.events if isinstance(ev.data, CardDealt) and ev.data.coup==5 and ev.stream=="game/main.T1"][0]
    for ev, old, new in ((e, b'"returned":', b'"returned":9'), (card, b'"card":"', b'"card":"7')):
        def ch(records):
            return [r if r.body != ev.body else Record(r.topic, r.key, ev.body.replace(old,new,1)) for r in records]
        t = retold(evidence, ch); show("changed servers", against_the_stores(evidence, t)); show("changed alone", alone(t))
        t = retold(evidence, lambda records: [r for r in records if r.body != ev.body]); show("missing servers", against_the_stores(evidence, t)); show("missing alone", alone(t))
    # at the end
    l=evidence.last("wallet/main")
    t = retold(evidence, lambda records: [r for r in records if r.body != l.body]); show("last missing servers", against_the_stores(evidence, t)); show("last missing alone", alone(t))
    assert 0
