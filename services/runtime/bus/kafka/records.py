"""How one of our records lies in Kafka: the key as UTF-8, the event's bytes, the signature as a header."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from services.runtime.ports import Delivery, Record

_SIGNATURE: Final = "signature"


def headers_of(record: Record) -> list[tuple[str, bytes]]:
    """What stands beside a record's bytes."""
    return [] if record.signature is None else [(_SIGNATURE, record.signature)]


def delivery_of(
    place: tuple[str, int, int],
    key: str | bytes | None,
    value: str | bytes | None,
    headers: Iterable[tuple[str, Any]] | None,
) -> Delivery:
    """A record as a consumer of ours receives it, whoever wrote it. ``place``: topic, partition, offset."""
    signature = None
    if headers:
        signature = next((content for name, content in headers if name == _SIGNATURE), None)
    return Delivery(
        *place,
        key.decode("utf-8", "replace") if isinstance(key, bytes) else key,
        value.encode() if isinstance(value, str) else value or b"",
        signature,
    )
