"""The state of a board that a ledger's sink keeps in this process."""

from collections.abc import Sequence

from laurels.errors import UnknownBoard
from laurels.model.board import Board
from laurels.model.rules import Rules
from laurels.timeline.instants import MIN_MS

from .rows import Period


class WrittenBoard:
    """The state of a board that a ledger is writing: its definition, the time of its latest
    change, and which periods were deleted."""

    def __init__(self, definition: Board) -> None:
        self.definition = definition
        self.is_written = False
        self.deleted_before_ms: dict[str, int] = {}
        self.latest_ms = MIN_MS
        """The time of the board's latest change, from which the kept periods are determined. The
        time of a clock would not do: the periods of a board in event time do not end by the
        clock."""
        self.closed: set[Period] | None = None
        """The closed periods of the rows; None if they were not read yet."""
        self.rules: Rules = definition.rules()
        self._starts: dict[tuple[str, str], int] = {}

    def start_of(self, window: str, period: str) -> int:
        """Return the beginning of a period of a window."""
        start_ms = self._starts.get((window, period))
        if start_ms is None:
            if len(self._starts) > 10_000:
                self._starts.clear()
            kind = self.rules.windows.get(window)
            if kind is None:
                raise UnknownBoard(f"the board {self.definition.name!r} was created again")
            start_ms = kind.period(period).start_ms
            self._starts[window, period] = start_ms
        return start_ms

    @property
    def closing(self) -> Sequence[str]:
        """The windows that close their periods."""
        return list(self.rules.closing)

    def oldest(self, now_ms: int) -> dict[str, int]:
        """Return the beginning of the oldest period of each calendar window that is kept at
        `now_ms`."""
        starts = {
            name: window.oldest_stored(MIN_MS, now_ms)
            for name, window in self.rules.windows.items()
            if not window.holds_totals
        }
        return {name: oldest for name, oldest in starts.items() if oldest is not None}
