"""Certification: a sound wallet passes, and every fault of the sandbox is found by name."""

import json

import pytest

from services.certify.catalogue import scenarios
from services.certify.runner import run
from services.certify.stage import Player, Subject
from services.operator.faults import FAULTS
from services.operator.hosting import Sandbox, player, running
from services.runtime.ports_system import SystemClock, SystemRng
from services.runtime.signing import Key
from services.seamless.adapters import adapter_named
from tests.end_to_end.support import run_command

KEY = Key("k1", b"a-secret-of-thirty-two-characters")
MONEY = {
    "alice": ("EUR", "100000.00"),
    "bob": ("EUR", "100000.00"),
    "yuki": ("JPY", "1000000"),
    "noor": ("KWD", "10000.000"),
}

FOUND_BY = {
    "slow": "happy-path",
    "timeout-after-commit": "happy-path",
    "error-after-commit": "happy-path",
    "closes-connections": "happy-path",
    "read-only": "happy-path",
    "balance-off-by-one": "happy-path",
    "float-balance": "happy-path",
    "new-bytes": "same-bytes",
    "hides-replays": "same-bytes",
    "no-status": "status",
    "hides-conflicts": "conflict-names-fields",
    "double-debit": "debit-again",
    "credits-twice": "credit-again",
    "late-bet": "late-repeat",
    "forgets-tombstones": "tombstone",
    "forgets-refusals": "refused-stays-refused",
    "keeps-early-wins": "win-before-bet",
    "ignores-conflicts": "conflict-names-fields",
    "ids-without-case": "case-of-ids",
    "ids-for-all": "same-id-two-players",
    "races": "ten-at-once",
    "settles-twice": "settled-once",
    "settles-after-cancel": "credit-after-cancel",
    "cancels-after-settlement": "cancel-after-credit",
    "trusts-rollback-amounts": "cancel-another-amount",
    "refunds-too-much": "partial-refund",
    "batch-in-parts": "batch-all-or-nothing",
    "ignores-rounds": "betting-closed",
    "skips-recovery": "correction-refused",
    "refuses-zero-wins": "zero-win",
    "refuses-new-promos": "promo-type-of-next-year",
    "rounds-silently": "precision",
    "accepts-numbers": "json-number",
    "two-decimals": "yen",
    "ignores-currency": "another-currency",
    "keeps-a-cent": "whole-balance",
    "overdraws": "insufficient-funds",
    "small-amounts": "big-payout",
    "ignores-signature": "wrong-secret",
    "ignores-query": "changed-query",
    "ignores-clock": "old-signature",
    "ignores-nonces": "same-request-twice",
    "ignores-sessions": "wrong-session",
    "strict-fields": "unknown-fields",
}
"""The scenario that names each fault."""


def verdicts(
    *, only: str | None = None, faults: tuple[str, ...] = (), dialect: str = "sabot"
) -> dict[str, str]:
    """What became of each scenario against a sandbox with these faults."""
    adapter = adapter_named(dialect)
    clock, rng = SystemClock(), SystemRng()
    sandbox = Sandbox(
        keys={KEY.id: KEY.secret.decode()},
        players=tuple(player(name, *money) for name, money in MONEY.items()),
        faults=faults,
        delay_ms=900,
        dialect="one_wallet" if dialect == "one_wallet" else "sabot",
    )
    players = [Player(name, currency, f"session-{name}") for name, (currency, _) in MONEY.items()]
    with running(sandbox, clock, rng) as (url, _):
        subject = Subject(url, KEY, adapter, players, 700, clock, rng)
        return {each.scenario.id: each.verdict for each in run(subject, scenarios(only))}


@pytest.mark.parametrize("dialect", ["sabot", "one_wallet"])
def test_a_sound_wallet_passes(dialect):
    found = verdicts(dialect=dialect)
    assert "failed" not in found.values()
    passed = [name for name, verdict in found.items() if verdict == "passed"]
    assert len(passed) >= (80 if dialect == "sabot" else 45)


def test_every_fault_has_a_scenario_that_names_it():
    assert FOUND_BY.keys() == FAULTS.keys()
    assert set(FOUND_BY.values()) <= {each.id for each in scenarios()}


@pytest.mark.parametrize("fault", FOUND_BY)
def test_a_fault_is_found(fault):
    name = FOUND_BY[fault]
    assert verdicts(only=name, faults=(fault,)) == {name: "failed"}


def test_the_command_says_it_by_its_exit_status():
    passed = run_command("certify", "--only", "happy-path", "--json")
    assert (passed.status, [each["verdict"] for each in json.loads(passed.out)]) == (0, ["passed"])
    failed = run_command("certify", "--only", "precision", "--fault", "rounds-silently", "--json")
    [row] = json.loads(failed.out)
    assert (failed.status, row["verdict"]) == (1, "failed")
    assert (row["expected"], row["got"]) != ("", "")
    nobody = run_command("certify", "http://127.0.0.1:9", "--only", "happy-path")
    assert nobody.status == 2
    assert "no wallet answers at http://127.0.0.1:9" in nobody.err
    unknown = run_command("certify", "--only", "no-such-thing")
    assert (unknown.status, unknown.err) == (
        2,
        "sabot: no scenario is called 'no-such-thing'; sabot certify --list says what there is\n",
    )


def test_the_list_has_more_than_forty_five():
    listed = run_command("certify", "--list", "--json")
    assert len(json.loads(listed.out)) >= 45
