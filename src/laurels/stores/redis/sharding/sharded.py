"""An index whose boards may be divided into shards. It wraps an index that stores each shard as a
separate board.

It does not depend on how the wrapped index stores boards. Calls for a board in one shard are passed
on. A call that changes several shards calls each shard, concurrently. Batches follow the rules of
`counting`; repeating any other change has no effect.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from laurels.core.changes.blocks import WriteBlock
from laurels.core.hidden import Exclusion
from laurels.core.hiding import Hiding
from laurels.core.index import Offset, changes
from laurels.core.lifecycle import Due
from laurels.core.plan import Plan
from laurels.core.record import MendRanking
from laurels.model.batch import Batch
from laurels.stores.redis.remote import Applied, CallId, Opened, ShardChanges, StoredHidings

from .closings import ShardedClosings
from .counting import Counting
from .merged_reads import offset_vector
from .shards import gather, home, label_replica, mends_by_shard, parts_of, shards


class ShardedIndex(ShardedClosings):
    """Implementation of `FollowedIndex` over an index that stores each shard as a separate
    board."""

    async def open(
        self, board: Opened, recorded: WriteBlock | None = None, *, restart_tag: int = 0
    ) -> bool:
        """Register a board, or its changed definition. Record this among the changes of the board's
        first shard. Repeating the call has no effect. Return whether the first shard has a fence at
        this version.

        If the board was cleared, its parts are cleared in a fixed order. The first shard is cleared
        after the other shards, since it records the clearing among its changes: when a reader gets
        this change, no shard has earlier members any more. The label replica counts nothing while
        the shards are being cleared.
        """
        open_part = partial(self._index.open, restart_tag=restart_tag)
        first, *others = shards(board)
        cleared = board.cleared
        if cleared is None:
            replicas = [label_replica(board)] if board.rules.has_label_replica else []
            registered, *_ = await gather(
                [open_part(first, recorded), *map(open_part, [*others, *replicas])]
            )
            return registered.is_fenced
        if board.rules.has_label_replica:
            await self._index.suspend(label_replica(board))
        each = await gather(map(open_part, others))
        is_restored = bool(cleared.restored) and board.rules.changes_ms > 0
        positions = await self.positions(board) if is_restored else {}
        registered = await open_part(first, recorded, positions=positions)
        if board.rules.has_label_replica:
            cuts = [part.cut for part in [registered, *each]]
            await open_part(label_replica(board), cuts=cuts)
        return registered.is_fenced

    async def fence(self, board: Opened) -> bool:
        """Let no period be recorded as closed until the board has another version."""
        return await self._index.fence(replace(board, shard=0))

    async def end_changes(self, board: Opened, recorded: WriteBlock, until_ms: int) -> None:
        """End the changes of a board that is deleted. The deletion is recorded among the changes of
        the board's first shard, when no shard counts any more."""
        first, *others = parts_of(board)
        await gather(self._index.end_changes(part, None, until_ms) for part in [first, *others])
        await self._index.end_changes(first, recorded, until_ms)

    async def forget_changes(self, board: Opened) -> None:
        """Remove the changes of a deleted board."""
        await gather(map(self._index.forget_changes, parts_of(board)))

    async def kept_nbytes(self, board: Opened) -> int:
        """Return the approximate number of bytes of memory that the state of a removed board
        takes."""
        return sum(await gather(map(self._index.kept_nbytes, parts_of(board))))

    async def close(self, board: Opened, *, forgotten: bool = False) -> None:
        """Remove a board with all its data or, if it is kept, with all its members; see
        `RemoteIndex`. Repeating the call has no effect."""
        await gather(self._index.close(part, forgotten=forgotten) for part in parts_of(board))
        self._replicator.forget(board)

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
        places: Sequence[int] | None = None,
    ) -> Applied:
        """Count a batch as planned. `watch` is the index, in the plan's routes, of the window whose
        scores and ranks are reported. Every shard recognizes a repeated call by its id, and returns
        the first answer again. `places` are the positions of the events in the whole call. They are
        needed if an earlier attempt has counted other events of the call.

        To determine ranks, all shards are read in two rounds before the batch and in two rounds
        after it. So the ranks may include the writes of other callers in this time.
        """
        if board.rules.shards == 1:
            return await self._index.apply(
                board, batch, plan, watch, ranks=ranks, due_ms=due_ms, call=call, hidden=hidden
            )
        counting = Counting(self._index, board, batch, plan, watch, call, places)
        read_ranks = partial(self._ranks, board, due_ms, hidden) if ranks else None
        return await counting.apply(read_ranks, due_ms)

    async def remove(
        self,
        board: Opened,
        member: bytes,
        due: Due,
        recorded: WriteBlock | None = None,
        *,
        archived: Mapping[str, int] | None = None,
        forced: bool = False,
    ) -> bool:
        """Remove a member and its data from every ranking except those by a label."""
        if board.rules.has_label_replica:
            await self._index.set_data(label_replica(board), member, None)
        shard = home(board, member)
        return await self._index.remove(
            shard, member, due, recorded, archived=archived, forced=forced
        )

    async def forget_ids(self, board: Opened, member: bytes) -> int:
        """Remove the event ids of a member, which are in its shard."""
        return await self._index.forget_ids(home(board, member), member)

    async def forget_hidden(self, board: Opened, member: bytes, at_ms: int) -> None:
        """Remove a member from the hidden members of a removed board, which the first shard
        stores."""
        await self._index.forget_hidden(replace(board, shard=0), member, at_ms)

    async def forget_names(self, board: Opened, member: bytes) -> None:
        """Remove the records of recent changes that name the member, in all parts of the board."""
        await gather(self._index.forget_names(part, member) for part in parts_of(board))

    async def hide(
        self, board: Opened, member: bytes, hiding: Hiding | None, recorded: WriteBlock
    ) -> None:
        """Hide a member, or show it again. The first shard has the hidden members of a board; the
        shard of the member records the change."""
        own = home(board, member)
        await self._index.hide(board, member, hiding, recorded, elsewhere=own.shard > 0)
        if board.rules.head:
            await self._index.wake_heads(own)

    async def take_up(
        self,
        board: Opened,
        stored: StoredHidings,
        version: int,
        recorded: Sequence[WriteBlock],
    ) -> None:
        """Store up to which version the board follows the list of members that are hidden on all
        boards. Then let the shards record the changes in `recorded`."""
        elsewhere = [block for block in recorded if home(board, block.member or b"").shard]
        await self._index.take_up(board, stored, version, recorded, elsewhere)
        if elsewhere:
            await self.hidings(board)
        if board.rules.head:
            await gather(map(self._index.wake_heads, shards(board)))

    async def hidings(self, board: Opened) -> StoredHidings:
        """Return the hidden members of a board. First let the shards record, in order, the hidings
        and ends of hidings that they have not recorded yet."""
        stored = await self._index.hidings(board)
        for id, block in sorted(stored.unrecorded.items()):
            await self._index.record_hidden(home(board, block.member or b""), id, block)
            await self._index.forget_recorded(board, id)
        return stored

    async def mend(self, board: Opened, record: MendRanking, due: Due) -> int:
        """Replace entries of a ranking, in the shards of their members."""
        parts = mends_by_shard(record, board.rules.shards)
        return sum(
            await gather(
                self._index.mend(replace(board, shard=shard), part, due)
                for shard, part in parts.items()
            )
        )

    async def set_data(
        self,
        board: Opened,
        member: bytes,
        data: bytes | None,
        recorded: WriteBlock | None = None,
        before: bytes | UnsetType | None = UNSET,
    ) -> None:
        """Set the data of a member in its shard. If the board has a label replica, also set the
        data there, as the member's id may be a label's value."""
        await self._index.set_data(home(board, member), member, data, recorded, before)
        if board.rules.has_label_replica:
            await self._index.set_data(label_replica(board), member, data)

    async def ensure_current(self, board: Opened) -> None:
        """Raise DefinitionOutdated unless the board exists with this version of its definition."""
        await self._index.ensure_current(replace(board, shard=0))

    async def offset(self, board: Opened) -> Offset:
        """Return the number of changes of each shard."""
        if board.rules.shards == 1:
            return await self._index.offset(board)
        return offset_vector(await gather(map(self._index.offset, shards(board))))

    async def changes(self, board: Opened) -> int:
        """Return the number of changes of a board, including its label replica."""
        return sum(map(changes, await gather(map(self._index.offset, parts_of(board)))))

    async def read_changes(
        self, board: Opened, after: Sequence[int], limit: int, *, deleted: bool = False
    ) -> list[ShardChanges]:
        """Return the changes of every shard, from the block with the sequence number in `after` on;
        see `FollowedIndex`."""
        return await gather(
            self._index.read_changes(shard, place, limit, deleted=deleted)
            for shard, place in zip(shards(board), after, strict=True)
        )

    async def latest_changes(self, after: int | None) -> tuple[int, list[int] | None]:
        """Return the sequence number of the newest change to any board, and the numbers of the
        boards that have changes after the sequence number `after`; see `RemoteIndex`."""
        return await self._index.latest_changes(after)

    async def feed(self, board: Opened, now_ms: int) -> bool:
        """Count in the rankings by a label all events that the shards had counted before this call.
        Return False if some events are left."""
        return not board.rules.has_label_replica or await self._replicator.feed(board, now_ms)

    async def left_out(self, board: Opened) -> int:
        """Return how many events are counted in rankings of members but not in rankings by a
        label."""
        return (
            await self._index.left_out(label_replica(board)) if board.rules.has_label_replica else 0
        )
