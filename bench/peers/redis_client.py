"""Redis through redis-py with hiredis, as a Python program uses it. The time includes the client's
work."""

from collections.abc import Sequence
from itertools import repeat
from typing import cast

from bench.peers import BOARD, RADIUS, TOP
from bench.peers.redis_server import SAFETY, RedisServer, Setting
from bench.timing import Safety, Task
from bench.workload import Batch


class ClientRedis:
    """Redis through redis-py, with pipelines without MULTI, which are faster in redis-py."""

    ours = False
    name = "Redis by redis-py"

    def __init__(self, server: RedisServer, setting: Setting) -> None:
        self._server, self._client, self._setting = server, server.client, setting
        self.settings = setting.text
        self.safety: Safety = SAFETY[setting.fsync]

    def writes(self, batches: Sequence[Batch]) -> Task:
        client = self._client

        def run_single() -> None:
            for batch in batches:
                for member, value in batch:
                    client.zincrby(BOARD, value, member)

        def run() -> None:
            for batch in batches:
                pipeline = client.pipeline(transaction=False)
                for member, value in batch:
                    pipeline.zincrby(BOARD, value, member)
                pipeline.execute()

        return self._placing(run_single if len(batches[0]) == 1 else run)

    def scores(self, members: Sequence[str]) -> list[int]:
        return [int(score or 0) for score in self._client.zmscore(BOARD, list(members))]

    def rank(self, members: Sequence[str]) -> Task:
        client = self._client
        return self._placing(lambda: [client.zrevrank(BOARD, member) for member in members])

    def ranks(self, groups: Sequence[Sequence[str]]) -> Task:
        client = self._client

        def run() -> None:
            for group in groups:
                pipeline = client.pipeline(transaction=False)
                for member in group:
                    pipeline.zrevrank(BOARD, member)
                pipeline.execute()

        return self._placing(run)

    def around(self, members: Sequence[str]) -> Task:
        client = self._client
        last_first = int(client.zcard(BOARD)) - 2 * RADIUS - 1

        def run() -> None:
            for member in members:
                rank = cast(int, client.zrevrank(BOARD, member))
                first = max(0, min(rank - RADIUS, last_first))
                client.zrevrange(BOARD, first, first + 2 * RADIUS, withscores=True)

        return self._placing(run)

    def top(self, times: int) -> Task:
        client = self._client

        def run() -> None:
            for _ in repeat(None, times):
                client.zrevrange(BOARD, 0, TOP - 1, withscores=True)

        return self._placing(run)

    def standings(self, groups: Sequence[Sequence[str]]) -> Task:
        client = self._client

        def run() -> None:
            for group in groups:
                pipeline = client.pipeline(transaction=False)
                for member in group:
                    pipeline.zrevrank(BOARD, member)
                pipeline.zmscore(BOARD, list(group))
                pipeline.execute()

        return self._placing(run)

    def _placing(self, task: Task) -> Task:
        return self._server.placing(task, self._setting)
