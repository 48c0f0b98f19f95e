"""Free memory goes back to the system when it is much."""

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from laurels.server import process_memory

MIB = 1 << 20


@pytest.mark.parametrize(
    ("used", "free", "returned"),
    [(10, 20, 0), (10, 25, 1), (80, 25, 1), (120, 25, 0), (120, 31, 1), (4_000, 900, 0)],
)
def test_it_is_returned_when_it_is_much(used: int, free: int, returned: int) -> None:
    calls: list[int] = []
    found: Any = SimpleNamespace(uordblks=used * MIB, fordblks=free * MIB)
    process_memory._Returning(lambda: found, calls.append).look()
    assert calls == [0] * returned


def test_it_is_returned_anew_when_as_much_became_free_again() -> None:
    calls: list[int] = []
    free = iter([40, 38, 60, 63, 64, 10, 34, 35, 35])
    found = (SimpleNamespace(uordblks=0, fordblks=each * MIB) for each in free)
    returning = process_memory._Returning(lambda: next(found), calls.append)  # type: ignore[arg-type, return-value]
    counts = []
    for _ in range(6):
        returning.look()
        counts.append(len(calls))
    assert counts == [1, 1, 2, 2, 2, 3]


def test_what_the_allocator_says_is_read_from_the_right_places() -> None:
    info = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if info is None:
        pytest.skip("the C library has no mallinfo2")
    info.restype = process_memory._Mallinfo
    before = info().uordblks
    kept = bytearray(100_000)
    assert len(kept) <= info().uordblks - before < 2 * len(kept)
