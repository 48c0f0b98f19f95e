"""The benchmark runs, verifies its results, and reports them."""

from collections import Counter
from pathlib import Path

import msgspec
import pytest
from bench.__main__ import main
from bench.effort import Effort
from bench.report import Report, grids
from bench.tables import markdown
from bench.timing import Question, Sample
from bench.workload import MEMBER_BYTES, Population, in_batches

NOW_MS = 1_700_000_000_000
TINY = Effort(runs=1, events={1: 5, 100: 200}, calls=10, small_rankings=20, watched_seconds=0.01)
ROLLING_TABLES = {
    "Rolling events/s in memory, zipf",
    "Durable rolling events/s, uniform",
    "Memory of all + day + rolling 7d/1h, bytes a member",
    "Snapshot and recovery, all + day + rolling",
    "Boundary of a rolling window",
}


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.__main__.QUICK", TINY)


def measured(chosen: str, folder: Path, *more: str) -> Report:
    """Return the report of a run with one peer at one small size."""
    file = folder / "report.json"
    options = [*more, "--quick", "--members", "200", "--only", chosen, "--json", str(file)]
    assert main([*options, "--folder", str(folder)]) == 0
    return msgspec.json.decode(file.read_bytes(), type=Report)


def groups(report: Report) -> set[str]:
    return {sample.question.group for sample in report.samples}


def test_laurels_is_measured_in_memory_and_durable(tmp_path: Path) -> None:
    report = measured("engine,api", tmp_path, "--detail")
    assert {"Load, members/s", "Reads, µs a call", "Durable events/s, zipf"} <= groups(report)
    assert all(sample.ours and min(sample.figures) > 0 for sample in report.samples)
    assert {sample.safety for sample in report.samples} == {"memory", "each commit"}


def test_the_steps_of_a_submit_are_measured_separately(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.stages._EVENTS", {10: 100})
    file = tmp_path / "report.json"
    options = ["--profile", "--only", "api", "--members", "200", "--folder", str(tmp_path)]
    assert main([*options, "--json", str(file)]) == 0
    report = msgspec.json.decode(file.read_bytes(), type=Report)
    steps = {sample.contender for sample in report.samples}
    assert {"SQLite commit", "receipts", "the whole submit_many"} <= steps


@pytest.mark.usefixtures("needs_redis")
def test_redis_is_measured_under_every_setting(tmp_path: Path) -> None:
    report = measured("redis", tmp_path, "--detail")
    assert {sample.safety for sample in report.samples} == {"memory", "each second", "each commit"}
    assert "Durable events/s, 4 submitters, zipf" in groups(report)
    assert "| Redis pipeline, pre-encoded | AOF always, one core |" in markdown(report)
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_rolling_windows_are_measured_in_memory_and_durable(tmp_path: Path) -> None:
    report = measured("engine,api", tmp_path, "--rolling")
    ours = {"An event in a window of 700 h", "Snapshot and recovery, all"}
    assert groups(report) >= ROLLING_TABLES | ours
    assert all(sample.ours and min(sample.figures) > 0 for sample in report.samples)
    assert {sample.safety for sample in report.samples} == {"memory", "each commit"}
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


@pytest.mark.usefixtures("needs_redis")
def test_redis_does_the_work_of_rolling_windows_under_every_setting(tmp_path: Path) -> None:
    report = measured("redis", tmp_path, "--rolling")
    assert groups(report) >= ROLLING_TABLES
    assert not any(sample.ours for sample in report.samples)
    assert {sample.safety for sample in report.samples} == {"memory", "each second", "each commit"}
    assert "| Redis script by columns, pre-encoded | AOF always, any core |" in markdown(report)
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


@pytest.mark.parametrize("options", [["--members", "99"], ["--only", "engine,sql"]])
def test_wrong_options_are_refused(options: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(options)
    assert ended.value.code == 2


def test_every_contender_gets_the_same_population() -> None:
    first, second = (Population(1_000, NOW_MS) for _ in range(2))
    batches = list(first.batches(300))
    assert batches == list(second.batches(300))
    assert [len(batch) for batch in batches] == [300, 300, 300, 100]
    assert all(at <= NOW_MS for batch in batches for _, _, at in batch)
    names = {member for batch in batches for member, _, _ in batch}
    assert len(names) == 1_000
    assert {len(name) for name in names} == {MEMBER_BYTES}
    assert first.traffic("zipf", 500) == second.traffic("zipf", 500)


def test_zipf_traffic_prefers_active_members() -> None:
    population = Population(1_000, NOW_MS)
    counts = Counter(member for member, _ in population.traffic("zipf", 20_000))
    # With the Zipf exponent 1, the most active of 1,000 members has 1/7.485 of all events, and the
    # second most active has half as many.
    assert 2_400 < counts[population.active(1)] < 2_950
    assert 1_150 < counts[population.active(2)] < 1_530


def test_events_are_cut_into_batches() -> None:
    events = [("a", 1), ("b", 2), ("c", 3)]
    assert in_batches(events, 2) == [[("a", 1), ("b", 2)], [("c", 3)]]


def test_ratios_compare_with_the_best_of_the_same_durability() -> None:
    fast = Question("writes", 100, "batch 1", "events/s")
    quick = Question("reads", 100, "rank", "µs")
    samples = [
        Sample(fast, "ours", "x", True, "each commit", [8.0, 10.0, 30.0]),
        Sample(fast, "slow", "x", False, "each commit", [2.0]),
        Sample(fast, "best", "x", False, "each commit", [5.0]),
        Sample(fast, "loose", "x", False, "each second", [20.0]),
        Sample(quick, "ours", "x", True, "memory", [2.0]),
        Sample(quick, "best", "x", False, "memory", [3.0]),
    ]
    waits = Question("waits", 100, "longest read, ms", "ms")
    samples += [
        Sample(waits, "ours", "calm", True, "memory", [1.0, 2.0]),
        Sample(waits, "best", "union", False, "memory", [30.0]),
        Sample(Question("steps", 100, "zipf, ns", "x"), "ours", "7", True, "memory", [1.02]),
    ]
    writes, reads, waited, steps = grids(samples)
    assert writes.figures[0] == ["ours", "x", "10\n8..30"]
    assert [row[2] for row in writes.ratios] == ["2.00 x", "0.50 x"]
    assert [row[2] for row in reads.ratios] == ["1.50 x"]
    assert [row[2] for row in waited.ratios] == ["20.00 x"]
    assert steps.figures == [["ours", "7", "1.02 x"]]
    assert steps.ratios == []


@pytest.mark.parametrize(("ours", "other"), [(0.0, 5.0), (5.0, 0.0)])
def test_figures_below_the_resolution_of_the_clock_have_no_ratio(ours: float, other: float) -> None:
    question = Question("reads", 10, "CPU a request", "µs")
    samples = [
        Sample(question, "ours", "x", True, "memory", [ours]),
        Sample(question, "theirs", "x", False, "memory", [other]),
    ]
    (grid,) = grids(samples)
    assert "against" not in str(grid)
