"""Runs scenarios one after the other, and says of each what became of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Literal

import httpx2

from schemas.money import exponent_of
from services.certify.catalogue import Scenario
from services.certify.stage import UNITS_NEEDED, Failed, Player, Stage, Subject, is_rich
from services.seamless.adapter import Unreadable
from services.seamless.calls import AskBalance, Done

_RUN_BYTES = 4
_LOST_MAX = 5
"""After so many scenarios in a row that had no answer at all nobody is there to be certified."""


class CannotRun(Exception):
    """The wallet cannot be certified at all, in words."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a scenario."""

    scenario: Scenario
    verdict: Literal["passed", "failed", "skipped"]
    steps: int
    seconds: float
    step: str = ""
    """The step that failed."""
    expected: str = ""
    got: str = ""


def run(
    subject: Subject, wanted: Sequence[Scenario], progress: Callable[[Result], None] = lambda _: None
) -> list[Result]:
    """Run them all; ``progress`` is told of each as it ends.

    Raises:
        CannotRun: nobody answers, a player is not there or has too little, or there are not two players.
    """
    prefix = f"c{subject.rng.token(_RUN_BYTES).hex()}"
    transport = subject.transport()
    try:
        _check_players(subject)
        results: list[Result] = []
        lost = 0
        for number, each in enumerate(wanted, start=1):
            result = (
                Result(each, "skipped", 0, 0, got="no answer to any of the scenarios before it")
                if lost >= _LOST_MAX
                else _result(subject, each, Stage(subject, transport, f"{prefix}-{number}"))
            )
            lost = lost + 1 if result.expected == "an answer" else lost if lost >= _LOST_MAX else 0
            results.append(result)
            progress(result)
        return results
    finally:
        transport.close()


def _result(subject: Subject, scenario: Scenario, stage: Stage) -> Result:
    if subject.adapter.name not in scenario.dialects:
        return Result(scenario, "skipped", 0, 0, got="the protocol has no words for it")
    if scenario.currency is not None and all(each.currency != scenario.currency for each in subject.players):
        return Result(scenario, "skipped", 0, 0, got=f"no player in {scenario.currency} was named")
    began = monotonic()
    try:
        scenario.play(stage)
    except Failed as failed:
        seconds = monotonic() - began
        return Result(scenario, "failed", stage.steps, seconds, failed.step, failed.expected, failed.got)
    except Unreadable as error:
        return Result(
            scenario, "failed", stage.steps, monotonic() - began, "", "an answer of the protocol", str(error)
        )
    return Result(scenario, "passed", stage.steps, monotonic() - began)


def _check_players(subject: Subject) -> None:
    main = subject.players[0].currency if subject.players else "EUR"
    if len([each for each in subject.players if each.currency == main]) < 2:
        raise CannotRun("two players in the same currency are needed: --player alice --player bob")
    transport = subject.transport()
    try:
        for player in subject.players:
            units = _balance(subject, player)
            if not is_rich(player, units):
                scale: int = 10 ** exponent_of(player.currency)
                raise CannotRun(
                    f"{player.name} has {units / scale:g} {player.currency}, and the scenarios need "
                    f"{UNITS_NEEDED} of each player"
                )
    finally:
        transport.close()


def _balance(subject: Subject, player: Player) -> int:
    transport = subject.transport()
    call = AskBalance(player.name, player.currency, player.token)
    try:
        exchange = transport.send(transport.prepare(subject.adapter.request(call)))
        outcome = subject.adapter.reply(call, exchange.answer).outcome
    except httpx2.HTTPError as error:
        raise CannotRun(f"no wallet answers at {subject.url}: {str(error) or type(error).__name__}") from None
    except Unreadable as error:
        raise CannotRun(f"what answers at {subject.url} does not speak the protocol: {error}") from None
    finally:
        transport.close()
    if not isinstance(outcome, Done) or outcome.balance is None:
        raise CannotRun(f"the balance of {player.name} cannot be had: {getattr(outcome, 'code', outcome)}")
    return outcome.balance
