"""The metrics of a sink: its progress and its lag."""

from collections.abc import Iterable

from msgspec import field

from laurels.flows.attempts import FlowAttempts, seconds_failing
from laurels.wire.flow_wait import FlowWait
from laurels.wire.sinks import SinkReport

from .retention import WARNED_AT, Retention

MAX_REPORTED_BOARDS = 1_000
"""The maximum number of boards whose errors are in a report."""


class BoardMetrics(FlowAttempts):
    """The progress of a sink on one board."""

    delivered: int = 0
    """Changes delivered to the target since the sink was started."""
    parked: int = 0
    restarts: int = 0
    """How many times all current entries were sent again."""
    waiting_since_ms: int | None = None
    """The time of the oldest change that is not delivered; None if there is none."""
    waiting: int = 0
    """The number of changes that are not delivered."""
    retention: Retention | None = None
    """The retention of the board, None before the first delivery."""
    is_registered: bool = False
    """Whether the board keeps changes for this sink beyond their retention time."""
    has_lost: bool = False
    """Whether the board has removed unsent changes, so that the sink cannot continue."""

    def leave(self) -> None:
        """Record that the sink no longer reads the board: the board then has no waiting changes and
        no error."""
        self.waiting, self.waiting_since_ms = 0, None
        self.wait, self.has_lost = None, False

    def lag_seconds(self, now_ms: int) -> float:
        """Return the age of the oldest change that is not delivered, 0 if there is none."""
        if self.waiting_since_ms is None:
            return 0.0
        return max(0, now_ms - self.waiting_since_ms) / 1_000

    def used(self, now_ms: int) -> float:
        """Return which fraction of the board's retention the undelivered changes take up; see
        `Retention.used`."""
        if self.waiting_since_ms is None or self.retention is None:
            return 0.0
        age_ms = now_ms - self.waiting_since_ms
        return self.retention.used(self.waiting, age_ms, is_registered=self.is_registered)


class PayoutMetrics(FlowAttempts):
    """The progress of a sink among the due payouts of all its boards."""

    delivered: int = 0
    """Payouts delivered to the target since the sink was started."""
    parked: int = 0
    waiting: int = 0
    """The number of due payouts that are not delivered, as of the last count."""
    waiting_since_ms: int | None = None
    """When the oldest of them was due; None if there is none."""

    def arrive(self, waiting: int, oldest_ms: int | None) -> None:
        """Record how many payouts wait, and when the oldest of them was due."""
        self.waiting = waiting
        self.waiting_since_ms = oldest_ms if waiting else None

    def lag_seconds(self, now_ms: int) -> float:
        """Return for how long the oldest payout that is not delivered has been due, 0 if there is
        none."""
        if self.waiting_since_ms is None:
            return 0.0
        return max(0, now_ms - self.waiting_since_ms) / 1_000


class SinkMetrics(FlowAttempts):
    """The metrics of a sink, by board. Attempts that concern no single board, such as connecting,
    are recorded for the sink itself."""

    boards: dict[str, BoardMetrics]
    payouts: PayoutMetrics = field(default_factory=PayoutMetrics)

    def of(self, board: str) -> BoardMetrics:
        """Return the metrics of a board, which are zero at first."""
        return self.boards.setdefault(board, BoardMetrics())

    @property
    def delivered(self) -> int:
        return sum(board.delivered for board in self.boards.values())

    @property
    def parked(self) -> int:
        return sum(board.parked for board in self.boards.values())

    @property
    def waiting(self) -> int:
        return sum(board.waiting for board in self.boards.values())

    @property
    def restarts(self) -> int:
        return sum(board.restarts for board in self.boards.values())

    @property
    def lost(self) -> int:
        """The number of boards on which the sink has lost changes."""
        return sum(board.has_lost for board in self.boards.values())

    @property
    def reason(self) -> FlowWait | None:
        """Why the sink sends nothing at all, no payouts, or no changes of some board. If there are
        several such reasons, the one that has lasted longest; None if the sink sends everything."""
        waits = [self.wait, self.payouts.wait, *(board.wait for board in self.boards.values())]
        return min((each for each in waits if each), key=lambda wait: wait.since_ms, default=None)

    def failing_seconds(self, now_ms: int) -> float:
        """Return for how many seconds `reason` has lasted, 0 if there is none. In this time all
        attempts of the sink, or all attempts for one of its boards, have failed."""
        return seconds_failing(self.reason, now_ms)

    def report(self, name: str, now_ms: int) -> SinkReport:
        """Return the state of the sink, as the service reports it."""
        failing = [(board, each.wait) for board, each in self.boards.items() if each.wait]
        return SinkReport(
            name,
            self.delivered,
            self.parked,
            self.waiting,
            self.lag_seconds(now_ms),
            self.wait,
            dict(failing[:MAX_REPORTED_BOARDS]),
            failing_seconds=self.failing_seconds(now_ms),
            used=self.used(now_ms),
            lost_boards=self.lost,
            restarts=self.restarts,
            payouts_delivered=self.payouts.delivered,
            payouts_parked=self.payouts.parked,
            payouts_waiting=self.payouts.waiting,
            payouts_lag_seconds=self.payouts.lag_seconds(now_ms),
            payouts_wait=self.payouts.wait,
        )

    def used(self, now_ms: int) -> float:
        """Return the largest value of `used` of any board."""
        return max((board.used(now_ms) for board in self.boards.values()), default=0.0)

    def lag_seconds(self, now_ms: int) -> float:
        """Return the age of the oldest undelivered change of any board, 0 if there is none."""
        return max((board.lag_seconds(now_ms) for board in self.boards.values()), default=0.0)


def describe_problems(sinks: Iterable[SinkReport]) -> str | None:
    """Return a text that says how many sinks have lost changes, and how many are about to lose
    some; None if there are no such sinks."""
    reports = list(sinks)
    lost = sum(each.lost_boards > 0 for each in reports)
    endangered = sum(each.used >= WARNED_AT for each in reports)
    parts = [f"sinks that have lost changes: {lost}"] if lost else []
    if endangered:
        parts.append(f"sinks that are about to lose changes: {endangered}")
    return ", ".join(parts) or None
