"""What every implementation of a port must do: a suite for each port, which each implementation inherits."""

import pytest

pytest.register_assert_rewrite("tests.contracts.bus", "tests.contracts.delivery", "tests.contracts.store")
