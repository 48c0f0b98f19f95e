"""The ledger as the target of a sink.

Each page is one transaction: it writes the last row for each member and ranking, and moves the
sink's position from the beginning of the page to its end. So an interrupted page leaves no trace.
If the stored position is not the beginning of the page, the transaction is rolled back. So a paused
runner that resumes changes nothing if another runner has taken over.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from typing import Any, TypeVar

import msgspec

from laurels.api.aio import AsyncLeaderboards
from laurels.core.changes.answers import Change
from laurels.errors import LaurelsError, UnknownBoard
from laurels.errors.sinks import LedgerTaken, SinkOvertaken
from laurels.flows.sinks.target import SinkPage
from laurels.model.board import Board
from laurels.sql.dialects import Dialect, Row
from laurels.sql.final_erasing import FinalEraser
from laurels.sql.final_tables import FinalTables
from laurels.sql.making import make_tables
from laurels.sql.tables import Tables
from laurels.sql.texts import bucket_of, escape

from .payouts import payout_rows
from .rows import GENERATION_BITS, Flush, flush_of
from .season_rows import SeasonRows
from .seasons import SeasonsOfBoard, Staged, complete
from .written_board import WrittenBoard

T = TypeVar("T")

LIMIT = 10_000
ROWS_A_STATEMENT = 5_000
OF_ENTRIES = ("scores", "member_data", "hidden", "closed_periods")
"""The tables that every restart of the sink fills anew."""
CHANGES_A_SHARE = 2_500
"""The number of changes that are converted to rows while the database writes the previous rows."""


class LedgerTarget:
    """Writes the standings of boards into the tables of an SQL database."""

    keeps_positions = True
    holds_state = True
    limit = LIMIT

    def __init__(
        self,
        dialect: Dialect,
        prefix: str,
        sink: str,
        boards: AsyncLeaderboards,
        now_ms: Callable[[], int],
    ) -> None:
        self._dialect = dialect
        self._tables = Tables(dialect, prefix)
        self._sink = sink
        self._store = boards
        self._now_ms = now_ms
        self._database_thread = ThreadPoolExecutor(1, "laurels-ledger")
        self._row_thread = ThreadPoolExecutor(1, "laurels-ledger-rows")
        self._connection: Any = None
        self._boards: dict[str, WrittenBoard] = {}

    async def open(self) -> None:
        """Connect, and create missing tables. Raises LedgerTooNew."""
        await self._in_thread(self._make_tables)

    async def position(self, board: str) -> str | None:
        """Return the stored cursor of a board; None if no sink has written the board. Raises
        LedgerTaken if another sink writes it."""
        return (await self._in_thread(lambda: self._stored(board)))[0]

    async def deliver(self, page: SinkPage) -> None:
        if page.payouts is not None:
            boards = {each.board: await self._find(each.board) for each in page.payouts}
            rows = payout_rows(page.payouts, boards, self._now_ms())
            await self._in_thread(lambda: self._deliver_payouts(page, rows))
            return
        board_state = self._boards.get(page.board)
        if page.definition is not None:
            if board_state is None or board_state.definition != page.definition:
                board_state = self._boards[page.board] = WrittenBoard(page.definition)
        elif board_state is None or any(
            change.kind in ("create", "change", "undelete") for change in page.changes
        ):
            board_state = await self._load_definition(page.board)
        try:
            staged = await self._stage(page, board_state)
            unsealed = await self._unsealed(page, board_state)
            await self._in_thread(lambda: self._deliver(page, board_state, staged, unsealed))
        except BaseException:
            # The transaction may have been rolled back. Then `board_state` is wrong: it says that
            # the definition was written and that expired periods were deleted.
            self._boards.pop(page.board, None)
            raise
        if page.changes[-1].kind == "delete":
            del self._boards[page.board]

    async def reset(self, board: str, position: str | None) -> None:
        await self._in_thread(lambda: self._reset(board, position))

    async def close(self) -> None:
        await asyncio.to_thread(self._database_thread.shutdown)
        await asyncio.to_thread(self._row_thread.shutdown)
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _find(self, board: str) -> Board | None:
        """Return the definition of a board; None if there is none."""
        if (board_state := self._boards.get(board)) is not None:
            return board_state.definition
        with suppress(UnknownBoard):
            return await self._store.get(board)
        return None

    async def _stage(self, page: SinkPage, board_state: WrittenBoard) -> Staged | None:
        """Fetch the sealed periods and payouts that a page announces. Return None for the page of a
        deleted board, since its archive cannot be read any more."""
        if page.definition is not None:
            return None
        seasons = self._seasons(board_state)

        def run(work: Callable[[Any], Any]) -> Awaitable[Any]:
            return self._in_thread(lambda: work(self._connection))

        return await seasons.stage(page.changes, run)

    async def _unsealed(self, page: SinkPage, board_state: WrittenBoard) -> dict[str, list[str]]:
        """Return, by window, the labels of the periods that are not sealed yet. Windows that close
        no periods are left out, and so are windows without expired periods to be deleted."""
        latest_ms = max(board_state.latest_ms, *[change.at_ms for change in page.changes])
        oldest = board_state.oldest(latest_ms)
        if page.definition is not None:
            return {}
        seasons = self._seasons(board_state)
        return {
            window: await seasons.unsealed(window)
            for window in board_state.closing
            if window in oldest and board_state.deleted_before_ms.get(window) != oldest[window]
        }

    def _seasons(self, board_state: WrittenBoard) -> SeasonsOfBoard:
        definition = board_state.definition
        prefix = self._tables.prefix
        return SeasonsOfBoard(self._store, self._dialect, prefix, definition, self._now_ms)

    async def _load_definition(self, board: str) -> WrittenBoard:
        definition = await self._store.get(board)
        self._boards[board] = board_state = WrittenBoard(definition)
        return board_state

    async def _in_thread(self, work: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._database_thread, lambda: self._in_transaction(work))

    def _in_transaction(self, work: Callable[[], T]) -> T:
        """Call `work` in a transaction and return its result; disconnect after an error."""
        if self._connection is None:
            self._connection = self._dialect.connect()
        try:
            with self._dialect.errors():
                result = work()
                self._connection.commit()
                return result
        except BaseException:
            self._disconnect()
            raise

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        try:
            with self._dialect.errors():
                connection.close()
        except LaurelsError:
            pass

    def _execute(self, statement: str, *row: Any) -> Any:
        return self._dialect.execute(self._connection, statement, row)

    def _make_tables(self) -> None:
        make_tables(self._dialect, self._tables.prefix, self._connection)

    def _stored(self, board: str) -> tuple[str | None, int]:
        """Return the position and the generation of this sink on a board; None and 0 if no sink has
        written the board. Raises LedgerTaken."""
        rows = self._execute(
            f"SELECT sink, position, generation FROM {self._tables.name('sinks')} WHERE board = %s",
            board,
        ).fetchall()
        for sink, position, generation in rows:
            if sink == self._sink:
                return position, int(generation)
        if rows:
            raise LedgerTaken(f"the sink {rows[0][0]!r} already writes the board {board!r}")
        return None, 0

    def _deliver_payouts(self, page: SinkPage, rows: list[Row]) -> None:
        """Write due payouts, and move the sink's position in the list of due payouts."""
        if self._generation_before(page) is not None:
            self._move_position(page, 1)
            self._upsert(
                "payouts", FinalTables(self._dialect, self._tables.prefix).payouts, 1, rows
            )

    def _generation_before(self, page: SinkPage) -> int | None:
        """Return the generation of the sink before a page; None if the ledger has the page already,
        since an earlier delivery succeeded but its acknowledgement was lost. Raises
        SinkOvertaken."""
        stored, generation = self._stored(page.board)
        if stored == page.after:
            return None
        if stored != page.before:
            raise SinkOvertaken(
                f"the sink {self._sink!r} is at another position in the ledger than this runner"
            )
        return generation

    def _deliver(
        self,
        page: SinkPage,
        board_state: WrittenBoard,
        staged: Staged | None,
        unsealed: Mapping[str, Sequence[str]],
    ) -> None:
        if (generation := self._generation_before(page)) is None:
            return
        if page.restarts or not generation:
            generation += 1
        self._move_position(page, generation)
        self._season_rows.load_closed(page, board_state)
        if page.changes[-1].kind == "delete":
            self._delete_board(page.board, generation)
            return
        lives = _lives(page.changes)
        for changes in lives:
            self._write_changes(page.board, changes, generation, board_state)
            if changes is not lives[-1]:  # the board was deleted, and then restored
                self._delete_board(page.board, generation)
        if staged is not None:
            prefix, rules = self._tables.prefix, board_state.rules
            complete(staged, self._dialect, prefix, self._connection, rules)
            closed = dict.fromkeys(staged.closed, (None, 0))
            self._season_rows.write_closed(page.board, closed, board_state)
        self._erase_members(page.changes)
        board_state.latest_ms = max(
            board_state.latest_ms, *[change.at_ms for change in page.changes]
        )
        self._season_rows.delete_expired(page.board, board_state, unsealed)

    def _write_changes(
        self, board: str, changes: Sequence[Change], generation: int, board_state: WrittenBoard
    ) -> None:
        """Write the changes of a board up to its deletion or the end of the page."""
        for flush in self._flushes(changes, generation, board_state):
            self._write(board, flush, generation)
            if flush.defines or not board_state.is_written:
                self._write_definition(board, board_state, generation)
            if flush.ends_initial:
                self._delete_older(board, generation)
            board_state.is_written = True

    def _erase_members(self, changes: Sequence[Change]) -> None:
        """Replace erased members by their tokens in the periods that were sealed before the
        erasure. Do nothing if the key of the sink does not administer, since the changes that it
        may read have no token."""
        for at, change in enumerate(changes):
            if change.kind != "erase" or change.member is None or change.data is None:
                continue
            later = {
                (each.data["window"], each.data["period"] or "")
                for each in changes[at:]
                if each.kind == "seal"
            }
            eraser = FinalEraser(self._dialect, self._tables.prefix, self._connection)
            uid = change.id.partition("/")[0]
            eraser.erase(uid, change.member, change.data["token"], later)

    def _flushes(
        self, changes: Sequence[Change], generation: int, board_state: WrittenBoard
    ) -> Iterator[Flush]:
        """Yield the writes for the changes of a page, in shares. While the database carries out the
        writes of a share, a second thread prepares the writes of the next share."""
        shares = [
            changes[first : first + CHANGES_A_SHARE]
            for first in range(0, len(changes), CHANGES_A_SHARE)
        ]

        def begin(share: Sequence[Change]) -> Future[Flush]:
            closed = board_state.closed
            return self._row_thread.submit(
                flush_of, share, generation, board_state.start_of, closed
            )

        next_flush = begin(shares[0])
        for share in shares[1:]:
            flush, next_flush = next_flush.result(), begin(share)
            yield flush
        yield next_flush.result()

    def _move_position(self, page: SinkPage, generation: int) -> None:
        """Move the stored position from the beginning of the page to its end. The row of the
        position is locked until the transaction ends."""
        table = self._tables.name("sinks")
        now_ms = self._now_ms()
        if (
            page.before is None
            and not self._execute(
                f"SELECT 1 FROM {table} WHERE board = %s AND sink = %s", page.board, self._sink
            ).fetchall()
        ):
            self._execute(
                f"INSERT INTO {table} (board, sink, position, generation, updated_at) "
                f"VALUES (%s, %s, %s, %s, %s)",
                *(page.board, self._sink, page.after, generation, now_ms),
            )
            return
        condition = "position IS NULL" if page.before is None else "position = %s"
        moved = self._execute(
            f"UPDATE {table} SET position = %s, generation = %s, updated_at = %s "
            f"WHERE board = %s AND sink = %s AND {condition}",
            *(page.after, generation, now_ms, page.board, self._sink),
            *(() if page.before is None else (page.before,)),
        )
        if moved.rowcount != 1:
            raise SinkOvertaken(f"another runner of the sink {self._sink!r} has continued")

    def _write(self, board: str, flush: Flush, generation: int) -> None:
        name = self._tables.name
        deleted: list[Row] = []
        rows: list[Row] = []
        for member, entries in flush.entries.items():
            escaped_member = escape(member)
            bucket = bucket_of(member)
            for (window, period, scope), row in entries.items():
                key = (board, escaped_member, window, period, scope)
                if row is None:
                    deleted.append(key)
                    continue
                times = row.reached_at, row.last_at, row.period_start
                rows.append((*key, *row.scores, *times, bucket, row.version))
        version = generation << GENERATION_BITS
        data = [(board, escape(m), text, v) for m, (text, v) in flush.data.items()]
        positions: list[Row] = [
            (board, escape(source), escape(text), version)
            for source, text in flush.positions.items()
        ]
        scopes: list[Row] = [
            (board, scope, msgspec.json.encode(labels).decode(), version)
            for scope, labels in flush.scopes.items()
        ]
        if flush.clears:
            self._delete("scores", ("board",), [(board,)])
            self._delete("member_data", ("board",), [(board,)])
        self._season_rows.remove_members(board, flush.removed)
        self._delete("scores", tuple(list(self._tables.scores)[:5]), deleted)
        self._upsert("scores", self._tables.scores, 5, rows)
        self._upsert("member_data", self._tables.member_data, 2, data)
        self._upsert("source_positions", self._tables.source_positions, 2, positions)
        self._upsert("scopes", self._tables.scopes, 2, scopes)
        if any(text is None for text, _ in flush.data.values()):
            self._execute(
                f"DELETE FROM {name('member_data')} WHERE board = %s AND data IS NULL", board
            )
        self._season_rows.write(board, flush, self._boards[board], self._now_ms())

    @property
    def _season_rows(self) -> SeasonRows:
        return SeasonRows(self._dialect, self._tables.prefix, self._connection)

    def _delete(self, table: str, columns: tuple[str, ...], rows: list[Row]) -> None:
        if rows:
            self._dialect.delete(self._connection, self._tables.name(table), columns, rows)

    def _upsert(self, table: str, types: dict[str, str], key: int, rows: list[Row]) -> None:
        """Insert or update rows, in statements of up to ROWS_A_STATEMENT rows."""
        for start in range(0, len(rows), ROWS_A_STATEMENT):
            group = rows[start : start + ROWS_A_STATEMENT]
            self._dialect.upsert(self._connection, self._tables.name(table), types, key, group)

    def _write_definition(self, board: str, board_state: WrittenBoard, generation: int) -> None:
        definition = board_state.definition
        row = (board, escape(definition.title), definition.to_json().decode(), generation)
        self._upsert("boards", self._tables.boards, 1, [row])

    def _delete_board(self, board: str, generation: int) -> None:
        """Delete the rows of a deleted board. The position stays, and so do rows of a later
        generation, which would belong to a new board of the same name."""
        for table in (*OF_ENTRIES, "source_positions", "scopes"):
            self._execute(
                f"DELETE FROM {self._tables.name(table)} WHERE board = %s AND version < %s",
                *(board, (generation + 1) << GENERATION_BITS),
            )
        self._execute(
            f"DELETE FROM {self._tables.name('boards')} WHERE board = %s AND version <= %s",
            *(board, generation),
        )

    def _delete_older(self, board: str, generation: int) -> None:
        """Delete the rows of older generations, once all current entries have been written."""
        for table in OF_ENTRIES:
            self._execute(
                f"DELETE FROM {self._tables.name(table)} WHERE board = %s AND version < %s",
                *(board, generation << GENERATION_BITS),
            )

    def _reset(self, board: str, position: str | None) -> None:
        self._execute(
            f"UPDATE {self._tables.name('sinks')} SET position = %s WHERE board = %s AND sink = %s",
            *(position, board, self._sink),
        )


def _lives(changes: Sequence[Change]) -> list[Sequence[Change]]:
    """Return the changes in parts: each part but the last one ends with a deletion of the board,
    and the next one begins with its restoration."""
    ends = [at + 1 for at, change in enumerate(changes) if change.kind == "delete"]
    bounds = [0, *ends, len(changes)]
    return [changes[start:end] for start, end in pairwise(bounds) if start < end]
