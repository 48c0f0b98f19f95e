"""The check whether an index server can store a board with a head."""

from laurels.errors import BoardInvalid
from laurels.model.board import Board


def ensure_head_layout(board: Board) -> None:
    """Raise BoardInvalid if an index server has no layout for a board with a head."""
    rules = board.rules()
    if not rules.head:
        return
    if rules.changes_ms:
        raise BoardInvalid(
            "expected a board with a head or with changes on an index server, got both: leave out "
            "one of the two"
        )
