"""How a server process uses memory: Python's collector and the allocator of the C library.

glibc gives each thread an arena of its own, up to eight a core, and an arena keeps what its thread
freed. Bodies are decoded and snapshots taken by many threads in turn, so each arena came to hold
the most that its thread ever needed at once: 91 of 149 MiB were free in a server that had run for
20 minutes. Two arenas are enough where one thread at a time runs Python.
"""

import ctypes
import gc

_NEW_OBJECTS = 20_000
"""After so many more of them the collector looks; Python's own number is 700."""
_M_ARENA_MAX = -8
_ARENAS = 2


def share_arenas() -> None:
    """Have all threads that begin from now on share two arenas. Does nothing where the C library
    has no `mallopt`."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(ctypes.c_int(_M_ARENA_MAX), ctypes.c_int(_ARENAS))


def settle_collector() -> None:
    """Have Python's collector look for cycles more rarely, and not at what is there for good:
    requests leave hardly any behind, and their objects are many. Once the store is open."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)
