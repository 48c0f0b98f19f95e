"""The lag of a sink on a board: how many changes come after its position, and how old they are."""

from msgspec import Struct

from laurels.api.aio import AsyncLeaderboards
from laurels.core.changes.answers import is_left_out
from laurels.core.changes.beginning import is_initial
from laurels.core.changes.cursor import is_end

from .target import START_OVER

SAMPLE = 100
"""The number of changes that are read at a time to find the oldest undelivered one."""


class Lag(Struct, frozen=True):
    """The number of changes that are not sent, and the time of the oldest one; None if all were
    sent."""

    changes: int
    since_ms: int | None


async def lag_after(boards: AsyncLeaderboards, board: str, position: str | None) -> Lag:
    """Return the lag of a sink whose position on a board is `position`; with None, all changes that
    the board keeps are counted. Changes that sinks leave out are not counted. Raises
    ChangesExpired, CursorDiverged."""
    while True:
        page = await boards.changes(board, after=position, limit=SAMPLE)
        waiting = [change for change in page if not is_left_out(change)]
        if waiting:
            return Lag(len(waiting) + page.waiting, waiting[0].at_ms)
        if not page.more:
            return Lag(0, None)
        position = page.cursor


async def lag_in_store(boards: AsyncLeaderboards, board: str, source: str) -> Lag:
    """Return the lag of a sink by the position that the store has. It is used while the target is
    down. The store has a position even if the target keeps it, since the sink reports it to the
    store."""
    stored = await boards.position(board, source) or None
    if stored == START_OVER or is_initial(stored) or is_end(stored):
        stored = None
    return await lag_after(boards, board, stored)
