"""Another program has changed data on the server: a check finds the damage, and a rebuild repairs
it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import laurels
from laurels.errors import CheckFailed
from laurels.model.rules import RankStyle
from tests.counts import covering, some

from .conftest import NOW
from .servers import Server

pytestmark = pytest.mark.usefixtures("emptied")
MEMBERS = 40
HOUR_MS = 3_600_000
LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {"tie": "member", "columns": [laurels.Column(min=0, max=2**40)]},
    "packed": {"columns": [laurels.Column(min=0, max=2**20)], "tie_resolution": "1m"},
    "prefixed": {},
    "prefixed, two columns": {
        "columns": [laurels.Column("a", op="best"), laurels.Column("b", op="best")]
    },
}
layouts = pytest.mark.parametrize("layout", LAYOUTS)
shards = pytest.mark.parametrize("shards", [1, 3])


def filled(lb: laurels.Leaderboards, layout: str, shards: int, rank: RankStyle = "ordinal") -> None:
    fields = LAYOUTS[layout]
    windows = ["all", "day", "r=rolling:3h/1h"]
    lb.create(laurels.Board("b", windows=windows, shards=shards, rank=rank, **fields))
    two = len(fields.get("columns", ())) == 2
    lb.submit_many("b", [(f"m{i}", (i // 2, i) if two else 1 + i // 2) for i in range(MEMBERS)])


def standings(lb: laurels.Leaderboards) -> list[Any]:
    return [lb.top("b", window=window, limit=100).entries for window in ("all", "day", "r")]


def keys(server: Server, pattern: str) -> list[bytes]:
    return sorted(server.call("KEYS", f"laurels:{{1.?}}:{pattern}"))


def corrupt(server: Server, random: Random, kind: str, prefixed: bool) -> None:
    """Make one wrong change to a ranking of the windows `all` and `day`."""
    name = random.choice(["all:*", "day:*"])
    if kind in {"hash", "no form"}:
        key = random.choice(keys(server, f"k:{name}"))
        (member, form), *_ = random.sample(list(pairs(server.call("HGETALL", key))), 1)
        if kind == "no form":
            server.call("HDEL", key, member)
            return
        changed = bytearray(form)
        changed[random.choice([6, 7])] ^= random.randrange(1, 256)
        server.call("HSET", key, member, bytes(random.choice([changed, form[:-1], form + b"\0"])))
        return
    key = random.choice(keys(server, f"r:{name}"))
    entry = random.choice(server.call("ZRANGE", key, 0, -1))
    if kind == "entry lost":
        server.call("ZREM", key, entry)
    elif kind == "out of order":
        server.call("ZADD", key, 3, entry)
    elif kind == "stray":
        changed = bytearray(entry)
        changed[random.choice([6, 7])] ^= random.randrange(1, 256)
        server.call("ZADD", key, 0, bytes(changed))
    else:
        assert not prefixed
        server.call("ZADD", key, random.choice(["-0.5", "1e300", "-1e15"]), entry)


def pairs(flat: list[bytes]) -> list[tuple[bytes, bytes]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


@pytest.mark.parametrize(
    ("shards", "kind", "seed"),
    covering([1, 3], ["hash", "no form", "entry lost", "out of order", "stray"], range(4)),
)
@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name.startswith("prefixed")])
def test_a_change_of_either_copy_is_found_and_repaired_from_the_other(
    server: Server, clock: laurels.ManualClock, layout: str, shards: int, kind: str, seed: int
) -> None:
    with laurels.open(server.url, clock=clock) as lb:
        filled(lb, layout, shards)
        before = standings(lb)
        assert not [what for what in lb.check().unverified if "scores" in what]
        corrupt(server, Random(seed), kind, True)
        with pytest.raises(CheckFailed):
            lb.check()
        lb.rebuild()
        lb.check()
        assert standings(lb) == before


@pytest.mark.parametrize("seed", some(1, range(4)))
@shards
@pytest.mark.parametrize("layout", ["plain", "packed"])
def test_an_impossible_score_is_found_and_never_accepted(
    server: Server, clock: laurels.ManualClock, layout: str, shards: int, seed: int
) -> None:
    with laurels.open(server.url, clock=clock) as lb:
        filled(lb, layout, shards)
        corrupt(server, Random(seed), "score", False)
        with pytest.raises(CheckFailed):
            lb.check()
        with pytest.raises(CheckFailed):
            lb.rebuild()


@pytest.mark.parametrize("layout", ["plain", "packed"])
def test_check_names_scores_that_are_stored_only_once(
    server: Server, clock: laurels.ManualClock, layout: str
) -> None:
    with laurels.open(server.url, clock=clock) as lb:
        filled(lb, layout, 1)
        unverified = lb.check().unverified
        assert unverified[0].startswith(
            "b: scores in the window `all` and in calendar windows are stored"
        )
        assert f"({layout} layout)" in unverified[0]
        assert "rolling" in unverified[1]


@layouts
@shards
@pytest.mark.parametrize("seed", some(1, range(3)))
def test_rankings_of_rolling_windows_and_distinct_scores_are_repaired(
    server: Server, clock: laurels.ManualClock, layout: str, shards: int, seed: int
) -> None:
    random = Random(seed)
    with laurels.open(server.url, clock=clock) as lb:
        filled(lb, layout, shards, "dense" if shards == 1 else "ordinal")
        before = standings(lb)
        live = (NOW // HOUR_MS) % 2
        patterns = [f"r:r:{live}", "d:*", "n:*"]
        key = random.choice([key for pattern in patterns for key in keys(server, pattern)])
        if b":n:" in key:
            field = random.choice(server.call("HKEYS", key))
            server.call("HSET", key, field, 17)
        else:
            server.call("ZREM", key, random.choice(server.call("ZRANGE", key, 0, -1)))
        with pytest.raises(CheckFailed):
            lb.check()
        lb.rebuild()
        lb.check()
        assert standings(lb) == before
