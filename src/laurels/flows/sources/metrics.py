"""The metrics of a source."""

from collections import Counter

import msgspec

from laurels.flows.attempts import FlowAttempts, seconds_failing
from laurels.model.validation import shorten
from laurels.wire.sources import SourceReport

MAX_NAMES = 20
"""The maximum number of names of unknown boards that are kept, so that they do not fill the
memory."""

_NAME_CHARACTERS = 160


class SourceMetrics(FlowAttempts):
    """The counts of one run or of several. Every message that was read is counted as one of
    `applied`, `unchanged`, `duplicates`, `rejected`, `foreign`, `unknown` and `repeated`.

    `foreign` counts messages for boards that the source does not feed, `unknown` those for boards
    that do not exist, `repeated` those that had been counted before. `rejected` counts malformed
    messages and refused events; `reasons` has their number by error code. `late` has the number of
    events that were too late for a window, by window, whether or not other windows accepted them.
    `recounted` counts events that shards of boards had lost and that were counted there again; they
    are in no other count than `late`. Everything that the stream took before `passed_ms` has been
    counted. The attempts that `FlowAttempts` records are those to read the stream and to count its
    messages.
    """

    read: int = 0
    applied: int = 0
    unchanged: int = 0
    duplicates: int = 0
    foreign: int = 0
    unknown: int = 0
    repeated: int = 0
    batches: int = 0
    recounted: int = 0
    late: Counter[str] = msgspec.field(default_factory=Counter)
    reasons: Counter[str] = msgspec.field(default_factory=Counter)
    unknown_boards: Counter[str] = msgspec.field(default_factory=Counter)
    position: str = ""
    passed_ms: int | None = None

    def lag_seconds(self, now_ms: int) -> float | None:
        """Return the time since the stream took the last counted message, or since the source last
        reached the end of the stream; None if the stream has no times."""
        return None if self.passed_ms is None else max(0, now_ms - self.passed_ms) / 1_000

    @property
    def rejected(self) -> int:
        return self.reasons.total()

    def skip_unknown(self, board: str, messages: int) -> None:
        """Count messages for a board that does not exist; its name may be any text."""
        self.unknown += messages
        board = shorten(board.encode(errors="backslashreplace").decode(), _NAME_CHARACTERS)
        if board in self.unknown_boards or len(self.unknown_boards) < MAX_NAMES:
            self.unknown_boards[board] += messages

    def report(self, name: str, now_ms: int) -> SourceReport:
        """Return the state of the source, as the service reports it."""
        return SourceReport(
            name,
            self.position,
            self.applied,
            self.unchanged,
            self.duplicates,
            self.rejected,
            self.foreign,
            self.unknown,
            self.repeated,
            self.lag_seconds(now_ms),
            self.wait,
            seconds_failing(self.wait, now_ms),
        )
