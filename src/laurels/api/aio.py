"""The verbs for event loops: the same names and arguments, awaited.

A question is answered on the loop, at once, unless it is a long one, a commit is being counted
just then, or a step has begun that is still being prepared; it then goes to a thread. A write is
handed to the commit thread and awaited as a future. So no await here holds the loop for a disk.
While the loop runs, a task of it prepares rolling windows for their next step (`pacing`).
"""

import asyncio
import weakref
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
    Sized,
)
from functools import update_wrapper
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from laurels.core.receipt import Receipt, Receipts
from laurels.core.standing import Entry
from laurels.errors import NotReady
from laurels.model.event import Value, member_bytes
from laurels.model.validation import integer
from laurels.stores.base import LoopStore
from laurels.stores.intake import writes
from laurels.stores.intake.accept import How, data_bytes, receipt_at, warn_if_all_refused
from laurels.stores.intake.submission import Submission
from laurels.stores.local.pacing import pace

from .leaderboards import EXPORT_CHUNK, Leaderboards

_ON_LOOP = 1_000
"""A batch of more events, or a question for more entries, goes to a thread."""
_SIZED = frozenset(
    {
        Leaderboards.top,
        Leaderboards.around,
        Leaderboards.range,
        Leaderboards.ranks,
        Leaderboards.standings,
        Leaderboards.scopes,
    }
)
"""The questions that say for how many entries they are."""

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
_Sync = Callable[Concatenate[Leaderboards, P], T]
_Async = Callable[Concatenate["AsyncLeaderboards", P], Coroutine[Any, Any, T]]


def _documented_as(verb: Callable[..., Any]) -> Callable[[F], F]:
    """Gives an awaited verb the docstring of the verb it stands for."""

    def document(awaited: F) -> F:
        awaited.__doc__ = verb.__doc__
        return awaited

    return document


def _question(verb: _Sync[P, T]) -> _Async[P, T]:
    """A verb that only reads, answered on the loop when nothing stands in its way."""

    async def ask(self: "AsyncLeaderboards", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._asked(verb, args, kwargs)

    update_wrapper(ask, verb)
    return ask


def _is_long(*args: Any, limit: Any = 0, radius: Any = 0, **_: Any) -> bool:
    """Whether a question is for so many entries that it would hold the loop for milliseconds."""
    for size in (limit, radius):
        if (integer(size) or 0) > _ON_LOOP:
            return True
    for given in args:
        if not isinstance(given, str) and isinstance(given, Sized) and len(given) > _ON_LOOP:
            return True
    return False


def work(verb: _Sync[P, T]) -> _Async[P, T]:
    """A verb that is rare or long, done in a thread."""

    async def do(self: "AsyncLeaderboards", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(verb, self.sync, *args, **kwargs)

    update_wrapper(do, verb)
    return do


class AsyncLeaderboards:
    """Boards on one deployment, for event loops. Open one with `laurels.open_async`.

    Every verb of `Leaderboards` under its name, with `await`; `sync` is that object, for threads
    beside the loop.
    """

    def __init__(self, service: LoopStore) -> None:
        self.sync = Leaderboards(service)
        self._at_once = Leaderboards(service, patient=False)
        self._service = service
        service.paced = True
        self._pacing = asyncio.get_running_loop().create_task(pace(weakref.ref(service)))

    create = work(Leaderboards.create)
    change = work(Leaderboards.change)
    delete = work(Leaderboards.delete)
    check = work(Leaderboards.check)
    rebuild = work(Leaderboards.rebuild)
    snapshot = work(Leaderboards.snapshot)
    clock_status = work(Leaderboards.clock_status)
    accept_clock = work(Leaderboards.accept_clock)
    periods = work(Leaderboards.periods)

    get = _question(Leaderboards.get)
    boards = _question(Leaderboards.boards)
    position = _question(Leaderboards.position)
    top = _question(Leaderboards.top)
    around = _question(Leaderboards.around)
    standing = _question(Leaderboards.standing)
    rank = _question(Leaderboards.rank)
    ranks = _question(Leaderboards.ranks)
    card = _question(Leaderboards.card)
    standings = _question(Leaderboards.standings)
    range = _question(Leaderboards.range)
    at_rank = _question(Leaderboards.at_rank)
    score_at_percentile = _question(Leaderboards.score_at_percentile)
    count = _question(Leaderboards.count)
    scopes = _question(Leaderboards.scopes)
    stats = _question(Leaderboards.stats)

    @_documented_as(Leaderboards.submit)
    async def submit(
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
        # As they are now: the event may be accepted in a while.
        own = dict(labels) if type(labels) is dict else labels
        event = (member, value, at, id, own)
        receipts, place = await self.submitted(board, event, window=window, scope=scope)
        return receipt_at(receipts, place)

    async def submitted(
        self,
        board: str,
        event: Any,
        *,
        window: str | None = None,
        scope: Sequence[str] | None = None,
    ) -> tuple[Receipts, int]:
        """What `submit` answers of an event in any accepted form: the receipts of those that were
        accepted with it, and its place among them. An event that was refused is no error here."""
        shared = self._service.share_async(board, event, window, scope)
        if shared is not None:
            return await shared
        write = await self._submission(board, [event], window, ranks=True, scope=scope)
        return await self._service.write_async(write), 0

    @_documented_as(Leaderboards.set)
    async def set(
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
        events = [(member, value, at, id, labels)]
        write = await self._submission(
            board, events, window, ranks=True, absolute=True, scope=scope
        )
        return receipt_at(await self._service.write_async(write), 0)

    @_documented_as(Leaderboards.submit_many)
    async def submit_many(
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
        receipts = await self.submitted_many(
            board,
            events,
            window,
            ranks=ranks,
            atomic=all_or_nothing,
            key=key,
            position=position,
            scope=scope,
        )
        warn_if_all_refused(receipts)
        return receipts

    async def submitted_many(
        self, board: str, events: Iterable[Any], window: str | None = None, **how: Unpack[How]
    ) -> Receipts:
        """Return what `submit_many` returns, without a warning where every event was refused."""
        write = await self._submission(board, events, window, **how)
        receipts: Receipts = await self._service.write_async(write)
        return receipts

    @_documented_as(Leaderboards.set_data)
    async def set_data(self, board: str, member: str, data: Any) -> None:
        state = self._service.named(board)
        await self._service.write_async(
            writes.data_change(state, member_bytes(member), data_bytes(data))
        )

    @_documented_as(Leaderboards.remove)
    async def remove(self, board: str, member: str) -> bool:
        state = self._service.named(board)
        removed: bool = await self._service.write_async(writes.removal(state, member_bytes(member)))
        return removed

    @_documented_as(Leaderboards.export)
    async def export(
        self,
        board: str,
        *,
        window: str | None = None,
        period: str | None = None,
        with_data: bool = False,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> AsyncIterator[Entry]:
        after: str | None = None
        while True:
            page = await self.top(
                board,
                window=window,
                period=period,
                limit=EXPORT_CHUNK,
                after=after,
                with_data=with_data,
                labels=labels,
                by=by,
            )
            for entry in page.entries:
                yield entry
            if (after := page.next) is None:
                return

    @_documented_as(Leaderboards.close)
    async def close(self) -> None:
        self._pacing.cancel()
        await asyncio.to_thread(self.sync.close)

    async def _asked(
        self, verb: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> T:
        """What a verb that only reads answers: at once where nothing stands in its way."""
        is_long = verb in _SIZED and _is_long(*args, **kwargs)
        lock = None if is_long else self._service.lock_at_once()
        if lock is not None:
            try:
                return verb(self._at_once, *args, **kwargs)
            except NotReady:
                pass  # the thread does what is left
            finally:
                lock.release()
        return await asyncio.to_thread(verb, self.sync, *args, **kwargs)

    async def _submission(
        self, board: str, events: Iterable[Any], window: str | None, **how: Unpack[How]
    ) -> Submission:
        """Accepts events, a long batch in a thread."""
        accept = self._service.submission
        if isinstance(events, Sized) and len(events) <= _ON_LOOP:
            return accept(board, events, window, **how)
        return await asyncio.to_thread(accept, board, events, window, **how)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
