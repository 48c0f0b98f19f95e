"""The boards of the benchmark of rolling windows have the content that the benchmark describes."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, get_args

import pytest
from bench.history import WEEK, History, evening
from bench.peers import BOARD
from bench.peers.redis_server import RedisServer, Setting
from bench.peers.rolling_api import RollingApi
from bench.peers.rolling_engine import EngineRolling
from bench.peers.rolling_redis import RollingRedis, Way
from bench.peers.rolling_store import ALL, DAY, LIVE, PREPARED, RollingStore
from bench.rolling.boundary import fill
from bench.rolling.hiccups import Hiccups
from bench.rolling.steps import FEW, MANY, late_in_both
from bench.rolling.waits import Waits
from bench.workload import Population, in_batches, member_name

NOW_MS = evening(1_700_000_000_000)


@pytest.fixture
def redis_server(needs_redis: None, tmp_path: Path) -> Iterator[RedisServer]:  # noqa: ARG001
    with RedisServer(tmp_path) as server:
        yield server


def week(count: int) -> tuple[Population, History, list[str]]:
    """Return a population of `count` members, their events in a window of a week, and their
    names."""
    population = Population(count, NOW_MS)
    history = History(population, WEEK.begins_ms(NOW_MS), NOW_MS)
    return population, history, [member_name(i) for i in range(count)]


def test_redis_and_laurels_begin_with_the_same_members_and_scores(
    redis_server: RedisServer,
) -> None:
    _, history, members = week(1_000)
    store = RollingStore(redis_server, WEEK.many)
    with closing(RollingApi(None, NOW_MS)) as api, closing(store):
        api.load(history.batches())
        store.load(history, WEEK, NOW_MS)
        for window, key in (("all", ALL), ("day", DAY), ("rolling", LIVE)):
            entries = api.boards.top(BOARD, window=window, limit=1_000).entries
            theirs = redis_server.client.zmscore(key, [entry.member for entry in entries])
            assert [entry.score for entry in entries] == theirs
            assert len(entries) == store.size(key) == 1_000
        rolling = api.board_store.whole.rolling["rolling"]
        assert rolling.advance(10_000)
        assert len(rolling.prepared) == store.size(PREPARED)
        tallies = [len(tally) for n in rolling.numbers() if (tally := rolling.tally(n)) is not None]
        assert (len(tallies), sum(tallies)) == (WEEK.many, store.tallies()[1])
        assert api.scores(members) == store.scores(members)


def test_every_way_of_doing_it_in_redis_leaves_the_same_scores(redis_server: RedisServer) -> None:
    population, history, members = week(100)
    store = RollingStore(redis_server, WEEK.many)
    store.load(history, WEEK, NOW_MS)
    events = population.traffic("zipf", 1_500)
    added: Counter[str] = Counter()
    for member, value in events:
        added[member] += value
    keys = (ALL, DAY, LIVE, PREPARED)

    def scores() -> list[int]:
        client = redis_server.client
        sets: list[list[Any]] = [client.zmscore(key, members) for key in keys]
        sets.append(client.hmget(store.tally_key(0), members))
        return [int(score or 0) for values in sets for score in values]

    for way in get_args(Way):
        before = scores()
        with closing(RollingRedis(redis_server, store, way, Setting())) as redis:
            redis.writes(in_batches(events, 1_200))()
            redis.scores(members)
        gained = [after - score for after, score in zip(scores(), before, strict=True)]
        assert gained == [added[member] for member in members] * 5, way


def test_a_wrong_prepared_ranking_in_redis_is_detected(
    redis_server: RedisServer,
) -> None:
    _, history, members = week(100)
    store = RollingStore(redis_server, WEEK.many)
    store.load(history, WEEK, NOW_MS)
    redis_server.client.zincrby(PREPARED, 1, members[7])
    with pytest.raises(AssertionError, match="prepared"):
        store.scores(members)


def test_a_restarted_redis_has_its_saved_data(redis_server: RedisServer) -> None:
    _, history, members = week(100)
    store = RollingStore(redis_server, WEEK.many)
    store.load(history, WEEK, NOW_MS)
    before = store.scores(members)
    redis_server.save_aside()
    redis_server.client.flushall()
    assert redis_server.start_again() >= 0
    assert store.scores(members) == before
    assert any(before)
    assert redis_server.snapshot_bytes() > 100 * len(members[0])


def test_windows_with_few_and_many_steps_count_the_same_events() -> None:
    population = Population(500, NOW_MS)
    now_ms = late_in_both(NOW_MS)
    assert FEW.begins_ms(now_ms) == MANY.begins_ms(now_ms)
    history = History(population, FEW.begins_ms(now_ms), now_ms)
    batches = in_batches(population.traffic("zipf", 1_000), 100)
    due = sum(value for events in history.batches() for _, value, _ in events)
    due += sum(value for batch in batches for _, value in batch)
    for steps in (FEW, MANY):
        engine = EngineRolling(steps, now_ms)
        engine.load(history.batches())
        engine.writes(batches)()
        engine.check()
        assert engine.total() == due


def test_every_pass_over_the_hardest_window_visits_all_members() -> None:
    with closing(RollingApi(None, NOW_MS, windows=["rolling"])) as api:
        fill(api, Population(400, NOW_MS))
        window = api.board_store.whole.rolling["rolling"]
        window.check()
        for visited in (100, 500, 500, 100):
            assert window.pass_remaining == visited
            assert window.advance(1_000)
            window.check()
            window.rotate_step()
        assert len(window.live) == 400 + 1


def test_a_failing_call_is_raised_while_others_are_watched() -> None:
    def fail() -> None:
        raise RuntimeError("gone")

    with pytest.raises(RuntimeError, match="gone"), Waits(lambda: None, fail).watching():
        pass


def test_the_time_waited_elsewhere_is_subtracted_from_a_write() -> None:
    waits = Waits(lambda: None, lambda: None, apart=count().__next__)
    with waits.watching():
        pass
    assert 0 < waits.write < 1
    assert waits.write_itself == 0, "the whole write was spent waiting elsewhere"


def test_machine_hiccups_are_reported_when_the_watch_ends(tmp_path: Path) -> None:
    hiccups = Hiccups(tmp_path)
    with hiccups.watching():
        pass
    assert 0 < hiccups.sleeping < 60
    assert 0 < hiccups.flushing < 60
    assert not list(tmp_path.iterdir())
