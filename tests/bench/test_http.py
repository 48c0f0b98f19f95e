"""The benchmark of the service runs, and afterwards the scores equal the sums of the events it
sent."""

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import msgspec
import pytest
from bench.http import traffic, wrk
from bench.http.__main__ import HttpReport, main
from bench.http.crowd import CrowdTask, percentile_ms
from bench.http.effort import HttpEffort
from bench.http.feed import Assembled, measure_feed
from bench.http.lifetimes import measure_lifetimes
from bench.http.peers import Handler, HttpPeer, Laurels, RedisPeer, RedisService, ask
from bench.http.process import HOST, on_core, two_cores
from bench.http.rounds import Case, Rounds, Watched
from bench.http.traffic import totals, written
from bench.peers.redis_server import installed
from bench.tables import markdown
from bench.workload import Batch, Population, in_batches, member_name

from tests.redis.programs import skip_or_fail

NOW_MS = 1_700_000_000_000
TINY = HttpEffort(
    members=1_000,
    rounds=1,
    seconds=0.15,
    warm_seconds=0,
    lines=500,
    batch_lines=4,
    connections=8,
    batch_connections=2,
    streams=10,
    many_streams=20,
    feed_seconds=0.2,
)
POPULATION = Population(TINY.members, NOW_MS)
MEMBERS = [member_name(i) for i in range(TINY.members)]
PACKAGES = ("falcon", "fastapi", "granian", "hiredis", "httptools", "redis", "uvicorn", "uvloop")
CORE = min(os.sched_getaffinity(0))


def silent(_: str) -> None:
    """Report no progress."""


@pytest.fixture(autouse=True, scope="module")
def need_peers() -> None:
    absent = [name for name in PACKAGES if find_spec(name) is None]
    lacking = [f"{', '.join(absent)}: pip install -e '.[server,bench]'"] if absent else []
    if not installed():
        lacking.append("redis-server: apt-get install -y redis-server")
    if not wrk.installed():
        lacking.append("wrk: apt-get install -y wrk")
    if lacking:
        skip_or_fail(f"missing: {'; '.join(lacking)}")


@pytest.fixture(scope="module")
def laurels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laurels]:
    with Laurels(tmp_path_factory.mktemp("http") / "laurels", CORE) as peer:
        peer.load(POPULATION)
        yield peer


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisPeer]:
    with closing(RedisService(tmp_path_factory.mktemp("http") / "redis", CORE)) as service:
        service.load(POPULATION)
        yield RedisPeer(service, "always")


@pytest.fixture(params=["laurels", "redis"])
def peer(request: pytest.FixtureRequest) -> HttpPeer:
    fixture: HttpPeer = request.getfixturevalue(request.param)
    return fixture


def scores(peer: HttpPeer) -> list[int]:
    scores = peer.scores(MEMBERS)
    assert scores is not None
    return scores


def gained(peer: HttpPeer, work: Callable[[], object]) -> list[int]:
    """Return the points that each member gains while `work` runs."""
    before = scores(peer)
    work()
    return [after - score for after, score in zip(scores(peer), before, strict=True)]


def due(batches: Sequence[Batch]) -> list[int]:
    total = totals(batches)
    return [total[member] for member in MEMBERS]


def test_both_services_begin_with_the_same_scores(laurels: Laurels, redis: RedisPeer) -> None:
    first = {member: score for batch in POPULATION.batches() for member, score, _ in batch}
    assert scores(laurels) == scores(redis) == [first[member] for member in MEMBERS]


def test_events_sent_alone_and_in_batches_are_in_the_scores(peer: HttpPeer) -> None:
    peer.use()
    events = POPULATION.traffic("zipf", 220)
    alone, together = in_batches(events[:20], 1), in_batches(events[20:], 100)

    def send() -> None:
        for batch in alone:
            answer = ask(peer.port, "POST", peer.paths.single, written(batch)[0])
            assert answer["rank"] >= 1
        for batch in together:
            assert ask(peer.port, "POST", peer.paths.batch, written(batch))["applied"] == 100

    assert gained(peer, send) == due([*alone, *together])


def test_both_services_return_the_same_answers(laurels: Laurels, redis: RedisPeer) -> None:
    top = ask(laurels.port, "GET", laurels.paths.top)["entries"]
    theirs = ask(redis.port, "GET", redis.paths.top)
    assert len(top) == len(theirs) == 100
    assert [entry["score"] for entry in top] == [entry["score"] for entry in theirs]
    member = theirs[0]["member"]
    standing = ask(laurels.port, "GET", laurels.paths.standing + member)
    assert standing["score"] == theirs[0]["score"]
    assert ask(redis.port, "GET", redis.paths.standing + member)["rank"] == 1


@pytest.mark.parametrize("interface", ["rsgi", "falcon"])
def test_an_empty_handler_answers(interface: str, tmp_path: Path) -> None:
    with closing(Handler(interface, CORE, tmp_path)) as handler:
        for path in {handler.paths.single, handler.paths.top}:
            assert len(ask(handler.port, "POST", path, {})["text"]) > 100


def test_a_steady_writer_reports_what_it_sent(peer: HttpPeer) -> None:
    task = CrowdTask(peer.port, peer.paths.batch, TINY.members, 2_000, 10, 0.3, writers=4)

    def write() -> None:
        with Assembled(task, CORE) as crowd:
            crowd.begin()
            assert crowd.heard().batches == 60

    assert gained(peer, write) == due(in_batches(POPULATION.traffic("zipf", 600), 10))


def test_a_feed_shows_every_batch_and_the_server_ends_in_time(
    tmp_path: Path,
) -> None:
    with Laurels(tmp_path / "laurels", CORE) as laurels:
        laurels.load(POPULATION)
        twice = msgspec.structs.replace(TINY, rounds=2)
        feed = measure_feed(laurels, twice, CORE, silent)
        assert all(sample.middle > 0 for sample in feed if sample.question.unit != "%")
        assert {len(sample.figures) for sample in feed} == {2}
        lifetimes = measure_lifetimes(laurels, TINY, tmp_path, CORE, silent)
    assert [0 < sample.middle < 10 for sample in lifetimes] == [True] * 3


def test_wrong_scores_after_a_load_are_detected(laurels: Laurels, tmp_path: Path) -> None:
    requests = traffic.single_events(POPULATION, 5, tmp_path)
    load = wrk.Load(sent=7, answered=7, failed=0, seconds=1, p50_us=1, p99_us=1)

    def sending(batches: Sequence[Batch]) -> Watched:
        watched = Watched(requests, laurels)
        for batch in batches:
            laurels.send(batch)
        return watched

    cycle = [*requests.batches, *requests.batches[:2]]
    sending(cycle).check(load)
    with pytest.raises(AssertionError, match="more than was sent"):
        sending([*cycle, requests.batches[0]]).check(load)
    with pytest.raises(AssertionError, match="missing"):
        sending(cycle[1:]).check(load)


def test_percentiles_are_computed_from_the_waiting_times() -> None:
    waits = [n / 1e3 for n in range(100, 0, -1)]
    assert percentile_ms(waits, 50) == 50
    assert percentile_ms(waits, 99) == 99
    assert percentile_ms(waits[:99], 50) == pytest.approx(1e3 * median(waits[:99]))
    assert percentile_ms([], 99) == 0


def test_everything_is_measured_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if two_cores() is None:
        pytest.skip("server and load generator need a core each")
    monkeypatch.setattr("bench.http.__main__.QUICK", TINY)
    # accept any rate, since other tests may delay requests
    monkeypatch.setattr("bench.http.feed._LEAST_REACHED", 0)
    file = tmp_path / "report.json"
    assert main(["--quick", "--json", str(file), "--folder", str(tmp_path)]) == 0
    report = msgspec.json.decode(file.read_bytes(), type=HttpReport)
    assert all(min(s.figures) > 0 for s in report.samples if not s.question.case.startswith("CPU"))
    table = markdown(report)
    for line in (
        "every commit on the disk",
        "against FastAPI and Redis, AOF always",
        "granian, RSGI",
    ):
        assert line in table
    assert "wrk" in report.line()
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_a_missing_program_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.http.wrk.shutil.which", lambda *_, **__: None)
    assert main(["--quick"]) == 2
    assert "apt install wrk" in capsys.readouterr().out


def test_a_process_is_started_on_the_given_core() -> None:
    before = os.sched_getaffinity(0)
    with on_core(CORE):
        assert os.sched_getaffinity(0) == {CORE}
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("seconds", [0.0, 0.3])
def test_a_load_without_an_answer_raises_an_error(tmp_path: Path, seconds: float) -> None:
    """A load that gets no answer raises an error, even if the load generator is stopped before it
    handles signals."""
    with socket.create_server((HOST, 0)) as silent_server:
        port = silent_server.getsockname()[1]
        with pytest.raises(wrk.NothingAnswered):
            wrk.send(traffic.same(tmp_path), port, "/", core=CORE, connections=1, seconds=seconds)


def test_a_load_without_an_answer_is_repeated_for_longer(
    laurels: Laurels, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sent: list[float] = []

    def send(*_: object, seconds: float, **__: object) -> wrk.Load:
        sent.append(seconds)
        if len(sent) == 1:
            raise wrk.NothingAnswered("none of 8 requests was answered in time")
        return wrk.Load(sent=1, answered=1, failed=0, seconds=1.0, p50_us=1, p99_us=1)

    monkeypatch.setattr(wrk, "send", send)
    rounds = Rounds(TINY, CORE, silent)
    case = Case("top", traffic.same(tmp_path), lambda paths: paths.top, 8)
    rounds._run(case, laurels, 0.1)
    assert len(sent) == 2
    assert sent[1] > sent[0]
