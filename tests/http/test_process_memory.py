"""A process with much unused memory returns that memory to the operating system."""

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from laurels.server.process import process_memory

MIB = 1 << 20


@pytest.mark.parametrize(
    ("used", "free", "returned"),
    [(10, 20, 0), (10, 25, 1), (80, 25, 1), (120, 25, 0), (120, 31, 1), (4_000, 900, 0)],
)
def test_memory_is_returned_when_much_is_free(used: int, free: int, returned: int) -> None:
    calls: list[int] = []
    heap: Any = SimpleNamespace(uordblks=used * MIB, fordblks=free * MIB)
    process_memory._Returning(lambda: heap, calls.append, lambda: 200 * MIB).check()
    assert calls == [0] * returned


def test_memory_is_returned_again_after_renewed_growth() -> None:
    calls: list[int] = []
    heap: Any = SimpleNamespace(uordblks=80 * MIB, fordblks=40 * MIB)
    resident = [200, 150, 155, 162, 163, 150, 140, 152, 153, 150]
    returning = process_memory._Returning(lambda: heap, calls.append, lambda: resident.pop(0) * MIB)
    counts = []
    while resident:
        returning.check()
        counts.append(len(calls))
    assert counts == [1, 1, 1, 2, 2, 2, 3]


def test_allocator_statistics_are_read_from_the_right_fields() -> None:
    info = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if info is None:
        pytest.skip("the C library has no function mallinfo2")
    info.restype = process_memory._Mallinfo
    before = info().uordblks
    kept = bytearray(100_000)
    assert len(kept) <= info().uordblks - before < 2 * len(kept)
