"""In every time zone, periods and steps follow each other without gaps, and each can be found by
its label."""

from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib import resources
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laurels.model.windows.calendar import UNITS, WEEKDAYS, Calendar, Unit, Weekday
from laurels.model.windows.rolling import Rolling
from laurels.timeline.calendar import Period
from laurels.timeline.instants import MAX_MS, MIN_MS
from laurels.timeline.zones import zone_names

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_HOUR_MS = 3_600_000
_MONTH_MS = 2_629_746_000

NASTY = [
    ("Africa/Cairo", "2023-04-27T22:00:00Z"),  # midnight skipped
    ("Africa/Monrovia", "1972-01-07T00:44:30Z"),  # the offset has seconds
    ("America/Havana", "2026-03-08T05:00:00Z"),  # midnight skipped
    ("America/New_York", "2026-11-01T06:00:00Z"),
    ("America/Sao_Paulo", "2018-02-18T02:00:00Z"),  # clocks go back by an hour at midnight
    ("America/Sao_Paulo", "2018-11-04T03:00:00Z"),  # midnight skipped
    ("America/St_Johns", "1988-04-03T03:31:00Z"),  # clocks go forward by two hours at 00:01
    ("America/St_Johns", "2010-11-07T02:31:00Z"),  # clocks go back by an hour at 00:01
    ("America/Toronto", "1919-03-31T04:30:00Z"),  # clocks go from 23:30 to 00:30
    ("Antarctica/Troll", "2026-03-29T01:00:00Z"),  # clocks go forward by two hours
    ("Antarctica/Troll", "2026-10-25T01:00:00Z"),
    ("Asia/Amman", "2022-10-28T00:00:00Z"),
    ("Asia/Beirut", "2022-03-26T22:00:00Z"),
    ("Asia/Kathmandu", "1985-12-31T18:30:00Z"),  # clocks go forward by a quarter of an hour
    ("Asia/Pyongyang", "2018-05-04T15:00:00Z"),  # clocks go from 23:30 to 00:00
    ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"),  # clocks go back by half an hour
    ("Australia/Lord_Howe", "2026-10-03T15:30:00Z"),
    ("Pacific/Apia", "2011-12-30T10:00:00Z"),  # a date is skipped
    ("Pacific/Kiritimati", "1994-12-31T10:40:00Z"),
    ("Pacific/Kwajalein", "1969-09-30T13:00:00Z"),  # a day of 47 hours
    ("Pacific/Kwajalein", "1993-08-21T12:00:00Z"),
]
UNIT = st.sampled_from(UNITS)
WEEKDAY = st.sampled_from(WEEKDAYS)
STEP = st.tuples(st.just(0), st.integers(1, 10)) | st.tuples(
    st.sampled_from([1, 7, 30, 60, 90, 3_600, 86_400]) | st.integers(1, 2_000_000), st.just(0)
)
"""The length of a step: a number of seconds, or a number of days."""


def calendar(unit: Unit, tz: str, week_start: Weekday = "monday") -> Calendar:
    return Calendar("w", unit, tz, week_start, 2, 0)


def rolling(step: tuple[int, int], tz: str, steps: int = 2) -> Rolling:
    return Rolling("w", steps, step[0] * 1000, step[1], tz, 0)


@cache
def zone(tz: str) -> ZoneInfo:
    with resources.files("tzdata.zoneinfo").joinpath(*tz.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=tz)


def local(at_ms: int, tz: str) -> datetime:
    return (_EPOCH + timedelta(milliseconds=at_ms)).astimezone(zone(tz))


def offset(at_ms: int, tz: str) -> timedelta | None:
    return local(at_ms, tz).utcoffset()


def begun(at_ms: int, tz: str) -> date:
    """Return the latest date that the local clock has shown within the last two and a half days."""
    return max(local(at_ms - i * 30_000, tz).date() for i in range(60 * 120))


def next_change(tz: str, at_ms: int) -> int:
    """Return the first change of the zone's offset within two years. If there is none, return the
    end of the two years."""
    for _ in range(24):
        if offset(at_ms, tz) != offset(at_ms + _MONTH_MS, tz):
            low, high = at_ms, at_ms + _MONTH_MS
            while high - low > 1:
                middle = (low + high) // 2
                same = offset(middle, tz) == offset(low, tz)
                low, high = (middle, high) if same else (low, middle)
            return high
        at_ms += _MONTH_MS
    return at_ms


AWAY = (
    st.integers(-2, 2)
    | st.integers(-60, 60).map(lambda minutes: minutes * 60_000)
    | st.integers(-50 * _HOUR_MS, 50 * _HOUR_MS)
)


@st.composite
def moments(draw: st.DrawFn) -> tuple[str, int]:
    """Return a zone and an instant. The instant is random, close to a change of the zone's offset,
    or close to an instant of `NASTY`."""
    kind = draw(st.sampled_from(["any", "change", "nasty", "nasty"]))
    if kind == "nasty":
        tz, at = draw(st.sampled_from(NASTY))
        return tz, (datetime.fromisoformat(at) - _EPOCH) // _MILLISECOND + draw(AWAY)
    tz = draw(st.sampled_from(sorted(zone_names())))
    if kind == "any":
        return tz, draw(st.integers(MIN_MS, MAX_MS - 1))
    return tz, next_change(tz, draw(st.integers(-69 * 12, 80 * 12)) * _MONTH_MS) + draw(AWAY)


@given(moments(), UNIT, WEEKDAY)
def test_every_instant_has_one_period_and_its_label_leads_back(
    moment: tuple[str, int], unit: Unit, week_start: Weekday
) -> None:
    tz, at_ms = moment
    window = calendar(unit, tz, week_start)
    period = window.period_at(at_ms)
    assert period.start_ms <= at_ms < period.end_ms
    assert window.period(period.label) == period
    for inside_ms in (period.start_ms, period.end_ms - 1):
        assert window.period_at(inside_ms) == period


@given(moments(), UNIT, WEEKDAY)
def test_periods_follow_one_another_without_gap_or_overlap(
    moment: tuple[str, int], unit: Unit, week_start: Weekday
) -> None:
    tz, at_ms = moment
    window = calendar(unit, tz, week_start)
    period = window.period_at(at_ms)
    for _ in range(4):
        before = window.before(period)
        assert before.end_ms == period.start_ms
        assert before.start_ms < before.end_ms
        assert before.label != period.label
        assert window.period_at(before.end_ms) == period
        period = before


@given(moments())
def test_a_day_is_the_greatest_date_that_has_begun(moment: tuple[str, int]) -> None:
    tz, at_ms = moment
    assert calendar("day", tz).period_at(at_ms).label == begun(at_ms, tz).isoformat()


@pytest.mark.parametrize(("tz", "at"), NASTY)
def test_days_are_right_around_an_irregular_zone_change(tz: str, at: str) -> None:
    change_ms = (datetime.fromisoformat(at) - _EPOCH) // _MILLISECOND
    greatest = date.min
    for minute in range(-60 * 60, 60 * 60):
        at_ms = change_ms + minute * 60_000
        greatest = max(greatest, local(at_ms, tz).date())
        assert calendar("day", tz).period_at(at_ms).label == greatest.isoformat()


def clock(at_ms: int, tz: str) -> tuple[date, int, timedelta | None]:
    local_time = local(at_ms, tz)
    return local_time.date(), local_time.hour, local_time.utcoffset()


@given(moments())
def test_an_hour_period_spans_the_whole_local_hour(moment: tuple[str, int]) -> None:
    tz, at_ms = moment
    period = calendar("hour", tz).period_at(at_ms)
    for inside_ms in (period.start_ms, (period.start_ms + at_ms) // 2, period.end_ms - 1):
        assert clock(inside_ms, tz) == clock(at_ms, tz)
    for outside_ms in (period.start_ms - 1, period.end_ms):
        assert clock(outside_ms, tz) != clock(at_ms, tz)


@given(moments(), STEP)
def test_every_instant_has_one_step_and_its_label_leads_back(
    moment: tuple[str, int], length: tuple[int, int]
) -> None:
    tz, at_ms = moment
    window = rolling(length, tz)
    number, step = window.number_at(at_ms), window.period_at(at_ms)
    assert step.start_ms <= at_ms < step.end_ms
    assert window.step(number) == step
    assert window.period(step.label) == step
    for inside_ms in (step.start_ms, step.end_ms - 1):
        assert window.number_at(inside_ms) == number
        assert window.period_at(inside_ms) == step


@given(moments(), STEP, st.integers(2, 12))
def test_steps_follow_one_another_without_gap_or_overlap(
    moment: tuple[str, int], length: tuple[int, int], steps: int
) -> None:
    tz, at_ms = moment
    window = rolling(length, tz, steps)
    running = window.number_at(at_ms)
    counted = [window.step(running - back) for back in reversed(range(steps))]
    for step, after in pairwise(counted):
        assert step.start_ms <= step.end_ms == after.start_ms
    assert len({step.label for step in counted}) == steps
    assert window.span(running) == (counted[0].start_ms, counted[-1].end_ms)
    assert all(window.period(step.label) == step for step in counted if within(step))


def within(step: Period) -> bool:
    return step.end_ms > MIN_MS and step.start_ms < MAX_MS


@given(moments(), st.integers(1, 10))
def test_a_step_of_days_is_that_of_the_greatest_date_that_has_begun(
    moment: tuple[str, int], days: int
) -> None:
    tz, at_ms = moment
    since_1970 = (begun(at_ms, tz) - _EPOCH.date()).days
    window = rolling((0, days), tz)
    assert window.number_at(at_ms) == since_1970 // days
    first = _EPOCH.date() + timedelta(days=since_1970 // days * days)
    assert window.period_at(at_ms).label == first.isoformat()


@given(moments())
def test_a_step_of_one_day_is_the_day(moment: tuple[str, int]) -> None:
    tz, at_ms = moment
    assert rolling((0, 1), tz).period_at(at_ms) == calendar("day", tz).period_at(at_ms)


@pytest.mark.parametrize("days", [1, 2, 3, 7])
@pytest.mark.parametrize(("tz", "at"), NASTY)
def test_step_numbers_never_decrease_and_leave_out_only_skipped_dates(
    tz: str, at: str, days: int
) -> None:
    window = rolling((0, days), tz)
    change_ms = (datetime.fromisoformat(at) - _EPOCH) // _MILLISECOND
    moments_ms = range(change_ms - 60 * _HOUR_MS, change_ms + 60 * _HOUR_MS, 5 * 60_000)
    number = window.number_at(moments_ms[0])
    for at_ms in moments_ms:
        after = window.number_at(at_ms)
        assert all(
            window.step(left_out).start_ms == window.step(left_out).end_ms
            for left_out in range(number + 1, after)
        )
        assert number <= after
        number = after
