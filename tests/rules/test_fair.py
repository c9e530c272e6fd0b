"""``bacfair/1`` against the published vectors: commitment, key, stream, rejection, order, hash."""

import json
from itertools import islice
from pathlib import Path

import pytest

from services.game.core.fair import (
    BEACON,
    below,
    cards_of,
    commitment,
    context,
    deck_hash,
    shoe_order,
    shuffle_key,
    shuffled,
    stream_block,
    words,
)

FIXTURES = Path(__file__).parents[1] / "fixtures" / "rules"
FAIR = json.loads((FIXTURES / "fair_vectors.json").read_text())
VECTORS = FAIR["vectors"]
LUCKY = VECTORS[0]


def of(vector) -> bytes:
    return context(vector["table"], vector["shoe"], vector["decks"])


def key_of(vector) -> bytes:
    kind = vector["entropy_kind"]
    text = vector["entropy"]
    entropy = bytes.fromhex(text) if kind == BEACON else text.encode("ascii")
    seed = bytes.fromhex(vector["server_seed_hex"])
    return shuffle_key(seed, of(vector), entropy, kind=kind, nonce=vector["nonce"])


def test_there_are_eight_vectors_and_nine_of_below():
    assert (len(VECTORS), len(FAIR["below_vectors"])) == (8, 9)


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["note"] for vector in VECTORS])
def test_vector(vector):
    assert commitment(bytes.fromhex(vector["server_seed_hex"]), of(vector)) == vector["commitment_hex"]
    key = key_of(vector)
    assert key.hex() == vector["key_hex"]
    assert stream_block(key, 0).hex() == vector["stream_block0_hex"]
    codes = shuffled(key, vector["decks"])
    order = cards_of(codes)
    assert list(order[:20]) == vector["first20"]
    assert list(order[-3:]) == vector["last3"]
    assert deck_hash(codes) == vector["shoe_sha256_hex"]
    assert sorted(codes) == sorted(bytes(range(52)) * vector["decks"])
    assert words_taken(key, vector["decks"]) == vector["words_used"] + vector["words_rejected"]


def words_taken(key: bytes, decks: int) -> int:
    taken = 0

    def counted():
        nonlocal taken
        for word in words(key):
            taken += 1
            yield word

    source = counted()
    for last in range(52 * decks - 1, 0, -1):
        below(last + 1, source)
    return taken


@pytest.mark.parametrize("vector", FAIR["below_vectors"])
def test_words_that_would_favour_small_numbers_are_rejected(vector):
    source = iter(vector["words"])
    assert below(vector["n"], source) == vector["result"]
    assert len(vector["words"]) - len(list(source)) == vector["words_used"]


def test_the_words_are_big_endian_and_go_on_without_end():
    key = bytes(32)
    taken = list(islice(words(key), 20))
    stream = b"".join(stream_block(key, number) for number in range(3))
    assert taken == [int.from_bytes(stream[4 * n : 4 * n + 4], "big") for n in range(20)]


def test_a_shoe_by_a_clients_seed():
    seed = bytes.fromhex(LUCKY["server_seed_hex"])
    order = shoe_order(seed, LUCKY["table"], LUCKY["shoe"], LUCKY["decks"], LUCKY["entropy"])
    assert list(order[:20]) == LUCKY["first20"]


def test_neither_commitment_nor_order_can_be_passed_off_as_another_shoes():
    seed = bytes(32)
    contexts = [
        context("T1", "S1", 8),
        context("T1S", "1", 8),
        context("T1", "S1", 6),
        context("T", "1S1", 8),
    ]
    assert len({commitment(seed, each) for each in contexts}) == 4
    assert len({shuffle_key(seed, each, b"x") for each in contexts}) == 4


def test_the_commitment_is_no_input_of_the_shuffle():
    seed = bytes(32)
    published = commitment(seed, context("T1", "S1", 8))
    assert shuffle_key(seed, context("T1", "S1", 8), b"x").hex() != published


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_seed_has_thirty_two_bytes(size):
    with pytest.raises(ValueError, match="32 bytes"):
        commitment(bytes(size), context("T1", "S1", 8))
