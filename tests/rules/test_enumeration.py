"""Game and audit agree on every legal coup there is: all 1,659,001 sequences of ranks.

They draw by two formulations that share no code. Each sequence is one whole coup by game's rules; audit
must use just its cards (it raises where it wants one more, and says fewer where one is too many) and come
to the same totals, outcome and natural. Ranks, not values: a ten is not a king to whoever mistakes one.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import product

import pytest

from schemas.cards import RANKS
from services.audit.core.tableau import expected_play
from services.game.core.tableau import check, play
from tests.rules.room import BIG_TABLE, PUNTO


def legal_coups(ranks: str) -> Iterator[tuple[str, ...]]:
    """Every sequence of these ranks that is one whole coup, by game's rules."""
    for four in product(ranks, repeat=4):
        if play((*four, "A", "A"), PUNTO).used == 4:
            yield four
            continue
        for fifth in ranks:
            if play((*four, fifth, "A"), PUNTO).used == 5:
                yield (*four, fifth)
            else:
                yield from ((*four, fifth, sixth) for sixth in ranks)


def test_every_legal_coup():
    lengths: Counter[int] = Counter()
    outcomes: Counter[str] = Counter()
    for coup in legal_coups(RANKS):
        ours, theirs = check(coup, PUNTO), expected_play(coup, PUNTO)
        if (
            theirs.used != len(coup)
            or ours.player_total != theirs.player_total
            or ours.banker_total != theirs.banker_total
            or ours.outcome != theirs.outcome
            or ours.natural != theirs.natural
        ):
            pytest.fail(f"{coup}: game says {ours}, audit says {theirs}")
        lengths[len(coup)] += 1
        outcomes[ours.outcome] += 1
    assert lengths == {4: 10_816, 5: 112_560, 6: 1_535_625}
    assert lengths.total() == 1_659_001
    assert outcomes == {"player": 797_176, "banker": 692_104, "tie": 169_721}


def test_every_coup_of_the_big_table():
    """By values, which is enough once the ranks are known to be worth the same to both."""
    for coup in legal_coups("A23456789T"):
        ours, theirs = check(reordered(coup), BIG_TABLE), expected_play(reordered(coup), BIG_TABLE)
        assert (theirs.used, theirs.player, theirs.banker) == (len(coup), ours.player, ours.banker)
        assert (theirs.outcome, theirs.natural) == (ours.outcome, ours.natural)


def reordered(coup: tuple[str, ...]) -> tuple[str, ...]:
    """The same hands, dealt two to Banker first and then two to Player."""
    return (coup[1], coup[3], coup[0], coup[2], *coup[4:])
