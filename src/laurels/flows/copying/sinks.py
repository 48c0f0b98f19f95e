"""Move the sinks of a board to its copy.

A copy has only the changes that were made after the copying, and the position of every sink is
before these. Even a sink that has sent everything is not at the end of the source's changes, since
storing its position made one more change. So a sink that has sent everything is moved to the
position before the first change of the copy. Any other sink is reported, since only the source has
the changes that this sink has not sent.
"""

from laurels.api.leaderboards import Leaderboards
from laurels.core.changes.answers import is_left_out
from laurels.errors import (
    BoardDeleted,
    ChangesExpired,
    ChangesNotKept,
    CursorDiverged,
    InvalidCursor,
)
from laurels.flows.sinks.target import POSITION_PREFIX, START_OVER


def move_sinks(source: Leaderboards, target: Leaderboards, board: str, end: str) -> list[str]:
    """Move the sinks that have sent every change of a board to `end`, the cursor at which the
    changes of its copy begin; return a sentence about each other sink. Sinks that were moved before
    are left where they are."""
    sentences = []
    moved = target.positions(board)
    for name, position in sorted(source.positions(board).items()):
        if not name.startswith(POSITION_PREFIX) or position == START_OVER:
            continue
        if moved.get(name, position) != position:  # it was moved to the copy before
            continue
        unsent = _unsent(source, board, position)
        if unsent == 0:
            target.submit_many(board, [], position=(name, end, position))
            continue
        sink = name.removeprefix(POSITION_PREFIX)
        count = "an unknown number of" if unsent is None else f"{unsent:,}"
        sentences.append(
            f"{count} changes that the sink {sink} has not sent: only the source has them"
        )
    return sentences


def _unsent(lb: Leaderboards, board: str, position: str) -> int | None:
    """Return the number of changes that a sink has not sent; None if it cannot continue, or is
    still sending the current entries."""
    try:
        page = lb.changes(board, after=position, limit=1)
    except (BoardDeleted, ChangesExpired, ChangesNotKept, CursorDiverged, InvalidCursor):
        return None
    if any(change.kind.startswith("initial") for change in page):
        return None
    return sum(not is_left_out(change) for change in page) + page.waiting
