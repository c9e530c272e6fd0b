"""The three places of an event: the producer's store, the bus, and audit's own record of hashes.

A change at any one of them shows, and the place is named: by the other two, by the ``previous`` of the
next event, and at the end of a stream by the heads that the stores recorded. Everything is read as a
stream, one event ahead; bytes that cannot be read are a finding like any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from schemas.envelope import FIRST_PREVIOUS, hash_of
from schemas.events.audit import DiscrepancyFound
from services.audit.core.bytework import Links, difference_in_words, links_of, place_in
from services.audit.core.pieces import Place

BUS: Final = "the bus"
RECORD: Final = "audit's record"
EVERYWHERE: Final = "every place"
UNDECIDED: Final = "an unknown place"

_GAPS_MAX: Final = 1_000
"""So many gaps of a bus are kept in mind, to see whether they are filled further on."""

Kind = Literal["changed", "missing", "extra", "repeated", "head", "chain", "unreadable"]


@dataclass(frozen=True, slots=True)
class Head:
    """What a store recorded as the end of a stream."""

    sequence: int
    hash: str


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that is not the same at all places, and where it is wrong."""

    stream: str
    sequence: int
    place: str
    """Where: ``the bus``, ``game's store``, ``audit's record``."""
    kind: Kind
    words: str
    about: Place = (None, None, None)
    """Table, shoe and coup of the event, where a good copy tells."""
    recorded: str = ""
    expected: str = ""
    tail: bool = False
    """It is missing from the end of the place: perhaps it is only not there *yet*."""

    @property
    def harmless(self) -> bool:
        """The bus delivers at least once: the same bytes a second time are no fault of anybody."""
        return self.kind == "repeated" and self.place == BUS

    def finding(self, operator: str) -> DiscrepancyFound:
        """As an event of audit's."""
        table, shoe, coup = self.about
        return DiscrepancyFound(
            operator=operator,
            check=f"integrity_{self.kind}",
            stream=self.stream,
            sequence=self.sequence,
            table=table,
            shoe=shoe,
            coup=coup,
            recorded=self.recorded,
            expected=self.expected,
            words=self.words,
        )


def store_of(stream: str) -> str:
    """The name of a stream's first place: ``game's store``."""
    return f"{stream.split('/', 1)[0]}'s store"


def compare(
    stream: str,
    *,
    store: Iterable[tuple[int, bytes]] | None,
    bus: Iterable[tuple[int, bytes]] | None,
    record: Iterable[tuple[int, str]] | None,
    store_head: Head | None = None,
    record_head: Head | None = None,
    known: Callable[[int], str | None] | None = None,
) -> Iterator[Difference]:
    """Every difference between the places of one stream, in the stream's order.

    Each place yields its events by rising sequence; the bus as ``place_records`` puts them. A place that
    does not exist, or is not looked at, is ``None``. ``known`` tells the hash of an earlier event, by which a
    repeated record is known from one with other bytes.
    """
    places: dict[str, _Reader] = {}
    if store is not None:
        places[store_of(stream)] = _Reader(_hashed(store))
    if bus is not None:
        places[BUS] = _Reader(_hashed(bus))
    if record is not None:
        places[RECORD] = _Reader((sequence, hash_, None) for sequence, hash_ in record)
    yield from _Comparison(stream, places, store_head, record_head, known).run()


_Item = tuple[int, str, bytes | None]
"""Sequence, hash, and the bytes where the place holds them."""


def _hashed(events: Iterable[tuple[int, bytes]]) -> Iterator[_Item]:
    for sequence, body in events:
        yield sequence, hash_of(body), body


class _Reader:
    """One place, read by sequence."""

    def __init__(self, items: Iterator[_Item]) -> None:
        self._items = items
        self._next: _Item | None = next(items, None)
        self.strays: list[_Item] = []
        """Read where something later was due already."""

    @property
    def upcoming(self) -> int | None:
        """The next sequence that is there; None at the end."""
        return None if self._next is None else self._next[0]

    def take(self, sequence: int) -> list[_Item]:
        """All copies of this event."""
        copies: list[_Item] = []
        while self._next is not None and self._next[0] <= sequence:
            (copies if self._next[0] == sequence else self.strays).append(self._next)
            self._next = next(self._items, None)
        return copies


@dataclass(slots=True)
class _Run:
    """Consecutive events that one place does not have."""

    first: int
    last: int
    about: Place
    filled: int = 0
    """The last event that came further on in its stead, one after the other and as it was written."""


_Copies = dict[str, list[_Item]]


class _Comparison:
    def __init__(
        self,
        stream: str,
        places: dict[str, _Reader],
        store_head: Head | None,
        record_head: Head | None,
        known: Callable[[int], str | None] | None,
    ) -> None:
        self._stream, self._places, self._known = stream, places, known
        self._heads = {store_of(stream): store_head, RECORD: record_head}
        self._missing: dict[str, _Run] = {}
        self._gaps: list[_Run] = []
        """Of the bus: what it does not have in its place, and may yet have further on."""
        self._good: str | None = FIRST_PREVIOUS
        """Hash of the event before; None where it is not known."""
        self._last = Head(0, FIRST_PREVIOUS)
        """The last event that is known to be right."""

    def run(self) -> Iterator[Difference]:
        sequence = 1
        copies = self._take(sequence)
        while True:
            yield from self._strays()
            if not any(copies.values()):
                upcoming = [each.upcoming for each in self._places.values() if each.upcoming is not None]
                if not upcoming:
                    break
                yield from self._nowhere(sequence, min(upcoming) - 1)
                sequence = min(upcoming)
                copies = self._take(sequence)
                continue
            following = self._take(sequence + 1)
            yield from self._judge(sequence, copies, following)
            sequence, copies = sequence + 1, following
        for gap in self._gaps:
            yield self._lacks(BUS, gap)
        for place in list(self._missing):
            yield self._lacks(place, self._missing.pop(place), tail=True)
        yield from self._check_heads()

    def _take(self, sequence: int) -> _Copies:
        return {place: reader.take(sequence) for place, reader in self._places.items()}

    # ------------------------------------------------------------------------------------------- one event

    def _judge(self, sequence: int, copies: _Copies, following: _Copies) -> Iterator[Difference]:
        hashes = {place: items[0][1] for place, items in copies.items() if items}
        plain = len(hashes) == len(self._places) and len(set(hashes.values())) == 1
        if plain:
            good: str | None = next(iter(hashes.values()))
        else:
            good = self._true_hash(sequence, hashes, following)
        body = _body_of(copies, good)
        about = None if plain else place_in(body or _any_body(copies))
        if good is None:
            yield self._undecided(sequence, about or (None, None, None))
        elif not plain:
            yield from self._wrong_places(sequence, copies, good, body, about or (None, None, None))
        for place, items in copies.items():
            for extra in items[1:]:
                yield self._again(place, extra, items[0][1])
        for place in list(self._missing):
            if copies[place]:
                yield from self._end_of_run(place, self._missing.pop(place))
        ours = plain or self._is_ours(sequence, hashes)
        if ours and good is not None:
            if body is not None:
                yield from self._check_links(sequence, body)
            self._last = Head(sequence, good)
        self._good = good

    def _true_hash(self, sequence: int, hashes: dict[str, str], following: _Copies) -> str | None:
        """The hash that most witnesses name. The next event's word counts for two: it was hashed itself.

        A recorded head is no place of its own: it only decides where the places are divided.
        """
        votes: Counter[str] = Counter({hash_: 2 * times for hash_, times in Counter(hashes.values()).items()})
        named = {
            links.previous
            for items in following.values()
            for _, _, body in items[:1]
            if body is not None and (links := links_of(body)) is not None and links.previous in votes
        }
        for previous in named:
            votes[previous] += 4 if len(named) == 1 else 2
        for head in self._heads.values():
            if head is not None and head.sequence == sequence and head.hash in votes:
                votes[head.hash] += 1
        ranked = votes.most_common(2)
        return None if len(ranked) > 1 and ranked[0][1] == ranked[1][1] else ranked[0][0]

    def _is_ours(self, sequence: int, hashes: dict[str, str]) -> bool:
        """Whether an event that not every place has belongs to the stream: two places or a head say so."""
        return len(hashes) > 1 or len(self._places) == 1 or self._reaches(sequence) or self._goes_on(hashes)

    def _reaches(self, sequence: int) -> bool:
        return any(head is not None and head.sequence >= sequence for head in self._heads.values())

    def _goes_on(self, hashes: dict[str, str]) -> bool:
        """Whether a place that lacks this event has later ones."""
        return any(
            reader.upcoming is not None for place, reader in self._places.items() if place not in hashes
        )

    def _wrong_places(
        self, sequence: int, copies: _Copies, good: str, body: bytes | None, about: Place
    ) -> Iterator[Difference]:
        present = {place: items[0][1] for place, items in copies.items() if items}
        if not self._is_ours(sequence, present):
            (place,) = present
            words = f"{place} has an event {sequence} of {self._stream} that no other place has"
            yield Difference(self._stream, sequence, place, "extra", words, about, recorded=present[place])
            return
        for place, items in copies.items():
            if not items:
                run = self._missing.get(place)
                if run is None:
                    self._missing[place] = _Run(sequence, sequence, about)
                else:
                    run.last = sequence
            elif items[0][1] != good:
                yield self._changed(place, items[0], (sequence, good, body), about)

    def _changed(self, place: str, item: _Item, right: _Item, about: Place) -> Difference:
        sequence, good, good_body = right
        _, hash_, body = item
        event = f"event {sequence} of {self._stream}"
        if body is None:
            words = f"{place} has another hash for {event} than the event itself"
        elif good_body is None:
            words = f"{place} has {event} with other bytes than those that were hashed when it was written"
        else:
            words = f"{place} has another {event}: {difference_in_words(good_body, body)}"
        return Difference(
            self._stream, sequence, place, "changed", words, about, recorded=hash_, expected=good
        )

    def _undecided(self, sequence: int, about: Place) -> Difference:
        words = (
            f"the places have different events {sequence} of {self._stream}, and nothing tells the right one"
        )
        return Difference(self._stream, sequence, UNDECIDED, "changed", words, about)

    def _again(self, place: str, item: _Item, first: str | None) -> Difference:
        sequence, hash_, body = item
        about = place_in(body)
        if sequence < 1:
            words = f"{place} holds something among the events of {self._stream} that is none of them"
            return Difference(self._stream, 0, place, "extra", words, about, recorded=hash_)
        if first is None or hash_ == first:
            words = f"{place} has event {sequence} of {self._stream} more than once"
            return Difference(self._stream, sequence, place, "repeated", words, about, recorded=hash_)
        words = f"{place} has a second event {sequence} of {self._stream}, with other bytes"
        return Difference(
            self._stream, sequence, place, "extra", words, about, recorded=hash_, expected=first
        )

    def _strays(self) -> Iterator[Difference]:
        for place, reader in self._places.items():
            for item in reader.strays:
                first = self._known(item[0]) if self._known is not None and item[0] > 0 else None
                if place == BUS and item[1] == first:
                    self._fill_gaps(item[0])
                yield self._again(place, item, first)
            reader.strays.clear()

    def _check_links(self, sequence: int, body: bytes) -> Iterator[Difference]:
        """What the event itself says of its place: the stream, the number, the event before."""
        links = links_of(body)
        event = f"event {sequence} of {self._stream}"
        if links is None:
            words = f"{event} cannot be read, at any place"
            yield Difference(self._stream, sequence, EVERYWHERE, "unreadable", words)
            return
        expected = Links(self._stream, sequence, links.previous if self._good is None else self._good)
        if links == expected:
            return
        if links.previous != expected.previous:
            words = f"{event} does not follow event {sequence - 1}: it names another hash"
        else:
            words = f"{event} calls itself event {links.sequence} of {links.stream}"
        yield Difference(
            self._stream,
            sequence,
            EVERYWHERE,
            "chain",
            words,
            place_in(body),
            recorded=links.previous,
            expected=expected.previous,
        )

    # --------------------------------------------------------------------------------- what is not there

    def _nowhere(self, first: int, last: int) -> Iterator[Difference]:
        which = f"event {first} is" if first == last else f"events {first} to {last} are"
        words = f"{which} missing from {self._stream}, at every place"
        yield Difference(self._stream, first, EVERYWHERE, "missing", words)
        self._good = None

    def _end_of_run(self, place: str, run: _Run) -> Iterator[Difference]:
        if place != BUS:
            yield self._lacks(place, run)
            return
        self._gaps.append(run)
        if len(self._gaps) > _GAPS_MAX:
            yield self._lacks(BUS, self._gaps.pop(0))

    def _fill_gaps(self, sequence: int) -> None:
        """A gap is filled when the events come again, and the one behind them: a consumer waits for that."""
        for gap in self._gaps:
            if sequence == max(gap.first, gap.filled + 1):
                gap.filled = sequence
        self._gaps = [gap for gap in self._gaps if gap.filled <= gap.last]

    def _lacks(self, place: str, run: _Run, *, tail: bool = False) -> Difference:
        many = f"event {run.first} is" if run.first == run.last else f"events {run.first} to {run.last} are"
        words = f"{many} missing from {'the end of ' if tail else ''}{place}, in stream {self._stream}"
        return Difference(self._stream, run.first, place, "missing", words, run.about, tail=tail)

    def _check_heads(self) -> Iterator[Difference]:
        """What each store wrote down as the end of the stream is its last event."""
        for place, head in self._heads.items():
            if head is None or place not in self._places:
                continue
            if head == self._last:
                continue
            words = (
                f"{place} recorded event {head.sequence} as the last of {self._stream}, "
                f"with another hash than it has"
                if head.sequence == self._last.sequence
                else f"{place} recorded event {head.sequence} as the last of {self._stream}, "
                f"and the last is {self._last.sequence}"
            )
            yield Difference(
                self._stream,
                head.sequence,
                place,
                "head",
                words,
                recorded=f"{head.sequence} {head.hash}",
                expected=f"{self._last.sequence} {self._last.hash}",
            )


def _body_of(copies: _Copies, good: str | None) -> bytes | None:
    for items in copies.values():
        for _, hash_, body in items[:1]:
            if hash_ == good and body is not None:
                return body
    return None


def _any_body(copies: _Copies) -> bytes | None:
    return next((items[0][2] for items in copies.values() if items and items[0][2] is not None), None)
