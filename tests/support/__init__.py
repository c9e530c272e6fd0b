"""What tests share: `requires`, by which a test says what it cannot do without.

A test that needs a component which is not on every machine (a broker, a database server, a browser) is left
out where there is none, visibly: conftest prints one line for each reason. Where the environment variable
SABOT_REQUIRE names the component, or is `all` as in CI, its absence is a failure.
"""

import os

import pytest


def requires(component: str, available: bool, reason: str) -> None:
    """Go on if the component is available; otherwise skip the test, or fail it where SABOT_REQUIRE says so.

    May be called in a test, in a fixture, or at the top of a test module. The reason continues the sentence
    "left out: COMPONENT because …".
    """
    if available:
        return
    if is_required(component):
        pytest.fail(f"SABOT_REQUIRE asks for {component}, but {reason}", pytrace=False)
    pytest.skip(f"{component} because {reason}", allow_module_level=True)


def is_required(component: str) -> bool:
    """Whether SABOT_REQUIRE names the component, alone or in a list with commas, or everything."""
    named = {name.strip() for name in os.environ.get("SABOT_REQUIRE", "").split(",")}
    return "all" in named or component in named
