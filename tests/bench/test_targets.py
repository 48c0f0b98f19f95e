"""Targets of the benchmarks are measured, compared with the wanted figures, and drawn as a
picture."""

from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from bench.__main__ import main
from bench.effort import Effort
from bench.flows.servers import missing
from bench.growth.chase import Chase
from bench.growth.picture import picture
from bench.growth.points import FOOTPRINT, RANK, READ, TABLE, UPDATE
from bench.growth.verdict import growth_outcomes, lines_of, shares
from bench.history import WEEK, evening
from bench.machine import Machine
from bench.outcome import Findings, Outcome
from bench.report import Measured, Report
from bench.sizes import size_name, size_of
from bench.tables import markdown, with_targets
from bench.targets.compared import against_best
from bench.targets.scale import FlowScale, Scale
from bench.targets.stalls import leaving
from bench.timing import Question, Sample, Unit
from bench.workload import Population

from tests.redis.programs import skip_or_fail

NOW_MS = evening(1_700_000_000_000)
TINY = Effort(runs=1, events={1_000: 2_000}, calls=10, small_rankings=20, watched_seconds=0.01)
TINY_SCALE = Scale(board=200, weighed=(400,), grown=(200, 400), large=400, services=False, huge=500)

MACHINE = Machine("a cpu", 2, 24.0, "a kernel", "ext4", 100.0, "3", "3", "7")


def sample(case: str, ours: bool, figure: float, unit: Unit = "µs", group: str = "reads") -> Sample:
    question = Question(group, 100, case, unit)
    return Sample(question, "ours" if ours else "theirs", "x", ours, "memory", [figure])


def line(name: str, costs: dict[str, float]) -> list[Sample]:
    """Return the samples of one line of the picture, from the largest board to the smallest."""
    return [
        Sample(Question(TABLE, 0, size, "ns"), name, "", True, "memory", [cost])
        for size, cost in reversed(costs.items())
    ]


def measured(chosen: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Report:
    """Return a report of all targets, measured at small sizes."""
    monkeypatch.setattr("bench.__main__.QUICK", TINY)
    monkeypatch.setattr("bench.__main__.QUICK_SCALE", TINY_SCALE)
    for name in ("_READS", "_WRITES", "_BATCHES"):
        monkeypatch.setattr(f"bench.targets.served.{name}", 2)
    file = folder / "report.json"
    options = ["--quick", "--only", chosen, "--json", str(file), "--folder", str(folder)]
    assert main(options) == 0
    assert [path.name for path in folder.iterdir()] == ["report.json"]
    return msgspec.json.decode(file.read_bytes(), type=Report)


def test_targets_that_need_no_redis_are_measured_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = measured("engine,api", tmp_path, monkeypatch)
    judged = [outcome.target for outcome in report.outcomes]
    assert len(judged) == len(set(judged))
    for wanted in (
        "roster",
        "growth of a rank",
        "recovery",
        "longest stall",
        "memory of a process",
    ):
        assert any(target.startswith(wanted) for target in judged), wanted
    assert "| longest stall, 400 members, writing and rolling | ≤ 10 ms |" in markdown(report)


@pytest.mark.usefixtures("needs_redis")
def test_targets_that_compare_with_redis_are_ratios(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = measured("engine,api,redis", tmp_path, monkeypatch)
    ratios = {o.target: o for o in report.outcomes if o.measure in ("x", "of it")}
    assert ratios["durable events, all, zipf"].least == 5
    assert ratios["durable events, all + day + rolling 7d/1h, uniform"].least == 3
    assert ratios["a rank of 100 at once, against one ZREVRANK of a pipeline of 100"].least == 10
    assert ratios["memory of a ranking, 400 members, as a share of a sorted set"].most == 0.35
    assert all(outcome.measured > 0 for outcome in ratios.values())


def test_an_unknown_section_is_refused() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--section", "events,laps"])
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("least", "most", "reached"),
    [(2.0, None, True), (2.1, None, False), (None, 2.0, True), (None, 1.9, False),
     (1.0, 3.0, True), (None, None, None)],
)  # fmt: skip
def test_a_target_is_reached_if_its_figure_is_within_the_bounds(
    least: float | None, most: float | None, reached: bool | None
) -> None:
    outcome = Outcome(target="it", measured=2.0, measure="x", least=least, most=most)
    assert outcome.reached is reached


def test_laurels_is_compared_with_the_best_of_the_others() -> None:
    reads = [sample("a", True, 2.0), sample("a", False, 9.0), sample("a", False, 6.0)]
    [outcome] = against_best("reads", reads, reads[:1], 3)
    assert (outcome.measured, outcome.reached) == (3, True)
    assert outcome.basis == "2 µs (ours, x) against 6 µs (theirs, x)"
    rates = [sample("a", ours, figure, "events/s") for ours, figure in ((True, 8), (False, 4))]
    [outcome] = against_best("rates", rates, rates[:1], 3)
    assert (outcome.measured, outcome.reached) == (2, False)
    assert against_best("alone", reads[:1], reads[:1], 3) == []


@pytest.mark.parametrize(
    ("members", "name"), [(10_000, "10k"), (1_000_000, "1M"), (100_000_000, "100M"), (250, "250")]
)
def test_a_displayed_size_is_parsed_to_the_same_number(members: int, name: str) -> None:
    assert size_name(members) == name
    assert size_of(name) == members


def test_the_targets_replace_those_between_the_markers_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text()
    outcome = Outcome(target="speed", measured=2.5, measure="x", least=2, basis="5 against 2")
    report = Measured(started="now", machine=MACHINE, samples=[], outcomes=[outcome])
    written = with_targets(page, report)
    assert "| speed | ≥ 2.00 x | 2.50 x | yes | 5 against 2 |\n<!-- end of targets -->" in written
    assert with_targets(written, report) == written
    with pytest.raises(ValueError, match="no markers"):
        with_targets("", report)


def test_a_program_is_listed_once() -> None:
    report = Measured(started="now", machine=MACHINE, samples=[])
    for software in ("wrk 4, uvloop 1", "", "redis-server, uvloop 1"):
        report = report.with_more(Findings([], [], software))
    assert report.software == "wrk 4, uvloop 1, redis-server"


def test_growth_is_compared_with_the_logarithm_and_the_cost_of_memory() -> None:
    reads = {1_024: 1.0, 4_096: 10.0, 1 << 20: 10.0}
    # From 1,024 members on, a cost of 100 may grow with the logarithm: to 120 at 4,096 members and
    # to 200 at 1,048,576. In addition, one random read, which costs 10, is allowed for each binary
    # digit of the size. The cost at 4,096 members is the greatest allowed one, the cost at
    # 1,048,576 is twice the allowed one.
    costs = {1_024: 100.0, 4_096: 120.0 + 12 * 10, 1 << 20: 2 * (200.0 + 20 * 10)}
    assert {size: round(share, 9) for size, share in shares(costs, reads).items()} == {
        4_096: 1.0,
        1 << 20: 2.0,
    }
    samples = [
        *line(RANK, {str(size): cost for size, cost in costs.items()}),
        *line(READ, {str(size): cost for size, cost in reads.items()}),
    ]
    assert lines_of(samples) == {RANK: costs, READ: reads}
    [rank] = growth_outcomes(samples)
    assert round(rank.measured, 9) == 2.0
    assert rank.basis.endswith("800 at 1048576: 60.0 random reads of 10 ns besides the logarithm")
    assert not rank.reached
    assert growth_outcomes(line(RANK, {"10k": 100})) == []


def test_a_picture_has_every_line_and_size() -> None:
    names = {RANK: 200.0, UPDATE: 900.0, READ: 5.0}
    samples = [s for name, cost in names.items() for s in line(name, {"10k": cost, "1M": 9 * cost})]
    samples += [
        sample(size, True, 37 * size_of(size), "bytes", FOOTPRINT) for size in ("10k", "1M")
    ]
    drawn = ElementTree.fromstring(picture(samples, "a <machine>"))
    texts = {text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert {"10k", "1M", "370 kB", "37 MB", "1 ns", "10 µs", "a <machine>"} <= texts
    assert {"a rank, one call", "8.1 µs at 1M", "45 ns at 1M"} <= texts
    lines = list(drawn.iter("{http://www.w3.org/2000/svg}polyline"))
    assert len(lines) == len(names)
    for drawn_line in lines:
        (x, y), (right, higher) = [pair.split(",") for pair in drawn_line.attrib["points"].split()]
        assert float(x) < float(right)
        assert float(y) > float(higher)


def test_random_reads_of_a_large_memory_cost_more_than_those_of_a_small_one() -> None:
    chase = Chase()
    with chase.ring(4_096) as little, chase.ring(1 << 26) as much:
        assert 0 < little.nanoseconds(100_000) < much.nanoseconds(100_000)


def test_half_of_the_members_are_in_the_two_steps_that_leave_first() -> None:
    batches = list(leaving(Population(400, NOW_MS), NOW_MS))
    steps = [WEEK.number(at_ms) - WEEK.number(NOW_MS) for b in batches for _, _, at_ms in b]
    assert len(steps) == 400
    assert steps.count(1 - WEEK.many) >= 100
    assert steps.count(2 - WEEK.many) >= 100
    assert min(steps) == 1 - WEEK.many
    assert max(steps) <= 0


def test_flows_are_measured_and_compared_with_their_targets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lacking := missing():
        skip_or_fail("; ".join(lacking))
    flows = FlowScale(
        members=10_000, events=2_000, rebuilt=5_000, messages=2_000, seconds=0.2, runs=1
    )
    monkeypatch.setattr(
        "bench.__main__.QUICK_SCALE", msgspec.structs.replace(TINY_SCALE, flows=flows)
    )
    file = tmp_path / "report.json"
    options = ["--quick", "--section", "flows", "--json", str(file), "--folder", str(tmp_path)]
    assert main(options) == 0
    report = msgspec.json.decode(file.read_bytes(), type=Report)
    wanted = {outcome.target: outcome for outcome in report.outcomes}
    with_changes = "durable events with changes, 10k members, as a share of those without"
    assert wanted[with_changes].least == 0.75
    assert wanted["PostgreSQL, members new"].least == 30_000
    assert wanted["MariaDB, members again"].least == 60_000
    assert wanted["events from NATS JetStream, as a share of a handwritten loop"].least == 0.9
    assert wanted["5k members made from PostgreSQL, in a folder"].least == 100_000
    assert all(outcome.measured > 0 for outcome in report.outcomes)
