"""The live feed: the changes of a list, computed once for all its watchers.

Watchers of the same list (board, window, scope, limit, interval) share a *channel*. While there are
watchers, one ticker checks every few milliseconds which of the watched boards have been written to
or have passed a boundary. It reads the list of such a channel once, compares it with what was sent
last, and puts the same bytes into the slot of every watcher. A slot holds one frame. If a watcher
has not taken it when the next one comes, the watcher gets the whole list instead of the frames it
missed, so nobody waits for a slow watcher and no frames pile up.

Reading and comparing lists is work that one subject could request a thousand times. It is done in
slices of `SLICE_COST`, each of which begins with the lists of the subjects with the least recent
cost. So a subject with many lists delays only its own.

If other processes write to the boards, too, the watched boards are *followed*: their change tokens
are read, all at once, every `FOLLOW_SECONDS` while there are watchers.

Frames are numbered `epoch.number`. A watcher that reconnects with its last number gets the frames
after it as long as they are kept, and otherwise the whole list.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from itertools import count

from laurels.api.aio import AsyncLeaderboards
from laurels.core.standing import Page
from laurels.errors import LaurelsError, Unavailable
from laurels.wire.live import RETRY_MS

from .channel import Channel, FeedWatcher, What
from .debts import Debts
from .frames import END

TICK_SECONDS = 0.01
FOLLOW_SECONDS = 0.05
SLICE_COST = 4_000
"""The cost of the lists that are read before other tasks of the loop run, in entries; about 4
ms."""
SLICE_SECONDS = 0.002


class Hub:
    """All channels, and the ticker that runs while there are any."""

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
        self._channels: dict[What, Channel] = {}
        self._ticker: asyncio.Task[None] | None = None
        self._stopping = False
        self._debts = Debts(clock)

    async def watch(
        self, what: What, last: str | None, payer: str = ""
    ) -> AsyncGenerator[bytes, None]:
        """Return the frames of a stream, until its watcher disconnects or the server stops. The
        cost of its work is charged to `payer`.

        Raises UnknownBoard, UnknownWindow and other errors of reading the list.
        """
        if self._follow is not None:
            await self._follow([what.board])
        channel = self._channels.get(what)
        if channel is None:
            # A reopened channel counts from 0 again; its own epoch tells its frames from earlier
            # ones.
            channel = Channel(what, f"{self._epoch}-{next(self._made)}")
            self._debts.charge([payer], channel.cost)
            await self._read(channel)
        elif self._change_token(what.board) != channel.change_token:
            self._debts.charge([payer], channel.cost)
            await self._read(channel)  # the first frame shows every write that was answered before
        return self._frames(channel, last, payer)

    async def _frames(
        self, channel: Channel, last: str | None, payer: str
    ) -> AsyncGenerator[bytes, None]:
        watcher = FeedWatcher(payer)
        channel = self._channels.setdefault(channel.what, channel)
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

    @property
    def stopping(self) -> bool:
        """Whether streams are to end."""
        return self._stopping

    def stop(self) -> None:
        """End all streams."""
        self._stopping = True
        for channel in self._channels.values():
            for watcher in channel.watchers:
                watcher.end()

    def _start(self) -> None:
        if self._ticker is None or self._ticker.done():
            self._ticker = asyncio.get_running_loop().create_task(self._tick())

    async def _tick(self) -> None:
        is_more = False
        while self._channels and not self._stopping:
            await asyncio.sleep(SLICE_SECONDS if is_more else TICK_SECONDS)
            is_more = await self._look()

    async def _look(self) -> bool:
        """Send the changes in a slice of the lists that are due; return whether there are more."""
        channels = list(self._channels.values())
        due = [channel for channel in channels if self._is_due(channel)]
        if self._follow is not None:
            await self._followed({channel.what.board for channel in due})
        changed = [channel for channel in due if self._may_differ(channel)]
        some = self._slice(changed)
        await asyncio.gather(*map(self._read_again, some))
        return len(some) < len(changed)

    def _slice(self, channels: list[Channel]) -> list[Channel]:
        """Return as many lists as fit into a slice, those of the payers with the least cost first,
        and charge their payers."""
        self._debts.forget()
        channels.sort(key=lambda channel: (self._debts.least(channel.payers), channel.published_at))
        some: list[Channel] = []
        left = SLICE_COST
        for channel in channels:
            if some and channel.cost > left:
                break
            left -= channel.cost
            self._debts.charge(channel.payers, channel.cost)
            some.append(channel)
        return some

    def _drop(self, channel: Channel) -> None:
        """End the streams of a list that can no longer be read, for example because its board was
        deleted."""
        for watcher in channel.watchers:
            watcher.end()
        self._forget(channel)

    def _forget(self, channel: Channel) -> None:
        """Remove a channel, unless another one has taken its place."""
        if self._channels.get(channel.what) is channel:
            del self._channels[channel.what]

    def _is_due(self, channel: Channel) -> bool:
        return self._clock() - channel.published_at >= channel.what.interval_ms / 1_000

    async def _followed(self, boards: Collection[str]) -> None:
        """Update the change tokens of boards, at most every `FOLLOW_SECONDS`. While that fails,
        streams wait."""
        assert self._follow is not None
        now = self._clock()
        if not boards or now - self._followed_at < FOLLOW_SECONDS:
            return
        self._followed_at = now
        try:
            await self._follow(boards)
        except Unavailable:
            pass
        except Exception as error:
            self._failed(error)

    def _may_differ(self, channel: Channel) -> bool:
        try:
            return self._change_token(channel.what.board) != channel.change_token
        except LaurelsError:
            self._drop(channel)
            return False

    async def _read_again(self, channel: Channel) -> None:
        """Read a list and send its changes. If the store is unavailable, the list is read later."""
        try:
            await self._read(channel)
        except Unavailable:
            channel.change_token = None
        except LaurelsError:
            self._drop(channel)
        except Exception as error:
            self._failed(error)
            self._drop(channel)

    async def _read(self, channel: Channel) -> None:
        """Read a list and send its changes. Reads of a list are serialized, so none sends an older
        state."""
        async with channel.reading:
            await self._read_alone(channel)

    async def _read_alone(self, channel: Channel) -> None:
        what = channel.what
        channel.change_token = self._change_token(what.board)
        if what.member is None:
            channel.publish(await self._top(what, what.limit), None, self._clock())
            return
        standing = await self._lb.standing(
            what.board, what.member, window=what.window, **what.scope
        )
        if standing is None:
            page = await self._top(what, 0)
        else:
            page = Page([], standing.total, standing.as_of)
        channel.publish(page, standing, self._clock())

    async def _top(self, what: What, limit: int) -> Page:
        return await self._lb.top(what.board, window=what.window, limit=limit, **what.scope)
