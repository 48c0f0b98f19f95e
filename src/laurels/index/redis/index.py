"""The index on a Redis or Valkey server: every call one script on the slot of its board."""

from array import array
from collections.abc import Sequence
from operator import neg
from typing import Any

import msgspec

from laurels.errors import CheckFailed
from laurels.event import Batch
from laurels.index.asking import Anchor, Ask, AtBound, AtMember, Found, Span, Start
from laurels.index.base import Located, Outcomes, Scores, Slice
from laurels.index.remote import Applied, Behind, CallId, Opened, Reading, Stale, Unturned
from laurels.plan import Plan, RankingKey, Roll, roll_of
from laurels.rules import Rules
from laurels.score import stamps_of, step_bounds
from laurels.windows import Rolling

from .connection import Connection
from .scripts import Script
from .sources import script_of

_COUNT = script_of("count", "shard")
_ASK = script_of("ask", "shard")
_KEEP = script_of("keep", "shard")
_AUDIT = script_of("audit", "shard")
_BIAS = 2**53


class RedisIndex:
    """Implements `RemoteIndex`."""

    def __init__(self, connection: Connection, prefix: str) -> None:
        self._connection = connection
        self._prefix = prefix

    async def open(self, board: Opened) -> None:
        """Makes a board known, or its changed definition; again does nothing."""
        await self._keep("open", board)

    async def close(self, board: Opened) -> None:
        """Forgets a board with all it holds; again does nothing."""
        await self._keep("close", board)

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
        asked = _counting(board.rules, batch, plan)
        asked |= {
            "due": due_ms,
            "watch": 0 if watch is None else watch + 1,
            "ranks": ranks and watch is not None,
        }
        if call is not None:
            asked["call"] = [call.token, call.number]
        _, seq, codes, before, after, ranks_before, ranks_after = await self._call(
            _COUNT, board, asked
        )
        width = len(board.rules.columns)
        return Applied(
            Outcomes(bytearray(codes), _scores(before, width), _scores(after, width)),
            None if ranks_before is None else array("q", ranks_before),
            None if ranks_after is None else array("q", ranks_after),
            seq,
        )

    async def read(
        self, board: Opened, asks: Sequence[Ask], *, now_ms: int, due_ms: int
    ) -> Reading:
        """Answers asks from one state."""
        said = {
            "now": now_ms,
            "due": due_ms,
            "rolls": _rolls(board, now_ms),
            "asks": [_asked(ask, board.rules) for ask in asks],
        }
        _, seq, answers = await self._call(_ASK, board, said)
        found = [
            _found(answer, ask, board.rules) for answer, ask in zip(answers, asks, strict=True)
        ]
        return Reading(found, seq)

    async def turn(self, board: Opened, roll: Roll, now_ms: int, limit: int) -> bool:
        """Brings a rolling window to the step that runs; False where the limit was too low."""
        return bool(await self._keep("turn", board, roll=_roll(roll), limit=limit))

    async def advance(self, board: Opened, window: str, limit: int) -> int:
        """Does about `limit` members of the pass for the next step; what is left."""
        rolling = board.rules.windows[window]
        assert isinstance(rolling, Rolling)
        roll = {"name": window, "steps": rolling.steps}
        return int(await self._keep("advance", board, roll=roll, limit=limit))

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

    async def keys(self, board: Opened) -> list[RankingKey]:
        """The rankings that hold anybody; of a rolling window the running step's."""
        names = await self._keep("keys", board)
        return [_key(board.number, bytes(name).decode()) for name in names]

    async def audit(self, board: Opened, key: RankingKey, *, mend: bool) -> int:
        """Compares a ranking with what it follows from, and with `mend` puts it right; its
        entries. CheckFailed names the first member that differs."""
        window = board.rules.windows[key.window]
        said: dict[str, Any] = {"name": f"{key.window}:{key.instance}", "mend": mend}
        if isinstance(window, Rolling):
            said["roll"] = {"name": window.name, "steps": window.steps}
        entries = 0
        for side in ("rows", "entries"):
            cursor, entries = b"0", 0
            while True:
                share = {**said, "side": side, "cursor": cursor.decode()}
                _, cursor, seen, member = await self._call(_AUDIT, board, share)
                entries += seen
                if member:
                    raise CheckFailed(f"{bytes(member).decode()!r} differs in {key}")
                if bytes(cursor) == b"0":
                    break
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

    async def offset(self, board: Opened) -> int:
        """How often a board has changed."""
        return int(await self._command(board, b"HGET", b"m", b"seq") or 0)

    async def _keep(self, op: str, board: Opened, **more: Any) -> Any:
        windows = [
            {"name": each.name, "steps": each.steps}
            for each in board.rules.windows.values()
            if isinstance(each, Rolling)
        ]
        answer = await self._call(_KEEP, board, {"op": op, "windows": windows, **more})
        return answer[1] if len(answer) > 1 else None

    async def _call(self, script: Script, board: Opened, said: dict[str, Any]) -> list[Any]:
        said["board"] = _board(board)
        argument = msgspec.msgpack.encode(said)
        answer: list[Any] = await self._connection.script(script, self._key(board, b"m"), argument)
        match bytes(answer[0]):
            case b"stale":
                raise Stale
            case b"behind":
                raise Behind(int(answer[1]))
            case b"unturned":
                raise Unturned
        return answer

    async def _command(
        self, board: Opened, command: bytes, name: bytes, *rest: bytes, before: bytes | None = None
    ) -> Any:
        key = self._key(board, name)
        parts = (command, key, *rest) if before is None else (command, before, key, *rest)
        return await self._connection.command(*parts, key=key)

    def _key(self, board: Opened, name: bytes) -> bytes:
        return f"{self._prefix}{{{board.number}.{board.shard}}}:".encode() + name


def _board(board: Opened) -> dict[str, Any]:
    """What a script must know of a board."""
    rules = board.rules
    bounds = [sorted((c.sign * c.low, c.sign * c.high)) for c in rules.columns]
    return {
        "version": board.version,
        "columns": len(rules.columns),
        "ops": [column.op for column in rules.columns],
        "tie": rules.tie,
        "stamped": _is_stamped(rules),
        "best": rules.best,
        "dense": rules.rank == "dense",
        "rank": rules.rank,
        "lows": [low for low, _ in bounds],
        "highs": [high for _, high in bounds],
    }


def _is_stamped(rules: Rules) -> bool:
    """Whether the tie stamp cannot tell the exact time that `last` columns go by."""
    last = any(column.op == "last" for column in rules.columns)
    return last and (rules.tie == 0 or rules.resolution_ms != 1)


def _width(rules: Rules) -> int:
    return len(rules.columns) + (rules.tie != 0)


def _roll(roll: Roll) -> dict[str, Any]:
    return {"name": roll.ranking.key.window, "steps": roll.steps, "running": roll.running}


def _rolls(board: Opened, now_ms: int) -> list[dict[str, Any]]:
    found = [roll_of(board.number, window, now_ms) for window in board.rules.windows.values()]
    return [_roll(roll) for roll in found if roll is not None]


def _counting(rules: Rules, batch: Batch, plan: Plan) -> dict[str, Any]:
    """A batch and its plan, as `count` takes them."""
    places = {name: i + 1 for i, name in enumerate(plan.windows)}
    ats = batch.now_ms if batch.ats is None else batch.ats
    stamps = stamps_of(ats, rules.resolution_ms)
    ids = batch.ids
    said: dict[str, Any] = {
        "now": batch.now_ms,
        "rolls": [_roll(roll) for roll in plan.rolls if roll is not None],
        "windows": [_window(rules, plan, i) for i in range(len(plan.windows))],
        "targets": [[places[t.key.window], t.key.instance] for t in plan.targets],
        "routes": [
            route + 1 if isinstance(route, int) else [each + 1 for each in route]
            for route in plan.routes
        ],
        "members": [member.decode() for member in batch.member_list()],
        "values": [
            list(column) if rule.sign > 0 else list(map(neg, column))
            for rule, column in zip(rules.columns, batch.values, strict=True)
        ],
        "ats": ats if isinstance(ats, int) else list(ats),
        "stamps": stamps if isinstance(stamps, int) else list(stamps),
        "late": [event + 1 for event in plan.late],
        "absolute": batch.absolute,
        "atomic": batch.atomic,
        "all": plan.all_window + 1,
        "forget": rules.dedupe_ms,
        "most_ids": rules.dedupe_max,
    }
    if ids is not None:
        said["ids"] = [False if id is None else id.decode() for id in ids]
    if batch.position is not None:
        said["position"] = batch.position
    return said


def _window(rules: Rules, plan: Plan, i: int) -> dict[str, Any]:
    roll = plan.rolls[i]
    if roll is None:
        return {"name": plan.windows[i], "rolling": False}
    bounds = [
        step_bounds(c.low, c.high, roll.steps) if c.op == "sum" else (c.low, c.high)
        for c in rules.columns
    ]
    signed = [
        sorted((c.sign * low, c.sign * high))
        for c, (low, high) in zip(rules.columns, bounds, strict=True)
    ]
    rolling = [[low for low, _ in signed], [high for _, high in signed]]
    return {**_roll(roll), "rolling": rolling}


def _asked(ask: Ask, rules: Rules) -> dict[str, Any]:
    window, instance = ask.key.window, ask.key.instance
    return {
        "window": window,
        "instance": instance,
        "rolling": instance if isinstance(rules.windows[window], Rolling) else False,
        "anchors": [_anchor(anchor) for anchor in ask.anchors],
        "spans": [_span(span) for span in ask.spans],
        "members": ask.members,
        "data": ask.data,
    }


def _anchor(anchor: Anchor) -> list[Any]:
    if isinstance(anchor, AtMember):
        return ["member", anchor.member.decode()]
    if isinstance(anchor, AtBound):
        member = False if anchor.member is None else anchor.member.decode()
        return ["bound", anchor.words, member, anchor.right]
    return ["start" if isinstance(anchor, Start) else "end"]


def _span(span: Span) -> list[Any]:
    first = False if span.first is None else span.first
    last = False if span.last is None else span.last
    return [span.anchor, span.low, span.high, first, last, span.fit]


def _found(answer: list[Any], ask: Ask, rules: Rules) -> Found:
    total, positions, slices, located, data = answer
    parts = [_slice(part, rules) for part in slices]
    carried = None
    if ask.data:
        carried = [[*part[3]] for part in slices] + [data]
    return Found(
        total, positions, parts, _located(located, rules) if ask.members else None, carried
    )


def _slice(part: list[Any], rules: Rules) -> Slice:
    start, entries, ranks, _ = part
    prefix = 8 * _width(rules)
    members = [bytes(entry[prefix:]).decode() for entry in entries]
    return Slice(start, members, array("q", ranks), _words(entries, rules))


def _located(found: list[list[Any]], rules: Rules) -> Located:
    empty = bytes(8 * _width(rules))
    rows = [row or empty for _, _, row in found]
    return Located(
        array("q", [position for position, _, _ in found]),
        array("q", [rank for _, rank, _ in found]),
        _words(rows, rules),
    )


def _words(rows: Sequence[bytes], rules: Rules) -> list["array[int]"]:
    """The words that decide the order, column by column."""
    return [array("q", [_word(row, 8 * place) for row in rows]) for place in range(_width(rules))]


def _word(row: bytes, at: int) -> int:
    word = int.from_bytes(row[at + 1 : at + 8], "big")
    return word if row[at] else word - _BIAS


def _scores(rows: list[list[bytes]], width: int) -> Scores | None:
    if not rows:
        return None
    present = bytearray(bool(row[0]) for row in rows)
    words = [array("q", [int(row[place] or 0) for row in rows]) for place in range(width)]
    return Scores(present, words)


def _key(board: int, name: str) -> RankingKey:
    window, _, instance = name.rpartition(":")
    return RankingKey(board, window, int(instance))
