"""Warnings about a source that lags so far that its events will soon be too late."""

from collections.abc import Callable, Iterable

from laurels.model.windows.kinds import Window
from laurels.timeline.instants import MIN_MS

MIN_LAG_MS = 60_000
"""A lag of less than a minute is not reported, since it may come from one slow answer."""
MAX_REPORTED_BOARDS = 20
"""No more than this many lagging boards are reported at a time, so that the reports do not fill the
log."""


class LagWarnings:
    """Reports a board when the lag of its source reaches half of the lag at which a window refuses
    events as too late. The board is reported again only after the lag was smaller than this
    half."""

    def __init__(self, source: str, report: Callable[[str], None]) -> None:
        self._source = source
        self._report = report
        self._warned: set[str] = set()

    def check(
        self,
        board: str,
        windows: Iterable[Window],
        close_wait_ms: int,
        passed_ms: int,
        now_ms: int,
    ) -> None:
        """Report the board if one of its windows would refuse the next messages as too late if the
        lag were twice as long. `passed_ms` is the time up to which the source has counted the
        stream."""
        lag_ms = now_ms - passed_ms
        refusing = None
        if lag_ms >= MIN_LAG_MS:
            refusing = first_refusing(windows, close_wait_ms, passed_ms, now_ms + lag_ms)
        if refusing is None:
            self._warned.discard(board)
        elif board not in self._warned and len(self._warned) < MAX_REPORTED_BOARDS:
            self._warned.add(board)
            self._report(
                f"{board}: the source {self._source!r} lags {lag_ms // 60_000:,} minutes; when the "
                f"lag is twice as long, the window {refusing!r} refuses its events as too late"
            )


def first_refusing(
    windows: Iterable[Window], close_wait_ms: int, taken_ms: int, counted_ms: int
) -> str | None:
    """Return the name of the first window that would refuse an event; None if no window would. The
    stream took the event at `taken_ms`, and the board would count it at `counted_ms`."""
    for window in windows:
        period = window.period_at(taken_ms)
        if counted_ms > window.taken_until(
            period
        ) + close_wait_ms or period.start_ms < window.counted_from(MIN_MS, counted_ms):
            return window.name
    return None
