"""After any number of kills, a target lacks no change, has no change twice, and has all changes in
order.

The events come from a client of the service. At random moments, the test kills the sink, which is a
process of its own, or the target, each time after the target has received more changes. `make
torture` runs the tests with many kills.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

import laurels
from tests.conftest import Scaled
from tests.counts import rare
from tests.redis.servers import until
from tests.serving import ADMIN_KEY, Served

from .killing import BOARD, Load, SinkProcess, Tally, judge, target

BATCHES = 12
"""A kill happens at most this many batches after the arrival of the first change."""


@contextmanager
def served(folder: Path) -> Iterator[tuple[Served, laurels.Leaderboards]]:
    with (
        Served(folder, admin_key=ADMIN_KEY) as server,
        laurels.open(server.url.replace("//", f"//{ADMIN_KEY}@")) as lb,
    ):
        lb.create(BOARD)
        yield server, lb


@pytest.mark.parametrize(
    "kind", ["postgres", "sqlite", "nats", "webhook", *rare("mariadb", "redis", "lines")]
)
def test_a_target_is_exact_after_kills_of_its_sink(
    kind: str, tmp_path: Path, scaled: Scaled
) -> None:
    """A target may have changes twice only if it neither stores positions nor detects repeated
    ids."""
    random, tally = Random(f"sink {kind}"), Tally()
    with (
        served(tmp_path / "boards") as (server, lb),
        target(kind, tmp_path) as to,
        SinkProcess(server.url, to.url, tmp_path) as sink,
    ):
        load = Load(lb, random)
        for _ in range(scaled(2, 100)):
            load.write(random.randrange(1, BATCHES))
            before = to.progress()
            sink.start()
            sink.wait_for(lambda: to.progress() != before, "the sink has sent something")  # noqa: B023
            load.write(random.randrange(BATCHES))
            sink.kill()
            tally.count(progressed=to.progress() != before)
        sink.finish()
        judge(kind, to, lb, load, tally)


@pytest.mark.parametrize("kind", ["mariadb", *rare("postgres", "redis", "nats")])
def test_a_target_is_exact_after_kills_of_its_server(
    kind: str, tmp_path: Path, scaled: Scaled
) -> None:
    random, tally = Random(f"server {kind}"), Tally()
    with (
        served(tmp_path / "boards") as (server, lb),
        target(kind, tmp_path) as to,
        SinkProcess(server.url, to.url, tmp_path) as sink,
    ):
        load, before = Load(lb, random), to.progress()
        sink.start()
        for _ in range(scaled(2, 50)):
            load.write(random.randrange(1, BATCHES))
            sink.wait_for(lambda: to.progress() not in (None, before), "the sink continues")  # noqa: B023
            load.write(random.randrange(BATCHES))
            tally.count(progressed=to.progress() not in (None, before))
            to.program.kill()
            load.write()
            to.program.start()
            until(lambda: to.progress() is not None, "the server answers")
            before = to.progress()
        sink.finish()
        judge(kind, to, lb, load, tally)
