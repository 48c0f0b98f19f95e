"""Submissions that are counted together."""

from array import array
from collections.abc import Sequence
from itertools import accumulate

from laurels.core.index import Offset
from laurels.core.receipt import Receipts
from laurels.engine.batch.intake import Columns
from laurels.model.labels import concatenate

from .submission import Submission


class JoinedSubmission(Submission):
    """Several submissions of one kind as one batch. Each submission gets the same receipts as if it
    were a separate write of the commit: its events are validated one by one, and receipts always
    show the ranks before and after the whole commit."""

    def __init__(self, submissions: Sequence[Submission]) -> None:
        first = submissions[0]
        super().__init__(
            first.board,
            _joined([each._columns for each in submissions]),
            {},
            watched=first._watched,
            ranks=first._ranks,
            event_time=False,
        )
        self._sizes = [each._size for each in submissions]

    def results(self, offset: Offset) -> Sequence[Receipts]:
        whole = self._receipts(offset)
        ends = accumulate(self._sizes)
        return [whole.share(end - size, size) for end, size in zip(ends, self._sizes, strict=True)]


def _joined(parts: Sequence[Columns]) -> Columns:
    """Return the events of several submissions, concatenated."""
    ids: list[bytes | None] | None = None
    if any(part.ids is not None for part in parts):
        ids = [id for part in parts for id in part.ids or [None] * part.n]
    return Columns(
        sum([part.n for part in parts]),
        b"".join([part.arena for part in parts]),
        b"".join([part.lengths for part in parts]),
        tuple(
            [
                array("q", b"".join([part.values[place].tobytes() for part in parts]))
                for place in range(len(parts[0].values))
            ]
        ),
        None,
        ids,
        labels=concatenate([(part.labels, part.n) for part in parts]),
    )
