"""Who may do what, as data; and what is told to who may not."""

import asyncio
import re
from pathlib import Path

import pytest

from schemas.refusal import Refusal
from services.runtime.callers import Authenticator, Caller, NotAllowed, require, require_another
from services.runtime.limiting import Limiter
from services.runtime.operator_entries import RateEntry
from services.runtime.operators import Operators
from services.runtime.ports_system import ManualClock
from services.runtime.roles import EVERY_RIGHT, MACHINE_RIGHTS, READING, ROLE_RIGHTS, Right, Role
from services.runtime.signing import signed_headers
from tests.security.support import NEW, NOW, OLD, SECONDS, written

MACHINE = Caller("main", "machine", "k1")
ANYBODY = Caller("main", "anybody", "anybody")
DOCUMENT = Path(__file__).parents[2] / "docs" / "security.md"


def person(*roles, name="anna"):
    return Caller("main", "person", name, frozenset(roles))


def test_the_table_of_rights_in_the_document_is_what_the_code_says():
    rows = re.findall(r"^\| `(\w+:\w+)` \|(.*)\|$", DOCUMENT.read_text(), re.MULTILINE)
    said = {right: [bool(cell.strip()) for cell in cells.split("|")] for right, cells in rows}
    columns = [*(ROLE_RIGHTS[role] for role in Role), MACHINE_RIGHTS]
    assert said == {right.value: [right in rights for rights in columns] for right in Right}


def test_what_nobody_may_do_alone():
    approves = {Right.ADJUSTMENT_APPROVE, Right.CORRECTION_APPROVE, Right.DAY_CLOSE, Right.REVIEW}
    assert not approves & MACHINE_RIGHTS
    proposes = {Right.ADJUST, Right.CORRECT}
    assert not proposes & ROLE_RIGHTS[Role.APPROVER]
    assert ROLE_RIGHTS[Role.AUDITOR] - {Right.REVIEW} == READING


def test_roles_add_up():
    assert person().rights == frozenset()
    both = person(Role.CASHIER, Role.AUDITOR)
    assert both.rights == ROLE_RIGHTS[Role.CASHIER] | ROLE_RIGHTS[Role.AUDITOR]
    assert ANYBODY.rights == EVERY_RIGHT


@pytest.mark.parametrize("caller", [MACHINE, person(Role.CASHIER), ANYBODY])
def test_what_a_caller_may_do(caller):
    require(caller, Right.DEPOSIT)
    require(caller, Right.DEPOSIT, "main")


def test_a_right_that_is_lacking_comes_first_whatever_is_named():
    for operator in ("main", "north", "no such", None):
        with pytest.raises(
            NotAllowed, match="cashier may not do this; it takes the right adjustments:approve"
        ):
            require(person(Role.CASHIER), Right.ADJUSTMENT_APPROVE, operator)
    with pytest.raises(NotAllowed, match="a key may not"):
        require(MACHINE, Right.DAY_CLOSE)
    with pytest.raises(NotAllowed, match="somebody without a role"):
        require(person(), Right.BETS_READ)


@pytest.mark.parametrize("caller", [MACHINE, person(*Role)])
def test_what_is_another_operators_is_not_there(caller):
    for right in caller.rights:
        with pytest.raises(Refusal) as error:
            require(caller, right, "north", "bets.0.operator")
        found = (error.value.code, error.value.field)
        assert found == (("NOT_FOUND", "") if right.reads else ("FORBIDDEN", "bets.0.operator"))


def test_anybody_may_name_any_operator():
    for right in Right:
        require(ANYBODY, right, "north")


def test_four_eyes():
    require_another(person(name="berta"), "person:anna")
    require_another(MACHINE, "person:k1")
    for roles in ((), tuple(Role)):
        with pytest.raises(NotAllowed, match="somebody else"):
            require_another(person(*roles), "person:anna")


def test_a_key_that_signs_more_than_can_be_remembered_is_asked_to_wait(tmp_path):
    authenticator = Authenticator(Operators.load(written(tmp_path), {}), ManualClock(NOW), nonces_max=2)

    def ask(key, nonce):
        headers = signed_headers(key, "GET", "/x", "", b"", timestamp=SECONDS, nonce=nonce)
        return asyncio.run(authenticator.authenticate(headers, "GET", "/x", "", b""))

    for nonce in "ab":
        caller, operator = ask(OLD, nonce)
        assert (caller, operator) == (Caller("main", "machine", "old"), authenticator.operators.get("main"))
    with pytest.raises(Refusal) as error:
        ask(OLD, "c")
    assert error.value.code == "RATE_LIMITED"
    assert ask(NEW, "c")


def test_a_bucket_fills_steadily_and_no_further():
    limiter, rate = Limiter(), RateEntry(requests_per_second=10, burst=2)
    assert [limiter.wait("a", rate, 100.0) for _ in range(3)] == [0, 0, 0.1]
    assert limiter.wait("a", rate, 50.0) == 0.1, "a clock that is put back fills nothing"
    assert limiter.wait("a", rate, 50.1) == 0
    assert [limiter.wait("a", rate, 99.0) for _ in range(3)] == [0, 0, 0.1]


def test_many_who_ask_once_do_not_fill_the_memory():
    limiter, rate = Limiter(), RateEntry(requests_per_second=1, burst=1)
    for number in range(30_000):
        assert limiter.wait(f"person {number}", rate, float(number)) == 0
    assert len(limiter._buckets) <= 10_000
    assert limiter.wait("person 29999", rate, 29_999.0) == 1
