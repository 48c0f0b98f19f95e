"""Copy a whole board from one store to another.

A copy is begun in the target as an unfinished board that nobody else sees, written in pieces, and
finished if the source has not changed meanwhile. If a copy is interrupted, the next run removes the
unfinished board and begins it anew; boards that were finished are only compared again.
"""

from collections.abc import Callable

from msgspec import Struct

from laurels.core.changes.cursor import BlockPlace, ChangeCursor
from laurels.core.contents import Origin, RankingRows, grouped
from laurels.errors import UnknownBoard
from laurels.errors.copies import BoardChanging, NameTaken
from laurels.stores.board_copies import BoardContents, BoardCopies

from .comparing import CopyCheck, compare

ATTEMPTS = 3
"""The maximum number of attempts to copy a board, if the board changes meanwhile."""


def ignore_progress(doing: str, rows: int) -> None:
    """Ignore progress reports."""


class CopiedBoard(Struct, frozen=True):
    """The result of copying a board. `copied` is False if an earlier run copied it; `rows` is the
    number of rows that this run wrote, and `end` the cursor at which the changes of a new copy
    begin."""

    board: str
    copied: bool
    rows: int
    compared: CopyCheck
    end: str | None = None


def copy_board(
    source: BoardContents,
    target: BoardCopies,
    board: str,
    report: Callable[[str, int], None] = ignore_progress,
) -> CopiedBoard:
    """Copy a board and compare the copy; `report` is called with the current stage and the number
    of rows written so far. Raises NameTaken, CopyRefused, BoardChanging."""
    copied, rows, end = False, 0, None
    if not is_copied(target, settled_origin(source, board)):
        rows = write_copy(source, target, board, report)
        copied, end = True, end_of_changes(target.origin(board))
    report("comparing", rows)
    return CopiedBoard(board, copied, rows, compare(source, target, board), end)


def settled_origin(source: BoardContents, board: str) -> Origin:
    """Return the origin of a board whose closed periods are sealed. Raises BoardChanging if further
    periods are closed at every attempt."""
    for _ in range(ATTEMPTS):
        source.settle(board)
        origin = source.origin(board)
        if origin.unsealed() is None:
            return origin
    raise BoardChanging(f"periods of the board {board!r} were closed while it was copied")


def end_of_changes(origin: Origin) -> str:
    """Return the cursor after the newest change of a board."""
    places = [BlockPlace(sequence, tag) for sequence, tag in origin.ends]
    return ChangeCursor(origin.uid, tuple(places)).encode()


def is_copied(target: BoardCopies, origin: Origin) -> bool:
    """Return whether the target has a finished copy of a board. Raises NameTaken for another board
    of that name."""
    board = origin.board_name
    try:
        uid = target.origin(board).uid
    except UnknownBoard:
        return False
    if uid != origin.uid:
        raise NameTaken(f"the target has another board {board!r}")
    return True


def write_copy(
    source: BoardContents, target: BoardCopies, board: str, report: Callable[[str, int], None]
) -> int:
    """Copy a board that the target does not have, without a comparison; return the number of rows
    written. Raises NameTaken, CopyRefused, BoardChanging."""
    for _ in range(ATTEMPTS):
        origin = settled_origin(source, board)
        if (unfinished := target.unfinished(board)) is not None:
            if unfinished.uid != origin.uid:
                raise NameTaken(f"the target has an unfinished copy of another board {board!r}")
            target.give_up(board)
        target.begin(origin)
        rows = 0
        for pieces in grouped(source.pieces(board)):
            target.put(board, pieces)
            rows += sum([piece.size for piece in pieces if isinstance(piece, RankingRows)])
            report("copying", rows)
        if source.origin(board).equals_except_time(origin):
            target.finish(board)
            return rows
    raise BoardChanging(f"the board {board!r} was written to while it was copied")
