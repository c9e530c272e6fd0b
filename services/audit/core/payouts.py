"""What a bet came to, held against what it had to come to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from schemas.events.base import Outcome
from schemas.money import format_units
from services.audit.core.money import Payout, of_free_bet
from services.audit.core.state import Bet, HouseRules, Result

_RESULTS_REMEMBERED: Final = 4_096
"""Stakes repeat: so many results are kept for one house."""


class Wrong(NamedTuple):
    """Something about a bet that is not as it had to be."""

    bet: Bet
    check: str
    words: str
    recorded: object
    expected: object


def due_result(bet: Bet, outcome: Outcome, rules: HouseRules) -> Result:
    """What a bet must come to.

    Raises:
        KeyError: the house does not offer its spot.
    """
    asked = (bet.spot, outcome, bet.stake, bet.exponent, bet.funding)
    known = rules.results.get(asked)
    if known is None:
        due = rules.payouts.pay(bet.spot, outcome, bet.stake, bet.exponent)
        returned, deferred = due.returned, False
        if bet.funding == "free":
            returned = of_free_bet(due, bet.stake)
        elif rules.deferred and bet.funding == "cash" and due.commission:
            returned, deferred = due.returned + due.commission, True
        if len(rules.results) >= _RESULTS_REMEMBERED:
            rules.results.clear()
        known = rules.results[asked] = (due.tier, returned, due.commission, str(due.exact), deferred)
    return known


def wrong_payouts(bet: Bet, result: Result, outcome: Outcome, rules: HouseRules) -> Iterator[Wrong]:
    """Tier, commission and payout of a bet that was settled, each if it is not what was due."""
    tier, returned, commission, exact, deferred = result
    due = rules.payouts.pay(bet.spot, outcome, bet.stake, bet.exponent)
    _, due_returned, _, _, owed = due_result(bet, outcome, rules)
    if tier != due.tier:
        words = f"bet {bet.bet} on {bet.spot} was settled as {tier}, and {due.tier} was due"
        yield Wrong(bet, "tiers", words, tier, due.tier)
    if commission != due.commission or exact != str(due.exact):
        words = (
            f"the commission on bet {bet.bet} of {amount(bet.stake, bet)} was "
            f"{amount(commission, bet)} (exactly {exact} minor units), "
            f"and {amount(due.commission, bet)} ({due.exact}) was due"
        )
        yield Wrong(bet, "commission", words, commission, due.commission)
    elif deferred != owed:
        words = f"the commission on bet {bet.bet}, {amount(commission, bet)}, "
        words += "is owed, and it was to be kept back" if deferred else "was kept back, and it is to be owed"
        yield Wrong(bet, "commission", words, "owed" if deferred else "kept", "owed" if owed else "kept")
        due_returned = due.returned + (due.commission if deferred else 0)
    if returned != due_returned:
        words = (
            f"bet {bet.bet} of {amount(bet.stake, bet)} on {bet.spot} was paid "
            f"{amount(returned, bet)}, and {amount(due_returned, bet)} was due{_because(bet, due, owed)}"
        )
        yield Wrong(bet, "payout", words, returned, due_returned)


def wrong_void(bet: Bet, result: Result) -> Iterator[Wrong]:
    """A bet of a void coup comes to its stake, and to nothing else."""
    due: Result = ("void", 0 if bet.funding == "free" else bet.stake, 0, "0", False)
    if result != due:
        words = (
            f"bet {bet.bet} of {amount(bet.stake, bet)} came to {amount(result[1], bet)} ({result[0]}) and "
            f"{amount(result[2], bet)} of commission, and its coup is void: {amount(due[1], bet)} was due"
        )
        yield Wrong(bet, "payout", words, result[1], due[1])


def amount(units: int, bet: Bet) -> str:
    """So many minor units of the bet's currency."""
    return f"{format_units(units, bet.exponent)} {bet.currency}"


def _because(bet: Bet, due: Payout, owed: bool) -> str:
    if bet.funding == "free":
        return ": the winnings of a free bet, and not its stake" if due.tier == "win" else ""
    if due.tier == "push":
        return ": a tie returns the stake"
    if owed:
        return f": stake and winnings; {amount(due.commission, bet)} commission is collected later"
    if due.tier == "win" and due.commission:
        return f": stake and winnings, less {amount(due.commission, bet)} commission"
    return ""
