"""When messages arrived at their stream, as far as boards have to know.

A commit says when its first message arrived, and a board judges by that whether its events are
late. So a batch is cut where the arrivals pass the instant from which a window refuses a period:
then every message of a commit is judged as it would be alone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from laurels.api.aio import AsyncLeaderboards
from laurels.model.board import Board
from laurels.model.windows.kinds import Window
from laurels.timeline.instants import MAX_MS

NOTE_SECONDS = 10.0
"""How often boards are told how far a stream was counted that has nothing for them."""
BOARDS_A_SECOND = 1_000
"""With more boards than are told in ten seconds, they are told less often."""
_FORGET_MS = 60_000
"""After how long the definitions of boards are read again."""


class Arrived(Protocol):
    """A message with the time at which its stream took it, None where the stream does not know."""

    @property
    def arrived_ms(self) -> int | None: ...


R = TypeVar("R", bound=Arrived)


def refused_from(windows: Iterable[Window], at_ms: int) -> int:
    """Return the first instant after `at_ms` from which any window refuses a period, or a step,
    that it takes at `at_ms`."""
    return min((window.next_refusal(at_ms)[1] for window in windows), default=MAX_MS)


def alike(windows: Sequence[Window], rows: Sequence[R]) -> list[Sequence[R]]:
    """Return rows in parts, each judged alike by every window."""
    parts: list[Sequence[R]] = []
    first, until_ms = 0, MAX_MS
    for i, row in enumerate(rows):
        if row.arrived_ms is None:
            continue
        if i and row.arrived_ms >= until_ms:
            parts.append(rows[first:i])
            first = i
        if i == first:
            until_ms = refused_from(windows, row.arrived_ms)
    return [*parts, rows[first:]] if rows else []


class EndingWindows:
    """The windows of boards whose periods or steps end, read again once a minute."""

    def __init__(self, lb: AsyncLeaderboards, now_ms: Callable[[], int]) -> None:
        self._lb = lb
        self._now_ms = now_ms
        self._boards: Mapping[str, Board] = {}
        self._windows: dict[str, tuple[Window, ...]] = {}
        self._read_ms = now_ms()

    def know(self, boards: Iterable[Board]) -> None:
        """Note the definitions of all boards."""
        self._boards = {board.name: board for board in boards}
        self._windows.clear()
        self._read_ms = self._now_ms()

    async def refresh(self) -> None:
        """Read the definitions again, if that was long ago."""
        if abs(self._now_ms() - self._read_ms) >= _FORGET_MS:
            self.know(await self._lb.boards())

    async def of(self, board: str) -> tuple[Window, ...]:
        """Return the windows of a board. Raises UnknownBoard."""
        if (found := self._windows.get(board)) is None:
            definition = self._boards.get(board) or await self._lb.get(board)
            windows = definition.rules().windows.values()
            found = tuple([window for window in windows if window.next_refusal(0)[1] < MAX_MS])
            self._windows[board] = found
        return found

    def forget(self, board: str) -> None:
        """Forget a board that was deleted, or may have been made anew."""
        self._windows.pop(board, None)
        self._boards = {name: each for name, each in self._boards.items() if name != board}
