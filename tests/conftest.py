"""Assertions outside the test files explain themselves, too."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    "tests.comparison", "tests.stateful.comparing", "tests.stateful.world"
)
