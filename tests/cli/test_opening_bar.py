"""Opening a store shows a progress bar on a terminal if it takes longer than a second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from laurels.cli import opening_bar
from laurels.errors import LogDamaged
from laurels.stores.local.recovery.progress import current_report


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that records what is drawn: the name of each bar, its progress, and None at its
    end."""
    seen: list[object] = []

    @contextmanager
    def bar(wanted: bool, name: str) -> Iterator[Callable[[int, int], None]]:
        assert wanted
        seen.append(name)
        yield lambda done, total: seen.append((done, total))
        seen.append(None)

    monkeypatch.setattr(opening_bar, "bytes_bar", bar)
    return seen


def test_a_bar_is_drawn_after_a_second_and_removed_at_the_end(drawn: list[object]) -> None:
    seconds = 0.0
    with opening_bar.opening_bar(lambda: seconds):
        report = current_report()
        for done in range(5):
            seconds = done * 0.4
            report("reading the log", done, 5)
        report("reading the log", 5, 5)
        assert drawn == ["reading the log", (4, 5), None]


def test_no_bar_is_drawn_within_a_second(drawn: list[object]) -> None:
    with opening_bar.opening_bar(lambda: 0.0):
        for done in range(5):
            current_report()("reading the log", done, 5)
    assert drawn == []


def test_the_bar_is_removed_if_opening_fails(drawn: list[object]) -> None:
    seconds = 0.0

    def opened() -> None:
        nonlocal seconds
        with opening_bar.opening_bar(lambda: seconds):
            for done in range(2, 5):
                seconds = float(done)
                current_report()("reading the log", done, 5)
            raise LogDamaged("its end is missing")

    with pytest.raises(LogDamaged):
        opened()
    assert drawn[-1] is None
