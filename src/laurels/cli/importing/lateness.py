"""Finds the events of a source that windows would refuse as late, before any event is counted.

The window `all` accepts events that other windows refuse as late. Without this check, an import of
old events would count them in `all` but not in the other windows, without an error. The check uses
the same rule as the board (`window.takes`). The rule needs the time of the board when it counts the
event. In event time this is the latest `at` of the event and of all events before it; with the
system's clock it is the current time.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate

import laurels
from laurels.core.lifecycle import next_boundary
from laurels.core.splitting import split_points
from laurels.timeline.instants import MAX_MS, MIN_MS

from .reading import SourceRow


class LateEvents:
    """Counts the events that some window would refuse as late."""

    def __init__(self, lb: laurels.Leaderboards, board: str) -> None:
        stats = lb.stats(board)
        self.rules = lb.get(board).rules()
        self.event_time = stats.event_time
        self.now_ms = stats.now_ms
        self.by_window: Counter[str] = Counter()
        self.first: SourceRow | None = None
        self.total = 0
        self.count = 0
        windows = self.rules.windows.values()
        ends = self.rules.ends_ms < MAX_MS
        self._timed = [window for window in windows if window.has_periods or ends]
        self._due_ms = MIN_MS
        self._latest_start_ms = MIN_MS

    def add(self, rows: Iterable[SourceRow]) -> None:
        """Add the next events, in the order in which they would be counted."""
        if not self._timed:
            return
        for row in rows:
            self.total += 1
            if (at_ms := row.event[2]) is not None:
                self._check(row, at_ms)

    def _check(self, row: SourceRow, at_ms: int) -> None:
        if self.event_time and at_ms > self.now_ms:
            self.now_ms = at_ms
        if self.now_ms >= self._due_ms:
            self._due_ms = next_boundary(self.rules, self.now_ms)
            self._latest_start_ms = max(w.period_at(self.now_ms).start_ms for w in self._timed)
        if not self.rules.starts_ms <= at_ms < self.rules.ends_ms:
            return  # every window refuses this event, with an error other than for late events
        if at_ms >= self._latest_start_ms and not self.rules.has_ended(self.now_ms):
            return
        late = [
            window.name
            for window in self._timed
            if not window.takes(MIN_MS, self.now_ms, window.period_at(at_ms))
        ]
        if late:
            self.by_window.update(late)
            self.count += 1
            self.first = self.first or row

    @property
    def sentence(self) -> str:
        """A clause with the number of late events of each window, for an error message."""
        assert self.first is not None
        by_window = ", ".join(f"{count:,} for {name}" for name, count in self.by_window.items())
        of = f"{self.count:,} of {self.total:,} events"
        return f"{of} would be too late ({by_window}), the first in line {self.first.line:,}"


class CommitSizes:
    """Finds how many events of a replay can be counted in the next commit.

    On an index server, a batch in event time may take several commits (`split_points`), and only
    the last of them stores the position of the source. If the process were killed between two of
    these commits, events that are already counted would be counted again by the next run. Therefore
    each batch has only as many events as fit in one commit.
    """

    def __init__(self, lb: laurels.Leaderboards, board: str) -> None:
        stats = lb.stats(board)
        self._rules = lb.get(board).rules()
        self._now_ms = stats.now_ms
        self._is_needed = stats.event_time and stats.layout is not None

    def next(self, rows: Sequence[SourceRow]) -> int:
        """Return how many of these rows, from the first on, can be counted in one commit. Earlier
        calls must have counted all rows before them."""
        if not self._is_needed or any(row.event[2] is None for row in rows):
            return len(rows)
        ats = array("q", [row.event[2] or 0 for row in rows])
        nows = array("q", accumulate(ats[1:], max, initial=max(self._now_ms, ats[0])))
        size = split_points(self._rules, ats, nows, evenly=False)[0]
        self._now_ms = nows[size - 1]
        return size
