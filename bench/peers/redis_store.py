"""The sorted sets on a Redis server: how they are loaded, and their memory."""

import time
from collections.abc import Iterable, Sequence
from itertools import chain, islice

from bench.peers.redis_raw import KEY
from bench.peers.redis_server import RedisServer
from bench.peers.resp import Counting, command
from bench.timing import Safety
from bench.workload import Entry, Population

_ADD_PAIRS = 1000
_SMALL_AT_ONCE = 100


class RedisStore:
    """Sorted sets, loaded by ZADD commands of up to 1,000 members, which are encoded beforehand."""

    ours = False
    name = "Redis, sorted set"
    settings = "AOF off"
    safety: Safety = "memory"

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._bytes_before = server.used_bytes()

    def load(self, population: Population) -> float:
        connection = Counting(self._server.socket)
        elapsed = 0.0
        for batch in population.batches():
            commands = [
                _zadd(KEY, batch[i : i + _ADD_PAIRS]) for i in range(0, len(batch), _ADD_PAIRS)
            ]
            sent = b"".join(commands)
            start = time.perf_counter()
            connection.ask(sent, len(commands))
            elapsed += time.perf_counter() - start
        connection.close()
        return elapsed

    def nbytes(self) -> int:
        """Return by how much the load has increased used_memory."""
        return self._server.used_bytes() - self._bytes_before

    def load_small(self, rankings: Iterable[Sequence[Entry]]) -> None:
        """Load a small sorted set for each ranking."""
        connection = Counting(self._server.socket)
        commands = (_zadd(b"small:%d" % n, ranking) for n, ranking in enumerate(rankings))
        while some := list(islice(commands, _SMALL_AT_ONCE)):
            connection.ask(b"".join(some), len(some))
        connection.close()


def _zadd(key: bytes, entries: Sequence[Entry]) -> bytes:
    pairs = chain.from_iterable((b"%d" % value, member.encode()) for member, value, _ in entries)
    return command(b"ZADD", key, *pairs)
