"""The keys of a rolling board in Redis: filling and verifying them, and their memory."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

from bench.history import History, Steps
from bench.peers import BOARD
from bench.peers.redis_server import RedisServer
from bench.peers.resp import Counting, command
from bench.timing import Safety

ALL, DAY, LIVE, PREPARED = (f"{BOARD}:{name}" for name in ("all", "day", "live", "prepared"))
_PAIRS = 1_000
_AT_ONCE = 100
_ALL_UP_TO = 1_000_000
_SAMPLES = 10_000

Scores = Mapping[str, int]


class RollingStore:
    """The sorted sets of all, the day, the live and the prepared window, and a hash for the tally
    of each step.

    The key of a tally has the age of its step. With `sorted_tallies`, tallies are sorted sets,
    which ZUNIONSTORE needs.
    """

    ours = False
    name = "Redis"
    settings = "MEMORY USAGE"
    safety: Safety = "memory"

    def __init__(self, server: RedisServer, steps: int) -> None:
        self._server, self.steps = server, steps
        self._bytes_before = server.used_bytes()
        self._connection = Counting(server.socket)
        self._pipeline: list[str] = []
        self._due = 0

    def tally_key(self, ago: int) -> str:
        return f"{BOARD}:tally:{ago}"

    def load(self, history: History, steps: Steps, now_ms: int) -> None:
        """Fill every key with a history."""
        running, today_ms = steps.number(now_ms), history.today_ms
        for events in history.batches():
            live: dict[str, int] = defaultdict(int)
            day: dict[str, int] = defaultdict(int)
            prepared: dict[str, int] = defaultdict(int)
            tallies: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
            for member, value, at_ms in events:
                ago = running - steps.number(at_ms)
                live[member] += value
                tallies[ago][member] += value
                if at_ms >= today_ms:
                    day[member] += value
                if ago < steps.many - 1:
                    prepared[member] += value
            for key, scores in ((DAY, day), (PREPARED, prepared)):
                self.add_sorted(key, scores)
            self.add_sorted(ALL, live, LIVE)
            for ago, tally in tallies.items():
                fields = [f"{_bulk(member)}{_bulk(str(score))}" for member, score in tally.items()]
                self._say(_command("HSET", self.tally_key(ago), fields))
        self._finish()

    def add_sorted(self, key: str, scores: Scores, *more: str) -> None:
        """Add members to some sorted sets without waiting for the last replies; `unite` waits for
        these."""
        pairs = [f"{_bulk(str(score))}{_bulk(member)}" for member, score in scores.items()]
        for first in range(0, len(pairs), _PAIRS):
            part = pairs[first : first + _PAIRS]
            for each in (key, *more):
                self._say(_command("ZADD", each, part))

    def scores(self, members: Sequence[str]) -> list[int]:
        """Return the live scores. Raise AssertionError if the prepared score of a member is not its
        live score less its total in the leaving step."""
        names = list(members)
        client = self._server.client
        live, prepared = client.zmscore(LIVE, names), client.zmscore(PREPARED, names)
        leaving = client.hmget(self.tally_key(self.steps - 1), names)
        for due, ready, leaves in zip(live, prepared, leaving, strict=True):
            if (due or 0) - int(leaves or 0) != (ready or 0):
                raise AssertionError(
                    "a prepared score is not the live score minus the total of the leaving step"
                )
        return [int(score or 0) for score in live]

    def grown(self) -> int:
        """Return by how much `used_memory` has grown."""
        return self._server.used_bytes() - self._bytes_before

    def size(self, key: str) -> int:
        """Return the number of members of a sorted set."""
        return int(self._server.client.zcard(key))

    def nbytes(self, key: str) -> int:
        """Return the server's estimate of a key's memory, from all its elements or a very large
        sample."""
        client = self._server.client
        many = client.type(key) == b"zset" and client.zcard(key) > _ALL_UP_TO
        return int(client.memory_usage(key, samples=_SAMPLES if many else 0) or 0)

    def tallies(self) -> tuple[int, int]:
        """Return the bytes of all tallies, and the number of their cells."""
        keys = [self.tally_key(ago) for ago in range(self.steps)]
        cells = sum(int(self._server.client.hlen(key)) for key in keys)
        return sum(map(self.nbytes, keys)), cells

    def unite(self, keys: Sequence[str]) -> float:
        """Compute the window from sorted tallies, the usual way at a boundary. Return the seconds,
        during which the server does nothing else."""
        union = command(
            b"ZUNIONSTORE", LIVE.encode(), b"%d" % len(keys), *(k.encode() for k in keys)
        )
        self._finish()
        started = time.perf_counter()
        self._connection.ask(union, 1)
        return time.perf_counter() - started

    def close(self) -> None:
        self._connection.close()

    def _say(self, text: str) -> None:
        """Append a command to the pipeline, and send the pipeline when it is long."""
        self._pipeline.append(text)
        if len(self._pipeline) >= _AT_ONCE:
            self._send()

    def _send(self) -> None:
        """Wait for the answers to the previous pipeline, then send the next one, whose commands
        were encoded while the server worked on the previous pipeline."""
        self._connection.wait(self._due)
        self._connection.send("".join(self._pipeline).encode())
        self._due = len(self._pipeline)
        self._pipeline.clear()

    def _finish(self) -> None:
        """Send the pipeline, and wait for all replies."""
        self._send()
        self._connection.wait(self._due)
        self._due = 0


def _command(verb: str, key: str, pairs: Sequence[str]) -> str:
    """Return a command with these encoded words after its key."""
    return f"*{2 + 2 * len(pairs)}\r\n{_bulk(verb)}{_bulk(key)}{''.join(pairs)}"


def _bulk(word: str) -> str:
    """Return an ASCII word as a bulk string."""
    return f"${len(word)}\r\n{word}\r\n"
