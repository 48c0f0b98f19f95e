"""The position of a sink in the changes of its boards, and moving it elsewhere."""

from msgspec import Struct

from laurels.api.aio import AsyncLeaderboards
from laurels.core.changes.answers import is_own
from laurels.core.changes.beginning import is_initial
from laurels.core.changes.cursor import NOW
from laurels.errors import ChangesExpired, CursorDiverged
from laurels.model.board_patterns import reaches

from .positions import set_position
from .runner import SinkOptions, position_of
from .target import BEGIN_AGAIN, SinkTarget

SAMPLE = 100
"""How many changes are read to find the oldest undelivered one."""


class SinkBoardStatus(Struct, frozen=True):
    """The status of a sink on one board.

    `state` is `new` (not begun), `initial` (sending all present entries), `waiting` (some changes
    are not sent yet), `done`, or `lost` (the changes after its position are no longer kept).
    `lag_changes` is the exact number of changes that are not sent, without the positions of sinks;
    `lag_seconds` is the age of the oldest of them.
    """

    board: str
    state: str
    position: str | None
    lag_changes: int | None = None
    lag_seconds: float | None = None


async def statuses(
    boards: AsyncLeaderboards, target: SinkTarget | None, options: SinkOptions, now_ms: int
) -> list[SinkBoardStatus]:
    """Return the status of a sink on each board that keeps changes; without a target, as reported
    to the store."""
    names = await _boards(boards, options)
    return [await _status(boards, target, name, options, now_ms) for name in names]


async def reset(
    boards: AsyncLeaderboards, target: SinkTarget, options: SinkOptions, *, initial: bool
) -> list[str]:
    """Make a sink start over with every present entry, or continue with the changes from now on;
    return the names of its boards. The sink must not be running."""
    names = await _boards(boards, options)
    for name in names:
        position = BEGIN_AGAIN if initial else (await boards.changes(name, after=NOW)).cursor
        if target.keeps_positions:
            await target.reset(name, position)
        else:
            await set_position(boards, name, options.source, position)
    return names


async def _boards(boards: AsyncLeaderboards, options: SinkOptions) -> list[str]:
    found = await boards.boards()
    return [each.name for each in found if each.changes and reaches(options.boards, each.name)]


async def _status(
    boards: AsyncLeaderboards,
    target: SinkTarget | None,
    board: str,
    options: SinkOptions,
    now_ms: int,
) -> SinkBoardStatus:
    if target is None:
        position = await boards.position(board, options.source)
    else:
        position = await position_of(boards, target, board, options)
    if position is None:
        return SinkBoardStatus(board, "new", None)
    if position == BEGIN_AGAIN or is_initial(position):
        return SinkBoardStatus(board, "initial", position)
    after = position
    while True:
        try:
            page = await boards.changes(board, after=after, limit=SAMPLE)
        except (ChangesExpired, CursorDiverged):
            return SinkBoardStatus(board, "lost", position)
        waiting = [change for change in page if not is_own(change)]
        if waiting:
            break
        if not page.more:
            return SinkBoardStatus(board, "done", position, 0, 0.0)
        after = page.cursor
    seconds = max(0, now_ms - waiting[0].at_ms) / 1_000
    return SinkBoardStatus(board, "waiting", position, len(waiting) + page.waiting, seconds)
