"""Memory of a server process: Python's garbage collector and the allocator of the C library.

glibc gives each thread an arena of its own, up to eight per core, and an arena keeps the memory
that its thread has freed. Many threads decode bodies and write snapshots in turn, so each arena
grew to the most that its thread ever needed at once: 91 of 149 MiB were free in a server that had
run for 20 minutes. Two arenas are enough, since only one thread at a time runs Python.

By itself, an arena returns only the free memory at its end to the system. On an overloaded machine,
a snapshot once needed 35 MiB more than usual for a moment. Meanwhile other objects were allocated
above this memory, and they stayed when it was freed. So the memory was not at the end of the arena
and was not returned, and the process grew by 35 MiB with each such snapshot. Therefore free memory
below such objects is returned here, once there is much of it.
"""

import asyncio
import ctypes
import gc
import mmap
from collections.abc import Callable
from pathlib import Path

_STATM = Path("/proc/self/statm")
_COLLECTIONS = (5_000, 5, 10)
"""The thresholds of Python's garbage collector. The first is the number of new objects before a
collection of the youngest generation; the others are numbers of collections of a generation before
a collection of the next generation.

A large body creates hundreds of thousands of objects. With thresholds of 20,000 and 200,000 objects
a collection stopped the process for 60 ms and more.
"""
_M_ARENA_MAX = -8
_ARENAS = 2
_CHECK_SECONDS = 60.0
_LEAST_FREE = 24 << 20
_FREE_SHARE = 4
"""Free memory is returned to the system only if there is more of it than `_LEAST_FREE` bytes, and
more than the bytes in use divided by `_FREE_SHARE`. Returning a MiB takes about 0.4 ms, during
which threads that allocate memory wait."""
_GROWN = 12 << 20
"""A second condition: memory is returned only if the process has grown by this many bytes since the
last time. Memory that was returned still counts as free, so the number of free bytes alone would
not show growth."""


class _Mallinfo(ctypes.Structure):
    """The result of `mallinfo2` for all arenas: the number of bytes in use, and the number of free
    bytes. Free bytes are counted even if they were already returned to the system."""

    _fields_ = (
        ("others", ctypes.c_size_t * 7),
        ("uordblks", ctypes.c_size_t),
        ("fordblks", ctypes.c_size_t),
        ("keepcost", ctypes.c_size_t),
    )
    uordblks: int
    fordblks: int


def share_arenas() -> None:
    """Make all threads that start from now on share two arenas. Does nothing if the C library has
    no `mallopt`."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(ctypes.c_int(_M_ARENA_MAX), ctypes.c_int(_ARENAS))


def settle_collector() -> None:
    """Make Python's collector run less often and ignore the objects that exist now.

    Requests leave few reference cycles behind, and the store has many objects. Call this function
    once the store is open.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTIONS)


async def return_free_memory() -> None:
    """Return free memory to the system whenever there is much of it, until the task is cancelled.
    Do nothing if the C library or the system does not support this."""
    library = ctypes.CDLL(None)
    info, trim = getattr(library, "mallinfo2", None), getattr(library, "malloc_trim", None)
    if info is None or trim is None or not _STATM.exists():
        return
    info.restype = _Mallinfo
    returning = _Returning(info, trim, _resident)
    while True:
        await asyncio.sleep(_CHECK_SECONDS)
        await asyncio.to_thread(returning.check)


def _resident() -> int:
    """Return the resident memory of the process in bytes."""
    return int(_STATM.read_text().split()[1]) * mmap.PAGESIZE


class _Returning:
    """Returns free memory to the system when there is much of it and the process has grown since
    the last time."""

    def __init__(
        self,
        info: Callable[[], _Mallinfo],
        trim: Callable[[int], object],
        resident: Callable[[], int],
    ) -> None:
        self._info = info
        self._trim = trim
        self._resident = resident
        self._left = 0

    def check(self) -> None:
        heap, resident = self._info(), self._resident()
        self._left = min(self._left, resident)
        much = max(_LEAST_FREE, heap.uordblks // _FREE_SHARE)
        if heap.fordblks > much and resident - self._left > _GROWN:
            self._trim(0)
            self._left = self._resident()
