"""Fixtures of the tests of the benchmarks. These collect garbage before each timing, which takes
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
    """Exclude the objects that exist before a test from garbage collection. Those of the test are
    excluded afterwards, because each later collection would otherwise take 0.3 s."""
    gc.collect()
    gc.freeze()
    yield
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def patient_calls() -> Iterator[None]:
    """Let calls to an index server take as long as they need on a busy machine."""
    with patient():
        yield


@pytest.fixture
def needs_redis() -> None:
    """Skip the test without redis-server, or fail under CI. A Valkey server is no replacement in a
    comparison."""
    if not installed():
        skip_or_fail("redis-server is not installed: apt-get install -y redis-server")
