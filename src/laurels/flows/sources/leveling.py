"""Level the shards of a board: shards that lost events count them again, until all shards have the
same position.

Every shard of a board has its own position. After a failover to a replica that lagged, one shard is
behind the others. The stream is then read again from the lowest position to the next higher one;
the shards at the lowest position count the messages, and the others skip them. This is repeated
until all shards have the same position. Each shard compares its position with the one that a commit
follows, so no shard counts an event twice, even if two processes level the same board. A leveling
that was interrupted can be continued by a later run.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from laurels.errors import ShardsDiffer
from laurels.errors.sources import SourceDiverged, SourceExpired, SourceShardExpired
from laurels.flows.retries import FlowRetryPolicy

from .feeding import BoardFeed
from .metrics import SourceMetrics
from .outcomes import MessageOutcomes
from .reader import (
    ZERO,
    Message,
    StoredPosition,
    StreamReader,
    StreamState,
    decode_position,
)
from .rows import RowReader


class ShardPosition(Struct, frozen=True):
    """A position of some shards of a board, as text and decoded. The text is None if the shards
    have not counted anything."""

    text: str | None
    stored: StoredPosition

    @property
    def order(self) -> tuple[object, ...]:
        return self.stored.position, self.stored.passed_ms or 0, self.text or ""


class ShardLeveler:
    """Levels the shards of boards, one board at a time. When the leveling of a board begins,
    `report` is called with the error that has the positions of its shards."""

    def __init__(
        self,
        boards: BoardFeed,
        reader: StreamReader,
        rows: RowReader,
        outcomes: MessageOutcomes,
        retries: FlowRetryPolicy,
        *,
        batch: int,
        report: Callable[[ShardsDiffer], None],
    ) -> None:
        self._boards = boards
        self._reader = reader
        self._rows = rows
        self._outcomes = outcomes
        self._retries = retries
        self._batch = batch
        self._report = report
        self._lock = asyncio.Lock()

    async def run(
        self, board: str, difference: ShardsDiffer, *, allow_gaps: bool
    ) -> StoredPosition | None:
        """Level the shards of a board, and return their common position, None if no position is
        stored any more. Raises SourceDiverged if a position belongs to another stream, and
        SourceShardExpired if the stream no longer has all messages that a shard lost. With
        `allow_gaps` SourceShardExpired is not raised, and the messages that the stream still has
        are counted."""
        async with self._lock:
            self._report(difference)
            metrics, recounted = self._outcomes.metrics, SourceMetrics()
            self._outcomes.metrics = recounted
            try:
                text = await self._level(board, difference, allow_gaps=allow_gaps)
            finally:
                self._outcomes.metrics = metrics
                metrics.recounted += recounted.applied + recounted.unchanged
                metrics.late.update(recounted.late)
                metrics.reasons.update(recounted.reasons)
        return None if text is None else decode_position(text)

    async def _level(self, board: str, difference: ShardsDiffer, *, allow_gaps: bool) -> str | None:
        while True:
            lowest, *others = self._ordered(difference)
            if not others:
                raise difference
            await self._level_next(board, lowest, others[0], allow_gaps=allow_gaps)
            try:
                return await self._boards.commits.read_position(board)
            except ShardsDiffer as error:
                difference = error

    def _ordered(self, difference: ShardsDiffer) -> list[ShardPosition]:
        """Return the different positions of the shards, the lowest first."""
        positions = [
            ShardPosition(
                text, self._reader.stored_position(ZERO) if text is None else decode_position(text)
            )
            for text in {*difference.positions}
        ]
        return sorted(positions, key=lambda each: each.order)

    async def _level_next(
        self,
        board: str,
        lowest: ShardPosition,
        next_higher: ShardPosition,
        *,
        allow_gaps: bool,
    ) -> None:
        """Move the shards at the lowest position forward to the next higher one."""
        assert next_higher.text is not None
        if not self._reader.resumes:
            raise _expired_error(board, self._reader, lowest.stored)
        await self._retries.call(self._reader.open)
        self._ensure_same(board, lowest, next_higher)
        self._boards.commits.begin_leveling(board, lowest.text)
        self._boards.positions[board] = lowest.stored.position
        stored, end = lowest.stored, next_higher.stored.position
        while stored.position < end:
            messages = await self._read(board, stored)
            state = await self._retries.call(self._reader.open)
            self._ensure_same(board, lowest, next_higher)
            if self._may_be_removed(stored, state) and not allow_gaps:
                raise _expired_error(board, self._reader, stored)
            messages = [message for message in messages if message.position <= end]
            if not messages:
                break
            rows = self._rows.rows_of(board, messages, self._boards.positions)
            await self._boards.feed_again(board, stored.position, rows)
            stored = self._reader.stored_position(messages[-1].position)
        await self._boards.commits.submit(board, (), next_higher.text)

    async def _read(self, board: str, stored: StoredPosition) -> Sequence[Message]:
        read = partial(self._reader.read, stored.position, self._batch, wait=False)
        try:
            return await self._retries.call(read)
        except SourceExpired as error:
            raise _expired_error(board, self._reader, stored) from error

    def _ensure_same(self, board: str, *positions: ShardPosition) -> None:
        for each in positions:
            if (
                each.text is not None
                and (mismatch := self._reader.mismatch(each.stored)) is not None
            ):
                raise SourceDiverged(
                    f"{self._reader.name} is not the stream that a shard of {board!r} has counted: "
                    f"{mismatch}"
                )

    def _may_be_removed(self, stored: StoredPosition, state: StreamState) -> bool:
        """Return whether the stream may have removed messages after a position."""
        if stored.position == ZERO:
            return not state.is_whole
        if self._reader.is_expired(stored):
            return True
        return not (stored.check_value or state.is_whole) and state.oldest > stored.position


def _expired_error(board: str, reader: StreamReader, stored: StoredPosition) -> SourceShardExpired:
    return SourceShardExpired(
        f"{reader.name} no longer keeps all messages after {stored.at}, and a shard of "
        f"{board!r} lost the events that it had counted since"
    )
