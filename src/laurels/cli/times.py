"""Parses times in files to integer milliseconds.

The form of a time is `iso` (a date, or a date and time), `ms` or `s` (since 1970 UTC), or a pattern
of `datetime.strptime` such as `%d.%m.%Y`. A time without an offset is a local time of a zone. A
local time that occurs twice means its first occurrence. A local time that the zone skips is read
with the offset before the gap, so a skipped midnight means the instant at which the clocks change.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, Context, Decimal, InvalidOperation
from functools import lru_cache, partial

from laurels.errors import InvalidAt
from laurels.timeline.zones import Zone

from .errors import Usage

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  subtracted from naive UTC time
_MILLISECOND = timedelta(milliseconds=1)
_REMEMBERED = 65_536
"""The number of texts whose times are cached, since dates in a file repeat."""

_BARE_NUMBERS_FROM_MS = 631_152_000_000
"""The start of 1990. A smaller bare number is refused, since it is probably in seconds and not in
milliseconds."""
_DATE_DIGITS = 8
"""The number of digits in a basic ISO date, such as 20261120. Other bare numbers are not dates."""
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?", re.ASCII)
_SAMPLE = datetime(2000, 2, 3, 4, 5, 6, tzinfo=UTC)

_floor = Context(rounding=ROUND_FLOOR)

ReadTime = Callable[[object], int]


def time_reader(form: str, zone: Zone) -> ReadTime:
    """Return a function that parses times of a form, and raises `InvalidAt` for other values.

    With the form `iso`, an integer in JSON is a number of milliseconds, from the year 1990 on.
    """
    if form == "ms":
        return _milliseconds
    if form == "s":
        return _seconds
    if form == "iso":
        return _IsoReader(zone).read
    if "%" in form:
        _ensure_pattern(form)
        return _PatternReader(form, zone).read
    raise Usage(f"expected iso, ms, s or a pattern such as %Y%m%d for --at-format, got {form!r}")


def _ensure_pattern(pattern: str) -> None:
    try:
        datetime.strptime(_SAMPLE.strftime(pattern), pattern)  # noqa: DTZ007  only a test
    except (ValueError, re.error) as error:
        raise Usage(
            f"expected a pattern of times for --at-format, got {pattern!r}: {error}"
        ) from error


def _milliseconds(value: object) -> int:
    return _scaled(value, 1, "ms")


def _seconds(value: object) -> int:
    return _scaled(value, 1000, "s")


def _scaled(value: object, factor: int, unit: str) -> int:
    """Return a number of units as whole milliseconds, rounded down. The result is exact for any
    number of digits."""
    if not isinstance(value, (int, str, Decimal)) or isinstance(value, bool):
        raise InvalidAt(f"expected a number of {unit}, got {value!r}")
    try:
        number = Decimal(value)
    except InvalidOperation as error:
        raise InvalidAt(f"expected a number of {unit}, got {value!r:.60}") from error
    if not number.is_finite() or number.adjusted() > 15:
        raise InvalidAt(f"expected a time in the years 1900 to 9899, got {value!s:.60} {unit}")
    return int(_floor.multiply(number, Decimal(factor)).to_integral_value(ROUND_FLOOR))


class _IsoReader:
    def __init__(self, zone: Zone) -> None:
        self._parse = lru_cache(_REMEMBERED)(partial(_from_iso, zone=zone))

    def read(self, value: object) -> int:
        if type(value) is int and value >= _BARE_NUMBERS_FROM_MS:
            return value
        if type(value) in (int, Decimal):
            raise _bare_number(str(value))
        if not isinstance(value, str):
            raise InvalidAt(f"expected an ISO date and time or whole ms, got {value!r:.60}")
        return self._parse(value)


class _PatternReader:
    def __init__(self, pattern: str, zone: Zone) -> None:
        self._pattern = pattern
        self._parse = lru_cache(_REMEMBERED)(partial(_from_pattern, pattern=pattern, zone=zone))

    def read(self, value: object) -> int:
        if type(value) is int:
            value = str(value)
        if not isinstance(value, str):
            raise InvalidAt(f"expected a time of the form {self._pattern}, got {value!r:.60}")
        return self._parse(value)


def _bare_number(text: str) -> InvalidAt:
    return InvalidAt(
        f"{text:.60} is a bare number: --at-format s reads it as seconds, --at-format ms as ms"
    )


def _from_iso(text: str, zone: Zone) -> int:
    if len(digits := text.strip()) != _DATE_DIGITS and _NUMBER.fullmatch(digits):
        raise _bare_number(digits)
    try:
        return _instant(datetime.fromisoformat(text.strip()), zone)
    except (ValueError, OverflowError) as error:
        raise InvalidAt(
            f"expected an ISO date and time, got {text!r:.60}; see --at-format"
        ) from error


def _from_pattern(text: str, pattern: str, zone: Zone) -> int:
    try:
        time = datetime.strptime(text.strip(), pattern)  # noqa: DTZ007  _instant adds the zone
        return _instant(time, zone)
    except (ValueError, OverflowError) as error:
        raise InvalidAt(f"expected a time of the form {pattern}, got {text!r:.60}") from error


def _instant(time: datetime, zone: Zone) -> int:
    if (offset := time.utcoffset()) is not None:
        return (time.replace(tzinfo=None) - _EPOCH - offset) // _MILLISECOND
    offset_ms, _ = zone.local_offsets(time)
    return (time - _EPOCH) // _MILLISECOND - offset_ms
