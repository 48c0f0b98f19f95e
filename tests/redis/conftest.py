"""Fixtures: an index server that all tests of a file share, boards that several processes open, and
a clock that only the tests move."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import laurels
from tests.contract.deployments import Divided, OnRedis

from .servers import Server
from .writing import patient

NOW = 1_795_219_200_000
"""The start of Saturday, 21 November 2026, UTC."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Run one server for all tests of a file."""
    with Server() as running:
        yield running


@pytest.fixture
def emptied(server: Server) -> None:
    """Remove everything that earlier tests wrote to the server."""
    server.call("FLUSHALL")


@pytest.fixture
def clock() -> laurels.ManualClock:
    return laurels.ManualClock(NOW)


@pytest.fixture(params=[OnRedis, Divided], ids=["one shard", "three shards"])
def opened(
    request: pytest.FixtureRequest, tmp_path: Path, clock: laurels.ManualClock
) -> Iterator[Callable[[], laurels.Leaderboards]]:
    """Return a function that opens the same boards as one more process would."""
    place = request.param(tmp_path / "laurels-data", clock)
    with ExitStack() as stack, patient():
        stack.callback(place.close)
        yield lambda: stack.enter_context(laurels.open(place.url, clock=clock))
