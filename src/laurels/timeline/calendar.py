"""Periods: the division of local time into hours, days, weeks, months, quarters and years. Pure.

Periods of one unit cover time without gaps. Each period begins where the previous one ends, none is
empty, and each has a label that identifies it. Days, weeks, months, quarters and years run from the
start of one local date to the start of another (`zones` defines when a date starts), so they may
last an hour less or more. An hour lasts as long as the local date, the hour on the clock and the
offset from UTC stay the same. When clocks go back, an hour occurs twice, with two labels. When
clocks change within an hour, that hour is shorter.

    hour     2026-11-20T15+08:00   the offset from UTC has seconds only if they are not 0; a label
                                   without an offset is accepted if it names only one hour
    day      2026-11-20
    week     2026-W47              ISO; the label of a week that does not start on Monday is its
                                   first date, 2026-11-15
    month    2026-11
    quarter  2026-Q4
    year     2026
"""

import re
from abc import ABC, abstractmethod
from datetime import date, datetime, timedelta

from msgspec import Struct

from .zones import Zone, local_ms, local_time

_HOUR_MS = 3_600_000


class Period(Struct, frozen=True):
    """One instance of a window: the instants from `start_ms` to just before `end_ms`."""

    label: str
    start_ms: int
    end_ms: int


class Cut(ABC):
    """One way to divide time into periods."""

    @abstractmethod
    def find(self, at_ms: int) -> Period:
        """Return the period that contains an instant."""

    @abstractmethod
    def read(self, label: str) -> list[Period]:
        """Return the periods with a label: none, one, or both occurrences of a repeated hour.

        If there is none, this may raise ValueError or OverflowError instead.
        """


class EndingCut(Cut):
    """Divides time like another cut, but only up to `ends_ms`. A period that contains this end is
    cut short there. For an instant after the end, `find` returns the last period."""

    def __init__(self, cut: Cut, ends_ms: int) -> None:
        self._cut = cut
        self._ends_ms = ends_ms

    def find(self, at_ms: int) -> Period:
        return cut_short(self._cut.find(min(at_ms, self._ends_ms - 1)), self._ends_ms)

    def read(self, label: str) -> list[Period]:
        return [cut_short(period, self._ends_ms) for period in self._cut.read(label)]


def cut_short(period: Period, ends_ms: int) -> Period:
    """Return the period, cut short to end at `ends_ms` if it contains that instant."""
    if not period.start_ms < ends_ms < period.end_ms:
        return period
    return Period(period.label, period.start_ms, ends_ms)


class Dates(Cut):
    """Periods that each begin at the start of a local date."""

    def __init__(self, zone: Zone) -> None:
        self._zone = zone

    @abstractmethod
    def first(self, day: date) -> date:
        """Return the first date of the period that contains `day`."""

    @abstractmethod
    def after(self, first: date) -> date:
        """Return the first date of the period after the one that begins at `first`."""

    @abstractmethod
    def label(self, first: date) -> str:
        """Return the label of the period that begins at `first`."""

    @abstractmethod
    def date_of(self, label: str) -> date | None:
        """Return a date of the period with that label, or None if there is no such period."""

    def find(self, at_ms: int) -> Period:
        return self._from(self.first(self._zone.date_at(at_ms)))

    def read(self, label: str) -> list[Period]:
        day = self.date_of(label)
        if day is None:
            return []
        period = self._from(self.first(day))
        return [period] if period.label == label and period.start_ms < period.end_ms else []

    def _from(self, first: date) -> Period:
        start_of = self._zone.date_start
        return Period(self.label(first), start_of(first), start_of(self.after(first)))


class Days(Dates):
    def first(self, day: date) -> date:
        return day

    def after(self, first: date) -> date:
        return first + timedelta(days=1)

    def label(self, first: date) -> str:
        return first.isoformat()

    def date_of(self, label: str) -> date | None:
        return date.fromisoformat(label)


class Weeks(Dates):
    """Weeks that start on a weekday, 0 for Monday."""

    def __init__(self, zone: Zone, weekday: int) -> None:
        super().__init__(zone)
        self._weekday = weekday

    def first(self, day: date) -> date:
        return day - timedelta(days=(day.weekday() - self._weekday) % 7)

    def after(self, first: date) -> date:
        return first + timedelta(days=7)

    def label(self, first: date) -> str:
        if self._weekday:
            return first.isoformat()
        year, week, _ = first.isocalendar()
        return f"{year:04}-W{week:02}"

    def date_of(self, label: str) -> date | None:
        return date.fromisoformat(label)


class Months(Dates):
    """Months (a span of 1), quarters (3) and years (12)."""

    _LABEL = re.compile(r"([0-9]{4})(?:-(0[1-9]|1[0-2])|-Q([1-4]))?")

    def __init__(self, zone: Zone, span: int) -> None:
        super().__init__(zone)
        self._span = span

    def first(self, day: date) -> date:
        return date(day.year, (day.month - 1) // self._span * self._span + 1, 1)

    def after(self, first: date) -> date:
        years, month = divmod(first.month - 1 + self._span, 12)
        return date(first.year + years, month + 1, 1)

    def label(self, first: date) -> str:
        if self._span == 12:
            return f"{first.year:04}"
        if self._span == 3:
            return f"{first.year:04}-Q{first.month // 3 + 1}"
        return f"{first.year:04}-{first.month:02}"

    def date_of(self, label: str) -> date | None:
        if (match := self._LABEL.fullmatch(label)) is None:
            return None
        year, month, quarter = match.groups()
        return date(int(year), int(quarter) * 3 - 2 if quarter else int(month or 1), 1)


class Hours(Cut):
    """Hours of the local clock."""

    _LABEL = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2})([+-][0-9:]+)?")

    def __init__(self, zone: Zone) -> None:
        self._zone = zone

    def find(self, at_ms: int) -> Period:
        offset_ms = self._zone.offset_ms(at_ms)
        begun_ms = (at_ms + offset_ms) // _HOUR_MS * _HOUR_MS
        start_ms, last_ms = begun_ms - offset_ms, begun_ms - offset_ms + _HOUR_MS - 1
        if self._zone.offset_ms(start_ms) != offset_ms:
            start_ms = self._zone.change(start_ms, at_ms)
        end_ms = last_ms + 1
        if self._zone.offset_ms(last_ms) != offset_ms:
            end_ms = self._zone.change(at_ms, last_ms)
        return Period(_hour_label(begun_ms, offset_ms), start_ms, end_ms)

    def read(self, label: str) -> list[Period]:
        if (match := self._LABEL.fullmatch(label)) is None:
            return []
        on_clock = self._on_clock(datetime.fromisoformat(match[1]))
        return [period for period in on_clock if match[2] is None or period.label == label]

    def _on_clock(self, local: datetime) -> list[Period]:
        """Return the periods in which the local clock shows the hour that begins at `local`."""
        by_start: dict[int, Period] = {}
        for edge in (local, local + timedelta(minutes=59, seconds=59)):
            for offset_ms in self._zone.local_offsets(edge):
                at_ms = local_ms(edge) - offset_ms
                if self._zone.offset_ms(at_ms) == offset_ms:
                    period = self.find(at_ms)
                    by_start[period.start_ms] = period
        return [by_start[start_ms] for start_ms in sorted(by_start)]


def _hour_label(begun_ms: int, offset_ms: int) -> str:
    sign, seconds = "-" if offset_ms < 0 else "+", abs(offset_ms) // 1000
    offset = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}"
    if seconds % 60:
        offset += f":{seconds % 60:02}"
    return f"{local_time(begun_ms).isoformat(timespec='hours')}{offset}"
