"""The one writer: one commit a batch, answers after the commit, and what it does when something is wrong."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import closing, contextmanager
from threading import Event, Thread

import pytest
import sqlalchemy as sa
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from schemas.envelope import decode
from schemas.refusal import Refusal
from services.runtime.inbox import Verdict
from services.runtime.ports import Bus, BusUnavailable, Delivery, Offsets, Publication, Record, Subscription
from services.runtime.process import WriterThread
from services.runtime.writer import WriterStopped
from tests.contracts.streams import Seats
from tests.services.guests import Guests, names_in, open_bus, open_engine, open_guests, work


@pytest.fixture
def bus(tmp_path):
    with closing(open_bus(tmp_path)) as bus:
        yield bus


@pytest.fixture
def engine(tmp_path):
    return open_engine(tmp_path / "service.db")


@pytest.fixture
def writer(engine, bus):
    with closing(open_guests(engine, bus)) as writer:
        yield writer


@contextmanager
def commits(engine) -> Iterator[list[int]]:
    """Counts what is committed over this engine, and how many events lie in the store at each time."""
    counted: list[int] = []

    def count(connection) -> None:
        counted.append(connection.scalar(sa.text("SELECT count(*) FROM event")))

    sa.event.listen(engine, "commit", count)
    yield counted
    sa.event.remove(engine, "commit", count)


def refusal(answer: Future) -> Refusal:
    error = answer.exception(0)
    assert isinstance(error, Refusal)
    return error


def published(bus) -> list[str]:
    return [decode(each.body).data.account for each in bus.read("wallet.events")]


# ------------------------------------------------------------------------------------------------- the batch


def test_what_waits_is_one_commit(writer, engine, bus):
    bus.publish(Seats().sit(10))
    answers = [writer.submit(f"guest-{number}") for number in range(40)]
    with commits(engine) as counted:
        assert writer.step() == 50
    assert counted == [50]
    assert [answer.result(0) for answer in answers] == [[f"wallet/guests/{n}"] for n in range(11, 51)]


def test_a_step_takes_no_more_than_its_limits(engine, bus):
    with closing(open_guests(engine, bus, records=5, commands=3)) as writer:
        bus.publish(Seats().sit(7))
        for number in range(4):
            writer.submit(f"guest-{number}")
        assert [writer.step(), writer.step(), writer.step()] == [8, 3, 0]
    assert len(names_in(engine)) == 11


def test_commands_are_carried_out_in_the_order_in_which_they_came(writer, bus):
    names = [f"guest-{number}" for number in range(700)]
    for name in names:
        writer.submit(name)
    work(writer)
    assert published(bus) == names


def test_an_answer_comes_after_the_commit_and_before_that_nothing_is_seen(writer, engine, tmp_path):
    answer = writer.submit("Ann")
    seen = []

    def look(_) -> None:
        seen.append((answer.done(), names_in(open_engine_to_read(tmp_path))))

    sa.event.listen(engine, "commit", look)
    writer.step()
    sa.event.remove(engine, "commit", look)
    assert seen == [(False, set())]
    assert answer.result(0) == ["wallet/guests/1"]
    assert names_in(open_engine_to_read(tmp_path)) == {"Ann"}


def open_engine_to_read(tmp_path):
    from services.runtime.database import open_sqlite

    return open_sqlite(tmp_path / "service.db", writer=False)


def test_a_refusal_writes_nothing(writer, engine, bus):
    answer = writer.submit("nobody")
    with engine.connect() as db, db.begin():
        before = db.execute(sa.text("SELECT count(*) FROM event")).scalar()
    work(writer)
    assert (refusal(answer).code, refusal(answer).field) == ("INVALID", "name")
    assert writer.store.position == before == 0
    assert (names_in(engine), published(bus)) == (set(), [])


def test_a_refusal_takes_nothing_from_the_rest_of_its_batch(writer, engine):
    answers = [writer.submit(name) for name in ("Ann", "nobody", "Bea")]
    writer.step()
    assert [answers[0].result(0), answers[2].result(0)] == [["wallet/guests/1"], ["wallet/guests/2"]]
    assert refusal(answers[1]).code == "INVALID"
    assert names_in(engine) == {"Ann", "Bea"}


def test_a_repeated_command_makes_no_event(writer):
    answers = [writer.submit("Ann"), writer.submit("Ann")]
    writer.step()
    assert [answer.result(0) for answer in answers] == [["wallet/guests/1"], []]


def test_events_of_one_command_name_it_as_their_cause(writer, bus):
    writer.submit("couple", "command-7")
    bus.publish(Seats().sit(1))
    work(writer)
    events = [decode(each.body) for each in bus.read("wallet.events")]
    assert [(event.data.account, event.envelope.causationid) for event in events] == [
        ("T1-seat-1", "game/op.T1/1"),
        ("Fred", "command-7"),
        ("Ginger", "command-7"),
    ]
    assert [event.envelope.correlationid for event in events] == ["test", "command-7", "command-7"]
    assert {event.envelope.time for event in events} == {"2026-03-01T12:00:00.000000Z"}
    assert {event.envelope.source for event in events} == {"sabot/wallet"}


def test_what_is_overdue_is_done_without_being_asked(writer, engine):
    writer.service.due = ["Ann", "Bea"]
    assert writer.step() == 2
    assert names_in(engine) == {"Ann", "Bea"}


def test_who_gave_up_waiting_before_his_command_was_taken_is_not_served(writer, engine):
    """As an HTTP request does that has waited five seconds."""
    given_up, kept = writer.submit("Ann"), writer.submit("Bea")
    assert given_up.cancel()
    writer.step()
    assert kept.result(0) == ["wallet/guests/1"]
    assert names_in(engine) == {"Bea"}
    late = writer.submit("Cleo")
    sa.event.listen(engine, "commit", lambda _: late.cancel())
    writer.step()  # taken already: no one can give up now, and nothing breaks
    assert late.result(0) == ["wallet/guests/2"]


# ------------------------------------------------------------------------------------------ limits and faults


def test_a_full_queue_answers_temporary(engine, bus):
    with closing(open_guests(engine, bus, queue=3)) as writer:
        answers = [writer.submit(f"guest-{number}") for number in range(5)]
        assert [answer.done() for answer in answers] == [False, False, False, True, True]
        assert {refusal(answer).code for answer in answers[3:]} == {"TEMPORARY"}
        work(writer)
        assert [answer.result(0) for answer in answers[:3]] == [[f"wallet/guests/{n}"] for n in (1, 2, 3)]
        assert not writer.submit("guest-4").done(), "there is room again"


def test_a_writer_that_is_closed_answers_what_waits(writer, engine):
    waiting, gone = writer.submit("Ann"), writer.submit("Bea")
    gone.cancel()
    writer.close()
    assert refusal(waiting).code == "TEMPORARY"
    assert refusal(writer.submit("Cleo")).code == "TEMPORARY"
    with pytest.raises(WriterStopped):
        writer.step()
    assert names_in(engine) == set()


@pytest.mark.parametrize("done", [True, False], ids=["though it was done", "and it was not done"])
def test_a_commit_of_unknown_outcome_stops_the_writer(writer, engine, bus, done):
    """The connection breaks at the commit. Whether it went through, only the store knows: after a restart."""
    answers = [writer.submit("Ann"), writer.submit("Bea")]

    def break_off(connection) -> None:
        if done:
            connection.connection.driver_connection.commit()
        raise OSError("connection lost")

    sa.event.listen(engine, "commit", break_off)
    with pytest.raises(WriterStopped, match="connection lost"):
        writer.step()
    sa.event.remove(engine, "commit", break_off)
    assert writer.stopped == "OSError: connection lost"
    for answer in answers:
        assert refusal(answer).code == "TEMPORARY"
        assert "outcome is unknown" in refusal(answer).words
    assert refusal(writer.submit("Cleo")).code == "TEMPORARY"
    assert published(bus) == []
    with closing(open_guests(engine, bus)) as again:
        repeated = [again.submit("Ann"), again.submit("Bea")]
        work(again)
        events = [[], []] if done else [["wallet/guests/1"], ["wallet/guests/2"]]
        assert [answer.result(0) for answer in repeated] == events
    assert published(bus) == ["Ann", "Bea"]


def test_a_defect_in_a_decision_stops_the_writer_and_nothing_of_the_batch_is_true(writer, engine):
    answers = [writer.submit("Ann"), writer.submit("fault"), writer.submit("Bea")]
    with pytest.raises(WriterStopped, match="a defect of ours"):
        writer.step()
    assert {refusal(answer).code for answer in answers} == {"TEMPORARY"}
    assert names_in(engine) == set()


def test_a_fault_beside_the_batch_stops_the_writer_as_well(writer, monkeypatch):
    answer = writer.submit("Ann")
    monkeypatch.setattr(Guests, "overdue", lambda *_: 1 // 0)
    with pytest.raises(WriterStopped, match="ZeroDivisionError"):
        writer.step()
    assert refusal(answer).code == "TEMPORARY"


def test_an_interrupt_in_the_middle_of_a_batch_lets_nobody_go_on(writer, engine):
    def interrupt(_) -> None:
        raise KeyboardInterrupt

    answer = writer.submit("Ann")
    sa.event.listen(engine, "commit", interrupt)
    with pytest.raises(KeyboardInterrupt):
        writer.step()
    sa.event.remove(engine, "commit", interrupt)
    assert refusal(answer).code == "TEMPORARY"
    with pytest.raises(WriterStopped, match="KeyboardInterrupt"):
        writer.step()
    assert names_in(engine) == set()


def test_the_thread_reports_that_its_writer_stopped(writer, caplog):
    failed = Event()
    thread = WriterThread(writer, failed)
    thread.start()
    assert writer.submit("Ann").result(10) == ["wallet/guests/1"]
    assert refusal_in_time(writer.submit("fault")).code == "TEMPORARY"
    assert failed.wait(10)
    thread.finish()
    assert "a defect of ours" in caplog.text


def refusal_in_time(answer: Future) -> Refusal:
    wait([answer], timeout=10)
    return refusal(answer)


def test_many_threads_may_ask_at_once(writer, engine):
    thread = WriterThread(writer, Event())
    thread.start()
    answers: list[Future] = []

    def ask(who: int) -> None:
        answers.extend(writer.submit(f"guest-{who}-{number}") for number in range(100))

    askers = [Thread(target=ask, args=(who,)) for who in range(8)]
    for each in askers:
        each.start()
    for each in askers:
        each.join()
    ids = [answer.result(10)[0] for answer in answers]
    thread.finish()
    assert sorted(int(each.rsplit("/")[-1]) for each in ids) == list(range(1, 801))
    assert len(names_in(engine)) == 800


# ------------------------------------------------------------------------------------------- a bus that fails


class CutSubscription:
    """Polls nothing while its bus is cut off."""

    def __init__(self, switch: "Switch", subscription: Subscription) -> None:
        self._switch, self._subscription = switch, subscription
        self.commit, self.close = subscription.commit, subscription.close

    @property
    def waiting(self) -> int:
        return self._subscription.waiting

    def poll(self, records_max: int) -> Sequence[Delivery]:
        self._switch.check()
        return self._subscription.poll(records_max)


class Switch:
    """A bus that can be cut off: it then does nothing and says so."""

    def __init__(self, bus: Bus) -> None:
        self._bus, self.up = bus, True
        self.read, self.keys, self.close = bus.read, bus.keys, bus.close

    def check(self) -> None:
        if not self.up:
            raise BusUnavailable("the broker does not answer")

    def publish(self, records: Sequence[Record]) -> None:
        self.check()
        self._bus.publish(records)

    def begin(self, records: Sequence[Record]) -> Publication:
        self.check()
        return self._bus.begin(records)

    def subscribe(
        self,
        group: str,
        topics: Sequence[str],
        start: Offsets,
        arrived: Callable[[], None] | None = None,
        *,
        at_once: bool = True,
    ) -> Subscription:
        return CutSubscription(self, self._bus.subscribe(group, topics, start, arrived, at_once=at_once))


def test_money_case_19_ten_bets_with_the_broker_down(engine, bus, tmp_path):
    switch = Switch(bus)
    with closing(open_guests(engine, switch)) as writer:
        switch.up = False
        bus.publish(Seats().sit(1))
        answers = []
        for number in range(10):
            answers.append(writer.submit(f"guest-{number}"))
            assert writer.step() == 1, "what is asked is done; what is on the bus waits"
        assert [answer.result(0) for answer in answers] == [[f"wallet/guests/{n}"] for n in range(1, 11)]
        assert (published(bus), writer.relay.backlog) == ([], 10)
        assert writer.bus_fault == "the broker does not answer"
        assert sample(writer, "wallet_outbox_backlog_events") == 10
        switch.up = True
        work(writer)
        assert writer.bus_fault is None
        assert writer.relay.backlog == 0
        assert published(bus) == [*(f"guest-{number}" for number in range(10)), "T1-seat-1"]
        work(writer)
    consumer_engine = open_engine(tmp_path / "consumer.db")
    with closing(open_guests(consumer_engine, bus, Guests("audit", ("wallet.events",)))) as consumer:
        work(consumer)
        assert consumer.store.head("audit/guests")[0] == 11
    assert len(list(bus.read("wallet.events"))) == 11


def test_with_the_broker_down_over_a_restart_nothing_is_lost(engine, bus):
    switch = Switch(bus)
    switch.up = False
    for number in range(3):
        writer = open_guests(engine, switch)
        writer.submit(f"guest-{number}")
        work(writer)
        writer.close()
    assert published(bus) == []
    switch.up = True
    with closing(open_guests(engine, switch)) as writer:
        work(writer)
    assert published(bus) == ["guest-0", "guest-1", "guest-2"]


# --------------------------------------------------------------------------------------------------- metrics


def sample(writer, name: str, **labels: str) -> float:
    value = writer.metrics.registry.get_sample_value(name, labels)
    assert value is not None, f"{name} {labels} was never born"
    return value


def test_every_metric_is_born_at_zero(writer):
    text = generate_latest(writer.metrics.registry).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    values = {
        (each.name, *each.labels.values()): each.value
        for family in families.values()
        for each in family.samples
        if not each.name.endswith("_created")
    }
    assert set(values.values()) == {0.0}
    assert {key[1:] for key in values if key[0] == "wallet_commands_total"} == {
        ("done",),
        ("refused",),
        ("failed",),
    }
    assert {key[1:] for key in values if key[0] == "wallet_records_consumed_total"} == {
        ("game.events", verdict.value) for verdict in Verdict
    }
    assert ("wallet_events_appended_total",) in values
    assert all(family.documentation for family in families.values())


def test_metrics_equal_what_happened(engine, bus):
    with closing(open_guests(engine, bus, queue=3)) as writer:
        bus.publish([*Seats().sit(4), Record("game.events", "x", b"no event")])
        for name in ("Ann", "nobody", "Ann", "turned away"):
            writer.submit(name)
        work(writer)
        assert sample(writer, "wallet_events_appended_total") == writer.store.position == 5
        assert sample(writer, "wallet_commands_total", outcome="done") == 2
        assert sample(writer, "wallet_commands_total", outcome="refused") == 1
        assert sample(writer, "wallet_commands_total", outcome="failed") == 1
        assert sample(writer, "wallet_records_consumed_total", topic="game.events", verdict="applied") == 4
        assert sample(writer, "wallet_records_consumed_total", topic="game.events", verdict="not_ours") == 1
        assert sample(writer, "wallet_batch_events_sum") == 5
        assert sample(writer, "wallet_step_duration_seconds_count") == 1
        assert sample(writer, "wallet_outbox_backlog_events") == 0
