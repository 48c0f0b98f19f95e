"""Assertions outside the test files explain themselves, too; long files are begun first."""

from __future__ import annotations

from pathlib import Path

import pytest

LONG_FIRST = (
    "unit/test_packaging.py",
    "crash/test_kill.py",
    "crash/test_power_cut.py",
    "redis/test_side_by_side.py",
    "http/test_fuzz.py",
    "http/test_crowd.py",
    "redis/test_hot_member.py",
    "engine/test_stubs.py",
    "crash/test_damaged_files.py",
    "stateful/test_machine.py",
)
"""Files that take long by themselves, most of them one test. Begun when all others are done, the
last of them would leave cores idle for minutes."""

pytest.register_assert_rewrite(
    "tests.comparison", "tests.stateful.comparing", "tests.stateful.world"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {Path(__file__).parent / name: i for i, name in enumerate(LONG_FIRST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
