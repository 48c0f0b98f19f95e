"""Reading kept changes without a lock, while new ones are recorded."""

from collections.abc import Iterator, Sequence
from itertools import chain

from msgspec import Struct

from laurels.core.changes.answers import ChangePage
from laurels.core.changes.blocks import Block
from laurels.core.changes.counted_batch import CountedBatch
from laurels.core.changes.cursor import BlockPlace
from laurels.core.changes.pages import ChangeContext, make_page, sent_before, start_of
from laurels.core.changes.recorder import RecordedBlock

from .base import ChangeRows


class ChangeRead(Struct, frozen=True):
    """The data from which a page of changes is made without a lock: the blocks in memory, and the
    file with older blocks."""

    context: ChangeContext
    number: int
    place: BlockPlace
    newest: BlockPlace
    limit: int
    recent: Sequence[RecordedBlock]
    file: ChangeRows | None
    waiting: int
    """The number of changes for sinks in the first block that `_blocks` yields and in all later
    blocks of the board."""
    is_deleted: bool = False

    def page(self) -> ChangePage:
        """Return the page. Raises CursorDiverged if the block of the cursor has another tag than
        the cursor, ChangesExpired if the block was removed meanwhile."""
        blocks, waiting = self._blocks(), self.waiting
        first: list[Block] = []
        for block in blocks:
            if block.sequence >= self.place.sequence:
                first = [block]
                break
            waiting -= block.sent
        if first and first[0].sequence == self.place.sequence:
            waiting -= sent_before(first[0], start_of(first[0], self.place))
        rest = ((0, block) for block in chain(first, blocks))
        return make_page(
            [self.context],
            [self.place],
            [self.newest],
            rest,
            self.limit,
            waiting,
            deleted=self.is_deleted,
        )

    def _blocks(self) -> Iterator[Block]:
        """Yield the block of the cursor, if it is available, and all later blocks. Earlier blocks
        may precede it if they are in the same row of the file."""
        until = self.recent[0].sequence if self.recent else self.newest.sequence + 1
        if self.file is not None:
            for blocks in self.file.read(self.number, self.place.sequence):
                for block in blocks:
                    if block.sequence >= until:
                        break
                    yield block
        for recent in self.recent:
            if recent.sequence >= self.place.sequence:
                yield recent.block() if isinstance(recent, CountedBatch) else recent
