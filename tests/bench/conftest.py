"""Fixtures of the tests of the benchmarks. A benchmark collects garbage before each timing, which
takes long if other tests have filled the heap."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from bench.peers.redis_server import installed

from tests.redis.programs import skip_or_fail
from tests.redis.writing import patient


@pytest.fixture(autouse=True)
def small_heap() -> Iterator[None]:
    """Exclude the objects that exist before a test from garbage collection. After the test, also
    exclude the objects that it has created. Each later collection would otherwise take 0.3 s."""
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
    """Skip the test if redis-server is not installed; under CI, fail it. Comparisons need Redis
    itself, so a Valkey server does not replace it."""
    if not installed():
        skip_or_fail("redis-server is not installed: apt-get install -y redis-server")
