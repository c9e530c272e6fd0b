"""The bus on Kafka where there is none: who opens it must neither wait nor leave anything behind."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from time import monotonic, sleep

import pytest

from deploy.kafka.ports import HeldPort
from services.runtime.bus.address import Address, AddressError, parse_address
from services.runtime.bus.kafka import KafkaBus
from services.runtime.bus.kafka.topics import create_topics
from services.runtime.bus.kafka.tuning import Tuning
from services.runtime.ports import BusUnavailable, Record, Subscription
from tests.contracts.streams import Seats

HASTY = Tuning(patience_seconds=0.2, request_timeout_ms=600, delivery_timeout_ms=700)


@pytest.mark.parametrize(
    ("text", "servers", "prefix"),
    [
        ("127.0.0.1:9092", ("127.0.0.1:9092",), ""),
        ("kafka-1:9092,kafka-2.example.com:9093", ("kafka-1:9092", "kafka-2.example.com:9093"), ""),
        (" kafka-1:9092 , kafka-2:1", ("kafka-1:9092", "kafka-2:1"), ""),
        ("[::1]:9092", ("[::1]:9092",), ""),
        ("[fe80::1]:65535,my_broker:1", ("[fe80::1]:65535", "my_broker:1"), ""),
        ("kafka:9092/casino", ("kafka:9092",), "casino."),
        ("a:1,b:2/North_Sea-2", ("a:1", "b:2"), "North_Sea-2."),
        ("kafka:9092/" + "x" * 64, ("kafka:9092",), "x" * 64 + "."),
    ],
)
def test_addresses(text, servers, prefix):
    address = parse_address(text)
    assert address == Address(servers, prefix)
    assert str(address) == ",".join(servers)
    assert address.named("game.events") == f"{prefix}game.events"
    assert address.our_name(address.named("game.events")) == "game.events"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "'' is no broker"),
        ("kafka", "'kafka' is no broker"),
        ("kafka:", "'kafka:' is no broker"),
        (":9092", "':9092' is no broker"),
        ("kafka:port", "'kafka:port' is no broker"),
        ("kafka:65536", "'kafka:65536' is no broker"),
        ("kafka:123456", "'kafka:123456' is no broker"),
        ("kafka:-1", "'kafka:-1' is no broker"),
        ("::1:9092", "'::1:9092' is no broker"),
        ("kafka:9092,", "'' is no broker"),
        ("kafka:9092 other:9092", "'kafka:9092 other:9092' is no broker"),
        ("kafka:9092\n", None),
        ("http://kafka:9092", "cannot be the name of an installation"),
        ("user@kafka:9092", "'user@kafka:9092' is no broker"),
        ("kafka:9092/", "'' cannot be the name of an installation"),
        ("kafka:9092/a.b", "'a.b' cannot be the name of an installation"),
        ("kafka:9092/a/b", "'a/b' cannot be the name of an installation"),
        ("kafka:9092/-a", "'-a' cannot be the name of an installation"),
        ("kafka:9092/ä", "'ä' cannot be the name of an installation"),
        ("kafka:9092/" + "x" * 65, "cannot be the name of an installation"),
    ],
)
def test_what_is_no_address(text, words):
    if words is None:  # white space at the end is no matter
        assert parse_address(text) == Address(("kafka:9092",))
        return
    with pytest.raises(AddressError) as refused:
        parse_address(text)
    assert words in str(refused.value)
    with pytest.raises(AddressError):
        KafkaBus(text)


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nobody listens."""
    with closing(HeldPort()) as port:
        yield port.address


@pytest.fixture
def mute() -> Iterator[str]:
    """An address where connections are taken and nothing is ever answered."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def fault_of(subscription: Subscription) -> str:
    """What its poll says, once it knows it."""
    until = monotonic() + 30
    while monotonic() < until:
        try:
            assert subscription.poll(10) == []
        except BusUnavailable as reason:
            return str(reason)
        sleep(0.005)
    raise AssertionError("it says nothing")


def test_where_nobody_listens_everybody_is_told_and_nobody_waits(nobody):
    bus = KafkaBus(nobody, HASTY)
    subscription = bus.subscribe("sabot-wallet", ["game.events"], {})
    with pytest.raises(BusUnavailable, match=r"not connected to Kafka|no Kafka broker answers"):
        bus.begin(Seats().sit(1))
    assert fault_of(subscription) == f"no Kafka broker answers at {nobody}"
    with pytest.raises(BusUnavailable, match=f"^no Kafka broker answers at {nobody}$"):
        bus.publish([Record("game.events", "k", b"{}")])
    with pytest.raises(BusUnavailable, match=f"^no Kafka broker answers at {nobody}$"):
        create_topics(nobody, HASTY)
    with pytest.raises(BusUnavailable, match=r"^topic game\.events cannot be read from Kafka"):
        list(bus.read("game.events"))
    subscription.close()
    bus.close()


def test_where_nobody_answers_no_attempt_leaves_anything_behind(mute):
    before = set(threading.enumerate())
    bus = KafkaBus(mute, HASTY)
    subscription = bus.subscribe("sabot-wallet", ["game.events"], {})
    with pytest.raises(BusUnavailable):
        bus.begin(Seats().sit(1))

    def others() -> list[str]:
        """Threads beside the bus's own two."""
        ours = {"sabot-wallet-reader", "kafka-publisher"}
        return [each.name for each in threading.enumerate() if each not in before and each.name not in ours]

    most, until = 0, monotonic() + 2.5
    while monotonic() < until:  # time for three attempts of each
        most = max(most, len(others()))
        sleep(0.01)
    assert most == 1
    assert "Unable to bootstrap" in fault_of(subscription)
    with pytest.raises(BusUnavailable, match="Unable to bootstrap"):
        bus.begin(Seats().sit(1))
    with pytest.raises(BusUnavailable, match="does not take the topics"):
        create_topics(mute, HASTY)
    subscription.close()
    bus.close()
    assert others() == []
