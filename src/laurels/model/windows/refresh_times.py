"""Refresh times: the instants at which a window with a refresh interval is ranked again. Pure.

A refresh whose interval is not a whole number of days is due at multiples of the interval, counted
from 1970 UTC. A refresh whose interval is n whole days is due on every n-th date counted from
1970-01-01, at local midnight of the window's zone or at another local time. If the zone skips this
local time, the refresh is due at the instant of the skip. If this local time comes twice, the
refresh is due the first time.
"""

from abc import ABC, abstractmethod
from datetime import date, datetime, timedelta
from functools import lru_cache

from laurels.model.durations import DAY_MS
from laurels.timeline.zones import Zone, zone

_EPOCH_DAY = date(1970, 1, 1).toordinal()


class RefreshTimes(ABC):
    """A rule for when a window is refreshed."""

    @abstractmethod
    def around(self, at_ms: int) -> tuple[int, int]:
        """Return the latest refresh time up to an instant, and the next one after it."""


class Multiples(RefreshTimes):
    """Refresh times at a fixed interval in milliseconds."""

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms

    def around(self, at_ms: int) -> tuple[int, int]:
        start_ms = at_ms // self._interval_ms * self._interval_ms
        return start_ms, start_ms + self._interval_ms


class LocalTimes(RefreshTimes):
    """Refresh times at a local time, on every n-th date; repeated calls are fast.

    The cached result is one reference, replaced as a whole, so threads may share it.
    """

    def __init__(self, where: Zone, days: int, minute: int) -> None:
        self._zone = where
        self._days = days
        self._after_midnight = timedelta(minutes=minute)
        self._last = (0, 0)

    def around(self, at_ms: int) -> tuple[int, int]:
        last = self._last
        if not last[0] <= at_ms < last[1]:
            last = self._last = self._find(at_ms)
        return last

    def _find(self, at_ms: int) -> tuple[int, int]:
        number = (self._zone.date_at(at_ms).toordinal() - _EPOCH_DAY) // self._days + 1
        end_ms = self._time(number)
        while (start_ms := self._time(number - 1)) > at_ms or start_ms == end_ms:
            number, end_ms = number - 1, start_ms
        return start_ms, end_ms

    def _time(self, number: int) -> int:
        day = date.fromordinal(number * self._days + _EPOCH_DAY)
        midnight = datetime(day.year, day.month, day.day)  # noqa: DTZ001 (local)
        return self._zone.first_instant(midnight + self._after_midnight)


@lru_cache(maxsize=4096)
def refresh_times(interval_ms: int, minute: int, tz: str) -> RefreshTimes:
    """Return the refresh times of an interval. For an interval of whole days, `minute` is the local
    time in minutes after midnight."""
    days, rest = divmod(interval_ms, DAY_MS)
    return Multiples(interval_ms) if rest else LocalTimes(zone(tz), days, minute)
