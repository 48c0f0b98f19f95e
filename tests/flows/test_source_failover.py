"""A shard of a board loses its newest writes, as after a failover to a replica that lagged. The
source counts the lost events again, and counts no event twice."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

import laurels
from laurels.errors import ShardsDiffer
from laurels.errors.sources import SourceDiverged, SourceOvertaken, SourceShardExpired
from laurels.flows.sources.metrics import SourceMetrics
from laurels.flows.sources.runner import SourceRunner
from laurels.flows.sources.settings import SourceSettings
from laurels.stores.redis.sharding.positions import position_shard
from tests.conftest import Scaled
from tests.redis.cluster import Cluster
from tests.redis.servers import Server
from tests.serving import ADMIN_KEY, Served

from .nats_servers import NatsServer
from .sourcing import FOUR_FIELDS, SourceProcess, count, four_fields, scores, written
from .test_source_kills import TELLING

SHARDS, MEMBERS = 3, 12
KEEPER = position_shard(SourceSettings(name="source").key, SHARDS)
OTHERS = [shard for shard in range(SHARDS) if shard != KEEPER]
AGES = [
    pytest.param({OTHERS[0]: 2}, id="one"),
    pytest.param({KEEPER: 2}, id="keeper"),
    pytest.param({OTHERS[0]: 3, OTHERS[1]: 3}, id="others"),
    pytest.param({KEEPER: 3, OTHERS[1]: 1}, id="keeper-and-one"),
    pytest.param({0: 1, 1: 2, 2: 3}, id="all"),
    pytest.param({OTHERS[1]: 0}, id="before-the-first"),
    pytest.param({KEEPER: 0}, id="keeper-before-the-first"),
]
"""Losses to test: for each shard that loses writes, the number of the copy that replaces the shard.
Copy 0 was made before the first batch."""

Counts = Counter[str]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


class ShardCopies:
    """Copies of the shards of the board gifts."""

    def __init__(self, server: Server) -> None:
        self._client = server.client
        server.call("FLUSHALL")
        with laurels.open(server.url) as lb:
            lb.create(laurels.Board("gifts", windows=["all", "day"], shards=SHARDS))
            store: Any = lb._store
            self._number = store._catalog.boards.named("gifts").number
        self._copies: list[dict[int, dict[bytes, bytes]]] = []

    def copy(self) -> None:
        """Copy every shard."""
        self._copies.append({shard: self._dumped(shard) for shard in range(SHARDS)})

    def put_back(self, ages: dict[int, int]) -> None:
        """Replace some shards by earlier copies. For each of these shards, `ages` has the number of
        the copy, counted from 0."""
        for shard, age in ages.items():
            if keys := self._keys(shard):
                self._client.delete(*keys)
            for key, dumped in self._copies[age][shard].items():
                self._client.restore(key, 0, dumped)

    def _keys(self, shard: int) -> list[bytes]:
        return list(self._client.scan_iter(f"*{{{self._number}.{shard}}}:*", count=10_000))

    def _dumped(self, shard: int) -> dict[bytes, bytes]:
        return {key: self._client.dump(key) or b"" for key in self._keys(shard)}


@pytest.fixture
def copies(server: Server) -> ShardCopies:
    return ShardCopies(server)


def events_of(rng: Random, number: int, expected: Counts) -> list[bytes]:
    events = []
    for _ in range(number):
        member, value = f"m{rng.randrange(MEMBERS)}", rng.randrange(1, 9)
        expected[member] += value
        events.append(four_fields("gifts", member, value))
    return events


def ensure_level(url: str, expected: Counts) -> None:
    assert scores(url, "gifts") == expected
    with laurels.open(url) as lb:
        assert lb.position("gifts", "source/source") is not None
        lb.check()


@pytest.mark.parametrize("ages", AGES)
@pytest.mark.parametrize("batch", [7, 1_000])
def test_a_shard_rolled_back_while_the_source_is_stopped_gets_the_lost_events_again(
    server: Server, copies: ShardCopies, tmp_path: Path, ages: dict[int, int], batch: int
) -> None:
    rng, expected, file = Random(batch), Counter[str](), tmp_path / "events"
    for _ in range(4):
        copies.copy()
        written(file, events_of(rng, 40, expected))
        count(server.url, file, FOUR_FIELDS, batch=batch)
    copies.put_back(ages)
    assert scores(server.url, "gifts") != expected
    with laurels.open(server.url) as lb, pytest.raises(ShardsDiffer):
        lb.position("gifts", "source/source")
    done = count(server.url, file, FOUR_FIELDS, batch=17)
    assert "shards_differ" in done.waits
    assert done.metrics.recounted > 0
    ensure_level(server.url, expected)
    written(file, events_of(rng, 40, expected))
    assert count(server.url, file, FOUR_FIELDS).metrics.applied == 40
    ensure_level(server.url, expected)


@pytest.mark.parametrize("ages", AGES)
def test_a_shard_rolled_back_while_the_source_runs_gets_the_lost_events_again(
    server: Server, copies: ShardCopies, tmp_path: Path, ages: dict[int, int]
) -> None:
    rng, expected = Random(1), Counter[str]()
    file = written(tmp_path / "events", events_of(rng, 100, expected))
    copies.copy()

    def lose(_runner: SourceRunner, metrics: SourceMetrics) -> None:
        if metrics.batches <= 3:
            copies.copy()
        if metrics.batches == 5:
            copies.put_back(ages)

    done = count(server.url, file, FOUR_FIELDS, batch=10, on_progress=lose)
    assert "shards_differ" in done.waits
    ensure_level(server.url, expected)


def test_the_keeper_loses_exactly_its_newest_batch(
    server: Server, copies: ShardCopies, tmp_path: Path
) -> None:
    """After the loss, the shards have the same positions as while the newest batch was being
    counted: the keeper has the previous position, and the other shards have the new one."""
    rng, expected = Random(3), Counter[str]()
    file = written(tmp_path / "events", events_of(rng, 60, expected))
    copies.copy()

    def lose(_runner: SourceRunner, metrics: SourceMetrics) -> None:
        assert metrics.batches < 100, "the source repeats itself for ever"
        if metrics.batches <= 3:
            copies.copy()
        if metrics.batches == 3:
            copies.put_back({KEEPER: 2})

    done = count(server.url, file, FOUR_FIELDS, batch=10, on_progress=lose)
    assert done.metrics.repeated + done.metrics.applied >= 60
    ensure_level(server.url, expected)


def test_a_position_that_follows_a_batch_lost_by_the_keeper_is_refused(
    server: Server, copies: ShardCopies
) -> None:
    events = [(f"m{i}", 1) for i in range(MEMBERS)]
    with laurels.open(server.url) as lb:
        lb.submit_many("gifts", events, position=("source/source", "1"))
        copies.copy()
        lb.submit_many("gifts", events, position=("source/source", "2", "1"))
        copies.put_back({KEEPER: 0})
        for more in (events, []):
            with pytest.raises(ShardsDiffer):
                lb.submit_many("gifts", more, position=("source/source", "3", "2"))
        lb.submit_many("gifts", events, position=("source/source", "2", "1"))
        lb.submit_many("gifts", events, position=("source/source", "3", "2"))
        assert {entry.score for entry in lb.export("gifts")} == {3}


class Losses:
    """Random copies of the shards. From time to time, a copy replaces its shard."""

    def __init__(self, server: Server, rng: Random) -> None:
        self._copies, self._rng = ShardCopies(server), rng
        self._copies.copy()
        self._taken = 1

    def happen(self) -> None:
        rng = self._rng
        if rng.random() < 0.3:
            self._copies.copy()
            self._taken += 1
        if rng.random() < 0.15:
            shards = rng.sample(range(SHARDS), rng.randrange(1, SHARDS))
            self._copies.put_back({shard: rng.randrange(self._taken) for shard in shards})


def test_shards_that_lose_writes_repeatedly_get_the_lost_events_again(
    server: Server, tmp_path: Path, scaled: Scaled
) -> None:
    """Shards lose writes at any time, even before events of an earlier loss have been counted
    again."""
    for seed in range(scaled(2, 200)):
        rng, expected = Random(seed), Counter[str]()
        losses = Losses(server, rng)
        file = written(tmp_path / f"events{seed}", events_of(rng, 60, expected))
        for _ in range(4):
            with suppress(SourceOvertaken):  # raised if all shards have lost the same batches
                count(
                    server.url,
                    file,
                    FOUR_FIELDS,
                    batch=rng.choice([7, 17, 1_000]),
                    on_progress=lambda *_, losses=losses: losses.happen(),
                    on_wait=losses.happen,
                )
            losses.happen()
            written(file, events_of(rng, rng.randrange(60), expected))
        count(server.url, file, FOUR_FIELDS)
        ensure_level(server.url, expected)


def test_other_batches_are_refused_while_shards_differ(server: Server, copies: ShardCopies) -> None:
    events = [(f"m{i}", 1) for i in range(MEMBERS)]
    with laurels.open(server.url) as lb:
        for number in range(1, 4):
            lb.submit_many("gifts", events, position=("source/source", str(number)))
            copies.copy()
        copies.put_back({OTHERS[0]: 0})
        before = {entry.member: entry.score for entry in lb.export("gifts")}
        for position in (("source/source", "4"), ("source/source", "4", "3")):
            with pytest.raises(ShardsDiffer) as differ:
                lb.submit_many("gifts", events, position=position)
            assert sorted(map(str, differ.value.positions)) == ["1", "3", "3"]
        with pytest.raises(ShardsDiffer):
            lb.submit_many("gifts", [], position=("source/source", "4", "3"))
        assert {entry.member: entry.score for entry in lb.export("gifts")} == before
        lb.submit_many("gifts", [], position=("source/source", "4"))
        assert lb.position("gifts", "source/source") == "4"
        lb.submit_many("gifts", events, position=("source/source", "5", "4"))


def test_positions_of_a_sink_never_differ_between_shards(
    server: Server, copies: ShardCopies
) -> None:
    with laurels.open(server.url) as lb:
        before = None
        for text in "1234":
            lb.submit_many("gifts", [], position=("sink:s", text, before))
            copies.copy()
            before = text
        keeper = position_shard("sink:s", SHARDS)
        copies.put_back({shard: 0 for shard in range(SHARDS) if shard != keeper})
        lb.submit_many("gifts", [], position=("sink:s", "5", "4"))
        assert lb.position("gifts", "sink:s") == "5"


def test_lost_events_are_counted_again_over_a_service(
    server: Server, copies: ShardCopies, tmp_path: Path
) -> None:
    rng, expected, file = Random(5), Counter[str](), tmp_path / "events"
    with Served(server.url, admin_key=ADMIN_KEY) as service:
        at = service.url.replace("://", f"://{ADMIN_KEY}@")
        for _ in range(3):
            copies.copy()
            written(file, events_of(rng, 40, expected))
            count(at, file, FOUR_FIELDS, batch=20)
        copies.put_back({OTHERS[0]: 1})
        done = count(at, file, FOUR_FIELDS, batch=20)
        assert done.metrics.recounted > 0
    ensure_level(server.url, expected)


def streamed(server: Server, events: Sequence[bytes]) -> None:
    pipeline = server.client.pipeline(transaction=False)
    for event in events:
        pipeline.xadd("events", {"event": event})
    pipeline.execute()


@pytest.mark.parametrize("age", [0, 1])
def test_lost_events_no_longer_in_the_stream_are_reported(
    server: Server, copies: ShardCopies, age: int
) -> None:
    rng, expected = Random(2), Counter[str]()
    stream = f"{server.url}/0/events"
    for _ in range(3):
        copies.copy()
        streamed(server, events_of(rng, 40, expected))
        count(server.url, stream, FOUR_FIELDS, batch=20)
    copies.put_back({OTHERS[0]: age})
    server.client.xtrim("events", maxlen=50, approximate=False)
    lost = scores(server.url, "gifts")
    for _ in range(2):
        with pytest.raises(SourceShardExpired, match="laurels rebuild"):
            count(server.url, stream, FOUR_FIELDS, batch=20)
    assert scores(server.url, "gifts") == lost
    assert count(server.url, stream, FOUR_FIELDS, batch=20, begin="start").metrics.recounted > 0
    totals = scores(server.url, "gifts")
    assert totals != expected
    assert all(lost.get(member, 0) <= totals[member] <= expected[member] for member in totals)
    streamed(server, events_of(rng, 10, expected))
    assert count(server.url, stream, FOUR_FIELDS).metrics.applied == 10


def test_another_stream_reports_no_lost_events(
    server: Server, copies: ShardCopies, tmp_path: Path
) -> None:
    rng, expected = Random(3), Counter[str]()
    for _ in range(3):
        copies.copy()
        written(tmp_path / "events", events_of(rng, 40, expected))
        count(server.url, tmp_path / "events", FOUR_FIELDS)
    copies.put_back({KEEPER: 1})
    more = Counter[str]()
    other = written(tmp_path / "other", events_of(rng, 40, more))
    with pytest.raises(SourceDiverged):
        count(server.url, other, FOUR_FIELDS)
    lost = Counter(scores(server.url, "gifts"))
    count(server.url, other, FOUR_FIELDS, begin="start")
    ensure_level(server.url, lost + more)


# Nodes of a cluster


class Node:
    """A node of a cluster whose data a test replaces by an older copy."""

    def __init__(self, node: Server, folder: Path) -> None:
        self._node = node
        self._saved = folder / "saved"
        self._data = node.folder / "appendonlydir"

    def copy(self) -> None:
        shutil.rmtree(self._saved, ignore_errors=True)
        shutil.copytree(self._data, self._saved)

    def lose(self) -> None:
        self._node.kill()
        shutil.rmtree(self._data)
        shutil.copytree(self._saved, self._data)
        self._node.start()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster("--appendfsync", "always") as cluster:
        yield cluster


@pytest.fixture(params=["redis", "nats"])
def stream(
    request: pytest.FixtureRequest, server: Server
) -> Iterator[tuple[str, Callable[[list[bytes]], object]]]:
    if request.param == "redis":
        server.call("FLUSHALL")
        yield f"{server.url}/0/events", lambda events: streamed(server, events)
        return
    with NatsServer() as nats:
        nats.create("EVENTS", "events")
        yield f"{nats.url}/EVENTS", lambda events: nats.publish("events", events)


def test_a_cluster_node_rolled_back_to_older_data_gets_the_lost_events_again(
    cluster: Cluster,
    stream: tuple[str, Callable[[list[bytes]], object]],
    tmp_path: Path,
    scaled: Scaled,
) -> None:
    """A board has two shards on two nodes. One node loses writes while the source is running, and
    again while it is stopped."""
    address, publish = stream
    for node in cluster.primaries:
        node.call("FLUSHALL")
    rng, expected = Random(4), Counter[str]()
    definitions = cluster.owner_of(b"{boards}")
    with laurels.open(cluster.url) as lb:
        store: Any = lb._store
        for number in range(60):
            name = f"gifts{number}"
            lb.create(laurels.Board(name, windows=["all", "day"], shards=2))
            own = store._catalog.boards.named(name).number
            nodes = [cluster.owner_of(f"{{{own}.{shard}}}".encode()) for shard in range(2)]
            if nodes[0] is not nodes[1] and definitions not in nodes:
                break
        else:
            raise AssertionError("expected a board with shards on two nodes")
    mapping = f'board="{name}",member=UserId,value=DeltaScore'
    how = ("source", "--from", address, "--at", cluster.url, "--map", mapping, "--json")
    for _ in range(scaled(1, 20)):
        for lost in rng.sample(nodes, scaled(1, 2)):
            losing = Node(lost, tmp_path)
            publish(events_of(rng, 60, expected))
            with SourceProcess(tmp_path, *how, "--batch", "10", prelude=TELLING) as source:
                source.wait_for_batches(rng.randrange(1, 4))
                losing.copy()
                source.wait_for_batches(2)
                losing.lose()
                cluster.wait_until_ok()
                publish(events_of(rng, 60, expected))
                source.wait_for_batches(2)
                source.child.kill()
            losing.copy()
            publish(events_of(rng, 60, expected))
            ended(tmp_path, *how)
            losing.lose()
            cluster.wait_until_ok()
            ended(tmp_path, *how)
            assert scores(cluster.url, name) == expected
    with laurels.open(cluster.url) as lb:
        lb.check()


def ended(folder: Path, *how: str) -> None:
    with SourceProcess(folder, *how, "--batch", "25", "--until-end") as source:
        code, _, err = source.ended()
    assert code == 0, err
