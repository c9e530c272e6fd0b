"""The envelope: CloudEvents 1.0 in structured JSON, with a place in a stream and a hash chain.

Bytes are evidence. An event is serialised once, when it is written; what is hashed, stored, sent and
checked from then on are those bytes and never a re-serialisation. ``previous`` is the SHA-256 of the
bytes before it in the same stream, so that a change anywhere shows at the next event.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from schemas.events import EVENTS
from schemas.events.base import Hash, Payload

FIRST_PREVIOUS: Final = "0" * 64
"""``previous`` of the first event of a stream."""

EVENT_BYTES_MAX: Final = 65_535
"""The most an event may measure: what a transparency log can take as one entry."""

_TYPE: Final = re.compile(rb'"type":"([a-z0-9.]{1,120})"')
_ATTRIBUTES: Final = re.compile(
    rb'\{"specversion":"1\.0","id":"[^"\\]{1,300}","source":"[^"\\]{1,100}","type":"([a-z0-9.]{1,120})",'
    rb'"time":"[^"\\]{1,40}","datacontenttype":"application/json","stream":"([^"\\]{1,200})",'
    rb'"sequence":([1-9][0-9]{0,18}),"previous":"([0-9a-f]{64})",'
)
"""The beginning of an event as ``encode`` writes it."""

_VERSIONED: Final = re.compile(r"(sabot\.[a-z0-9.]+)\.v(\d{1,6})")

P = TypeVar("P", bound=Payload)


class Envelope(BaseModel, Generic[P]):
    """The attributes around a payload. All of them are hashed; a trace header travels outside."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    specversion: Literal["1.0"] = "1.0"
    id: str
    source: str
    type: str
    time: str
    """RFC 3339 in UTC. For people: order is by sequence, never by this."""
    datacontenttype: Literal["application/json"] = "application/json"
    stream: str
    sequence: int = Field(ge=1)
    previous: Hash
    gamingday: str = Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")
    """The operator's gaming day when the event was written."""
    causationid: str
    correlationid: str
    data: P


@dataclass(frozen=True, slots=True)
class Recorded(Generic[P]):
    """An event as it stands in a stream: the envelope, the exact bytes, and their hash."""

    envelope: Envelope[P]
    body: bytes
    hash: str

    @property
    def stream(self) -> str:
        return self.envelope.stream

    @property
    def sequence(self) -> int:
        return self.envelope.sequence

    @property
    def data(self) -> P:
        return self.envelope.data


class DecodeError(ValueError):
    """Bytes that are not one of our events. The subclasses say what a reader must do."""


class NotOurs(DecodeError):
    """Unreadable, or not an event of ours: to the dead letters; it holds no place in a stream."""


class UnknownType(DecodeError):
    """An event of ours of a type that this reader does not know: keeps its place and is skipped."""

    def __init__(self, envelope: Envelope[Any], hash_: str) -> None:
        super().__init__(f"unknown event type {envelope.type}")
        self.envelope, self.hash = envelope, hash_


class NewerVersion(DecodeError):
    """A version of a known type that this reader is too old for: pauses its stream."""

    def __init__(self, envelope: Envelope[Any]) -> None:
        super().__init__(f"{envelope.type} is newer than this program: upgrade it, then start it again")
        self.envelope = envelope


class TooLong(ValueError):
    """An event that would measure more than ``EVENT_BYTES_MAX``."""


class _Bare(BaseModel):
    """Stands in for the payload of a type that is not known here."""

    model_config = ConfigDict(extra="ignore")


@cache
def _envelope_of(payload: type[Payload]) -> type[Envelope[Any]]:
    # Parametrising a generic model is slow and is done once a type.
    return Envelope[payload]  # type: ignore[valid-type]


def hash_of(body: bytes) -> str:
    """SHA-256 of an event's bytes, in hexadecimal."""
    return hashlib.sha256(body).hexdigest()


def encode(
    payload: Payload,
    *,
    source: str,
    stream: str,
    sequence: int,
    previous: str,
    time: str,
    gamingday: str,
    causationid: str,
    correlationid: str,
) -> Recorded[Any]:
    """The event with its bytes, fixed from here on.

    Raises:
        TooLong: the bytes would be more than ``EVENT_BYTES_MAX``.
        pydantic.ValidationError: an attribute is not what the envelope asks for.
    """
    envelope = _envelope_of(type(payload))(
        id=f"{stream}/{sequence}",
        source=source,
        type=payload.type_name(),
        time=time,
        stream=stream,
        sequence=sequence,
        previous=previous,
        gamingday=gamingday,
        causationid=causationid,
        correlationid=correlationid,
        data=payload,
    )
    body = envelope.__pydantic_serializer__.to_json(envelope)
    if len(body) > EVENT_BYTES_MAX:
        raise TooLong(
            f"{envelope.type} in {stream} would measure {len(body)} bytes, {EVENT_BYTES_MAX} at the most"
        )
    return Recorded(envelope, body, hash_of(body))


class Attributes(NamedTuple):
    """What an event says of itself before its data."""

    type: str
    stream: str
    sequence: int
    previous: str


def attributes_of(body: bytes) -> Attributes | None:
    """The attributes of an event that ``encode`` wrote, read without looking at its data.

    For readers to whom the data are no concern: wallet never sees a card, and game no balance. None where
    the bytes are not written like that; ``decode`` says then what they are.
    """
    match = _ATTRIBUTES.match(body)
    if match is None:
        return None
    try:
        return Attributes(match[1].decode(), match[2].decode(), int(match[3]), match[4].decode())
    except UnicodeDecodeError:
        return None


def decode(body: bytes) -> Recorded[Any]:
    """The event that these bytes are.

    Raises:
        NotOurs, UnknownType, NewerVersion: see there.
    """
    if len(body) > EVENT_BYTES_MAX:
        raise NotOurs(f"{len(body)} bytes are more than an event may measure ({EVENT_BYTES_MAX})")
    match = _TYPE.search(body)
    payload = EVENTS.get(match[1].decode()) if match else None
    if payload is not None:
        try:
            envelope = _envelope_of(payload).__pydantic_validator__.validate_json(body)
        except ValidationError:
            pass  # told apart below, off the fast path
        else:
            # The pattern above found the first "type" in the bytes; only the parsed one counts.
            if envelope.type == payload.type_name():
                return Recorded(envelope, body, hash_of(body))
    return _decode_slowly(body)


def _decode_slowly(body: bytes) -> Recorded[Any]:
    try:
        document = from_json(body, allow_inf_nan=False)
        bare = Envelope[_Bare].model_validate(document)  # type: ignore[type-var]
    except (ValueError, ValidationError) as error:
        raise NotOurs(_first_reason(error)) from None
    versioned = _VERSIONED.fullmatch(bare.type)
    if versioned is None:
        raise NotOurs(f"type {bare.type!r} is not one of ours")
    payload = EVENTS.get(bare.type)
    if payload is not None:
        try:
            return Recorded(_envelope_of(payload).model_validate_json(body), body, hash_of(body))
        except ValidationError as error:
            raise NotOurs(f"{bare.type}: {_first_reason(error)}") from None
    known = [each.VERSION for each in EVENTS.values() if versioned[1] == each.NAME]
    if known and int(versioned[2]) > max(known):
        raise NewerVersion(bare)
    raise UnknownType(bare, hash_of(body))


def _first_reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        place = ".".join(str(key) for key in first["loc"]) or "event"
        return f"{place}: {first['msg']}"
    return f"not readable as JSON: {error}"
