"""The kept changes of one board, in memory and in rows of the file."""

from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import Struct, field

from laurels.core.changes.blocks import Block
from laurels.core.changes.counted_batch import CountedBatch
from laurels.core.changes.cursor import BlockPlace
from laurels.core.changes.recorder import RecordedBlock

from .base import StoredRow

BLOCK_COST = 20
TAIL = 16
"""The number of a board's newest blocks that stay in memory after they were written, for readers
that follow the board."""
TAIL_CHANGES = 10_000
"""If the newest blocks of a board have this many changes together, fewer than `TAIL` written blocks
stay in memory: older ones are dropped."""
ROW_CHANGES = 5_000
ROW_BLOCKS = 500


class BoardChanges(Struct):
    """The blocks of one board. Blocks up to `written` are in rows of the file, and `recent` has the
    newest blocks in memory. There is no gap between the file and `recent`. The blocks up to `floor`
    were removed, and the oldest kept block follows it. `stored` is the value of `floor` that is in
    the file."""

    floor: BlockPlace
    written: BlockPlace
    stored: BlockPlace | None = None
    rows: list[StoredRow] = field(default_factory=list)
    recent: list[RecordedBlock] = field(default_factory=list)
    totals: list[int] = field(default_factory=list)
    """For each block in memory, the running total `total` after it: the changes for sinks in this
    block and in all blocks that this process recorded before it."""
    total: int = 0
    written_total: int = 0
    unwritten: int = 0
    lost: int = 0
    """The number of changes that this process has removed although a registered sink had not
    confirmed them."""
    is_warned: bool = False
    """Whether a warning was logged that unconfirmed changes will soon be removed."""

    @property
    def first_recent(self) -> int:
        """The sequence number of the oldest block in memory. If no block is in memory, the sequence
        number of the next block to be recorded."""
        return self.recent[0].sequence if self.recent else self.written.sequence + 1

    def sent_from(self, sequence: int) -> int:
        """Return the number of changes for sinks in the block `sequence` and all later blocks. The
        block `sequence` has to be in memory, or be the next one to be recorded."""
        at = sequence - self.first_recent
        if at < len(self.recent):
            return self.total - self.totals[at] + self.recent[at].sent
        return 0

    def sent_from_row(self, sequence: int) -> int:
        """Like `sent_from`, for a block that is only in the file. The earlier blocks in the row of
        this block are counted, too. O(rows)."""
        rows = sum([row.count for row in self.rows if row.last >= sequence])
        return rows + self.total - self.written_total


def follow_each_other(floor: BlockPlace, rows: Sequence[StoredRow]) -> bool:
    """Return whether the rows have every block after `floor`, without a gap."""
    last = floor.sequence
    for row in rows:
        if row.first > last + 1:
            return False
        last = row.last
    return True


def rows_of(
    blocks: Sequence[RecordedBlock],
) -> Iterator[tuple[StoredRow, list[Block]]]:
    """Group blocks into rows of the file."""
    left = iter(blocks)
    while some := list(islice(left, 1)):
        count = some[0].count
        while count < ROW_CHANGES and len(some) < ROW_BLOCKS:
            more = next(left, None)
            if more is None:
                break
            some.append(more)
            count += more.count
        last, sent = some[-1], sum([block.sent for block in some])
        row = StoredRow(some[0].sequence, last.sequence, last.tag, sent, last.now_ms)
        yield row, [block.block() if isinstance(block, CountedBatch) else block for block in some]


def trim(kept: BoardChanges, floor: BlockPlace) -> None:
    """Drop the blocks up to a floor. Also drop, from memory only, written blocks that are not among
    the newest."""
    if floor.sequence > kept.floor.sequence:
        kept.floor = floor
        kept.rows = [row for row in kept.rows if row.last > floor.sequence]
    changes, tail = 0, 0
    while tail < min(TAIL, len(kept.recent)) and changes < TAIL_CHANGES:
        tail += 1
        changes += kept.recent[-tail].count
    written = max(0, kept.written.sequence + 1 - kept.first_recent)
    expired = max(0, floor.sequence + 1 - kept.first_recent)
    gone = max(expired, min(written, len(kept.recent) - tail))
    if gone > 0:
        del kept.recent[:gone]
        del kept.totals[:gone]


def cost_of(block: RecordedBlock) -> int:
    """Return the approximate memory of a block, in units of one change of a large batch."""
    return BLOCK_COST + block.count
