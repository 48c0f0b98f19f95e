"""Benches tidy the heap before each timing, which takes long where other tests have filled it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.redis.writing import patient


@pytest.fixture(autouse=True)
def small_heap() -> Iterator[None]:
    """Exclude the objects that exist before a test from the collections during it.

    They stay excluded afterwards: with all of them back, each later collection of this worker
    would take 0.3 s.
    """
    gc.collect()
    gc.freeze()
    yield
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def patient_calls() -> Iterator[None]:
    """Have calls of an index server wait for it as long as a busy machine may take."""
    with patient():
        yield
