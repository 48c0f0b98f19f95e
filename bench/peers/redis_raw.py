"""Redis through prepared bytes, the fastest way to use it for a client in any language."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Literal, NamedTuple, TypeAlias

from bench.peers import BOARD, RADIUS, TOP
from bench.peers.redis_server import SAFETY, RedisServer, Setting
from bench.peers.resp import Counting, bulk, command
from bench.timing import Safety, Task
from bench.workload import Batch

Way: TypeAlias = Literal["pipeline", "transaction", "script"]

KEY = BOARD.encode()
_ADD_ALL = """
local scores = {}
for i = 1, #ARGV, 2 do
  scores[#scores + 1] = redis.call('ZINCRBY', KEYS[1], ARGV[i], ARGV[i + 1])
end
return scores
"""
_AROUND = """
local rank = redis.call('ZREVRANK', KEYS[1], ARGV[1])
local radius = tonumber(ARGV[2])
local first = math.max(0, math.min(rank - radius, redis.call('ZCARD', KEYS[1]) - 2 * radius - 1))
return redis.call('ZREVRANGE', KEYS[1], first, first + 2 * radius, 'WITHSCORES')
"""
_MULTI, _EXEC = command(b"MULTI"), command(b"EXEC")
_SPAN = 2 * RADIUS + 1


class Request(NamedTuple):
    """Prepared bytes to send, and the number of lines in the reply."""

    sent: bytes
    lines: int


def rank_command(member: str) -> bytes:
    return command(b"ZREVRANK", KEY, member.encode())


def pairs_request(*words: bytes, entries: int) -> Request:
    """Return a command whose reply is an array of this many members with their scores."""
    return Request(command(*words), 1 + 4 * entries)


class RawRedis:
    """One connection, or several that each have a batch in progress."""

    ours = False

    def __init__(
        self, server: RedisServer, way: Way, setting: Setting, connections: int = 1
    ) -> None:
        self._server, self._way, self._setting = server, way, setting
        self._connections = [Counting(server.socket) for _ in range(connections)]
        self._add_all = str(server.client.script_load(_ADD_ALL)).encode()
        self._around = str(server.client.script_load(_AROUND)).encode()
        several = f", {connections} connections" if connections > 1 else ""
        self.name = f"Redis {way}, pre-encoded{several}"
        self.settings = setting.text
        self.safety: Safety = SAFETY[setting.fsync]

    def writes(self, batches: Sequence[Batch]) -> Task:
        encode = self._encoder()
        requests = [encode(batch) for batch in batches]
        if len(self._connections) == 1:
            return self._asking(requests)
        return self._together(requests)

    def scores(self, members: Sequence[str]) -> list[int]:
        return [int(score or 0) for score in self._server.client.zmscore(BOARD, list(members))]

    def rank(self, members: Sequence[str]) -> Task:
        return self._asking([Request(rank_command(member), 1) for member in members])

    def ranks(self, groups: Sequence[Sequence[str]]) -> Task:
        return self._asking(
            [Request(b"".join(map(rank_command, group)), len(group)) for group in groups]
        )

    def around(self, members: Sequence[str]) -> Task:
        if self._way == "script":
            words = (b"EVALSHA", self._around, b"1", KEY)
            radius = b"%d" % RADIUS
            return self._asking(
                [pairs_request(*words, m.encode(), radius, entries=_SPAN) for m in members]
            )
        total = int(self._server.client.zcard(BOARD))
        return self._around_in_two(list(map(rank_command, members)), total - _SPAN)

    def top(self, times: int) -> Task:
        words = (b"ZREVRANGE", KEY, b"0", b"%d" % (TOP - 1), b"WITHSCORES")
        return self._asking([pairs_request(*words, entries=TOP)] * times)

    def standings(self, groups: Sequence[Sequence[str]]) -> Task:
        return self._asking([_standings_request(group) for group in groups])

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def _asking(self, requests: Sequence[Request]) -> Task:
        ask = self._connections[0].ask

        def run() -> None:
            for sent, lines in requests:
                ask(sent, lines)

        return self._server.placing(run, self._setting)

    def _together(self, requests: Sequence[Request]) -> Task:
        """Send one batch on each connection at the same time, so that the batches share an
        fsync."""
        connections = self._connections
        rounds = [
            list(zip(connections, requests[first : first + len(connections)], strict=False))
            for first in range(0, len(requests), len(connections))
        ]

        def run() -> None:
            for under_way in rounds:
                for connection, request in under_way:
                    connection.send(request.sent)
                for connection, request in under_way:
                    connection.wait(request.lines)

        return self._server.placing(run, self._setting)

    def _around_in_two(self, rank_requests: Sequence[bytes], last_first: int) -> Task:
        connection = self._connections[0]

        def run() -> None:
            for sent in rank_requests:
                first = max(0, min(connection.integer(sent) - RADIUS, last_first))
                stop = first + _SPAN - 1
                words = (b"ZREVRANGE", KEY, b"%d" % first, b"%d" % stop, b"WITHSCORES")
                connection.ask(*pairs_request(*words, entries=_SPAN))

        return self._server.placing(run, self._setting)

    def _encoder(self) -> Callable[[Batch], Request]:
        if self._way == "pipeline":
            return _pipeline
        return _transaction if self._way == "transaction" else self._script

    def _script(self, batch: Batch) -> Request:
        words = [b"EVALSHA", self._add_all, b"1", KEY]
        words += chain.from_iterable((b"%d" % value, member.encode()) for member, value in batch)
        return Request(command(*words), 1 + 2 * len(batch))


def _pipeline(batch: Batch) -> Request:
    head = b"*4\r\n" + bulk((b"ZINCRBY", KEY))
    sent = [head + bulk((b"%d" % value, member.encode())) for member, value in batch]
    return Request(b"".join(sent), 2 * len(batch))


def _transaction(batch: Batch) -> Request:
    sent, lines = _pipeline(batch)
    return Request(_MULTI + sent + _EXEC, lines + len(batch) + 2)


def _standings_request(group: Sequence[str]) -> Request:
    ranks = b"".join(map(rank_command, group))
    scores = command(b"ZMSCORE", KEY, *(member.encode() for member in group))
    return Request(ranks + scores, len(group) + 1 + 2 * len(group))
