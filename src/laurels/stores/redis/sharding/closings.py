"""The calls of a sharded index that close and seal periods: every shard freezes a period, and the
first one has the records."""

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from laurels.core.changes.blocks import Block, WriteBlock
from laurels.core.closing import ClosedPeriod, SealedPeriod
from laurels.stores.redis.remote import Opened, StoredClosings
from laurels.timeline.instants import MIN_MS

from .position_calls import ShardedPositions
from .shards import gather, label_replica, parts_of, shards


class ShardedClosings(ShardedPositions):
    """The part of the sharded index that closes and seals periods."""

    async def freeze(self, board: Opened, floors: Mapping[str, int], now_ms: int) -> None:
        """Freeze periods in every shard: for each window in `floors`, the periods up to its
        instance. The label replica records the same instances, but still counts events that the
        shards accepted before the freeze."""
        calls = [self._index.freeze(shard, floors, now_ms) for shard in shards(board)]
        if board.rules.has_label_replica:
            calls.append(self._index.freeze(label_replica(board), floors, MIN_MS))
        await gather(calls)

    async def expire_sealed(self, board: Opened, window: str, instance: int, now_ms: int) -> None:
        """Set the expiry of the rankings of a sealed period."""
        await gather(
            self._index.expire_sealed(part, window, instance, now_ms) for part in parts_of(board)
        )

    async def set_stale(self, board: Opened, now_ms: int) -> None:
        """Mark all scopes as stale, in every shard."""
        await gather(self._index.set_stale(shard, now_ms) for shard in shards(board))

    async def load_closings(self, board: Opened, windows: Sequence[str]) -> StoredClosings:
        """Return the closed and sealed periods of these windows, which the first shard stores."""
        return await self._index.load_closings(replace(board, shard=0), windows)

    async def record_close(
        self, board: Opened, window: str, instance: int, closed: ClosedPeriod, recorded: WriteBlock
    ) -> bool:
        """Record that a period is closed. It must be frozen in every shard."""
        first = replace(board, shard=0)
        return await self._index.record_close(first, window, instance, closed, recorded)

    async def record_floors(self, board: Opened, floors: Mapping[str, int]) -> None:
        """Record, for each window in `floors`, the instance up to which no period needs a record of
        its closing any more."""
        await self._index.record_floors(replace(board, shard=0), floors)

    async def record_seal(
        self,
        board: Opened,
        window: str,
        instance: int,
        before: ClosedPeriod | SealedPeriod,
        sealed: SealedPeriod,
        recorded: Block | None,
        trimmed: Collection[int] = (),
    ) -> bool:
        """Replace the record of a period; see `RemoteIndex`."""
        first = replace(board, shard=0)
        return await self._index.record_seal(
            first, window, instance, before, sealed, recorded, trimmed
        )

    async def record_expiry(self, board: Opened, window: str, instance: int) -> None:
        """Record that the keys of a sealed period expire."""
        await self._index.record_expiry(replace(board, shard=0), window, instance)

    async def record_note(self, board: Opened, number: int, recorded: Block) -> bool:
        """Add a block to the changes of a board; see `RemoteIndex`."""
        return await self._index.record_note(replace(board, shard=0), number, recorded)

    async def restore_closings(
        self,
        board: Opened,
        sealed: Mapping[tuple[str, int], SealedPeriod],
        recorded: Mapping[str, int],
        trimmed: Mapping[str, int],
    ) -> None:
        """Write the records of the sealed periods of a copied board; see `RemoteIndex`."""
        await self._index.restore_closings(replace(board, shard=0), sealed, recorded, trimmed)

    async def take_lease(self, board: Opened, token: str, ms: int) -> bool:
        """Take, renew or end the lease to seal periods; see `RemoteIndex`."""
        return await self._index.take_lease(replace(board, shard=0), token, ms)
