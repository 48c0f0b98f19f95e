"""The repeats of a case over several implementations, of which `make test` runs only some.

Implementations that share most of their code are one group. In `make test`, each case of a test
runs on at least one implementation of each group. If a test has few cases, some of them run on
several, so that the test runs on a certain share of the group. `make torture` runs each case on
every implementation.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

EVERY = "every_implementation"
"""The mark of tests that run on every implementation in `make test`, too."""


class Member(NamedTuple):
    """An implementation, and the group to which it belongs."""

    name: str
    group: str


class Repeats:
    """The items of one test function on the implementations of one group."""

    def __init__(self) -> None:
        self._items: dict[tuple[str, Hashable], pytest.Item] = {}

    def add(self, item: pytest.Item, name: str, case: Hashable) -> None:
        self._items[name, case] = item

    def unchosen(self, test: str, share: float) -> list[pytest.Item]:
        """Return the items that only `make torture` runs. The first case runs on an implementation
        that depends on the name of the test, and each further case on the next one."""
        names = [*dict.fromkeys([name for name, _ in self._items])]
        cases = [*dict.fromkeys([case for _, case in self._items])]
        first = zlib.crc32(test.encode())
        pairs = range(max(len(cases), ceil(share * len(names))))
        chosen = {(names[(first + i) % len(names)], cases[i % len(cases)]) for i in pairs}
        return [item for key, item in self._items.items() if key not in chosen]


def mark_repeats(
    items: Iterable[pytest.Item],
    member_of: Callable[[str, object], Member | None],
    share: float,
) -> None:
    """Mark as `torture` the items that `make test` does not run. `member_of` returns the
    implementation that a parameter chooses, from the name and the value of the parameter, or None
    for any other parameter. `share` is the least fraction of the implementations of a group on
    which a test runs."""
    tests: dict[tuple[Path, str, str], Repeats] = defaultdict(Repeats)
    for item in items:
        spec: Any = getattr(item, "callspec", None)
        if spec is None or any(map(item.get_closest_marker, ("torture", EVERY))):
            continue
        members = {name: member_of(name, value) for name, value in spec.params.items()}
        # The other parameters of a case are the same objects for every implementation, so their ids
        # identify the case.
        case = tuple((name, id(of)) for name, of in spec.params.items() if members[name] is None)
        test = str(getattr(item, "originalname", item.name))
        for member in members.values():
            if member is not None:
                tests[item.path, test, member.group].add(item, member.name, case)
    for (_, test, _), repeats in tests.items():
        for item in repeats.unchosen(test, share):
            item.add_marker("torture")
