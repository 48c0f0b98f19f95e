"""Services that answer from memory, and their clients."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import httpx

from laurels.core.board_version import BoardVersion
from laurels.stores.http.seen import SeenVersions

from .hot_history import Asked, History, Position
from .servers import free_port

ASK_ANEW = "none.1:0"
"""A version that no answer in memory has, so the server is asked."""


class Service:
    """A service in a process of its own. `events` gets each line that the process prints, and
    `ended` whenever a request of a `Late` thread has its answer. `removal` describes the last
    removal of a member by this service: how many states the history had after it, and which version
    the board had then. Answers to later requests to this service must show this version or a newer
    one."""

    def __init__(self, url: str, clocks: Path) -> None:
        program = [sys.executable, "-W", "ignore", "-m", "tests.redis.hot_service"]
        self._process = subprocess.Popen(
            [*program, url, str(clocks), str(free_port())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.events: queue.Queue[str] = queue.Queue()
        self.removal: tuple[int, Position] = (0, (-1, ()))
        threading.Thread(target=self._read, daemon=True).start()

    def wait_until_ready(self) -> None:
        self.url = self.events.get(timeout=60)
        assert self.url, "the service did not start"

    def order(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        self._process.communicate()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.events.put(line.strip())
        self.events.put("")


class Late(threading.Thread):
    """A request whose answer is delayed on its way from the server to the service."""

    def __init__(self, service: Service, asked: Asked, send: Callable[[], httpx.Response]) -> None:
        super().__init__(daemon=True)
        self.service, self.asked, self._send = service, asked, send
        self.answer: httpx.Response | None = None

    def begin(self) -> bool:
        """Send the request. Return True if its answer is being held back, or False if the answer
        has already arrived."""
        self.service.order("hold")
        self.start()
        return self.service.events.get() == "held"

    def delivered(self) -> httpx.Response:
        self.service.order("release")
        self.join()
        assert self.answer is not None
        return self.answer

    def run(self) -> None:
        self.answer = self._send()
        self.service.events.put("ended")


class Client:
    """A client that sends the newest version that it has seen, to any service."""

    def __init__(self) -> None:
        self.seen = SeenVersions()
        self.newest: Position = (-1, ())

    def note(self, sent: BoardVersion | None, version: BoardVersion, history: History) -> None:
        self.seen.note("b", sent, version.text())
        known = self.seen.newest("b")
        assert known is not None
        position = history.position(known)
        assert position >= self.newest
        self.newest = position


class Connection:
    """A connection to one service, whose client sends no version."""

    def __init__(self, service: Service, http: httpx.Client) -> None:
        self.service, self.http = service, http
        self.newest: Position = (-1, ())
