"""Answers read requests, lists scopes, and reads changes, each from one state of a shard."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

from laurels.core.lifecycle import since_ms
from laurels.core.requests import ReadRequest
from laurels.stores.redis.connection.connection import Connection
from laurels.stores.redis.remote import Opened, Reading, ShardChanges
from laurels.stores.redis.sources import script_of
from laurels.timeline.clock import Clock

from .calls import decode_answer
from .changes import decode_changes
from .coding import decode_refresh_states, encode_rolling
from .head import HEAD_READS
from .hidden_entries import HiddenEntries
from .read_coding import AnswerReader, decode_results, encode_read
from .reads import Reads

_READ = script_of(
    "read", "shard", "zeros", *HEAD_READS, "hidden_entries", "hidden", "refresh_state"
)
_CHANGES = script_of("changes_read", "shard")


class RequestReading(HiddenEntries):
    """The calls of the index that read rankings, scopes and changes."""

    def __init__(
        self,
        connection: Connection,
        prefix: str,
        clock: Clock | None = None,
        *,
        expires: bool = False,
    ) -> None:
        super().__init__(connection, prefix, clock, expires=expires)
        self._reads = Reads(self._read)

    def read(
        self, board: Opened, requests: Sequence[ReadRequest], *, now_ms: int, due_ms: int
    ) -> Awaitable[Reading]:
        """Return the results of all requests, from one state."""
        return self._reads.read(board, requests, now_ms=now_ms, due_ms=due_ms)

    async def _read(
        self, board: Opened, requests: Sequence[ReadRequest], *, now_ms: int, due_ms: int
    ) -> Reading:
        encoding = self._encoding(board)
        hidden = list({request.hidden: None for request in requests if request.hidden is not None})
        arguments = {
            "now": now_ms,
            "due": due_ms,
            "rolling": encode_rolling(
                encoding, board.number, now_ms, [request.key for request in requests]
            ),
            "requests": [encode_read(encoding, request, hidden) for request in requests],
        }
        if any(request.scopes is not None for request in requests):
            arguments["since"] = since_ms(board.rules, now_ms)
        if board.feeds:
            arguments["feeds"] = board.feeds
        elif board.closings is not None and not board.shard:
            arguments["closings"] = str(board.closings)

        async def call(
            left_out: Sequence[Any], more: dict[str, Any]
        ) -> tuple[list[Any], list[Any]]:
            more = {**arguments, **more, **({"hidden": left_out} if left_out else {})}
            packed, *texts = await self._run(_READ, board, more)
            return decode_answer(packed), texts

        answer, texts = await self.without_hidden(board, hidden, call)
        _, seq, parts, refresh_states, has_heads = answer
        reader = AnswerReader(parts, texts)
        results = decode_results(encoding, requests, reader, has_heads or ())
        offset = tuple(seq) if board.feeds else seq
        return Reading(results, offset, decode_refresh_states(board, refresh_states))

    async def scope_count(self, board: Opened, form: str) -> int:
        """Return the number of scopes of a form."""
        return int(await self._command(board, b"ZCARD", f"l:{form}".encode()))

    async def scopes(self, board: Opened, form: str, after: str, limit: int) -> list[str]:
        """Return up to `limit` scopes of a form that follow the scope `after`."""
        first = b"(" + after.encode() if after else b"-"
        span = (first, b"+", b"LIMIT", b"0", b"%d" % limit)
        scopes = await self._command(board, b"ZRANGEBYLEX", f"l:{form}".encode(), *span)
        return [bytes(scope).decode() for scope in scopes]

    async def read_changes(
        self, board: Opened, after: int, limit: int, *, deleted: bool = False
    ) -> ShardChanges:
        """Return the block with the sequence number `after`, if it is still kept, and the blocks
        after it. Stop when the blocks after it have more than `limit` changes."""
        arguments: dict[str, Any] = {"after": after, "limit": limit}
        if deleted:
            arguments["deleted"] = "until" if board.shard else "hend"
        packed, *parts = await self._run(_CHANGES, board, arguments)
        _, *ends = decode_answer(packed)
        return await asyncio.to_thread(decode_changes, board.rules, list(map(int, ends)), parts)
