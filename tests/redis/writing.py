"""Writers under whom a server fails, and what must be there of what they wrote.

Every event has a member of its own, so that an event that is lost does not hide one that counts
twice.
"""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import laurels
from laurels import config
from laurels.index.redis.failures import IndexUnavailable

from .programs import need_server
from .servers import until

BOARD = "b"
LONGEST_SECONDS = 30.0
"""A write ends, whatever happens. How soon is tested by time that is injected, in test_time_limits;
a busy machine needs longer."""


@contextmanager
def opened(url: str, *boards: str) -> Iterator[laurels.Leaderboards]:
    """A deployment with boards of a window each."""
    with config.direct(url) as lb:
        for name in boards or (BOARD,):
            lb.create(laurels.Board(name), exist_ok=True)
        yield lb


def counted(lb: laurels.Leaderboards, board: str = BOARD) -> dict[str, int]:
    """What a board has counted, member by member."""
    return {entry.member: int(str(entry.score)) for entry in lb.export(board)}


def again(lb: laurels.Leaderboards, seconds: float = 15) -> None:
    """Reads until that is answered."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            lb.top(BOARD)
            return
        except IndexUnavailable:
            assert time.monotonic() < deadline


def debugging() -> list[str]:
    """What lets DEBUG be said: from Redis 7 on it has to be allowed."""
    said = subprocess.run(
        [need_server(), "--version"], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"v=(\d+)", said)
    return ["--enable-debug-command", "yes"] if found and int(found[1]) >= 7 else []


class Writers:
    """Threads that write one event after another until `stop`, and note what became of each.

    With `ids` a writer repeats an event until it is acknowledged; without, it goes on to the next.
    """

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
        self._faults: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._work, args=(f"{name}{i}",), name=f"writer {i}")
            for i in range(threads)
        ]

    def wait_for_more(self, events: int = 50) -> None:
        """Waits until so many more are acknowledged."""
        before = len(self.acknowledged)
        until(
            lambda: self._faults or len(self.acknowledged) >= before + events,
            f"{events} more acknowledged; refused: {self.refused}",
        )

    def check(self, *, since: int = 0) -> None:
        """What is there is what was acknowledged, and at most once each what may be. Of what was
        acknowledged before `since`, the server may have lost some."""
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
            thread.join(20)
            assert not thread.is_alive()
        assert not self._faults, self._faults

    def _work(self, name: str) -> None:
        try:
            number = 0
            while not self._ended.is_set():
                number += 1
                self._write(f"{name}.{number}")
        except BaseException as fault:
            self._faults.append(fault)

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
