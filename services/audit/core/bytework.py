"""Reading what can be read of an event's bytes, however damaged they are: nothing here fails on them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from services.audit.core.pieces import Place

_LINKS: Final = re.compile(
    rb'"stream":"([^"\\]{1,200})","sequence":(\d{1,18}),"previous":"([0-9a-f]{64})"', re.ASCII
)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")
_COUP_MAX: Final = 10**9
_HELD_MAX: Final = 1_000
"""So many records in a row that find no place are given up as belonging to no stream."""


class Links(NamedTuple):
    """What an event says of its own place."""

    stream: str
    sequence: int
    previous: str


def links_of(body: bytes) -> Links | None:
    """Stream, sequence and previous hash as these bytes have them; None where they cannot be read."""
    match = _LINKS.search(body)
    if match is not None:
        try:
            return Links(match[1].decode(), int(match[2]), match[3].decode())
        except UnicodeDecodeError:
            return None
    document = _document(body)
    stream, sequence, previous = (document.get(name) for name in ("stream", "sequence", "previous"))
    if isinstance(stream, str) and isinstance(sequence, int) and isinstance(previous, str):
        return Links(stream, sequence, previous)
    return None


def place_in(body: bytes | None) -> Place:
    """Table, shoe and coup that the event is about, as far as the bytes tell."""
    data = _document(body).get("data") if body is not None else None
    if not isinstance(data, dict):
        return None, None, None
    coup = data.get("coup")
    number = coup if type(coup) is int and 0 <= coup <= _COUP_MAX else None
    return _name(data.get("table")), _name(data.get("shoe")), number


def difference_in_words(good: bytes, bad: bytes) -> str:
    """What is different in ``bad``, for a person: fields if both can be read, otherwise the first byte."""
    one, other = _document(good), _document(bad)
    if one and other:
        try:
            differing = sorted(_fields_that_differ(one, other))
        except RecursionError:
            return "it is nested beyond reason"
        if differing:
            shown = "; ".join(f"{path} is {there} instead of {due}" for path, due, there in differing[:3])
            return shown + (f"; and {len(differing) - 3} more" if len(differing) > 3 else "")
        return "the same content is written in other bytes"
    place = next((at for at, (a, b) in enumerate(zip(good, bad, strict=False)) if a != b), None)
    if place is None:
        return f"it has {len(bad)} bytes instead of {len(good)}"
    return f"byte {place + 1} is 0x{bad[place]:02x} instead of 0x{good[place]:02x}"


def place_records(stream: str, bodies: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Gives each record of a log its place in the stream, also where it does not tell, or lies.

    A record is believed if it is the next one. Any other is held until those behind it show what it is: a
    damaged record in the place that is left open, a repetition, or the first one behind a gap. One that came
    too early, before a gap was filled, is a repetition once its turn comes again. What has no place at all
    comes with sequence 0.
    """
    last = 0
    held: list[tuple[int | None, bytes]] = []
    early = _Early()
    for body in bodies:
        links = links_of(body)
        sequence = links.sequence if links is not None and links.stream == stream else None
        if sequence is not None and held:
            before = held[-1][0]
            if sequence == last + len(held) + 1:  # the held ones fill the gap: they are its damaged records
                yield from ((last + place, each) for place, (_, each) in enumerate(held, start=1))
                last, held = sequence - 1, []
            elif sequence == last + 1:  # there is no gap: the held ones came in between, or too early
                yield from (_without_place(each, last) for each in held if not early.keep(each, sequence))
                held = []
            elif before is not None and sequence == before + 1:
                yield from _fill(held[:-1], last, before)
                yield before, held[-1][1]
                last, held = max(last, before), []
        if sequence == last + 1:
            yield sequence, body
            last = sequence
            yield from early.due(sequence)
        else:
            held.append((sequence, body))
            if len(held) > _HELD_MAX:
                yield from ((0, each) for _, each in held)
                held = []
    yield from early.left()
    for sequence, body in held:
        if sequence is None:
            last += 1
            yield last, body
        else:
            yield sequence, body
            last = max(last, sequence)


class _Early:
    """Records that came before a gap in front of them was filled. Each waits for its turn to come again."""

    def __init__(self) -> None:
        self._bodies: dict[int, list[bytes]] = {}

    def keep(self, held: tuple[int | None, bytes], present: int) -> bool:
        """Whether this record is of later than now."""
        sequence, body = held
        if sequence is None or sequence <= present or len(self._bodies) >= _HELD_MAX:
            return False
        self._bodies.setdefault(sequence, []).append(body)
        return True

    def due(self, present: int) -> Iterator[tuple[int, bytes]]:
        """What came early of the event that has come now; without a place what never came in its turn."""
        if self._bodies:
            yield from ((present, body) for body in self._bodies.pop(present, ()))
            for sequence in sorted(each for each in self._bodies if each < present):
                yield from ((0, body) for body in self._bodies.pop(sequence))

    def left(self) -> Iterator[tuple[int, bytes]]:
        """What never came in its turn."""
        return ((0, body) for _, bodies in sorted(self._bodies.items()) for body in bodies)


def _without_place(held: tuple[int | None, bytes], last: int) -> tuple[int, bytes]:
    sequence, body = held
    return (sequence if sequence is not None and sequence <= last else 0), body


def _fill(held: list[tuple[int | None, bytes]], last: int, until: int) -> Iterator[tuple[int, bytes]]:
    """Held records before a gap's end: repetitions keep their number, others take the gap's first places."""
    for sequence, body in held:
        if sequence is not None and sequence <= last:
            yield sequence, body
        elif last + 1 < until:
            last += 1
            yield last, body
        else:
            yield 0, body


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and _NAME.fullmatch(value) else None


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _fields_that_differ(good: Any, bad: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    if isinstance(good, dict) and isinstance(bad, dict):
        for name in good.keys() | bad.keys():
            inner = f"{path}.{name}" if path else str(name)
            yield from _fields_that_differ(good.get(name, _ABSENT), bad.get(name, _ABSENT), inner)
    elif isinstance(good, list) and isinstance(bad, list) and len(good) == len(bad):
        for place, (one, other) in enumerate(zip(good, bad, strict=True)):
            yield from _fields_that_differ(one, other, f"{path}[{place}]")
    elif good != bad or type(good) is not type(bad):
        yield path, _shown(good), _shown(bad)


class _Absent:
    pass


_ABSENT: Final = _Absent()


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "absent"
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "…"
