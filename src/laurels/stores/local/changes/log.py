"""The kept changes of the boards in this process: recent blocks in memory, older ones in a file.

The fold appends a block for each record that changed a board. A thread writes blocks to the file
after the commits and removes expired ones. When the store is opened again, the blocks after the
newest snapshot are made again from the log, with the same numbers and tags. So it does not matter
which of them had been written to the file.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from laurels.core.board_state import BoardState
from laurels.core.changes.blocks import Block
from laurels.core.changes.confirmed import least_confirmed
from laurels.core.changes.cursor import NOW, UNKNOWN_TAG, BlockPlace, decode_cursor
from laurels.core.changes.deleted import Deletion, removal_tag
from laurels.core.changes.pages import ChangeContext, ensure_cursor, ensure_kept, place_at
from laurels.core.changes.recorder import RecordedBlock
from laurels.errors import LaurelsError

from .base import ChangeRows, StoredRow
from .board_changes import BoardChanges, cost_of, follow_each_other, rows_of, trim
from .change_read import ChangeRead
from .latest import LatestChanges

WRITE_BEHIND = 100_000
"""Blocks in memory are written to the file when their total cost reaches this. The cost of a block
is the number of its changes plus `BLOCK_COST`, since even a block with a single event takes some 3
KB."""
SHARE = 50
"""The number of boards that are visited without releasing the lock in between."""
WARNED_AT = 0.5
"""A warning is logged when the unsent changes of a sink reach this fraction of `changes_max`."""

_log = logging.getLogger("laurels")


class ChangeLog:
    """The `ChangeRecorder` of a store: it records blocks, under the lock of the fold, and answers
    readers."""

    def __init__(self, file: ChangeRows) -> None:
        self._file = file
        self._boards: dict[int, BoardChanges] = {}
        self._floors: dict[int, BlockPlace] = {}
        self._forgotten: list[int] = []
        self._unwritten = 0
        self._due_at = WRITE_BEHIND
        self._writing = threading.Lock()
        self.latest = LatestChanges()

    # Recording of changes, under the lock of the fold

    def begin(self, states: Iterable[BoardState]) -> None:
        """Begin recording with the states of all boards in a snapshot. Blocks in the file that are
        later than the snapshot are used only if folding the log makes the same blocks again."""
        self._boards = {}
        self._floors = self._file.floors()
        for state in states:
            self._open(state.number, BlockPlace(state.sequence, state.tag))

    def _open(self, number: int, now: BlockPlace) -> BoardChanges:
        """Begin recording a board, with its blocks in the file. If these blocks have a gap or end
        before `now`, drop them and begin without blocks."""
        floor = self._floors.pop(number, None)
        kept = self._boards[number] = BoardChanges(floor or now, now, floor)
        if floor is None:
            return kept
        rows = self._file.rows(number)
        end = BlockPlace(rows[-1].last, rows[-1].tag) if rows else floor
        if not follow_each_other(floor, rows) or end.sequence < now.sequence:
            return self._start_over(number, now)
        kept.rows, kept.written = rows, end
        return kept

    def record(self, state: BoardState, block: RecordedBlock) -> None:
        self.latest.note(state.number)
        kept = self._boards.get(state.number)
        if kept is None:
            kept = self._open(state.number, BlockPlace(block.sequence - 1))
        if block.sequence <= kept.written.sequence:
            # The block is already in the file: the log is being folded again.
            if block.sequence == kept.written.sequence and block.tag != kept.written.tag:
                self._start_over(state.number, BlockPlace(block.sequence, block.tag))
            return
        kept.recent.append(block)
        kept.total += block.sent
        kept.totals.append(kept.total)
        kept.unwritten += cost_of(block)
        self._unwritten += cost_of(block)

    def restart(self, state: BoardState) -> None:
        now = BlockPlace(state.sequence, state.tag)
        kept = self._boards.get(state.number)
        if kept is None:
            kept = self._open(state.number, now)
        if kept.floor.sequence < now.sequence:  # otherwise the log is being folded again
            self._unwritten -= kept.unwritten
            self._boards[state.number] = BoardChanges(now, now, kept.stored, lost=kept.lost)

    def forget(self, board: int) -> None:
        self.latest.forget(board)
        kept = self._boards.pop(board, None)
        if kept is not None:
            self._unwritten -= kept.unwritten
            self._forgotten.append(board)

    def settle(self, states: Iterable[BoardState]) -> None:
        """Remove blocks from the file that are later than the end of the log, or that belong to
        unknown boards."""
        by_number = {state.number: state for state in states}
        for number, kept in list(self._boards.items()):
            state = by_number.get(number)
            if state is None or kept.written.sequence <= state.sequence:
                continue
            # The file may end with the removal of a board after its `retain`, which is not in the
            # log.
            if kept.written != BlockPlace(state.sequence + 1, removal_tag(state)):
                self._start_over(number, BlockPlace(state.sequence, state.tag))
        for number in set(self._file.boards()) - by_number.keys():
            self._file.forget(number)

    def _start_over(self, number: int, now: BlockPlace) -> BoardChanges:
        """Drop all blocks of a board, since those in the file differ from the log or have a gap.
        The next block follows the place `now`."""
        kept = self._boards[number] = BoardChanges(now, now, now)
        self._file.forget(number)
        self._file.write([], [(number, now)])
        return kept

    # Reading

    def read(
        self, state: BoardState, after: str | None, limit: int, deletion: Deletion | None = None
    ) -> "ChangeRead":
        """Return the data from which a page of changes is made. This method is called under the
        lock of the fold; the page is made later, without the lock. `deletion` is the board if
        it is deleted. Raises ChangesNotKept, ChangesExpired, CursorDiverged, InvalidCursor."""
        ensure_kept(state)
        kept = self._boards.get(state.number)
        now = BlockPlace(state.sequence, state.tag)
        floor, first = (now, now.sequence + 1) if kept is None else (kept.floor, kept.first_recent)
        if deletion is not None and floor == now:  # only the deletion itself is still known
            kept, first = None, now.sequence
            floor = BlockPlace(now.sequence - 1, UNKNOWN_TAG)
        place = now if after == NOW else floor
        if after is not None and after != NOW:
            cursor = decode_cursor(after)
            place = place_at(cursor.edge, floor, now)
            if cursor.places:
                ensure_cursor(state, cursor, [floor], [now])
                (place,) = cursor.places
        recent: Sequence[RecordedBlock] = () if deletion is None else (deletion.block(),)
        if kept is not None:
            begin = max(0, place.sequence - first)
            recent = kept.recent[begin : begin + limit + 1]
        is_in_memory = place.sequence >= first or place == now
        if place.sequence + 1 == first:
            is_in_memory |= place.number < 0 and place.sequence == floor.sequence
        context = ChangeContext(state.board.name, state.uid, 0, state.rules)
        file, waiting = None if is_in_memory else self._file, len(recent)
        if kept is not None:
            waiting = (
                kept.sent_from(max(place.sequence, first))
                if is_in_memory
                else kept.sent_from_row(place.sequence)
            )
        is_deleted = deletion is not None
        return ChangeRead(
            context, state.number, place, now, limit, recent, file, waiting, is_deleted
        )

    # Writing of blocks to the file

    def is_due(self) -> bool:
        """Return whether enough blocks are in memory to write them to the file."""
        return self._unwritten >= self._due_at and not self._writing.locked()

    def start(self, lock: "threading.RLock", times: "Times", rest: Callable[[], None]) -> None:
        """Start a thread that writes the blocks in memory to the file. Do nothing while such a
        thread is running. `rest` lets other threads run, and is called after each share of the
        work under the lock."""
        if not self._writing.acquire(blocking=False):
            return

        def run() -> None:
            try:
                self._write(lock, times, rest)
            except LaurelsError as error:
                _log.warning("changes stay in memory: %s", error)
                self._due_at = self._unwritten + WRITE_BEHIND
            finally:
                self._writing.release()

        try:
            threading.Thread(target=run, name="laurels-changes", daemon=True).start()
        except RuntimeError:
            self._writing.release()

    def write(self, lock: "threading.RLock", times: "Times", rest: Callable[[], None]) -> None:
        """Write all recorded blocks durably to the file, and remove expired blocks. Raises
        StorageFailed."""
        with self._writing:
            self._write(lock, times, rest, durable=True)

    def _write(
        self,
        lock: "threading.RLock",
        times: "Times",
        rest: Callable[[], None],
        *,
        durable: bool = False,
    ) -> None:
        with lock:
            forgotten, self._forgotten = self._forgotten, []
            numbers = list(self._boards)
        for number in forgotten:
            self._file.forget(number)
        pending: dict[int, list[RecordedBlock]] = {}
        made: dict[int, list[tuple[StoredRow, list[Block]]]] = {}
        floors: dict[int, BlockPlace] = {}
        moved: dict[int, BlockPlace] = {}
        for share in _shares(numbers):
            with lock:
                some = self._unwritten_blocks(share)
            pending |= some
            made |= {number: list(rows_of(blocks)) for number, blocks in some.items()}
            with lock:
                for number, (state, now_ms) in times(share).items():
                    if (kept := self._boards.get(number)) is not None:
                        floors[number] = floor = self._new_floor(kept, state, now_ms)
                        if floor != kept.stored:
                            moved[number] = floor
            rest()
        if made or moved or (durable and self._file.exists):
            added = ((number, *row) for number, some in made.items() for row in some)
            self._file.write(added, moved.items(), durable=durable)
        self._due_at = WRITE_BEHIND
        for share in _shares(numbers):
            with lock:
                for number in share:
                    if number in pending:
                        rows = [row for row, _ in made[number]]
                        self._note_written(number, pending[number], rows)
                    if number in floors and number in self._boards:
                        self._boards[number].stored = floors[number]
                        trim(self._boards[number], floors[number])
            rest()

    def _unwritten_blocks(self, numbers: Iterable[int]) -> dict[int, list[RecordedBlock]]:
        """Return the blocks of some boards that are not written to the file yet."""
        boards = [(number, self._boards.get(number)) for number in numbers]
        return {
            number: kept.recent[max(0, kept.written.sequence + 1 - kept.first_recent) :]
            for number, kept in boards
            if kept is not None and kept.unwritten
        }

    def _note_written(
        self, number: int, blocks: Sequence[RecordedBlock], rows: list[StoredRow]
    ) -> None:
        kept = self._boards.get(number)
        if kept is None or not blocks:
            return
        last = blocks[-1].sequence - kept.first_recent
        if not 0 <= last < len(kept.recent):  # the board's blocks were dropped meanwhile
            return
        cost = sum(map(cost_of, blocks))
        kept.unwritten -= cost
        self._unwritten -= cost
        kept.written = BlockPlace(blocks[-1].sequence, blocks[-1].tag)
        kept.written_total = kept.totals[last]
        kept.rows += rows

    def _new_floor(self, kept: BoardChanges, state: BoardState, now_ms: int) -> BlockPlace:
        """Return the new `floor`: the blocks up to it need not be kept.

        A block is kept if it has one of the newest `changes_max` changes, and is either younger
        than the `changes` of the board's definition or not yet confirmed by a registered sink.
        """
        rules = state.rules
        if not rules.changes_ms:
            return BlockPlace(state.sequence, state.tag)
        until_ms = now_ms - rules.changes_ms
        units: list[tuple[int, int, int, int]] = [
            (row.last, row.tag, row.count, row.at_ms) for row in kept.rows
        ]
        written = kept.rows[-1].last if kept.rows else 0
        units += [
            (block.sequence, block.tag, block.sent, block.now_ms)
            for block in kept.recent
            if block.sequence > written
        ]
        room = rules.changes_max - sum([count for _, _, count, _ in units])
        confirmed = least_confirmed(state.positions, state.uid)
        floor, lost = kept.floor, 0
        for last, tag, count, at_ms in units:
            is_waited_for = confirmed is not None and last > confirmed
            if room >= 0 and (at_ms >= until_ms or is_waited_for):
                break
            floor = BlockPlace(last, tag)
            room += count
            lost += count if is_waited_for else 0
        if lost:
            self._note_lost(kept, state.board.name, lost)
        unsent = 0 if confirmed is None else sum([n for last, _, n, _ in units if last > confirmed])
        is_warned = unsent - lost >= WARNED_AT * rules.changes_max
        if is_warned and not kept.is_warned:
            _log.warning(
                "%s: a sink has not sent %d changes yet; if there are more than %d (changes_max), "
                "the oldest are removed unsent",
                state.board.name,
                unsent - lost,
                rules.changes_max,
            )
        kept.is_warned = is_warned
        return floor

    def _note_lost(self, kept: BoardChanges, board: str, lost: int) -> None:
        kept.lost += lost
        _log.warning(
            "%s: %d changes exceeded changes_max and were removed before a sink had sent them",
            board,
            lost,
        )

    def lost(self, board: int) -> int:
        """Return the number of changes of a board that this process has removed although a
        registered sink had not confirmed them."""
        kept = self._boards.get(board)
        return 0 if kept is None else kept.lost

    def unsent(self, state: BoardState) -> int:
        """Return the number of changes that the slowest registered sink of a board has not
        confirmed. Blocks that are only in the file are counted by whole rows. O(rows)."""
        confirmed = least_confirmed(state.positions, state.uid)
        kept = self._boards.get(state.number)
        if confirmed is None or kept is None:
            return 0
        first = max(confirmed, kept.floor.sequence) + 1
        if first < kept.first_recent:
            return kept.sent_from_row(first)
        return kept.sent_from(first)

    def close(self) -> None:
        """Wait for a write in progress, then close the file."""
        with self._writing:
            self._file.close()


Times = Callable[[Sequence[int]], Mapping[int, tuple[BoardState, int]]]
"""A function that returns boards by their numbers, each with its current time."""


def _shares(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    """Divide boards into shares, each of which is visited while the lock is held once."""
    for first in range(0, len(numbers), SHARE):
        yield numbers[first : first + SHARE]
