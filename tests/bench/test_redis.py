"""The benchmark of boards on an index server runs, and the scores equal the sums of the events it
sent."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Coroutine, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec
import pytest
from bench.history import WEEK, evening
from bench.http.process import two_cores
from bench.redis.__main__ import RedisReport, main
from bench.redis.boards import (
    LAYOUTS,
    board_of,
    deployed,
    first_events,
    in_flight,
    owner_of,
    traffic_of,
)
from bench.redis.book import Book, Owner
from bench.redis.by_hand import NEXT, ROLLING, Keys, by_hand, load
from bench.redis.effort import RedisEffort
from bench.redis.reads import of_laurels, of_redis_py
from bench.redis.serving import Server, blocked_ms, cost_of, serving, without_file
from bench.tables import markdown
from bench.workload import Population, in_batches, member_name

NOW_MS = evening(1_700_000_000_000)
TINY = RedisEffort(
    members=300,
    rounds=1,
    events=200,
    read_rounds=1,
    read_seconds=0.0,  # every reader stops after one read
    small_members=200,
    step_rounds=1,
    step_events=100,
    pass_members=200,
    best_members=(100,),
    head_members=12_000,  # more members than the head keeps in order
    head_rounds=1,
    head_events=300,
    head_reads=20,
    head_scores=("zipf",),
    hidden=(0, 20),
    hidden_members=300,
    hidden_rounds=1,
    hidden_calls=2,
    hold_batches=1,
    in_flight=(2,),
    readers=4,
)
POPULATION = Population(TINY.members, NOW_MS)
MEMBERS = [member_name(i) for i in range(TINY.members)]
WINDOWS = ["all", "day", WEEK.window]
CORE = min(os.sched_getaffinity(0))


def ran(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(CORE) as running:
        yield running


@pytest.fixture(autouse=True)
def empty(server: Server) -> None:
    server.call("FLUSHALL")


def week() -> list[list[tuple[str, int, int]]]:
    return first_events(POPULATION, WEEK.begins_ms(NOW_MS), NOW_MS)


def scores_of(server: Server, key: str) -> list[int]:
    return [int(score or 0) for score in server.call("ZMSCORE", key, *MEMBERS)]


def test_the_handwritten_scheme_and_laurels_begin_with_the_same_scores(server: Server) -> None:
    async def compare() -> None:
        load(server, Keys(NOW_MS), week())
        async with deployed(server.url, NOW_MS) as deployment:
            for layout in LAYOUTS:
                board = board_of(layout, WINDOWS)
                await deployment.boards.create(board)
                await deployment.load(board, week())
                for window, key in zip(
                    ("all", "day", "rolling"),
                    ("hand:all", Keys(NOW_MS).day(NOW_MS), ROLLING),
                    strict=True,
                ):
                    scores = await deployment.scores(board.name, MEMBERS, window)
                    assert scores == scores_of(server, key), (layout, window)
                assert all(await deployment.scores(board.name, MEMBERS, "all"))

    ran(compare())


def test_every_client_and_handwritten_form_counts_the_same(server: Server) -> None:
    events = traffic_of(POPULATION, "zipf", 1_500)
    due: Counter[str] = Counter()
    for member, value in events:
        due[member] += value

    async def count() -> None:
        load(server, Keys(NOW_MS), week())
        async with by_hand(server, NOW_MS) as writers:
            assert len({writer.owner for writer in writers}) == 4
            for writer in writers:
                before = await writer.scores(MEMBERS)
                await in_flight(in_batches(events, 400), 2, writer.submit)
                after = await writer.scores(MEMBERS)
                gained = [has - had for has, had in zip(after, before, strict=True)]
                assert gained == [due[member] for member in MEMBERS]

    ran(count())
    expiring = scores_of(server, Keys(NOW_MS).of_event()[4])
    assert any(expiring)
    left = [score - gone for score, gone in zip(scores_of(server, ROLLING), expiring, strict=True)]
    assert scores_of(server, NEXT) == left


def test_readers_are_answered(server: Server) -> None:
    async def read() -> None:
        load(server, Keys(NOW_MS), week())
        async with deployed(server.url, NOW_MS) as deployment:
            board = board_of("plain", ["all"])
            await deployment.boards.create(board)
            await deployment.load(board, week())
            async with of_redis_py(server, "hand:all") as theirs:
                owner = Owner("laurels", "plain")
                readings = [*of_laurels(deployment, board.name, owner), *theirs]
                for reading in readings:
                    await asyncio.gather(*(reading.ask(member) for member in MEMBERS[:20]))
                assert len({(each.owner, each.what) for each in readings}) == 7

    ran(read())


def test_the_cost_includes_the_time_of_the_server(server: Server) -> None:
    async def wait() -> None:
        await asyncio.sleep(0.05)
        server.call("EVAL", "for i = 1, 3000000 do end return 1", "0")

    async def measure() -> None:
        cost = await cost_of([server], wait)
        assert cost.seconds > 0.05
        assert cost.server_seconds > 0.001

    ran(measure())
    with blocked_ms(server) as durations:
        server.call("EVAL", "for i = 1, 3000000 do end return 1", "0")
        server.call("SET", "a", "b")
        server.call("EVAL", "return 1", "0")
    assert durations == sorted(durations)
    assert len(durations) == 2
    assert durations[-1] > 1
    left_out = server.call("SCRIPT", "LOAD", "return 2")
    with blocked_ms(server, besides=left_out) as durations:
        server.call("EVALSHA", left_out, "0")
        server.call("EVAL", "return 1", "0")
    assert len(durations) == 1


def test_the_append_only_file_is_written_again_after_a_load_without_it(server: Server) -> None:
    with without_file([server]):
        assert server.info("persistence")["aof_enabled"] == "0"
        server.call("SET", "a", "b")
    assert server.info("persistence")["aof_enabled"] == "1"
    server.restart()
    assert server.call("GET", "a") == b"b"


def test_the_layout_of_a_board_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("layout")
    setattr(module, "layout_of", lambda _: SimpleNamespace(name="plain"))  # noqa: B010
    monkeypatch.setitem(sys.modules, "laurels.stores.redis.index.layout", module)
    assert owner_of("plain").settings == "plain"
    assert owner_of("packed", "4 shards").settings == "packed (kept plain), 4 shards"


def test_the_best_case_of_a_contender_is_reported_again() -> None:
    book, owner = Book(100), Owner("laurels", "plain")
    for case, figures in (("1", [1.0, 9.0, 2.0]), ("4", [3.0, 3.0, 3.0])):
        for figure in figures:
            book.keep("Events/s", owner, case, "events/s", figure)
    book.keep_best("Events/s", owner, "best", "events/s")
    *_, best = book.samples()
    assert best.question.case == "best"
    assert best.figures == [3.0, 3.0, 3.0]
    assert best.ours


def test_everything_is_measured_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if two_cores() is None:
        pytest.skip("the server and its clients need a core each")
    before = os.sched_getaffinity(0)
    monkeypatch.setattr("bench.redis.__main__.QUICK", TINY)
    file = tmp_path / "report.json"
    assert main(["--quick", "--json", str(file), "--markdown"]) == 0
    report = msgspec.json.decode(file.read_bytes(), type=RedisReport)
    tables = markdown(report)
    assert capsys.readouterr().out == tables
    for line in (
        "Events/s, zipf",
        "Events/s, uniform",
        "against the hand-written script",
        "against redis-py",
        "against one sorted set",
        "by shards",
        "700 by 7",
        "chunk, longest",
        "head by exact",
        "a new grid, longest",
        "Width of an estimated rank",
    ):
        assert line in tables
    # With so few members, their memory is smaller than the fluctuation of the server's memory.
    below = [s for s in report.samples if min(s.figures) < 0 and s.question.unit != "bytes"]
    assert not below
    assert os.sched_getaffinity(0) == before


def test_earlier_results_are_kept_when_a_later_section_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if two_cores() is None:
        pytest.skip("the server and its clients need a core each")

    async def fail(*_: object) -> None:
        raise RuntimeError("the last section fails")

    monkeypatch.setattr("bench.redis.__main__.QUICK", TINY)
    monkeypatch.setattr("bench.redis.suite.measure_passes", fail)
    file = tmp_path / "report.json"
    with pytest.raises(RuntimeError, match="last section"):
        main(["--quick", "--only", "steps,passes", "--json", str(file)])
    report = msgspec.json.decode(file.read_bytes(), type=RedisReport)
    assert {sample.question.case for sample in report.samples} == {"uniform", "zipf"}


def test_the_first_events_are_in_order_of_time() -> None:
    batches = first_events(POPULATION, WEEK.begins_ms(NOW_MS), NOW_MS)
    events = [entry for batch in batches for entry in batch]
    instants = [at_ms for _, _, at_ms in events]
    assert instants == sorted(instants)
    assert WEEK.begins_ms(NOW_MS) <= instants[0] < instants[-1] < NOW_MS
    assert sorted(member for member, _, _ in events) == sorted(MEMBERS)


def test_a_missing_program_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.redis.suite.find_server", lambda: None)
    assert main(["--quick"]) == 2
    assert "redis-server" in capsys.readouterr().out
