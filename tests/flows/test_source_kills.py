"""A source is killed at random moments. When it continues, even with batches of another size, it
counts everything once.

`make torture` runs these tests with more kills.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from random import Random

import msgspec
import pytest

import laurels
from tests.conftest import Scaled
from tests.redis.servers import Server
from tests.serving import Served

from .nats_servers import NatsServer
from .sourcing import FOUR_FIELDS, SourceProcess, four_fields, written

SEED = 20_261_124
FIRST, MORE = 1_500, 300
"""The number of events that the stream has before the first run, and the number that arrive during
each run."""

FEW = [("file", "folder"), ("redis", "shards"), ("nats", "shards")]
"""The pairs of a stream and a store that every run tests; `make torture` tests all pairs."""

TELLING = "from laurels.cli.flows import source_run\nsource_run.PROGRESS_SECONDS = 0.0"
"""Code that makes a source print a line for each batch. When a test reads the line, the source has
already continued."""

Publish = Callable[[list[bytes]], object]
Expected = dict[str, Counter[str]]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("--appendfsync", "always") as running:
        yield running


@pytest.fixture
def stream(
    request: pytest.FixtureRequest, server: Server, tmp_path: Path
) -> Iterator[tuple[str, Publish]]:
    """Yield the address of an empty stream, and a function that publishes events there."""
    if request.param == "nats":
        with NatsServer() as nats:
            nats.create("EVENTS", "events")
            yield f"{nats.url}/EVENTS", lambda events: nats.publish("events", events)
    elif request.param == "redis":
        yield f"{server.url}/1/events", lambda events: publish(server, events)
        server.client.flushall()
    else:
        path = tmp_path / "events.jsonl"
        path.touch()
        yield str(path), lambda events: written(path, events)


@pytest.fixture
def boards(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> Iterator[str]:
    """Yield the URL of the boards a to d."""
    on_server = request.param in ("server", "shards")
    url = f"{server.url}/0" if on_server else str(tmp_path / "boards")
    with laurels.open(url) as lb:
        for name, shards in zip("abcd", (2, 3, 1, 1), strict=True):
            count = shards if request.param == "shards" else 1
            lb.create(laurels.Board(name, windows=["all", "day"], shards=count))
    if request.param == "service":
        with Served(url) as service:
            yield service.url
    else:
        yield url
    server.client.flushall()


def publish(server: Server, events: list[bytes]) -> None:
    pipeline = server.client.pipeline(transaction=False)
    pipeline.select(1)
    for event in events:
        pipeline.xadd("events", {"event": event})
    pipeline.execute()


def events_of(rng: Random, count: int, expected: Expected) -> list[bytes]:
    """Return events of the four boards, events of an unknown board, and messages that are not
    events."""
    messages = []
    for _ in range(count):
        board, member = rng.choice("aaabbcx"), f"m{rng.randrange(40)}"
        value = rng.randrange(1, 9)
        if rng.random() < 0.01:
            messages.append(b"{nonsense")
            continue
        messages.append(four_fields(board, member, value))
        if board != "x":
            expected[board][member] += value
    return messages


@pytest.mark.parametrize(
    ("stream", "boards"),
    [
        *FEW,
        *[
            pytest.param(stream, boards, marks=pytest.mark.torture)
            for stream, boards in product(
                ["file", "redis", "nats"], ["folder", "server", "shards", "service"]
            )
            if (stream, boards) not in FEW
        ],
    ],
    indirect=True,
)
def test_published_events_count_once_despite_kills(
    stream: tuple[str, Publish], boards: str, tmp_path: Path, scaled: Scaled
) -> None:
    address, publish_events = stream
    rng, expected = Random(SEED), {name: Counter[str]() for name in "abcd"}
    options = ("source", "--from", address, "--at", boards, "--map", FOUR_FIELDS, "--json")
    publish_events(events_of(rng, FIRST, expected))
    for _ in range(scaled(2, 100)):
        batch = rng.choice([3, 17, 60])
        with SourceProcess(tmp_path, *options, "--batch", str(batch), prelude=TELLING) as source:
            source.wait_for_batches(1)
            publish_events(events_of(rng, MORE, expected))
            source.wait_for_batches(rng.randrange(MORE // batch))
            source.child.kill()
    with SourceProcess(tmp_path, *options, "--until-end") as source:
        code, out, err = source.ended()
    assert code in (0, 1), err
    with laurels.open(boards) as lb:
        for name, members in expected.items():
            counted = {entry.member: entry.score for entry in lb.export(name)}
            assert counted == members
        lb.check()
    rejects = (tmp_path / "source.rejects.jsonl").read_bytes().splitlines()
    positions = [msgspec.json.decode(line)["position"] for line in rejects]
    assert len(set(positions)) == len(positions), "a message was rejected twice"
    assert msgspec.json.decode(out)["position"] != "0"
