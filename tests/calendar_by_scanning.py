"""Find calendar periods in the simplest way, by reading the local clock minute by minute.

The oracle uses time zones only through this file. The file reads the pinned tzdata package through
the standard zoneinfo, and shares no code with the code under test. It assumes that the offset of
every zone from UTC is a whole number of minutes, which is true of all zones since 1972.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache
from importlib import resources
from zoneinfo import ZoneInfo

MINUTE = 60_000
HOUR = 60 * MINUTE
UNITS = ("hour", "day", "week", "month", "quarter", "year")
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
ONE_DAY = timedelta(days=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LABELS = {
    "hour": r"(\d{4}-\d\d-\d\d)T(\d\d)([+-]\d\d:\d\d)?",
    "day": r"\d{4}-\d\d-\d\d",
    "month": r"(\d{4})-(\d\d)",
    "quarter": r"(\d{4})-Q([1-4])",
    "year": r"\d{4}",
}


@dataclass(frozen=True)
class Span:
    """A period: its label, its start in ms, and the start of the next period."""

    label: str
    start_ms: int
    end_ms: int


@dataclass(frozen=True)
class Calendar:
    """The settings that divide time into periods."""

    unit: str
    tz: str
    week_start: str = "monday"


@cache
def zone(key: str) -> ZoneInfo:
    """Return a zone of the pinned tzdata package, never of the operating system."""
    path = resources.files("tzdata").joinpath("zoneinfo", *key.split("/"))
    with path.open("rb") as stream:
        return ZoneInfo.from_file(stream, key=key)


def local(at_ms: int, tz: str) -> datetime:
    """Return the local date and time at an instant."""
    return (EPOCH + timedelta(milliseconds=at_ms)).astimezone(zone(tz))


def utc_ms(wall: datetime) -> int:
    """Return the ms of a naive date and time, read as UTC."""
    return (wall.replace(tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)


@lru_cache(maxsize=65536)
def day_start(day: date, tz: str) -> int:
    """Return the first instant of a date: local midnight or, if the zone skips it, the first later
    time."""
    midnight = datetime(day.year, day.month, day.day)  # noqa: DTZ001
    first = utc_ms(midnight) - 16 * HOUR
    return next(
        at
        for at in range(first, first + 32 * HOUR, MINUTE)
        if local(at, tz).replace(tzinfo=None) >= midnight
    )


def day_of(at_ms: int, tz: str) -> date:
    """Return the date at an instant: of all dates that have begun and were not skipped, the
    latest."""
    day = local(at_ms, tz).date() + timedelta(days=2)
    while day_start(day, tz) > at_ms or day_start(day, tz) == day_start(day + ONE_DAY, tz):
        day -= ONE_DAY
    return day


def hour_span(at_ms: int, tz: str) -> Span:
    """Return the longest interval around an instant in which the local date, the hour and the UTC
    offset stay the same."""

    def same(other_ms: int) -> bool:
        there = local(other_ms, tz)
        return (there.date(), there.hour, there.utcoffset()) == here

    wall = local(at_ms, tz)
    here = (wall.date(), wall.hour, wall.utcoffset())
    start = at_ms - at_ms % MINUTE
    end = start + MINUTE
    while same(start - MINUTE):
        start -= MINUTE
    while same(end):
        end += MINUTE
    return Span(wall.strftime("%Y-%m-%dT%H") + wall.isoformat()[-6:], start, end)


def first_date(day: date, calendar: Calendar) -> date:
    """Return the first date of the week, month, quarter or year that contains a date."""
    if calendar.unit == "week":
        return day - timedelta(days=(day.weekday() - WEEKDAYS.index(calendar.week_start)) % 7)
    if calendar.unit == "month":
        return day.replace(day=1)
    if calendar.unit == "quarter":
        return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
    return day.replace(month=1, day=1) if calendar.unit == "year" else day


def date_after(first: date, calendar: Calendar) -> date:
    """Return the first date of the period after the one that begins at `first`."""
    days = {"day": 1, "week": 7}.get(calendar.unit)
    if days is not None:
        return first + timedelta(days=days)
    months = {"month": 1, "quarter": 3, "year": 12}[calendar.unit]
    year, month = divmod(first.year * 12 + first.month - 1 + months, 12)
    return date(year, month + 1, 1)


def label_of(first: date, calendar: Calendar) -> str:
    """Return the label of the period that begins at `first`."""
    if calendar.unit == "week" and calendar.week_start == "monday":
        return first.strftime("%G-W%V")
    if calendar.unit == "month":
        return first.strftime("%Y-%m")
    if calendar.unit == "quarter":
        return f"{first.year:04}-Q{(first.month + 2) // 3}"
    return f"{first.year:04}" if calendar.unit == "year" else first.isoformat()


@lru_cache(maxsize=65536)
def _span_at_minute(calendar: Calendar, minute_ms: int) -> Span:
    if calendar.unit == "hour":
        return hour_span(minute_ms, calendar.tz)
    first = first_date(day_of(minute_ms, calendar.tz), calendar)
    after = date_after(first, calendar)
    return Span(
        label_of(first, calendar), day_start(first, calendar.tz), day_start(after, calendar.tz)
    )


def span_at(calendar: Calendar, at_ms: int) -> Span:
    """Return the period that contains an instant."""
    return _span_at_minute(calendar, at_ms - at_ms % MINUTE)


@lru_cache(maxsize=4_096)
def span_named(calendar: Calendar, label: str) -> Span | None:
    """Return the period with this label, or None if the calendar has no such period."""
    if calendar.unit == "hour":
        return _hour_named(calendar, label)
    first = _date_named(calendar, label)
    if first is None:
        return None
    span = span_at(calendar, day_start(first, calendar.tz))
    return span if span.label == label else None


def _hour_named(calendar: Calendar, label: str) -> Span | None:
    match = re.fullmatch(LABELS["hour"], label)
    day = _iso_date(match[1]) if match else None
    if day is None:
        return None
    start = day_start(day - ONE_DAY, calendar.tz)
    hours = {span_at(calendar, at) for at in range(start, start + 75 * HOUR, 15 * MINUTE)}
    named = [hour for hour in hours if label in (hour.label, hour.label[:13])]
    return named[0] if len(named) == 1 else None


def _date_named(calendar: Calendar, label: str) -> date | None:
    if calendar.unit == "week" and calendar.week_start == "monday":
        return _iso_date(label) if re.fullmatch(r"\d{4}-W\d\d", label) else None
    match = re.fullmatch(LABELS["day" if calendar.unit == "week" else calendar.unit], label)
    if not match:
        return None
    if calendar.unit == "month":
        return _iso_date(label + "-01")
    if calendar.unit == "quarter":
        return date(int(match[1]), int(match[2]) * 3 - 2, 1)
    return _iso_date(label + "-01-01" if calendar.unit == "year" else label)


def _iso_date(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
