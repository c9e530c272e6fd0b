"""The real clock, ids and randomness, and their predictable twins for demos, simulations and tests.

The only module that may call ``datetime.now`` and ``secrets``.
"""

from __future__ import annotations

import hashlib
import secrets
from base64 import b32encode
from datetime import UTC, datetime, timedelta


def _spell(token: bytes) -> str:
    return b32encode(token).decode().rstrip("=").lower()


class SystemClock:
    """The computer's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class SystemRng:
    """The operating system's generator."""

    def token(self, size: int) -> bytes:
        return secrets.token_bytes(size)


class SystemIds:
    """Ids of 80 random bits: nobody guesses one, and two never meet."""

    def account(self) -> str:
        return "a" + _spell(secrets.token_bytes(10))

    def command(self) -> str:
        return "c" + _spell(secrets.token_bytes(10))


class SeededRng:
    """A stream of bytes that follows from a seed: SHA-256 of the seed and a counter.

    For demos and simulations. A shoe for money never comes from here.
    """

    def __init__(self, seed: str) -> None:
        self._seed, self._counter, self._left = seed.encode(), 0, b""

    def token(self, size: int) -> bytes:
        while len(self._left) < size:
            self._left += hashlib.sha256(self._seed + b"/%d" % self._counter).digest()
            self._counter += 1
        token, self._left = self._left[:size], self._left[size:]
        return token

    def below(self, limit: int) -> int:
        """A number from 0 to ``limit`` - 1, each equally likely to within 2**-64."""
        return int.from_bytes(self.token(16)) % limit


class SeededIds:
    """Ids that follow from a seed."""

    def __init__(self, seed: str) -> None:
        self._rng = SeededRng("ids/" + seed)

    def account(self) -> str:
        return "a" + _spell(self._rng.token(10))

    def command(self) -> str:
        return "c" + _spell(self._rng.token(10))


class ManualClock:
    """A clock that moves only when told to."""

    def __init__(self, start: datetime) -> None:
        self._now = start

    def now(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move by so many seconds, backwards too."""
        self._now += timedelta(seconds=seconds)
