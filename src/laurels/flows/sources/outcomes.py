"""Record the outcomes of messages: count them, and write rejected messages to the rejects file."""

from bisect import bisect_right
from collections.abc import Sequence

from laurels.core.receipt import Receipts
from laurels.errors import LaurelsError

from .batches import EventRows, Row
from .metrics import SourceMetrics
from .reader import Message, StreamPosition
from .rejects import Rejects, code_and_text, rejected_message


class MessageOutcomes:
    """Counts the outcomes of a source's messages in `metrics`, and writes rejected messages to
    `rejects`."""

    def __init__(self, source: str, metrics: SourceMetrics, rejects: Rejects) -> None:
        self.metrics = metrics
        self.stream = ""
        self._source = source
        self._rejects = rejects

    def count(self, board: str, rows: Sequence[Row], receipts: Receipts | None) -> None:
        """Count the outcomes of events. Events that the board refused are also written to
        `rejects`."""
        metrics = self.metrics
        if receipts is None:
            metrics.repeated += len(rows)
            return
        metrics.applied += receipts.applied
        metrics.unchanged += receipts.unchanged
        metrics.duplicates += receipts.duplicates
        metrics.late.update(receipts.late)
        if receipts.refused:
            errors = [(row.message, board, receipts.error(i)) for i, row in enumerate(rows)]
            self.reject([(m, b, error) for m, b, error in errors if error is not None])

    def reject(self, rejects: Sequence[tuple[Message, str | None, LaurelsError]]) -> None:
        """Record messages that were rejected, each given with its board and error: add them to
        `metrics.reasons`, and write them to the rejects."""
        lines = []
        for message, board, error in rejects:
            code, text = code_and_text(error)
            self.metrics.reasons[code] += 1
            lines.append(rejected_message(self._source, self.stream, message, board, code, text))
        self._rejects.write(lines)

    async def deliver(self) -> None:
        """Return when all rejects are stored. Raises RejectsUnavailable, RejectsRefused."""
        await self._rejects.deliver()

    def rows_after(self, rows: EventRows, position: StreamPosition) -> EventRows:
        """Return the rows after a position; count the others as repeated."""
        repeated = bisect_right(rows, position, key=lambda row: row.message.position)
        self.metrics.repeated += repeated
        return rows[repeated:]
