"""Update the label replica of a board in several shards from the shards' feeds.

The label replica has the rankings by a label. It has a slot of its own, and is stored like a board
in one shard whose members are the values of the labels. Each shard has a feed (see `feed`), and the
replica stores for each feed the place of the last counted entry. A process reads entries and sends
them to the replica. In one step, the replica counts the entries and updates the stored places. It
refuses entries that do not begin right after these places. So any number of processes can update
the replica at the same time, any of them can fail at any point, and each entry counts once. Counted
entries are deleted from their feed.

Before a ranking by a label is read, all entries that the feeds have at that time are counted. So an
answer shows all events that were acknowledged before the query.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from laurels.core.lifecycle import next_boundary
from laurels.core.requests import ReadRequest
from laurels.errors import NotReady
from laurels.stores.redis.outdated import FeedConflict
from laurels.stores.redis.remote import Opened, Reading

from .feed import FeedPlace, Pending
from .merged_feed import merge_feeds, next_runs
from .shard_index import ShardIndex
from .shards import gather, label_replica, shards

ENTRIES = 32
"""The maximum number of entries of a feed that one call reads."""
EVENTS = 1_000
"""The approximate number of events that one call counts if the board ranks by one label. If it
ranks by several labels, this number is divided by the number of labels."""
ROUNDS = 200
"""The maximum number of calls in one round. The entries that are left are counted in a later
round."""


class LabelReplicator:
    """Updates the rankings by a label from the feeds of the shards."""

    def __init__(self, index: ShardIndex) -> None:
        self._index = index
        self._places: dict[int, list[FeedPlace]] = {}
        """The last known places up to which the label replica has counted the feeds, by board
        number."""
        self._rounds: dict[int, _Round] = {}

    async def read(
        self, board: Opened, requests: Sequence[ReadRequest], *, now_ms: int, due_ms: int
    ) -> Reading:
        """Read rankings by a label. Before that, count in these rankings all events that the shards
        had counted before this call."""
        if not await self.feed(board, now_ms):
            raise NotReady("the rankings by a label do not keep up with the counted events")
        return await self._index.read(label_replica(board), requests, now_ms=now_ms, due_ms=due_ms)

    async def feed(self, board: Opened, now_ms: int) -> bool:
        """Count all entries that the feeds had before this call. Return False if some entries are
        left.

        Calls that arrive while a round for the board is running share the next round.
        """
        waiting = self._rounds.get(board.number)
        if waiting is None or waiting.started:
            self._rounds[board.number] = waiting = _Round(waiting, self._feed, board, now_ms)
        waiting.now_ms = max(waiting.now_ms, now_ms)
        return await waiting.wait()

    async def _feed(self, board: Opened, now_ms: int) -> bool:
        goal: list[FeedPlace] | None = None
        for _ in range(ROUNDS):
            pending = await self._pending(board)
            goal = goal or [each.last for each in pending]
            if self._has_reached(board, goal):
                return True
            await self._count(board, pending, now_ms)
            if self._has_reached(board, goal):
                return True
        return False

    def forget(self, board: Opened) -> None:
        """Forget the cached state of a board."""
        self._places.pop(board.number, None)
        self._rounds.pop(board.number, None)

    def _has_reached(self, board: Opened, goal: Sequence[FeedPlace]) -> bool:
        places = self._places[board.number]
        return all(place >= last for place, last in zip(places, goal, strict=True))

    async def _pending(self, board: Opened) -> list[Pending]:
        """Return the next entries of each feed, after the one that this process knows as the last
        counted entry."""
        parts = shards(board)
        places = self._places.get(board.number)
        if places is None:
            places = self._places[board.number] = await self._index.followed(label_replica(board))
        return await gather(
            self._index.pending(shard, place, ENTRIES)
            for shard, place in zip(parts, places, strict=True)
        )

    async def _count(self, board: Opened, pending: Sequence[Pending], now_ms: int) -> None:
        """Count the next entries of the feeds. If other processes have counted any of them already,
        count nothing, and only note how far the label replica has counted each feed."""
        places = self._places[board.number]
        home = label_replica(board)
        most = max(1, EVENTS // len(board.rules.rank_by))
        runs = next_runs([each.entries for each in pending], most)
        if not runs:  # other processes have counted and deleted the entries
            self._places[board.number] = await self._index.followed(home)
            return
        latest_ms = max(entry.payload.now_ms for run in runs for _, entry in run)
        feed = merge_feeds(home, runs, places, max(now_ms, latest_ms))
        due_ms = next_boundary(board.rules, feed.batch.now_ms)
        try:
            await self._index.follow(
                home,
                feed.batch,
                feed.plan,
                due_ms=due_ms,
                spans=feed.spans,
                baselines=feed.baselines,
            )
        except FeedConflict as conflict:
            self._places[board.number] = conflict.places
        else:
            for shard, _, last in feed.spans:
                places[shard] = last


class _Round:
    """One round in which a board's feeds are read and counted. It begins when the previous round
    has ended."""

    def __init__(
        self,
        before: "_Round | None",
        feed: Callable[[Opened, int], Awaitable[bool]],
        board: Opened,
        now_ms: int,
    ) -> None:
        self.started = False
        self.now_ms = now_ms
        self._task = asyncio.create_task(self._run(before, feed, board))
        self._task.add_done_callback(_retrieve_error)

    async def wait(self) -> bool:
        """Wait for the round. Return whether it counted all entries, or raise its error. Cancelling
        one waiter does not cancel the round."""
        return await asyncio.shield(self._task)

    async def _run(
        self,
        before: "_Round | None",
        feed: Callable[[Opened, int], Awaitable[bool]],
        board: Opened,
    ) -> bool:
        if before is not None:
            await asyncio.wait([before._task])
        self.started = True
        return await feed(board, self.now_ms)


def _retrieve_error(task: "asyncio.Task[bool]") -> None:
    """Retrieve the error of a round, so that asyncio does not report it if all callers were
    cancelled."""
    if not task.cancelled():
        task.exception()
