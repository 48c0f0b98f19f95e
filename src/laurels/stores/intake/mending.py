"""The write that replaces entries of rankings."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from laurels.core import record
from laurels.core.board_state import Boards, BoardState
from laurels.core.fold import Fold
from laurels.core.lifecycle import oldest_stored
from laurels.core.mending import MendedColumns, RankingEntries, entry_columns, entry_rows
from laurels.core.named_windows import window_named
from laurels.engine.batch.packing import pack, split_texts, unpack
from laurels.errors.ledger import InvalidEntry
from laurels.model.labels import scope_named
from laurels.model.validation import quoted
from laurels.timeline.instants import MIN_MS

from .tags import new_tag
from .writes import RecordsWrite


class _Prepared(Struct, frozen=True):
    """The validated entries of one ranking."""

    window: str
    instance: int
    scope: str
    columns: MendedColumns
    expected: record.EntryRows | None


class Mending(RecordsWrite):
    """A write that replaces entries of rankings. It has a record for each ranking, and needs a
    commit of its own. Its result is the number of replaced entries."""

    def __init__(
        self, board: BoardState, rankings: Sequence[RankingEntries], at_ms: int | None
    ) -> None:
        self.board = board
        self.name = board.board.name
        self._number = board.number
        self._at_ms = MIN_MS if at_ms is None else at_ms
        self._prepared = [_prepared(board, each) for each in rankings]
        self._records: list[record.MendRanking] = []
        self.weight = 1 + sum([len(each.columns.lengths) for each in self._prepared])
        self.done = 0

    def records(self, boards: Boards, now_ms: int) -> list[record.Record]:
        return list(self.mends(boards, now_ms))

    def mends(self, boards: Boards, now_ms: int) -> list[record.MendRanking]:
        """Return a record for each ranking that the board still keeps at its current time."""
        state = boards.named(self.name)
        if boards.event_time:
            now_ms = max(boards.accepts_at(state, now_ms), self._at_ms)
        oldest_ms = oldest_stored(state.rules, state.floors, now_ms)
        self._records = [
            record.MendRanking(
                state.number,
                state.version,
                now_ms,
                each.window,
                each.instance,
                each.scope,
                each.columns.members,
                each.columns.lengths,
                each.columns.rows,
                each.expected,
                new_tag(),
            )
            for each in self._prepared
            if each.instance >= oldest_ms.get(each.window, MIN_MS)
            and not _is_closed(boards, state, each, now_ms)
        ]
        return self._records

    def prepare(self, fold: Fold, limit: int) -> bool:
        scopes = [each.scope for each in self._prepared if each.scope]
        return fold.advance_number(self._number, scopes, limit)

    def fold(self, fold: Fold, piece: int) -> None:
        self.done += fold.mend(self._records[piece])

    def results(self, offset: int) -> Sequence[Any]:
        return [self.done]


def _is_closed(boards: Boards, state: BoardState, wanted: _Prepared, now_ms: int) -> bool:
    """Return whether the period of a ranking is closed, so that its entries do not change."""
    if not state.closing:
        return False
    window = state.rules.windows[wanted.window]
    return boards.closed_at(state, now_ms)(window, window.period_of(wanted.instance))


def _prepared(board: BoardState, wanted: RankingEntries) -> _Prepared:
    """Validate the entries of a ranking. Raises InvalidEntry and the errors of windows, periods,
    labels and values."""
    rules = board.rules
    window = window_named(rules, wanted.window)
    if window.steps or window.weighing is not None:
        raise InvalidEntry(
            f"expected a window whose entries do not change with time, got {quoted(window.name)}"
        )
    instance = window.period_at(0).start_ms
    if window.has_periods:
        if wanted.period is None:
            raise InvalidEntry(f"expected a period of the window {quoted(window.name)}, got none")
        instance = window.instance_of(window.period(wanted.period))
    elif wanted.period:
        raise InvalidEntry(
            f"the window {quoted(window.name)} has no periods, got {quoted(wanted.period)}"
        )
    columns = entry_columns(wanted.entries, rules)
    expected = None
    if wanted.expected is not None:
        if [each.member for each in wanted.expected] != [each.member for each in wanted.entries]:
            raise InvalidEntry("expected the same members in `expected` as in the new entries")
        expected = entry_rows(wanted.expected, rules)
    scope = scope_named(rules, wanted.labels)
    return _Prepared(window.name, instance, scope, columns, expected)


def parts_of_mend(mend: record.MendRanking, most: int) -> list[record.MendRanking]:
    """Divide a record into records of at most `most` entries."""
    size = len(mend.lengths)
    if size <= most:
        return [mend]
    members = split_texts(mend.members, mend.lengths)
    return [
        replace(
            mend,
            members=b"".join(members[first : first + most]),
            lengths=mend.lengths[first : first + most],
            entries=_span(mend.entries, size, first, most),
            expected=None if mend.expected is None else _span(mend.expected, size, first, most),
            tag=new_tag(),
        )
        for first in range(0, size, most)
    ]


def _span(rows: record.EntryRows, size: int, first: int, most: int) -> record.EntryRows:
    end = first + most
    columns = tuple([pack(unpack(column, size)[first:end]) for column in rows.words])
    return record.EntryRows(rows.present[first:end], columns)
