"""The hidden members of a board. The first shard stores them, and scripts compare their version
with the one that the caller knows."""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from laurels.core.changes.blocks import WriteBlock
from laurels.core.hiding import Hiding
from laurels.stores.redis.remote import Opened, StoredHidings

from .board_writes import BoardWrites
from .coding import as_text

_RECORDED = 200
"""The maximum number of changes that one call records."""
_hidings = msgspec.json.Decoder(Hiding)
_blocks = msgspec.msgpack.Decoder(WriteBlock)
_encode = msgspec.msgpack.encode


def encode_stored(hiding: Hiding) -> msgspec.Raw:
    """Encode a hiding as the server stores it."""
    return as_text(msgspec.json.encode(hiding))


def decode_stored(text: bytes | str) -> Hiding:
    """Decode a hiding as the server stores it."""
    return _hidings.decode(text)


class HidingWrites(BoardWrites):
    """The calls of the index that hide members and show them again, for the first shard of a
    board."""

    async def hide(
        self,
        board: Opened,
        member: bytes,
        hiding: Hiding | None,
        recorded: WriteBlock,
        *,
        elsewhere: bool = False,
    ) -> None:
        """Hide a member, or replace its hiding. With None as `hiding`, show the member again. With
        `elsewhere` the member belongs to another shard, which has to record the change
        (`record_hidden`). Raises DefinitionOutdated if the stored hidden members are not those that
        the caller knows."""
        text = False if hiding is None else encode_stored(hiding)
        more = self._recording_all(board, [recorded], {recorded} if elsewhere else ())
        await self._operate(
            "hide", board, member=member.decode(), hiding=text, at=recorded.now_ms, **more
        )

    async def take_up(
        self,
        board: Opened,
        stored: StoredHidings,
        version: int,
        recorded: Sequence[WriteBlock],
        elsewhere: Collection[WriteBlock] = (),
    ) -> None:
        """Store that the board has taken up the given version of the list of members hidden on all
        boards, and record the blocks in `recorded`; those also in `elsewhere` are left to other
        shards. Raises DefinitionOutdated if the stored versions are no longer those in `stored`.
        Many blocks are recorded by several calls. If the process ends in between, the next one
        records all blocks, so some of them are recorded twice."""
        was = [stored.own, stored.everywhere]
        for first in range(0, max(1, len(recorded)), _RECORDED):
            some = recorded[first : first + _RECORDED]
            more = self._recording_all(board, some, elsewhere)
            if first + _RECORDED >= len(recorded):
                more["all"] = version
            await self._operate("take_up", board, was=was, at=version, **more)

    async def hidings(self, board: Opened) -> StoredHidings:
        """Return the hidden members of a board, and the blocks that other shards still have to
        record."""
        own, everywhere, flat = await self._operate("hidings", board)
        pairs = zip(flat[::2], flat[1::2], strict=True)
        hidings = {member.encode(): decode_stored(text) for member, text in pairs}
        unrecorded: dict[int, WriteBlock] = {}
        if board.rules.shards > 1 and board.rules.changes_ms:
            stored: Any = await self._command(board, b"HGETALL", b"hp")
            unrecorded = {int(id): _blocks.decode(block) for id, block in stored.items()}
        return StoredHidings(int(own), int(everywhere), hidings, unrecorded)

    async def record_hidden(self, board: Opened, id: int, recorded: WriteBlock) -> None:
        """Record in a member's shard that the member was hidden or shown again. Repeating the call
        has no effect."""
        await self._operate("record_hidden", board, id=id, **self._recording(board, recorded))

    async def forget_recorded(self, board: Opened, id: int) -> None:
        """Remove a block that another shard has recorded."""
        await self._command(board, b"HDEL", b"hp", b"%d" % id)

    def _recording_all(
        self, board: Opened, blocks: Sequence[WriteBlock], elsewhere: Collection[WriteBlock]
    ) -> dict[str, Any]:
        """Return the arguments by which a script records several writes."""
        if not (blocks and board.rules.changes_ms):
            return {}
        here = [self._recording(board, block) for block in blocks if block not in elsewhere]
        others = [as_text(_encode(block)) for block in blocks if block in elsewhere]
        more: dict[str, Any] = {"elsewhere": others, "earlier": []}
        if here:
            *earlier, last = here
            more |= {**last, "earlier": [each["changes"] for each in earlier]}
        return more

    async def wake_heads(self, board: Opened) -> None:
        """Let the next passes check the head of each ranking of a shard. Called when the number of
        the shard's hidden members has changed, since the heads may need more entries then."""
        await self._operate("wake_heads", board)
