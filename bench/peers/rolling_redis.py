"""The same work in Redis, in its fastest ways: for the windows `all`, day, and a rolling window.

There are four sorted sets: for `all`, for the day, for the live rolling window, and for the rolling
window prepared for the next step. There is a hash for the tally of each step. An event is added to
`all`, to the day, to the tally of its step and to the live window. A member's score in the prepared
window is its live score less its total in the leaving step. There are two variants. Plain commands
add the event to the prepared score, which is correct only after a pass has subtracted the leaving
totals. Scripts compute the prepared score and set it, which is always correct. Redis orders equal
scores by member, which costs nothing.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Literal, TypeAlias

from bench.peers.redis_raw import Request
from bench.peers.redis_server import SAFETY, RedisServer, Setting
from bench.peers.resp import Counting, bulk, command
from bench.peers.rolling_store import ALL, DAY, LIVE, PREPARED, RollingStore
from bench.timing import Safety, Task
from bench.workload import Batch

Way: TypeAlias = Literal["pipeline", "transaction", "script", "script by columns"]

_EACH = """
local scores = {}
for i = 1, #ARGV, 2 do
  local by, member = ARGV[i], ARGV[i + 1]
  redis.call('ZINCRBY', KEYS[1], by, member)
  redis.call('ZINCRBY', KEYS[2], by, member)
  redis.call('HINCRBY', KEYS[3], member, by)
  local live = redis.call('ZINCRBY', KEYS[4], by, member)
  local leaving = redis.call('HGET', KEYS[6], member) or 0
  redis.call('ZADD', KEYS[5], string.format('%.17g', live - leaving), member)
  scores[#scores + 1] = live
end
return scores
"""
"""Count the events one after another, the usual form of such a script."""

_COLUMNS = """
local members, added, place = {}, {}, {}
for i = 1, #ARGV, 2 do
  local member = ARGV[i + 1]
  local at = place[member]
  if at then
    added[at] = added[at] + ARGV[i]
  else
    at = #members + 1
    members[at], added[at], place[member] = member, tonumber(ARGV[i]), at
  end
end
local function number(n)
  return string.format('%.0f', n)
end
local function add(key, first, last)
  local scores = redis.call('ZMSCORE', key, unpack(members, first, last))
  local pairs, totals = {}, {}
  for i, score in ipairs(scores) do
    local total = (score or 0) + added[first + i - 1]
    totals[i] = total
    pairs[2 * i - 1], pairs[2 * i] = number(total), members[first + i - 1]
  end
  redis.call('ZADD', key, unpack(pairs))
  return totals
end
local all_live = {}
for first = 1, #members, 1000 do
  local last = math.min(first + 999, #members)
  add(KEYS[1], first, last)
  add(KEYS[2], first, last)
  local live = add(KEYS[4], first, last)
  local tally = redis.call('HMGET', KEYS[3], unpack(members, first, last))
  local leaving = redis.call('HMGET', KEYS[6], unpack(members, first, last))
  local cells, pairs = {}, {}
  for i, total in ipairs(live) do
    local member = members[first + i - 1]
    cells[2 * i - 1], cells[2 * i] = member, number((tally[i] or 0) + added[first + i - 1])
    pairs[2 * i - 1], pairs[2 * i] = number(total - (leaving[i] or 0)), member
    all_live[first + i - 1] = number(total)
  end
  redis.call('HSET', KEYS[3], unpack(cells))
  redis.call('ZADD', KEYS[5], unpack(pairs))
end
return all_live
"""
"""Add up the events of each member first, and then read and write each structure with one command.
This takes fewer calls, but there is no score after each event."""

_SCRIPTS: dict[Way, str] = {"script": _EACH, "script by columns": _COLUMNS}
_KEYS = 6
_MULTI, _EXEC = command(b"MULTI"), command(b"EXEC")


class RollingRedis:
    """One connection that sends prepared bytes."""

    ours = False

    def __init__(
        self, server: RedisServer, store: RollingStore, way: Way, setting: Setting
    ) -> None:
        self._server, self._store = server, store
        self._way, self._setting = way, setting
        self._connection = Counting(server.socket)
        self._script_id = b""
        if way in _SCRIPTS:
            self._script_id = str(server.client.script_load(_SCRIPTS[way])).encode()
        keys = (ALL, DAY, store.tally_key(0), LIVE, PREPARED, store.tally_key(store.steps - 1))
        self._keys = [key.encode() for key in keys]
        self.name = f"Redis {way}, pre-encoded"
        self.settings = setting.text
        self.safety: Safety = SAFETY[setting.fsync]

    def writes(self, batches: Sequence[Batch]) -> Task:
        encode = self._encoder()
        requests = [encode(batch) for batch in batches]

        def run() -> None:
            for sent, lines in requests:
                self._connection.ask(sent, lines)

        return self._server.placing(run, self._setting)

    def scores(self, members: Sequence[str]) -> list[int]:
        """Return the live scores. Raise AssertionError if the prepared score of a member is not its
        live score less its total in the leaving step."""
        return self._store.scores(members)

    def close(self) -> None:
        self._connection.close()

    def _encoder(self) -> Callable[[Batch], Request]:
        if self._way in _SCRIPTS:
            return self._script
        return self._transaction if self._way == "transaction" else self._pipeline

    def _pipeline(self, batch: Batch) -> Request:
        every, day, tally, live, prepared, _ = self._keys
        sorted_sets = [b"*4\r\n" + bulk((b"ZINCRBY", key)) for key in (every, day, live, prepared)]
        head = b"*4\r\n" + bulk((b"HINCRBY", tally))
        sent = []
        for member, value in batch:
            name, by = member.encode(), b"%d" % value
            pair = bulk((by, name))
            sent += [key + pair for key in sorted_sets]
            sent.append(head + bulk((name, by)))
        # The reply to ZINCRBY is a bulk string, which takes two lines. The reply to HINCRBY is an
        # integer, which takes one.
        return Request(b"".join(sent), 9 * len(batch))

    def _transaction(self, batch: Batch) -> Request:
        sent, lines = self._pipeline(batch)
        return Request(_MULTI + sent + _EXEC, lines + 5 * len(batch) + 2)

    def _script(self, batch: Batch) -> Request:
        words = [b"EVALSHA", self._script_id, b"%d" % _KEYS, *self._keys]
        words += chain.from_iterable((b"%d" % value, member.encode()) for member, value in batch)
        scores = len(batch) if self._way == "script" else len(dict(batch))
        return Request(command(*words), 1 + 2 * scores)
