"""Processes that the bench starts: their cores, their processor time, and how they end."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import NamedTuple

HOST = "127.0.0.1"
_START_SECONDS = 60
_END_SECONDS = 30
_POLL_SECONDS = 0.002
_IDLE_SECONDS = 30
_IDLE_LOOKS = 10
_IDLE_PAUSE_SECONDS = 0.01
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_OWN_SETTINGS = "LAURELS_"


class Cores(NamedTuple):
    """The assignment of cores: servers (including Redis) run on one, clients on another."""

    server: int
    load: int


def two_cores() -> Cores | None:
    """Return the first and the last core that this process may use, None if there is only one."""
    usable = os.sched_getaffinity(0)
    return Cores(min(usable), max(usable)) if len(usable) > 1 else None


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Return a context manager that binds this thread, and the processes it starts, to one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def cpu_seconds(pid: int) -> float:
    """Return the processor time so far of a process and its children that have ended, including
    time in the kernel."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    # the utime and stime of the process and of its ended children (proc(5), fields 14 to 17)
    spent = sum(map(int, fields[11:15])) / _TICKS_A_SECOND
    return spent + sum(map(cpu_seconds, _children(pid)))


def wait_until_idle(pids: Sequence[int]) -> None:
    """Wait until all requests are finished: look again and again at the threads of these processes,
    until all of them were asleep several times in a row. Raise TimeoutError if this takes too
    long."""
    deadline = time.monotonic() + _IDLE_SECONDS
    looks = 0
    while looks < _IDLE_LOOKS:
        looks = looks + 1 if all(map(_is_idle, pids)) else 0
        if time.monotonic() > deadline:
            raise TimeoutError("a server is still busy after its run")
        time.sleep(_IDLE_PAUSE_SECONDS)


def _is_idle(pid: int) -> bool:
    threads = Path(f"/proc/{pid}/task").glob("*/stat")
    return all(stat.read_text().rpartition(")")[2].split()[0] == "S" for stat in threads)


def _children(pid: int) -> Iterator[int]:
    for thread in Path(f"/proc/{pid}/task").iterdir():
        yield from map(int, (thread / "children").read_text().split())


class Serving:
    """A server process on a free port of this machine."""

    def __init__(self, command: Sequence[str | Path], core: int, log: Path, *, ready: str) -> None:
        """Start `command` with a port as its last argument. Return when a GET of `ready` is
        answered with 200."""
        self.port = _free_port()
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(_OWN_SETTINGS)
        }
        with log.open("ab") as output, on_core(core):
            self._child = subprocess.Popen(
                [*command, str(self.port)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
            )
        self._log = log
        try:
            self._wait_until_it_answers(ready)
        except BaseException:
            self.end()
            raise

    @property
    def pid(self) -> int:
        return self._child.pid

    def end(self) -> float:
        """Terminate the process; return the seconds until it has ended."""
        began = time.perf_counter()
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)
            try:
                self._child.wait(_END_SECONDS)
            except BaseException:
                self._child.kill()
                self._child.wait()
                raise
        return time.perf_counter() - began

    def _wait_until_it_answers(self, path: str) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers(path):
            if self._child.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start:\n{self._log.read_text()}")
            time.sleep(_POLL_SECONDS)

    def _answers(self, path: str) -> bool:
        connection = HTTPConnection(HOST, self.port, timeout=_START_SECONDS)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()


def _free_port() -> int:
    with socket.socket() as tried:
        tried.bind((HOST, 0))
        return int(tried.getsockname()[1])
