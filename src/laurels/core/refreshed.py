"""What a window shows that is refreshed: how it stood at its last refresh. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from laurels.model.windows.kinds import Rolling
from laurels.timeline.instants import MAX_MS, MIN_MS


class Refreshed(Struct, frozen=True, array_like=True):
    """How a window that is refreshed stands.

    `now_ms` is when it was refreshed last, None before the first time. `offset` is the entry of the
    log by which what it shows changed last: that refresh or, since then, a member removed or given
    other data; of a board in several shards, that of each. `waiting` says whether another refresh
    may find anybody: somebody is listed, or something was counted since.
    """

    offset: int | tuple[int, ...] = 0
    now_ms: int | None = None
    waiting: bool = False

    def due_ms(self, window: Rolling) -> int:
        """From when on another refresh is due."""
        if not self.waiting:
            return MAX_MS
        return MIN_MS if self.now_ms is None else window.due_after(self.now_ms)


NEVER = Refreshed()


class Stand(Struct, frozen=True):
    """How a window stands in one shard of a board, after the change `seen` of it. `since_ms` is
    when it was refreshed last or, with the other shards, passed over as there was nobody; the other
    fields are those of `Refreshed`."""

    offset: int = 0
    now_ms: int | None = None
    waiting: bool = False
    since_ms: int | None = None
    seen: int = 0

    def due_ms(self, window: Rolling) -> int:
        """From when on another refresh of this shard is due."""
        return Refreshed(self.offset, self.since_ms, self.waiting).due_ms(window)


def of_shards(stands: Sequence[Stand]) -> Refreshed:
    """How a window stands whose board is in these shards, each with a refresh of its own: it is
    seen as of the newest."""
    offset = stands[0].offset if len(stands) == 1 else tuple([each.offset for each in stands])
    shown = [each.now_ms for each in stands if each.now_ms is not None]
    return Refreshed(offset, max(shown, default=None), any(each.waiting for each in stands))
