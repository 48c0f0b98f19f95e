"""Fixtures of the tests of the benchmarks, which collect garbage before each timing; that takes
long if other tests have filled the heap."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from bench.peers.redis_server import installed

from tests.redis.programs import skip_or_fail
from tests.redis.writing import patient


@pytest.fixture(autouse=True)
def small_heap() -> Iterator[None]:
    """Exclude the objects that exist before a test from garbage collections during it. They stay
    excluded afterwards: otherwise each later collection of this worker would take 0.3 s."""
    gc.collect()
    gc.freeze()
    yield
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def patient_calls() -> Iterator[None]:
    """Let calls of an index server take as long as they may take on a busy machine."""
    with patient():
        yield


@pytest.fixture
def needs_redis() -> None:
    """Skip a comparison with Redis where it is not installed: a Valkey does not stand in for it."""
    if not installed():
        skip_or_fail("redis-server is not installed: apt-get install -y redis-server")
