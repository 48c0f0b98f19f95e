"""Local time: the time zones of the `tzdata` package and where a local date begins in them.

The host's own zone files are never read: the meaning of a log depends on the boundaries of periods,
which must be the same on every machine.

Clocks are put forward and back, by an hour, by half an hour, by a day where a country crossed the
date line, and sometimes at midnight. Nevertheless, dates cover time without gaps by two rules:

- a date starts at the first instant at which the local clock shows its midnight, or, where that
  midnight was skipped, at the instant of the skip;
- the date of an instant is the greatest one that has started. Where clocks go back just after
  midnight, the repeated minutes of the evening before belong to the new date.

A date that was skipped entirely starts together with the next one and has no duration, so no
instant has it.
"""

from datetime import date, datetime, timedelta
from functools import lru_cache
from importlib import resources
from zoneinfo import ZoneInfo

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 (local time; its offset is applied apart)
_EPOCH_DAY = _EPOCH.toordinal()
_DAY = timedelta(days=1)


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Return all IANA names of time zones."""
    listed = resources.files("tzdata").joinpath("zones").read_text(encoding="ascii")
    return frozenset(listed.split())


@lru_cache(maxsize=1024)
def zone(name: str) -> "Zone":
    """Return the zone of an IANA name in `zone_names()`; raise KeyError for other names."""
    if name not in zone_names():
        raise KeyError(name)
    with resources.files("tzdata.zoneinfo").joinpath(*name.split("/")).open("rb") as file:
        return Zone(ZoneInfo.from_file(file, key=name))


class Zone:
    """Local time of one zone. All instants are milliseconds since 1970 UTC."""

    def __init__(self, info: ZoneInfo) -> None:
        self._info = info

    def offset_ms(self, at_ms: int) -> int:
        """Return how many milliseconds local time is ahead of UTC at an instant; whole seconds."""
        return _milliseconds(datetime.fromtimestamp(at_ms // 1000, self._info).utcoffset())

    def local_offsets(self, local: datetime) -> tuple[int, int]:
        """Return the two offsets from UTC, in ms, that a naive local time may have.

        They are equal except where clocks change. For a repeated time they are the offsets of its
        first and its second occurrence. For a skipped time they are the offsets before and after
        the skip.
        """
        first = local.replace(tzinfo=self._info)
        return _milliseconds(first.utcoffset()), _milliseconds(first.replace(fold=1).utcoffset())

    def date_start(self, day: date) -> int:
        """Return the first instant of a local date. If its midnight was skipped, this is the
        instant of the skip."""
        return self.first_instant(datetime(day.year, day.month, day.day))  # noqa: DTZ001 (local)

    def first_instant(self, local: datetime) -> int:
        """Return the first instant of a local time (naive).

        If that time was skipped, this is the instant of the skip.
        """
        before_ms, after_ms = self.local_offsets(local)
        local_time_ms = local_ms(local)
        first_ms = local_time_ms - before_ms
        if before_ms == after_ms or self.offset_ms(first_ms) == before_ms:
            return first_ms
        return self.change(local_time_ms - after_ms, first_ms)

    def change(self, before_ms: int, after_ms: int) -> int:
        """Return the instant in (before_ms, after_ms] at which the offset changes. There must be
        exactly one such instant."""
        offset_ms = self.offset_ms(before_ms)
        low, high = before_ms // 1000, after_ms // 1000
        while high - low > 1:
            middle = (low + high) // 2
            if self.offset_ms(middle * 1000) == offset_ms:
                low = middle
            else:
                high = middle
        return high * 1000

    def date_at(self, at_ms: int) -> date:
        """Return the local date of an instant: the latest date that has started."""
        day = datetime.fromtimestamp(at_ms // 1000, self._info).date() + _DAY
        while self.date_start(day) > at_ms:
            day -= _DAY
        return day


def local_time(local_ms: int) -> datetime:
    """Return the naive local time that is this many milliseconds after 1970-01-01 00:00 local
    time."""
    return _EPOCH + timedelta(milliseconds=local_ms)


def local_ms(local: datetime) -> int:
    """Return a local time as milliseconds since 1970-01-01 00:00 local time."""
    return (local - _EPOCH) // timedelta(milliseconds=1)


def _milliseconds(offset: timedelta | None) -> int:
    assert offset is not None, "every zone of tzdata knows its offset at every time"
    return (offset.days * 86_400 + offset.seconds) * 1000
