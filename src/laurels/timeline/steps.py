"""Steps: the division of time for rolling windows. Pure.

A step of a fixed length begins at a multiple of that length, counted from 1970 UTC; a step of days
begins with a local date. Steps are numbered consecutively, so the steps of a window are a range of
numbers. The step of a local date that was skipped entirely is empty: it has a number, ends where it
begins, and contains no event. Every step has a label that identifies it:

    of days     2026-11-20             its first local date
    others      2026-11-20T15:00Z      its start, in UTC, with seconds if they are not 0
"""

import re
from abc import ABC, abstractmethod
from datetime import UTC, date, datetime, timedelta

from .calendar import Period, cut_short
from .zones import Zone

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_LABEL = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(?::[0-9]{2})?)Z")


class Steps(ABC):
    """One way to divide time into steps."""

    @abstractmethod
    def number(self, at_ms: int) -> int:
        """Return the number of the step that contains an instant."""

    @abstractmethod
    def step(self, number: int) -> Period:
        """Return the step with a number."""

    @abstractmethod
    def read(self, label: str) -> int:
        """Return the number of the step with a label; raise ValueError if there is none."""


class EndingSteps(Steps):
    """Divides time like other steps, but only up to `ends_ms`. A step that contains this end is cut
    short there. For an instant after the end, `number` returns the last step."""

    def __init__(self, steps: Steps, ends_ms: int) -> None:
        self._steps = steps
        self._ends_ms = ends_ms

    def number(self, at_ms: int) -> int:
        return self._steps.number(min(at_ms, self._ends_ms - 1))

    def step(self, number: int) -> Period:
        return cut_short(self._steps.step(number), self._ends_ms)

    def read(self, label: str) -> int:
        return self._steps.read(label)


class FixedSteps(Steps):
    """Steps of a fixed number of milliseconds, in whole seconds."""

    def __init__(self, length_ms: int) -> None:
        self._length_ms = length_ms

    def number(self, at_ms: int) -> int:
        return at_ms // self._length_ms

    def step(self, number: int) -> Period:
        start_ms = number * self._length_ms
        start = _EPOCH + timedelta(milliseconds=start_ms)
        timespec = "seconds" if start.second else "minutes"
        label = start.replace(tzinfo=None).isoformat(timespec=timespec) + "Z"
        return Period(label, start_ms, start_ms + self._length_ms)

    def read(self, label: str) -> int:
        if (match := _LABEL.fullmatch(label)) is None:
            raise ValueError(label)
        start = datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
        number = self.number((start - _EPOCH) // timedelta(milliseconds=1))
        if self.step(number).label != label:
            raise ValueError(label)
        return number


class DaySteps(Steps):
    """Steps of a fixed number of local days."""

    def __init__(self, zone: Zone, days: int) -> None:
        self._zone = zone
        self._days = days

    def number(self, at_ms: int) -> int:
        return (self._zone.date_at(at_ms).toordinal() - _EPOCH_DAY) // self._days

    def step(self, number: int) -> Period:
        first = date.fromordinal(number * self._days + _EPOCH_DAY)
        start_of = self._zone.date_start
        after = first + timedelta(days=self._days)
        return Period(first.isoformat(), start_of(first), start_of(after))

    def read(self, label: str) -> int:
        number = (date.fromisoformat(label).toordinal() - _EPOCH_DAY) // self._days
        if self.step(number).label != label:
            raise ValueError(label)
        return number
