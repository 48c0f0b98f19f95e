"""Durations: the text `500ms`, `5s`, `5m`, `1h`, `7d`, and milliseconds.

A day here is 24 hours. Days of a local calendar are defined in `windows`.
"""

import re

from laurels.errors import BoardInvalid

from .validation import integer_within, safe_repr

DAY_MS = 86_400_000
_UNITS_MS = {"d": DAY_MS, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_TEXT = re.compile(r"([0-9]{1,15})(ms|s|m|h|d)")
MAX_DURATION_MS = 36_525 * _UNITS_MS["d"]
"""A hundred years, the longest duration."""


def duration_ms(value: object) -> int:
    """Return the milliseconds of a duration given as text or as an int of milliseconds.

    Raise BoardInvalid for anything else, and for a duration that is negative or longer than a
    hundred years.
    """
    if isinstance(value, str) and (match := _TEXT.fullmatch(value)):
        length_ms = int(match[1]) * _UNITS_MS[match[2]]
    elif (whole_ms := integer_within(value, 0)) is not None:
        length_ms = whole_ms
    else:
        raise BoardInvalid(
            "expected a duration (as in 500ms, 5s, 5m, 1h or 7d, or milliseconds), got "
            f"{safe_repr(value)}"
        )
    if length_ms > MAX_DURATION_MS:
        raise BoardInvalid(f"expected a duration of at most 36525d, got {safe_repr(value)}")
    return length_ms


def duration_of(field: str, value: object) -> int:
    """Return the milliseconds of a duration in the definition; errors name the definition's
    `field`.
    """
    try:
        return duration_ms(value)
    except BoardInvalid as error:
        raise BoardInvalid(f"{field}: {error.what}") from error


def duration_text(length_ms: int) -> str:
    """Return the canonical text of a duration: a number of the largest unit that divides the
    duration.
    """
    if length_ms == 0:
        return "0s"
    unit = next(unit for unit, unit_ms in _UNITS_MS.items() if length_ms % unit_ms == 0)
    return f"{length_ms // _UNITS_MS[unit]}{unit}"
