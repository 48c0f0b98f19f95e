"""The rows of a ledger that depend on closed periods and on hidden members."""

from collections.abc import Mapping, Sequence
from typing import Any

from laurels.flows.sinks.target import SinkPage
from laurels.sql.dialects import Dialect, Row
from laurels.sql.final_tables import FinalTables
from laurels.sql.hidden_rows import row_of_hiding
from laurels.sql.payout_rows import payout_key
from laurels.sql.texts import escape

from .rows import Flush, Period
from .written_board import WrittenBoard

AT_ONCE = 500
"""The maximum number of members or rows in a statement."""


class SeasonRows:
    """Writes these rows over a connection, in transactions that the caller begins and commits."""

    def __init__(self, dialect: Dialect, prefix: str, connection: Any) -> None:
        self._dialect = dialect
        self._final = FinalTables(dialect, prefix)
        self._connection = connection

    def remove_members(self, board: str, removed: Mapping[str, frozenset[Period]]) -> None:
        """Delete the rows of removed members, except those in periods that were closed when the
        member was removed."""
        self._delete("member_data", ("board", "member"), [(board, escape(m)) for m in removed])
        by_closed: dict[frozenset[Period], list[str]] = {}
        for member, closed in removed.items():
            by_closed.setdefault(closed, []).append(escape(member))
        for closed, members in by_closed.items():
            if not closed:
                self._delete("scores", ("board", "member"), [(board, each) for each in members])
                continue
            values = "VALUES " if self._dialect.name == "sqlite" else ""
            kept_rows = ", ".join(["(%s, %s)"] * len(closed))
            kept = [value for period in sorted(closed) for value in period]
            for start in range(0, len(members), AT_ONCE):
                group = members[start : start + AT_ONCE]
                self._execute(
                    f"DELETE FROM {self._final.name('scores')} WHERE board = %s "
                    f"AND member IN ({', '.join(['%s'] * len(group))}) "
                    f"AND (window_name, period) NOT IN ({values}{kept_rows})",
                    *(board, *group, *kept),
                )

    def write(self, board: str, flush: Flush, board_state: WrittenBoard, now_ms: int) -> None:
        """Write closed periods, hidden members and confirmed payouts."""
        self.write_closed(board, flush.closed, board_state)
        hidden: list[Row] = []
        shown: list[Row] = []
        for member, (hiding, version) in flush.hidden.items():
            if hiding is None:
                shown.append((board, escape(member)))
            else:
                hidden.append(row_of_hiding(board, member, hiding, version))
        self._delete("hidden", ("board", "member"), shown)
        self._upsert("hidden", self._final.hidden, 2, hidden)
        for payout, (reference, at_ms) in flush.confirmed.items():
            self._execute(
                f"UPDATE {self._final.name('payouts')} SET reference = %s, confirmed_at = %s, "
                "version = %s WHERE payout = %s AND version <= %s",
                *(escape(reference), at_ms, now_ms, payout_key(payout), now_ms),
            )

    def write_closed(
        self,
        board: str,
        closed: Mapping[Period, tuple[int | None, int]],
        board_state: WrittenBoard,
    ) -> None:
        """Write closed periods."""
        rows: list[Row] = [
            (board, *period, board_state.start_of(*period) if period[1] else None, *times)
            for period, times in closed.items()
        ]
        self._upsert("closed_periods", self._final.closed, 3, rows)
        if board_state.closed is not None:
            board_state.closed.update(closed)

    def load_closed(self, page: SinkPage, board_state: WrittenBoard) -> None:
        """Read from the ledger which periods are closed, unless that was read before. A sink that
        starts over begins without closed periods, since it gets them again with the entries."""
        if page.restarts:
            board_state.closed = set()
        elif board_state.closed is None:
            rows = self._execute(
                f"SELECT window_name, period FROM {self._final.name('closed_periods')} "
                "WHERE board = %s",
                page.board,
            ).fetchall()
            board_state.closed = {(window, period) for window, period in rows}

    def delete_expired(
        self, board: str, board_state: WrittenBoard, unsealed: Mapping[str, Sequence[str]]
    ) -> None:
        """Delete the rows of periods that the board no longer keeps, unless this was done since the
        last period ended. The periods in `unsealed` stay for now."""
        for window, oldest_ms in board_state.oldest(board_state.latest_ms).items():
            if board_state.deleted_before_ms.get(window) == oldest_ms:
                continue
            labels = [
                label
                for label in unsealed.get(window, ())
                if board_state.start_of(window, label) < oldest_ms
            ]
            which = f" AND period NOT IN ({', '.join(['%s'] * len(labels))})" if labels else ""
            for table in ("scores", "closed_periods"):
                self._execute(
                    f"DELETE FROM {self._final.name(table)} "
                    f"WHERE board = %s AND window_name = %s AND period_start < %s{which}",
                    *(board, window, oldest_ms, *labels),
                )
            if board_state.closed:
                board_state.closed -= {
                    (name, label)
                    for name, label in board_state.closed
                    if name == window
                    and label not in ("", *labels)
                    and board_state.start_of(name, label) < oldest_ms
                }
            if not labels:
                board_state.deleted_before_ms[window] = oldest_ms

    def _delete(self, table: str, columns: tuple[str, ...], rows: list[Row]) -> None:
        if rows:
            self._dialect.delete(self._connection, self._final.name(table), columns, rows)

    def _upsert(self, table: str, types: dict[str, str], key: int, rows: list[Row]) -> None:
        for start in range(0, len(rows), AT_ONCE):
            group = rows[start : start + AT_ONCE]
            self._dialect.upsert(self._connection, self._final.name(table), types, key, group)

    def _execute(self, statement: str, *row: Any) -> Any:
        return self._dialect.execute(self._connection, statement, row)
