"""Index servers keep the entries of hidden members apart. Whatever happens to a ranking after a
member is hidden or shown, answers are those of a store in memory, and `check` finds nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

import laurels
from laurels import errors
from laurels.stores.redis.index import hidden_entries
from laurels.stores.redis.index.calls import ShardCalls
from laurels.stores.redis.registry import ENTRIES_FORMAT, RESTORING_FORMAT
from tests.conftest import Scaled
from tests.contract.deployments import small_heads
from tests.internals import remote

from .servers import Server

HOUR_MS = 3_600_000
MEMBERS = [f"m{i}" for i in range(24)]
WINDOWS = ["all", "day", "rolling:3d/1d", "often=rolling:6h/1h,refresh=1h"]
REFRESHED = "often"
PLAIN = laurels.Column(min=0, max=2**20)
BOARDS: dict[str, dict[str, Any]] = {
    "plain": {"columns": [PLAIN], "tie": "member"},
    "packed": {"columns": [PLAIN], "tie_resolution": "1m"},
    "prefixed": {"columns": [laurels.Column("a"), laurels.Column("b")]},
    "dense": {"rank": "dense"},
    "packed dense": {"columns": [PLAIN], "tie": "member", "rank": "dense"},
    "best": {"columns": [laurels.Column(op="best", min=0, max=1000)], "rank": "competition"},
    "without zeros": {"hide_zero": True, "rank": "competition"},
    "in scopes": {"scopes": [[], ["room"]], "tie": "member", "columns": [PLAIN]},
    "in shards": {"scopes": [[], ["room"]], "shards": 3},
    "decay": {"windows": ["all", "decay:1d"]},
    "head": {"head": 100, "windows": ["all", "day"]},
    "packed head": {"head": 100, "windows": ["all"], "columns": [PLAIN], "tie": "member"},
    "head without zeros": {"head": 100, "windows": ["all"], "hide_zero": True},
}


class Pair:
    """The same boards on an index server, in two processes, and in memory."""

    def __init__(self, servers: list[laurels.Leaderboards], memory: laurels.Leaderboards) -> None:
        self.servers = servers
        self.stores = [*servers, memory]

    def write(self, verb: str, *arguments: Any, by: int, **more: Any) -> None:
        """Carry out a write in one of the processes, and in memory."""
        outcomes = []
        for store in (self.stores[by], self.stores[-1]):
            try:
                result = getattr(store, verb)(*arguments, **more)
                outcomes.append(result if verb in ("show", "remove") else None)
            except errors.LaurelsError as error:
                outcomes.append(error.code)
        assert outcomes[0] == outcomes[1], (verb, arguments)

    def compare_with_sent(self, random: Random, windows: list[str], scope: dict[str, str]) -> None:
        """Assert that answers are the same if calls send the hidden members instead."""
        one = random.choice(self.servers)

        def answers() -> list[Any]:
            found: list[Any] = []
            for window in windows:
                asked: dict[str, Any] = {"window": window, "labels": scope}
                page = one.top("b", offset=first, limit=6, **asked)
                found.append(
                    [page, page.total, [one.standing("b", member, **asked) for member in some]]
                )
            return found

        first, some = random.randrange(12), random.sample(MEMBERS, 4)
        kept = answers()
        with patch.object(hidden_entries, "is_current", lambda *_: False):
            assert kept == answers()

    def compare(
        self, random: Random, windows: list[str], scope: dict[str, str], head: bool
    ) -> None:
        """Assert that a process gives the same answers as the store in memory."""
        one, memory = random.choice(self.servers), self.stores[-1]
        for window in random.sample(windows, random.randint(1, len(windows))):
            listed = [
                [(entry.member, entry.rank, entry.score) for entry in page]
                for page in (
                    each.top("b", window=window, limit=100, labels=scope) for each in (one, memory)
                )
            ]
            assert listed[0] == listed[1], (window, scope)
            first = random.randrange(12)
            pages = [
                list(each.top("b", offset=first, limit=5, window=window, labels=scope))
                for each in (one, memory)
            ]
            assert [(e.member, e.rank) for e in pages[0]] == [(e.member, e.rank) for e in pages[1]]
            for member in random.sample(MEMBERS, 3):
                own, true = (
                    each.standing("b", member, window=window, labels=scope)
                    for each in (one, memory)
                )
                assert (own is None) == (true is None), (member, window)
                if own is not None and true is not None:
                    assert own.total == true.total
                    assert head or own.rank == true.rank
                    if head:
                        assert own.rank_low <= true.rank <= own.rank_high


@pytest.fixture
def pair(server: Server, clock: laurels.ManualClock) -> Iterator[Pair]:
    server.call("FLUSHALL")
    heads = small_heads()
    with ExitStack() as stack:
        stack.callback(heads.stop)
        servers = [stack.enter_context(laurels.open(server.url, clock=clock)) for _ in range(2)]
        yield Pair(servers, stack.enter_context(laurels.open("memory:", clock=clock)))


def _value(random: Random, board: laurels.Board) -> Any:
    values = [random.choice((0, 0, 1, 2, 5, random.randrange(30))) for _ in board.columns]
    return values[0] if len(values) == 1 else tuple(values)


def _act(random: Random, pair: Pair, board: laurels.Board, clock: laurels.ManualClock) -> None:
    by, member = random.randrange(2), random.choice(MEMBERS)
    labels = {"room": random.choice("xy")} if len(board.scopes) > 1 else {}
    now = clock.now_ms()
    kind = random.choice(
        ("event",) * 5 + ("batch", "hide", "hide", "show", "everywhere", "set", "remove", "time")
    )
    if kind == "event":
        pair.write("submit", "b", member, _value(random, board), labels=labels, by=by)
    elif kind == "batch":
        some = random.sample(MEMBERS, random.randint(1, 20))
        events = [laurels.Event(each, _value(random, board), labels=labels) for each in some]
        pair.write("submit_many", "b", events, by=by)
    elif kind == "hide":
        until = random.choice((None, None, now + random.randrange(1, 30) * HOUR_MS))
        pair.write("hide", "b", member, "bot", until=until, by=by)
    elif kind == "show":
        pair.write("show", "b", member, by=by)
    elif kind == "everywhere":
        if random.random() < 0.5:
            pair.write("hide", None, member, "bot", by=by)
        else:
            pair.write("show", None, member, by=by)
    elif kind == "set":
        pair.write("set", "b", member, _value(random, board), by=by)
    elif kind == "remove":
        pair.write("remove", "b", member, by=by)
    else:
        clock.advance(
            random.choice((HOUR_MS // 2, HOUR_MS, 5 * HOUR_MS, 24 * HOUR_MS, 60 * HOUR_MS))
        )


@pytest.mark.parametrize("small", [0, 8])
@pytest.mark.parametrize("kind", BOARDS)
def test_random_histories(
    pair: Pair, clock: laurels.ManualClock, kind: str, small: int, scaled: Scaled
) -> None:
    random = Random(f"{kind} {small}")
    fields = {"windows": WINDOWS[:3] if kind == "best" else WINDOWS, **BOARDS[kind]}
    board = laurels.Board("b", **fields)
    pair.servers[0].create(board)
    pair.stores[-1].create(board)
    windows = [name for name in board.rules().windows if name != REFRESHED]
    with patch.object(ShardCalls, "small_ranking", small):
        for _ in range(scaled(12, 60)):
            for _ in range(random.randint(1, 4)):
                _act(random, pair, board, clock)
            scope = (
                {"room": random.choice("xy")}
                if len(board.scopes) > 1 and random.random() < 0.6
                else {}
            )
            pair.compare(random, windows, scope, bool(board.head))
            pair.compare_with_sent(random, list(board.rules().windows), scope)
        pair.servers[0].check()


def _listed(lb: laurels.Leaderboards, window: str = "all", **labels: str) -> list[str]:
    return [entry.member for entry in lb.top("b", window=window, labels=labels, limit=1_000)]


def _keys(server: Server, name: str) -> list[bytes]:
    return sorted(server.call("KEYS", f"*:{name}"))


@pytest.fixture
def kept(pair: Pair) -> Iterator[Pair]:
    """Let the server keep entries for rankings of any size."""
    with patch.object(ShardCalls, "small_ranking", 0):
        yield pair


@pytest.mark.parametrize("shards", [1, 3])
def test_data_of_the_format_before_is_read(
    kept: Pair, server: Server, clock: laurels.ManualClock, shards: int
) -> None:
    one, other = kept.servers
    one.create(laurels.Board("b", shards=shards))
    one.submit_many("b", [(member, i) for i, member in enumerate(MEMBERS)])
    for member in MEMBERS[:9]:
        one.hide("b", member, "bot")
    one.hide(None, MEMBERS[9], "bot")
    server.call("HSET", "laurels:{boards}:f", "format", str(RESTORING_FORMAT))
    assert _keys(server, "hm") == []
    with laurels.open(server.url, clock=clock) as later:
        assert _listed(later) == MEMBERS[:9:-1]
        assert len(_keys(server, "hm")) == shards
        assert server.call("HGET", "laurels:{boards}:f", "format") == b"%d" % ENTRIES_FORMAT
        later.check()
    one.submit("b", MEMBERS[3], 200)
    one.submit("b", MEMBERS[12], 100)
    assert _listed(other)[0] == MEMBERS[12]
    one.show("b", MEMBERS[3])
    assert _listed(other)[0] == MEMBERS[3]
    other.check()


@pytest.mark.parametrize("layout", ["plain", "prefixed", "head"])
def test_check_finds_wrong_entries_and_repairs_them(
    kept: Pair, server: Server, layout: str
) -> None:
    one = kept.servers[0]
    one.create(laurels.Board("b", **BOARDS[layout] | {"windows": ["all"]}))
    value: Any = (1, 1) if layout == "prefixed" else 1
    one.submit_many("b", [(member, value) for member in MEMBERS])
    for member in MEMBERS[:6]:
        one.hide("b", member, "bot")
    expected = _listed(one)
    key = _keys(server, "ho:all:*")[0]
    entries = server.call("ZRANGE", key, 0, -1, "WITHSCORES")
    for damage in (["ZREM", key, entries[0]], ["ZADD", key, entries[1], entries[0] + b"x"]):
        server.call(*damage)
        with pytest.raises(errors.CheckFailed):
            one.check()
        one.rebuild()
        assert _listed(one) == expected
        one.check()


def test_a_scope_without_hidden_members_keeps_nothing(kept: Pair, server: Server) -> None:
    one = kept.servers[0]
    one.create(laurels.Board("b", scopes=[[], ["room"]]))
    for room in "xyz":
        one.submit("b", f"of {room}", 1, labels={"room": room})
    for i in range(30):
        one.hide("b", f"bot {i}", "bot")
    one.submit("b", "bot 3", 5, labels={"room": "y"})
    assert [_listed(one, room=room) for room in "xyz"] == [["of x"], ["of y"], ["of z"]]
    assert [b"room=y" in key for key in _keys(server, "ho:*room=*")] == [True]


def test_many_changes_at_once(kept: Pair) -> None:
    one, other = kept.servers
    one.create(laurels.Board("b"))
    one.submit_many("b", [(member, i) for i, member in enumerate(MEMBERS)])
    with patch.object(hidden_entries, "_PART", 5):
        for member in MEMBERS[::2]:
            one.hide("b", member, "bot")
        assert _listed(other) == MEMBERS[::-2]
        for member in MEMBERS[::2]:
            other.show("b", member)
            one.hide("b", member, "again")
        one.show("b", MEMBERS[0])
        assert _listed(other) == [*MEMBERS[::-2], MEMBERS[0]]
    one.check()


def test_no_key_is_left_of_a_deleted_board(kept: Pair, server: Server) -> None:
    one = kept.servers[0]
    one.create(laurels.Board("b", windows=["all", "day"], scopes=[[], ["room"]], shards=2))
    for member in MEMBERS:
        one.submit("b", member, 1, labels={"room": "x"})
        one.hide("b", member, "bot")
    one.submit("b", "ann", 1, labels={"room": "x"})
    assert _listed(one) == _listed(one, "day") == _listed(one, room="x") == ["ann"]
    assert _keys(server, "ho:*")
    one.delete("b")
    remote(one).work(100)
    assert _keys(server, "h[mcrl]*") == _keys(server, "ho:*") == []


@pytest.mark.parametrize("shards", [1, 2])
def test_an_erased_member_is_in_no_list(kept: Pair, server: Server, shards: int) -> None:
    one, other = kept.servers
    one.create(laurels.Board("b", shards=shards))
    one.submit_many("b", [(member, 1) for member in MEMBERS])
    for member in MEMBERS[:8]:
        one.hide("b", member, "bot")
    assert len(_listed(one)) == len(_listed(other)) == 16
    other.erase(MEMBERS[3], "asked for it")
    assert len(_listed(one)) == 16
    one.check()
    lists = [
        *(server.call("SMEMBERS", key) for key in _keys(server, "hm")),
        *(server.call("ZRANGE", key, 0, -1) for key in _keys(server, "hc")),
        *(server.call("ZRANGE", key, 0, -1) for key in _keys(server, "ho:*")),
    ]
    named = {bytes(each) for some in lists for each in some}
    assert any(each.endswith(MEMBERS[4].encode()) for each in named)
    assert not any(each.endswith(MEMBERS[3].encode()) for each in named)


def test_a_server_without_memory_left_answers(kept: Pair, server: Server) -> None:
    one = kept.servers[0]
    one.create(laurels.Board("b"))
    one.submit_many("b", [(member, i) for i, member in enumerate(MEMBERS)])
    one.hide("b", MEMBERS[5], "bot")
    server.call("CONFIG", "SET", "maxmemory", "1")
    try:
        full = _listed(one)
    finally:
        server.call("CONFIG", "SET", "maxmemory", "0")
    assert full == _listed(one) == [*MEMBERS[:5:-1], *MEMBERS[4::-1]]
    one.check()
