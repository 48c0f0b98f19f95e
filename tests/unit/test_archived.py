"""The list of archived periods of a board that has very many of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from tests.internals import local

import laurels
from laurels.core import archived
from laurels.core.closing import SealedPeriod
from laurels.errors import InvalidOffset
from laurels.model.windows.calendar import Calendar

HOUR = 3_600_000
NOW_MS = 1_795_188_600_000
HOURS = 30_000


@pytest.fixture
def lb() -> Iterator[laurels.Leaderboards]:
    """A board whose archive has the hours and days of some years. The archive itself is empty."""
    with laurels.open("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
        lb.create(laurels.Board("b", windows=["hour:archive=forever", "day:archive=forever"]))
        closing = local(lb)._fold.named("b").closing
        newest = NOW_MS // HOUR * HOUR
        for start_ms in range(newest - HOURS * HOUR, newest, HOUR):
            closing["hour"].sealed[start_ms] = SealedPeriod(NOW_MS, 1, b"h" * 32)
            if start_ms % (24 * HOUR) == 0 and start_ms + 24 * HOUR <= NOW_MS:
                closing["day"].sealed[start_ms] = SealedPeriod(NOW_MS, 1, b"d" * 32)
        yield lb


def test_a_page_of_archived_periods_costs_as_much_as_the_page(lb: laurels.Leaderboards) -> None:
    """If a page cost more, a key that may only read could stop the store for seconds."""
    asked: list[int] = []
    period_of = Calendar.period_of

    def counted(window: Calendar, instance: int) -> Any:
        asked.append(instance)
        return period_of(window, instance)

    with patch.object(Calendar, "period_of", counted):
        (newest,) = lb.archived("b", limit=1)
        (deep,) = lb.archived("b", "hour", limit=1, offset=HOURS - 1)
    assert newest.period == "2026-11-20T14+00:00"
    assert deep.start_ms == newest.start_ms - (HOURS - 1) * HOUR
    assert len(asked) < 10


def test_archived_periods_of_all_windows_are_listed_by_their_ends(
    lb: laurels.Leaderboards,
) -> None:
    ends = [each.end_ms for each in lb.archived("b", limit=200)]
    assert ends == sorted(ends, reverse=True)
    listed = [(each.window, each.period) for each in lb.archived("b", limit=60)]
    pages = [lb.archived("b", limit=20, offset=offset) for offset in (0, 20, 40)]
    assert [(each.window, each.period) for page in pages for each in page] == listed
    assert {window for window, _ in listed} == {"hour", "day"}
    with pytest.raises(InvalidOffset, match="name a window"):
        lb.archived("b", offset=10_001)
    assert len(lb.archived("b", "hour", offset=10_001, limit=5)) == 5


def test_archived_periods_are_named_without_the_lock_of_the_store(
    lb: laurels.Leaderboards,
) -> None:
    free: list[bool] = []
    info = archived._info

    def tried(*arguments: Any) -> Any:
        def try_it() -> None:
            lock = local(lb).try_lock()
            free.append(lock is not None)
            if lock is not None:
                lock.release()

        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
        return info(*arguments)

    with patch.object(archived, "_info", tried):
        lb.archived("b", limit=2)
    assert free == [True, True]
