"""Audit's own ``bacfair/1`` against the public vectors."""

import json
from pathlib import Path

import pytest

from services.audit.core import fair

VECTORS = json.loads((Path(__file__).parent.parent / "fixtures" / "rules" / "fair_vectors.json").read_text())


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda vector: vector["note"])
def test_vectors(vector):
    seed = bytes.fromhex(vector["server_seed_hex"])
    table, shoe, decks, kind = vector["table"], vector["shoe"], vector["decks"], vector["entropy_kind"]
    entropy = vector["entropy"].encode() if kind == 1 else bytes.fromhex(vector["entropy"])
    assert fair.commitment_of(seed, table, shoe, decks) == vector["commitment_hex"]
    key = fair.key_of(seed, table, shoe, decks, entropy=entropy, kind=kind, nonce=vector["nonce"])
    assert key.hex() == vector["key_hex"]
    order = fair.order_of(key, decks)
    assert fair.order_hash(order) == vector["shoe_sha256_hex"]
    cards = [fair.CARDS[code] for code in order]
    assert cards[:20] == vector["first20"]
    assert cards[-3:] == vector["last3"]
    assert sorted(order) == sorted(list(range(52)) * decks)


@pytest.mark.parametrize("vector", VECTORS["below_vectors"], ids=str)
def test_words_of_the_incomplete_stretch_are_passed_over(vector):
    words = iter(vector["words"])
    assert fair.below(vector["n"], words) == vector["result"]
    assert len(vector["words"]) - len(list(words)) == vector["words_used"]
