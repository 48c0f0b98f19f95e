"""Commits of a source: events together with the position after them, each exactly once.

Each commit names the position that it follows, and the store refuses it if another one is stored.
So a run that was paused and overtaken by another one counts nothing and moves no position, not even
with a request that was in progress. If the store did not answer, its stored position decides
whether the batch was counted: it was if and only if the position of the batch is stored.

A board whose shards have different positions refuses such commits. Commits from the position of the
shards furthest behind (`go_back`) count in these shards alone, however often they are sent.
"""

from collections.abc import Sequence
from functools import partial

from laurels.api.aio import AsyncLeaderboards
from laurels.core.commands import SourcePosition
from laurels.core.receipt import Receipts
from laurels.core.stream_time import passed_ms
from laurels.errors import LaurelsError, PositionMoved
from laurels.errors.sources import SourceOvertaken
from laurels.flows.retries import FlowRetryPolicy

from .mapping import MappedEvent


class Commits:
    """The commits of one run. `key` is the name under which boards store the source's position."""

    def __init__(self, lb: AsyncLeaderboards, key: str, retries: FlowRetryPolicy) -> None:
        self._lb = lb
        self._key = key
        self._retries = retries
        self._stored: dict[str, str | None] = {}
        self._behind = set[str]()

    async def learn(self, board: str) -> str | None:
        """Return the stored position of a board, None if there is none; the next commit follows
        it. Raises ShardsDiffer."""
        read = partial(self._lb.position, board, self._key)
        stored = self._stored[board] = await self._retries.call(read) or None
        self._behind.discard(board)
        return stored

    def go_back(self, board: str, text: str | None) -> None:
        """Have the next commits follow a position that only some shards of a board have; the
        others skip their events. A call of `learn` ends this."""
        self._stored[board] = text
        self._behind.add(board)

    async def set(self, board: str, text: str) -> None:
        """Store a position in all shards of a board, whatever is stored there."""
        store = partial(self._lb.submit_many, board, (), position=(self._key, text))
        await self._retries.call(store)
        self._stored[board] = text
        self._behind.discard(board)

    def passed_ms(self, board: str) -> int | None:
        """Return the stream time up to which a board has counted the stream, as stored."""
        return passed_ms(self._stored.get(board))

    def forget(self, board: str) -> None:
        """Forget a board that was deleted."""
        self._stored.pop(board, None)
        self._behind.discard(board)

    async def submit(
        self,
        board: str,
        events: Sequence[MappedEvent],
        text: str,
        *,
        arrived_ms: int | None = None,
        whole: bool = False,
    ) -> Receipts | None:
        """Submit events that arrived at their stream at a given time, with `whole` all or nothing,
        and repeat until they are known to be counted; return None if the receipts are lost. Raises
        SourceOvertaken, ShardsDiffer."""
        before = self._stored.get(board)
        if not events and text == before:
            return None
        doubtful = False

        async def attempt() -> Receipts | None:
            nonlocal doubtful
            if board in self._behind:
                behind: SourcePosition = (self._key, text, before, "behind")
                return await self._lb.submit_many(
                    board, events, position=behind, all_or_nothing=whole, arrived=arrived_ms
                )
            if doubtful and await self._lb.position(board, self._key) == text:
                return None
            try:
                return await self._lb.submit_many(
                    board,
                    events,
                    position=(self._key, text, before),
                    all_or_nothing=whole,
                    arrived=arrived_ms,
                )
            except PositionMoved as error:
                # The batch may have been counted by a repetition below this call, or by a run with
                # equal batches.
                if await self._lb.position(board, self._key) == text:
                    return None
                raise SourceOvertaken(f"{board!r}: {error.what}") from error
            except LaurelsError as error:
                doubtful = error.retryable
                raise

        receipts = await self._retries.call(attempt)
        self._stored[board] = text
        return receipts
