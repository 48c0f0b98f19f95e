"""A watched list, with the watchers that share it."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from laurels.core.standing import Needed, Page, Standing

from .frames import HEARTBEAT, FullList, MemberChange, change_between, frame, member_change

HEARTBEAT_SECONDS = 15.0
LIST_COST = 50
"""The fixed cost of reading a list, as a number of entries."""
KEPT_FRAMES = 256


class WatchedList(Struct, frozen=True):
    """A watched list. It shows the first `limit` entries or, with a member, the member's standing
    and the value it needs to reach the position `to_rank`. The list is read from the scope with the
    `labels` or, with `by`, from the ranking by a label."""

    board: str
    window: str | None
    limit: int
    interval_ms: int
    member: str | None = None
    by: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    to_rank: int | None = None

    @property
    def scope(self) -> dict[str, Any]:
        """The scope, as arguments of the verbs."""
        return {"labels": dict(self.labels), "by": self.by}


class FeedWatcher:
    """The receiving end of one stream. It has a slot for the next frame, and an `asyncio.Event`
    that is set when a frame comes."""

    def __init__(self, payer: str) -> None:
        self.payer = payer
        self._slot: bytes | None = None
        self._missed = False
        self._came = asyncio.Event()
        self.ended = False

    @property
    def holds(self) -> bool:
        """Whether a frame is in the slot."""
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
        """Wait for the next frame and return it: the frame in the slot, the whole list if frames
        were missed, or a heartbeat if no frame comes for a while. Return None at the end of the
        stream."""
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
    """A watched list as it was last sent to its watchers, with the frames that were sent."""

    def __init__(self, watched: WatchedList, epoch: str) -> None:
        self.watched = watched
        self.watchers: set[FeedWatcher] = set()
        self.change_token: object = None
        self.published_at = 0.0
        self.page: Page | None = None
        self.standing: Standing | None = None
        self.needed: Needed | None = None
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
        return LIST_COST + (0 if self.watched.member is not None else self.watched.limit)

    @property
    def payers(self) -> set[str]:
        return {watcher.payer for watcher in self.watchers}

    def is_due(self, now: float) -> bool:
        """Return whether the list's interval has passed since it was last sent."""
        return now - self.published_at >= self.watched.interval_ms / 1_000

    def whole(self) -> bytes:
        """Return a frame with the whole list."""
        assert self.page is not None
        if self.watched.member is not None:
            return frame("standing", self.number, self._member_change(self.standing))
        page = self.page
        top = FullList(page.entries, page.total, page.as_of, self.watched.limit, page.certain)
        return frame("top", self.number, top)

    def after(self, last: str | None) -> Sequence[bytes]:
        """Return the frames after the last frame that a watcher got. If these are no longer kept,
        return the whole list."""
        epoch, _, number = (last or "").partition(".")
        if epoch == self._epoch and number.isdigit() and len(number) < 16:
            missed = self._number - int(number)
            if 0 <= missed <= len(self._frames):
                return list(self._frames)[len(self._frames) - missed :]
        return [self.whole()]

    def publish(
        self, page: Page, standing: Standing | None, now: float, needed: Needed | None = None
    ) -> None:
        """Compare a list with the list that was sent last, and send the changes."""
        old, was, before = self.page, self.standing, self.needed
        self.page, self.standing, self.needed = page, standing, needed
        self.published_at = now
        if old is None:
            return
        content = self._news(old, was, before)
        if content is None:
            return
        self._frames.append(content)
        for watcher in self.watchers:
            watcher.put(content)

    def _member_change(self, was: Standing | None) -> MemberChange:
        assert self.page is not None
        assert self.watched.member is not None
        return member_change(self.watched.member, was, self.standing, self.page, self.needed)

    def _news(self, old: Page, was: Standing | None, needed: Needed | None) -> bytes | None:
        assert self.page is not None
        if self.watched.member is not None:
            if (_rank_and_score(was), needed) == (_rank_and_score(self.standing), self.needed):
                return None
            self._number += 1
            return frame("standing", self.number, self._member_change(was))
        if old.as_of.period != self.page.as_of.period:
            self._number += 1
            return self.whole()
        change = change_between(old, self.page)
        if change is None:
            return None
        self._number += 1
        return frame("change", self.number, change)


def _rank_and_score(standing: Standing | None) -> object:
    """Return the parts of a standing that a change of the feed reports."""
    if standing is None:
        return None
    return standing.rank_low, standing.rank_high, standing.score, standing.to_rank
