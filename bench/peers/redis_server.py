"""A Redis server that the bench starts, with a unix socket instead of a TCP port, and a folder of
its own.

It is started and loaded without an append-only file, which is switched on for the durable runs.
Rewrites of the file and periodic snapshots are switched off, since they would only slow the server
down. To measure snapshots, the server takes one and is started again from it.

The placement of client and server on cores matters more than the client's language. On one core
they switch without waking a sleeping core, which on virtual machines costs more than the work
itself. On two cores they work at the same time. Which of these is faster depends on the machine,
the batch and the fsync, so both are measured, and laurels is compared with the faster one.
"""

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Literal, NamedTuple, Self, TypeAlias, cast

import redis
from tests.redis.programs import REDIS, on_path

from bench.timing import Safety, Task

Fsync: TypeAlias = Literal["off", "everysec", "always"]

Placement: TypeAlias = Literal["one core", "any core"]

SAFETY: dict[Fsync, Safety] = {"off": "memory", "everysec": "each second", "always": "each commit"}
_START_SECONDS = 10
_REWRITE_SECONDS = 300
_LOAD_SECONDS = 300
_POLL_SECONDS = 0.01
_SNAPSHOT = "dump.rdb"
_LOG = "redis.log"
_TOLD_SECONDS = 0.001
_LOADED = re.compile(r"DB loaded from disk: ([0-9.]+) seconds")


def installed() -> bool:
    """Return whether redis-server is installed."""
    return on_path(REDIS.program) is not None


class Setting(NamedTuple):
    """Settings of a run: the append-only file, and the cores of the server and its client."""

    fsync: Fsync = "off"
    placement: Placement = "any core"

    @property
    def text(self) -> str:
        return f"AOF {self.fsync}, {self.placement}"


class RedisServer:
    """A Redis server that runs during a `with` block. `folder` contains its append-only file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runtime = tempfile.TemporaryDirectory(prefix="laurels-bench-")
        self.socket = str(Path(self._runtime.name) / "redis.sock")
        self._fsync: Fsync = "off"
        self._placement: Placement = "any core"
        self._cores = os.sched_getaffinity(0)

    def __enter__(self) -> Self:
        self._start(_START_SECONDS)
        self.client = redis.Redis(unix_socket_path=self.socket)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.close()
        self._stop()

    @property
    def pid(self) -> int:
        return self._child.pid

    def used_bytes(self) -> int:
        """Return `used_memory`: the memory that the allocator has given to the server."""
        return self._info("memory", "used_memory")

    def save_aside(self) -> None:
        """Make the server write a snapshot in a forked child, and wait until it is complete."""
        self.client.bgsave()
        deadline = time.monotonic() + _REWRITE_SECONDS
        while self._info("persistence", "rdb_bgsave_in_progress"):
            if time.monotonic() > deadline:
                raise TimeoutError("the snapshot was not written in time")
            time.sleep(_POLL_SECONDS)
        if self.client.info("persistence")["rdb_last_bgsave_status"] != "ok":
            raise OSError("the snapshot could not be written")

    def snapshot_bytes(self) -> int:
        """Return the size of the snapshot in bytes."""
        return (self._folder / _SNAPSHOT).stat().st_size

    def fork_us(self) -> int:
        """Return for how many µs the last fork blocked the server."""
        return self._info("stats", "latest_fork_usec")

    def start_again(self) -> float:
        """Kill the server, and start it from its snapshot. Return the seconds of loading, from its
        log file."""
        self.client.close()
        self._end()
        self._start(_LOAD_SECONDS)
        self.client = redis.Redis(unix_socket_path=self.socket)
        durations = _LOADED.findall((self._folder / _LOG).read_text())
        return max(float(durations[-1]), _TOLD_SECONDS)

    def placing(self, task: Task, setting: Setting) -> Task:
        """Return a task that runs `task` with server and client on the cores of the setting. The
        setting of the append-only file is changed now, not when the task runs."""
        self.use(setting.fsync)

        def run() -> None:
            with self._placed(setting.placement):
                task()

        return run

    def use(self, fsync: Fsync) -> None:
        """Change the setting of the append-only file. If this switches the file on, the server
        first writes all its data to the file."""
        if fsync == self._fsync:
            return
        if fsync != "off":
            self.client.config_set("appendfsync", fsync)
        if "off" in (fsync, self._fsync):
            self.client.config_set("appendonly", "no" if fsync == "off" else "yes")
            self._wait_for_rewrite()
        self._fsync = fsync

    @contextmanager
    def _placed(self, placement: Placement) -> Iterator[None]:
        """Return a context manager that assigns cores to server and client. At its end it resets
        the cores of the client."""
        cores = {max(self._cores)} if placement == "one core" else self._cores
        if placement != self._placement:
            for thread in Path(f"/proc/{self._child.pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), cores)
            self._placement = placement
        os.sched_setaffinity(0, cores)
        try:
            yield
        finally:
            os.sched_setaffinity(0, self._cores)

    def _info(self, section: str, field: str) -> int:
        return int(cast(dict[str, int], self.client.info(section))[field])

    def _start(self, seconds: float) -> None:
        """Start the server, and wait for its first answer for a limited number of seconds."""
        arguments = ["--port", "0", "--unixsocket", self.socket, "--dir", str(self._folder)]
        arguments += ["--save", "", "--appendonly", "no", "--auto-aof-rewrite-percentage", "0"]
        arguments += ["--dbfilename", _SNAPSHOT, "--logfile", _LOG]
        self._child = subprocess.Popen(
            [on_path(REDIS.program) or REDIS.program, *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            self._wait_until_it_answers(time.monotonic() + seconds)
        except BaseException:
            self._stop()
            raise

    def _wait_until_it_answers(self, deadline: float) -> None:
        client = redis.Redis(unix_socket_path=self.socket)
        while True:
            try:
                client.ping()
            except (redis.ConnectionError, redis.BusyLoadingError):
                if self._child.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_SECONDS)
            else:
                client.close()
                return

    def _wait_for_rewrite(self) -> None:
        deadline = time.monotonic() + _REWRITE_SECONDS
        fields = ("aof_rewrite_in_progress", "aof_rewrite_scheduled")
        while any(self._info("persistence", field) for field in fields):
            if time.monotonic() > deadline:
                raise TimeoutError("the append-only file was not written in time")
            time.sleep(_POLL_SECONDS)

    def _end(self) -> None:
        self._child.kill()
        self._child.wait()

    def _stop(self) -> None:
        self._end()
        self._runtime.cleanup()
