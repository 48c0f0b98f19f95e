"""The writes that close and seal periods."""

from collections.abc import Sequence

import msgspec

from laurels.core import record
from laurels.core.board_state import BoardState
from laurels.core.closing import DuePeriod
from laurels.core.fold import Fold

from .tags import new_tag
from .writes import RecordsWrite


def close_records(board: BoardState, due: Sequence[DuePeriod], now_ms: int) -> list[record.Close]:
    """Return the records that close periods of a board at `now_ms`."""
    return [
        record.Close(
            board.number,
            board.version,
            now_ms,
            each.window,
            each.instance,
            each.final_ms,
            new_tag(),
        )
        for each in due
    ]


class ClosingWrite(RecordsWrite):
    """A write that closes the due periods of boards. The commit itself makes this write, before the
    writes to these boards, so nobody waits for it and it has no results."""

    exclusive = False

    def __init__(self, closes: Sequence[record.Close]) -> None:
        self._records = closes

    def records(self, boards: object, now_ms: int) -> list[record.Record]:
        return list(self._records)

    def encoded(self) -> list[msgspec.Raw]:
        """Return the records of the write as parts of a log entry."""
        return list(map(record.encode_one, self._records))

    def results(self, offset: int) -> Sequence[None]:
        return []


class ClosingShare(RecordsWrite):
    """A write that lets its commit close the due periods of up to `limit` boards, to which nobody
    writes. Its result is the number of these periods, `closed`."""

    exclusive = False

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.closed = 0

    def records(self, boards: object, now_ms: int) -> list[record.Record]:
        return []

    def results(self, offset: int) -> Sequence[int]:
        return [self.closed]


class DueClosings:
    """The closings that a commit makes before its writes: the periods that are due, of each board
    that it writes to, and of the boards of a `ClosingShare`."""

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._closed: set[tuple[int, str, int]] = set()

    def before(self, number: int, now_ms: int) -> ClosingWrite | None:
        """Return the write that closes the due periods of a board. It comes before a write to this
        board, which is drafted at `now_ms`. Return None if nothing is due that an earlier call has
        not returned."""
        board = self._fold.by_number(number)
        at_ms = self._fold.accepts_at(board, now_ms)
        due = [
            each
            for each in self._fold.closings.due(board, at_ms)
            if (number, each.window, each.instance) not in self._closed
        ]
        self._closed |= {(number, each.window, each.instance) for each in due}
        return ClosingWrite(close_records(board, due, at_ms)) if due else None

    def share(self, share: ClosingShare, now_ms: int) -> list[ClosingWrite]:
        """Return the writes that close the due periods of the next boards, as `before` does."""
        ready = self._fold.closings.ready(self._fold.clock_ms, share.limit)
        closings = [self.before(state.number, now_ms) for state in ready]
        found = [closing for closing in closings if closing is not None]
        share.closed = sum(len(closing.pieces()) for closing in found)
        return found
