"""Real servers on free ports of this machine. Each server has a folder of its own with an
append-only file.

`Server` is one process. `Cluster` is three primaries, optionally with a replica each. Both run
until the end of their `with` block. If a failed test leaves servers running, they are ended when
this process ends.

The ports are below the range that the kernel uses for outgoing connections. The port 10,000 above
each must be free, too, since the nodes of a cluster use it for their bus.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import SystemRandom
from types import TracebackType
from typing import Any, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from .programs import need_server

WITHIN_SECONDS = 60
_POLL_SECONDS = 0.02
_PORTS = range(12_000, 22_000)
_BUS = 10_000
_ATTEMPTS = 20
_OPTIONS = (
    *("--bind", "127.0.0.1", "--logfile", "server.log", "--save", ""),
    *("--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0"),
    *("--repl-diskless-sync-delay", "0"),
)


def until(condition: Callable[[], object], what: str, seconds: float = WITHIN_SECONDS) -> None:
    """Wait until the condition is true. An error of the server counts as false."""
    deadline = time.monotonic() + seconds
    while not _is_so(condition):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(_POLL_SECONDS)


def _is_so(condition: Callable[[], object]) -> bool:
    try:
        return bool(condition())
    except redis.RedisError:
        return False


def has_stopped(pid: int) -> bool:
    """Return whether all threads of a process have stopped."""
    states = set()
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # the process has ended meanwhile
            states.add((thread / "stat").read_text().rpartition(")")[2].split()[0])
    return states == {"T"}


def free_port() -> int:
    """Return a port on which nothing listens. Nothing listens on the port 10,000 above it,
    either."""
    for _ in range(1_000):
        port = SystemRandom().choice(_PORTS)
        if _is_free(port) and _is_free(port + _BUS):
            return port
    raise OSError("no free port was found")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def fields(text: bytes) -> dict[str, str]:
    """Return the fields of INFO or CLUSTER INFO, whose lines have the form `name:value`."""
    lines = (line.partition(":") for line in text.decode().splitlines())
    return {name: value for name, _, value in lines}


class Server:
    """One server; it keeps its port and its folder through `kill`, `stop` and `start`.

    `options` are options of the server's command line: `Server("--maxmemory", "2mb")`.
    """

    def __init__(
        self, *options: str, password: str | None = None, binary: str | None = None
    ) -> None:
        self._binary = binary or need_server()
        self._options = list(options)
        if password is not None:
            self._options += ["--requirepass", password, "--masterauth", password]
        self._password = password
        self._folder = tempfile.TemporaryDirectory(prefix="laurels-redis-")
        self._child: subprocess.Popen[bytes] | None = None
        self._replicas: list[Server] = []
        self.port = 0
        atexit.register(self.close)
        try:
            self._start_on_a_free_port()
        except BaseException:
            self.close()
            raise

    @property
    def folder(self) -> Path:
        return Path(self._folder.name)

    @property
    def pid(self) -> int:
        assert self._child is not None, "the server is not running"
        return self._child.pid

    @property
    def runs(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def url(self) -> str:
        user = "" if self._password is None else f":{self._password}@"
        return f"redis://{user}127.0.0.1:{self.port}"

    def call(self, *parts: str | bytes | int) -> Any:
        """Send one command to the server, and return its answer without conversion."""
        return self._plain.execute_command(*parts)  # type: ignore[no-untyped-call]

    def info(self, section: str) -> dict[str, str]:
        """Return one section of INFO."""
        return fields(self.call("INFO", section))

    def start(self) -> None:
        """Start the server on its port and folder, and wait until it has loaded its data."""
        assert not self.runs, "the server is already running"
        self._launch()
        until(self._answers, "the server answers")
        assert self.runs, self._last_words()

    def start_loading_slowly(self, micros: int) -> None:
        """Start the server so that it waits for this time after each command that it loads from its
        file. Return while it is still loading."""
        assert not self.runs, "the server is already running"
        self._launch("--key-load-delay", str(micros))
        until(self.is_loading, "the server loads")

    def unread(self) -> int:
        """Return how many bytes the kernel has received and the server has not read yet."""
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
        queues = (line.split() for line in lines)
        ours = (each[4] for each in queues if each[1].endswith(f":{self.port:04X}"))
        return sum(int(queue.partition(":")[2], 16) for queue in ours)

    def is_loading(self) -> bool:
        return self.info("persistence")["loading"] == "1"

    def stop(self) -> None:
        """End the server as an operator would, so that it first saves its data."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the server with SIGKILL."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Kill the server. Then start it again with the same port and folder."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """Pause the server: its connections stay open, but it does not answer until `resume`. Wait
        until all its threads have stopped, since a running thread may still answer a request."""
        os.kill(self.pid, signal.SIGSTOP)
        until(lambda: has_stopped(self.pid), "all threads of the server have stopped")

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def with_replica(self) -> Server:
        """Return another server, which replicates this one and is closed with it."""
        replica = Server(*self._options, password=self._password)
        self._replicas.append(replica)
        replica.follow(self)
        return replica

    def follow(self, primary: Server) -> None:
        """Make the server a replica, and wait until it has a working connection to its primary."""
        self.call("REPLICAOF", "127.0.0.1", primary.port)
        until(lambda: self.info("replication")["master_link_status"] == "up", "the replica follows")

    def wait_until_in_step(self, primary: Server) -> None:
        """Wait until the replica has everything that its primary has written so far."""
        written = int(primary.info("replication")["master_repl_offset"])
        has = "slave_repl_offset"
        until(lambda: int(self.info("replication")[has]) >= written, "the replica has all writes")

    def promote(self) -> None:
        """Make the replica a primary."""
        self.call("REPLICAOF", "NO", "ONE")

    def close(self) -> None:
        """End the server, and remove its folder."""
        atexit.unregister(self.close)
        for replica in self._replicas:
            replica.close()
        self.kill()
        self._folder.cleanup()

    def _start_on_a_free_port(self) -> None:
        """Start the server on a free port. If another program takes this port first, try another
        one."""
        for _ in range(_ATTEMPTS):
            self.port = free_port()
            self._connect()
            self._launch()
            until(lambda: not self.runs or self._answers(), "the server answers or ends")
            if self.runs:
                return
        raise OSError(f"the server did not start: {self._last_words()}")

    def _connect(self) -> None:
        """Create the clients `client` and `_plain`. A client connects when it is first used, and
        connects again after a restart of the server."""
        self.client = redis.Redis(
            port=self.port, password=self._password, socket_timeout=WITHIN_SECONDS
        )
        self._plain = redis.Redis(
            port=self.port,
            password=self._password,
            socket_timeout=WITHIN_SECONDS,
            protocol=2,
            retry=Retry(NoBackoff(), 1),  # `until` repeats failed calls
        )
        self._plain.response_callbacks.clear()

    def _launch(self, *more: str) -> None:
        self._child = subprocess.Popen(
            [self._binary, *self._place(), *_OPTIONS, *self._options, *more],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _place(self) -> list[str]:
        return ["--port", str(self.port), "--dir", self._folder.name]

    def _answers(self) -> bool:
        """Return whether the process that listens on the port was started here and has loaded its
        file."""
        if self.info("server")["process_id"] != str(self.pid):
            return False
        return self.info("persistence")["loading"] == "0"

    def _end(self, by: signal.Signals) -> None:
        if self._child is None:
            return
        if self.runs:
            os.kill(self.pid, signal.SIGCONT)
            os.kill(self.pid, by)
        try:
            self._child.wait(WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait(WITHIN_SECONDS)
        self._child = None
        self.client.close()
        self._plain.close()

    def _last_words(self) -> str:
        log = self.folder / "server.log"
        return (
            log.read_text(errors="replace")[-2_000:] if log.exists() else "the server wrote no log"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
