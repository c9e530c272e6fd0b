"""What each spot reached, which is all that wallet is told."""

import pytest

from services.game.core.tableau import play
from services.game.core.tiers import spots_of, tiers_of
from tests.rules.room import HOUSES, PUNTO, cards


@pytest.mark.parametrize(
    ("points", "tiers"),
    [
        ("9 8 0 0", {"player": "win", "banker": "lose", "tie": "lose"}),
        ("8 9 0 0", {"player": "lose", "banker": "win", "tie": "lose"}),
        ("6 6 0 0", {"player": "push", "banker": "push", "tie": "win"}),
    ],
)
def test_tiers(points, tiers):
    assert tiers_of(play(cards(points), PUNTO), ("player", "banker", "tie")) == tiers


def test_only_the_spots_that_are_asked_for():
    assert tiers_of(play(cards("6 6 0 0"), PUNTO), ("tie",)) == {"tie": "win"}


@pytest.mark.parametrize("house", sorted(HOUSES))
def test_a_house_has_the_spots_that_it_has_prices_for(house):
    assert spots_of(HOUSES[house]) == ("player", "banker", "tie")
