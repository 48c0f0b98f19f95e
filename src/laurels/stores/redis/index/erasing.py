"""Erases a member from what a shard has beside its rankings."""

from laurels.stores.redis.remote import Opened

from .board_writes import BoardWrites


class ErasingWrites(BoardWrites):
    """The calls of the index that erase a member."""

    async def forget_ids(self, board: Opened, member: bytes) -> int:
        """Remove the event ids of a member, in shares. Return how many there were. O(event ids of
        the shard)."""
        removed, cursor = 0, "0"
        while True:
            more, cursor = await self._operate(
                "forget_ids", board, member=member.decode(), cursor=cursor
            )
            removed += int(more)
            if cursor == "0":
                return removed

    async def forget_hidden(self, board: Opened, member: bytes, at_ms: int) -> None:
        """Remove a member from the hidden members of a removed board. Repeating it has no
        effect."""
        await self._operate("forget_hidden", board, member=member.decode(), at=at_ms)

    async def forget_names(self, board: Opened, member: bytes) -> None:
        """Remove the member from the stream in which the shard lists its latest changes."""
        await self._operate("forget_names", board, member=member.decode())
