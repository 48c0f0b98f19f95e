"""Counts batches in a shard: batches of callers, and batches made from feeds."""

from collections.abc import Sequence
from typing import Any

from laurels.core.hidden import Exclusion
from laurels.core.plan import Plan
from laurels.core.zeros import zeros_of
from laurels.model.batch import Batch
from laurels.stores.redis.connection.connection import Connection
from laurels.stores.redis.remote import Applied, CallId, Opened, PositionWrite
from laurels.stores.redis.sharding.feed import FEED_START, FeedPlace, Pending, decode_entry
from laurels.stores.redis.sources import script_of
from laurels.timeline.clock import Clock

from .batches import encode_batch, encode_positions, positions_of
from .calls import decode_answer
from .changes import encode_batch_changes
from .coding import as_text, decode_applied
from .head import HEAD_WRITES
from .hidden_entries import HiddenEntries
from .names import entry_id, feed_place
from .read_coding import encode_zeros

COUNT = script_of(
    "count",
    "shard",
    "zeros",
    *HEAD_WRITES,
    "hidden_entries",
    "hidden",
    "refresh_state",
    "rolling",
    "rule",
    "cells",
    "changes",
    "closing",
    "feed",
    "tracking",
    "batch",
    "merge",
)
_PENDING = script_of("pending", "shard")
MAX_LAG_MS = 1_000
"""The maximum time by which the clock of a process may be behind the latest batch of a shard, in
milliseconds. The clocks of processes that follow the same server differ by less."""
_EACH_CALLS = 32
"""After a call whose sums did not suffice, this many further calls to the shard send single events
without trying sums."""


class BatchCounting(HiddenEntries):
    """The calls of the index that count batches and read feeds."""

    def __init__(
        self,
        connection: Connection,
        prefix: str,
        clock: Clock | None = None,
        *,
        expires: bool = False,
    ) -> None:
        super().__init__(connection, prefix, clock, expires=expires)
        self._each: dict[tuple[int, int], int] = {}

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
        """Count a batch as planned.

        The answer has the scores and ranks in one window; `watch` is the index of this window in
        the plan's routes. The same call appends `feed` to the shard's feed. It also stores
        `positions`; if they are None, it stores the position of the batch."""
        encoding, shard = self._encoding(board), (board.number, board.shard)
        each = self._each.pop(shard, 0)
        if each > 1:
            self._each[shard] = each - 1
        keeps_changes = board.rules.changes_ms > 0
        added_up = feed is None and not each and not keeps_changes
        arguments, sums = encode_batch(encoding, batch, plan, added_up=added_up)
        more: dict[str, Any] = {
            "now": self._sent_at(batch),
            "due": due_ms,
            "watch": 0 if watch is None else watch + 1,
            "ranks": ranks and watch is not None,
            "most_ids": board.rules.dedupe_max,
        }
        if self._clock is not None:
            more["lag"] = MAX_LAG_MS
        if ranks and watch is not None and board.rules.hide_zero:
            zeros = zeros_of(board.rules, plan.specs[watch].window, batch.now_ms)
            more["zeros"] = zeros and encode_zeros(encoding, zeros)
        if call is not None:
            more["call"] = [call.token, call.number]
        if feed is not None:
            more["feed"] = as_text(feed)
        if (stored := positions or positions_of(batch)) is not None:
            more |= encode_positions(stored)
        if keeps_changes:
            more["changes"] = encode_batch_changes(board, batch, plan, expires=self._expires)

        async def count(left_out: Sequence[Any], kept: dict[str, Any]) -> list[Any]:
            hiding = {"hidden": left_out[0], **kept} if left_out else {}
            return await self._call(COUNT, board, arguments | more | hiding)

        left_out = [hidden] if ranks and hidden is not None else []
        answer = await self.without_hidden(board, left_out, count)
        if answer[0] == "events_needed":
            self._each[shard] = _EACH_CALLS
            arguments, sums = encode_batch(encoding, batch, plan)
            answer = await self.without_hidden(board, left_out, count)
        return decode_applied(board, answer, sums)

    def _sent_at(self, batch: Batch) -> int:
        """Return the current time, which is sent with a call so that the script can refuse an
        expired plan. A plan can expire while the call waits for other calls, or before the call is
        repeated."""
        return batch.now_ms if self._clock is None else max(batch.now_ms, self._clock.now_ms())

    async def pending(self, board: Opened, after: FeedPlace, limit: int) -> Pending:
        """Return the next entries of a shard's feed after the entry `after`. Delete the entry
        `after` and all earlier ones."""
        arguments = {"after": entry_id(after), "limit": limit}
        packed, *texts = await self._run(_PENDING, board, arguments)
        _, last, ids = decode_answer(packed)
        entries = [
            decode_entry(feed_place(id), batch, outcome)
            for id, batch, outcome in zip(ids, texts[::2], texts[1::2], strict=True)
        ]
        return Pending(entries, feed_place(last))

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
        """Count a batch made from entries of feeds, and store which entries are counted."""
        arguments, _ = encode_batch(self._encoding(board), batch, plan)
        arguments |= {
            "due": due_ms,
            "watch": 0,
            "most_ids": 0,
            "feeds": board.feeds,
            "spans": [[shard, *map(entry_id, ends)] for shard, *ends in spans],
        }
        if baselines is not None:
            arguments["baselines"] = baselines
        await self._call(COUNT, board, arguments)

    async def followed(self, board: Opened) -> list[FeedPlace]:
        """Return which entry of each feed was counted last."""
        fields = [f"fed:{shard}".encode() for shard in range(board.feeds)]
        ids = await self._command(board, b"HMGET", b"m", *fields)
        return [FEED_START if id is None else feed_place(bytes(id).decode()) for id in ids]

    async def left_out(self, board: Opened) -> int:
        """Return how many events from feeds were not counted because a total would have been out of
        range."""
        return int(await self._command(board, b"HGET", b"m", b"left") or 0)
