"""Fixture: Sabot as the image has it, built from what the Containerfile copies."""

import pytest

from tests.deploy.installed import Wheel, build_wheel


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Wheel:
    return build_wheel(tmp_path_factory.mktemp("image"))
