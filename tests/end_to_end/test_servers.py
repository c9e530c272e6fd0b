"""The whole over a real Kafka and a real PostgreSQL: all as over files, and found where it was changed."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from schemas.envelope import Recorded, encode
from schemas.events.accounts import Deposited
from schemas.events.game import CardDealt
from schemas.events.wallet import (
    CoupSettled,
)
from services.audit.verification import Verification
from services.audit.verify import verify
from services.runtime.installation import Installation
from services.runtime.ports import Record
from services.runtime.topics import key_of, topic_of
from tests.end_to_end.servers import NOWHERE, Servers, Topics
from tests.end_to_end.support import (
    PRODUCERS,
    append_to_the_bus,
    coup_of,
    events_of,
    place_in_words,
    sabot,
    sabot_json,
)
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

    def event(self, stream: str, sequence: int) -> Recorded[Any]:
        return one_of(self.events, stream, sequence)

    def last(self, stream: str) -> Recorded[Any]:
        return last_of(self.events, stream)

    def settled(self, coup: int, operator: str = "main") -> Recorded[Any]:
        """How wallet paid a coup."""
        [found] = [
            event
            for event in self.events
            if isinstance(event.data, CoupSettled)
            and (event.data.operator, event.data.coup) == (operator, coup)
        ]
        return found


def one_of(events: Sequence[Recorded[Any]], stream: str, sequence: int) -> Recorded[Any]:
    [found] = [each for each in events if (each.stream, each.sequence) == (stream, sequence)]
    return found


def last_of(events: Sequence[Recorded[Any]], stream: str) -> Recorded[Any]:
    return max((each for each in events if each.stream == stream), key=lambda each: each.sequence)


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
    before = {record.body for record in evidence.servers.topics.records()}
    summary, again = evidence.ingest("nl", evidence.servers.options)
    assert again == evidence.settlements["nl"][0]
    assert (summary["coups"], summary["repeated_lines"], summary["rejected_lines"]) == (12, 17, 0)
    # An event may be published twice, but none is new.
    assert {record.body for record in evidence.servers.topics.records()} == before


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


@pytest.mark.parametrize("stream", ["game/main.T1", "wallet/main", "audit/second"])
@pytest.mark.parametrize("place", ["the middle", "the end"])
def test_a_deleted_event_is_one_finding_that_names_the_store(evidence, stream, place):
    last = evidence.last(stream)
    event = last if place == "the end" else evidence.event(stream, last.sequence // 2)
    producer = stream.partition("/")[0]
    with evidence.servers.tampered(producer, "event") as hands:
        hands.execute("DELETE FROM event WHERE body = %s", (event.body,))
        assert hands.rowcount == 1
        result = verify(evidence.servers.where)
    assert_one_finding(result, place_in_words("store", stream), event, "integrity_missing")


@pytest.mark.parametrize("stream", ["game/second.T1", "wallet/main", "audit/main"])
def test_a_changed_hash_in_audits_evidence_is_one_finding(evidence, stream):
    event = evidence.event(stream, 4)
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


def test_on_kafka_alone_what_was_published_twice_counts_once(evidence):
    """As after a death between a publishing and the note of it: up to 500 events of a service come again."""
    topics = retold(evidence, lambda records: [*records, *records[-400:]])
    assert alone(topics) == alone(evidence.servers.topics)
    assert against_the_stores(evidence, topics).ok


def changed(event: Recorded[Any], body: bytes) -> Callable[[list[Any]], Sequence[Any]]:
    """An event has another body on Kafka."""
    return lambda records: [
        Record(each.topic, each.key, body) if each.body == event.body else each for each in records
    ]


def without(event: Recorded[Any]) -> Callable[[list[Any]], Sequence[Any]]:
    """An event is not on Kafka."""
    return lambda records: [each for each in records if each.body != event.body]


@pytest.mark.parametrize("stream", ["wallet/main", "audit/second"])
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
    record = Record(topic_of(stream), key_of(stream), forged.body)
    topics = retold(evidence, lambda records: [*records, record])
    assert_one_finding(against_the_stores(evidence, topics), "the bus", forged, "integrity_extra")


STRANGERS: dict[str, tuple[str, Callable[[Sequence[Recorded[Any]]], bytes]]] = {
    "something that is no event": ("wallet/main", lambda _: b"hello"),
    "an event of somebody else": (
        "game/main.T1",
        lambda _: b'{"specversion":"1.0","id":"1","source":"elsewhere","type":"com.example.thing","data":{}}',
    ),
    "a second event with other bytes": (
        "wallet/main",
        lambda events: last_of(events, "wallet/main").body.replace(b'"causationid":"', b'"causationid":"x'),
    ),
    "a table that nobody has opened": (
        "game/main.T9",
        lambda events: one_of(events, "game/main.T1", 1).body.replace(b"T1", b"T9"),
    ),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_a_strange_record_on_kafka_is_the_finding_that_it_is_on_the_embedded_bus(evidence, name):
    stream, strange = STRANGERS[name]
    record = Record(topic_of(stream), key_of(stream), strange(evidence.events))
    on_kafka = against_the_stores(evidence, retold(evidence, lambda records: [*records, record]))
    copy = Path(shutil.copytree(evidence.data, evidence.folder / "copy"))
    append_to_the_bus(copy, stream, strange(events_of(copy)))
    on_files = verify(Installation(copy))
    shutil.rmtree(copy)
    for result in (on_kafka, on_files):
        [finding] = result.findings
        assert (finding.check, finding.stream) == ("integrity_extra", stream)
        assert finding.words.startswith("the bus has a")
        assert (result.verified, result.discrepant, result.open) == (COUPS, 0, 0)


def test_a_changed_record_on_kafka_is_one_finding_and_the_store_tells_the_coup(evidence):
    event = evidence.settled(5)
    topics = retold(evidence, changed(event, event.body.replace(b'"returned":', b'"returned":9', 1)))
    assert_one_finding(against_the_stores(evidence, topics), "the bus", event, "integrity_changed")


def test_on_kafka_alone_a_changed_record_is_found_by_the_chain_and_by_the_rules(evidence):
    event = evidence.settled(5)
    topics = retold(evidence, changed(event, event.body.replace(b'"returned":', b'"returned":9', 1)))
    result = alone(topics)
    behind = event.sequence + 1
    chain = next(each for each in result.findings if each.check == "integrity_chain")
    assert (chain.stream, chain.sequence) == (event.stream, behind)
    assert (
        chain.words
        == f"event {behind} of wallet/main does not follow event {event.sequence}: it names another hash"
    )
    [payout] = [each for each in result.findings if each.check == "payout"]
    assert (payout.sequence, payout.coup) == (event.sequence, 5)
    assert result.verified < COUPS


def test_on_kafka_alone_a_changed_record_that_breaks_no_rule_is_found_by_the_chain(evidence):
    deposit = next(each for each in evidence.events if isinstance(each.data, Deposited))
    topics = retold(evidence, changed(deposit, deposit.body.replace(b'"tx":"', b'"tx":"x')))
    result = alone(topics)
    place = (deposit.stream, deposit.sequence + 1)
    assert place in [(each.stream, each.sequence) for each in result.findings if "chain" in each.check]
    assert not result.ok


@pytest.mark.parametrize("kind", [CoupSettled, CardDealt])
def test_on_kafka_alone_a_missing_record_is_found_by_the_gap(evidence, kind):
    event = next(each for each in evidence.events if isinstance(each.data, kind) and each.data.coup == 5)
    result = alone(retold(evidence, without(event)))
    missing = next(each for each in result.findings if each.check == "integrity_missing")
    assert (missing.stream, missing.sequence) == (event.stream, event.sequence)
    assert result.verified == COUPS - 1


def test_on_kafka_alone_what_is_missing_at_the_very_end_is_found_by_audits_verdict(evidence):
    """No event names the last one. Only audit had seen that coup paid."""
    event = evidence.last("wallet/main")
    result = alone(retold(evidence, without(event)))
    assert [each.check for each in result.findings] == ["verdict"]
    assert (result.findings[0].coup, result.open) == (event.data.coup, 1)


@pytest.mark.parametrize("service", ["game", "wallet"])
def test_publishing_again_fills_a_gap_on_kafka(evidence, service):
    stream = "game/main.T1" if service == "game" else "wallet/main"
    lost = evidence.event(stream, 7)
    topics = retold(evidence, without(lost))
    where = ["--kafka", topics.address, "--database", evidence.servers.database]
    [finding] = sabot_json("verify", *where, status=1)["findings"]
    assert (finding["check"], finding["stream"], finding["sequence"]) == ("integrity_missing", stream, 7)
    count = evidence.last(stream).sequence - 6
    assert sabot(service, "republish", stream, "7", *where) == f"{count} events of {stream} published again\n"
    assert sabot_json("verify", *where)["ok"] is True
    # The events themselves need no database.
    assert alone(topics).verified == COUPS


# --------------------------------------------------------------------------------------------------- prepare


@pytest.fixture
def site(postgres) -> Iterator[str]:
    """How the roles and databases of an installation are called that nobody has prepared."""
    name = f"prepared_{os.getpid()}"
    yield name
    with psycopg.connect(postgres.admin, autocommit=True) as admin:
        for kind, names in (
            ("DATABASE", [f"{name}_{service}" for service in PRODUCERS]),
            (
                "ROLE",
                [
                    f"{name}_{role}"
                    for service in (*PRODUCERS, "reader")
                    for role in (service, f"{service}_owner")
                ],
            ),
        ):
            for each in names:
                admin.execute(f"DROP {kind} IF EXISTS {each}")


def test_what_is_prepared_twice_is_there_already_and_can_be_worked_with(
    kafka_cluster, postgres, site, tmp_path
):
    url = sa.make_url(postgres.admin)
    database = f"postgresql://{site}_{{service}}@{url.host}:{url.port or 5432}/{site}_{{service}}"
    kafka = f"{kafka_cluster.bootstrap}/{site.replace('_', '-')}"
    command = ["prepare", "--kafka", kafka, "--database", database, "--admin", postgres.admin]
    first, second, again = sabot(*command).splitlines(), sabot(*command).splitlines(), sabot_json(*command)
    made = [line for line in first if ": made" in line]
    # Topics, a role and an owner for each service, the reader, databases.
    assert len(made) == 3 + 3 + 3 + 1 + 3
    assert len(first) == len(made) + 3, "and the tables of each service"
    assert second == [line.replace(": made", ": there already") for line in first]
    assert again == {"done": second}
    assert f"topic {kafka.partition('/')[2]}.game.events: made, 12 partitions, 1 copy, kept for ever" in first
    assert not any("@" in line for line in first), "no URL is shown, for it may have a password"

    file = tmp_path / "coups.jsonl"
    file.write_bytes((EXAMPLES / "dk.jsonl").read_bytes())
    where = command[1:5]
    assert sabot_json("ingest", file, *where, "--out", tmp_path / "out.csv")["coups"] == 12
    assert sabot_json("verify", *where)["coups"]["verified"] == 12
