"""Divide batches by the times at which their messages arrived at the stream.

A commit carries only the arrival time of its first message. From this time the board decides for
all events of the commit whether they are late. So a batch is divided at each instant at which a
window begins to refuse the events of a period. The decision for each event is then the same as if
the event had a commit of its own.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from laurels.api.aio import AsyncLeaderboards
from laurels.model.board import Board
from laurels.model.windows.kinds import Window
from laurels.timeline.instants import MAX_MS

REPORT_SECONDS = 10.0
"""The time between two reports of the source's progress to boards that get no events from it."""
BOARDS_A_SECOND = 1_000
"""The number of boards that get a report in one second. With more than 10,000 boards, each gets
reports less often."""
_REFRESH_MS = 60_000
"""The time after which cached definitions of boards are read again."""


def next_refusal_ms(windows: Iterable[Window], at_ms: int) -> int:
    """Return the first instant after `at_ms` at which any of the windows begins to refuse the
    events of a period or step."""
    return min((window.next_refusal(at_ms)[1] for window in windows), default=MAX_MS)


def refusals_between(windows: Sequence[Window], arrived_ms: Sequence[int | None]) -> Iterator[int]:
    """Given the arrival times of messages, yield the index of each message with which a new commit
    begins. The current commit ends before a message if some window has begun to refuse the events
    of a period after the first message of the commit arrived."""
    if not windows:
        return
    first, until_ms = 0, MAX_MS
    for i, at_ms in enumerate(arrived_ms):
        if at_ms is None:
            continue
        if i and at_ms >= until_ms:
            yield i
            first = i
        if i == first:
            until_ms = next_refusal_ms(windows, at_ms)


class EndingWindows:
    """For each board, the windows whose periods or steps end. Definitions are read again once a
    minute."""

    def __init__(self, lb: AsyncLeaderboards, now_ms: Callable[[], int]) -> None:
        self._lb = lb
        self._now_ms = now_ms
        self._boards: Mapping[str, Board] = {}
        self._windows: dict[str, tuple[Window, ...]] = {}
        self._read_ms = now_ms()

    def set_boards(self, boards: Iterable[Board]) -> None:
        """Record the definitions of all boards."""
        self._boards = {board.name: board for board in boards}
        self._windows.clear()
        self._read_ms = self._now_ms()

    async def refresh(self) -> None:
        """Read the definitions again, if the last read was long ago."""
        if abs(self._now_ms() - self._read_ms) >= _REFRESH_MS:
            self.set_boards(await self._lb.boards())

    async def of(self, board: str) -> tuple[Window, ...]:
        """Return those windows of a board whose periods or steps end. Raises UnknownBoard."""
        if (cached := self._windows.get(board)) is None:
            definition = self._boards.get(board) or await self._lb.get(board)
            windows = definition.rules().windows.values()
            cached = tuple([window for window in windows if window.next_refusal(0)[1] < MAX_MS])
            self._windows[board] = cached
        return cached

    def close_wait_ms(self, board: str) -> int:
        """Return the longest time that the end of a board's period waits for sources that lag."""
        definition = self._boards.get(board)
        return 0 if definition is None else definition.rules().close_wait_ms

    def forget(self, board: str) -> None:
        """Forget a board that was deleted, or may have been created again."""
        self._windows.pop(board, None)
        self._boards = {name: each for name, each in self._boards.items() if name != board}
