"""Calendar windows: a new period begins at its boundary without a scheduled job, and past periods
stay readable."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

import laurels
from laurels.errors import PeriodExpired, PeriodFuture, UnknownPeriod, UnknownWindow
from tests.calendar_by_scanning import UNITS, Calendar, span_at, utc_ms
from tests.contract.conftest import NOW_MS
from tests.contract.reading import members, scores

HOUR = 3_600_000
DAY = 24 * HOUR


def at(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> int:
    """Return a date and time in UTC as milliseconds."""
    return utc_ms(datetime(year, month, day, hour, minute, tzinfo=UTC))


def test_a_window_of_each_unit_counts_the_events_of_its_current_period(
    lb: laurels.Leaderboards,
) -> None:
    lb.create(laurels.Board("b", windows=["all", *UNITS]))
    lb.submit("b", "ann", 5)
    labels = {unit: lb.top("b", window=unit).as_of.period for unit in UNITS}
    assert labels == {
        "hour": "2026-11-20T15+00:00",
        "day": "2026-11-20",
        "week": "2026-W47",
        "month": "2026-11",
        "quarter": "2026-Q4",
        "year": "2026",
    }
    assert all(scores(lb.top("b", window=unit)) == {"ann": 5} for unit in UNITS)


def test_a_period_begins_empty_at_its_boundary(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["day"]))
    lb.submit("b", "ann", 5)
    clock.set(at(2026, 11, 21) - 1)
    assert members(lb.top("b")) == ["ann"]
    clock.advance(1)
    assert members(lb.top("b")) == []
    assert scores(lb.top("b", period="2026-11-20")) == {"ann": 5}
    lb.submit("b", "bob", 1)
    assert members(lb.top("b")) == ["bob"]


def test_periods_are_listed_newest_first(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["day:keep=3"]))
    lb.submit("b", "ann", 5)
    clock.advance(DAY)
    periods = lb.periods("b")
    assert [period.label for period in periods] == ["2026-11-21", "2026-11-20", "2026-11-19"]
    assert [period.total for period in periods] == [0, 1, 0]
    assert [period.current for period in periods] == [True, False, False]
    assert (periods[0].start_ms, periods[0].end_ms) == (at(2026, 11, 21), at(2026, 11, 22))


def test_a_kept_period_without_events_is_an_empty_page(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", windows=["day:keep=3"]))
    page = lb.top("b", period="2026-11-18")
    assert (page.entries, page.total, page.as_of.period) == ([], 0, "2026-11-18")
    assert lb.standing("b", "ann", period="2026-11-18") is None


@pytest.mark.parametrize(
    ("window", "gone", "later", "unknown"),
    [
        ("hour", "2026-11-20T13+00:00", "2026-11-20T16+00:00", "2026-11-20T24+00:00"),
        ("day", "2026-11-18", "2026-11-21", "2026-11-31"),
        ("week", "2026-W45", "2026-W48", "2026-W54"),
        ("month", "2026-09", "2026-12", "2026-13"),
        ("quarter", "2026-Q2", "2027-Q1", "2026-Q5"),
        ("year", "2024", "2027", "26"),
    ],
)
def test_unreadable_periods_are_refused_with_the_reason(
    lb: laurels.Leaderboards, window: str, gone: str, later: str, unknown: str
) -> None:
    lb.create(laurels.Board("b", windows=[window]))
    with pytest.raises(PeriodExpired):
        lb.top("b", period=gone)
    with pytest.raises(PeriodFuture):
        lb.standing("b", "ann", period=later)
    for label in (unknown, "", "yesterday", later + " ", "2026-11-20T15+01:00"):
        with pytest.raises(UnknownPeriod):
            lb.count("b", period=label)


def test_the_window_all_has_no_named_periods(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    with pytest.raises(UnknownPeriod):
        lb.top("b", period="2026-11")


def test_an_unknown_window_is_refused_by_every_query(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", windows=["day"]))
    for query in (
        lambda: lb.top("b", window="week"),
        lambda: lb.periods("b", "all"),
        lambda: lb.submit("b", "ann", 1, window="hour"),
    ):
        with pytest.raises(UnknownWindow):
            query()
    assert lb.top("b").total == 0


@pytest.mark.parametrize(
    ("tz", "day", "hours"),
    [
        ("America/New_York", (2026, 11, 1, 12), 25),
        ("America/New_York", (2026, 3, 8, 12), 23),
        ("Australia/Lord_Howe", (2026, 4, 4, 14), 24.5),
        ("America/Sao_Paulo", (2018, 11, 4, 12), 23),
        ("Africa/Cairo", (2026, 4, 24, 12), 23),
        ("Asia/Kathmandu", (2026, 11, 1, 12), 24),
    ],
)
def test_days_have_23_24_or_25_hours(
    opened_at: Callable[[int], laurels.Leaderboards],
    tz: str,
    day: tuple[int, int, int, int],
    hours: float,
) -> None:
    span = span_at(Calendar("day", tz), at(*day))
    assert span.end_ms - span.start_ms == hours * HOUR
    lb = opened_at(span.end_ms - 1)
    lb.create(laurels.Board("b", windows=["day"], tz=tz))
    period = lb.periods("b")[0]
    assert (period.label, period.start_ms, period.end_ms) == (
        span.label,
        span.start_ms,
        span.end_ms,
    )
    lb.submit_many("b", [("ann", 1, span.start_ms), ("bob", 1, span.start_ms - 1)])
    assert members(lb.top("b")) == ["ann"]


def test_a_date_that_a_zone_skipped_is_not_a_period(
    opened_at: Callable[[int], laurels.Leaderboards],
) -> None:
    lb = opened_at(at(2011, 12, 30, 12))
    lb.create(laurels.Board("b", windows=["day:keep=3"], tz="Pacific/Apia"))
    labels = [period.label for period in lb.periods("b")]
    assert labels == ["2011-12-31", "2011-12-29", "2011-12-28"]
    with pytest.raises(UnknownPeriod):
        lb.top("b", period="2011-12-30")


def test_an_hour_that_occurs_twice_is_two_periods(
    opened_at: Callable[[int], laurels.Leaderboards],
) -> None:
    lb = opened_at(at(2026, 11, 1, 5, 30))
    lb.create(laurels.Board("b", windows=["hour:keep=3"], tz="America/New_York"))
    first, second = at(2026, 11, 1, 5), at(2026, 11, 1, 6)
    lb.submit("b", "ann", 1, at=first)
    assert members(lb.top("b", period="2026-11-01T01-04:00")) == ["ann"]
    assert lb.periods("b")[0].end_ms == second
    with pytest.raises(PeriodFuture):
        lb.top("b", period="2026-11-01T01-05:00")
    with pytest.raises(UnknownPeriod):
        lb.top("b", period="2026-11-01T01")
    assert lb.top("b", period="2026-11-01T00").as_of.period == "2026-11-01T00-04:00"


def test_windows_have_zones_and_weeks_of_their_own(lb: laurels.Leaderboards) -> None:
    windows = ["day", "cn=day:tz=Asia/Shanghai", "week:week_start=sunday", "mine=week"]
    lb.create(laurels.Board("b", windows=windows, tz="America/New_York"))
    lb.submit("b", "ann", 1, at=NOW_MS)
    labels = [lb.periods("b", name)[0].label for name in lb.get("b").rules().windows]
    assert labels == ["2026-11-20", "2026-11-20", "2026-11-15", "2026-W47"]
    assert lb.periods("b", "cn")[0].end_ms == at(2026, 11, 20, 16)
    assert lb.periods("b", "day")[0].end_ms == at(2026, 11, 21, 5)


def test_a_receipt_names_the_period_its_event_fell_in(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", windows=["hour", "all"], grace="1h"))
    receipt = lb.submit("b", "ann", 1, at=NOW_MS - HOUR)
    assert (receipt.window, receipt.period) == ("hour", "2026-11-20T14+00:00")
    assert lb.submit("b", "ann", 1, window="all").period is None
    assert members(lb.top("b")) == ["ann"]
