"""Benches tidy the heap before each timing, which takes long where other tests have filled it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def small_heap(request: pytest.FixtureRequest) -> Iterator[None]:
    """What is there before a test of a bench is not looked at again during it."""
    if "test_bench" not in request.node.nodeid:
        yield
        return
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
