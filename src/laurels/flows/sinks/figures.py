"""The progress of a sink, and its lag."""

from msgspec import Struct


class BoardFigures(Struct):
    """The progress of a sink on one board."""

    delivered: int = 0
    """Changes delivered to the target since the sink was started."""
    parked: int = 0
    restarts: int = 0
    """How many times all present entries were sent again."""
    waiting_since_ms: int | None = None
    """The time of the oldest change that is not delivered; None if there is none."""
    waiting: int = 0
    """The number of changes that are not delivered."""
    error: str | None = None
    """The error of the last attempt, None after a success."""

    def lag_seconds(self, now_ms: int) -> float:
        """Return the age of the oldest change that waits, 0 without one."""
        if self.waiting_since_ms is None:
            return 0.0
        return max(0, now_ms - self.waiting_since_ms) / 1_000


class SinkFigures(Struct):
    """The figures of a sink, by board."""

    boards: dict[str, BoardFigures]

    def of(self, board: str) -> BoardFigures:
        """Return the figures of a board, zeros at first."""
        return self.boards.setdefault(board, BoardFigures())

    @property
    def delivered(self) -> int:
        return sum(board.delivered for board in self.boards.values())

    @property
    def parked(self) -> int:
        return sum(board.parked for board in self.boards.values())

    @property
    def waiting(self) -> int:
        return sum(board.waiting for board in self.boards.values())

    def lag_seconds(self, now_ms: int) -> float:
        """Return the age of the oldest change that waits on any board."""
        return max((board.lag_seconds(now_ms) for board in self.boards.values()), default=0.0)
