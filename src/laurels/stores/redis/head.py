"""Boards with a head, which have no layout on an index server yet."""

from laurels.errors import BoardInvalid
from laurels.model.board import Board


def ensure_no_head(board: Board) -> None:
    """Raise BoardInvalid for a board with a head."""
    if board.head:
        raise BoardInvalid(
            f"expected a board without a head on an index server, got head {board.head:,}: leave "
            "head out, or keep the board in a folder"
        )
