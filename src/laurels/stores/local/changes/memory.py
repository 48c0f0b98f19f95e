"""The kept changes of a store without a folder, as rows of encoded blocks in memory."""

from collections.abc import Iterable, Iterator

from laurels.core.changes.blocks import Block, decode_blocks, encode_blocks
from laurels.core.changes.cursor import BlockPlace

from .base import RowOfBoard, StoredRow

_Row = tuple[StoredRow, bytes]


class MemoryChanges:
    """Implementation of `ChangeRows`. Writers replace the list of rows and never change a list, so
    readers need no lock."""

    exists = True

    def __init__(self) -> None:
        self._rows: dict[int, list[_Row]] = {}
        self._floors: dict[int, BlockPlace] = {}

    def floors(self) -> dict[int, BlockPlace]:
        return dict(self._floors)

    def rows(self, board: int) -> list[StoredRow]:
        return [row for row, _ in self._rows.get(board, ())]

    def read(self, board: int, first: int) -> Iterator[list[Block]]:
        for row, body in self._rows.get(board, ()):
            if row.last >= first:
                yield decode_blocks(body)

    def write(
        self,
        rows: Iterable[RowOfBoard],
        floors: Iterable[tuple[int, BlockPlace]],
        *,
        durable: bool = False,
    ) -> None:
        added: dict[int, list[_Row]] = {}
        for board, row, blocks in rows:
            added.setdefault(board, []).append((row, encode_blocks(blocks)))
        for board, some in added.items():
            self._rows[board] = self._rows.get(board, []) + some
        for board, floor in floors:
            kept = self._rows.get(board, [])
            self._rows[board] = [each for each in kept if each[0].last > floor.sequence]
            self._floors[board] = floor

    def forget(self, board: int) -> None:
        self._rows.pop(board, None)
        self._floors.pop(board, None)

    def boards(self) -> list[int]:
        return list({*self._rows, *self._floors})

    def close(self) -> None:
        """Do nothing, since there is no file."""
