"""Copy whole boards in several shards: read the pieces of all shards, and divide pieces by shard to
write them."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Protocol

from laurels.core.contents import (
    ChangedIndexPiece,
    ClearedRows,
    EventIds,
    IndexPiece,
    MemberValues,
    Origin,
    RankingRows,
    rows_of,
)
from laurels.errors.placement import BoardMoving
from laurels.model.labels import ALL, is_by
from laurels.stores.redis.remote import Opened, Tracking

from .positions import level_text, position_shard
from .shards import label_replica, parts_of, shard_of, shards


class PartContents(Protocol):
    """The protocol of the calls that read and write one shard of a board; see `ShardTracking`."""

    def pieces(self, board: Opened) -> AsyncIterator[IndexPiece]: ...

    async def end(self, board: Opened) -> tuple[int, int]: ...

    async def restore(self, board: Opened, piece: ChangedIndexPiece, now_ms: int) -> None: ...

    def scan(self, board: Opened) -> AsyncIterator[IndexPiece]: ...

    async def track(self, board: Opened, owner: str) -> str: ...

    async def untrack(self, board: Opened, owner: str) -> bool: ...

    async def owner(self, board: Opened) -> str | None: ...

    async def seize(self, board: Opened, owner: str) -> None: ...

    async def block(self, board: Opened, copy: Tracking) -> None: ...

    def changed_pieces(self, board: Opened, copy: Tracking) -> AsyncIterator[ChangedIndexPiece]: ...

    async def restore_state(
        self,
        board: Opened,
        origin: Origin,
        positions: dict[str, str],
        block: tuple[int, int] | None,
    ) -> None: ...


class ShardedContents:
    """Reads and writes whole boards. While `pieces` are read, a board must not change."""

    def __init__(self, parts: PartContents) -> None:
        self._parts = parts

    async def pieces(self, board: Opened) -> AsyncIterator[IndexPiece]:
        """Yield the pieces of all shards, and the pieces of the rankings by a label from the label
        replica."""
        for shard in shards(board):
            async for piece in self._parts.pieces(shard):
                yield piece
        if board.rules.has_label_replica:
            async for piece in self._parts.pieces(label_replica(board)):
                if isinstance(piece, RankingRows):
                    yield piece

    async def ends(self, board: Opened) -> list[tuple[int, int]]:
        """For each shard, return the sequence and tag of its newest block of changes."""
        return [await self._parts.end(shard) for shard in shards(board)]

    # A board that is written meanwhile

    async def track(self, board: Opened, owner: str) -> list[Tracking]:
        """Begin to track the changes of all parts of a board. Return the tracking of each part.
        Raises BoardMoving if another owner tracks or blocks a part."""
        try:
            numbers = [await self._parts.track(part, owner) for part in parts_of(board)]
        except BoardMoving:
            await self.untrack(board, owner)
            raise
        return [Tracking(number, owner) for number in numbers]

    async def untrack(self, board: Opened, owner: str) -> bool:
        """End the tracking and blocking of all parts by an owner. Return False if another owner
        tracks or blocks a part."""
        return all([await self._parts.untrack(part, owner) for part in parts_of(board)])

    async def owner(self, board: Opened) -> str | None:
        """Return the owner that tracks or blocks a part; None if there is none."""
        for part in parts_of(board):
            if (owner := await self._parts.owner(part)) is not None:
                return owner
        return None

    async def seize(self, board: Opened, owner: str) -> None:
        """Transfer the tracking and blocking of all parts to the move `owner`, whichever move has
        them."""
        for part in parts_of(board):
            await self._parts.seize(part, owner)

    async def block(self, board: Opened, copies: Sequence[Tracking]) -> None:
        """Refuse further writes to the shards. The label replica still counts the events that the
        shards have counted."""
        for shard, copy in zip(shards(board), copies, strict=False):
            await self._parts.block(shard, copy)

    async def scan(self, board: Opened) -> AsyncIterator[IndexPiece]:
        """Yield the pieces of all parts, which may change meanwhile."""
        for part in parts_of(board):
            async for piece in self._parts.scan(part):
                if not part.feeds or isinstance(piece, RankingRows):
                    yield piece

    async def changed_pieces(
        self, board: Opened, copies: Sequence[Tracking]
    ) -> AsyncIterator[ChangedIndexPiece]:
        """Yield the current rows of members that were changed in any part."""
        for part, copy in zip(parts_of(board), copies, strict=True):
            async for piece in self._parts.changed_pieces(part, copy):
                if not part.feeds or _is_of_replica(piece):
                    yield piece

    # Writing

    async def restore(self, board: Opened, piece: ChangedIndexPiece, now_ms: int) -> None:
        """Divide a piece among the shards of its members, and write the parts."""
        if board.rules.has_label_replica:
            if _is_of_replica(piece):
                await self._parts.restore(label_replica(board), piece, now_ms)
                return
            if isinstance(piece, MemberValues) or _is_of_data(piece):
                await self._parts.restore(label_replica(board), piece, now_ms)
        if board.rules.shards == 1:
            await self._parts.restore(board, piece, now_ms)
            return
        for shard in shards(board):
            for part in _part(piece, shard.shard, board.rules.shards):
                await self._parts.restore(shard, part, now_ms)

    async def restore_state(self, board: Opened, origin: Origin) -> None:
        """Write the part of a board's state that is not in its pieces."""
        count = board.rules.shards
        for part in parts_of(board):
            positions = {
                source: text if position_shard(source, count) == part.shard else level_text(text)
                for source, text in origin.positions.items()
                if not part.feeds
            }
            is_alike = len(origin.ends) == count and not part.feeds
            block = origin.ends[part.shard] if is_alike else None
            await self._parts.restore_state(part, origin, positions, block)


def _is_of_replica(piece: ChangedIndexPiece) -> bool:
    """Return whether a piece belongs to the rankings by a label."""
    return isinstance(piece, RankingRows | ClearedRows) and is_by(piece.scope)


def _is_of_data(piece: ChangedIndexPiece) -> bool:
    """Return whether a piece removes the data of members, in addition to their rows."""
    return isinstance(piece, ClearedRows) and piece.scope == ALL


def _part(piece: ChangedIndexPiece, shard: int, count: int) -> Iterator[ChangedIndexPiece]:
    """Yield the part of a piece that belongs to a shard. If that part is empty, yield nothing."""
    match piece:
        case RankingRows():
            names = piece.names()
            places = [i for i, name in enumerate(names) if shard_of(name, count) == shard]
            if places:
                columns = [type(c)("q", [c[i] for i in places]) for c in piece.words()]
                yield rows_of(
                    piece.window,
                    piece.instance,
                    piece.scope,
                    piece.running,
                    [names[i] for i in places],
                    columns,
                    is_tally=piece.is_tally,
                )
        case EventIds(groups):
            own = [
                (at, [key for key in keys if shard_of(key[1 : 1 + key[0]], count) == shard])
                for at, keys in groups
            ]
            if any(keys for _, keys in own):
                yield EventIds([each for each in own if each[1]])
        case MemberValues(items):
            values = [item for item in items if shard_of(item[0], count) == shard]
            if values:
                yield MemberValues(values)
        case ClearedRows(scope, members):
            if own_members := [each for each in members if shard_of(each, count) == shard]:
                yield ClearedRows(scope, own_members)
