"""Changes that a registered sink has not confirmed are kept, up to `changes_max`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import laurels
from laurels.core.changes.beginning import InitialCursor
from laurels.errors import ChangesExpired
from laurels.errors.sinks import SinkBehind
from laurels.flows.sinks.metrics import describe_problems
from laurels.flows.sinks.status import SinkBoardStatus, statuses
from tests.contract.deployments import Deployment
from tests.flows.sinking import sent, sink_of

HOUR = 3_600_000


def board(most: int = 10_000_000) -> laurels.Board:
    return laurels.Board("b", changes="1h", changes_max=most)


def write(deployment: Deployment, clock: laurels.ManualClock, batches: int = 6) -> None:
    """Submit several batches an hour apart, so that the store has removed every change that it may
    remove."""
    lb = deployment.lb
    for i in range(batches):
        clock.advance(HOUR)
        lb.submit_many("b", [(f"m{j}", 1) for j in range(50 if i else 10)])
    if deployment.exclusive:
        lb.snapshot()


def confirm(lb: laurels.Leaderboards, sink: str, cursor: str) -> None:
    lb.submit_many("b", [], position=(f"sink:{sink}", cursor))


def test_unconfirmed_changes_are_kept(lasting: Deployment, clock: laurels.ManualClock) -> None:
    lb = lasting.lb
    lb.create(board())
    start = lb.changes("b", after="now").cursor
    confirm(lb, "slow", start)
    confirm(lb, "new", InitialCursor(start).encode())
    confirm(lb, "quick", start)
    confirm(lb, "elsewhere", "not-a-cursor")
    write(lasting, clock)
    assert lb.changes("b", after=start, limit=1).more
    end = lb.changes("b", after="now").cursor
    confirm(lb, "quick", end)
    confirm(lb, "new", end)
    write(lasting, clock)
    assert lb.changes("b", after=start, limit=1).more
    assert lb.stats("b").changes_lost == 0
    confirm(lb, "slow", end)
    write(lasting, clock)
    with pytest.raises(ChangesExpired):
        lb.changes("b", after=start)
    assert lb.changes("b", after=end, limit=1).more
    assert lb.stats("b").changes_lost == 0
    for sink in ("quick", "slow", "new"):
        confirm(lb, sink, "")
    write(lasting, clock)
    with pytest.raises(ChangesExpired):
        lb.changes("b", after=end)


def test_lost_changes_beyond_changes_max_are_counted(
    lasting: Deployment, clock: laurels.ManualClock
) -> None:
    lb = lasting.lb
    lb.create(board(most=200))
    start = lb.changes("b", after="now").cursor
    write(lasting, clock, batches=3)
    assert lb.stats("b").changes_lost == 0
    end = lb.changes("b", after="now").cursor
    confirm(lb, "slow", end)
    write(lasting, clock, batches=20)
    for cursor in (start, end):
        with pytest.raises(ChangesExpired):
            lb.changes("b", after=cursor)
    kept = len(lb.changes("b", limit=10_000))
    assert kept + lb.stats("b").changes_lost == 19 * 50 + 10


def test_a_sink_that_lost_changes_is_warned_before_and_stops_afterwards(
    lasting: Deployment, clock: laurels.ManualClock, tmp_path: Path
) -> None:
    path = tmp_path / "lines"

    async def play() -> None:
        async with lasting.opened_async() as lb:

            async def write(batches: int) -> None:
                for _ in range(batches):
                    clock.advance(HOUR)
                    await lb.submit_many("b", [(f"m{i}", 1) for i in range(50)])
                if lasting.exclusive:
                    await lb.snapshot()

            async def status() -> SinkBoardStatus:
                (status,) = await statuses(lb, None, sink.options, clock.now_ms())
                return status

            await lb.create(board(most=200))
            sink = await sent(lb, str(path))
            await write(2)
            stats, lagging = await lb.stats("b"), await status()
            assert (stats.changes_lost, stats.changes_unsent, stats.changes_used) == (0, 100, 0.5)
            assert (lagging.lag_changes, lagging.is_nearly_lost, lagging.code) == (100, True, None)
            await write(20)
            assert (await lb.stats("b")).changes_lost > 0
            before, sink = path.read_bytes(), sink_of(lb, str(path))
            await sink.run()
            error = sink.failed["b"]
            assert isinstance(error, SinkBehind)
            assert isinstance(error.__cause__, ChangesExpired)
            assert path.read_bytes() == before
            report = sink.metrics.report("sink", clock.now_ms())
            assert describe_problems([report]) == "sinks that have lost changes: 1"
            assert ((await status()).state, (await status()).code) == ("lost", "sink_behind")

    asyncio.run(play())


def test_a_recreated_board_keeps_no_changes_for_old_sinks(
    lasting: Deployment, clock: laurels.ManualClock
) -> None:
    lb = lasting.lb
    lb.create(board())
    confirm(lb, "slow", lb.changes("b", after="now").cursor)
    old = lb.changes("b", after="now").cursor
    lb.delete("b")
    lb.create(board())
    confirm(lb, "slow", old)
    start = lb.changes("b", after="now").cursor
    write(lasting, clock)
    with pytest.raises(ChangesExpired):
        lb.changes("b", after=start)


def test_unconfirmed_changes_of_the_slowest_sink_are_counted(lb: laurels.Leaderboards) -> None:
    lb.create(board(most=200))
    lb.submit("b", "ann", 1)
    assert lb.stats("b").changes_unsent == 0, "without a sink no change waits"
    start = lb.changes("b", after="now").cursor
    for sink in ("slow", "quick"):
        confirm(lb, sink, start)
    confirm(lb, "elsewhere", "not-a-cursor")
    lb.submit_many("b", [(f"m{i}", 1) for i in range(50)])
    confirm(lb, "quick", lb.changes("b", after="now").cursor)
    stats = lb.stats("b")
    assert (stats.changes_unsent, stats.changes_used) == (50, 0.25)
    confirm(lb, "slow", lb.changes("b", after="now").cursor)
    stats = lb.stats("b")
    assert (stats.changes_unsent, stats.changes_used) == (0, 0.0)
