"""Report how far a sink has read the changes of its boards, and reset its positions."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from laurels.api.aio import AsyncLeaderboards
from laurels.core.changes.answers import DeletedBoard, is_left_out
from laurels.core.changes.beginning import is_initial, uid_of
from laurels.core.changes.cursor import NOW, is_end
from laurels.errors import ChangesExpired, CursorDiverged, LaurelsError
from laurels.errors.sinks import SinkBehind
from laurels.model.board import Board
from laurels.model.board_patterns import reaches
from laurels.wire.flow_wait import FlowWait
from laurels.wire.sinks import SinkReport

from .deleted import DeletedBoards
from .options import SinkOptions
from .positions import position_of, set_position
from .retention import WARNED_AT, retention_of
from .target import START_OVER, SinkTarget

SAMPLE = 100
"""The number of changes that are read at a time to find the oldest undelivered one."""


class SinkBoardStatus(Struct, frozen=True):
    """The status of a sink on one board.

    `state` is `new` (not begun), `initial` (sending all current entries), `waiting` (some changes
    are not sent yet), `done`, `lost` (the changes after its position are no longer kept), or
    `deleted` (the board is deleted, and some of its changes are not sent yet).
    `lag_changes` is the exact number of changes that are not sent; changes that only report the
    position of a sink are not counted. `lag_seconds` is the age of the oldest change that is
    counted. `used` is the fraction of the board's retention that unsent changes take up: at 1 the
    board removes unsent changes. `code` is `sink_behind` if the board has removed changes that were
    not sent (`lost`). `wait` is the reason why changes are not sent; it is known only to the
    process that runs the sink.
    """

    board: str
    state: str
    position: str | None
    lag_changes: int | None = None
    lag_seconds: float | None = None
    used: float | None = None
    code: str | None = None
    wait: FlowWait | None = None

    @property
    def is_nearly_lost(self) -> bool:
        """Whether the sink is about to lose changes."""
        return self.used is not None and self.used >= WARNED_AT


async def statuses(
    boards: AsyncLeaderboards, target: SinkTarget | None, options: SinkOptions, now_ms: int
) -> list[SinkBoardStatus]:
    """Return the status of a sink on each board that keeps changes. Without a target, the positions
    are the ones in the store: a sink whose target stores the positions reports them to the store
    from time to time."""
    selected = await _boards(boards, options)
    result = [await _status(boards, target, board, options, now_ms) for board in selected]
    unsent = DeletedBoards(options.boards)
    unsent.note(await boards.deleted_boards(options.source))
    for name in sorted(unsent.names()):
        stored = None if target is None else await target.position(name)
        for deleted in unsent.named(name):
            position = deleted.position if stored is None else stored
            if (status := await _status_of_deleted(boards, deleted, position, now_ms)) is not None:
                result.append(status)
    return result


def with_waits(
    statuses: Iterable[SinkBoardStatus], report: SinkReport | None
) -> list[SinkBoardStatus]:
    """Return the statuses with the reasons why changes are not sent. The reasons are taken from the
    report of the service that runs the sink."""
    result = []
    for status in statuses:
        wait = None
        if report is not None and status.state != "done":
            wait = report.boards.get(status.board) or report.wait
        result.append(replace(status, wait=wait))
    return result


async def reset(
    boards: AsyncLeaderboards, target: SinkTarget, options: SinkOptions, *, initial: bool
) -> list[str]:
    """Make a sink start over with every current entry, or continue with the changes from now on;
    return the names of its boards. The sink must not be running."""
    names = [board.name for board in await _boards(boards, options)]
    for name in names:
        position = START_OVER if initial else (await boards.changes(name, after=NOW)).cursor
        if target.keeps_positions:
            await target.reset(name, position)
        else:
            await set_position(boards, name, options.source, position)
    return names


async def _boards(boards: AsyncLeaderboards, options: SinkOptions) -> list[Board]:
    all_boards = await boards.boards()
    return [each for each in all_boards if each.changes and reaches(options.boards, each.name)]


async def _status(
    boards: AsyncLeaderboards,
    target: SinkTarget | None,
    definition: Board,
    options: SinkOptions,
    now_ms: int,
) -> SinkBoardStatus:
    board, is_registered = definition.name, True
    if target is None:
        position = await boards.position(board, options.source)
    else:
        position = await position_of(boards, target, board, options)
        if target.keeps_positions:
            is_registered = bool(await boards.position(board, options.source))
    if position is None:
        return SinkBoardStatus(board, "new", None)
    if position == START_OVER or is_initial(position):
        return SinkBoardStatus(board, "initial", position)
    after = position
    if is_end(position):  # of a deleted board that had this name
        return SinkBoardStatus(board, "new", None)
    while True:
        try:
            page = await boards.changes(board, after=after, limit=SAMPLE)
        except (ChangesExpired, CursorDiverged):
            return SinkBoardStatus(board, "lost", position, code=SinkBehind.code)
        waiting = [change for change in page if not is_left_out(change)]
        if waiting:
            break
        if not page.more:
            return SinkBoardStatus(board, "done", position, 0, 0.0, 0.0)
        after = page.cursor
    count, age_ms = len(waiting) + page.waiting, max(0, now_ms - waiting[0].at_ms)
    used = retention_of(definition).used(count, age_ms, is_registered=is_registered)
    return SinkBoardStatus(board, "waiting", position, count, age_ms / 1_000, round(used, 4))


async def _status_of_deleted(
    boards: AsyncLeaderboards, deleted: DeletedBoard, position: str | None, now_ms: int
) -> SinkBoardStatus | None:
    """Return the status of a sink on a deleted board; None if the sink has no position on it, or
    has sent everything."""
    if position is None or uid_of(position) != deleted.uid or is_end(position):
        return None
    try:
        page = await boards.changes(deleted.name, after=position, limit=SAMPLE)
    except LaurelsError:  # the changes after the position are lost; the deletion is still sent
        page = await boards.changes(deleted.name, after=deleted.last_cursor, limit=SAMPLE)
    waiting = [change for change in page if not is_left_out(change)]
    count = len(waiting) + page.waiting
    age_ms = max(0, now_ms - (waiting[0].at_ms if waiting else deleted.deleted_ms))
    return SinkBoardStatus(deleted.name, "deleted", position, count, age_ms / 1_000)
