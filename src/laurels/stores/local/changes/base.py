"""The protocol for storing blocks of changes that are no longer kept in memory."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from laurels.core.changes.blocks import Block
from laurels.core.changes.cursor import BlockPlace


class StoredRow(Struct, frozen=True):
    """A row without its blocks: the sequence numbers of its first and last block, the tag of its
    last block, the number of its changes that sinks send, and the time of its newest change."""

    first: int
    last: int
    tag: int
    count: int
    at_ms: int


RowOfBoard = tuple[int, StoredRow, Sequence[Block]]
"""The number of a board, a row of it, and the blocks of the row."""


class ChangeRows(Protocol):
    """Rows of blocks by board number. Only one thread may write at a time; readers may read at any
    time."""

    @property
    def exists(self) -> bool:
        """Whether any rows were ever written."""

    def floors(self) -> dict[int, BlockPlace]:
        """Return, by board number, the place in the board's changes just before its oldest block.
        The blocks up to this floor were removed."""

    def rows(self, board: int) -> list[StoredRow]:
        """Return the rows of a board, without their blocks, in order."""

    def read(self, board: int, first: int) -> Iterator[list[Block]]:
        """Yield the blocks of a board, row by row. Begin with the row that has the block
        `first`."""

    def write(
        self,
        rows: Iterable[RowOfBoard],
        floors: Iterable[tuple[int, BlockPlace]],
        *,
        durable: bool = False,
    ) -> None:
        """Write rows of boards, and remove rows up to the new `floors`, in one transaction. With
        `durable`, all rows written so far are on the disk on return. Without it, a power cut may
        lose rows, whose blocks are then made again from the log. Raises StorageFailed if the disk
        refuses a write."""

    def forget(self, board: int) -> None:
        """Remove all blocks of a board."""

    def boards(self) -> list[int]:
        """Return the numbers of the boards that have blocks or a floor."""

    def close(self) -> None: ...
