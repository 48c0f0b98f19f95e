"""Report how far a sink has read the changes of its boards, and reset its positions."""

from collections.abc import Iterable
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from laurels.api.aio import AsyncLeaderboards
from laurels.core.changes.answers import DeletedBoard, is_left_out
from laurels.core.changes.beginning import is_initial, uid_of
from laurels.core.changes.cursor import NOW, is_end
from laurels.core.due_payouts import MAX_PAGE, WaitingPayouts
from laurels.core.payouts import PayoutPage
from laurels.errors import ChangesExpired, CursorDiverged, LaurelsError
from laurels.errors.payouts import PayoutsDiverged
from laurels.errors.service import Forbidden, NoSuchPath
from laurels.errors.sinks import SinkBehind
from laurels.model.board import Board
from laurels.model.board_patterns import reaches
from laurels.wire.flow_wait import FlowWait
from laurels.wire.sinks import SinkReport

from .deleted import DeletedBoards
from .lag import SAMPLE, lag_after
from .options import SinkOptions
from .payout_reader import reader_name, target_name
from .positions import position_of, set_position
from .retention import WARNED_AT, retention_of
from .target import START_OVER, SinkTarget

PAYOUT_STATES = ("payouts", "new_payouts")


class SinkBoardStatus(Struct, frozen=True):
    """The status of a sink on one board.

    `state` is `new` (not begun), `initial` (sending all current entries), `waiting` (some changes
    are not sent yet), `done`, `lost` (the changes after its position are no longer kept), or
    `deleted` (the board is deleted, and some of its changes are not sent yet). In the state
    `payouts` or, if the sink has sent no payouts yet, `new_payouts`, the lag is that of the board's
    due payouts. `lag_changes` is the exact number of changes that are not sent; changes that only
    report the position of a sink are not counted. `lag_seconds` is the age of the oldest change
    that is counted. `used` is the fraction of the board's retention that unsent changes take up: at
    1 the board removes unsent changes. `code` is `sink_behind` if the board has removed changes
    that were not sent (`lost`). `wait` is the reason why changes are not sent; it is known only to
    the process that runs the sink.
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
    return result + await payout_statuses(boards, target, options, now_ms)


async def payout_statuses(
    boards: AsyncLeaderboards, target: SinkTarget | None, options: SinkOptions, now_ms: int
) -> list[SinkBoardStatus]:
    """Return the status of a sink on each board with due payouts that it has not sent; none if the
    key may not read payouts."""
    with suppress(Forbidden, NoSuchPath):
        if target is not None and target.keeps_positions:
            position = await target.position(target_name(options))
        else:
            position = (await boards.payout_positions()).get(reader_name(options))
        after = position
        with suppress(PayoutsDiverged):
            waiting = await boards.waiting_payouts(boards=options.boards, after=after)
            return [_payout_status(each, position, now_ms) for each in waiting]
        waiting = await boards.waiting_payouts(boards=options.boards)
        return [_payout_status(each, position, now_ms) for each in waiting]
    return []


def _payout_status(waiting: WaitingPayouts, position: str | None, now_ms: int) -> SinkBoardStatus:
    state = "new_payouts" if position is None else "payouts"
    age_ms = max(0, now_ms - waiting.oldest_ms)
    return SinkBoardStatus(waiting.board, state, position, waiting.payouts, age_ms / 1_000)


def with_waits(
    statuses: Iterable[SinkBoardStatus], report: SinkReport | None
) -> list[SinkBoardStatus]:
    """Return the statuses with the reasons why changes are not sent. The reasons are taken from the
    report of the service that runs the sink."""
    result = []
    for status in statuses:
        wait = None
        if report is not None and status.state in PAYOUT_STATES:
            wait = report.payouts_wait or report.wait
        elif report is not None and status.state != "done":
            wait = report.boards.get(status.board) or report.wait
        result.append(replace(status, wait=wait))
    return result


async def reset(
    boards: AsyncLeaderboards, target: SinkTarget, options: SinkOptions, *, initial: bool
) -> list[str]:
    """Make a sink start over with every current entry if `initial` is set, otherwise continue with
    the changes from now on. Return the names of its boards. The sink must not be running."""
    names = [board.name for board in await _boards(boards, options)]
    for name in names:
        position = START_OVER if initial else (await boards.changes(name, after=NOW)).cursor
        if target.keeps_positions:
            await target.reset(name, position)
        else:
            await set_position(boards, name, options.source, position)
    await _reset_payouts(boards, target, options, initial=initial)
    return names


async def _reset_payouts(
    boards: AsyncLeaderboards, target: SinkTarget, options: SinkOptions, *, initial: bool
) -> None:
    """Make a sink send all payouts again if `initial` is set, otherwise only those that become due
    from now on. Do nothing if the key may not read payouts."""
    with suppress(Forbidden, NoSuchPath):
        stored = (await boards.payout_positions()).get(reader_name(options))
        position: str | None = None
        page = PayoutPage([], "")
        while not initial and page.next is not None:
            page = await boards.due_payouts(boards=options.boards, after=position, limit=MAX_PAGE)
            position = page.cursor
        in_target = await target.position(target_name(options)) if target.keeps_positions else None
        if target.keeps_positions and in_target != position:
            await target.reset(target_name(options), position)
        if stored != position:
            await boards.move_payout_position(reader_name(options), stored, position)


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
    if is_end(position):  # the position is on a deleted board of the same name
        return SinkBoardStatus(board, "new", None)
    try:
        lag = await lag_after(boards, board, position)
    except (ChangesExpired, CursorDiverged):
        return SinkBoardStatus(board, "lost", position, code=SinkBehind.code)
    if lag.since_ms is None:
        return SinkBoardStatus(board, "done", position, 0, 0.0, 0.0)
    age_ms = max(0, now_ms - lag.since_ms)
    used = retention_of(definition).used(lag.changes, age_ms, is_registered=is_registered)
    return SinkBoardStatus(board, "waiting", position, lag.changes, age_ms / 1_000, round(used, 4))


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
