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
    """The figures of one window.

    `members` is the number of members in the running period. `rankings` is the number of rankings
    stored for all periods, `tallies` the number of tallies of a rolling window. `nbytes` is the
    memory of these rankings and tallies.
    """

    window: str
    period: str | None
    members: int
    rankings: int
    nbytes: int
    tallies: int = 0


class BoardLayout(Answer, frozen=True):
    """The layout of a board's rankings on an index server.

    `means` explains the layout with this `name`. `cheaper` is advice for a cheaper layout, None if
    there is none.
    """

    name: str
    means: str
    cheaper: str | None


class BoardStats(Answer, frozen=True):
    """The figures of a board. `remembered` is the number of event ids kept to detect repeats;
    `layout` is present for a board on an index server.

    `windows` has the figures of the scope of all events. `scopes` counts the other scopes that have
    members, by the names of their labels (`room`, `gender,zone`). `scopes_nbytes` is the memory of
    these scopes' rankings and of the rankings by a label. On an index server it is estimated from a
    sample; in other stores only if there are many scopes. `now_ms` is the board's time: the time of
    the clock, or with `event_time` the latest `at` of the board's events.

    `nbytes` is the memory of all rankings. `left_out` is the number of events of a board in several
    shards that count for their members but not for their labels, as a label's total would have left
    the range. `changes_lost` is the number of changes beyond `changes_max` that were removed before
    a registered sink had confirmed them; for a board in this process, they are counted since the
    store was opened. `changes_unsent` is the number of changes that the slowest registered sink has
    not confirmed; in a folder it may include up to 5,000 confirmed ones, since the changes in the
    file are counted by whole blocks. `changes_used` is the fraction of `changes_max` that these
    changes take up; at 1, further changes are lost.
    """

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
    changes_lost: int = 0
    changes_unsent: int = 0
    changes_used: float = 0.0


class Kept(Answer, frozen=True):
    """The files from which a recovery would start: the newest snapshot and the log from `log_from`
    on. The offset and the size of the snapshot are None without one. `damaged` has the snapshots
    that were found unreadable and skipped. `failure` is the reason why the last attempt at a
    snapshot failed, if it did. `end_unverified` is the reason why the log's end could not be
    verified when the store was opened, None if it could."""

    log_from: int
    snapshot_offset: int | None = None
    snapshot_nbytes: int | None = None
    damaged: list[str] = field(default_factory=list)
    failure: str | None = None
    end_unverified: str | None = None


class Stats(Answer, frozen=True):
    """The figures of the whole store: the memory of all rankings and of the members' names, the
    size of the log, the files for recovery, and the status of its clock."""

    boards: int
    members: int
    nbytes: int
    log_nbytes: int
    offset: int
    now_ms: int
    kept: Kept
    clock: ClockStatus | None = None


class CheckReport(Answer, frozen=True):
    """The result of a successful check. `unverified` are sentences about data that the check could
    not verify, because an index server stores it only once."""

    boards: int
    rankings: int
    entries: int
    offset: int
    unverified: list[str] = field(default_factory=list)


class Sealed(Answer, frozen=True):
    """The number of periods that a call closed, and of those that it sealed."""

    closed: int
    sealed: int


def board_stats(fold: Fold, state: BoardState, now_ms: int) -> BoardStats:
    """Return the figures of one board; O(number of rankings in the scope of all events)."""
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
    """Return the number of scopes with members, by the names of their labels; O(names)."""
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
    """Return the figures of the whole store. O(number of rankings in the scopes of all events)."""
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
    """Figures of a store for the metrics of a service.

    For an index server, these are the number of boards that this process knows, whether the server
    answers, and the figures of changes.
    """

    of_boards_only: bool = False
    """Whether the caller may see only some boards. If so, there are no figures of the whole store.
    """
    store: Stats | None = None
    boards: Sequence[tuple[str, int]] = ()
    """For each board its name, and the bytes of its rankings."""
    scopes: Sequence[tuple[str, str, int]] = ()
    """For each board and each kind of scope, the names of the scope's labels, and the number of
    such scopes with members."""
    scopes_memory: Sequence[tuple[str, int]] = ()
    """For each board with scopes its name, and the bytes of the scopes' rankings."""
    changes_lost: Sequence[tuple[str, int]] = ()
    """For each board with changes that were removed before a sink had sent them, the number of
    these changes.
    """
    changes_used: Sequence[tuple[str, float]] = ()
    """For each board with changes that a sink has not sent yet, the fraction of `changes_max` that
    these changes take up.
    """
    unsealed: Sequence[tuple[str, float]] = ()
    """For each board with closed periods that are not sealed yet, for how many seconds the oldest
    of them has waited."""
    unpaid: Sequence[tuple[str, float]] = ()
    """For each board that stays after its `retain` since payouts are not confirmed, for how many
    seconds it has stayed."""
    snapshot_taken: float | None = None
    """The time of the newest snapshot, in seconds since 1970."""
    write_failures: int = 0
    writable: bool = True
    count: int = 0
    answers: bool = True
    clock: ClockStatus | None = None
    stores: Sequence[tuple[str, bool]] = ()
    """For each of several stores behind a service its URL without credentials, and whether it
    answers.
    """


def figures_of(boards: Iterable[BoardStats]) -> StoreFigures:
    """Return the figures of some boards. Figures of the whole store are left out."""
    board_stats = list(boards)
    return StoreFigures(
        of_boards_only=True,
        boards=[(stats.board, stats.nbytes) for stats in board_stats],
        scopes=[
            (stats.board, form, count)
            for stats in board_stats
            for form, count in stats.scopes.items()
        ],
        scopes_memory=[(stats.board, stats.scopes_nbytes) for stats in board_stats if stats.scopes],
        changes_lost=[
            (stats.board, stats.changes_lost) for stats in board_stats if stats.changes_lost
        ],
        changes_used=[
            (stats.board, stats.changes_used) for stats in board_stats if stats.changes_used
        ],
    )
