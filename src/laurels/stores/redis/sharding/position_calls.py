"""The positions of sources, which are stored in every shard."""

from collections.abc import Sequence

from msgspec.structs import replace

from laurels.core.changes.answers import SINK_PREFIX
from laurels.core.changes.blocks import WriteBlock
from laurels.errors import PositionMoved
from laurels.stores.redis.remote import Opened, PositionWrite

from .merged_reads import ShardedReads
from .positions import (
    CLAIM,
    StoredPositions,
    level_text,
    not_ready,
    position_shard,
    stored_positions,
)
from .shards import gather, shards


class ShardedPositions(ShardedReads):
    """Calls that read and store positions."""

    async def set_position(
        self, board: Opened, write: PositionWrite, recorded: WriteBlock | None = None
    ) -> None:
        """Set the position of a source, first in the other shards, then in its keeper. A position
        that follows another one is set like a batch without events; a position that follows none is
        simply stored in all shards. Raises PositionMoved. Raises PositionDiffers if a batch that
        ends at another position was counted in part, since that part would be counted again. Raises
        ShardsDiffer if a shard lost writes and the position follows another one."""
        ((source, text),) = write.stores.items()
        follows = write.follows.get(source)
        parts = shards(board)
        stored = await stored_positions(self._index, parts, source)
        if write.behind:
            await self._set_in_lagging(board, stored, text, follows or "", recorded)
            return
        if follows is not None:
            stored.ensure_level(follows)
        if not stored.differ:
            stored.ensure_none_in_part(text, follows)
        writes = stored.writes(text, follows)
        others = [shard for shard in parts if shard.shard != stored.keeper]
        if follows is None:
            level = PositionWrite({source: level_text(text)})
            await gather(self._index.set_position(shard, level) for shard in others)
        else:
            await stored.take_claim(self._index, parts, text, follows)
            left = [part for part in others if stored.pair(part.shard) != (follows or None, text)]
            try:
                await gather(self._index.set_position(shard, writes[shard.shard]) for shard in left)
            except PositionMoved as error:
                raise not_ready(error, source) from error
        await self._index.set_position(parts[stored.keeper], writes[stored.keeper], recorded)

    async def _set_in_lagging(
        self,
        board: Opened,
        stored: StoredPositions,
        text: str,
        follows: str,
        recorded: WriteBlock | None,
    ) -> None:
        """Set the position in the shards that are still at the position `follows`, because they
        lost writes."""
        parts, source = shards(board), stored.source
        try:
            await gather(
                self._index.set_position(
                    parts[shard], write, recorded if shard == stored.keeper else None
                )
                for shard, write in stored.lagging_writes(text, follows).items()
            )
        except PositionMoved as error:
            raise not_ready(error, source) from error

    async def position(self, board: Opened, source: str) -> str | None:
        """Return the position of a source. Raises ShardsDiffer if a shard lost writes."""
        if board.rules.shards == 1 or source.startswith(SINK_PREFIX):
            keeper = position_shard(source, board.rules.shards)
            return await self._index.position(replace(board, shard=keeper), source)
        stored = await stored_positions(self._index, shards(board), source)
        stored.ensure_level()
        return stored.texts[stored.keeper]

    async def positions(self, board: Opened) -> dict[str, str]:
        """Return the positions of all sources. Each is read from the source's keeper."""
        by_shard = await gather(self._index.positions(shard) for shard in shards(board))
        return {
            source: text
            for shard, positions in enumerate(by_shard)
            for source, text in positions.items()
            if position_shard(source, len(by_shard)) == shard and not source.startswith(CLAIM)
        }

    async def confirm(self, board: Opened, sink: str, confirmed: Sequence[int] | None) -> None:
        """Store, for each shard, the newest block that a registered sink has confirmed; see
        `RemoteIndex`."""
        parts = shards(board)
        blocks = confirmed if confirmed is not None and len(confirmed) == len(parts) else None
        await gather(self._index.confirm(shard, sink, blocks) for shard in parts)

    async def changes_lost(self, board: Opened) -> int:
        """Return how many changes were removed before a registered sink had confirmed them."""
        return sum(await gather(self._index.changes_lost(shard) for shard in shards(board)))
