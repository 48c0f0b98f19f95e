"""Calendar windows: days, hours and weeks that are often computed incorrectly."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from laurels.errors import UnknownPeriod
from laurels.model.windows.all import All
from laurels.model.windows.calendar import UNITS, Calendar, Unit, Weekday
from laurels.timeline.calendar import Period
from laurels.timeline.instants import MAX_MS, MIN_MS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR_MS = 3_600_000


def window(unit: Unit, tz: str = "UTC", week_start: Weekday = "monday", keep: int = 2) -> Calendar:
    return Calendar(unit, unit, tz, week_start, keep, 0)


def ms(text: str) -> int:
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(milliseconds=1)


def utc(at_ms: int) -> str:
    return (_EPOCH + timedelta(milliseconds=at_ms)).strftime("%Y-%m-%dT%H:%M:%SZ")


def span(period: Period) -> tuple[str, str, float]:
    hours = (period.end_ms - period.start_ms) / HOUR_MS
    return utc(period.start_ms), utc(period.end_ms), hours


def test_all_has_one_period_without_a_label() -> None:
    period = All("all").period_at(0)
    assert (period.label, period.start_ms, period.end_ms) == ("", MIN_MS, MAX_MS)
    assert (utc(MIN_MS), utc(MAX_MS)) == ("1900-01-01T00:00:00Z", "9900-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("unit", "label", "start", "end"),
    [
        ("hour", "2026-11-20T15+00:00", "2026-11-20T15:00:00Z", "2026-11-20T16:00:00Z"),
        ("day", "2026-11-20", "2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z"),
        ("week", "2026-W47", "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z"),
        ("month", "2026-11", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"),
        ("quarter", "2026-Q4", "2026-10-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("year", "2026", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
    ],
)
def test_each_unit_has_its_label_and_bounds(unit: Unit, label: str, start: str, end: str) -> None:
    period = window(unit).period_at(ms("2026-11-20T15:30:00Z"))
    assert (period.label, *span(period)[:2]) == (label, start, end)
    assert window(unit).period(label) == period


@pytest.mark.parametrize(
    ("tz", "label", "start", "hours"),
    [
        ("America/New_York", "2026-03-08", "2026-03-08T05:00:00Z", 23),
        ("America/New_York", "2026-11-01", "2026-11-01T04:00:00Z", 25),
        ("Australia/Lord_Howe", "2026-04-05", "2026-04-04T13:00:00Z", 24.5),
        ("Australia/Lord_Howe", "2026-10-04", "2026-10-03T13:30:00Z", 23.5),
        ("Asia/Kathmandu", "2026-01-01", "2025-12-31T18:15:00Z", 24),
        # Local time skipped midnight: the day starts when clocks show 01:00.
        ("America/Sao_Paulo", "2018-11-03", "2018-11-03T03:00:00Z", 24),
        ("America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00:00Z", 23),
        ("Asia/Beirut", "2022-03-27", "2022-03-26T22:00:00Z", 23),
        ("Africa/Cairo", "2023-04-28", "2023-04-27T22:00:00Z", 23),
        # Clocks went from 23:30 to 00:30, across midnight.
        ("America/Toronto", "1919-03-30", "1919-03-30T05:00:00Z", 23.5),
        ("America/Toronto", "1919-03-31", "1919-03-31T04:30:00Z", 23.5),
        # Clocks went back at midnight: 23:00 occurred twice, midnight once.
        ("America/Sao_Paulo", "2018-02-17", "2018-02-17T02:00:00Z", 25),
        ("Asia/Beirut", "2022-10-29", "2022-10-28T21:00:00Z", 25),
        # Clocks went back at 00:01: midnight occurred twice, and the day starts at the first of
        # them.
        ("America/St_Johns", "2010-11-06", "2010-11-06T02:30:00Z", 24),
        ("America/St_Johns", "2010-11-07", "2010-11-07T02:30:00Z", 25),
        ("America/St_Johns", "2010-03-14", "2010-03-14T03:30:00Z", 23),
        # The zones crossed the date line. In 2011 and 1993 a date was skipped. In 1969 a day had 47
        # hours.
        ("Pacific/Apia", "2011-12-29", "2011-12-29T10:00:00Z", 24),
        ("Pacific/Apia", "2011-12-31", "2011-12-30T10:00:00Z", 24),
        ("Pacific/Kwajalein", "1993-08-20", "1993-08-20T12:00:00Z", 24),
        ("Pacific/Kwajalein", "1993-08-22", "1993-08-21T12:00:00Z", 24),
        ("Pacific/Kwajalein", "1969-09-30", "1969-09-29T13:00:00Z", 47),
    ],
)
def test_a_day_starts_at_the_first_instant_of_its_date(
    tz: str, label: str, start: str, hours: float
) -> None:
    days = window("day", tz)
    period = days.period(label)
    assert (span(period)[0], span(period)[2]) == (start, hours)
    assert days.period_at(period.start_ms) == period
    assert days.period_at(period.end_ms - 1) == period
    assert days.before(period).end_ms == period.start_ms


@pytest.mark.parametrize(
    ("tz", "date", "before", "after"),
    [
        ("Pacific/Apia", "2011-12-30", "2011-12-29", "2011-12-31"),
        ("Pacific/Kwajalein", "1993-08-21", "1993-08-20", "1993-08-22"),
        ("Pacific/Kiritimati", "1994-12-31", "1994-12-30", "1995-01-01"),
    ],
)
def test_a_date_skipped_by_the_zone_is_not_a_period(
    tz: str, date: str, before: str, after: str
) -> None:
    days = window("day", tz)
    with pytest.raises(UnknownPeriod):
        days.period(date)
    assert days.before(days.period(after)) == days.period(before)
    assert days.period(before).end_ms == days.period(after).start_ms


def test_a_week_starting_on_a_skipped_date_starts_on_the_next_date() -> None:
    weeks = window("week", "Pacific/Apia", "friday")
    period = weeks.period("2011-12-30")
    assert span(period) == ("2011-12-30T10:00:00Z", "2012-01-05T10:00:00Z", 144)
    assert weeks.period_at(period.start_ms) == period


def test_an_evening_repeated_after_midnight_belongs_to_the_new_day() -> None:
    days = window("day", "America/St_Johns")
    again = ms("2010-11-07T02:31:00Z")
    assert datetime.fromtimestamp(again / 1000, ZoneInfo("America/St_Johns")).day == 6
    assert days.period_at(again).label == "2010-11-07"


@pytest.mark.parametrize(
    ("tz", "at", "label", "minutes"),
    [
        ("Asia/Shanghai", "2026-11-20T07:00:00Z", "2026-11-20T15+08:00", 60),
        ("Asia/Kathmandu", "2026-11-20T07:14:59Z", "2026-11-20T12+05:45", 60),
        ("Asia/Kathmandu", "2026-11-20T07:15:00Z", "2026-11-20T13+05:45", 60),
        ("America/New_York", "2026-11-01T05:30:00Z", "2026-11-01T01-04:00", 60),
        ("America/New_York", "2026-11-01T06:30:00Z", "2026-11-01T01-05:00", 60),
        ("America/New_York", "2026-03-08T07:00:00Z", "2026-03-08T03-04:00", 60),
        ("Australia/Lord_Howe", "2026-10-03T15:30:00Z", "2026-10-04T02+11:00", 30),
        ("Australia/Lord_Howe", "2026-04-04T14:59:59Z", "2026-04-05T01+11:00", 60),
        ("Australia/Lord_Howe", "2026-04-04T15:00:00Z", "2026-04-05T01+10:30", 30),
        ("America/St_Johns", "2010-11-07T02:30:59Z", "2010-11-07T00-02:30", 1),
        ("America/St_Johns", "2010-11-07T02:31:00Z", "2010-11-06T23-03:30", 59),
        ("Africa/Monrovia", "1972-01-06T12:00:00Z", "1972-01-06T11-00:44:30", 60),
        ("Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-31T00+14:00", 60),
    ],
)
def test_an_hour_period_follows_the_local_clock(tz: str, at: str, label: str, minutes: int) -> None:
    hours = window("hour", tz)
    period = hours.period_at(ms(at))
    assert period.label == label
    assert period.end_ms - period.start_ms == minutes * 60_000
    assert hours.period(label) == period


def test_the_offset_may_be_omitted_where_the_hour_is_unambiguous() -> None:
    hours = window("hour", "America/New_York")
    assert hours.period("2026-11-20T15").label == "2026-11-20T15-05:00"
    assert window("hour").period("2026-11-20T15").label == "2026-11-20T15+00:00"
    with pytest.raises(UnknownPeriod, match=r"two periods, 2026-11-01T01-04:00 and .*-05:00"):
        hours.period("2026-11-01T01")
    with pytest.raises(UnknownPeriod):
        hours.period("2026-03-08T02")
    lord_howe = window("hour", "Australia/Lord_Howe")
    assert lord_howe.period("2026-10-04T02").label == "2026-10-04T02+11:00"


@pytest.mark.parametrize(
    ("date", "label"),
    [
        ("2018-12-31", "2019-W01"),
        ("2020-12-31", "2020-W53"),
        ("2021-01-03", "2020-W53"),
        ("2021-01-04", "2021-W01"),
        ("2024-12-30", "2025-W01"),
        ("2027-01-03", "2026-W53"),
        ("2027-01-04", "2027-W01"),
    ],
)
def test_weeks_at_the_ends_of_years_are_those_of_iso(date: str, label: str) -> None:
    period = window("week").period_at(ms(f"{date}T12:00:00Z"))
    assert period.label == label
    assert window("week").period(label) == period


def test_weeks_from_another_day_have_their_first_date_as_label() -> None:
    weeks = window("week", week_start="sunday")
    period = weeks.period_at(ms("2026-11-20T00:00:00Z"))
    assert (period.label, utc(period.start_ms)) == ("2026-11-15", "2026-11-15T00:00:00Z")
    assert weeks.period("2026-11-15") == period
    for label in ("2026-11-16", "2026-W47"):
        with pytest.raises(UnknownPeriod):
            weeks.period(label)


@pytest.mark.parametrize(
    ("unit", "label"),
    [
        ("day", ""),
        ("day", "2026-02-29"),
        ("day", "2026-1-01"),
        ("day", "20261120"),
        ("day", "2026-W47"),
        ("day", "2026-W47-1"),
        ("day", "2026-11-20 "),
        ("day", "٢٠٢٦-11-20"),
        ("day", "0001-01-01"),
        ("day", "1899-12-31"),
        ("day", "9900-01-01"),
        ("day", "9999-12-31"),
        ("day", "x" * 10_000),
        ("hour", "2026-11-20"),
        ("hour", "2026-11-20T24"),
        ("hour", "2026-11-20T15Z"),
        ("hour", "2026-11-20T15:00"),
        ("hour", "2026-11-20T15+01:00"),
        ("hour", "2026-11-20T15+00:00:00"),
        ("hour", "2026-11-20T15-00:00"),
        ("hour", "0001-01-01T00"),
        ("hour", "9999-12-31T23"),
        ("week", "2026-11-16"),
        ("week", "2026-W54"),
        ("week", "2026-W00"),
        ("week", "2026W47"),
        ("month", "2026"),
        ("month", "2026-13"),
        ("month", "2026-11-20"),
        ("month", "2026-Q4"),
        ("quarter", "2026-Q5"),
        ("quarter", "2026-10"),
        ("year", "26"),
        ("year", "0000"),
        ("year", "9999"),
    ],
)
def test_an_invalid_label_is_an_unknown_period(unit: Unit, label: str) -> None:
    with pytest.raises(UnknownPeriod) as refused:
        window(unit).period(label)
    assert len(str(refused.value)) < 300


def test_a_label_is_text() -> None:
    with pytest.raises(UnknownPeriod):
        window("year").period(2026)  # type: ignore[arg-type]


def counted_back(kept: Calendar, at_ms: int) -> Period:
    """Return the oldest readable period, found by going back one period at a time."""
    period = kept.period_at(at_ms)
    for _ in range(kept.keep - 1):
        if period.start_ms > MIN_MS:
            period = kept.before(period)
    return period


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("keep", [1, 2, 7])
def test_the_oldest_kept_period_is_counted_back_from_the_current_one(unit: Unit, keep: int) -> None:
    kept = window(unit, "Atlantic/Reykjavik", keep=keep)
    assert kept.oldest_kept(0) == counted_back(kept, 0)
    for at in ("2018-11-05T00:00:00Z", "2018-11-05T09:00:00Z", "2019-11-05T00:00:00Z"):
        period = kept.period_at(ms(at))
        for now_ms in (period.start_ms, period.end_ms - 1):
            assert kept.oldest_kept(now_ms) == counted_back(kept, now_ms)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("start_ms", [MIN_MS, ms("2026-03-20T00:00:00Z")])
def test_the_oldest_kept_period_moves_with_the_clock(unit: Unit, start_ms: int) -> None:
    kept = window(unit, "Europe/Berlin", keep=5)
    now_ms = start_ms
    for _ in range(250):
        assert kept.oldest_kept(now_ms) == counted_back(kept, now_ms)
        now_ms = kept.period_at(now_ms).end_ms


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("tz", ["UTC", "America/New_York", "Asia/Tokyo"])
def test_the_first_and_last_supported_times_have_periods(unit: Unit, tz: str) -> None:
    kept = window(unit, tz, keep=10_000)
    first = kept.period_at(MIN_MS)
    assert first.start_ms <= MIN_MS < first.end_ms
    assert kept.oldest_kept(MIN_MS) == first
    assert kept.period(first.label) == first
    last = kept.period_at(MAX_MS - 1)
    assert last.start_ms < MAX_MS <= last.end_ms
    assert kept.period(last.label) == last
