"""How every test runs: Hypothesis's profile, and what was left out, said before pytest's closing line."""

import os
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Fixtures for all tests.
pytest_plugins = ["tests.support.kafka", "tests.support.postgres"]

# The same examples on every run: who changes nothing sees no new failure. No deadline and no complaint about
# slow data, for both measure the machine's load and not the code. `--hypothesis-profile=fresh` looks further,
# at other examples each time.
# A shell that is set up for an installation must not take tests there. What tests themselves heed stays.
for name in [each for each in os.environ if each.startswith("SABOT_")]:
    if not name.startswith(("SABOT_TEST_", "SABOT_REQUIRE")):
        del os.environ[name]

settings.register_profile(
    "default", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("ci", settings.get_profile("default"), max_examples=200)
settings.register_profile("fresh", settings.get_profile("default"), derandomize=False, max_examples=2000)
settings.load_profile("ci" if os.environ.get("CI") else "default")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was skipped, one line for each reason, whatever the verbosity."""
    for line in left_out(terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(line)


def left_out(reports: list[pytest.TestReport]) -> Iterator[str]:
    """The lines "left out: … because …" for skipped reports, in the order in which they came."""
    for sentence, times in Counter(map(_sentence, reports)).items():
        yield f"left out: {sentence}" + (f" ({times} times)" if times > 1 else "")


def _sentence(report: pytest.TestReport) -> str:
    # A skip carries (file, line, "Skipped: reason"); `requires` wrote it as "component because reason".
    longrepr = report.longrepr
    reason = str(longrepr[2] if isinstance(longrepr, tuple) else longrepr).removeprefix("Skipped: ")
    return reason if " because " in reason else f"{report.nodeid} because {reason or 'it says no reason'}"
