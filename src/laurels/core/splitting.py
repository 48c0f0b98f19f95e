"""Splitting a batch in event time into few parts, so that all events of a part can be counted at
the same time. Pure."""

from array import array
from bisect import bisect_left

from laurels.engine.batch.packing import bounds
from laurels.model.rules import Rules
from laurels.model.windows.kinds import Window

from .lifecycle import next_boundary


def split_points(rules: Rules, ats: "array[int]", nows: "array[int]", *, evenly: bool) -> list[int]:
    """Return where to split a batch in event time: the end position of each part. Although all
    events of a part are counted at the same time, each event has the result that it would have if
    the events were submitted one by one.

    `nows` has, for each event, the latest `at` so far. Within a part this time does not cross the
    end of a period or step. It also does not cross the end of a grace if the part has an event that
    would be late afterwards; with `evenly`, it never crosses the end of a grace.
    """
    ends: list[int] = []
    start = 0
    while start < len(nows):
        end = _before(nows, next_boundary(rules, nows[start]), start, len(nows))
        for window in rules.windows.values():
            end = _end_at_grace(window, ats, nows, start, end, evenly=evenly)
        ends.append(end)
        start = end
    return ends


def _before(nows: "array[int]", instant_ms: int, start: int, end: int) -> int:
    """Return the first position from `start` to `end` whose time in `nows` is not before
    `instant_ms`; `end` if there is no such position."""
    return end if nows[end - 1] < instant_ms else bisect_left(nows, instant_ms, start, end)


def _end_at_grace(
    window: Window,
    ats: "array[int]",
    nows: "array[int]",
    start: int,
    end: int,
    *,
    evenly: bool,
) -> int:
    """Return the end of a part. If the part must not cross the end of a window's grace, it ends
    there instead of at `end`."""
    period_end_ms, refused_ms = window.next_refusal(nows[start])
    counted_end = _before(nows, refused_ms, start, end)
    if counted_end < end and (evenly or bounds(ats[start:counted_end])[0] < period_end_ms):
        return counted_end
    return end
