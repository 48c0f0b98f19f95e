"""The verbs, synchronous: what `laurels.open` gives."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, overload

from laurels.core.between import Bound
from laurels.core.changes.answers import ChangePage
from laurels.core.changes.cursor import checked_limit
from laurels.core.clock_status import ClockStatus
from laurels.core.commands import (
    ChangeBoard,
    CreateBoard,
    DeleteBoard,
    RemoveMember,
    SetData,
    Submit,
    SubmitMany,
)
from laurels.core.queries import (
    Around,
    AtRank,
    Card,
    Count,
    Periods,
    Range,
    RankOf,
    RanksOf,
    Scopes,
    ScoreAtPercentile,
    StandingOf,
    StandingsOf,
    Top,
    checked_members,
    ensure_member,
    scope_after,
)
from laurels.core.receipt import Receipt, Receipts
from laurels.core.standing import FIRST, Entry, Page, PeriodInfo, Standing, rank_or_none
from laurels.core.stats import BoardStats, CheckReport, Stats
from laurels.model.board import Board
from laurels.model.event import Value
from laurels.model.labels import label_pairs
from laurels.model.score import Score
from laurels.stores.base import Store
from laurels.stores.intake.accept import warn_if_all_refused

EXPORT_CHUNK = 1_000
POLL_SECONDS = 0.1
"""How often changes are looked for where there are no new ones."""


class Leaderboards:
    """Boards on one deployment. Open one with `laurels.open`; use it from any thread.

    Every method that names a board raises `UnknownBoard` when there is none of that name, and
    every method raises `Closed` after `close` and `Forked` in a child of the process that
    opened it. `window` is a window's name, by default the board's first; `period` the label of
    one of its periods, by default the running one. A question just after a boundary of a large
    rolling window may raise `NotReady`: asked again, it is answered.

    On a board with scopes a question is about the scope of its `labels`
    (`lb.top("gifts", labels={"room": "42"})`), without any about all events, or with `by` about the
    values of a label: `lb.top("gifts", by="room")`. UnknownScope where the board has none such.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ask = store.ask
        self._cached_view = store.cached_view

    # Boards

    def create(self, board: Board | Mapping[str, Any], *, exist_ok: bool = False) -> Board:
        """Creates a board, given as a `Board` or in its JSON form.

        With `exist_ok` an equal board that is there already is accepted. Raises BoardInvalid
        (every fault named), BoardExists.
        """
        defined = board if isinstance(board, Board) else Board.from_json(board)
        return self._store.write(CreateBoard(defined, exist_ok))

    def change(self, name: str, /, **changes: Any) -> Board:
        """Changes a board's `title`, `keep` or `changes`, or adds `windows`, `scopes` or labels to
        `rank_by`, which count from now on.

        Anything else, and taking one of these away, is refused as UnsafeChange with the reasons.
        """
        return self._store.write(ChangeBoard(name, changes))

    def get(self, name: str) -> Board:
        """The definition of a board."""
        return self._store.definition(name)

    def boards(self) -> list[Board]:
        """All definitions, in the order of their names."""
        return self._store.definitions()

    def delete(self, name: str) -> None:
        """Deletes a board with everything it holds."""
        return self._store.write(DeleteBoard(name))

    # Writes

    def submit(
        self,
        board: str,
        member: str,
        value: Value,
        *,
        at: Any = None,
        id: str | None = None,
        window: str | None = None,
        labels: Mapping[str, str] | None = None,
        scope: Sequence[str] | None = None,
    ) -> Receipt:
        """Reports one score and answers, when it is durable, where the member stands now.

        Raises the error of whatever refuses it; a repeated id is not an error but the status
        `duplicate`. See `Event` for the forms of value, at and labels; `scope` names the labels of
        the scope whose score and rank the receipt tells, by default the board's first. O(log n) a
        window and scope, one flush.
        """
        return self._store.write(Submit(board, (member, value, at, id, labels), window, scope))

    def submit_many(
        self,
        board: str,
        events: Iterable[Any],
        *,
        window: str | None = None,
        ranks: bool = False,
        all_or_nothing: bool = False,
        key: str | None = None,
        position: tuple[str, str] | None = None,
        scope: Sequence[str] | None = None,
    ) -> Receipts:
        """Reports up to 100,000 scores in one commit: tuples (member, value[, at[, id[, labels]]]),
        mappings or named tuples with those names (pandas' `itertuples()`: its `Index` is left out),
        or Events.

        A refused event does not refuse the others: its receipt says why. Where every event is
        refused a warning says so, `errors.AllEventsRefused`. With `all_or_nothing`
        any refusal refuses them all (BatchRefused). A batch `key` stands for the ids key#0,
        key#1, … of events without one. `ranks` asks for ranks before and after the commit.
        `position`, a pair (source, text), is kept with the batch in one commit and read back by
        `position()`: an import goes on from there and counts nothing twice.
        """
        command = SubmitMany(board, events, window, ranks, all_or_nothing, key, position, scope)
        receipts = self._store.write(command)
        warn_if_all_refused(receipts)
        return receipts

    def set(
        self,
        board: str,
        member: str,
        value: Value,
        *,
        at: Any = None,
        id: str | None = None,
        window: str | None = None,
        labels: Mapping[str, str] | None = None,
        scope: Sequence[str] | None = None,
    ) -> Receipt:
        """Sets a member's score: on `sum` columns by an event of the difference to what it has
        in the window `all`, counted in every window; on `last` and `best` by an event of the
        value. Raises NoAllWindow on a board with a sum column and without that window, and
        SetWithTime on one with a sum column for an event with `at`, except in event time.
        """
        event = member, value, at, id, labels
        return self._store.write(Submit(board, event, window, scope, absolute=True))

    def set_data(self, board: str, member: str, data: Any) -> None:
        """Gives a member JSON of up to 1 KiB to carry (a name, an avatar); None takes it away.

        Lists return it with `with_data=True`. It never ranks. Raises InvalidData, DataTooLarge.
        """
        return self._store.write(SetData(board, member, data))

    def remove(self, board: str, member: str) -> bool:
        """Take a member and its data out of every ranking of a board; return whether it was in any.

        Ids of its events stay remembered.
        """
        return self._store.write(RemoveMember(board, member))

    def position(self, board: str, source: str) -> str | None:
        """The position committed last for a source imported into a board, None without one."""
        return self._store.position(board, str(source))

    # Questions

    def top(
        self,
        board: str,
        *,
        window: str | None = None,
        limit: int = 10,
        offset: int = 0,
        reverse: bool = False,
        after: str | None = None,
        period: str | None = None,
        with_data: bool = False,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> Page:
        """The entries from the top, with `reverse` from the bottom, after `offset` entries.

        `after` is the `next` of the page before, and goes on in its period: members that do not
        move across it are seen exactly once, whatever happens in between. At most 10,000
        entries. O(log n + limit).
        """
        return self._ask(
            board,
            Top(
                window=window,
                period=period,
                with_data=with_data,
                limit=limit,
                offset=offset,
                reverse=reverse,
                after=after,
                labels=label_pairs(labels),
                by=by,
            ),
        )

    def around(
        self,
        board: str,
        member: str,
        *,
        radius: int = 5,
        window: str | None = None,
        period: str | None = None,
        with_data: bool = False,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> Page | None:
        """A member and its neighbours: min(2·radius + 1, total) entries, shifted at the ends.

        None for a member that is not ranked. O(log n + radius).
        """
        return self._ask(
            board,
            Around(
                window=window,
                period=period,
                with_data=with_data,
                member=member,
                radius=radius,
                labels=label_pairs(labels),
                by=by,
            ),
        )

    def standing(
        self,
        board: str,
        member: str,
        *,
        window: str | None = None,
        period: str | None = None,
        to_rank: int | None = None,
        with_data: bool = False,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> Standing | None:
        """Where a member stands: rank, score, neighbours and the gaps to them, top percent.

        `to_rank` adds the gap to the holder of that position. None for a member that is not
        ranked. O(log n).
        """
        return self._ask(
            board,
            StandingOf(
                window=window,
                period=period,
                with_data=with_data,
                member=member,
                to_rank=to_rank,
                labels=label_pairs(labels),
                by=by,
            ),
        )

    def rank(
        self,
        board: str,
        member: str,
        *,
        window: str | None = None,
        period: str | None = None,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> int | None:
        """A member's rank and nothing else, in a fraction of the time of `standing`; None for a
        member that is not ranked. O(log n)."""
        if period is None and by is None and not labels and type(board) is str:
            ensure_member(member)
            rank = self._cached_view(
                board, window, lambda index, key: rank_or_none(index.rank(key, member))
            )
            if rank is not None:
                return rank
        return self._ask(
            board,
            RankOf(window=window, period=period, member=member, labels=label_pairs(labels), by=by),
        )

    def ranks(
        self,
        board: str,
        members: Iterable[str],
        *,
        window: str | None = None,
        period: str | None = None,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> list[int | None]:
        """The ranks of up to 10,000 members, all of one moment, in the order given; None for each
        that is not ranked. O(k log n)."""
        listed = checked_members(members)
        if period is None and by is None and not labels and type(board) is str:
            ranks = self._cached_view(
                board, window, lambda index, key: index.ranks_from(key, listed, FIRST)
            )
            if ranks is not None:
                return ranks
        return self._ask(
            board,
            RanksOf(
                window=window, period=period, members=listed, labels=label_pairs(labels), by=by
            ),
        )

    def card(
        self,
        board: str,
        member: str,
        *,
        to_rank: int | None = None,
        with_data: bool = False,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> dict[str, Standing | None]:
        """A member's card: its standing in the running period of every window of the board, all
        of one moment; None for a window it is not ranked in. O(windows · log n)."""
        return self._ask(
            board,
            Card(
                member=member,
                to_rank=to_rank,
                with_data=with_data,
                labels=label_pairs(labels),
                by=by,
            ),
        )

    def standings(
        self,
        board: str,
        members: Iterable[str],
        *,
        window: str | None = None,
        period: str | None = None,
        with_data: bool = False,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> Page:
        """Friends: those of the members who are ranked, in standing order; `place` is the rank
        among them, in the board's rank style. At most 10,000. O(k log n)."""
        return self._ask(
            board,
            StandingsOf(
                window=window,
                period=period,
                with_data=with_data,
                members=checked_members(members),
                labels=label_pairs(labels),
                by=by,
            ),
        )

    def range(
        self,
        board: str,
        *,
        low: Bound | None = None,
        high: Bound | None = None,
        limit: int = 100,
        offset: int = 0,
        after: str | None = None,
        window: str | None = None,
        period: str | None = None,
        with_data: bool = False,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> Page:
        """The entries with scores from low to high, ends included, in standing order.

        On several columns a bound is a tuple that may name only the first ones, and either bound
        may stand higher. `after` is the `next` of the page before. O(log n + limit).
        """
        return self._ask(
            board,
            Range(
                window=window,
                period=period,
                with_data=with_data,
                low=low,
                high=high,
                limit=limit,
                offset=offset,
                after=after,
                labels=label_pairs(labels),
                by=by,
            ),
        )

    def at_rank(
        self,
        board: str,
        rank: int,
        *,
        window: str | None = None,
        period: str | None = None,
        with_data: bool = False,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> Standing | None:
        """Who stands at that position, counted from 1; None beyond the last. O(log n)."""
        return self._ask(
            board,
            AtRank(
                window=window,
                period=period,
                with_data=with_data,
                rank=rank,
                labels=label_pairs(labels),
                by=by,
            ),
        )

    def score_at_percentile(
        self,
        board: str,
        percentile: Any,
        *,
        window: str | None = None,
        period: str | None = None,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> Score | None:
        """The score that this percent of the members do not exceed (nearest rank): 100 is the
        best, 50 the median. None on an empty ranking. O(log n)."""
        return self._ask(
            board,
            ScoreAtPercentile(
                window=window,
                period=period,
                percentile=percentile,
                labels=label_pairs(labels),
                by=by,
            ),
        )

    def count(
        self,
        board: str,
        *,
        low: Bound | None = None,
        high: Bound | None = None,
        window: str | None = None,
        period: str | None = None,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> int:
        """How many members have scores from low to high, ends included. O(log n)."""
        return self._ask(
            board,
            Count(
                window=window, period=period, low=low, high=high, labels=label_pairs(labels), by=by
            ),
        )

    def periods(
        self,
        board: str,
        window: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> list[PeriodInfo]:
        """The periods of a window that can be read, newest first. O(keep)."""
        return self._ask(
            board,
            Periods(window=window, labels=label_pairs(labels), by=by),
        )

    def scopes(
        self,
        board: str,
        *labels: str,
        after: Mapping[str, str] | None = None,
        limit: int = 1_000,
    ) -> list[dict[str, str]]:
        """The scopes of these label names that hold anybody, in the order of their values' texts:
        `lb.scopes("gifts", "room")` are the rooms. `after` is the last one of those listed before;
        at most 10,000. O(log n + limit)."""
        return self._ask(board, Scopes(labels=labels, after=scope_after(after), limit=limit))

    def export(
        self,
        board: str,
        *,
        window: str | None = None,
        period: str | None = None,
        with_data: bool = False,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> Iterator[Entry]:
        """All entries in standing order, read in pages; between pages commits go on, and
        members who do not move across the place read so far are seen exactly once."""

        def page(after: str | None) -> Page:
            return self.top(
                board,
                window=window,
                period=period,
                limit=EXPORT_CHUNK,
                after=after,
                with_data=with_data,
                labels=labels,
                by=by,
            )

        return _pages(page)

    def changes(
        self,
        board: str,
        *,
        after: str | None = None,
        limit: int = 1_000,
        initial: bool = False,
    ) -> ChangePage:
        """What has changed on a board that keeps its changes, in order: a page of up to `limit`
        changes after a cursor, which is the `cursor` of the page before.

        Without a cursor it begins with the oldest change that is kept, with `after="now"` with
        those to come. With `initial` it begins with every present entry, in changes of the kind
        `initial`, ends those with an `initial_end`, and goes on with what has changed since. Each
        change is there once, with the same id however often it is read; those of one member are
        in order. Raises ChangesNotKept for a board without `changes`; ChangesExpired where
        the changes after the cursor are no longer kept, and CursorDiverged where the store never
        had them: begin with `initial` again. InvalidCursor, InvalidLimit (1 to 10,000). O(limit).
        """
        return self._store.changes(board, after, checked_limit(limit), initial=initial)

    def watch_changes(
        self,
        board: str,
        *,
        after: str | None = None,
        limit: int = 1_000,
        initial: bool = False,
        poll_seconds: float = POLL_SECONDS,
    ) -> Iterator[ChangePage]:
        """The same page by page, for as long as the caller asks for the next: each page has at
        least one change. Where there is none yet it looks again every `poll_seconds`. A caller that
        keeps the `cursor` of each page it is done with goes on there after a restart."""
        while True:
            page = self.changes(board, after=after, limit=limit, initial=initial)
            after, initial = page.cursor, False
            if page.changes:
                yield page
            elif not page.more:
                threading.Event().wait(poll_seconds)

    @overload
    def stats(self) -> Stats: ...
    @overload
    def stats(self, board: str) -> BoardStats: ...
    def stats(self, board: str | None = None) -> Stats | BoardStats:
        """Figures of a board (members, rankings, memory, ids remembered), or of the whole store.

        O(rankings).
        """
        return self._store.stats() if board is None else self._store.board_stats(board)

    # Keeping it in order

    def check(self) -> CheckReport:
        """Asserts every invariant of every structure, and that the index equals a fold of the
        log from its beginning. Raises CheckFailed with the first difference. Writes wait,
        reads go on."""
        return self._store.check()

    def rebuild(self) -> None:
        """Folds the log anew and puts the result in the place of the present index. Writes
        wait; reads go on until the exchange."""
        return self._store.rebuild()

    def snapshot(self) -> int:
        """Takes a snapshot of everything, so that opening need not read the log before it; the
        offset it is of. Reads and writes go on. Snapshots are taken by themselves, too, as the log
        grows; two are kept, and the log is trimmed to the older one unless it is kept whole.
        Raises StorageFailed where the disk refuses, NothingToBackUp for `memory:`."""
        return self._store.snapshot()

    def clock_status(self) -> ClockStatus:
        """The time the store goes by, and how it stands to the system's clock."""
        return self._store.clock_status()

    def accept_clock(self) -> ClockStatus:
        """Follow the system's clock from now on, wherever it has leapt; the status afterwards.
        Time does not go back by it: where the clock is behind the newest record, it stands still.
        Raises InvalidClock where the store goes by another clock."""
        return self._store.accept_clock()

    def close(self) -> None:
        """Commits what is queued and closes; another close does nothing."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _pages(page: Callable[[str | None], Page]) -> Iterator[Entry]:
    """The entries of a page, read at once, and of those after it, read when they are reached."""

    def entries(read: Page) -> Iterator[Entry]:
        yield from read.entries
        while read.next is not None:
            read = page(read.next)
            yield from read.entries

    return entries(page(None))
