"""Statistics of a store and its boards, for operators."""

from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from laurels.model.answer import Answer
from laurels.model.windows.kinds import Window
from laurels.timeline.instants import MIN_MS

from .board_state import BoardState
from .clock_status import ClockStatus
from .fold import Fold
from .index import Offset
from .ranking_key import RankingKey, ranking_key


class WindowStats(Answer, frozen=True):
    """One window in its running period: `rankings` kept over all periods, `tallies` of a rolling
    window, the memory of both."""

    window: str
    period: str | None
    members: int
    rankings: int
    nbytes: int
    tallies: int = 0


class BoardLayout(Answer, frozen=True):
    """The layout of a board's rankings on an index server: its name, its meaning, and what would
    make it cheaper, None where nothing would."""

    name: str
    means: str
    cheaper: str | None


class BoardStats(Answer, frozen=True):
    """A board as it stands. `remembered` counts the event ids kept against repeats; `layout` is
    told of a board on an index server.

    `windows` are of the scope of all events; `scopes` counts the others that hold anybody, by the
    labels they are of (`room`, `gender,zone`), and `scopes_nbytes` is the memory of their rankings
    and of those by a label: an estimate by some of them where there are many, and on an index
    server. `now_ms` is what time it is on the board: that of the clock, or with `event_time` the
    latest `at` it has seen.

    `nbytes` is the memory of all rankings. `left_out` events of a board in several shards
    count for their members and not for their labels, whose totals would have left the range."""

    board: str
    version: int
    created_ms: int
    windows: list[WindowStats]
    remembered: int
    nbytes: int
    offset: Offset
    layout: BoardLayout | None = None
    scopes: dict[str, int] = field(default_factory=dict)
    left_out: int = 0
    scopes_nbytes: int = 0
    now_ms: int = MIN_MS
    event_time: bool = False


class Kept(Answer, frozen=True):
    """What a recovery would start from: the newest snapshot (its offset and size, None without one)
    and the log from `log_from` on. `damaged` are snapshots that were found unreadable and skipped;
    `failure` is why the last attempt at a snapshot failed, if it did. `end_unverified` is why the
    log's end could not be verified when the store was opened, None where it was."""

    log_from: int
    snapshot_offset: int | None = None
    snapshot_nbytes: int | None = None
    damaged: list[str] = field(default_factory=list)
    failure: str | None = None
    end_unverified: str | None = None


class Stats(Answer, frozen=True):
    """The whole store: memory of all rankings and of the members' names, size of the log,
    what is kept to open it again, and how it stands to its clock."""

    boards: int
    members: int
    nbytes: int
    log_nbytes: int
    offset: int
    now_ms: int
    kept: Kept
    clock: ClockStatus | None = None


class CheckReport(Answer, frozen=True):
    """The result of a successful check. `unverified` lists, in sentences, what it could not verify
    because it is stored once and nothing else follows from it: of boards on an index server."""

    boards: int
    rankings: int
    entries: int
    offset: int
    unverified: list[str] = field(default_factory=list)


def board_stats(fold: Fold, state: BoardState, now_ms: int) -> BoardStats:
    """Return the figures of one board; O(rankings of all events)."""
    keys = fold.index.keys(state.number)
    tallies = [key.window for key in fold.index.tallies(state.number)]
    windows = [
        _window_stats(fold, state.number, window, keys, tallies, state.seen_ms(window, now_ms))
        for window in state.rules.windows.values()
    ]
    scopes_nbytes = fold.index.scopes_nbytes(state.number)
    return BoardStats(
        board=state.board.name,
        version=state.version,
        created_ms=state.created_ms,
        windows=windows,
        remembered=fold.index.remembered(state.number, now_ms),
        nbytes=sum(window.nbytes for window in windows) + scopes_nbytes,
        offset=fold.offset,
        scopes=scope_counts(fold, state),
        scopes_nbytes=scopes_nbytes,
        now_ms=now_ms,
        event_time=fold.event_time,
    )


def scope_counts(fold: Fold, state: BoardState) -> dict[str, int]:
    """Return how many scopes of each tuple of labels have members; O(tuples)."""
    forms = [",".join(labels) for labels in state.rules.scopes if labels]
    return {form: fold.index.scope_count(state.number, form) for form in forms}


def _window_stats(
    fold: Fold,
    number: int,
    window: Window,
    keys: list[RankingKey],
    tallies: list[str],
    now_ms: int,
) -> WindowStats:
    running = window.period_at(now_ms)
    kept = [key for key in keys if key.window == window.name]
    return WindowStats(
        window=window.name,
        period=running.label or None,
        members=fold.index.size(ranking_key(number, window, running)),
        rankings=len(kept),
        nbytes=sum(map(fold.index.nbytes, kept)),
        tallies=tallies.count(window.name),
    )


def store_stats(fold: Fold, log_nbytes: int, clock: ClockStatus, kept: Kept) -> Stats:
    """Return the figures of the whole store; O(rankings of all events)."""
    index = fold.index
    numbers = [state.number for state in fold.boards.values()]
    keys = [key for number in numbers for key in index.keys(number)]
    return Stats(
        boards=len(fold.boards),
        members=index.members(),
        nbytes=(
            sum(map(index.nbytes, keys))
            + sum(map(index.scopes_nbytes, numbers))
            + index.shared_nbytes()
        ),
        log_nbytes=log_nbytes,
        offset=fold.offset,
        now_ms=clock.now_ms,
        kept=kept,
        clock=clock,
    )


class StoreFigures(Struct, frozen=True):
    """Figures for the metrics of a service: of a store of this process, or how many boards it knows
    of those on an index server, and whether that answers."""

    of_boards_only: bool = False
    """Whether the caller is limited to some boards: then there are no statistics of the store."""
    store: Stats | None = None
    boards: Sequence[tuple[str, int]] = ()
    """Names, and the bytes that the rankings take."""
    scopes: Sequence[tuple[str, str, int]] = ()
    """Boards, the labels of their scopes, and how many such scopes have members."""
    scopes_memory: Sequence[tuple[str, int]] = ()
    """Boards that have scopes, and the bytes that the rankings of these take."""
    snapshot_taken: float | None = None
    """Seconds since 1970 of the newest snapshot."""
    write_failures: int = 0
    writable: bool = True
    count: int = 0
    answers: bool = True
    clock: ClockStatus | None = None


def figures_of(boards: Iterable[BoardStats]) -> StoreFigures:
    """Return the figures of some boards, and none of the store."""
    shown = list(boards)
    return StoreFigures(
        of_boards_only=True,
        boards=[(stats.board, stats.nbytes) for stats in shown],
        scopes=[
            (stats.board, form, count) for stats in shown for form, count in stats.scopes.items()
        ],
        scopes_memory=[(stats.board, stats.scopes_nbytes) for stats in shown if stats.scopes],
    )
