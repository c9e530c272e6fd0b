"""HMAC-SHA256 signatures of HTTP requests, as operators' machines send them and get them (W28).

What is signed are seven lines: method, path, raw query, key id, timestamp, nonce and the SHA-256 of the raw
body. It is verified before anything is parsed, in constant time, and a nonce counts once.
``docs/security.md`` has an example with the signature that must come out.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

KEY: Final = "sabot-key"
TIMESTAMP: Final = "sabot-timestamp"
NONCE: Final = "sabot-nonce"
SIGNATURE: Final = "sabot-signature"

SKEW_SECONDS: Final = 300
"""So far a caller's clock may be from ours, either way."""
NONCE_SECONDS: Final = 2 * SKEW_SECONDS
"""So long a nonce is remembered at least."""
NONCES_MAX: Final = 2_000_000
"""Nonces of one key that are remembered; about 2,500 requests a second for as long as one is remembered."""
_GENERATIONS: Final = 4
_GENERATION_SECONDS: Final = NONCE_SECONDS // (_GENERATIONS - 1)
_NONCE_LENGTH_MAX: Final = 128


class BadSignature(ValueError):
    """A request that nobody we know has signed, in words that tell its sender what to look at."""


class TooManyNonces(BadSignature):
    """A key that signs more than can be remembered. The request is in order, and can be sent later."""


@dataclass(frozen=True, slots=True)
class Key:
    """A secret that two parties share, and its public name."""

    id: str
    secret: bytes = field(repr=False)


K = TypeVar("K", bound=Key)


def signature_of(
    key: Key, method: str, path: str, query: str, body: bytes, *, timestamp: str, nonce: str
) -> str:
    """The signature in hexadecimal. ``path`` and ``query`` are as sent: escaped, without ``?``."""
    digest = hashlib.sha256(body).hexdigest()
    text = f"{method}\n{path}\n{query}\n{key.id}\n{timestamp}\n{nonce}\n{digest}"
    return hmac.digest(key.secret, text.encode("utf-8", "surrogateescape"), "sha256").hex()


def signed_headers(
    key: Key, method: str, path: str, query: str, body: bytes, *, timestamp: int, nonce: str
) -> dict[str, str]:
    """The four headers of a request that is sent now. ``timestamp``: seconds since 1970, UTC."""
    signature = signature_of(key, method, path, query, body, timestamp=str(timestamp), nonce=nonce)
    return {KEY: key.id, TIMESTAMP: str(timestamp), NONCE: nonce, SIGNATURE: signature}


class Verifier(Generic[K]):
    """Knows who signed a request. Remembers each nonce for ten minutes at least. Thread-safe."""

    def __init__(self, find: Callable[[str], K | None], nonces_max: int = NONCES_MAX) -> None:
        """``find``: the key of an id, if it is in force. ``nonces_max`` counts for each key by itself."""
        self._find, self._nonces_max = find, nonces_max
        self._lock = threading.Lock()
        self._used: dict[str, _Nonces] = {}

    def verify(
        self, headers: Mapping[str, str], method: str, path: str, query: str, body: bytes, *, now: int
    ) -> K:
        """The key that signed it. ``headers`` by lower-case names; ``now``: seconds since 1970, UTC.

        Raises:
            BadSignature: a header is missing, the key is unknown, the clock is too far off, the signature is
                another one, or the nonce was used before.
            TooManyNonces: the key has signed more than can be remembered.
        """
        missing = [name for name in (KEY, TIMESTAMP, NONCE, SIGNATURE) if not headers.get(name)]
        if missing:
            raise BadSignature(f"the request is not signed: {', '.join(missing)} missing")
        key_id, timestamp, nonce = headers[KEY], headers[TIMESTAMP], headers[NONCE]
        if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
            raise BadSignature(f"{TIMESTAMP} must be seconds since 1970")
        if len(nonce) > _NONCE_LENGTH_MAX or not (nonce.isascii() and nonce.isprintable()):
            raise BadSignature(f"{NONCE} must be at most {_NONCE_LENGTH_MAX} printable ASCII characters")
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
        with self._lock:
            used = self._used.get(key_id)
            if used is None:
                used = self._used[key_id] = _Nonces(now)
            used.use(nonce, now, self._nonces_max)
        return key


_NOBODY: Final = Key("", b"nobody")


class _Nonces:
    """The nonces of one key, in generations of 200 s: the oldest is dropped when a fifth would begin.

    Nothing is dropped earlier, however many there are: who could make us forget a nonce could send it again.
    """

    def __init__(self, now: int) -> None:
        self._generations: list[set[bytes]] = [set()]
        self._begun = now

    def use(self, nonce: str, now: int, nonces_max: int) -> None:
        # A clock that was put back only makes a generation last longer.
        passed = (now - self._begun) // _GENERATION_SECONDS
        if passed > 0:
            fresh: list[set[bytes]] = [set() for _ in range(min(passed, _GENERATIONS))]
            self._generations = (fresh + self._generations)[:_GENERATIONS]
            self._begun += passed * _GENERATION_SECONDS
        # Eight bytes of a hash instead of up to 128 characters: 85 bytes of memory a nonce. That one of two
        # million agrees with a new one, which would then be refused, happens once in 10**13 requests.
        digest = hashlib.blake2b(nonce.encode(), digest_size=8).digest()
        for generation in self._generations:
            if digest in generation:
                raise BadSignature(f"{NONCE} was used before: every request needs a new one")
        if sum(map(len, self._generations)) >= nonces_max:
            raise TooManyNonces("this key has signed more requests in ten minutes than we remember; wait")
        self._generations[0].add(digest)
