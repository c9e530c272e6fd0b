"""What a bus must do, whichever it is. A bus's own test inherits the suite and says how it is opened."""

import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from time import monotonic, sleep

import pytest

from services.runtime.ports import Bus, BusUnavailable, Delivery, Offsets, Record, Subscription
from tests.contracts.streams import bodies

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 30.0


def records(topic: str, key: str, count: int, first: int = 0) -> list[Record]:
    """Records that say their key and number."""
    return [Record(topic, key, f"{key}#{number}".encode()) for number in range(first, first + count)]


def take(subscription: Subscription, count: int, records_max: int = 500) -> list[Delivery]:
    """So many deliveries, waiting for them a while as a slow bus may need."""
    taken: list[Delivery] = []
    until = monotonic() + PATIENCE_SECONDS
    while len(taken) < count and monotonic() < until:
        polled = patiently(subscription, records_max)
        taken += polled
        if not polled:
            sleep(0.001)
    return taken


def patiently(subscription: Subscription, records_max: int) -> Sequence[Delivery]:
    """A poll by somebody who knows that a bus may need a moment to get ready."""
    try:
        return subscription.poll(records_max)
    except BusUnavailable:
        return ()


def nothing_more(subscription: Subscription) -> bool:
    """Whether a few polls, some time apart, bring nothing."""
    came = list(patiently(subscription, 500))
    for _ in range(3):
        sleep(0.1)
        came += patiently(subscription, 500)
    return not came


def by_key(deliveries: Sequence[Delivery]) -> dict[str | None, list[bytes]]:
    """The bytes that came under each key, in the order in which they came."""
    sorted_out: dict[str | None, list[bytes]] = defaultdict(list)
    for each in deliveries:
        sorted_out[each.key].append(each.body)
    return dict(sorted_out)


def next_offsets(deliveries: Sequence[Delivery]) -> dict[tuple[str, int], int]:
    """Where a consumer that has seen these goes on."""
    return {(each.topic, each.partition): each.offset + 1 for each in deliveries}


class BusContract(ABC):
    """The promises of ``services.runtime.ports.Bus``. A subclass provides what is abstract here."""

    @pytest.fixture
    @abstractmethod
    def connect(self, tmp_path: Path) -> Iterator[Callable[[], Bus]]:
        """Opens another client of the one bus of this test; all are closed at the end."""

    @abstractmethod
    def program_that_opens(self, tmp_path: Path) -> str:
        """Python that binds ``bus`` to a client of the same bus in another process."""

    @abstractmethod
    def unavailable(self, bus: Bus) -> AbstractContextManager[None]:
        """While it lasts this client cannot publish."""

    @pytest.fixture
    def topic(self) -> str:
        """A topic that nothing was ever published on."""
        return "game.events"

    @pytest.fixture
    def other_topic(self) -> str:
        """A second one."""
        return "wallet.events"

    @pytest.fixture
    def bus(self, connect: Callable[[], Bus]) -> Bus:
        return connect()

    @pytest.fixture
    def subscribe(self, bus: Bus) -> Iterator[Callable[..., Subscription]]:
        """Subscribes to topics, and closes what is left open."""
        opened: list[Subscription] = []

        def to(*topics: str, start: Offsets | None = None, group: str = "readers") -> Subscription:
            opened.append(bus.subscribe(group, topics, start or {}))
            return opened[-1]

        yield to
        for each in opened:
            each.close()

    def test_each_key_comes_in_the_order_in_which_it_was_published(self, bus, subscribe, topic):
        sent = {key: records(topic, key, 60) for key in ("game/op.T1", "game/op.T2", "main")}
        for turn in range(0, 60, 20):  # three keys in turn, in batches that mix them
            bus.publish([each for row in zip(*sent.values(), strict=True) for each in row][3 * turn :][:60])
        came = take(subscribe(topic), 180)
        assert by_key(came) == {key: bodies(each) for key, each in sent.items()}

    def test_a_delivery_says_where_it_stood_and_offsets_rise(self, bus, subscribe, topic):
        bus.publish(records(topic, "main", 50))
        came = take(subscribe(topic), 50)
        assert {each.topic for each in came} == {topic}
        places: dict[int, list[int]] = defaultdict(list)
        for each in came:
            places[each.partition].append(each.offset)
        assert all(offsets == sorted(set(offsets)) for offsets in places.values())

    def test_bytes_and_signature_come_as_they_were(self, bus, subscribe, topic):
        odd = [
            b"{}",
            b'{"amount":',
            b"\x00\xff\xfe",
            b"",
            "ß€".encode(),
            bytes(range(256)) * 255,
            b"x" * 65_535,
        ]
        sent = [Record(topic, "main", body, bytes([number] * 64)) for number, body in enumerate(odd)]
        bus.publish([*sent, Record(topic, "main", b"unsigned")])
        came = take(subscribe(topic), len(odd) + 1)
        assert [(each.body, each.signature) for each in came] == [
            *((each.body, each.signature) for each in sent),
            (b"unsigned", None),
        ]

    def test_an_older_position_brings_the_same_again(self, bus, subscribe, topic):
        bus.publish(records(topic, "main", 30))
        came = take(subscribe(topic), 30)
        twelfth = came[12]
        start = {(topic, twelfth.partition): twelfth.offset}
        assert take(subscribe(topic, start=start), 18) == came[12:]

    def test_a_consumer_that_starts_again_in_the_middle_misses_nothing_and_gets_nothing_twice(
        self, bus, subscribe, topic
    ):
        bus.publish(records(topic, "main", 40))
        first = subscribe(topic)
        before = take(first, 10, records_max=10)
        first.close()
        bus.publish(records(topic, "main", 10, first=40))
        second = subscribe(topic, start=next_offsets(before))
        after = take(second, 40)
        assert bodies(before + after) == bodies(records(topic, "main", 50))
        assert nothing_more(second)

    def test_each_topic_goes_on_from_its_own_position(self, bus, subscribe, topic, other_topic):
        bus.publish(records(other_topic, "main", 5))
        bus.publish(records(topic, "game/op.T1", 5))
        first = subscribe(other_topic)
        seen = take(first, 5)
        first.close()
        came = take(subscribe(topic, other_topic, start=next_offsets(seen[:3])), 7)
        assert by_key(came) == {
            "game/op.T1": bodies(records(topic, "game/op.T1", 5)),
            "main": bodies(records(other_topic, "main", 2, first=3)),
        }

    def test_a_poll_takes_no_more_than_it_is_asked_for(self, bus, subscribe, topic):
        bus.publish(records(topic, "main", 25))
        subscription = subscribe(topic)
        portions: list[Sequence[Delivery]] = []
        until = monotonic() + PATIENCE_SECONDS
        while sum(map(len, portions)) < 25 and monotonic() < until:
            portions.append(patiently(subscription, 10))
        assert max(map(len, portions)) <= 10
        assert bodies([each for portion in portions for each in portion]) == bodies(
            records(topic, "main", 25)
        )

    def test_who_reads_already_gets_what_is_published_later(self, bus, subscribe, connect, topic):
        subscription = subscribe(topic)
        assert nothing_more(subscription)
        connect().publish(records(topic, "main", 3))
        assert bodies(take(subscription, 3)) == bodies(records(topic, "main", 3))

    def test_every_group_gets_everything(self, bus, subscribe, topic):
        bus.publish(records(topic, "main", 10))
        wallet, audit = (subscribe(topic, group=group) for group in ("sabot-wallet", "sabot-audit"))
        assert bodies(take(wallet, 10)) == bodies(take(audit, 10)) == bodies(records(topic, "main", 10))

    def test_a_hint_of_the_position_changes_nothing_for_who_brings_his_own(self, bus, subscribe, topic):
        bus.publish(records(topic, "main", 10))
        first = subscribe(topic)
        came = take(first, 10)
        first.commit(next_offsets(came))
        first.close()
        assert take(subscribe(topic), 10) == came

    def test_a_whole_topic_is_read_and_the_reading_ends(self, bus, subscribe, topic, other_topic):
        assert list(bus.read(topic)) == []
        bus.publish(records(topic, "main", 2_500))
        bus.publish(records(other_topic, "main", 3))
        came = list(bus.read(topic))
        assert bodies(came) == bodies(records(topic, "main", 2_500))
        assert came == take(subscribe(topic), 2_500)

    def test_a_reading_ends_with_what_was_there_when_it_began(self, bus, topic):
        bus.publish(records(topic, "main", 1_500))
        for reading in (bus.read(topic), bus.read(topic, key="main")):
            there = len(list(bus.read(topic)))
            first = next(reading)
            bus.publish(records(topic, "main", 1_500, first=there))
            assert len([first, *reading]) == there

    def test_one_keys_records_can_be_read_alone(self, bus, topic, other_topic):
        assert list(bus.keys(topic)) == []
        bus.publish([*records(topic, "game/op.T2", 3), *records(topic, "game/op.T1", 1_200)])
        bus.publish(records(other_topic, "main", 2))
        assert list(bus.keys(topic)) == ["game/op.T1", "game/op.T2"]
        bus.publish(records(topic, "game/op.T1", 300, first=1_200))
        assert bodies(bus.read(topic, key="game/op.T1")) == bodies(records(topic, "game/op.T1", 1_500))
        assert list(bus.read(topic, key="game/op.T1")) == [
            each for each in bus.read(topic) if each.key == "game/op.T1"
        ]
        assert list(bus.read(topic, key="main")) == []
        assert list(bus.keys(other_topic)) == ["main"]

    def test_threads_may_share_a_bus(self, bus, subscribe, topic):
        barrier, faults = threading.Barrier(4), []

        def produce(key: str) -> None:
            barrier.wait()
            try:
                for number in range(25):
                    bus.publish(records(topic, key, 4, first=4 * number))
            except Exception as error:
                faults.append(error)

        threads = [threading.Thread(target=produce, args=(f"game/op.T{number}",)) for number in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert faults == []
        assert by_key(take(subscribe(topic), 400)) == {
            f"game/op.T{number}": bodies(records(topic, f"game/op.T{number}", 100)) for number in range(4)
        }

    def test_several_processes_on_one_bus(self, bus, subscribe, connect, topic, tmp_path):
        program = (
            "import sys\n"
            "from services.runtime.ports import Record\n"
            f"{self.program_that_opens(tmp_path)}\n"
            "topic, key = sys.argv[1:]\n"
            "for first in range(0, 100, 5):\n"
            "    bus.publish([Record(topic, key, f'{key}#{n}'.encode()) for n in range(first, first + 5)])\n"
            "bus.close()\n"
        )
        keys = ["game/op.T1", "game/op.T2", "game/op.T3"]
        children = [
            subprocess.Popen([sys.executable, "-c", program, topic, key], cwd=ROOT, stderr=subprocess.PIPE)
            for key in keys
        ]
        subscription = subscribe(topic)
        came = take(subscription, 300)  # while they publish
        ended = [(child.communicate(timeout=60)[1], child.returncode) for child in children]
        assert ended == [(b"", 0)] * 3
        assert by_key(came) == {key: bodies(records(topic, key, 100)) for key in keys}
        assert nothing_more(subscription)

    def test_what_was_published_is_there_for_who_comes_later(self, connect, topic):
        first = connect()
        first.publish(records(topic, "main", 5))
        first.close()
        assert bodies(list(connect().read(topic))) == bodies(records(topic, "main", 5))

    def test_a_bus_that_cannot_publish_says_so_and_loses_nothing(self, bus, subscribe, connect, topic):
        bus.publish(records(topic, "main", 5))
        batch = [
            *records(topic, "main", 5, first=5),
            *(Record(topic, "main", b"long" * 16_000) for _ in range(40)),
        ]
        with self.unavailable(bus), pytest.raises(BusUnavailable):
            bus.publish(batch)
        bus.publish(batch)  # as the port asks
        came = bodies(take(subscribe(topic), 50))
        # Of the first attempt the front may be there, in order; what counts is that nothing is skipped.
        assert came[:5] == bodies(records(topic, "main", 5))
        assert came[-45:] == bodies(batch)
        assert came[5:-45] == bodies(batch)[: len(came) - 50]

    def test_publishing_nothing_is_nothing(self, bus, topic):
        bus.publish([])
        assert list(bus.read(topic)) == []
