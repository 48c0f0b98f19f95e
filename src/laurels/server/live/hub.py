"""The live feed: the changes of a list, computed once for all its watchers.

Watchers of the same list (board, window, scope, limit, interval) share a *channel*. While there are
watchers, one ticker checks every few milliseconds which of the watched boards have been written to
or have passed a boundary. For each channel of these boards, it reads the list once and compares it
with the list that was sent last. Then it puts the same bytes into the slot of every watcher. A slot
has room for one frame. A watcher that has not taken a frame when the next frame comes gets the
whole list instead of the frames it missed. So no stream waits for a slow watcher, and frames do not
pile up.

One subject can watch many lists, and reading and comparing them takes time. So all lists are put
into a queue, and read from it in slices of `SLICE_COST`. The queue first serves the subject that
was charged least in the last seconds, so a subject with many lists delays only its own lists. A
board that does not change costs one comparison of its change token, whatever the number of
watchers.

If other processes also write to the boards, the watched boards are *followed*: every
`FOLLOW_SECONDS`, the change tokens of the boards whose lists may be sent again are read.

Frames are numbered `epoch.number`. A watcher that reconnects with its last number gets the frames
after that number. If these are no longer kept, it gets the whole list.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from functools import partial
from itertools import count
from typing import TypeVar

from laurels.api.aio import AsyncLeaderboards
from laurels.core.standing import Needed, Page
from laurels.errors import BeyondHead, LaurelsError, MemberHidden, NotLive, Unavailable
from laurels.errors.service import Stopping
from laurels.wire.live import RETRY_MS

from .board_waits import BoardWaits
from .channel import Channel, FeedWatcher, WatchedList
from .fair_queue import FairQueue
from .frames import END

T = TypeVar("T")

TICK_SECONDS = 0.01
FOLLOW_SECONDS = 0.05
SLICE_COST = 2_000
"""The cost of the lists that are read before other tasks of the loop run, as a number of entries.
To read these lists takes about 4 ms."""
STREAM_COST = 250
"""The cost of beginning a stream, as a number of entries."""
SLICE_SECONDS = 0.002


class Hub:
    """All channels, and the ticker. The ticker runs while there are channels, jobs in the queue, or
    streams that wait for a board."""

    def __init__(
        self,
        lb: AsyncLeaderboards,
        change_token: Callable[[str], tuple[int, int, int, bool]],
        epoch: str,
        clock: Callable[[], float],
        failed: Callable[[BaseException], object],
        follow: Callable[[Collection[str]], Awaitable[None]] | None = None,
    ) -> None:
        self._lb = lb
        self._change_token = change_token
        self._epoch = epoch
        self._clock = clock
        self._failed = failed
        self._follow = follow
        self._followed_at = 0.0
        self._made = count()
        self._channels: dict[WatchedList, Channel] = {}
        self._by_board: dict[str, set[Channel]] = {}
        self._change_tokens: dict[str, object] = {}
        self._changed: dict[Channel, None] = {}
        """The channels whose list may have changed and that are not in the queue yet."""
        self._queued: set[Channel] = set()
        """The channels that are in the queue, because their lists may have changed."""
        self._ticker: asyncio.Task[None] | None = None
        self._stopping = False
        self._queue: FairQueue[Callable[[], Awaitable[None]]] = FairQueue(clock)
        self._waits = BoardWaits()
        self._slice_began = clock()
        self._slice_left = SLICE_COST

    async def watch(
        self, watched: WatchedList, last: str | None, payer: str = ""
    ) -> AsyncGenerator[bytes, None]:
        """Return the frames of a stream, until its watcher disconnects or the server stops. The
        cost of its work is charged to `payer`.

        Raises UnknownBoard, UnknownWindow and other errors of reading the list, and Stopping.
        """
        if self._follow is not None:
            await self._follow([watched.board])
        channel = self._channels.get(watched)
        if channel is None:
            # The numbers of a reopened channel begin at 0 again, so the channel gets a new epoch.
            channel = Channel(watched, f"{self._epoch}-{next(self._made)}")
            await self._read_first(channel, payer)
        elif self._change_token(watched.board) != channel.change_token:
            # the first frame must include every write that was answered before the stream was
            # opened
            await self._read_first(channel, payer)
        return self._frames(channel, last, payer)

    async def _read_first(self, channel: Channel, payer: str) -> None:
        """Read the list of a new stream, when the queue permits it."""
        await self.work(payer, STREAM_COST + channel.cost, partial(self._read, channel))

    async def work(self, payer: str, cost: int, job: Callable[[], Awaitable[T]]) -> T:
        """Run a job of a stream and return the job's result. `cost` is charged to `payer`. The job
        runs at once if no other job waits and the current slice is not used up. Otherwise it waits
        in the queue. Raises Stopping if the server is shutting down."""
        if self._stopping:
            raise Stopping("the server is shutting down")
        if not self._queue and self._fits(cost):
            self._queue.charge(payer, cost)
            return await job()
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.put([payer], cost, partial(self._answer, job, done))
        self._start()
        return await done

    def charge(self, payer: str, cost: int) -> None:
        """Charge a payer for the part of a job's cost that was not expected."""
        self._queue.charge(payer, cost)

    async def changed(self, board: str, seen: object, seconds: float) -> None:
        """Wait until the change token of a board differs from `seen`, the board is gone, or a
        number of seconds has passed."""
        self._start()
        await self._waits.wait(board, seen, seconds)

    def _fits(self, cost: int) -> bool:
        """If the current slice is not used up, charge a cost to it and return True. Otherwise
        return False."""
        now = self._clock()
        if now - self._slice_began >= SLICE_SECONDS:
            self._slice_began, self._slice_left = now, SLICE_COST
        if self._slice_left <= 0:
            return False
        self._slice_left -= cost
        return True

    async def _answer(self, job: Callable[[], Awaitable[T]], done: asyncio.Future[T]) -> None:
        if done.done():
            return
        try:
            if self._stopping:
                raise Stopping("the server is shutting down")
            result = await job()
        except Exception as error:
            if not done.done():
                done.set_exception(error)
        else:
            if not done.done():
                done.set_result(result)

    async def _frames(
        self, channel: Channel, last: str | None, payer: str
    ) -> AsyncGenerator[bytes, None]:
        watcher = FeedWatcher(payer)
        channel = self._add(channel)
        first = channel.after(last)
        channel.watchers.add(watcher)
        self._start()
        try:
            yield b"retry: %d\n\n" % RETRY_MS
            for missed in first:
                yield missed
            while (content := await watcher.take(channel.whole)) is not None:
                yield content
            yield END
        finally:
            channel.watchers.discard(watcher)
            if not channel.watchers:
                self._forget(channel)

    def _add(self, channel: Channel) -> Channel:
        """Return the channel that already exists for a list. If there is none, add this channel and
        return it."""
        channel = self._channels.setdefault(channel.watched, channel)
        self._by_board.setdefault(channel.watched.board, set()).add(channel)
        if channel not in self._queued:
            self._changed[channel] = None  # its board may have changed since the list was read
        return channel

    @property
    def stopping(self) -> bool:
        """Whether streams are to end."""
        return self._stopping

    def stop(self) -> None:
        """End all streams. Refuse streams that wait for their first list."""
        self._stopping = True
        for channel in self._channels.values():
            for watcher in channel.watchers:
                watcher.end()
        self._waits.wake_all()
        self._start()

    def _start(self) -> None:
        if self._ticker is None or self._ticker.done():
            self._ticker = asyncio.get_running_loop().create_task(self._tick())

    async def _tick(self) -> None:
        while (self._channels or self._queue or self._waits) and not self._stopping:
            await asyncio.sleep(SLICE_SECONDS if self._queue else TICK_SECONDS)
            await self._read_slice()
        if self._stopping:
            await asyncio.gather(*(job() for job in self._queue.clear()))

    async def _read_slice(self) -> bool:
        """Read the next slice of the waiting lists, and send their changes. Return whether more
        lists wait."""
        if self._follow is not None:
            await self._follow_due()
        self._waits.wake(self._change_token)
        self._queue_changed()
        jobs, cost = self._queue.take(SLICE_COST)
        self._slice_began, self._slice_left = self._clock(), SLICE_COST - cost
        await asyncio.gather(*(job() for job in jobs))
        return bool(self._queue)

    def _queue_changed(self) -> None:
        """Queue the lists that may have changed and whose interval has passed. O(boards + lists
        that may have changed)."""
        for board, channels in list(self._by_board.items()):
            try:
                token = self._change_token(board)
            except LaurelsError:
                for channel in list(channels):
                    self._drop(channel)
                continue
            if token != self._change_tokens.get(board):
                self._change_tokens[board] = token
                self._changed.update(dict.fromkeys(channels - self._queued))
        now = self._clock()
        for channel in [channel for channel in self._changed if channel.is_due(now)]:
            del self._changed[channel]
            if channel.change_token != self._change_tokens[channel.watched.board]:
                self._queued.add(channel)
                job = partial(self._read_again, channel)
                self._queue.put(channel.payers, channel.cost, job)

    def _drop(self, channel: Channel) -> None:
        """End the streams of a list that can no longer be read, for example because its board was
        deleted."""
        for watcher in channel.watchers:
            watcher.end()
        self._forget(channel)

    def _forget(self, channel: Channel) -> None:
        """Remove a channel, unless another channel has replaced it."""
        watched = channel.watched
        if self._channels.get(watched) is not channel:
            return
        del self._channels[watched]
        self._changed.pop(channel, None)
        others = self._by_board[watched.board]
        others.discard(channel)
        if not others:
            del self._by_board[watched.board]
            self._change_tokens.pop(watched.board, None)

    async def _follow_due(self) -> None:
        """Update the change tokens of the boards whose lists are due or whose streams wait, at most
        once every `FOLLOW_SECONDS`. If the update fails, the streams wait until one succeeds."""
        assert self._follow is not None
        now = self._clock()
        if now - self._followed_at < FOLLOW_SECONDS:
            return
        boards = {
            channel.watched.board for channel in self._channels.values() if channel.is_due(now)
        }.union(self._waits.boards)
        if not boards:
            return
        self._followed_at = now
        try:
            await self._follow(boards)
        except Unavailable:
            pass
        except Exception as error:
            self._failed(error)

    async def _read_again(self, channel: Channel) -> None:
        """Read a list that has changed, and send its changes. If the store is unavailable, the
        list is read later."""
        self._queued.discard(channel)
        if self._channels.get(channel.watched) is not channel or self._stopping:
            return
        try:
            if self._change_token(channel.watched.board) != channel.change_token:
                await self._read(channel)
        except Unavailable:
            channel.change_token = None
            self._changed[channel] = None
        except LaurelsError:
            self._drop(channel)
        except Exception as error:
            self._failed(error)
            self._drop(channel)

    async def _read(self, channel: Channel) -> None:
        """Read a list and send its changes. Reads of a list are serialized, so a later read never
        sends an older state."""
        async with channel.reading:
            await self._read_alone(channel)

    async def _read_alone(self, channel: Channel) -> None:
        watched = channel.watched
        channel.change_token = self._change_token(watched.board)
        if watched.member is None:
            channel.publish(await self._top(watched, watched.limit), None, self._clock())
            return
        standing = await self._lb.standing(
            watched.board,
            watched.member,
            window=watched.window,
            to_rank=watched.to_rank,
            **watched.scope,
        )
        if standing is None:
            page = await self._top(watched, 0)
            needed = await self._needed(watched)
        else:
            page = Page([], standing.total, standing.as_of)
            needed = standing.needed
        channel.publish(page, standing, self._clock(), needed)

    async def _needed(self, watched: WatchedList) -> Needed | None:
        """Return the value that a member without a rank needs to reach the position of the feed.
        Return None if the feed has no position, if the effect of one event cannot be computed, or
        if the member is hidden."""
        if watched.member is None or watched.to_rank is None or watched.by is not None:
            return None
        try:
            return await self._lb.needed(
                watched.board,
                watched.member,
                watched.to_rank,
                window=watched.window,
                labels=dict(watched.labels),
            )
        except (NotLive, BeyondHead, MemberHidden):
            return None

    async def _top(self, watched: WatchedList, limit: int) -> Page:
        return await self._lb.top(
            watched.board, window=watched.window, limit=limit, **watched.scope
        )
