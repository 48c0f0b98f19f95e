"""The index on a Redis or Valkey server: each call is one script on the slot of a shard."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

import msgspec

from laurels.core.changes.blocks import MendBlock, WriteBlock, mend_block
from laurels.core.lifecycle import Due, RollingState, rolling_state, since_ms
from laurels.core.plan import Plan
from laurels.core.ranking_key import RankingKey
from laurels.core.record import Mend
from laurels.core.requests import ReadRequest
from laurels.core.stats import BoardLayout
from laurels.errors import CheckFailed, PositionMoved
from laurels.model.event import Batch
from laurels.model.rules import Rules
from laurels.stores.redis.connection.connection import Connection
from laurels.stores.redis.remote import (
    Applied,
    CallId,
    DefinitionOutdated,
    FeedConflict,
    Opened,
    PlanExpired,
    PositionWrite,
    Reading,
    RefreshStates,
    ScopesNotReady,
    ShardChanges,
    StepNotReady,
)
from laurels.stores.redis.scripts import Script
from laurels.stores.redis.sharding.feed import FEED_START, FeedPlace, Pending, decode_entry
from laurels.stores.redis.sources import script_of
from laurels.timeline.clock import Clock

from .batches import encode_batch, encode_positions, positions_of
from .changes import decode_changes, encode_batch_changes, encode_write_changes
from .coding import (
    AnswerReader,
    BoardEncoding,
    as_text,
    board_encoding,
    decode_applied,
    decode_refresh_states,
    decode_result,
    encode_mend,
    encode_read,
    encode_rolling,
    encode_rolling_state,
    lifetimes,
)
from .layout import describe, is_alike, layout_of, unverified
from .names import key_of, name_of, scoped_name
from .reads import Reads

_COUNT = script_of(
    "count",
    "shard",
    "refresh_state",
    "rolling",
    "rule",
    "cells",
    "changes",
    "feed",
    "batch",
    "merge",
)
_PENDING = script_of("pending", "shard")
_READ = script_of("read", "shard", "refresh_state")
_PARTS = ("shard", "share", "refresh_state", "rolling", "rule", "cells")
_OPERATE = script_of("operate", *_PARTS, "changes", "pass", "scopes", "refresh", "mend")
_CHANGES = script_of("changes_read", "shard")
_AUDIT = script_of("audit", *_PARTS)
_CELLS = 2_500
"""Cells of a refresh that one call processes: 1 to 2 ms."""
_DROP = 100
"""Maximum number of rankings that one call drops."""
_SCOPES = 1_000
"""Maximum number of scopes that one call advances."""
_FORGET_CALLS = 20
_EACH_CALLS = 32
"""How many calls of a shard send each event after one whose sums were not sufficient."""
_BEGIN, _END = "0:", "0"
"""The cursors of a scan in shares, at its beginning and at its end: see share.lua."""


class RedisIndex:
    """Implementation of `ShardIndex`: each call is for one shard of a board.

    `clock` is the wall clock by which plans are made, or None in event time, where only events
    advance the time, and the scripts see them in their order. `expires` means that the clock is the
    server's own, so that the keys of periods can expire there.
    """

    share = 100
    """Members of a pass, with few candidates each, that one call processes; the server does nothing
    else meanwhile."""

    def __init__(
        self,
        connection: Connection,
        prefix: str,
        clock: Clock | None = None,
        *,
        expires: bool = False,
    ) -> None:
        self._connection = connection
        self._prefix = prefix
        self._clock = clock
        self._expires = expires
        self._encodings: dict[int, tuple[int, BoardEncoding]] = {}
        self._each: dict[tuple[int, int], int] = {}
        self._reads = Reads(self._read)

    async def open(
        self, board: Opened, recorded: WriteBlock | None = None, *, restart_tag: int = 0
    ) -> None:
        """Register a board, or its changed definition; idempotent."""
        more = self._recording(board, recorded)
        if restart_tag:
            more["restart"] = str(restart_tag)
        await self._operate("open", board, **more)

    async def close(self, board: Opened) -> None:
        """Forget a board with all its data; idempotent."""
        while not await self._operate("close", board):
            pass
        self._encodings.pop(board.number, None)
        self._each.pop((board.number, board.shard), None)

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
        feed: bytes | None = None,
        positions: PositionWrite | None = None,
    ) -> Applied:
        """Count a batch as planned; `watch` is an index into the plan's routes. `feed` is appended
        to the shard's feed, and `positions` are stored instead of the batch's own, in the same
        step."""
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
        if call is not None:
            more["call"] = [call.token, call.number]
        if feed is not None:
            more["feed"] = as_text(feed)
        if (stored := positions or positions_of(batch)) is not None:
            more |= encode_positions(stored)
        if keeps_changes:
            more["changes"] = encode_batch_changes(board, batch, plan, expires=self._expires)
        answer = await self._call(_COUNT, board, arguments | more)
        if answer[0] == "events_needed":
            self._each[shard] = _EACH_CALLS
            arguments, sums = encode_batch(encoding, batch, plan)
            answer = await self._call(_COUNT, board, arguments | more)
        return decode_applied(board, answer, sums)

    async def pending(self, board: Opened, after: FeedPlace, limit: int) -> Pending:
        """Return the next entries of a shard's feed after a place; delete those up to it."""
        arguments = {"after": _entry_id(after), "limit": limit}
        packed, *texts = await self._run(_PENDING, board, arguments)
        _, last, ids = _answer(packed)
        entries = [
            decode_entry(_feed_place(id), batch, but)
            for id, batch, but in zip(ids, texts[::2], texts[1::2], strict=True)
        ]
        return Pending(entries, _feed_place(last))

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
        """Count a batch made from entries of feeds, and note these as counted."""
        arguments, _ = encode_batch(self._encoding(board), batch, plan)
        arguments |= {
            "due": due_ms,
            "watch": 0,
            "most_ids": 0,
            "feeds": board.feeds,
            "spans": [[shard, *map(_entry_id, ends)] for shard, *ends in spans],
        }
        if baselines is not None:
            arguments["baselines"] = baselines
        await self._call(_COUNT, board, arguments)

    async def followed(self, board: Opened) -> list[FeedPlace]:
        """Return the place of the last counted entry of each feed."""
        fields = [f"fed:{shard}".encode() for shard in range(board.feeds)]
        found = await self._command(board, b"HMGET", b"m", *fields)
        return [FEED_START if id is None else _feed_place(bytes(id).decode()) for id in found]

    async def left_out(self, board: Opened) -> int:
        """Return the number of events from feeds that were left out because a total would have left
        the range."""
        return int(await self._command(board, b"HGET", b"m", b"left") or 0)

    def read(
        self, board: Opened, requests: Sequence[ReadRequest], *, now_ms: int, due_ms: int
    ) -> Awaitable[Reading]:
        """Answer all requests from one state."""
        return self._reads.read(board, requests, now_ms=now_ms, due_ms=due_ms)

    async def _read(
        self, board: Opened, requests: Sequence[ReadRequest], *, now_ms: int, due_ms: int
    ) -> Reading:
        encoding = self._encoding(board)
        arguments = {
            "now": now_ms,
            "due": due_ms,
            "rolling": encode_rolling(
                encoding, board.number, now_ms, [request.key for request in requests]
            ),
            "requests": [encode_read(encoding, request) for request in requests],
        }
        if any(request.scopes is not None for request in requests):
            arguments["since"] = since_ms(board.rules, now_ms)
        if board.feeds:
            arguments["feeds"] = board.feeds
        packed, *texts = await self._run(_READ, board, arguments)
        _, seq, parts, refresh_states = _answer(packed)
        reader = AnswerReader(parts, texts)
        found = [decode_result(encoding, request, reader) for request in requests]
        offset = tuple(seq) if board.feeds else seq
        return Reading(found, offset, decode_refresh_states(board, refresh_states))

    async def rotate_step(self, board: Opened, roll: RollingState, now_ms: int, limit: int) -> bool:
        """Rotate a rolling window to the running step; return False if the limit was too low."""
        arguments = {"window": encode_rolling_state(roll), "now": now_ms, "limit": self.share}
        for _ in range(0, limit, self.share):
            if await self._operate("rotate_step", board, **arguments):
                return True
        return False

    async def advance_pass(self, board: Opened, window: str, limit: int) -> int:
        """Prepare about `limit` members for the next step; return how many are left."""
        left = 0
        for _ in range(0, limit, self.share):
            rolling = {"name": window, "steps": board.rules.windows[window].steps}
            left = int(await self._operate("advance_pass", board, window=rolling, limit=self.share))
            if left == 0:
                break
        return left

    async def advance_scopes(
        self, board: Opened, scopes: Sequence[str], due: Due, limit: int, *, full: bool
    ) -> bool:
        """Advance scopes to the current time; return False if the limit was too low."""
        arguments = {**_encode_due(due), "full": full, "limit": self.share}
        left = list(dict.fromkeys(scopes))
        for _ in range(0, limit, self.share):
            if not left:
                break
            done = await self._operate("advance_scopes", board, scopes=left[:_SCOPES], **arguments)
            left = left[done:]
        return not left

    async def sweep(self, board: Opened, due: Due, limit: int) -> bool:
        """Advance a share of the stale scopes; return whether there are no others."""
        arguments = {**_encode_due(due), "limit": self.share}
        for _ in range(0, limit, self.share):
            if not await self._operate("sweep", board, **arguments):
                return True
        return False

    async def refresh(
        self, board: Opened, window: str, *, now_ms: int, due_ms: int
    ) -> tuple[int, RefreshStates]:
        """Continue the refresh of a window by one call; return about how many members are left, and
        the states of the windows."""
        refreshed = board.rules.refreshed[window]
        roll = rolling_state(board.number, refreshed, now_ms)
        assert roll is not None
        left, refresh_states = await self._operate(
            "refresh",
            board,
            rolling=[encode_rolling_state(roll)],
            now=now_ms,
            due=due_ms,
            before=refreshed.due_by(now_ms),
            forms=list(dict.fromkeys(place.name for place in board.rules.places if place.name)),
            limit=_CELLS,
        )
        return int(left), decode_refresh_states(board, refresh_states)

    async def scope_count(self, board: Opened, form: str) -> int:
        """Return the number of scopes of a form."""
        return int(await self._command(board, b"ZCARD", f"l:{form}".encode()))

    async def scopes(self, board: Opened, form: str, after: str, limit: int) -> list[str]:
        """Return the next scopes of a form, after one of them."""
        first = b"(" + after.encode() if after else b"-"
        span = (first, b"+", b"LIMIT", b"0", b"%d" % limit)
        found = await self._command(board, b"ZRANGEBYLEX", f"l:{form}".encode(), *span)
        return [bytes(scope).decode() for scope in found]

    async def audit_scopes(self, board: Opened, *, repair: bool) -> tuple[int, int]:
        """Audit every ranking of every scope; return the number of rankings, and of their
        entries."""
        rankings = entries = 0
        cursor = _BEGIN
        while cursor != _END:
            names, cursor = await self._operate("keys_of_scopes", board, cursor=cursor)
            for key in dict.fromkeys(key_of(board.number, name) for name in names):
                rankings, entries = (
                    rankings + 1,
                    entries + await self.audit(board, key, repair=repair),
                )
        return rankings, entries

    async def read_changes(self, board: Opened, after: int, limit: int) -> ShardChanges:
        """Return the block with the sequence number `after`, if it is kept, and those after it
        until they have more than `limit` changes."""
        arguments = {"after": after, "limit": limit}
        packed, *parts = await self._run(_CHANGES, board, arguments)
        _, *ends = _answer(packed)
        return await asyncio.to_thread(decode_changes, board.rules, list(map(int, ends)), parts)

    def _recording(self, board: Opened, recorded: WriteBlock | MendBlock | None) -> dict[str, Any]:
        """Return the arguments by which a script records a write, if the board keeps changes."""
        if recorded is None or not board.rules.changes_ms:
            return {}
        changes = encode_write_changes(board, recorded, expires=self._expires)
        return {"changes": changes, "time": recorded.now_ms}

    async def remove(
        self, board: Opened, member: bytes, due: Due, recorded: WriteBlock | None = None
    ) -> bool:
        """Remove a member and its data from every ranking but those by a label: first in scopes,
        then in the rankings of all events. Return whether it was in any."""
        found, cursor = 0, _BEGIN if board.rules.scoped else _END
        arguments = {**_encode_due(due), "member": member.decode(), "limit": self.share}
        while cursor != _END:
            more, cursor = await self._operate(
                "remove_from_scopes", board, cursor=cursor, **arguments
            )
            found += more
        more = self._recording(board, recorded)
        in_all = await self._operate(
            "remove_member", board, member=member.decode(), found=found, **more
        )
        return bool(in_all + found)

    async def mend(self, board: Opened, record: Mend, due: Due) -> int:
        """Replace entries of a ranking; return how many were replaced."""
        if record.scope:
            while not await self.advance_scopes(board, [record.scope], due, self.share, full=True):
                pass
        more = self._recording(board, mend_block(record))
        done = await self._operate(
            "mend", board, **encode_mend(record), **(_encode_due(due) | more)
        )
        return sum(map(int, done))

    async def set_data(
        self,
        board: Opened,
        member: bytes,
        data: bytes | None,
        recorded: WriteBlock | None = None,
    ) -> None:
        text = False if data is None else data.decode()
        more = self._recording(board, recorded)
        await self._operate("set_data", board, member=member.decode(), text=text, **more)

    async def set_position(
        self, board: Opened, write: PositionWrite, recorded: WriteBlock | None = None
    ) -> None:
        more = self._recording(board, recorded)
        await self._operate("set_position", board, **encode_positions(write), **more)

    async def position(self, board: Opened, source: str) -> str | None:
        found = await self._command(board, b"HGET", b"p", source.encode())
        return None if found is None else bytes(found).decode()

    async def positions(self, board: Opened) -> dict[str, str]:
        """Return the positions of all sources."""
        found = await self._command(board, b"HGETALL", b"p")
        return {bytes(source).decode(): bytes(text).decode() for source, text in found.items()}

    async def time(self, board: Opened) -> int | None:
        """Return the latest time the board was written at, None before the first write."""
        found = await self._command(board, b"HGET", b"m", b"now")
        return None if found is None else int(found)

    async def remembered(self, board: Opened, now_ms: int) -> int:
        """Return how many event ids the board remembers at `now_ms`."""
        oldest = f"({now_ms - board.rules.dedupe_ms}".encode()
        return int(await self._command(board, b"ZCOUNT", b"q", oldest, b"+inf"))

    async def keys(self, board: Opened, *, empty: bool = False) -> list[RankingKey]:
        """Return the keys of the rankings with members, or with `empty` of all registered ones; for
        a rolling window those of the running step."""
        found: dict[str, None] = {}
        cursor = _BEGIN
        while cursor != _END:
            names, cursor = await self._operate("keys", board, empty=empty, cursor=cursor)
            found |= dict.fromkeys(names)
        return [key_of(board.number, name) for name in found]

    async def forget(self, board: Opened, now_ms: int) -> None:
        """Forget a share of the ids that are no longer remembered at `now_ms`."""
        for _ in range(_FORGET_CALLS):
            if await self._operate("forget", board, before=now_ms - board.rules.dedupe_ms) == 0:
                return

    async def audit(self, board: Opened, key: RankingKey, *, repair: bool) -> int:
        """Compare a ranking with the data it is derived from, and with `repair` correct it; return
        the number of its entries. CheckFailed names the first member that differs.

        If only the score in a sorted set is stored of a member, a calendar ranking is not derived
        from any other data: then only states that no event can produce are found. If a score is
        stored twice, the entries decide: see audit.lua.
        """
        arguments: dict[str, Any] = {"name": name_of(key), "repair": repair}
        checks: list[dict[str, Any]] = []
        own = [{"check": "rows"}]
        window = board.rules.windows[key.window]
        if not self._encoding(board).layout.scored:
            own.insert(1 if window.steps else 0, {"check": "entries"})
        if board.rules.rank == "dense":
            own += [{"check": "score_counts"}, {"check": "distinct_scores"}]
        if window.steps:
            arguments["window"] = {"name": scoped_name(key), "steps": window.steps}
            first = key.instance - window.steps + 1
            checks += [{"check": "cells", "step": first + i} for i in range(window.steps)]
            if window.interval_ms:
                checks = [{**check, "built": True} for check in (*checks, *own)]
        checks += own
        entries = 0
        for check in checks:
            checked = await self._audit_check(board, key, {**arguments, **check})
            entries = max(entries, checked)
        return entries

    async def _audit_check(self, board: Opened, key: RankingKey, arguments: dict[str, Any]) -> int:
        entries, cursor = 0, _BEGIN
        while cursor != _END:
            share = {**arguments, "cursor": cursor}
            _, cursor, checked, member = await self._call(_AUDIT, board, share)
            entries += int(checked)
            if member:
                raise CheckFailed(f"{member!r} differs in {key}")
        return entries

    async def nbytes(self, board: Opened, key: RankingKey) -> int:
        """Return about how many bytes of the server's memory a ranking takes; in a refreshed window
        including the one being built."""
        window = board.rules.windows[key.window]
        instances = [key.instance]
        if window.steps:
            instances = [0, 1] if window.interval_ms else [key.instance % 2]
        names = [name_of(key._replace(instance=each)).encode() for each in instances]
        sizes = [
            await self._command(board, b"MEMORY", kind + name, before=b"USAGE")
            for name in names
            for kind in (b"r:", b"k:")
        ]
        return sum(size or 0 for size in sizes)

    async def expire(self, board: Opened, keys: Sequence[RankingKey], now_ms: int) -> None:
        """Set when rankings of periods expire, if the server's clock is used."""
        if self._expires:
            await self._expire(board, keys, {"now": now_ms})

    async def outlive(self, board: Opened, rules: Rules, now_ms: int) -> None:
        """Extend the expiry of all rankings of periods to what these rules need, before the rules
        take effect."""
        lives = lifetimes(rules) if self._expires else {}
        before = lifetimes(board.rules)
        longer = {name: ms for name, ms in lives.items() if ms > before.get(name, ms)}
        if not longer:
            return
        arguments = {"lives": longer, "now": now_ms}
        keys = [key for key in await self.keys(board) if key.window in longer]
        await self._expire(board, keys, arguments)
        cursor = _BEGIN if board.rules.scoped else _END
        while cursor != _END:
            cursor = await self._operate("expire_scopes", board, cursor=cursor, **arguments)

    async def _expire(
        self, board: Opened, keys: Sequence[RankingKey], arguments: dict[str, Any]
    ) -> None:
        names = [name_of(key) for key in keys]
        for first in range(0, len(names), _DROP):
            await self._operate("expire", board, names=names[first : first + _DROP], **arguments)

    async def drop(self, board: Opened, keys: Sequence[RankingKey]) -> None:
        """Remove rankings of periods."""
        names = [name_of(key) for key in keys]
        for first in range(0, len(names), _DROP):
            await self._operate("drop", board, names=names[first : first + _DROP])

    def keeps_layout(self, rules: Rules, changed: Rules) -> bool:
        """Return whether the stored rankings stay valid when a board's rules are changed."""
        return is_alike(layout_of(rules), layout_of(changed))

    def layout(self, rules: Rules) -> BoardLayout:
        """Return the layout of a board with these rules, and what would make it cheaper."""
        return describe(rules)

    def unverified(self, rules: Rules) -> list[str]:
        """Return sentences that describe what `audit` cannot check on a board with these rules."""
        return unverified(rules)

    async def offset(self, board: Opened) -> int:
        """Return how often a board has changed."""
        return int(await self._command(board, b"HGET", b"m", b"seq") or 0)

    def _sent_at(self, batch: Batch) -> int:
        """Return the time to send with a call, by which its script refuses an expired plan. A plan
        can expire while the call waits for others, or before it is repeated."""
        return batch.now_ms if self._clock is None else max(batch.now_ms, self._clock.now_ms())

    def _encoding(self, board: Opened) -> BoardEncoding:
        version, encoding = self._encodings.get(board.number, (None, None))
        if encoding is None or version != board.version:
            encoding = board_encoding(board, expires=self._expires)
            self._encodings[board.number] = board.version, encoding
        return encoding

    async def _operate(self, op: str, board: Opened, **more: Any) -> Any:
        windows = [
            {"name": each.name, "steps": each.steps} for each in self._encoding(board).rolling
        ]
        answer = await self._call(_OPERATE, board, {"op": op, "windows": windows, **more})
        return answer[1] if len(answer) > 1 else None

    async def _call(self, script: Script, board: Opened, arguments: dict[str, Any]) -> list[Any]:
        return _answer(await self._run(script, board, arguments))

    async def _run(self, script: Script, board: Opened, arguments: dict[str, Any]) -> Any:
        arguments["board"] = self._encoding(board).payload
        argument = msgspec.msgpack.encode(arguments)
        return await self._connection.script(script, self._key(board, b"m"), argument)

    async def _command(
        self, board: Opened, command: bytes, name: bytes, *rest: bytes, before: bytes | None = None
    ) -> Any:
        key = self._key(board, name)
        parts = (command, key, *rest) if before is None else (command, before, key, *rest)
        return await self._connection.command(*parts, key=key)

    def _key(self, board: Opened, name: bytes) -> bytes:
        return f"{self._prefix}{{{board.number}.{board.shard}}}:".encode() + name


def _answer(packed: bytes) -> list[Any]:
    """Decode a script's answer; raise the error if the answer is one."""
    answer: list[Any] = msgspec.msgpack.decode(packed)
    match answer[0]:
        case "definition_outdated":
            raise DefinitionOutdated
        case "plan_expired":
            raise PlanExpired(int(answer[1]))
        case "step_not_ready":
            raise StepNotReady(answer[1])
        case "feed_conflict":
            raise FeedConflict(map(_feed_place, answer[1]))
        case "scopes_not_ready":
            raise ScopesNotReady(answer[1])
        case "position_moved":
            raise PositionMoved(
                f"the position of {answer[1]!r} is {answer[2]!r}, not the one this batch follows"
            )
    return answer


def _feed_place(id: str) -> FeedPlace:
    """Return the place of an entry in a feed, from its id in the stream."""
    time, _, number = id.partition("-")
    return FeedPlace(int(time), int(number))


def _entry_id(place: FeedPlace) -> str:
    return f"{place.time}-{place.number}"


def _encode_due(due: Due) -> dict[str, Any]:
    """Encode the work due in scopes; its rolling windows replace those that `_operate` sends."""
    return {
        "now": due.now_ms,
        "before": due.since_ms,
        "oldest": due.oldest_ms,
        "windows": list(map(encode_rolling_state, due.rolling)),
    }
