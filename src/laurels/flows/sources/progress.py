"""The progress of a run through its stream, by position and by the stream's time."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from .arrivals import BOARDS_A_SECOND, REPORT_SECONDS
from .reader import ZERO, StreamPosition, StreamReader


class TimedPosition(NamedTuple):
    """A position in a stream, and a time: every message that the stream took before that time is
    at or before the position."""

    position: StreamPosition
    passed_ms: int | None


class Progress:
    """How far a run has read and counted messages: a position, and the time that belongs to it, as
    in `TimedPosition`."""

    def __init__(self, reader: StreamReader, now_ms: Callable[[], int]) -> None:
        self.at = ZERO
        self.passed_ms: int | None = None
        self._reader = reader
        self._now_ms = now_ms
        self._reported_ms = now_ms()

    @property
    def timed_position(self) -> TimedPosition:
        return TimedPosition(self.at, self.passed_ms)

    def timed_position_after(self, position: StreamPosition, taken_ms: int | None) -> TimedPosition:
        """Return the position of a message, with the time `taken_ms` at which the stream took the
        message, but not later than now, and not earlier than the time of the run's position. If the
        stream has no times, `taken_ms` is None; the time is then that of the run's position."""
        if taken_ms is None or self.passed_ms is None:
            passed_ms = self.passed_ms if taken_ms is None else min(taken_ms, self._now_ms())
        else:
            passed_ms = max(self.passed_ms, min(taken_ms, self._now_ms()))
        return TimedPosition(position, passed_ms)

    def move(self, timed_position: TimedPosition) -> None:
        """Move forward to a position."""
        self.at, self.passed_ms = timed_position

    def is_report_due(self, boards: int) -> bool:
        """Return whether the next report is due; the more `boards` get it, the longer the time
        between two reports."""
        seconds = max(REPORT_SECONDS, boards / BOARDS_A_SECOND)
        return abs(self._now_ms() - self._reported_ms) >= seconds * 1_000

    def record_report(self) -> None:
        """Record that the boards get a report now."""
        self._reported_ms = self._now_ms()

    def encode(self, position: TimedPosition, before_ms: int | None) -> str:
        """Return a position as text to store. The time in it is at least `before_ms`, the time that
        is stored now, unless `before_ms` is ahead of the clock."""
        passed_ms = position.passed_ms
        if before_ms is not None:
            passed_ms = max(min(before_ms, self._now_ms()), passed_ms or 0)
        stored = replace(self._reader.stored_position(position.position), passed_ms=passed_ms)
        return msgspec.json.encode(stored).decode()
