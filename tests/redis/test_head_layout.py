"""The layout of a ranking with a head. Its passes refill the head and make new grids. After any
change and at any stage of a pass, the rank of every member is within the returned bounds, and the
positions that are certain are right."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

import laurels
from laurels.model.board_fields import Tie
from tests.conftest import Scaled
from tests.counts import covering

from .heads import HEAD, LAYOUTS, SIZES, WAYS, Crowd, HeadRanking, Layout
from .servers import Server

RANKS = ("ordinal", "competition")
ZERO_WAYS = (
    "half are zero",
    "nearly all are zero",
    "zero is first",
    "two scores of which one is zero",
)


@pytest.mark.parametrize(
    ("layout", "way", "rank", "columns"), covering(LAYOUTS, WAYS, RANKS, (1, 1, 3))
)
def test_every_rank_is_within_its_bounds(
    server: Server, layout: Layout, way: str, rank: str, columns: int, scaled: Scaled
) -> None:
    rng = Random(f"{layout.name} {way} {rank} {columns}")
    ranking = HeadRanking(server, layout, rank, 1 if layout.scored else columns)
    for _ in range(scaled(1, 2)):
        crowd = Crowd(ranking, way, rng, rng.choice([60, 300, 1_500, 4_000]))
        pace = rng.choice([0.2, 0.5, 0.9])
        for step in range(scaled(80, 1_200)):
            entries = crowd.entries()
            ranking.write(entries)
            while rng.random() < pace:
                ranking.advance(rng.choice([1, 5, 20, 100]))
            some = [member.decode() for _, member in rng.choices(ranking.order or [((), b"")], k=6)]
            ranking.check_bounds([*list(entries)[:5], *some, "nobody"])
            if step % 50 == 0:
                ranking.check_list()
                ranking.check_structure()
                if rng.random() < 0.3:
                    check_at_rest(ranking)
        check_at_rest(ranking)


def check_at_rest(ranking: HeadRanking) -> None:
    """Do all due passes. Then check that the whole head is certain. If a new grid was made, also
    check that its segments are narrow."""
    for _ in range(5_000):
        if not ranking.advance(50):
            break
    else:
        raise AssertionError("the passes do not end")
    ranking.check_list()
    ranking.check_structure()
    view = ranking.check_bounds([member.decode() for _, member in ranking.order])
    assert view.certain >= min(len(ranking.order), HEAD)
    if view.grid_age != 0 or view.certain == view.total:
        return
    places = 0
    for count, is_run in ranking.grid():
        first = max(places, view.certain)
        places += count
        most = max(SIZES.width * first, SIZES.width * HEAD, SIZES.least)
        assert is_run or places - first <= most


@pytest.mark.parametrize(
    ("layout", "way", "rank", "columns"), covering(LAYOUTS, ZERO_WAYS, RANKS, (1, 1, 2))
)
def test_every_rank_is_within_its_bounds_while_zeros_are_hidden_and_shown_again(
    server: Server, layout: Layout, way: str, rank: str, columns: int, scaled: Scaled
) -> None:
    rng = Random(f"zeros {layout.name} {way} {rank} {columns}")
    ranking = HeadRanking(server, layout, rank, 1 if layout.scored else columns)
    ranking.hide_zero(hidden=rng.random() < 0.7)
    for _ in range(scaled(1, 2)):
        crowd = Crowd(ranking, way, rng, rng.choice([60, 300, 1_500]))
        pace = rng.choice([0.2, 0.5, 0.9])
        for step in range(scaled(80, 1_200)):
            entries = crowd.entries()
            ranking.write(entries)
            if rng.random() < 0.05:
                ranking.hide_zero(hidden=not ranking.hides_zero)
            while rng.random() < pace:
                ranking.advance(rng.choice([1, 5, 20, 100]))
            some = [member.decode() for _, member in rng.choices(ranking.order or [((), b"")], k=6)]
            ranking.check_bounds([*list(entries)[:5], *some, "nobody"])
            if step % 50 == 0:
                ranking.check_list()
                ranking.check_structure()
                if rng.random() < 0.3:
                    check_at_rest(ranking)
        check_at_rest(ranking)


@pytest.mark.parametrize(
    ("layout", "way", "rank", "columns"), covering(LAYOUTS, WAYS, RANKS, (1, 1, 2))
)
def test_every_rank_is_within_its_bounds_while_members_are_hidden_and_shown_again(
    server: Server, layout: Layout, way: str, rank: str, columns: int, scaled: Scaled
) -> None:
    rng = Random(f"hidden {layout.name} {way} {rank} {columns}")
    ranking = HeadRanking(server, layout, rank, 1 if layout.scored else columns)
    ranking.hide_zero(hidden=rng.random() < 0.3)
    for _ in range(scaled(1, 2)):
        crowd = Crowd(ranking, way, rng, rng.choice([60, 300, 1_500]))
        pace = rng.choice([0.2, 0.5, 0.9])
        for step in range(scaled(80, 1_200)):
            entries = crowd.entries()
            ranking.write(entries)
            if rng.random() < 0.2:
                best = [member.decode() for _, member in ranking.order[: 2 * HEAD]]
                for member in rng.sample(best, min(len(best), rng.randrange(8))):
                    ranking.hide(member, hidden=True)
                ranking.hide(rng.choice(crowd.names), hidden=True)
            for member in sorted(ranking.hidden):
                if rng.random() < 0.05:
                    ranking.hide(member, hidden=False)
            while rng.random() < pace:
                ranking.advance(rng.choice([1, 5, 20, 100]))
            some = [member.decode() for _, member in rng.choices(ranking.order or [((), b"")], k=6)]
            hidden = rng.sample(sorted(ranking.hidden), min(2, len(ranking.hidden)))
            ranking.check_bounds([*list(entries)[:5], *some, *hidden, "nobody"])
            if step % 50 == 0:
                ranking.check_list()
                ranking.check_structure()
                if rng.random() < 0.3:
                    check_at_rest(ranking)
        check_at_rest(ranking)


@pytest.mark.parametrize("layout", LAYOUTS, ids=[layout.name for layout in LAYOUTS])
def test_segments_are_counted_right_when_one_batch_changes_most_of_them(
    server: Server, layout: Layout, scaled: Scaled
) -> None:
    rng = Random(layout.name)
    ranking = HeadRanking(server, layout, "ordinal", 1)
    crowd = Crowd(ranking, "lognormal", rng, 3_000)
    while len(ranking.order) < 2_900:
        ranking.write(crowd.many(500))
    check_at_rest(ranking)
    for _ in range(scaled(4, 12)):
        before = ranking.grid()
        ranking.write(crowd.many(2_000))
        changed = sum(old != new for old, new in zip(before, ranking.grid(), strict=True))
        assert changed > 64
        ranking.check_structure()
        ranking.check_bounds([member.decode() for _, member in rng.choices(ranking.order, k=20)])
        ranking.advance(rng.choice([100, 500]))
    check_at_rest(ranking)


@pytest.mark.parametrize("layout", LAYOUTS, ids=[layout.name for layout in LAYOUTS])
def test_a_call_of_a_pass_ends_when_its_processor_time_is_used_up(
    server: Server, layout: Layout
) -> None:
    """Even without any time, each call visits a few buckets."""
    calls = {}
    for call_ms in (0.0, 1e9):
        sizes = replace(SIZES, call_ms=call_ms)
        ranking = HeadRanking(server, layout, "ordinal", 1, sizes)
        crowd = Crowd(ranking, "lognormal", Random(7), 900)
        while len(ranking.order) < 850:
            ranking.write(crowd.many(500))
        calls[call_ms] = 1
        while ranking.advance(100_000):
            calls[call_ms] += 1
            ranking.check_structure()
        check_at_rest(ranking)
    assert calls[1e9] < 3
    assert calls[0.0] > 850 / SIZES.capacity / 4


def test_passes_continue_after_a_restart_of_the_server() -> None:
    rng = Random(7)
    with Server() as own:
        ranking = HeadRanking(own, LAYOUTS[2], "ordinal", 1)
        crowd = Crowd(ranking, "lognormal", rng, 900)
        for _ in range(3):
            for _ in range(40):
                ranking.write(crowd.entries())
                ranking.advance(15)
            own.stop()
            own.start()
            ranking.check_bounds([member.decode() for _, member in ranking.order])
            ranking.check_structure()
        check_at_rest(ranking)


@pytest.mark.parametrize("tie", ["member", "first"])
@pytest.mark.parametrize("kind", ["string", "zset"])
@pytest.mark.usefixtures("emptied")
def test_adding_a_head_leaves_other_keys_of_the_server_alone(
    server: Server, clock: laurels.ManualClock, tie: Tie, kind: str
) -> None:
    """Another program has a key with the name of a ranking, but without the prefix of the board.
    Adding a head does not change this key."""
    with laurels.open(server.url, clock=clock) as lb:
        lb.create(laurels.Board("b", tie=tie))
        lb.submit_many("b", [(f"m{i}", i) for i in range(300)])
        (ranking,) = [key.decode() for key in server.call("KEYS", "*:r:all:*")]
        prefix, _, name = ranking.partition(":r:")
        if kind == "string":
            server.call("SET", name, "of another program")
        else:
            server.call("ZADD", name, 1, "of another program")
        before = server.call("DUMP", name)
        lb.change("b", head=100)
        assert server.call("HGET", f"{prefix}:g:{name}", "n") == b"300"
        assert server.call("HGET", f"{prefix}:g:{name}", "moving") is None
        assert server.call("DUMP", name) == before
        assert lb.count("b") == 300
