"""Threads that write while a server fails, and a check of the server's content afterwards.

Every event has a different member. So an event that counted twice cannot hide one that was lost.
"""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar
from unittest.mock import patch

import laurels
from laurels import config
from laurels.errors.index_server import IndexUnavailable
from laurels.stores.redis import query_runner, retry, write_queues, writes
from laurels.stores.redis.connection.connection import connect

from .programs import need_server
from .servers import until

T = TypeVar("T")

BOARD = "b"
LONGEST_SECONDS = 60.0
"""The longest time that a write may take on a busy machine. test_time_limits tests the exact limits
with an injected clock."""


@contextmanager
def opened(url: str, *boards: str) -> Iterator[laurels.Leaderboards]:
    """Open a deployment with boards of one window each."""
    with answered(lambda: config.direct(url)) as lb:
        for name in boards or (BOARD,):
            answered(lambda name=name: lb.create(laurels.Board(name), exist_ok=True))  # type: ignore[misc]
        yield lb


@contextmanager
def patient() -> Iterator[None]:
    """Within this context, calls and their repeats wait as long as a busy machine may need to start
    a server."""
    with (
        patch.dict(connect.__kwdefaults__, timeout_ms=60_000),
        patch.object(retry, "REPEATS_SECONDS", 60.0),
        patch.object(write_queues, "VERB_SECONDS", 60.0),
        patch.object(query_runner, "VERB_SECONDS", 60.0),
        patch.object(writes, "VERB_SECONDS", 60.0),
    ):
        yield


@contextmanager
def hasty() -> Iterator[None]:
    """Within this context, calls and their repeats have short time limits. Tests use this when a
    server stays unavailable, because then every call lasts until its limit."""
    with (
        patch.object(retry, "REPEATS_SECONDS", 0.3),
        patch.object(write_queues, "VERB_SECONDS", 1.0),
        patch.object(query_runner, "VERB_SECONDS", 1.0),
        patch.object(writes, "VERB_SECONDS", 1.0),
    ):
        yield


def counted(lb: laurels.Leaderboards, board: str = BOARD) -> dict[str, int]:
    """Return the score of every member of a board."""
    return {entry.member: int(str(entry.score)) for entry in lb.export(board)}


def again(lb: laurels.Leaderboards) -> None:
    """Repeat a query until it gets an answer."""
    answered(lambda: lb.top(BOARD))


def answered(call: Callable[[], T], seconds: float = 60) -> T:
    """Return the answer of a call. While the server is unavailable, repeat the call."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return call()
        except IndexUnavailable:
            assert time.monotonic() < deadline


def debugging() -> list[str]:
    """Return the options that allow the command DEBUG, which Redis 7 and later require."""
    output = subprocess.run(
        [need_server(), "--version"], capture_output=True, text=True, check=True
    ).stdout
    version = re.search(r"v=(\d+)", output)
    return ["--enable-debug-command", "yes"] if version and int(version[1]) >= 7 else []


class Writers:
    """Threads that write one event after another within a `with` block, and record the results.
    With `ids`, a thread repeats an event until it is acknowledged. Without ids, it continues with
    the next event."""

    def __init__(
        self,
        lb: laurels.Leaderboards,
        board: str = BOARD,
        threads: int = 4,
        *,
        ids: bool = False,
        name: str = "",
    ) -> None:
        self.acknowledged: list[str] = []
        self.doubtful: list[str] = []
        self.refused: Counter[str] = Counter()
        self.longest = 0.0
        self._lb, self._board, self._ids = lb, board, ids
        self._name = name
        self._ended = threading.Event()
        self._errors: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._work, args=(f"{name}{i}",), name=f"writer {i}")
            for i in range(threads)
        ]

    def wait_for_more(self, events: int = 50) -> None:
        """Wait until this many more events have been acknowledged."""
        before = len(self.acknowledged)
        until(
            lambda: self._errors or len(self.acknowledged) >= before + events,
            f"{events} more acknowledged; refused: {self.refused}",
        )

    def check(self, *, since: int = 0) -> None:
        """Check that every acknowledged event has been counted and that no event was counted twice.
        Every other event that has been counted must have been reported as possibly applied. Events
        that were acknowledged before `since` may be lost."""
        there = counted(self._lb, self._board)
        assert self.acknowledged[since:]
        assert set(there.values()) == {1}
        assert not set(self.acknowledged[since:]) - there.keys()
        own = {member for member in there if member.startswith(self._name)}
        assert own <= {*self.acknowledged, *self.doubtful}
        assert self.longest < LONGEST_SECONDS, (self.longest, self.refused)

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()
        assert not self._errors, self._errors

    def _work(self, name: str) -> None:
        try:
            number = 0
            while not self._ended.is_set():
                number += 1
                self._write(f"{name}.{number}")
        except BaseException as fault:
            self._errors.append(fault)

    def _write(self, member: str) -> None:
        while True:
            began = time.monotonic()
            try:
                id = f"e{member}" if self._ids else None
                self._lb.submit(self._board, member, 1, id=id)
                self.acknowledged.append(member)
                return
            except IndexUnavailable as error:
                self.refused[error.code] += 1
                if error.may_have_applied:
                    self.doubtful.append(member)
                if not self._ids:
                    return
            finally:
                self.longest = max(self.longest, time.monotonic() - began)
