"""Upkeep of boards on a server: due passes, forgotten event ids, and repaired rankings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import laurels
from laurels.errors import CheckFailed
from tests.internals import remote

from .conftest import NOW
from .servers import Server

HOUR_MS = 3_600_000
PLAIN: dict[str, Any] = {"tie": "member"}
PACKED: dict[str, Any] = {
    "columns": [laurels.Column(min=0, max=2**20)],
    "tie_resolution": "1m",
}
PREFIXED: dict[str, Any] = {}


@pytest.fixture
def server() -> Iterator[Server]:
    with Server("--appendfsync", "always") as server:
        yield server


def test_a_pass_continues_exactly_after_a_restart(
    server: Server, clock: laurels.ManualClock
) -> None:
    with laurels.open(server.url, clock=clock) as lb:
        lb.create(laurels.Board("b", windows=["r=rolling:3h/1h"], **PLAIN))
        for _ in range(2):
            lb.submit_many("b", [(f"m{i}", 1) for i in range(3_000)])
            clock.advance(HOUR_MS)
        lb.submit("b", "q", 1)
        remote(lb).work(1_500)
        server.stop()
        server.start()
        while True:
            try:
                left, _ = remote(lb).work(10_000)
            except laurels.errors.Unavailable:
                continue
            if not left:
                break
        clock.advance(HOUR_MS)
        lb.submit("b", "q", 1)
        scores = [entry.score for entry in lb.top("b", limit=4_000).entries]
        assert (len(scores), sorted(set(scores))) == (3_001, [1, 2])
        assert scores.count(2) == 1
        lb.check()


def test_expired_ids_are_removed(server: Server, clock: laurels.ManualClock) -> None:
    with laurels.open(server.url, clock=clock) as lb:
        lb.create(laurels.Board("b", windows=["all", "hour"], dedupe="1h", **PLAIN))
        for step in range(4):
            lb.submit_many("b", [("ann", 1, None, f"{step}-{i}") for i in range(5_000)])
            clock.advance(2 * HOUR_MS)
        assert server.call("ZCARD", "laurels:{1.0}:q") <= 5_000
        lb.submit("b", "bob", 1)
        clock.advance(2 * HOUR_MS)
        lb.submit("b", "bob", 1)
        assert server.call("ZCARD", "laurels:{1.0}:q") == 0


def damages() -> list[tuple[str, dict[str, Any], tuple[Any, ...]]]:
    """Return the cases: each has a name, fields of a board, and a command that damages one of the
    board's rankings so that it can be repaired."""
    base, rolling = "laurels:{1.0}:", "r=rolling:3h/1h"
    every, dense = f"{base}r:all:-2208988800000", f"{base}d:all:-2208988800000"
    kept, counts = f"{base}k:all:-2208988800000", f"{base}n:all:-2208988800000"
    live = f"{base}r:r:{(NOW // HOUR_MS) % 2}"
    results = []
    for layout, fields in (("plain", PLAIN), ("packed", PACKED), ("prefixed", PREFIXED)):
        results += [
            (
                f"{layout}: a rolling ranking is gone",
                {"windows": [rolling], **fields},
                ("DEL", live),
            ),
            (
                f"{layout}: a score is no longer among the distinct ones",
                {"rank": "dense", **fields},
                ("ZREMRANGEBYRANK", dense, 0, 0),
            ),
            (
                f"{layout}: the distinct scores are gone",
                {"rank": "dense", **fields},
                ("DEL", dense, counts),
            ),
        ]
    results += [
        ("plain: a rolling score", {"windows": [rolling], **PLAIN}, ("ZADD", live, -99, "m3")),
        ("plain: a stray score", {"rank": "dense", **PLAIN}, ("ZADD", dense, -77, "-77")),
        ("prefixed: a ranking is gone", PREFIXED, ("DEL", every)),
        ("prefixed: the hash is gone", PREFIXED, ("DEL", kept)),
        ("prefixed: a member of it", PREFIXED, ("HDEL", kept, "m3")),
        ("prefixed: an entry out of order", PREFIXED, ("ZADD", every, 7, "first")),
    ]
    return results


@pytest.mark.parametrize(
    ("fields", "damage"), [case[1:] for case in damages()], ids=[case[0] for case in damages()]
)
def test_damaged_rankings_are_found_and_repaired(
    server: Server,
    clock: laurels.ManualClock,
    fields: dict[str, Any],
    damage: tuple[Any, ...],
) -> None:
    with laurels.open(server.url, clock=clock) as lb:
        lb.create(laurels.Board("b", **fields))
        lb.submit_many("b", [(f"m{i}", 3 + i // 2) for i in range(8)])
        before = lb.top("b").entries
        lb.check()
        if damage[0] == "ZADD" and damage[-1] == "first":
            damage = (*damage[:-1], server.call("ZRANGE", damage[1], 0, 0)[0])
        server.call(*damage)
        with pytest.raises(CheckFailed):
            lb.check()
        lb.rebuild()
        lb.check()
        assert lb.top("b").entries == before


@pytest.mark.parametrize("deleted", ["a", "b"])
def test_a_check_leaves_out_boards_that_are_deleted_meanwhile(
    server: Server,
    clock: laurels.ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    deleted: str,
) -> None:
    """Another process deletes a board while the board `a` is checked."""
    with (
        laurels.open(server.url, clock=clock) as lb,
        laurels.open(server.url, clock=clock) as other,
    ):
        for name in ("a", "b"):
            lb.create(laurels.Board(name))
            lb.submit(name, "m", 1)
        index: Any = remote(lb)._catalog.index
        audit = index.audit

        left = [deleted]

        async def audited(*arguments: Any, **options: Any) -> int:
            if left:
                await asyncio.to_thread(other.delete, left.pop())
            entries: int = await audit(*arguments, **options)
            return entries

        monkeypatch.setattr(index, "audit", audited)
        report = lb.check()
        assert (report.boards, report.entries) == (1, 1)
        other.create(laurels.Board(deleted))
        lb.rebuild()
