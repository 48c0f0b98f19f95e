"""A board of laurels with a rolling window, whose clock moves only when a measurement moves it."""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import laurels
from bench.history import WEEK, Steps
from bench.internals import local
from bench.peers import BOARD
from bench.timing import Safety, Task
from bench.workload import Batch, Entry
from laurels.stores.local.index.board_store import BoardStore
from laurels.stores.local.index.memory import MemoryIndex

WINDOWS = ("all", "day", "rolling")


def shape(windows: Sequence[str]) -> str:
    """Return the windows as the tables name them."""
    return " + ".join(windows)


class RollingApi:
    """The board, its clock, and its part of the index.

    `place` is the folder of the store, or None for a store in memory. In a folder, the log is never
    trimmed.
    """

    ours = True
    name = "laurels API"

    def __init__(
        self,
        place: Path | None,
        now_ms: int,
        steps: Steps = WEEK,
        windows: Sequence[str] = WINDOWS,
    ) -> None:
        self._place = place
        self.steps, self.clock = steps, laurels.ManualClock(now_ms)
        self.settings = "memory:" if place is None else "SQLite WAL, synchronous=FULL"
        self.safety: Safety = "memory" if place is None else "each commit"
        self.open()
        self.shape, self._window = shape(windows), windows[-1]
        forms = [steps.window if window == "rolling" else window for window in windows]
        self.boards.create(laurels.Board(BOARD, windows=forms, dedupe="100d"), exist_ok=True)

    def load(self, batches: Iterable[list[Entry]]) -> float:
        """Load a history, during which no snapshot is taken. Return how many seconds that took,
        without the time to prepare the input."""
        elapsed = 0.0
        with local(self.boards)._snapshot_scheduler.exclusive():
            for events in batches:
                start = time.perf_counter()
                self.boards.submit_many(BOARD, events)
                elapsed += time.perf_counter() - start
        return elapsed

    def open(self) -> None:
        """Open the boards again after they were closed."""
        if self._place is None:
            self.boards = laurels.open("memory:", clock=self.clock)
        else:
            self.boards = laurels.open(self._place, clock=self.clock, log_keep=True)

    def writes(self, batches: Sequence[Batch]) -> Task:
        submit_many = self.boards.submit_many
        return lambda: [submit_many(BOARD, batch) for batch in batches]

    def scores(self, members: Sequence[str]) -> list[int]:
        page = self.boards.standings(BOARD, members, window=self._window)
        scores = {entry.member: entry.score for entry in page.entries}
        return [int(str(scores.get(member, 0))) for member in members]

    @property
    def index(self) -> MemoryIndex:
        index = local(self.boards)._fold.index
        assert isinstance(index, MemoryIndex)
        return index

    @property
    def board_store(self) -> BoardStore:
        """Return the board's part of the index."""
        return next(iter(self.index._boards.values()))

    def close(self) -> None:
        self.boards.close()
