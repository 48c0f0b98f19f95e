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
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from itertools import count
from typing import Any

import msgspec
from msgspec import Struct

from laurels.api.aio import AsyncLeaderboards
from laurels.core.standing import AsOf, Entry, Page, Standing
from laurels.errors import LaurelsError, Unavailable
from laurels.model.score import Score
from laurels.wire.live import RETRY_MS

from .debts import Debts

HEARTBEAT_SECONDS = 15.0
TICK_SECONDS = 0.01
FOLLOW_SECONDS = 0.05
SLICE_COST = 4_000
"""The cost of the lists that are read before other tasks of the loop run, in entries; about 4
ms."""
LIST_COST = 50
"""The fixed cost of reading a list, in entries."""
SLICE_SECONDS = 0.002
KEPT_FRAMES = 256
HEARTBEAT = b": heartbeat\n\n"
END = b"event: end\ndata: {}\n\n"

_encode = msgspec.json.Encoder(decimal_format="number").encode


class Moved(Struct, frozen=True):
    """A member whose rank has changed."""

    member: str
    rank: int
    previous_rank: int
    score: Score


class FullList(Struct, frozen=True):
    """The whole list."""

    entries: list[Entry]
    total: int
    as_of: AsOf
    limit: int


class ListChange(Struct, frozen=True):
    """The changes since the previous frame; `order` is the list after them, by member."""

    as_of: AsOf
    total: int
    order: list[str]
    entered: list[Entry]
    left: list[str]
    moved: list[Moved]
    scored: list[Entry]


class MemberChange(Struct, frozen=True):
    """The current and the previous standing of a member.

    `overtaken_by` is the member directly above it if it has lost a place. A member that is not
    ranked has no rank.
    """

    member: str
    rank: int | None
    score: Score | None
    total: int
    previous_rank: int | None
    previous_score: Score | None
    overtaken_by: str | None
    as_of: AsOf


class What(Struct, frozen=True):
    """A watched list: its first `limit` entries or, with a member, that member's standing. It shows
    the scope with some `labels`, or the scopes of one label by `by`."""

    board: str
    window: str | None
    limit: int
    interval_ms: int
    member: str | None = None
    by: str | None = None
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def scope(self) -> dict[str, Any]:
        """The scope as arguments of the verbs."""
        return {"labels": dict(self.labels), "by": self.by}


def frame(kind: str, number: str, document: object) -> bytes:
    """Encode a server-sent event."""
    return b"event: %b\nid: %b\ndata: %b\n\n" % (kind.encode(), number.encode(), _encode(document))


def change_between(old: Page, new: Page) -> ListChange | None:
    """Return the difference between two lists; None where there is none."""
    before = {entry.member: entry for entry in old.entries}
    now = {entry.member: entry for entry in new.entries}
    entered = [entry for entry in new.entries if entry.member not in before]
    left = [member for member in before if member not in now]
    moved, scored = [], []
    for member, entry in now.items():
        if (was := before.get(member)) is None:
            continue
        if was.rank != entry.rank:
            moved.append(Moved(member, entry.rank, was.rank, entry.score))
        elif was.score != entry.score:
            scored.append(entry)
    order = list(now)
    if not (entered or left or moved or scored or old.total != new.total or order != list(before)):
        return None
    return ListChange(new.as_of, new.total, order, entered, left, moved, scored)


def member_change(
    member: str, old: Standing | None, new: Standing | None, page: Page
) -> MemberChange:
    """Return the change of a member's standing; `page` is the list that the member is in, or is
    missing from."""
    lost = old is not None and new is not None and new.rank > old.rank
    above = new.above.member if lost and new is not None and new.above is not None else None
    return MemberChange(
        member=member,
        rank=None if new is None else new.rank,
        score=None if new is None else new.score,
        total=page.total,
        previous_rank=None if old is None else old.rank,
        previous_score=None if old is None else old.score,
        overtaken_by=above,
        as_of=page.as_of,
    )


class FeedWatcher:
    """One stream: a slot for a frame, and the task that sends it."""

    def __init__(self, payer: str) -> None:
        self.payer = payer
        self._slot: bytes | None = None
        self._missed = False
        self._came = asyncio.Event()
        self.ended = False

    @property
    def holds(self) -> bool:
        """Whether a frame waits to be taken."""
        return self._slot is not None or self._missed

    def put(self, content: bytes) -> None:
        if self.holds:
            self._slot, self._missed = None, True
        else:
            self._slot = content
        self._came.set()

    def end(self) -> None:
        self.ended = True
        self._came.set()

    async def take(self, whole: Callable[[], bytes]) -> bytes | None:
        """Return the next frame: the one in the slot, the whole list if some were missed, or a
        heartbeat. Return None at the end."""
        if not self.holds and not self.ended:
            try:
                await asyncio.wait_for(self._came.wait(), HEARTBEAT_SECONDS)
            except TimeoutError:
                return HEARTBEAT
        self._came.clear()
        content = self._slot if not self._missed else whole()
        self._slot, self._missed = None, False
        return content


class Channel:
    """A watched list as it was last sent to its watchers."""

    def __init__(self, what: What, epoch: str) -> None:
        self.what = what
        self.watchers: set[FeedWatcher] = set()
        self.change_token: object = None
        self.published_at = 0.0
        self.page: Page | None = None
        self.standing: Standing | None = None
        self.reading = asyncio.Lock()
        self._epoch = epoch
        self._number = 0
        self._frames: deque[bytes] = deque(maxlen=KEPT_FRAMES)

    @property
    def number(self) -> str:
        return f"{self._epoch}.{self._number}"

    @property
    def cost(self) -> int:
        """The cost of reading the list."""
        return LIST_COST + (0 if self.what.member is not None else self.what.limit)

    @property
    def payers(self) -> set[str]:
        return {watcher.payer for watcher in self.watchers}

    def whole(self) -> bytes:
        """Return a frame with the whole list."""
        assert self.page is not None
        if self.what.member is not None:
            change = member_change(self.what.member, self.standing, self.standing, self.page)
            return frame("standing", self.number, change)
        page = self.page
        top = FullList(page.entries, page.total, page.as_of, self.what.limit)
        return frame("top", self.number, top)

    def after(self, last: str | None) -> Sequence[bytes]:
        """Return the frames after the last one a watcher got, or the whole list if they are no
        longer kept."""
        epoch, _, number = (last or "").partition(".")
        if epoch == self._epoch and number.isdigit() and len(number) < 16:
            missed = self._number - int(number)
            if 0 <= missed <= len(self._frames):
                return list(self._frames)[len(self._frames) - missed :]
        return [self.whole()]

    def publish(self, page: Page, standing: Standing | None, now: float) -> None:
        """Compare a list with what was sent last, and send the changes."""
        old, was = self.page, self.standing
        self.page, self.standing = page, standing
        self.published_at = now
        if old is None:
            return
        content = self._news(old, was)
        if content is None:
            return
        self._frames.append(content)
        for watcher in self.watchers:
            watcher.put(content)

    def _news(self, old: Page, was: Standing | None) -> bytes | None:
        assert self.page is not None
        what, new = self.what, self.standing
        if what.member is not None:
            before = None if was is None else (was.rank, was.score)
            if before == (None if new is None else (new.rank, new.score)):
                return None
            self._number += 1
            return frame("standing", self.number, member_change(what.member, was, new, self.page))
        if old.as_of.period != self.page.as_of.period:
            self._number += 1
            return self.whole()
        change = change_between(old, self.page)
        if change is None:
            return None
        self._number += 1
        return frame("change", self.number, change)


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
