"""The index on a Redis or Valkey server: every call one script on the slot of its board."""

from collections.abc import Sequence
from typing import Any

import msgspec

from laurels.errors import CheckFailed
from laurels.event import Batch
from laurels.index.asking import Ask
from laurels.index.remote import (
    Applied,
    Behind,
    CallId,
    Opened,
    Reading,
    Stale,
    Unturned,
)
from laurels.plan import Plan, RankingKey, Roll
from laurels.rules import Rules
from laurels.stats import BoardLayout
from laurels.windows import Rolling

from .coding import (
    Known,
    Texts,
    applied_of,
    ask_told,
    batch_told,
    found_of,
    known_of,
    roll_told,
    rolls_told,
)
from .connection import Connection
from .layout import describe
from .reads import Reads
from .scripts import Script
from .sources import script_of

_COUNT = script_of("count", "shard", "rolling", "rule", "batch", "merge")
_ASK = script_of("ask", "shard")
_KEEP = script_of("keep", "shard", "rolling")
_AUDIT = script_of("audit", "shard", "rolling", "rule")
SHARE = 100
"""Members of a pass that one call prepares; the server does nothing else meanwhile."""
_FORGET_CALLS = 20


class RedisIndex:
    """Implements `RemoteIndex`, each of its calls for one shard of a board."""

    def __init__(self, connection: Connection, prefix: str) -> None:
        self._connection = connection
        self._prefix = prefix
        self._known: dict[int, tuple[int, Known]] = {}
        self._reads = Reads(self._read)

    async def open(self, board: Opened) -> None:
        """Makes a board known, or its changed definition; again does nothing."""
        await self._keep("open", board)

    async def close(self, board: Opened) -> None:
        """Forgets a board with all it holds; again does nothing."""
        await self._keep("close", board)
        self._known.pop(board.number, None)

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
    ) -> Applied:
        """Counts a batch as planned; `watch` is a place in the plan's routes."""
        known = self._of(board)
        said = batch_told(known, batch, plan)
        said |= {
            "due": due_ms,
            "watch": 0 if watch is None else watch + 1,
            "ranks": ranks and watch is not None,
            "most_ids": board.rules.dedupe_max,
        }
        if call is not None:
            said["call"] = [call.token, call.number]
        return applied_of(await self._call(_COUNT, board, said))

    async def read(
        self, board: Opened, asks: Sequence[Ask], *, now_ms: int, due_ms: int
    ) -> Reading:
        """Answers asks from one state."""
        return await self._reads.read(board, asks, now_ms=now_ms, due_ms=due_ms)

    async def _read(
        self, board: Opened, asks: Sequence[Ask], *, now_ms: int, due_ms: int
    ) -> Reading:
        known = self._of(board)
        said = {
            "now": now_ms,
            "due": due_ms,
            "rolls": rolls_told(known, board.number, now_ms),
            "asks": [ask_told(known, ask) for ask in asks],
        }
        packed, *behind = await self._run(_ASK, board, said)
        _, seq, answers = _answer(packed)
        texts = Texts(behind)
        found = [
            found_of(known, answer, ask, texts) for answer, ask in zip(answers, asks, strict=True)
        ]
        return Reading(found, seq)

    async def turn(self, board: Opened, roll: Roll, now_ms: int, limit: int) -> bool:
        """Brings a rolling window to the step that runs; False where the limit was too low."""
        said = {"roll": roll_told(roll), "now": now_ms, "limit": SHARE}
        for _ in range(0, limit, SHARE):
            if await self._keep("turn", board, **said):
                return True
        return False

    async def advance(self, board: Opened, window: str, limit: int) -> int:
        """Does about `limit` members of the pass for the next step; what is left."""
        left = 0
        for _ in range(0, limit, SHARE):
            roll = {"name": window, "steps": self._rolling(board, window).steps}
            left = int(await self._keep("advance", board, roll=roll, limit=SHARE))
            if left == 0:
                break
        return left

    async def remove(self, board: Opened, member: bytes, now_ms: int) -> bool:
        """Takes a member and its data out of every ranking; whether it was in any."""
        return bool(await self._keep("remove", board, member=member.decode()))

    async def set_data(self, board: Opened, member: bytes, data: bytes | None) -> None:
        text = False if data is None else data.decode()
        await self._keep("data", board, member=member.decode(), text=text)

    async def set_position(self, board: Opened, source: str, text: str) -> None:
        await self._keep("position", board, source=source, text=text)

    async def position(self, board: Opened, source: str) -> str | None:
        found = await self._command(board, b"HGET", b"p", source.encode())
        return None if found is None else bytes(found).decode()

    async def remembered(self, board: Opened, now_ms: int) -> int:
        """How many event ids the board remembers at `now_ms`."""
        oldest = f"({now_ms - board.rules.dedupe_ms}".encode()
        return int(await self._command(board, b"ZCOUNT", b"q", oldest, b"+inf"))

    async def keys(self, board: Opened, *, empty: bool = False) -> list[RankingKey]:
        """The rankings that hold anybody, or with `empty` all that there should be; of a rolling
        window the running step's."""
        found = await self._keep("keys", board, empty=empty)
        return [_key(board.number, name) for name in found]

    async def forget(self, board: Opened, now_ms: int) -> None:
        """Forgets a share of the ids that are no longer remembered at `now_ms`."""
        for _ in range(_FORGET_CALLS):
            if await self._keep("forget", board, before=now_ms - board.rules.dedupe_ms) == 0:
                return

    async def audit(self, board: Opened, key: RankingKey, *, mend: bool) -> int:
        """Compares a ranking with what it follows from, and with `mend` puts it right; its
        entries. CheckFailed names the first member that differs.

        Where the score of a sorted set says all of a member, a ranking that does not roll follows
        from nothing else.
        """
        said: dict[str, Any] = {"name": f"{key.window}:{key.instance}", "mend": mend}
        sides: list[dict[str, Any]] = []
        if isinstance(board.rules.windows[key.window], Rolling):
            window = self._rolling(board, key.window)
            said["roll"] = {"name": window.name, "steps": window.steps}
            first = key.instance - window.steps + 1
            sides += [{"side": "cells", "step": first + i} for i in range(window.steps)]
        sides.append({"side": "rows"})
        if not self._of(board).layout.scored:
            sides.append({"side": "entries"})
        if board.rules.rank == "dense":
            sides += [{"side": "scores"}, {"side": "places"}]
        entries = 0
        for side in sides:
            seen = await self._audit_side(board, key, {**said, **side})
            entries = max(entries, seen)
        return entries

    async def _audit_side(self, board: Opened, key: RankingKey, said: dict[str, Any]) -> int:
        entries, cursor = 0, "0"
        while True:
            share = {**said, "cursor": cursor}
            _, cursor, seen, member = await self._call(_AUDIT, board, share)
            entries += int(seen)
            if member:
                raise CheckFailed(f"{member!r} differs in {key}")
            if cursor == "0":
                return entries

    async def nbytes(self, board: Opened, key: RankingKey) -> int:
        """About how much memory of the server a ranking takes, in bytes."""
        instance = key.instance
        rolling = isinstance(board.rules.windows[key.window], Rolling)
        name = f"{key.window}:{instance % 2 if rolling else instance}".encode()
        sizes = [
            await self._command(board, b"MEMORY", kind + name, before=b"USAGE")
            for kind in (b"r:", b"k:")
        ]
        return sum(size or 0 for size in sizes)

    async def drop(self, board: Opened, keys: Sequence[RankingKey]) -> None:
        """Takes rankings of periods away."""
        names = [f"{key.window}:{key.instance}" for key in keys]
        if names:
            await self._keep("drop", board, names=names)

    def layout(self, rules: Rules) -> BoardLayout:
        """How a board with these rules is laid out, and what would make it cheaper."""
        return describe(rules)

    async def offset(self, board: Opened) -> int:
        """How often a board has changed."""
        return int(await self._command(board, b"HGET", b"m", b"seq") or 0)

    def _of(self, board: Opened) -> Known:
        version, known = self._known.get(board.number, (None, None))
        if known is None or version != board.version:
            known = known_of(board)
            self._known[board.number] = board.version, known
        return known

    def _rolling(self, board: Opened, window: str) -> Rolling:
        found = board.rules.windows[window]
        assert isinstance(found, Rolling)
        return found

    async def _keep(self, op: str, board: Opened, **more: Any) -> Any:
        windows = [{"name": each.name, "steps": each.steps} for each in self._of(board).rolling]
        answer = await self._call(_KEEP, board, {"op": op, "windows": windows, **more})
        return answer[1] if len(answer) > 1 else None

    async def _call(self, script: Script, board: Opened, said: dict[str, Any]) -> list[Any]:
        return _answer(await self._run(script, board, said))

    async def _run(self, script: Script, board: Opened, said: dict[str, Any]) -> Any:
        said["board"] = self._of(board).told
        argument = msgspec.msgpack.encode(said)
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
    """What a script says, if it did what it was asked."""
    answer: list[Any] = msgspec.msgpack.decode(packed)
    match answer[0]:
        case "stale":
            raise Stale
        case "behind":
            raise Behind(int(answer[1]))
        case "unturned":
            raise Unturned
    return answer


def _key(board: int, name: str) -> RankingKey:
    window, _, instance = name.rpartition(":")
    return RankingKey(board, window, int(instance))
