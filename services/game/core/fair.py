"""The fair-shoe scheme ``bacfair/1``: a shuffle that the house can neither choose nor deny.

The house commits itself to a secret seed before it sees the entropy of somebody else. Seed and entropy
together make a key, the key a stream of words, the words a Fisher-Yates shuffle. When the shoe is over the
seed is revealed, and anybody can work the commitment, the order and every card out again.

Table, shoe and number of decks (the *context*) are hashed along at each step, so that neither a commitment
nor a shuffle can be passed off as that of another shoe. Commitment, key and stream have prefixes of their
own, so that nothing that is published is an input of the shuffle. Each draw takes words of its own and
rejects those that would favour small numbers. (Source: reference/evidence.md, 2.2; all integers are
big-endian.)
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from typing import Final

from schemas.cards import RANKS, SUITS, Card

SCHEME: Final = "bacfair/1"
SEED_BYTES: Final = 32
CLIENT_SEED: Final = 1
"""Kind of entropy: 1 to 64 printable ASCII bytes that a client sent."""
BEACON: Final = 2
"""Kind of entropy: 32 bytes of a public beacon and the number of its round."""

_WORDS: Final = 2**32
_CARDS: Final[tuple[Card, ...]] = tuple(rank + suit for suit in SUITS for rank in RANKS)


def _prefixed(data: bytes) -> bytes:
    return len(data).to_bytes(2, "big") + data


def context(table: str, shoe: str, decks: int) -> bytes:
    """What ties every hash to this shoe of this table."""
    return _prefixed(table.encode()) + _prefixed(shoe.encode()) + decks.to_bytes(1, "big")


def commitment(seed: bytes, of: bytes) -> str:
    """What is published before any entropy is taken, in hexadecimal. ``of`` is the shoe's context.

    Raises:
        ValueError: the seed does not have 32 bytes.
    """
    if len(seed) != SEED_BYTES:
        raise ValueError(f"a seed has {SEED_BYTES} bytes, not {len(seed)}")
    return hashlib.sha256(b"bacfair/1 commit\n" + of + seed).hexdigest()


def shuffle_key(seed: bytes, of: bytes, entropy: bytes, *, kind: int = CLIENT_SEED, nonce: int = 0) -> bytes:
    """The key of the shuffle, from the house's seed and somebody else's entropy, for a shoe's context.

    ``nonce`` is 0 but for a logged re-shuffle: the commitment does not fix it, and a house that could
    choose it could shuffle until it liked the shoe.
    """
    message = (
        b"bacfair/1 key\n" + of + kind.to_bytes(1, "big") + _prefixed(entropy) + nonce.to_bytes(8, "big")
    )
    return hmac.digest(seed, message, "sha256")


def stream_block(key: bytes, number: int) -> bytes:
    """32 bytes of the stream: block ``number``, from 0."""
    return hmac.digest(key, b"bacfair/1 stream\n" + number.to_bytes(8, "big"), "sha256")


def words(key: bytes) -> Iterator[int]:
    """The stream's 32-bit words, without end."""
    number = 0
    while True:
        block = stream_block(key, number)
        yield from (int.from_bytes(block[start : start + 4], "big") for start in range(0, 32, 4))
        number += 1


def below(limit: int, source: Iterator[int]) -> int:
    """A number from 0 to ``limit`` - 1, each with the same probability.

    Words above the largest multiple of ``limit`` are rejected: modulo alone would favour small numbers.
    """
    highest = _WORDS - _WORDS % limit
    word = next(source)
    while word >= highest:
        word = next(source)
    return word % limit


def shuffled(key: bytes, decks: int) -> bytes:
    """The cards of a shoe in the order of dealing, as codes: suit (S H D C) · 13 + rank (A to K)."""
    codes = bytearray(bytes(range(52)) * decks)
    source = words(key)
    for last in range(len(codes) - 1, 0, -1):
        chosen = below(last + 1, source)
        codes[last], codes[chosen] = codes[chosen], codes[last]
    return bytes(codes)


def deck_hash(codes: bytes) -> str:
    """What an order of cards is known by, in hexadecimal."""
    return hashlib.sha256(b"bacfair/1 shoe\n" + codes).hexdigest()


def cards_of(codes: bytes) -> tuple[Card, ...]:
    """The cards that these codes stand for."""
    return tuple(_CARDS[code] for code in codes)


def shoe_order(seed: bytes, table: str, shoe: str, decks: int, entropy: str) -> tuple[Card, ...]:
    """The cards of a shoe in the order of dealing, for a client's seed."""
    key = shuffle_key(seed, context(table, shoe, decks), entropy.encode("ascii"))
    return cards_of(shuffled(key, decks))
