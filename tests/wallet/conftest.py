"""A wallet for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wallet.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as world:
        yield world
