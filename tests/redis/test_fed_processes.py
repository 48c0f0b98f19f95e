"""Processes that feed rankings by a label concurrently: any of them may die at any time, and no
event is lost or repeated."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

import laurels
from laurels import config
from laurels.errors.index_server import IndexDenied
from laurels.stores.redis.sharding.sharded import ShardedIndex
from tests.conftest import Scaled
from tests.redis.fed import MEMBERS, board, in_room, of_members, rooms
from tests.redis.servers import Server


@pytest.fixture
def url(server: Server, request: pytest.FixtureRequest) -> str:
    return f"{server.url}?prefix={abs(hash(request.node.name))}:"


@pytest.fixture
def lb(url: str, clock: laurels.ManualClock) -> Iterator[laurels.Leaderboards]:
    with config.direct(url, clock) as opened:
        yield opened


class Dying:
    """An index that fails at call number `last` and at all later calls. With `done`, the call with
    that number is carried out before it fails."""

    def __init__(self, index: Any, last: int, *, done: bool) -> None:
        self._index, self._left, self._done = index, last, done

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._index, name)
        if name not in {"apply", "pending", "follow", "followed"}:
            return attribute

        async def call(*args: Any, **more: Any) -> Any:
            self._left -= 1
            if self._left < 0 or (self._left == 0 and not self._done):
                raise IndexDenied("the index has failed")
            answer = await attribute(*args, **more)
            if self._left == 0:
                raise IndexDenied("the index has failed")
            return answer

        return call


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("last", range(1, 14))
def test_a_process_that_dies_at_any_call_loses_or_repeats_no_event(
    lb: laurels.Leaderboards, url: str, clock: laurels.ManualClock, last: int, done: bool
) -> None:
    lb.create(board())
    lb.submit_many("b", in_room("a", *MEMBERS))
    with config.direct(url, clock) as dying:
        dying.boards()
        catalog: Any = dying._store._catalog  # type: ignore[attr-defined]
        catalog.index = ShardedIndex(Dying(catalog.index._index, last, done=done))
        for room in "bab":
            try:
                dying.submit_many("b", in_room(room, *MEMBERS))
                dying.top("b", by="room")
            except laurels.LaurelsError:
                break
    for window in ("all", "h", "3h"):
        assert rooms(lb, window=window) == of_members(lb, window)
    lb.submit_many("b", in_room("c", *MEMBERS))
    assert rooms(lb) == of_members(lb)


def begun(url: str, seed: int, seconds: float) -> subprocess.Popen[str]:
    until = str(time.monotonic() + seconds)
    args = [sys.executable, "-m", "tests.redis.child", url, "0", "label", str(seed), until]
    return subprocess.Popen(args, stdout=subprocess.PIPE, text=True)


def test_processes_that_read_feeds_concurrently_count_each_event_once(
    url: str, scaled: Scaled
) -> None:
    with config.direct(url) as lb:
        lb.create(board(windows=["all", "h=hour"]))
        children = [begun(url, seed, scaled(2, 20)) for seed in range(3)]
        reports = [json.loads(child.communicate(timeout=120)[0]) for child in children]
        assert all(child["events"] for child in reports)
        earned = {room: sum(child["earned"][room] for child in reports) for room in "abc"}
        assert rooms(lb) == earned == of_members(lb)
        lb.check()


def test_killed_processes_lose_or_repeat_no_event(url: str, scaled: Scaled) -> None:
    rng = Random(5)
    with config.direct(url) as lb:
        lb.create(board(windows=["all"]))
        for round_number in range(scaled(1, 3)):
            children = [begun(url, 10 * round_number + i, 60.0) for i in range(2)]
            before = lb.stats("b").offset
            while lb.stats("b").offset == before:
                time.sleep(0.01)
            time.sleep(rng.random())
            for child in children:
                child.send_signal(signal.SIGKILL)
                child.communicate()
            assert rooms(lb) == of_members(lb)
