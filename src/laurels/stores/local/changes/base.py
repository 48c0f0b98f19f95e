"""The protocol of a store for blocks of changes that are no longer kept in memory."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from laurels.core.changes.blocks import Block
from laurels.core.changes.cursor import BlockPlace


class StoredRow(Struct, frozen=True):
    """A row of the file without its blocks: the sequence numbers of its first and last block, the
    tag of the last block, `count`, the number of changes that sinks send, and `at_ms`, the time of
    the newest change."""

    first: int
    last: int
    tag: int
    count: int
    at_ms: int


RowOfBoard = tuple[int, StoredRow, Sequence[Block]]
"""The number of a board, a row, and its blocks."""


class ChangeRows(Protocol):
    """Rows of blocks by board number. One thread writes at a time; readers at any time."""

    @property
    def exists(self) -> bool:
        """Whether anything was ever written."""

    def floors(self) -> dict[int, BlockPlace]:
        """Return the floor of each board, by its number: the place before its oldest block."""

    def rows(self, board: int) -> list[StoredRow]:
        """Return the rows of a board, without their blocks, in order."""

    def read(self, board: int, first: int) -> Iterator[list[Block]]:
        """Yield the blocks of a board, row by row, beginning with the row that has block
        `first`."""

    def write(
        self,
        rows: Iterable[RowOfBoard],
        floors: Iterable[tuple[int, BlockPlace]],
        *,
        durable: bool = False,
    ) -> None:
        """Write rows of boards, and remove those up to new floors, in one transaction. With
        `durable` everything written so far is on the disk when this returns; otherwise a power cut
        may lose it, and the blocks are made again from the log. Raises StorageFailed if the disk
        refuses a write."""

    def forget(self, board: int) -> None:
        """Remove all blocks of a board."""

    def boards(self) -> list[int]:
        """Return the numbers of the boards that have blocks or a floor."""

    def close(self) -> None: ...
