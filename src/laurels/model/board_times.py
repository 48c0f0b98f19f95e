"""The times in the definition of a board: when it starts and ends, as people write them."""

from datetime import UTC, date, datetime, timedelta

from laurels.errors import BoardInvalid
from laurels.timeline.instants import MAX_MS, MIN_MS
from laurels.timeline.zones import Zone

from .validation import integer, safe_repr

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATE_LENGTH = len("2026-12-01")


def instant_of(field: str, value: object, zone: Zone) -> int | None:
    """Return the milliseconds since 1970 UTC of a time: an aware datetime, milliseconds, or text in
    ISO 8601, where a time without an offset is a local time of `zone`, and a date stands for its
    beginning. Return None for '' and None. Raise BoardInvalid for anything else, with the name of
    the `field`."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        instant_ms = _from_text(value, zone)
    elif isinstance(value, datetime):
        instant_ms = None if value.utcoffset() is None else _since_epoch(value)
    else:
        instant_ms = integer(value)
    if instant_ms is not None and MIN_MS < instant_ms < MAX_MS:
        return instant_ms
    raise BoardInvalid(
        f"{field}: expected a time in the years 1900 to 9899 (as in 2026-12-01T20:00+08:00, "
        "2026-12-01, an aware datetime, or milliseconds since 1970), got "
        f"{safe_repr(value)}"
    )


def instant_text(instant_ms: int | None) -> str:
    """Return the canonical text of a time, in UTC; '' for None."""
    if instant_ms is None:
        return ""
    timespec = "milliseconds" if instant_ms % 1_000 else "seconds"
    time = (_EPOCH + timedelta(milliseconds=instant_ms)).replace(tzinfo=None)
    return time.isoformat(timespec=timespec) + "Z"


def _from_text(text: str, zone: Zone) -> int | None:
    """Return the instant of a time as text, None if the text is not a time."""
    try:
        if len(text) == _DATE_LENGTH:
            return zone.date_start(date.fromisoformat(text))
        time = datetime.fromisoformat(text)
        if time.utcoffset() is not None:
            return _since_epoch(time)
        return zone.first_instant(time)
    except (ValueError, OverflowError):
        return None


def _since_epoch(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(milliseconds=1)
