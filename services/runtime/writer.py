"""The one writer of a service: takes what is waiting, decides all of it, commits once, publishes.

``step()`` takes at most one batch and returns how much it did; nothing else happens between steps. A
batch is one transaction: the service's new events, the tables they change, the inbox, the outbox mark.
Either all of it is there after a crash, or none.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic, perf_counter
from typing import Any, Final, Generic, TypeVar

from sqlalchemy import Engine

from schemas.envelope import Recorded, UnknownType, decode, encode
from schemas.events.base import CoupPayload, Payload
from schemas.refusal import Refusal
from services.runtime.calendar import Calendars, GamingCalendar, rfc3339
from services.runtime.inbox import Inbox, Verdict
from services.runtime.metrics import WriterMetrics
from services.runtime.ports import Bus, BusUnavailable, Clock, Delivery, Ids, TakenOver
from services.runtime.relay import Relay
from services.runtime.service import Service, Timed
from services.runtime.store import EventStore, Stored

C = TypeVar("C")

log = logging.getLogger(__name__)

_MARKS_MAY_LAG: Final = 500
"""The outbox mark and the consumer's offsets only say where to go on after a crash. If they lag, a few events
are published and read twice, which every inbox skips; so they are not written in every transaction."""

_IDLE_STEPS_BEFORE_MARKS: Final = 50
_SAID_AFTER_SECONDS: Final = 1.0
"""A bus that is back sooner, or was only being connected to, is nobody's concern."""
_LAST_WORDS_SECONDS: Final = 2.0
"""So long a writer that is closed waits for the bus to acknowledge what it was given."""


class WriterStopped(Exception):
    """The writer met a fault in the middle of a batch and will not go on; start the service again."""


@dataclass(frozen=True)
class Limits:
    """How much one step takes at the most, and how much may wait."""

    records: int = 500
    commands: int = 500
    queue: int = 10_000


@dataclass
class _Asked(Generic[C]):
    """A command that waits for its answer."""

    command: C
    id: str
    answer: Future[Any] = field(default_factory=Future)


class Writer(Generic[C]):
    """Runs one service over a database and a bus."""

    def __init__(
        self,
        service: Service[C],
        engine: Engine,
        bus: Bus,
        *,
        clock: Clock,
        ids: Ids,
        calendar: Calendars | None = None,
        limits: Limits | None = None,
        group: str | None = None,
        part: int | None = None,
    ) -> None:
        """``group``: the name under which it reads the bus, where the service's own is not enough. ``part``:
        after so many commands what they made is sent to the database, which works on it while the next are
        decided; it is still one transaction. Only for a service whose ``save`` leaves alone what the batch
        was told of the past.
        """
        self.service = service
        self._timed = service if isinstance(service, Timed) else None
        self.limits = limits or Limits()
        self.metrics = WriterMetrics(service.name, service.consumes)
        self.store = EventStore(engine)
        self.stopped: str | None = None
        """Why the writer does not go on, once it does not."""
        self.bus_fault: str | None = None
        """Why the bus does not take our events or give us those of others, if it does not."""
        self._without_bus_since: float | None = None
        self._fault_is_said = False
        self.on_commit: Callable[[Sequence[Recorded[Any]]], None] | None = None
        """Told of every batch's events once they are committed. Must be quick and must not raise."""
        self._clock, self._ids, self._calendar = clock, ids, calendar or GamingCalendar()
        self._part = part
        self._source = f"sabot/{service.name}"
        self._queue: deque[_Asked[C]] = deque()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        try:
            with self.store.transaction() as db:
                self.inbox = Inbox(db, service.reads)
                service.load(db)
            self.relay = Relay(self.store, bus)
            self._subscription = bus.subscribe(
                group or f"sabot-{service.name}",
                service.consumes,
                self.inbox.start,
                self._wake.set,
                at_once=service.is_waited_for,
            )
        except BaseException:
            self.store.close()
            raise
        self._progress = monotonic()
        self._in_hand = 0
        self._unread: str | None = None
        self._idle_steps = 0
        self._made: list[Recorded[Any]] = []
        self._days: dict[str, str] = {}
        """The operators' gaming days in this batch."""
        self._heads: dict[str, tuple[int, str]] = {}

    # What others may call, from any thread.

    def submit(self, command: C, command_id: str | None = None) -> Future[Any]:
        """Queue a command. Its answer comes when it is committed, never before.

        The future raises ``Refusal`` where the command was refused; ``TEMPORARY`` where the queue is full
        or the writer stopped, so that it may be sent again.
        """
        asked = _Asked(command, command_id or self._ids.command())
        with self._lock:
            if self.stopped is None and len(self._queue) < self.limits.queue:
                self._queue.append(asked)
                refused = None
            elif self.stopped is None:
                refused = _temporary("too many commands are waiting")
            else:
                refused = self._stopped_words()
        if refused is not None:
            asked.answer.set_exception(refused)
            self.metrics.commands["failed"].inc()
        self._wake.set()
        return asked.answer

    def submit_all(self, commands: Sequence[C]) -> list[Future[Any]]:
        """Queue commands, one behind the other. Each is answered by itself."""
        return [self.submit(command) for command in commands]

    @property
    def seconds_without_progress(self) -> float:
        """How long something has been waiting to be read or committed, and nothing was (money case 22)."""
        return monotonic() - self._progress

    @property
    def waiting(self) -> int:
        """Records and commands that are known to wait, those in hand among them."""
        return self._subscription.waiting + len(self._queue) + self._in_hand

    def wait(self, seconds: float) -> None:
        """Sleep until a command is submitted or a record arrives, at most so long."""
        self._wake.wait(seconds)
        self._wake.clear()

    # The step.

    def step(self) -> int:
        """Take one batch through. Returns how many records and commands it took.

        Raises:
            WriterStopped: the batch could not be committed. Nothing of it is true; the state in memory
                may be wrong, so this object must not be used again.
        """
        if self.stopped is not None:
            raise WriterStopped(self.stopped)
        asked: list[_Asked[C]] = []
        with self._stopping_on_a_fault(asked):
            return self._step(asked)

    def close(self) -> None:
        """Stop after the last committed batch; what waits in the queue is answered ``TEMPORARY``."""
        try:
            if self.stopped is None:
                with self._stopping_on_a_fault([]):
                    self.relay.finish(_LAST_WORDS_SECONDS)
                    if self._behind:
                        self._commit((), [])
        except WriterStopped as reason:
            log.warning(
                "%s: how far it came is not noted, so a little is done twice: %s", self.service.name, reason
            )
        finally:
            self._stop("it was closed")
            self._subscription.close()
            self.store.close()

    def _step(self, asked: list[_Asked[C]]) -> int:
        started = perf_counter()
        deliveries = self._poll()
        self._take(asked)
        self._tell_time()
        asked += [_Asked(each, "overdue") for each in self.service.overdue(self._time)]
        self._in_hand = len(deliveries) + len(asked)
        if deliveries or asked:
            self._idle_steps = 0
            for each, result in self._commit(deliveries, asked):
                self._reply(each, result)
            if self.on_commit is not None and self._made:
                self.on_commit(self._made)
        elif self._behind:
            self._idle_steps += 1
            if self._idle_steps == _IDLE_STEPS_BEFORE_MARKS:
                self._commit((), [])
        self.relay.pump()
        self._note_faults(self._unread, self.relay.fault)
        self.metrics.backlog.set(self.relay.backlog)
        taken, self._in_hand = self._in_hand, 0
        waiting = self.waiting
        self.metrics.waiting.set(waiting)
        if taken or not waiting:
            self._progress = monotonic()
        if taken:
            self.metrics.step.observe(perf_counter() - started)
        return taken

    @contextmanager
    def _stopping_on_a_fault(self, asked: Sequence[_Asked[C]]) -> Iterator[None]:
        """Whatever is raised, this writer does nothing more.

        The transaction is gone, or its outcome unknown, but the state in memory has moved: only a fresh start
        is safe.
        """
        try:
            yield
        except BaseException as error:
            self._stop(_in_words(error), asked)
            if isinstance(error, Exception):
                raise WriterStopped(self.stopped) from error
            raise

    @property
    def _behind(self) -> int:
        """Events and records by which the outbox mark and the consumer's offsets lag."""
        return self.relay.published - self.store.published + self.inbox.unsaved_offsets

    def _poll(self) -> Sequence[Delivery]:
        try:
            self._unread = None
            return self._subscription.poll(self.limits.records)
        except BusUnavailable as error:
            self._unread = str(error)
        except TakenOver as error:
            # Only the store knows who of two may go on. If it is still ours it is so for good from here on:
            # the other one will meet this transaction, and our next poll takes the reading back.
            with self.store.transaction():
                self._unread = str(error)
        return ()

    def _note_faults(self, *faults: str | None) -> None:
        """Keep what is wrong with the bus for whoever asks; say it once, and only if it lasts."""
        self.bus_fault = fault = next((each for each in faults if each is not None), None)
        if fault is None:
            if self._fault_is_said:
                log.info("%s has the bus again", self.service.name)
            self._without_bus_since, self._fault_is_said = None, False
        elif self._without_bus_since is None:
            self._without_bus_since = monotonic()
        elif not self._fault_is_said and monotonic() - self._without_bus_since >= _SAID_AFTER_SECONDS:
            log.warning("%s goes on without the bus: %s", self.service.name, fault)
            self._fault_is_said = True

    def _take(self, asked: list[_Asked[C]]) -> None:
        with self._lock:
            while self._queue and len(asked) < self.limits.commands:
                each = self._queue.popleft()
                # Who has given up waiting is not served; from here on nobody can give up.
                if each.answer.set_running_or_notify_cancel():
                    asked.append(each)

    def _commit(self, deliveries: Sequence[Delivery], asked: list[_Asked[C]]) -> list[tuple[_Asked[C], Any]]:
        self._made.clear()
        self._heads.clear()
        with self.store.transaction() as db:
            events = self._admit(deliveries)
            self.service.prepare(db, [event for _, event in events], [each.command for each in asked])
            for irregularity in self.inbox.take_irregularities():
                place = f"{irregularity.topic}/{irregularity.offset}"
                self._append(self._encoded(self.service.irregular(irregularity), place, place))
            failed: set[str] = set()
            for delivery, event in events:
                if event.stream not in failed and not self._apply(delivery, event):
                    failed.add(event.stream)
            stored: list[Stored] = []
            answers: list[tuple[_Asked[C], Any]] = []
            part = self._part or max(1, len(asked))
            for start in range(0, max(1, len(asked)), part):
                answers += [(each, self._carry_out(each)) for each in asked[start : start + part]]
                self.service.save(db)
                stored += self.store.append(db, self._made[len(stored) :])
            self.inbox.save(db)
            marked = self._behind >= _MARKS_MAY_LAG or not (deliveries or asked)
            if marked:
                self.inbox.save_offsets(db)
                self.store.mark_published(db, self.relay.published)
        if marked:
            self._subscription.commit(self.inbox.start)
        self.relay.offer(stored)
        self.metrics.appended.inc(len(stored))
        self.metrics.batch.observe(len(stored))
        self.metrics.held.set(len(self.inbox.held))
        return answers

    def _admit(self, deliveries: Sequence[Delivery]) -> list[tuple[Delivery, Recorded[Any]]]:
        admitted = []
        counted: Counter[tuple[str, Verdict]] = Counter()
        for delivery in deliveries:
            verdict, event = self.inbox.admit(delivery, self._time)
            counted[delivery.topic, verdict] += 1
            if event is not None:
                admitted.append((delivery, event))
            elif verdict is Verdict.SKIPPED:
                self.service.skipped(_unknown_type(delivery.body))
            elif verdict not in (Verdict.DUPLICATE, Verdict.PASSED):
                log.warning("%s: %s at %s/%d", self.service.name, verdict, delivery.topic, delivery.offset)
        for labels, number in counted.items():
            self.metrics.consumed[labels].inc(number)
        return admitted

    def _apply(self, delivery: Delivery, event: Recorded[Any]) -> bool:
        try:
            payloads = self.service.react(event)
            made = self._encoded(payloads, event.envelope.id, event.envelope.correlationid)
        except Exception as error:
            if not self.service.reactions_are_pure:
                raise
            # An event that our own rules cannot follow must not stop the other streams, nor be skipped.
            log.exception("%s cannot apply %s", self.service.name, event.envelope.id)
            self.inbox.hold(delivery, event, f"{event.envelope.id} cannot be applied: {error}")
            return False
        self.service.observe(event)
        self._append(made)
        return True

    def _carry_out(self, asked: _Asked[C]) -> Any:
        try:
            payloads = self.service.decide(asked.command)
        except Refusal as refusal:
            return refusal
        events = self._encoded(payloads, asked.id, asked.id)
        self._append(events)
        try:
            return self.service.answer(asked.command, events)
        except Refusal as refusal:
            return refusal

    def _encoded(self, payloads: Sequence[Payload], causation: str, correlation: str) -> list[Recorded[Any]]:
        """The events of these payloads, behind the heads of their streams, all of them or none."""
        events: list[Recorded[Any]] = []
        heads: dict[str, tuple[int, str]] = {}
        for payload in payloads:
            stream = self.service.stream_of(payload)
            sequence, previous = heads.get(stream) or self._heads.get(stream) or self.store.head(stream)
            event = encode(
                payload,
                source=self._source,
                stream=stream,
                sequence=sequence + 1,
                previous=previous,
                time=self._time,
                gamingday=self._day_of(payload.operator),
                causationid=causation,
                correlationid=_coup_of(payload) or correlation,
            )
            heads[stream] = (event.sequence, event.hash)
            events.append(event)
        self._heads.update(heads)
        return events

    def _tell_time(self) -> None:
        """One time for the whole batch."""
        self._now = self._clock.now()
        self._time = rfc3339(self._now)
        self._days.clear()
        if self._timed is not None:
            self._timed.begin(self._time, self._day_of)

    def _day_of(self, operator: str) -> str:
        day = self._days.get(operator)
        if day is None:
            day = self._days[operator] = self._calendar.of(operator).day(self._now).isoformat()
        return day

    def _append(self, events: Sequence[Recorded[Any]]) -> None:
        self._made += events
        for event in events:
            self.service.evolve(event)

    def _reply(self, asked: _Asked[C], result: Any) -> None:
        if isinstance(result, Refusal):
            self.metrics.commands["refused"].inc()
            asked.answer.set_exception(result)
        else:
            self.metrics.commands["done"].inc()
            asked.answer.set_result(result)

    def _stop(self, reason: str, taken: Sequence[_Asked[C]] = ()) -> None:
        """Do nothing more. ``taken`` is the batch in hand: nobody can say whether it was committed."""
        with self._lock:
            self.stopped = self.stopped or reason
            waiting = [each for each in self._queue if each.answer.set_running_or_notify_cancel()]
            self._queue.clear()
        unknown = _temporary("the outcome is unknown: ask again with the same id")
        unanswered = [(each, unknown) for each in taken if not each.answer.done()]
        for each, refusal in unanswered + [(each, self._stopped_words()) for each in waiting]:
            each.answer.set_exception(refusal)
            self.metrics.commands["failed"].inc()

    def _stopped_words(self) -> Refusal:
        return _temporary(f"the {self.service.name} writer stopped: {self.stopped}")


def _in_words(error: BaseException) -> str:
    """What went wrong, without the statement and its rows that SQLAlchemy adds."""
    cause = getattr(error, "orig", None) or error
    return f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__


def _unknown_type(body: bytes) -> UnknownType:
    try:
        decode(body)
    except UnknownType as unknown:
        return unknown
    raise AssertionError("only an event of an unknown type is skipped")


def _coup_of(payload: Payload) -> str | None:
    """What all events of one coup have in common, whichever service wrote them."""
    if isinstance(payload, CoupPayload):
        return f"{payload.operator}/{payload.table}/{payload.shoe}/{payload.coup}"
    return None


def _temporary(words: str) -> Refusal:
    return Refusal("TEMPORARY", "", words)
