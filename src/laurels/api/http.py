"""The two surfaces over HTTP: tables of the verbs, each of which sends its call."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterable, Sequence, Sized
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from laurels.core.receipt import Receipts
from laurels.core.stats import BoardStats, Stats
from laurels.stores.http import calls
from laurels.stores.http.call import Call
from laurels.stores.http.transport import AsyncWire, Wire
from laurels.stores.intake.accept import warn_if_all_refused

from .aio import AsyncLeaderboards
from .leaderboards import Leaderboards

_AT_ONCE = 1_000
"""A batch of more events is written in a thread."""

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def _named(verb: F, describe: Callable[..., Any]) -> F:
    """A verb with the name and parameters of its description, and what `Leaderboards` says."""
    parameters = inspect.signature(describe).parameters.values()
    itself, *_ = inspect.signature(getattr(Leaderboards, describe.__name__)).parameters.values()
    verb.__name__ = describe.__name__
    verb.__doc__ = getattr(Leaderboards, describe.__name__).__doc__
    vars(verb)["__signature__"] = inspect.Signature([itself, *parameters])
    return verb


def _sync(describe: Callable[P, Call[T]]) -> Callable[Concatenate[Any, P], T]:
    """The verb that sends what `describe` describes."""

    def verb(self: "RemoteLeaderboards", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.wire.answer(describe(*args, **kwargs))

    return _named(verb, describe)


def _async(describe: Callable[P, Call[T]]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """The same, awaited."""

    async def verb(self: "AsyncRemoteLeaderboards", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.wire.answer(describe(*args, **kwargs))

    return _named(verb, describe)


class RemoteLeaderboards(Leaderboards):
    """Boards on a server. Every verb of `Leaderboards` with the answers and errors it has there,
    and besides them `ServerUnreachable`, `UnknownAnswer` and what the server alone refuses by.

    A batch of more than 10,000 events goes in several commits; where it has to be one it is
    refused as BatchTooLong. A write of events without ids is not repeated when its connection
    breaks: ServerUnreachable then says that it may have counted. An export is read in pages, as
    it is anywhere.
    """

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    create = _sync(calls.create)
    change = _sync(calls.change)
    get = _sync(calls.get)
    boards = _sync(calls.boards)
    delete = _sync(calls.delete)

    submit = _sync(calls.submit)
    set = _sync(calls.set)
    set_data = _sync(calls.set_data)
    remove = _sync(calls.remove)
    position = _sync(calls.position)

    top = _sync(calls.top)
    around = _sync(calls.around)
    standing = _sync(calls.standing)
    rank = _sync(calls.rank)
    ranks = _sync(calls.ranks)
    card = _sync(calls.card)
    standings = _sync(calls.standings)
    range = _sync(calls.range)
    at_rank = _sync(calls.at_rank)
    score_at_percentile = _sync(calls.score_at_percentile)
    count = _sync(calls.count)
    periods = _sync(calls.periods)
    scopes = _sync(calls.scopes)

    check = _sync(calls.check)
    rebuild = _sync(calls.rebuild)
    snapshot = _sync(calls.snapshot)
    clock_status = _sync(calls.clock_status)
    accept_clock = _sync(calls.accept_clock)

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
        parts = calls.submit_many(
            board,
            events,
            window=window,
            ranks=ranks,
            all_or_nothing=all_or_nothing,
            key=key,
            position=position,
            scope=scope,
        )
        with parts.seen_through():
            receipts = parts.join([self.wire.answer(call) for call in parts.calls])
        warn_if_all_refused(receipts)
        return receipts

    @overload
    def stats(self) -> Stats: ...
    @overload
    def stats(self, board: str) -> BoardStats: ...
    def stats(self, board: str | None = None) -> Stats | BoardStats:
        if board is None:
            return self.wire.answer(calls.stats())
        return self.wire.answer(calls.stats(board))

    def close(self) -> None:
        self.wire.close()


class AsyncRemoteLeaderboards(AsyncLeaderboards):
    """The same for event loops; `sync` is for threads beside the loop."""

    def __init__(self, wire: AsyncWire, sync: RemoteLeaderboards) -> None:
        self.wire = wire
        self.sync = sync

    create = _async(calls.create)
    change = _async(calls.change)
    get = _async(calls.get)
    boards = _async(calls.boards)
    delete = _async(calls.delete)

    submit = _async(calls.submit)
    set = _async(calls.set)
    set_data = _async(calls.set_data)
    remove = _async(calls.remove)
    position = _async(calls.position)

    top = _async(calls.top)
    around = _async(calls.around)
    standing = _async(calls.standing)
    rank = _async(calls.rank)
    ranks = _async(calls.ranks)
    card = _async(calls.card)
    standings = _async(calls.standings)
    range = _async(calls.range)
    at_rank = _async(calls.at_rank)
    score_at_percentile = _async(calls.score_at_percentile)
    count = _async(calls.count)
    periods = _async(calls.periods)
    scopes = _async(calls.scopes)

    check = _async(calls.check)
    rebuild = _async(calls.rebuild)
    snapshot = _async(calls.snapshot)
    clock_status = _async(calls.clock_status)
    accept_clock = _async(calls.accept_clock)

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
        def described() -> calls.SubmissionCalls:
            return calls.submit_many(
                board,
                events,
                window=window,
                ranks=ranks,
                all_or_nothing=all_or_nothing,
                key=key,
                position=position,
                scope=scope,
            )

        short = isinstance(events, Sized) and len(events) <= _AT_ONCE
        parts = described() if short else await asyncio.to_thread(described)
        with parts.seen_through():
            receipts = parts.join([await self.wire.answer(call) for call in parts.calls])
        warn_if_all_refused(receipts)
        return receipts

    @overload
    async def stats(self) -> Stats: ...
    @overload
    async def stats(self, board: str) -> BoardStats: ...
    async def stats(self, board: str | None = None) -> Stats | BoardStats:
        if board is None:
            return await self.wire.answer(calls.stats())
        return await self.wire.answer(calls.stats(board))

    async def close(self) -> None:
        await self.wire.close()
        self.sync.close()


for _surface in (RemoteLeaderboards, AsyncRemoteLeaderboards):
    for _verb in ("submit_many", "stats", "close"):
        getattr(_surface, _verb).__doc__ = getattr(Leaderboards, _verb).__doc__
