"""Warnings about a source that lags so far that its events will soon be too late."""

from collections.abc import Callable, Iterable

from laurels.model.windows.kinds import Window
from laurels.timeline.instants import MIN_MS

LEAST_MS = 60_000
"""A lag of less than a minute is not reported, since it may come from one slow answer."""
REPORTED_BOARDS = 20
"""The most boards that one run reports, so that many boards do not fill a log."""


class LagWarnings:
    """Reports each board once when its source has used up half of the lag at which a window begins
    to refuse its events, and again only if the source was closer in between."""

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
        """Report the board if a window refuses what the stream takes at `passed_ms` as soon as the
        lag is twice as long as now."""
        lag_ms = now_ms - passed_ms
        refusing = None
        if lag_ms >= LEAST_MS:
            refusing = first_refusing(windows, close_wait_ms, passed_ms, now_ms + lag_ms)
        if refusing is None:
            self._warned.discard(board)
        elif board not in self._warned and len(self._warned) < REPORTED_BOARDS:
            self._warned.add(board)
            self._report(
                f"{board}: the source {self._source!r} lags {lag_ms // 60_000:,} minutes; when the "
                f"lag is twice as long, the window {refusing!r} refuses its events as too late"
            )


def first_refusing(
    windows: Iterable[Window], close_wait_ms: int, taken_ms: int, counted_ms: int
) -> str | None:
    """Return the name of the first window that refuses an event taken by the stream at `taken_ms`
    and counted at `counted_ms`; None if no window refuses it."""
    for window in windows:
        period = window.period_at(taken_ms)
        if counted_ms > window.taken_until(
            period
        ) + close_wait_ms or period.start_ms < window.counted_from(MIN_MS, counted_ms):
            return window.name
    return None
