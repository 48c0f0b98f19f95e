"""The index on a Redis or Valkey server: each call is one script in the slot of a shard.

Each group of calls is in a separate file; `calls` has their common part.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from laurels.core.board_record import Clearing
from laurels.core.changes.blocks import WriteBlock
from laurels.core.changes.record_blocks import undelete_blocks
from laurels.core.stats import BoardLayout
from laurels.model.rules import Rules
from laurels.stores.redis.remote import Opened, Registered
from laurels.stores.redis.sharding.feed import FeedPlace

from .batch_counting import BatchCounting
from .closing import PeriodClosing
from .erasing import ErasingWrites
from .hidings import HidingWrites, decode_stored
from .layout import describe, is_alike, layout_of, unverified
from .names import entry_id, feed_place
from .period_expiry import PeriodExpiry
from .ranking_audit import RankingAudit
from .request_reading import RequestReading
from .tracking import ShardTracking

_BLOCKS = 200
"""The maximum number of blocks of a restoration that one call records."""


class RedisIndex(
    BatchCounting,
    RequestReading,
    HidingWrites,
    ErasingWrites,
    PeriodClosing,
    PeriodExpiry,
    RankingAudit,
    ShardTracking,
):
    """Implementation of `ShardIndex`: each call is for one shard of a board.

    `clock` is the wall clock by which plans are made; None in event time, in which only events
    advance the time. `expires` is true if `clock` follows the clock of the server, so that the
    server can expire the keys of periods.
    """

    async def open(
        self,
        board: Opened,
        recorded: WriteBlock | None = None,
        *,
        restart_tag: int = 0,
        cuts: Sequence[FeedPlace] = (),
        positions: Mapping[str, str] = {},
    ) -> Registered:
        """Register a board, or its changed definition. If the board was cleared, first clear this
        shard, unless that is done. `positions` are those of the sources of a restored board.
        Repeating the call has no effect."""
        more = self._recording(board, recorded)
        if restart_tag:
            more["restart"] = str(restart_tag)
        blocks = await self._clearing_blocks(board, positions)
        after, is_whole = 0, False
        while not is_whole:
            if board.cleared is not None:
                more["cleared"] = _clearing(board.cleared, cuts)
                more["cleared"] |= self._recorded_blocks(board, blocks, after)
            is_whole, is_fenced, cut, after = await self._operate("open", board, **more)
        if blocks:
            self.latest.note(board.number)
        return Registered(bool(is_fenced), feed_place(cut))

    async def suspend(self, board: Opened) -> None:
        """Let a shard that is not cleared yet refuse all calls until `open` has cleared it."""
        assert board.cleared is not None
        await self._operate("suspend", board, cleared=_clearing(board.cleared))

    async def fence(self, board: Opened) -> bool:
        """Set the fence, so that no period is recorded as closed at this version of the board.
        Return False, without a fence, if a closed period is not sealed yet. Raises
        ClosingsMoved."""
        return bool(await self._operate("fence", board, closings=board.closings))

    async def _clearing_blocks(
        self, board: Opened, positions: Mapping[str, str]
    ) -> list[WriteBlock]:
        """Return the blocks by which the last clearing of a board is recorded in its first shard.
        If the board was restored by it, these have its definition, its hidden members and the
        positions of its sources. Nothing changes these before the shard is registered."""
        cleared = board.cleared
        if cleared is None or board.shard or board.feeds or not board.rules.changes_ms:
            return []
        if not cleared.restored:
            return [WriteBlock(0, cleared.tag, cleared.now_ms, "clear")]
        complete = await self._command(board, b"HGET", b"m", b"cleared")
        if complete == f"{cleared.version}:{cleared.tag}".encode():
            return []
        hidden: Any = await self._command(board, b"HGETALL", b"hh")
        hidings = sorted([(bytes(name), decode_stored(text)) for name, text in hidden.items()])
        return list(undelete_blocks(cleared, cleared.restored, hidings, positions))

    def _recorded_blocks(
        self, board: Opened, blocks: Sequence[WriteBlock], after: int
    ) -> dict[str, Any]:
        """Return the arguments by which a script records some of the blocks of a clearing, of which
        `after` are recorded already."""
        if not blocks:
            return {}
        some = blocks[after : after + _BLOCKS]
        return {
            "blocks": [self._recording(board, block)["changes"] for block in some],
            "after": after,
            "more": after + len(some) < len(blocks),
            "time": blocks[0].now_ms,
        }

    async def end_changes(self, board: Opened, recorded: WriteBlock | None, until_ms: int) -> None:
        """End the changes of a board that is deleted, and keep them until `until_ms`. Repeating it
        has no effect."""
        more = self._recording(board, recorded)
        await self._operate("end_changes", board, until=until_ms, expires=self._expires, **more)

    async def forget_changes(self, board: Opened) -> None:
        """Remove the changes of a deleted board, unless it was restored meanwhile."""
        await self._operate("forget_changes", board)

    async def close(self, board: Opened, *, forgotten: bool = False) -> None:
        """Remove a board with all its data or, if it is kept, with all its members. The state of a
        board that was kept is removed only if it is `forgotten`. Repeating it has no effect."""
        more = {"expires": self._expires, "forgotten": forgotten}
        while not await self._operate("close", board, **more):
            pass
        self._encodings.pop(board.number, None)
        self._each.pop((board.number, board.shard), None)

    async def time(self, board: Opened) -> int | None:
        """Return the time of the board's latest write; None if there was no write."""
        now_ms = await self._command(board, b"HGET", b"m", b"now")
        return None if now_ms is None else int(now_ms)

    async def remembered(self, board: Opened, now_ms: int) -> int:
        """Return how many event ids the board remembers at `now_ms`."""
        oldest = f"({now_ms - board.rules.dedupe_ms}".encode()
        return int(await self._command(board, b"ZCOUNT", b"q", oldest, b"+inf"))

    def keeps_layout(self, rules: Rules, changed: Rules) -> bool:
        """Return whether the rankings in the present layout stay valid when the rules of a board
        change."""
        return is_alike(layout_of(rules), layout_of(changed))

    def layout(self, rules: Rules) -> BoardLayout:
        """Return the layout of a board with these rules, and advice on how to get a cheaper
        layout."""
        return describe(rules)

    def unverified(self, rules: Rules) -> list[str]:
        """Return sentences about data that `audit` cannot check on a board with these rules."""
        return unverified(rules)

    async def offset(self, board: Opened) -> int:
        """Return the number of changes of a board."""
        return int(await self._command(board, b"HGET", b"m", b"seq") or 0)

    async def kept_nbytes(self, board: Opened) -> int:
        """Return the approximate number of bytes of memory that the state of a removed board takes
        in this shard."""
        names = (b"m", b"p", b"cl", b"hh", b"hs")
        sizes = [await self._command(board, b"MEMORY", name, before=b"USAGE") for name in names]
        return sum(size or 0 for size in sizes)


def _clearing(cleared: Clearing, cuts: Sequence[FeedPlace] = ()) -> dict[str, Any]:
    """Return the argument by which a script clears a shard."""
    argument: dict[str, Any] = {"version": cleared.version, "tag": str(cleared.tag)}
    if cleared.restored:
        argument["restored"] = True
    return argument | ({"cuts": list(map(entry_id, cuts))} if cuts else {})
