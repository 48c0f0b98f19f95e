"""The position of a sink, where the store keeps it."""

from collections.abc import Sequence

from laurels.api.aio import AsyncLeaderboards
from laurels.api.leaderboards import Leaderboards
from laurels.errors import PositionDiffers, PositionMoved
from laurels.errors.sinks import SinkOvertaken
from laurels.model.board_patterns import reaches


async def move_position(
    boards: AsyncLeaderboards, board: str, source: str, before: str | None, cursor: str
) -> None:
    """Move a position on from the one before. Raises SinkOvertaken where another is stored."""
    try:
        await boards.submit_many(board, [], position=(source, cursor, before))
    except PositionDiffers as error:  # a move that was interrupted on a board in several shards
        if error.ends_at is None:
            raise
        await boards.submit_many(board, [], position=(source, error.ends_at, before))
        await boards.submit_many(board, [], position=(source, cursor, error.ends_at))
    except PositionMoved as error:
        if await boards.position(board, source) != cursor:  # else this call was repeated
            raise SinkOvertaken(f"{board!r}: {error.what}") from error


async def set_position(boards: AsyncLeaderboards, board: str, source: str, text: str) -> None:
    """Set a position, whatever is stored."""
    try:
        await boards.submit_many(board, [], position=(source, text))
    except PositionDiffers as error:
        if error.ends_at is None:
            raise
        await boards.submit_many(board, [], position=(source, error.ends_at))
        await boards.submit_many(board, [], position=(source, text))


def forget(lb: Leaderboards, source: str, patterns: Sequence[str] | None = None) -> list[str]:
    """Remove the positions of a sink, so that boards keep no changes for it; return their names."""
    forgotten = []
    for board in lb.boards():
        if reaches(patterns, board.name) and lb.position(board.name, source):
            lb.submit_many(board.name, [], position=(source, ""))
            forgotten.append(board.name)
    return forgotten
