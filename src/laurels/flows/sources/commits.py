"""Commit events of a source together with the position after them, each exactly once.

Each commit names the position that it follows, and the store refuses the commit if another position
is stored. So if a run was paused and another run has gone on meanwhile, the paused run counts
nothing and moves no position, not even with a request that was in progress. If the store did not
answer a commit, the stored position is read: the batch was counted if and only if the position of
the batch is stored.

A board whose shards have different positions refuses such commits. After `begin_leveling`, commits
follow the lowest of these positions. Such a commit counts only in the shards that have this
position, and only once there, however often it is sent.
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
        self._being_leveled = set[str]()

    async def read_position(self, board: str) -> str | None:
        """Read and return the stored position of a board, None if there is none. The next commit
        succeeds only if this is still the stored position. Raises ShardsDiffer."""
        read = partial(self._lb.position, board, self._key)
        stored = self._stored[board] = await self._retries.call(read) or None
        self._being_leveled.discard(board)
        return stored

    def begin_leveling(self, board: str, text: str | None) -> None:
        """Make the next commits follow a position that only some shards of a board have. The other
        shards skip the events of these commits. A call of `read_position` or `set` ends this."""
        self._stored[board] = text
        self._being_leveled.add(board)

    async def set(self, board: str, text: str) -> None:
        """Store a position in all shards of a board, whatever is stored there now."""
        store = partial(self._lb.submit_many, board, (), position=(self._key, text))
        await self._retries.call(store)
        self._stored[board] = text
        self._being_leveled.discard(board)

    def passed_ms(self, board: str) -> int | None:
        """Return the time in the stored position of a board, None if there is none. The board has
        counted everything that the stream took before this time."""
        return passed_ms(self._stored.get(board))

    def forget(self, board: str) -> None:
        """Forget a board that was deleted."""
        self._stored.pop(board, None)
        self._being_leveled.discard(board)

    async def submit(
        self,
        board: str,
        events: Sequence[MappedEvent],
        text: str,
        *,
        arrived_ms: int | None = None,
        all_or_nothing: bool = False,
    ) -> Receipts | None:
        """Submit events with the time of their arrival at the stream, and repeat the call until
        they are known to be counted. Return the receipts, or None if the answer with them was lost.
        Raises SourceOvertaken, ShardsDiffer."""
        before = self._stored.get(board)
        if not events and text == before:
            return None
        is_uncertain = False

        async def attempt() -> Receipts | None:
            nonlocal is_uncertain
            if board in self._being_leveled:
                leveled_position: SourcePosition = (self._key, text, before, "behind")
                return await self._lb.submit_many(
                    board,
                    events,
                    position=leveled_position,
                    all_or_nothing=all_or_nothing,
                    arrived=arrived_ms,
                )
            if is_uncertain and await self._lb.position(board, self._key) == text:
                return None
            try:
                return await self._lb.submit_many(
                    board,
                    events,
                    position=(self._key, text, before),
                    all_or_nothing=all_or_nothing,
                    arrived=arrived_ms,
                )
            except PositionMoved as error:
                # The batch may have been counted already: by a retry within this call, or by
                # another run that has divided the stream into the same batches.
                if await self._lb.position(board, self._key) == text:
                    return None
                raise SourceOvertaken(f"{board!r}: {error.what}") from error
            except LaurelsError as error:
                is_uncertain = error.retryable
                raise

        receipts = await self._retries.call(attempt)
        self._stored[board] = text
        return receipts
