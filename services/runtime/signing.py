"""HMAC-SHA256 signatures of HTTP requests, as operators' machines send them and get them (W28).

What is signed are seven lines: method, path, raw query, key id, timestamp, nonce and the SHA-256 of the raw
body. It is verified before anything is parsed, in constant time, and a nonce counts once.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

KEY: Final = "sabot-key"
TIMESTAMP: Final = "sabot-timestamp"
NONCE: Final = "sabot-nonce"
SIGNATURE: Final = "sabot-signature"

SKEW_SECONDS: Final = 300
"""So far a caller's clock may be from ours, either way."""
_NONCE_SECONDS: Final = 2 * SKEW_SECONDS
_NONCES_MAX: Final = 1_000_000


class BadSignature(ValueError):
    """A request that nobody we know has signed, in words that tell its sender what to look at."""


@dataclass(frozen=True, slots=True)
class Key:
    """A secret that two parties share, and its public name."""

    id: str
    secret: bytes


def signature_of(
    key: Key, method: str, path: str, query: str, body: bytes, *, timestamp: str, nonce: str
) -> str:
    """The signature in hexadecimal. ``path`` and ``query`` are as sent: escaped, without ``?``."""
    digest = hashlib.sha256(body).hexdigest()
    text = "\n".join((method, path, query, key.id, timestamp, nonce, digest))
    return hmac.new(key.secret, text.encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()


def signed_headers(
    key: Key, method: str, path: str, query: str, body: bytes, *, timestamp: int, nonce: str
) -> dict[str, str]:
    """The four headers of a request that is sent now. ``timestamp``: seconds since 1970, UTC."""
    signature = signature_of(key, method, path, query, body, timestamp=str(timestamp), nonce=nonce)
    return {KEY: key.id, TIMESTAMP: str(timestamp), NONCE: nonce, SIGNATURE: signature}


class Verifier:
    """Knows who signed a request. Keeps the nonces of the last ten minutes."""

    def __init__(self, find: Callable[[str], Key | None]) -> None:
        """``find``: the key of an id, if it is in force."""
        self._find = find
        self._nonces: OrderedDict[tuple[str, str], int] = OrderedDict()

    def verify(
        self, headers: Mapping[str, str], method: str, path: str, query: str, body: bytes, *, now: int
    ) -> Key:
        """The key that signed it. ``headers`` by lower-case names; ``now``: seconds since 1970, UTC.

        Raises:
            BadSignature: a header is missing, the key is unknown, the clock is too far off, the signature is
                another one, or the nonce was used before.
        """
        missing = [name for name in (KEY, TIMESTAMP, NONCE, SIGNATURE) if not headers.get(name)]
        if missing:
            raise BadSignature(f"the request is not signed: {', '.join(missing)} missing")
        key_id, timestamp, nonce = headers[KEY], headers[TIMESTAMP], headers[NONCE]
        if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
            raise BadSignature(f"{TIMESTAMP} must be seconds since 1970")
        if len(nonce) > 128:
            raise BadSignature(f"{NONCE} is longer than 128 characters")
        key = self._find(key_id)
        # An unknown key is as much work as a known one, and is told the same: who guesses learns nothing.
        expected = signature_of(key or _NOBODY, method, path, query, body, timestamp=timestamp, nonce=nonce)
        if (
            not hmac.compare_digest(expected.encode(), headers[SIGNATURE].encode("utf-8", "replace"))
            or key is None
        ):
            raise BadSignature("the signature does not fit the request and an active key")
        if abs(now - int(timestamp)) > SKEW_SECONDS:
            raise BadSignature(f"{TIMESTAMP} is more than {SKEW_SECONDS} s from our clock")
        self._use(key_id, nonce, now)
        return key

    def _use(self, key_id: str, nonce: str, now: int) -> None:
        while self._nonces:
            oldest, at = next(iter(self._nonces.items()))
            if now - at <= _NONCE_SECONDS and len(self._nonces) < _NONCES_MAX:
                break
            del self._nonces[oldest]
        if (key_id, nonce) in self._nonces:
            raise BadSignature(f"{NONCE} was used before: every request needs a new one")
        self._nonces[key_id, nonce] = now


_NOBODY: Final = Key("", b"nobody")
