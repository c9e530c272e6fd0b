"""Audit's own reading of ``bacfair/1``: what a revealed seed says the shoe must have been.

The house published a commitment, then took somebody else's entropy, and at the end reveals its seed.
From the three anybody can work out the order of the cards (evidence.md, 2.2).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from itertools import count
from typing import Final

CARDS: Final[tuple[str, ...]] = tuple(rank + suit for suit in "SHDC" for rank in "A23456789TJQK")
"""The cards by their code: suit times 13, and rank."""

CODES: Final[dict[str, int]] = {card: code for code, card in enumerate(CARDS)}

_WORD_VALUES: Final = 1 << 32


def commitment_of(seed: bytes, table: str, shoe: str, decks: int) -> str:
    """The commitment that the house must have published for this seed."""
    return hashlib.sha256(b"bacfair/1 commit\n" + _context(table, shoe, decks) + seed).hexdigest()


def key_of(
    seed: bytes, table: str, shoe: str, decks: int, *, entropy: bytes, kind: int = 1, nonce: int = 0
) -> bytes:
    """What the order of the cards hangs on: the house's seed and the others' entropy."""
    tail = bytes([kind]) + _with_length(entropy) + nonce.to_bytes(8, "big")
    return hmac.digest(seed, b"bacfair/1 key\n" + _context(table, shoe, decks) + tail, "sha256")


def order_of(key: bytes, decks: int) -> bytes:
    """The codes of the cards in the order in which they leave the shoe."""
    deck = bytearray(range(52)) * decks
    stream = words_of(key)
    for last in range(len(deck) - 1, 0, -1):
        other = below(last + 1, stream)
        deck[last], deck[other] = deck[other], deck[last]
    return bytes(deck)


def order_hash(order: bytes) -> str:
    """A short name for an order of cards."""
    return hashlib.sha256(b"bacfair/1 shoe\n" + order).hexdigest()


def below(limit: int, stream: Iterator[int]) -> int:
    """A number under ``limit`` from the next word of the stream.

    A word from the incomplete last stretch of ``limit`` numbers is passed over, so that none is favoured.
    """
    bound = (_WORD_VALUES // limit) * limit
    for word in stream:
        if word < bound:
            return word % limit
    raise AssertionError("a stream of words has no end")


def words_of(key: bytes) -> Iterator[int]:
    """The stream's 32-bit words."""
    for block in count():
        digest = hmac.digest(key, b"bacfair/1 stream\n" + block.to_bytes(8, "big"), "sha256")
        for at in range(0, len(digest), 4):
            yield int.from_bytes(digest[at : at + 4], "big")


def _with_length(value: bytes) -> bytes:
    return len(value).to_bytes(2, "big") + value


def _context(table: str, shoe: str, decks: int) -> bytes:
    return _with_length(table.encode()) + _with_length(shoe.encode()) + bytes([decks])
