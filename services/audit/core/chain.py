"""The chain of a stream: sequences from 1 without gaps, each event naming the hash of the one before it."""

from __future__ import annotations

from typing import Any

from schemas.envelope import Envelope
from services.audit.core.pieces import Place, Stream, place_of
from services.audit.core.room import Room
from services.audit.core.state import Coup


class Chain:
    """Follows every stream, whoever writes it."""

    def __init__(self, room: Room, *, gaps_are_known: bool = False) -> None:
        self._room = room
        self._gaps_are_known = gaps_are_known
        """Somebody before us holds a stream at a gap: what is missing here, he has passed over knowingly."""

    def follow(self, envelope: Envelope[Any], hash_: str) -> bool:
        """Whether this is an event to look at; a repeated one is not."""
        name, sequence = envelope.stream, envelope.sequence
        stream = self._room.streams.get(name)
        if stream is None:
            stream = self._room.streams[name] = Stream(name)
        if sequence != stream.sequence + 1:
            if sequence <= stream.sequence:
                self._repeated(stream, envelope, hash_)
                return False
            if not self._gaps_are_known:
                self._missing(stream, envelope)
        elif envelope.previous != stream.hash:
            self._broken(stream, envelope)
        data = envelope.data
        stream.sequence, stream.hash, stream.last = sequence, hash_, data
        stream.operator = getattr(data, "operator", stream.operator)
        self._room.touch(stream)
        return True

    def _repeated(self, stream: Stream, envelope: Envelope[Any], hash_: str) -> None:
        sequence = envelope.sequence
        if sequence == stream.sequence and hash_ == stream.hash:
            words = f"event {sequence} of {stream.name} stands there twice"
        else:
            words = f"event {sequence} of {stream.name} comes after event {stream.sequence}"
        self._say("sequence", stream, envelope, words, recorded=sequence, expected=stream.sequence + 1)

    def _missing(self, stream: Stream, envelope: Envelope[Any]) -> None:
        first, last = stream.sequence + 1, envelope.sequence - 1
        which = f"event {first} is" if first == last else f"events {first} to {last} are"
        words = f"{which} missing from {stream.name}: after {stream.sequence} comes {envelope.sequence}"
        self._say("sequence", stream, envelope, words, recorded=envelope.sequence, expected=first)

    def _broken(self, stream: Stream, envelope: Envelope[Any]) -> None:
        sequence = envelope.sequence
        if sequence == 1:
            words = f"event 1 of {stream.name} says that something was before it"
        else:
            words = (
                f"event {sequence - 1} of {stream.name} is not the one that event {sequence} was chained to: "
                "one of the two was changed"
            )
        place = stream.place
        for each in dict.fromkeys((place, place_of(envelope.data))):
            self._doubt(stream, each)
        self._room.report_at(
            "chain",
            getattr(envelope.data, "operator", "") or stream.operator,
            (stream.name, max(1, sequence - 1)),
            words,
            recorded=stream.hash,
            expected=envelope.previous,
            place=place,
        )

    def _say(
        self, check: str, stream: Stream, envelope: Envelope[Any], words: str, *, recorded: int, expected: int
    ) -> None:
        self._room.report_at(
            check,
            getattr(envelope.data, "operator", "") or stream.operator,
            (stream.name, envelope.sequence),
            words,
            recorded=f"event {recorded}",
            expected=f"event {expected}",
            place=place_of(envelope.data),
        )

    def _doubt(self, stream: Stream, place: Place) -> None:
        """A coup whose events were changed is not verified, unless this side of it was finished before."""
        table, shoe, number = place
        if table is None or shoe is None or number is None:
            return
        coup = self._room.coups.get((stream.operator, table, shoe, number))
        if coup is not None and not finished_in(coup, stream.name):
            coup.faults.append("an event of this coup was changed after it was written")
            self._room.touch(coup)


def finished_in(coup: Coup, stream: str) -> bool:
    """Whether this stream has said all that it has to say of the coup, so that its verdict does not wait."""
    return bool(coup.ended) if stream == coup.stream else coup.paid
