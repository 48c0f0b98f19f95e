"""Queries about a rolling window: it has one ranking, whose label is that of the running step.
Steps of days are days of the board's time zone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

import laurels
from laurels.errors import InvalidCursor, PeriodExpired, PeriodFuture, UnknownPeriod
from tests.calendar_by_scanning import HOUR, MINUTE, Calendar, span_at, utc_ms
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import Deployment, Implementation
from tests.contract.reading import members

THREE = NOW_MS - 30 * MINUTE
"""15:00, the start of the hour that is running at `NOW_MS`."""

OpenedAt = Callable[[int], tuple[laurels.Leaderboards, laurels.ManualClock]]


@pytest.fixture
def begun_at(implementation: Implementation, tmp_path: Path) -> Iterator[OpenedAt]:
    """Return a function that opens a fresh deployment at a given time, and returns it with its
    clock."""
    with ExitStack() as stack:

        def begin(now_ms: int) -> tuple[laurels.Leaderboards, laurels.ManualClock]:
            clock = laurels.ManualClock(now_ms)
            return stack.enter_context(Deployment(implementation, tmp_path, clock)).lb, clock

        yield begin


def at(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> int:
    """Return a date and time in UTC as milliseconds."""
    return utc_ms(datetime(year, month, day, hour, minute, tzinfo=UTC))


@pytest.mark.parametrize(
    ("window", "label", "start_ms", "end_ms"),
    [
        ("rolling:3h/1h", "2026-11-20T15:00Z", THREE - 2 * HOUR, THREE + HOUR),
        ("rolling:60m/1m", "2026-11-20T15:30Z", NOW_MS - 59 * MINUTE, NOW_MS + MINUTE),
        ("rolling:30m/15m", "2026-11-20T15:30Z", NOW_MS - 15 * MINUTE, NOW_MS + 15 * MINUTE),
        ("rolling:2m/20s", "2026-11-20T15:30Z", NOW_MS - 100_000, NOW_MS + 20_000),
        ("rolling:7d/12h", "2026-11-20T12:00Z", at(2026, 11, 14), at(2026, 11, 21)),
        ("rolling:7d/1d", "2026-11-20", at(2026, 11, 14), at(2026, 11, 21)),
        ("rolling:9d/3d", "2026-11-18", at(2026, 11, 12), at(2026, 11, 21)),
        ("rolling:2d/1d,tz=Asia/Tokyo", "2026-11-21", at(2026, 11, 19, 15), at(2026, 11, 21, 15)),
    ],
)
def test_the_only_period_of_a_rolling_window_has_the_label_of_the_running_step(
    lb: laurels.Leaderboards, window: str, label: str, start_ms: int, end_ms: int
) -> None:
    lb.create(laurels.Board("b", windows=[window]))
    assert lb.submit("b", "ann", 1).period == label
    (period,) = lb.periods("b")
    assert (period.label, period.start_ms, period.end_ms) == (label, start_ms, end_ms)
    assert (period.current, period.total) == (True, 1)
    assert lb.top("b").as_of.period == label
    assert lb.get("b").windows == (window,)


def test_a_step_shorter_than_a_minute_has_seconds_in_its_label(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["r=rolling:2m/20s"]))
    clock.advance(59_999)
    assert lb.top("b").as_of.period == "2026-11-20T15:30:40Z"
    assert lb.top("b", period="2026-11-20T15:30:40Z").total == 0


@pytest.mark.parametrize(
    ("window", "running", "gone", "later", "unknown"),
    [
        (
            "rolling:3h/1h",
            "2026-11-20T15:00Z",
            ["2026-11-20T14:00Z", "2026-11-20T13:00Z", "2001-01-01T00:00Z"],
            ["2026-11-20T16:00Z"],
            ["2026-11-20T15:30Z", "2026-11-20T15:00:00Z", "2026-11-20T15", "2026-11-20"],
        ),
        (
            "rolling:7d/1d",
            "2026-11-20",
            ["2026-11-19", "2026-11-14", "1999-12-31"],
            ["2026-11-21", "2027-11-20"],
            ["2026-11-31", "2026-11", "2026-11-20T00:00Z", "20261120", "today"],
        ),
        (
            "rolling:9d/3d",
            "2026-11-18",
            ["2026-11-15"],
            ["2026-11-21"],
            ["2026-11-19", "2026-11-20", "2026-11-17"],
        ),
        (
            "rolling:1m/20s",
            "2026-11-20T15:30Z",
            ["2026-11-20T15:29:40Z"],
            ["2026-11-20T15:30:20Z"],
            ["2026-11-20T15:30:00Z", "2026-11-20T15:30:10Z"],
        ),
    ],
)
def test_the_past_of_a_rolling_window_cannot_be_read(
    lb: laurels.Leaderboards,
    window: str,
    running: str,
    gone: list[str],
    later: list[str],
    unknown: list[str],
) -> None:
    lb.create(laurels.Board("b", windows=[window]))
    lb.submit("b", "ann", 1)
    assert lb.top("b", period=running) == lb.top("b")
    for labels, refusal in ((gone, PeriodExpired), (later, PeriodFuture)):
        for label in labels:
            with pytest.raises(refusal):
                lb.standing("b", "ann", period=label)
    for label in ["", "yesterday", running + " ", *unknown]:
        with pytest.raises(UnknownPeriod):
            lb.count("b", period=label)


@pytest.mark.parametrize("reverse", [False, True])
def test_all_pages_of_a_list_show_one_step(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, reverse: bool
) -> None:
    lb.create(laurels.Board("b", windows=["r=rolling:3h/1h", "all"], tie="member"))
    lb.submit_many("b", [(f"m{i}", -i) for i in range(6)])
    page = lb.top("b", limit=2, reverse=reverse)
    cursor = page.next
    clock.set(THREE + HOUR - 1)
    lb.submit("b", "m9", 9)
    expected = ["m3", "m2"] if reverse else ["m2", "m3"]
    assert members(lb.top("b", limit=2, after=cursor, reverse=reverse)) == expected
    clock.advance(1)
    with pytest.raises(PeriodExpired) as refused:
        lb.top("b", limit=2, after=cursor, reverse=reverse)
    assert refused.value.code == "period_expired"
    with pytest.raises(InvalidCursor):
        lb.top("b", limit=2, after=cursor, reverse=reverse, window="all")
    with pytest.raises(PeriodExpired):
        lb.top("b", limit=2, after=cursor, reverse=reverse, period="2026-11-20T16:00Z")


def test_an_export_ends_with_its_step(lb: laurels.Leaderboards, clock: laurels.ManualClock) -> None:
    lb.create(laurels.Board("b", windows=["r=rolling:3h/1h"]))
    lb.submit_many("b", [(f"m{i}", i) for i in range(12_000)])
    assert len(list(lb.export("b"))) == 12_000
    export = lb.export("b")
    assert next(export).member == "m11999"
    clock.advance(HOUR)
    with pytest.raises(PeriodExpired):
        list(export)


@pytest.mark.parametrize(
    ("tz", "day"),
    [
        ("America/New_York", at(2026, 11, 1, 12)),
        ("America/New_York", at(2026, 3, 8, 12)),
        ("Australia/Lord_Howe", at(2026, 4, 4, 14)),
        ("America/Sao_Paulo", at(2018, 11, 4, 12)),
        ("Africa/Cairo", at(2026, 4, 24, 12)),
        ("Antarctica/Troll", at(2026, 3, 29, 12)),
        ("America/St_Johns", at(2006, 10, 29, 12)),
    ],
)
def test_steps_of_days_follow_the_local_midnight(begun_at: OpenedAt, tz: str, day: int) -> None:
    calendar = Calendar("day", tz)
    today = span_at(calendar, day)
    yesterday = span_at(calendar, today.start_ms - 1)
    tomorrow = span_at(calendar, today.end_ms)
    lb, clock = begun_at(yesterday.start_ms - 1)
    lb.create(laurels.Board("b", windows=["rolling:2d/1d"], tz=tz))
    moments = [yesterday.start_ms - 1, yesterday.start_ms, today.start_ms, today.end_ms - 1]
    for member, at_ms in zip("abcd", moments, strict=True):
        clock.set(at_ms)
        lb.submit("b", member, 1)
    assert members(lb.top("b")) == ["b", "c", "d"]
    (period,) = lb.periods("b")
    assert (period.label, period.start_ms, period.end_ms) == (
        today.label,
        yesterday.start_ms,
        today.end_ms,
    )
    clock.advance(1)
    assert members(lb.top("b")) == ["c", "d"]
    clock.set(tomorrow.end_ms - 1)
    assert members(lb.top("b")) == ["c", "d"]
    clock.advance(1)
    assert members(lb.top("b")) == []


def test_a_date_that_a_zone_skipped_is_an_empty_step(begun_at: OpenedAt) -> None:
    lb, clock = begun_at(at(2011, 12, 28, 12))
    lb.create(laurels.Board("b", windows=["rolling:3d/1d"], tz="Pacific/Apia"))
    for member in "ab":
        lb.submit("b", member, 1)
        clock.advance(24 * HOUR)
    assert lb.top("b").as_of.period == "2011-12-31"
    assert members(lb.top("b")) == ["b"]
    with pytest.raises(PeriodExpired):
        lb.top("b", period="2011-12-30")
    clock.advance(24 * HOUR)
    assert lb.top("b").as_of.period == "2012-01-01"
    assert members(lb.top("b")) == []


def test_a_day_is_not_24_hours(begun_at: OpenedAt) -> None:
    lb, clock = begun_at(at(2026, 11, 1, 4))
    windows = ["days=rolling:2d/1d", "hours=rolling:48h/24h"]
    lb.create(laurels.Board("b", windows=windows, tz="America/New_York"))
    lb.submit("b", "ann", 1)
    (days,), (hours,) = lb.periods("b", "days"), lb.periods("b", "hours")
    assert (days.end_ms, hours.end_ms) == (at(2026, 11, 2, 5), at(2026, 11, 2))
    assert days.start_ms == at(2026, 10, 31, 4)
    clock.set(at(2026, 11, 3))
    assert (lb.count("b", window="days"), lb.count("b", window="hours")) == (1, 0)


def test_queries_do_not_change_a_rolling_window(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["r=rolling:3h/1h"]))
    with laurels.open("memory:", clock=clock) as unread:
        unread.create(lb.get("b"))
        for hour in range(12):
            events = [(f"m{(hour * 7 + i) % 20}", i - 2) for i in range(5)]
            receipts, expected = lb.submit_many("b", events), unread.submit_many("b", events)
            assert [r.score for r in receipts] == [r.score for r in expected]
            clock.advance(HOUR + hour * MINUTE)
            lb.top("b")
            lb.standing("b", "m1")
        assert lb.top("b").entries == unread.top("b").entries
