"""The published scheme for rolling leaderboards with constant cost of a write, implemented by hand
in Redis.

An event is added to the sorted sets of all, of its day, of its hour and of the rolling week. In the
sorted set for the next week, the member gets its total in the current week less its total in the
expiring hour. Days and hours end by EXPIRE. Each batch is one EVALSHA, which returns OK.
"""

import hashlib
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import chain
from typing import Any, Literal, TypeAlias, get_args

import glide
import msgspec
import redis.asyncio

from bench.history import DAY_MS, HOUR_MS, WEEK
from bench.redis.book import BY_HAND, Owner
from bench.redis.serving import Server
from bench.workload import Batch, Entry

Form: TypeAlias = Literal["a word each", "one msgpack"]
Word: TypeAlias = str | bytes
Send: TypeAlias = Callable[[list[Word]], Any]

ALL, ROLLING, NEXT = "hand:all", "hand:rolling", "hand:next"
_PAIRS = 1_000
_TIMEOUT_MS = 60_000

_HEAD = """
local call, format = redis.call, string.format
local all, day, hour, rolling, expiring, coming = unpack(KEYS)
"""
_EACH = """
  call('ZINCRBY', all, by, member)
  call('ZINCRBY', day, by, member)
  call('ZINCRBY', hour, by, member)
  local score = call('ZINCRBY', rolling, by, member)
  local leaving = call('ZSCORE', expiring, member)
  if leaving then score = format('%.17g', score - leaving) end
  call('ZADD', coming, score, member)
end
call('EXPIRE', day, 172800)
call('EXPIRE', hour, 608400)
return redis.status_reply('OK')
"""
_SCRIPTS: dict[Form, str] = {
    "a word each": f"""{_HEAD}
for i = 1, #ARGV, 2 do
  local by, member = ARGV[i], ARGV[i + 1]{_EACH}""",
    "one msgpack": f"""{_HEAD}
local events = cmsgpack.unpack(ARGV[1])
for i = 1, #events, 2 do
  local by, member = events[i], events[i + 1]{_EACH}""",
}


def _arguments(form: Form, batch: Batch) -> list[Word]:
    """Return a batch as the arguments of the script."""
    if form == "a word each":
        return list(chain.from_iterable((str(value), member) for member, value in batch))
    flat = list(chain.from_iterable((value, member) for member, value in batch))
    return [msgspec.msgpack.encode(flat)]


class ByHand:
    """A client that sends each batch to one of the scripts, in the form that the script reads."""

    def __init__(self, client: str, form: Form, keys: "Keys", send: Send, ask: Send) -> None:
        self.owner = Owner(f"script by hand, {client}", form, BY_HAND)
        self._form, self._send, self._ask = form, send, ask
        sha = hashlib.sha1(_SCRIPTS[form].encode(), usedforsecurity=False).hexdigest()
        self._head: list[Word] = ["EVALSHA", sha, "6", *keys.of_event()]

    async def submit(self, batch: Batch) -> None:
        await self._send([*self._head, *_arguments(self._form, batch)])

    async def scores(self, members: Sequence[str]) -> list[int]:
        """Return the current scores in the rolling window, 0 for absent members."""
        return [int(score or 0) for score in await self._ask(["ZMSCORE", ROLLING, *members])]


class Keys:
    """The keys of the sorted sets at one instant."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    @property
    def leaves_before_ms(self) -> int:
        """Return the instant before which events leave the rolling window at the next boundary."""
        return WEEK.begins_ms(self._now_ms) + HOUR_MS

    def day(self, at_ms: int) -> str:
        return f"hand:day:{at_ms // DAY_MS}"

    def hour(self, at_ms: int) -> str:
        return f"hand:hour:{at_ms // HOUR_MS}"

    def of_event(self) -> list[str]:
        """Return the keys that an event counted at the current instant changes, in the order of the
        script's KEYS."""
        now_ms = self._now_ms
        expiring = self.hour(WEEK.begins_ms(now_ms))
        return [ALL, self.day(now_ms), self.hour(now_ms), ROLLING, expiring, NEXT]

    def of_past(self, at_ms: int) -> list[str]:
        """Return the keys that contain an event at the past instant `at_ms`, if it was counted."""
        today = [self.day(at_ms)] if at_ms // DAY_MS == self._now_ms // DAY_MS else []
        stays = [NEXT] if at_ms >= self.leaves_before_ms else []
        return [ALL, ROLLING, self.hour(at_ms), *today, *stays]


def load(server: Server, keys: Keys, batches: Iterable[Sequence[Entry]]) -> None:
    """Fill all sorted sets with the first events, one for each member."""
    for batch in batches:
        scores_by_key: dict[str, dict[str, int]] = defaultdict(dict)
        for member, value, at_ms in batch:
            for key in keys.of_past(at_ms):
                scores_by_key[key][member] = value
        pipeline = server.client.pipeline(transaction=False)
        for key, scores in scores_by_key.items():
            members = list(scores)
            for first in range(0, len(members), _PAIRS):
                part = {member: scores[member] for member in members[first : first + _PAIRS]}
                pipeline.zadd(key, part)
        pipeline.execute()


def load_plain(server: Server, key: str, batches: Iterable[Sequence[Entry]]) -> None:
    """Fill only one sorted set, as for a board without windows."""
    for batch in batches:
        pipeline = server.client.pipeline(transaction=False)
        for first in range(0, len(batch), _PAIRS):
            part = {member: value for member, value, _ in batch[first : first + _PAIRS]}
            pipeline.zadd(key, part)
        pipeline.execute()


@asynccontextmanager
async def by_hand(server: Server, now_ms: int) -> AsyncIterator[list[ByHand]]:
    """Return a context manager with a client for each form."""
    for source in _SCRIPTS.values():
        server.call("SCRIPT", "LOAD", source)
    async with AsyncExitStack() as stack:
        by_glide = await glide.GlideClient.create(
            glide.GlideClientConfiguration(
                [glide.NodeAddress("127.0.0.1", server.port)], request_timeout=_TIMEOUT_MS
            )
        )
        stack.push_async_callback(by_glide.close)
        # After a timeout a call would be repeated, and its events counted twice.
        by_redis_py = redis.asyncio.Redis(port=server.port, socket_timeout=_TIMEOUT_MS / 1_000)
        stack.push_async_callback(by_redis_py.aclose)

        async def execute(words: list[Word]) -> Any:
            return await by_redis_py.execute_command(*words)  # type: ignore[no-untyped-call]

        clients: dict[str, Send] = {"valkey-glide": by_glide.custom_command, "redis-py": execute}
        keys = Keys(now_ms)
        yield [
            ByHand(name, form, keys, send, execute)
            for name, send in clients.items()
            for form in get_args(Form)
        ]
