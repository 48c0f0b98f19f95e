"""The protocol of an index that stores each shard of a board as a separate board."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from laurels.core.changes.blocks import WriteBlock
from laurels.core.hidden import Exclusion
from laurels.core.hiding import Hiding
from laurels.core.plan import Plan
from laurels.model.batch import Batch
from laurels.stores.redis.protocols import RemoteIndex
from laurels.stores.redis.remote import (
    Applied,
    CallId,
    Opened,
    PositionWrite,
    Registered,
    ShardChanges,
    StoredHidings,
)

from .feed import FeedPlace, Pending


class ShardIndex(RemoteIndex, Protocol):
    """An index that stores each shard of a board, and its label replica, as a separate board."""

    async def open(
        self,
        board: Opened,
        recorded: WriteBlock | None = None,
        *,
        restart_tag: int = 0,
        cuts: Sequence[FeedPlace] = (),
        positions: Mapping[str, str] = {},
    ) -> Registered:
        """Register a board or its changed definition in a shard. If the board was cleared, first
        remove the members that the shard still has from before the clearing. A label replica that
        is cleared continues with the entries of the feeds after `cuts`."""

    async def suspend(self, board: Opened) -> None:
        """Let a shard or label replica that is not cleared yet refuse all calls until `open` has
        cleared it."""

    async def hide(
        self,
        board: Opened,
        member: bytes,
        hiding: Hiding | None,
        recorded: WriteBlock,
        *,
        elsewhere: bool = False,
    ) -> None:
        """Hide a member of a board, or show it again, in the board's first shard. With `elsewhere`
        the member belongs to another shard, which has to record the change."""

    async def take_up(
        self,
        board: Opened,
        stored: StoredHidings,
        version: int,
        recorded: Sequence[WriteBlock],
        elsewhere: Collection[WriteBlock] = (),
    ) -> None:
        """Store in the first shard that the board has taken up the given version of the list of
        members hidden on all boards, and record the blocks in `recorded`; those also in `elsewhere`
        are left to other shards."""

    async def record_hidden(self, board: Opened, id: int, recorded: WriteBlock) -> None:
        """Record in a member's shard that the member was hidden or shown again. Repeating the call
        has no effect."""

    async def forget_recorded(self, board: Opened, id: int) -> None:
        """Remove from the first shard a block that another shard has recorded."""

    async def wake_heads(self, board: Opened) -> None:
        """Let the next passes check the head of each ranking. Called when the number of hidden
        members has changed, since the heads may need more entries then."""

    async def read_changes(
        self, board: Opened, after: int, limit: int, *, deleted: bool = False
    ) -> ShardChanges:
        """Return the block with the sequence number `after`, if it is still kept, and the blocks
        after it. Stop when the blocks after it have more than `limit` changes. With `deleted`,
        raise DefinitionOutdated if the changes of the board have not ended yet."""

    async def end_changes(self, board: Opened, recorded: WriteBlock | None, until_ms: int) -> None:
        """End the changes of a shard that is deleted. One shard records the deletion."""

    async def apply(
        self,
        board: Opened,
        batch: Batch,
        plan: Plan,
        watch: int | None,
        *,
        ranks: bool,
        due_ms: int,
        call: CallId | None = None,
        hidden: Exclusion | None = None,
        feed: bytes | None = None,
        positions: PositionWrite | None = None,
    ) -> Applied:
        """Count a batch as planned. The same call appends `feed` to the shard's feed, and stores
        `positions` instead of the batch's position. Raises PositionMoved."""

    async def pending(self, board: Opened, after: FeedPlace, limit: int) -> Pending:
        """Return the next entries of a shard's feed after the entry `after`. Delete the entry
        `after` and all earlier ones."""

    async def follow(
        self,
        board: Opened,
        batch: Batch,
        plan: Plan,
        *,
        due_ms: int,
        spans: Sequence[tuple[int, FeedPlace, FeedPlace]],
        baselines: Sequence[Sequence[int] | bool] | None,
    ) -> None:
        """Count a batch made from entries of feeds, and store which entries are counted, both in
        one atomic call. `spans` has an item for each shard with entries in the batch: the shard,
        the entry before its first entry in the batch, and its last entry in the batch. Raises
        FeedConflict if another process has counted any of the entries."""

    async def followed(self, board: Opened) -> list[FeedPlace]:
        """Return which entry of each feed was counted last."""

    async def left_out(self, board: Opened) -> int:
        """Return how many events from feeds were not counted because a total would have been out of
        range."""
