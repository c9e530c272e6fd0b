"""A test that is left out says so, and fails where its component is required."""

import pytest

from tests.support import is_required

MODULE = """
import pytest
from tests.support import requires

@pytest.mark.parametrize("number", [1, 2])
def test_with_a_broker(number):
    requires("kafka", False, "no broker answers")

def test_that_skips_by_itself():
    pytest.skip("not today")

def test_that_runs():
    requires("python", True, "never said")
"""


@pytest.fixture
def planted(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest("from tests.conftest import pytest_terminal_summary as pytest_terminal_summary")
    pytester.makepyfile(test_planted=MODULE)
    return pytester


def test_what_is_left_out_is_said_before_the_closing_line(planted, monkeypatch):
    monkeypatch.delenv("SABOT_REQUIRE", raising=False)
    result = planted.runpytest("-q")
    result.assert_outcomes(passed=1, skipped=3)
    said = [line for line in result.outlines if line.startswith("left out: ")]
    assert said == [
        "left out: kafka because no broker answers (2 times)",
        "left out: test_planted.py::test_that_skips_by_itself because not today",
    ]
    assert "1 passed, 3 skipped" in result.outlines[-1]


@pytest.mark.parametrize("required", ["all", "kafka", "postgres, kafka"])
def test_a_required_component_fails_where_it_is_missing(planted, monkeypatch, required):
    monkeypatch.setenv("SABOT_REQUIRE", required)
    result = planted.runpytest("-q")
    result.assert_outcomes(passed=1, skipped=1, failed=2)
    result.stdout.fnmatch_lines(["*SABOT_REQUIRE asks for kafka, but no broker answers"])


def test_a_whole_module_is_left_out_or_fails(pytester, monkeypatch):
    pytester.makepyfile("from tests.support import requires\nrequires('kafka', False, 'no broker answers')")
    monkeypatch.setenv("SABOT_REQUIRE", "")
    assert pytester.runpytest("-q").ret == pytest.ExitCode.NO_TESTS_COLLECTED
    monkeypatch.setenv("SABOT_REQUIRE", "all")
    assert pytester.runpytest("-q").ret == pytest.ExitCode.INTERRUPTED


@pytest.mark.parametrize(
    ("value", "required"),
    [("", False), ("all", True), ("kafka", True), ("postgres,kafka", True), ("kafkaesque", False)],
)
def test_the_list_of_required_components(monkeypatch, value, required):
    monkeypatch.setenv("SABOT_REQUIRE", value)
    assert is_required("kafka") is required
