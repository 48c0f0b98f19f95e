"""The servers of the bench: their processor time and memory, and for how long scripts block
them."""

import gc
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from tests.redis.cluster import Cluster
from tests.redis.servers import Server, until

from bench.http.process import on_core

__all__ = ["Cluster", "Cost", "Server", "blocked_ms", "cost_of", "serving", "serving_cluster"]

_REWRITE_SECONDS = 300
_MOST_CALLS = 1_000_000
_IN_MAIN_THREAD = ("used_cpu_user_main_thread", "used_cpu_sys_main_thread")


@contextmanager
def serving(core: int) -> Iterator[Server]:
    """Return a context manager with a server on one core."""
    with on_core(core):
        server = Server()
    with server:
        yield server


@contextmanager
def serving_cluster(core: int) -> Iterator[Cluster]:
    """Return a context manager with three servers that own the slots in equal parts, all on one
    core."""
    with on_core(core):
        cluster = Cluster()
    with cluster:
        yield cluster


@contextmanager
def without_file(servers: Sequence[Server]) -> Iterator[None]:
    """Return a context manager during which the servers have no append-only file; at its end the
    file is written again."""
    for server in servers:
        server.call("CONFIG", "SET", "appendonly", "no")
    yield
    for server in servers:
        server.call("CONFIG", "SET", "appendonly", "yes")
        until(lambda server=server: _is_appending(server), "the file is written", _REWRITE_SECONDS)  # type: ignore[misc]


def _is_appending(server: Server) -> bool:
    info = server.info("persistence")
    busy = ("aof_rewrite_in_progress", "aof_rewrite_scheduled", "aof_pending_rewrite")
    return info["aof_enabled"] == "1" and all(info.get(field, "0") == "0" for field in busy)


def cpu_seconds(servers: Sequence[Server]) -> float:
    """Return the processor time so far of the servers' main threads, including time in the
    kernel."""
    return sum(sum(_cpu_fields(server.info("cpu"))) for server in servers)


def _cpu_fields(info: dict[str, str]) -> list[float]:
    names = _IN_MAIN_THREAD if _IN_MAIN_THREAD[0] in info else ("used_cpu_user", "used_cpu_sys")
    return [float(info[name]) for name in names]


def dataset_bytes(server: Server) -> int:
    """Return `used_memory` without the buffers of clients and of the append-only file."""
    return int(server.info("memory")["used_memory_dataset"])


class Cost(NamedTuple):
    """The cost of some work: the elapsed time, and the processor time of the servers and of this
    process."""

    seconds: float
    server_seconds: float
    client_seconds: float


async def cost_of(servers: Sequence[Server], work: Callable[[], Awaitable[object]]) -> Cost:
    """Do some work, and return its cost. The garbage of its preparation is collected before."""
    gc.collect()
    server, client, start = cpu_seconds(servers), time.process_time(), time.perf_counter()
    await work()
    elapsed, used = time.perf_counter() - start, time.process_time() - client
    return Cost(elapsed, cpu_seconds(servers) - server, used)


@contextmanager
def blocked_ms(server: Server, *, besides: bytes = b"") -> Iterator[list[float]]:
    """Return a context manager with a list. At its end, the list gets the duration of each script
    in ms, in ascending order; a script blocks the server. The script with the digest `besides` is
    left out.

    The server measures the durations (SLOWLOG) as elapsed time, so they include interruptions of
    the server by the machine.
    """
    durations: list[float] = []
    server.call("CONFIG", "SET", "slowlog-max-len", _MOST_CALLS, "slowlog-log-slower-than", 0)
    server.call("SLOWLOG", "RESET")
    yield durations
    server.call("CONFIG", "SET", "slowlog-log-slower-than", -1)
    for _, _, took_us, words, *_ in server.call("SLOWLOG", "GET", _MOST_CALLS):
        if bytes(words[0]).upper().startswith(b"EVAL") and words[1] != besides:
            durations.append(took_us / 1e3)
    durations.sort()
    server.call("SLOWLOG", "RESET")
