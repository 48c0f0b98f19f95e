"""The times up to which the streams that feed a board have been counted. Pure.

A source commits its position with its events. If the position is a JSON object with `passed_ms`,
everything that the stream took before that time has been counted. Two rules follow:

- Whether an event of the source is late is judged by the time at which the stream took it, not by
  the time at which it is counted (`judged_at`).
- A period is therefore final not at the end of its grace, but only when every source of the board
  has passed that end (`finality`).

The board's `close_wait` bounds both rules: a period is final at the latest when this much time has
passed since the end of the period's grace, whatever the sources do.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct


class _StreamTime(Struct):
    passed_ms: int | None = None


_positions = msgspec.json.Decoder(_StreamTime)


def passed_ms(position: str | None) -> int | None:
    """Return the time up to which a source has counted its stream; None if the source's position
    does not have this time."""
    if position is None or not position.startswith("{"):
        return None
    try:
        return _positions.decode(position).passed_ms
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return None


def passed_times(positions: Mapping[str, str]) -> dict[str, int]:
    """Return the times up to which sources of a board have counted their streams, by source.
    Sources whose positions do not have this time are left out."""
    times = {source: passed_ms(text) for source, text in positions.items()}
    return {source: passed for source, passed in times.items() if passed is not None}


def judged_at(arrived_ms: int, before: str | None, now_ms: int, close_wait_ms: int) -> int:
    """Return the time as of which the lateness of events is judged.

    The stream took the first of these events at `arrived_ms`. They are counted at `now_ms`, and
    `before` is the position of the source before they are. The result is `arrived_ms`, but at least
    the time up to which the source has counted its stream, and at least `now_ms - close_wait_ms`,
    since periods whose grace ended before these two times may be final. It is at most `now_ms`."""
    passed = passed_ms(before)
    earliest_ms = now_ms - close_wait_ms if passed is None else max(passed, now_ms - close_wait_ms)
    return min(now_ms, max(arrived_ms, earliest_ms))


class Finality(Struct, frozen=True):
    """Whether a period is final, so that no event can change its standings any more, and which
    sources it still waits for."""

    final: bool
    waits_for: tuple[str, ...] = ()


def finality(
    passed: Mapping[str, int], taken_until_ms: int, now_ms: int, close_wait_ms: int
) -> Finality:
    """Return the finality of a period whose events are accepted until `taken_until_ms`. `passed`
    has the sources of the board, as `passed_times` returns them."""
    if now_ms <= taken_until_ms:
        return Finality(final=False)
    if now_ms > taken_until_ms + close_wait_ms:
        return Finality(final=True)
    behind = tuple(sorted([source for source, at_ms in passed.items() if at_ms <= taken_until_ms]))
    return Finality(not behind, behind)
