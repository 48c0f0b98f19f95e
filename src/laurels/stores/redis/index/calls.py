"""Calls scripts and commands on the keys of a shard, which are in one slot."""

from functools import lru_cache
from typing import Any

import msgspec

from laurels.errors import PositionMoved
from laurels.errors.placement import BoardMoving
from laurels.model.rules import Rules
from laurels.model.validation import quoted
from laurels.model.windows.kinds import Window
from laurels.stores.intake.member_writes import data_moved
from laurels.stores.redis.connection.connection import Connection
from laurels.stores.redis.outdated import (
    BoundariesNeeded,
    ClosingsMoved,
    DefinitionOutdated,
    FeedConflict,
    HiddenNotReady,
    PassesNotReady,
    PeriodClosed,
    PlanExpired,
    ScopesNotReady,
    StepNotReady,
    TrackingLost,
)
from laurels.stores.redis.remote import Opened
from laurels.stores.redis.scripts import Script
from laurels.stores.redis.sources import script_of
from laurels.timeline.clock import Clock

from .coding import BoardEncoding, board_encoding
from .head import HEAD_SIZES, HEAD_WRITES
from .latest import LatestOnServer
from .names import feed_place

SCRIPT_PARTS = (
    "shard",
    "zeros",
    *HEAD_WRITES,
    "hidden_entries",
    "share",
    "refresh_state",
    "rolling",
    "rule",
    "cells",
    "tracking",
)
"""The files that precede any script that works on all rankings of a board."""
_OPERATE = script_of(
    "operate",
    *SCRIPT_PARTS,
    "head_board",
    "changes",
    "closing",
    "pass",
    "scopes",
    "refresh",
    "mend",
    "restore",
    "tracked",
    "clearing",
    "erasing",
)
BEGIN, END = "0:", "0"
"""The cursors at the beginning and at the end of a scan in shares; see share.lua."""


class ShardCalls:
    """The base of all parts of `RedisIndex`, with the methods that call a shard."""

    head_sizes = HEAD_SIZES
    small_ranking = 64
    """In rankings of at most this many members, hidden members are found by reading all members."""
    share = 100
    """How many members one call processes in a pass, if they have few candidates. The number is
    small, since a call blocks the server."""

    def __init__(
        self,
        connection: Connection,
        prefix: str,
        clock: Clock | None = None,
        *,
        expires: bool = False,
    ) -> None:
        self.latest = LatestOnServer(connection, prefix)
        self._connection = connection
        self._prefix = prefix
        self._clock = clock
        self._expires = expires
        self._encodings: dict[int, tuple[str, bool, BoardEncoding]] = {}

    def _encoding(self, board: Opened) -> BoardEncoding:
        version, closes, encoding = self._encodings.get(board.number, (None, None, None))
        is_closing = board.closings is not None
        if encoding is None or version != board.version_text or closes is not is_closing:
            encoding = board_encoding(board, expires=self._expires, head_sizes=self.head_sizes)
            self._encodings[board.number] = board.version_text, is_closing, encoding
        return encoding

    async def latest_changes(self, after: int | None) -> tuple[int, list[int] | None]:
        """Return the sequence number of the newest change to any board, and the numbers of the
        boards that have changes after the sequence number `after`. None in place of the numbers
        means that they cannot be determined: `after` is None or too old, or the server has lost its
        list."""
        return await self.latest.since(after)

    async def _operate(self, op: str, board: Opened, **more: Any) -> Any:
        windows = [
            {"name": each.name, "steps": each.steps} for each in self._encoding(board).rolling
        ]
        arguments = {"op": op, "windows": windows, **more}
        stored: dict[str, list[int]] = {}
        while True:
            try:
                arguments |= _with_boundaries(board.rules, arguments, stored)
                answer = await self._call(_OPERATE, board, arguments)
            except BoundariesNeeded as error:
                for window, step in error.steps.items():
                    stored.setdefault(window, []).append(step)
            else:
                return answer[1] if len(answer) > 1 else None

    async def _call(self, script: Script, board: Opened, arguments: dict[str, Any]) -> list[Any]:
        return decode_answer(await self._run(script, board, arguments))

    async def _run(self, script: Script, board: Opened, arguments: dict[str, Any]) -> Any:
        arguments["board"] = self._encoding(board).payload
        if board.hidden and not board.shard:
            arguments["hid"] = board.hidden
        if board.hides:
            arguments["hides"] = board.hides
        if board.is_kept:
            arguments["is_kept"] = True
        argument = msgspec.msgpack.encode(arguments)
        try:
            return await self._connection.script(script, self._key(board, b"m"), argument)
        finally:
            # note the change also after an error, since the call may have counted
            if "changes" in arguments:
                self.latest.note(board.number)

    async def _command(
        self, board: Opened, command: bytes, name: bytes, *rest: bytes, before: bytes | None = None
    ) -> Any:
        key = self._key(board, name)
        parts = (command, key, *rest) if before is None else (command, before, key, *rest)
        return await self._connection.command(*parts, key=key)

    def _key(self, board: Opened, name: bytes) -> bytes:
        return f"{self._prefix}{{{board.number}.{board.shard}}}:".encode() + name


@lru_cache(maxsize=256)
def _boundaries(window: Window, first: int, past: int) -> tuple[int, ...] | None:
    return window.boundaries(first, past)


def _with_boundaries(
    rules: Rules, arguments: dict[str, Any], stored: dict[str, list[int]]
) -> dict[str, Any]:
    """Return the items of `arguments` that describe rolling windows. If a window is archived at
    boundaries, add to its description ranges of steps, and the steps in them at whose ends it is
    archived. One range is the last two lengths of the window before the running step. There is one
    more around each step of the window in `stored`: the server asks for such a step if the window
    was not rotated for longer. After one length of the window it is empty, so a range is not
    longer, however long that was ago. It begins one length earlier, since the window may be at
    earlier steps in other scopes."""

    def described(window: dict[str, Any]) -> dict[str, Any]:
        rule = rules.windows.get(window["name"])
        if rule is None or "running" not in window or window["name"] not in rules.closing:
            return window
        running = window["running"]
        named = [(running - 2 * rule.steps, running)]
        for step in stored.get(window["name"], ()):
            named.append((step - rule.steps, min(step + rule.steps + 1, running)))
        archived = [_boundaries(rule, first, past) for first, past in named]
        if archived[0] is None:
            return window
        steps = archived[0] if len(archived) == 1 else [s for some in archived for s in some or ()]
        return {**window, "named": named, "archived": steps}

    more: dict[str, Any] = {"windows": [described(each) for each in arguments["windows"]]}
    window = arguments.get("window")
    if isinstance(window, dict):
        more["window"] = described(window)
    return more


def decode_answer(packed: bytes) -> list[Any]:
    """Decode a script's answer, or raise the error that it reports."""
    answer: list[Any] = msgspec.msgpack.decode(packed)
    match answer[0]:
        case "definition_outdated":
            raise DefinitionOutdated
        case "plan_expired":
            raise PlanExpired(int(answer[1]))
        case "period_closed":
            raise PeriodClosed(int(answer[1]))
        case "closings_moved":
            raise ClosingsMoved
        case "boundaries_needed":
            raise BoundariesNeeded(answer[1])
        case "step_not_ready":
            raise StepNotReady(answer[1])
        case "feed_conflict":
            raise FeedConflict(map(feed_place, answer[1]))
        case "scopes_not_ready":
            raise ScopesNotReady(answer[1])
        case "hidden_not_ready":
            raise HiddenNotReady(answer[1])
        case "passes_not_ready":
            raise PassesNotReady
        case "board_moving":
            raise BoardMoving("the board is being moved to another store")
        case "tracking_lost":
            raise TrackingLost
        case "data_moved":
            raise data_moved(answer[1].encode())
        case "position_moved":
            raise PositionMoved(
                f"expected another stored position of {quoted(answer[1])} before this batch, got "
                f"{quoted(answer[2])}"
            )
    return answer
