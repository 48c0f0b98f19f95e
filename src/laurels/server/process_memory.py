"""Memory of a server process: Python's collector and the allocator of the C library.

glibc gives each thread an arena of its own, up to eight a core, and an arena keeps what its thread
freed. Bodies are decoded and snapshots taken by many threads in turn, so each arena came to hold
the most that its thread ever needed at once: 91 of 149 MiB were free in a server that had run for
20 minutes. Two arenas are enough where one thread at a time runs Python.

An arena only gives back free memory at its end. A snapshot taken on an overloaded machine needed 35
MiB more than others for a moment; what was allocated meanwhile and stayed prevented them from being
given back, and the process grew by that much each time. So free memory in between is given back
when it is much.
"""

import asyncio
import ctypes
import gc
import mmap
from collections.abc import Callable
from pathlib import Path

_STATM = Path("/proc/self/statm")
_COLLECTIONS = (5_000, 5, 10)
"""New objects until a collection of the youngest, and collections of a generation until one of the
next. A large body makes hundreds of thousands of objects: in steps of 20,000 and 200,000 the
collector held everybody up for 60 ms and more."""
_M_ARENA_MAX = -8
_ARENAS = 2
_LOOK_SECONDS = 60.0
_LEAST_FREE = 24 << 20
_FREE_SHARE = 4
"""Memory is given back when this much, and this share of what is in use, is free. That takes about
0.4 ms a MiB, during which threads that allocate wait."""
_GROWN = 12 << 20
"""By so much the process has to have grown since: what was given back counts as free as well."""


class _Mallinfo(ctypes.Structure):
    """The result of `mallinfo2` for all arenas: bytes in use, and bytes that are free, given back
    or not."""

    _fields_ = (
        ("others", ctypes.c_size_t * 7),
        ("uordblks", ctypes.c_size_t),
        ("fordblks", ctypes.c_size_t),
        ("keepcost", ctypes.c_size_t),
    )
    uordblks: int
    fordblks: int


def share_arenas() -> None:
    """Have all threads that begin from now on share two arenas. Does nothing where the C library
    has no `mallopt`."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(ctypes.c_int(_M_ARENA_MAX), ctypes.c_int(_ARENAS))


def settle_collector() -> None:
    """Make Python's collector run more rarely and ignore the objects that exist now: requests leave
    hardly any cycles behind, and their objects are many. Call it once the store is open."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTIONS)


async def return_free_memory() -> None:
    """Give free memory back to the system whenever it has become much, until cancelled. Ends at
    once where the C library or the system cannot."""
    library = ctypes.CDLL(None)
    info, trim = getattr(library, "mallinfo2", None), getattr(library, "malloc_trim", None)
    if info is None or trim is None or not _STATM.exists():
        return
    info.restype = _Mallinfo
    returning = _Returning(info, trim, _resident)
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        await asyncio.to_thread(returning.look)


def _resident() -> int:
    """Return how many bytes of the process are in memory."""
    return int(_STATM.read_text().split()[1]) * mmap.PAGESIZE


class _Returning:
    """Gives back what has become free since it did so the last time."""

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

    def look(self) -> None:
        found, resident = self._info(), self._resident()
        self._left = min(self._left, resident)
        much = max(_LEAST_FREE, found.uordblks // _FREE_SHARE)
        if found.fordblks > much and resident - self._left > _GROWN:
            self._trim(0)
            self._left = self._resident()
