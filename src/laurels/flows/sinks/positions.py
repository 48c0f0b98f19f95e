"""The position of a sink in the store."""

from collections.abc import Sequence
from contextlib import suppress

from laurels.api.aio import AsyncLeaderboards
from laurels.api.leaderboards import Leaderboards
from laurels.errors import InvalidName, PositionDiffers, PositionMoved, UnknownBoard
from laurels.errors.sinks import SinkOvertaken
from laurels.model.board_patterns import reaches
from laurels.model.validation import is_name, is_unicode, safe_repr

from .options import SinkOptions
from .target import POSITION_PREFIX, SinkTarget

MAX_CHARACTERS = 4_096
"""The maximum length that a store accepts for the name of a position."""


async def ensure_sink_name(boards: AsyncLeaderboards, name: str) -> None:
    """Raise InvalidName for a name that is not well-formed. Earlier versions accepted any name, so
    the name of a sink that already has a position on a board is accepted."""
    if is_name(name):
        return
    source = POSITION_PREFIX + name
    if is_unicode(name) and len(source) <= MAX_CHARACTERS:
        for board in await boards.boards():
            with suppress(UnknownBoard):  # the board was deleted meanwhile
                if await boards.position(board.name, source):
                    return
    raise InvalidName(f"expected a name for a sink, got {safe_repr(name)}")


async def position_of(
    boards: AsyncLeaderboards, target: SinkTarget, board: str, options: SinkOptions
) -> str | None:
    """Return the position of a sink in the changes of a board, None if it has none yet."""
    if target.keeps_positions:
        return await target.position(board)
    return await boards.position(board, options.source) or None


async def move_position(
    boards: AsyncLeaderboards, board: str, source: str, before: str | None, cursor: str
) -> None:
    """Replace the stored position `before` by `cursor`. Raises SinkOvertaken if another position is
    stored."""
    try:
        await boards.submit_many(board, [], position=(source, cursor, before))
    except PositionDiffers as error:  # only some shards have made the last move: complete it first
        if error.ends_at is None:
            raise
        await boards.submit_many(board, [], position=(source, error.ends_at, before))
        await boards.submit_many(board, [], position=(source, cursor, error.ends_at))
    except PositionMoved as error:
        # if the stored position is `cursor`, an earlier attempt has moved it
        if await boards.position(board, source) != cursor:
            raise SinkOvertaken(f"{board!r}: {error.what}") from error


async def set_position(boards: AsyncLeaderboards, board: str, source: str, text: str) -> None:
    """Store a position, whatever position is stored now."""
    try:
        await boards.submit_many(board, [], position=(source, text))
    except PositionDiffers as error:
        if error.ends_at is None:
            raise
        await boards.submit_many(board, [], position=(source, error.ends_at))
        await boards.submit_many(board, [], position=(source, text))


def remove_positions(
    lb: Leaderboards, source: str, patterns: Sequence[str] | None = None
) -> list[str]:
    """Remove the positions of a sink, so that boards no longer keep changes for it; return the
    names of the boards."""
    names = []
    for board in lb.boards():
        if reaches(patterns, board.name) and lb.position(board.name, source):
            lb.submit_many(board.name, [], position=(source, ""))
            names.append(board.name)
    return names
