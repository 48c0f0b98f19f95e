"""The verbs of `Leaderboards` for event loops. They have the same names and arguments, and are
awaited.

A query that need not wait is answered on the loop at once; a write returns a future. The store
makes sure that no `await` of these verbs blocks the loop on a disk or a server
(`stores.base.AsyncStore`).
"""

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from functools import update_wrapper
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from laurels.core.changes.answers import ChangePage
from laurels.core.commands import Command, SourcePosition, SubmitMany
from laurels.core.due_payouts import DuePayouts
from laurels.core.query import Query
from laurels.core.receipt import Receipts
from laurels.core.standing import Entry
from laurels.model.event import at_ms
from laurels.stores.base import AsyncStore
from laurels.stores.intake.accept import warn_if_all_refused

from .leaderboards import EXPORT_CHUNK, POLL_SECONDS, Leaderboards, listed_whole
from .recording import AsyncRecorded, Recorded, Recorder

P = ParamSpec("P")
T = TypeVar("T")
_Sync = Callable[Concatenate[Leaderboards, P], T]
_Async = Callable[Concatenate["AsyncLeaderboards", P], Coroutine[Any, Any, T]]


class _Awaited:
    """Adapts a store so that its methods return awaitables. A `Leaderboards` over this adapter then
    has verbs that return awaitables, too."""

    def __init__(self, store: AsyncStore) -> None:
        self._store = store

    def ask(self, board: str, query: Query[T]) -> Awaitable[T]:
        return self._store.ask_async(board, query)

    def cached_view(self, *_: object) -> None:
        """Return None, so that `Leaderboards.rank` uses `ask`, whose result can be awaited."""

    def write(self, command: Command[T]) -> Awaitable[T]:
        return self._store.write_async(command)

    def definition(self, name: str) -> Awaitable[Any]:
        return self._store.read_async(lambda _: self._store.definition(name))

    def definitions(self) -> Awaitable[Any]:
        return self._store.read_async(lambda _: self._store.definitions())

    def changes(
        self, board: str, after: str | None, limit: int, *, initial: bool = False
    ) -> Awaitable[Any]:
        return self._store.changes_async(board, after, limit, initial=initial)

    def changed_boards(self, after: str | None) -> Awaitable[Any]:
        return self._store.read_async(lambda _: self._store.changed_boards(after))

    def deleted_boards(self, source: str | None) -> Awaitable[Any]:
        return self._store.read_async(lambda _: self._store.deleted_boards(source))

    def restorable_boards(self) -> Awaitable[Any]:
        return asyncio.to_thread(self._store.restorable_boards)

    def position(self, board: str, source: str) -> Awaitable[Any]:
        return self._store.read_async(lambda _: self._store.position(board, source))

    def positions(self, board: str) -> Awaitable[Any]:
        return self._store.read_async(lambda _: self._store.positions(board))

    def board_stats(self, board: str) -> Awaitable[Any]:
        return self._store.read_async(
            lambda may_wait: self._store.board_stats(board, may_wait=may_wait)
        )

    def stats(self) -> Awaitable[Any]:
        return self._store.read_async(lambda _: self._store.stats())

    def check(self) -> Awaitable[Any]:
        return asyncio.to_thread(self._store.check)

    def rebuild(self) -> Awaitable[Any]:
        return asyncio.to_thread(self._store.rebuild)

    def snapshot(self) -> Awaitable[Any]:
        return asyncio.to_thread(self._store.snapshot)

    def seal(self) -> Awaitable[Any]:
        return asyncio.to_thread(self._store.seal)

    def verify_period(self, board: str, window: str | None, period: str | None) -> Awaitable[Any]:
        return asyncio.to_thread(self._store.verify_period, board, window, period)

    def clock_status(self) -> Awaitable[Any]:
        return asyncio.to_thread(self._store.clock_status)

    def accept_clock(self) -> Awaitable[Any]:
        return asyncio.to_thread(self._store.accept_clock)

    def audit(self, board: str | None, before: str | None, limit: int) -> Awaitable[Any]:
        return asyncio.to_thread(self._store.audit, board, before, limit)

    def hidden_everywhere(self, after: str | None, limit: int) -> Awaitable[Any]:
        return self._store.read_async(lambda _: self._store.hidden_everywhere(after, limit))

    @property
    def due_payouts(self) -> "_AwaitedDuePayouts":
        return _AwaitedDuePayouts(self._store.due_payouts)

    def hot(self) -> Awaitable[Any]:
        return self._store.read_async(lambda _: self._store.hot())


class _AwaitedDuePayouts:
    """Lists the due payouts for an event loop: each method returns an awaitable, and runs in a
    thread."""

    def __init__(self, due: DuePayouts) -> None:
        self._due = due

    def page(self, *arguments: Any) -> Awaitable[Any]:
        return asyncio.to_thread(self._due.page, *arguments)

    def waiting(self, *arguments: Any) -> Awaitable[Any]:
        return asyncio.to_thread(self._due.waiting, *arguments)

    def positions(self) -> Awaitable[Any]:
        return asyncio.to_thread(self._due.positions)

    def move(self, *arguments: Any) -> Awaitable[Any]:
        return asyncio.to_thread(self._due.move, *arguments)


def _awaited(verb: _Sync[P, T]) -> _Async[P, T]:
    """Return an awaitable form of a verb of `Leaderboards`."""

    async def awaited(self: "AsyncLeaderboards", /, *args: P.args, **kwargs: P.kwargs) -> T:
        awaitable: Any = verb(self._verbs, *args, **kwargs)
        result: T = await awaitable
        return result

    update_wrapper(awaited, verb)
    return awaited


class AsyncLeaderboards:
    """Boards on one deployment, for event loops. Open one with `laurels.open_async`.

    It has every verb of `Leaderboards` under the same name, with `await`. `sync` is a
    `Leaderboards` over the same boards, for threads beside the loop.
    """

    def __init__(self, store: AsyncStore, recorder: Recorder | None = None) -> None:
        """Serve the boards of a store. Administrative calls are recorded by `recorder`, if there is
        one."""
        over: Any = _Awaited(store)
        self._recorded: AsyncRecorded | None = None
        if recorder is None:
            self.sync = Leaderboards(store)
            self._verbs = Leaderboards(over)
        else:
            self.sync = Leaderboards(store, Recorded(store, recorder))
            recorded: Any = AsyncRecorded(store, recorder)
            self._recorded = recorded
            self._verbs = Leaderboards(over, recorded)
        self._store = store
        store.start()

    create = _awaited(Leaderboards.create)
    change = _awaited(Leaderboards.change)
    get = _awaited(Leaderboards.get)
    boards = _awaited(Leaderboards.boards)
    clear = _awaited(Leaderboards.clear)
    delete = _awaited(Leaderboards.delete)
    undelete = _awaited(Leaderboards.undelete)

    submit = _awaited(Leaderboards.submit)
    set = _awaited(Leaderboards.set)
    set_data = _awaited(Leaderboards.set_data)
    remove = _awaited(Leaderboards.remove)
    hide = _awaited(Leaderboards.hide)
    show = _awaited(Leaderboards.show)
    erase = _awaited(Leaderboards.erase)
    disqualify = _awaited(Leaderboards.disqualify)
    confirm = _awaited(Leaderboards.confirm)
    mend = _awaited(Leaderboards.mend)
    position = _awaited(Leaderboards.position)
    positions = _awaited(Leaderboards.positions)

    top = _awaited(Leaderboards.top)
    around = _awaited(Leaderboards.around)
    standing = _awaited(Leaderboards.standing)
    rank = _awaited(Leaderboards.rank)
    ranks = _awaited(Leaderboards.ranks)
    card = _awaited(Leaderboards.card)
    needed = _awaited(Leaderboards.needed)
    settle = _awaited(Leaderboards.settle)
    payouts = _awaited(Leaderboards.payouts)
    due_payouts = _awaited(Leaderboards.due_payouts)
    waiting_payouts = _awaited(Leaderboards.waiting_payouts)
    payout_positions = _awaited(Leaderboards.payout_positions)
    move_payout_position = _awaited(Leaderboards.move_payout_position)
    standings = _awaited(Leaderboards.standings)
    entries = _awaited(Leaderboards.entries)
    range = _awaited(Leaderboards.range)
    at_rank = _awaited(Leaderboards.at_rank)
    score_at_percentile = _awaited(Leaderboards.score_at_percentile)
    count = _awaited(Leaderboards.count)
    periods = _awaited(Leaderboards.periods)
    scopes = _awaited(Leaderboards.scopes)
    hidden = _awaited(Leaderboards.hidden)
    changes = _awaited(Leaderboards.changes)
    changed_boards = _awaited(Leaderboards.changed_boards)
    deleted_boards = _awaited(Leaderboards.deleted_boards)
    restorable_boards = _awaited(Leaderboards.restorable_boards)
    stats = _awaited(Leaderboards.stats)

    check = _awaited(Leaderboards.check)
    rebuild = _awaited(Leaderboards.rebuild)
    snapshot = _awaited(Leaderboards.snapshot)
    seal = _awaited(Leaderboards.seal)
    archived = _awaited(Leaderboards.archived)
    archive_pieces = _awaited(Leaderboards.archive_pieces)
    verify = _awaited(Leaderboards.verify)
    clock_status = _awaited(Leaderboards.clock_status)
    accept_clock = _awaited(Leaderboards.accept_clock)
    audit = _awaited(Leaderboards.audit)
    hot = _awaited(Leaderboards.hot)

    async def submit_many(
        self,
        board: str,
        events: Iterable[Any],
        *,
        window: str | None = None,
        ranks: bool = False,
        all_or_nothing: bool = False,
        key: str | None = None,
        position: SourcePosition | None = None,
        scope: Sequence[str] | None = None,
        arrived: Any = None,
    ) -> Receipts:
        command = SubmitMany(
            board, events, window, ranks, all_or_nothing, key, position, scope, at_ms(arrived)
        )
        receipts = await self._store.write_async(command)
        warn_if_all_refused(receipts)
        return receipts

    async def export(
        self,
        board: str,
        *,
        window: str | None = None,
        period: str | None = None,
        revision: int | None = None,
        with_data: bool = False,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> AsyncIterator[Entry]:
        after: str | None = None
        while True:
            page = listed_whole(
                await self.top(
                    board,
                    window=window,
                    period=period,
                    revision=revision,
                    limit=EXPORT_CHUNK,
                    after=after,
                    with_data=with_data,
                    labels=labels,
                    by=by,
                )
            )
            for entry in page.entries:
                yield entry
            if (after := page.next) is None:
                return

    async def watch_changes(
        self,
        board: str,
        *,
        after: str | None = None,
        limit: int = 1_000,
        initial: bool = False,
        poll_seconds: float = POLL_SECONDS,
    ) -> AsyncIterator[ChangePage]:
        while True:
            page = await self.changes(board, after=after, limit=limit, initial=initial)
            after, initial = page.cursor, False
            if page.changes:
                yield page
            if page.is_end:
                return
            if not page.changes and not page.more:
                await asyncio.sleep(poll_seconds)

    async def close(self) -> None:
        if self._recorded is not None:
            await self._recorded.close()
        await self._store.close_async()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


for _verb in ("submit_many", "export", "watch_changes", "close"):
    getattr(AsyncLeaderboards, _verb).__doc__ = getattr(Leaderboards, _verb).__doc__
