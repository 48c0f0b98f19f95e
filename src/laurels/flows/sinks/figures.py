"""How far a sink is, and how far behind."""

from msgspec import Struct


class BoardFigures(Struct):
    """What a sink has sent of one board, and what waits."""

    delivered: int = 0
    """Changes that the target has, since the sink was started."""
    parked: int = 0
    restarts: int = 0
    """How often all present entries were sent again."""
    waiting_since_ms: int | None = None
    """When the oldest change was made that was read and is not delivered; None without one."""
    waiting: int = 0
    """Changes that were read and are not delivered."""
    error: str | None = None
    """What the last attempt failed with, None after a success."""

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
