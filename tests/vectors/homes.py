"""The implementations of the rules, which tests call one by one: the engine, the scripts, and the
verbs of any store."""

from __future__ import annotations

import asyncio
import hashlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from struct import pack
from typing import Any
from unittest.mock import patch

import msgspec

import laurels
from laurels.engine.batch.fold import Shape, apply
from laurels.engine.roster.roster import Roster
from laurels.engine.tree.ranked_set import RankedSet
from laurels.errors import LaurelsError
from laurels.model.rules import Rules
from laurels.stores.redis.index import batch_counting
from laurels.stores.redis.index.coding import board_encoding
from laurels.stores.redis.index.index import RedisIndex
from laurels.stores.redis.index.layout import layout_of
from laurels.stores.redis.remote import Opened
from laurels.stores.redis.scripts import Script
from laurels.stores.redis.sources import script_of
from tests.redis.asking import connected
from tests.redis.servers import Server
from tests.vectors import plain
from tests.vectors.cases import NOW_MS, VectorBoard, Words, WriteCase, WriteEvent

Outcome = tuple[list[str], dict[str, Words | None]]
"""The outcome of each event, and the entries by ranking."""


def board_of(name: str, board: VectorBoard, *more: str) -> laurels.Board:
    """Return the board of the vectors. Additional windows may be given."""
    columns = [
        laurels.Column(c.name, c.op, c.order, c.scale, c.min, c.max)  # type: ignore[arg-type]
        for c in board.columns
    ]
    windows = [*[window.definition for window in board.windows], *more]
    ties: dict[str, Any] = {"tie": board.tie, "tie_resolution": board.tie_resolution}
    return laurels.Board(name, columns=columns, windows=windows, **ties)


def rankings_of(case: WriteCase) -> dict[str, int]:
    """Return a number for each ranking of a story; the number of `all` is 0."""
    return {name: i for i, name in enumerate(case.entries)}


# The engine


def engine(board: VectorBoard, case: WriteCase) -> Outcome:
    """Return the outcomes and entries of a story, computed by the engine."""
    shape, places = plain.shaped(board), rankings_of(case)
    roster = Roster(7)
    own = array("I", roster.intern(b"ann", bytes([3])))
    rankings = [
        RankedSet(
            roster,
            columns=len(shape.ops),
            tie=shape.tie != 0,
            stamped=shape.stamped,
            dense=False,
        )
        for _ in places
    ]
    status = bytearray(len(case.events))
    apply(
        Shape(shape.ops, shape.lows, shape.highs, shape.tie, shape.stamped),
        rankings,
        [0, array("i", [places[plain.day_of(event.at_ms)] for event in case.events])],
        [None] * len(rankings),
        array("I", [own[0]] * len(case.events)),
        [array("q", column) for column in zip(*[e.words for e in case.events], strict=True)],
        array("q", [event.at_ms // shape.resolution_ms for event in case.events]),
        array("q", [event.at_ms for event in case.events]),
        bytes([event.sets for event in case.events]),
        0,
        -1,
        0,
        len(case.events),
        status,
    )
    entries: dict[str, Words | None] = {}
    for name, ranking in zip(places, rankings, strict=True):
        present, words = ranking.words(own)
        entries[name] = tuple([column[0] for column in words]) if present[0] else None
    return [plain.OUTCOMES[code] for code in status], entries


# The scripts


def lua(name: str, *before: str) -> Script:
    """Return a script of this folder, preceded by those scripts under test whose functions it
    calls."""
    own = Path(__file__).with_name(f"{name}.lua").read_text(encoding="utf-8")
    source = "\n".join([*(script_of(each).source for each in before), own])
    return Script(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


def run_script(server: Server, script: Script, rules: Rules, **arguments: Any) -> Any:
    """Return the answer of a script that is called for a board which does not exist on the
    server."""
    arguments["board"] = board_encoding(Opened(1, 1, rules)).payload

    async def call() -> Any:
        async with connected(server.url) as connection:
            packed = msgspec.msgpack.encode(arguments)
            return await connection.script(script, b"vectors:{1.0}:m", packed)

    return msgspec.msgpack.decode(asyncio.run(call()))


def scripts(server: Server, board: VectorBoard, cases: Sequence[WriteCase]) -> list[Outcome]:
    """Return the outcomes and entries of stories, computed by the write rule of the scripts."""
    resolution_ms = plain.shaped(board).resolution_ms
    stories = []
    for case in cases:
        places = rankings_of(case)
        events = [
            {
                "values": event.words,
                "at": event.at_ms,
                "stamp": event.at_ms // resolution_ms,
                "rankings": [1, places[plain.day_of(event.at_ms)] + 1],
                "sets": event.sets,
            }
            for event in case.events
        ]
        stories.append({"rankings": len(places), "events": events})
    rule = lua("write_rule", "shard", "head", "rule")
    results = []
    answers = run_script(server, rule, board_of("b", board).rules(), stories=stories)
    for case, (outcomes, rows) in zip(cases, answers, strict=True):
        entries = [tuple(map(int, row)) if row else None for row in rows]
        results.append(
            (
                [plain.OUTCOMES[code] for code in outcomes],
                dict(zip(case.entries, entries, strict=True)),
            )
        )
    return results


@contextmanager
def probed(server_side: bool) -> Iterator[list[tuple[bool, Any]]]:
    """Record the answer of sums.lua for each batch: whether the sums fit, and the sums that the
    script has computed. With `server_side`, the server gets events without sums, so the script
    computes them."""
    recorded: list[tuple[bool, Any]] = []
    probe = lua(
        "sums",
        "shard",
        "head",
        "refresh_state",
        "rolling",
        "rule",
        "cells",
        "feed",
        "tracking",
        "changes",
        "closing",
        "batch",
        "merge",
    )
    run = RedisIndex._run

    async def probing(
        self: RedisIndex, script: Script, board: Opened, arguments: dict[str, Any]
    ) -> Any:
        if script is batch_counting.COUNT:
            recorded.append(msgspec.msgpack.decode(await run(self, probe, board, arguments)))
        return await run(self, script, board, arguments)

    with patch.object(RedisIndex, "_run", probing), patch.object(batch_counting, "_EACH_CALLS", 0):
        if not server_side:
            yield recorded
        else:
            with patch("laurels.stores.redis.index.batches.sums_of", lambda *_: None):
                yield recorded


def written(
    server: Server, base: str, rules: Rules, ranking: str, member: str
) -> int | bytes | None:
    """Return the row of a member in a ranking, as the server stores it."""
    if layout_of(rules).scored:
        score = server.call("ZSCORE", f"{base}r:{ranking}", member)
        return None if score is None else int(score)
    stored: bytes | None = server.call("HGET", f"{base}k:{ranking}", member)
    return stored


def form_of(rules: Rules, words: Words) -> int | bytes:
    """Return words as a layout stores them. A packed layout has one number: the sum, over all
    words, of the word's distance from its least value times the unit of the word. Any other layout
    has 8 bytes for each word, and the first of them tells the sign."""
    layout = layout_of(rules)
    if layout.scored:
        each = zip(words, layout.lows, layout.units, strict=True)
        return sum((word - low) * unit for word, low, unit in each)
    return b"".join(pack(">Q", word + (2**53 if word < 0 else 2**56)) for word in words)


# The verbs


def submitted(lb: laurels.Leaderboards, board: str, member: str, event: WriteEvent) -> str:
    """Return the outcome of an event that is submitted in a batch of its own."""
    verb = lb.set if event.sets else lb.submit
    at = None if event.sets and event.at_ms == NOW_MS else event.at_ms
    try:
        return verb(board, member, numbers_of(event), at=at).status
    except LaurelsError as error:
        if error.code not in plain.RANGE:
            raise
        return "out_of_range"


def numbers_of(event: WriteEvent) -> Any:
    """Return the numbers of an event as callers pass them."""
    return event.value if len(event.value) > 1 else event.value[0]


def outcomes_of(lb: laurels.Leaderboards, board: str, events: Sequence[Any]) -> list[str]:
    """Return the outcomes of events that are submitted in one batch."""
    receipts = lb.submit_many(board, events)
    reasons = {receipt.reason for receipt in receipts if receipt.status == "refused"}
    assert reasons <= plain.RANGE, reasons
    return [
        "out_of_range" if receipt.status == "refused" else receipt.status for receipt in receipts
    ]


def columns_of(
    lb: laurels.Leaderboards, name: str, board: VectorBoard, window: str, period: str | None
) -> Mapping[str, Words]:
    """Return the column words of all members in a ranking, computed from the scores that the
    ranking shows."""
    words = {}
    for entry in lb.export(name, window=window, period=period):
        score = entry.score if isinstance(entry.score, tuple) else (entry.score,)
        words[entry.member] = plain.words_of(board, [str(part) for part in score])
    return words
