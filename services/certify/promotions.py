"""What is paid without a bet."""

from __future__ import annotations

from services.certify.catalogue import scenario
from services.certify.stage import Stage


def _put_down(kind: str, shows: str) -> None:
    @scenario(f"promo-{kind.replace('_', '-')}", shows)
    def _(s: Stage) -> None:
        s.promote(f"promo_{kind}")


_put_down("free_round", "free rounds are paid")
_put_down("jackpot", "a jackpot is paid")
_put_down("tournament", "a tournament's prize is paid")
_put_down("reward", "a reward is paid")
_put_down("in_game_bonus", "a bonus of the game is paid")
_put_down("type_of_next_year", "a promotion of a kind that is not known yet is paid")


@scenario("promo-double", "a promotion repeated is paid once")
def _(s: Stage) -> None:
    s.again(s.promote("promo_reward"))
