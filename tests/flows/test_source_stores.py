"""A source waits for a store that is down. Whichever error the store returns, the source counts
nothing twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import laurels
from laurels import config
from laurels.errors import AllEventsRefused, LaurelsError
from laurels.errors.index_server import IndexUnavailable
from laurels.errors.sources import SourceOvertaken
from laurels.stores.redis import retry
from laurels.stores.redis.sharding.sharded import ShardedIndex
from tests.redis.servers import Server, free_port
from tests.redis.test_sharded_counting import Failing
from tests.serving import Served

from .sourcing import FOUR_FIELDS, Boards, SourceProcess, count, four_fields, scores, written

MEMBERS = 12
BOARDS = (
    laurels.Board("gifts", shards=3),
    laurels.Board("gold", windows=["all", "day"]),
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("--appendfsync", "always") as running:
        yield running


@pytest.fixture
def index_server(server: Server) -> Server:
    """Run a server with the board gifts, in three shards, and the board gold."""
    server.call("FLUSHALL")
    with laurels.open(server.url) as lb:
        for board in BOARDS:
            lb.create(board)
    return server


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """Return a file that has 20 events for each of twelve members of both boards."""
    names = [(board, f"m{i}") for i in range(MEMBERS) for board in ("gifts", "gold")]
    return written(tmp_path / "events", [four_fields(*name, 1) for name in names * 20])


def ensure_counted(at: str | Path, each: int = 20) -> None:
    expected = {f"m{i}": each for i in range(MEMBERS)}
    assert scores(at, "gifts") == scores(at, "gold") == expected


def replace(lb: laurels.AsyncLeaderboards, submit_many: Callable[..., Any]) -> None:
    """Replace the function by which a source submits events."""
    setattr(lb, "submit_many", submit_many)  # noqa: B010 (a method cannot be assigned)


def broken(url: str, failure: Callable[[Any], Exception | None]) -> Boards:
    """Return a function that opens the boards of a server. A call to a shard fails with the error
    that `failure` returns for this shard, and succeeds if that is None."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[laurels.AsyncLeaderboards]:
        store = await config.direct_here(url, create=True)
        store._catalog.index = ShardedIndex(Failing(store._catalog.index._index, failure))  # type: ignore[attr-defined]
        async with laurels.AsyncLeaderboards(store) as lb:
            yield lb

    return opened


def test_a_source_waits_for_an_index_server_that_is_down(
    index_server: Server, events: Path
) -> None:
    stops = iter(range(2))

    def stop(_runner: object, _metrics: object) -> None:
        if next(stops, None) is not None:
            index_server.kill()

    def start() -> None:
        if not index_server.runs:
            index_server.start()

    done = count(index_server.url, events, FOUR_FIELDS, batch=100, on_progress=stop, on_wait=start)
    assert done.waits
    ensure_counted(index_server.url)


def test_a_source_waits_for_a_service_that_is_down(tmp_path: Path, events: Path) -> None:
    folder, port = tmp_path / "boards", free_port()
    with laurels.open(folder) as lb:
        for board in BOARDS:
            lb.create(laurels.Board(board.name, windows=board.windows))
    running: list[Served] = []

    def start() -> None:
        if not running:
            running.append(Served(folder, port=port))

    def stop(_runner: object, _metrics: object) -> None:
        if running:
            running.pop().close()

    try:
        done = count(
            f"http://127.0.0.1:{port}",
            events,
            FOUR_FIELDS,
            batch=200,
            on_progress=stop,
            on_wait=start,
        )
    finally:
        stop(None, None)
    assert {"server_unreachable"} <= {*done.waits}
    ensure_counted(folder)


@pytest.mark.parametrize("shard", range(3))
@pytest.mark.parametrize("batch", [7, 40, 1_000])
def test_a_partly_counted_batch_is_finished_with_the_same_bounds(
    index_server: Server, events: Path, shard: int, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run ends in the middle of its second batch, as if it were killed. The next run cuts
    that batch at the same message."""
    monkeypatch.setattr(retry, "REPEATS_SECONDS", 0.0)
    batches = iter(range(3))

    class KilledError(Exception):
        pass

    def failure(opened: Any) -> Exception | None:
        if opened.rules.shards < 3 or opened.shard != shard or next(batches, None) is not None:
            return None
        return IndexUnavailable("gone")

    def die() -> None:
        raise KilledError

    with pytest.raises(KilledError):
        count(broken(index_server.url, failure), events, FOUR_FIELDS, batch=30, on_wait=die)
    count(index_server.url, events, FOUR_FIELDS, batch=batch)
    ensure_counted(index_server.url)


def test_a_batch_counted_without_an_answer_is_not_sent_again(
    index_server: Server, events: Path
) -> None:
    """Every third batch is counted, but the answer is lost."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[laurels.AsyncLeaderboards]:
        async with laurels.open_async(index_server.url) as lb:
            submit_many, calls = lb.submit_many, iter(range(1_000_000))

            async def losing(*arguments: Any, **how: Any) -> Any:
                receipts = await submit_many(*arguments, **how)
                if next(calls) % 3 == 0:
                    raise IndexUnavailable("no answer", may_have_applied=True)
                return receipts

            replace(lb, losing)
            yield lb

    done = count(opened, events, FOUR_FIELDS, batch=30)
    assert done.waits
    assert done.metrics.read == done.metrics.applied + done.metrics.repeated
    ensure_counted(index_server.url)


def test_another_run_of_the_same_source_is_noticed(
    index_server: Server, events: Path, tmp_path: Path
) -> None:
    """While a run is paused, another run of the same source has counted everything. When the paused
    run resumes, it counts nothing."""

    def run_another(_runner: object, _metrics: object) -> None:
        where = ("--from", str(events), "--at", index_server.url, "--map", FOUR_FIELDS)
        with SourceProcess(tmp_path, "source", *where, "--until-end") as source:
            assert source.ended()[0] == 0

    with pytest.raises(SourceOvertaken):
        count(index_server.url, events, FOUR_FIELDS, batch=30, on_progress=run_another)
    ensure_counted(index_server.url)


def test_a_source_waits_for_a_board_with_a_full_id_table(tmp_path: Path) -> None:
    """The board forgets ids as time passes, and time passes while the source waits."""
    clock = laurels.ManualClock(1_795_219_200_000)
    event = {"board": "ids", "member": "ann", "value": 1}
    events = [{**event, "id": f"e{i}"} for i in range(25)]
    for place in (10, 11, 24):
        events[place]["value"] = "many"
    file = written(tmp_path / "events", events)

    @asynccontextmanager
    async def opened() -> AsyncIterator[laurels.AsyncLeaderboards]:
        async with laurels.open_async(tmp_path / "boards", clock=clock) as lb:
            await lb.create(laurels.Board("ids", dedupe="1h", dedupe_max=10), exist_ok=True)
            yield lb

    def pass_time() -> None:
        clock.set(clock.now_ms() + 3_600_001)

    with pytest.warns(AllEventsRefused):
        done = count(opened, file, batch=4, on_wait=pass_time)
    assert (done.metrics.applied, done.metrics.rejected) == (22, 3)
    assert done.rejects.codes == ["invalid_value"] * 3
    assert "dedupe_full" in done.waits


def test_repeated_ids_count_once(tmp_path: Path) -> None:
    event = {"board": "gifts", "member": "ann", "value": 1}
    file = written(tmp_path / "events", [{**event, "id": f"e{i % 10}"} for i in range(25)])
    with laurels.open(tmp_path / "boards") as lb:
        lb.create(laurels.Board("gifts"))
    done = count(tmp_path / "boards", file, batch=7)
    assert (done.metrics.applied, done.metrics.duplicates) == (10, 15)
    assert scores(tmp_path / "boards", "gifts") == {"ann": 10}


def test_a_permanent_error_ends_the_run(tmp_path: Path, events: Path) -> None:
    with laurels.open(tmp_path / "boards"), pytest.raises(LaurelsError, match="in use"):
        count(tmp_path / "boards", events, FOUR_FIELDS)
