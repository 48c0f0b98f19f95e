"""The cost of a random read on this machine, by the size of the block of memory.

A ring links all cache lines of a block in random order. Each read returns the location of the next
line, so the processor cannot prefetch that line. The block comes from malloc, like the engine's
memory.
"""

import ctypes
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LINE_BYTES = 64
_COMPILER = "cc"
_SOURCE = """
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

uint64_t *ring(uint64_t lines)
{
    uint64_t *made = malloc(lines * 64), seed = 88172645463325252u;
    if (!made)
        return NULL;
    for (uint64_t i = 0; i < lines; i++)
        made[8 * i] = i;
    for (uint64_t i = lines - 1; i > 0; i--) { /* Sattolo: one ring through them all */
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        uint64_t other = seed % i, line = made[8 * i];
        made[8 * i] = made[8 * other], made[8 * other] = line;
    }
    return made;
}

double walk(const uint64_t *ring, uint64_t reads, uint64_t *at)
{
    struct timespec begun, ended;
    uint64_t line = *at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begun);
    for (uint64_t i = 0; i < reads; i++)
        line = ring[8 * line];
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ended);
    *at = line;
    return ((ended.tv_sec - begun.tv_sec) * 1e9 + (ended.tv_nsec - begun.tv_nsec)) / reads;
}

void drop(uint64_t *ring) { free(ring); }
"""


class Ring:
    """A block of memory whose lines are linked as a ring, and the line to read next."""

    def __init__(self, library: ctypes.CDLL, block: int) -> None:
        self._library, self._block = library, ctypes.c_void_p(block)
        self._at = ctypes.c_uint64(0)

    def nanoseconds(self, reads: int) -> float:
        """Return the mean processor time of this many reads, in ns."""
        spent = self._library.walk(self._block, ctypes.c_uint64(reads), ctypes.byref(self._at))
        return float(spent)


class Chase:
    """The compiled program for the reads. Its file is deleted after it is loaded."""

    def __init__(self) -> None:
        with tempfile.TemporaryDirectory(prefix="laurels-bench-") as folder:
            source, library = Path(folder) / "chase.c", Path(folder) / "chase.so"
            source.write_text(_SOURCE)
            subprocess.run(
                [_COMPILER, "-O2", "-shared", "-fPIC", "-o", str(library), str(source)], check=True
            )
            self._library = ctypes.CDLL(str(library))
        self._library.ring.restype = ctypes.c_void_p
        self._library.walk.restype = ctypes.c_double

    @contextmanager
    def ring(self, nbytes: int) -> Iterator[Ring]:
        """Return a ring through a block of this many bytes. Raise MemoryError if there is not
        enough memory."""
        block = self._library.ring(ctypes.c_uint64(max(2, nbytes // LINE_BYTES)))
        if block is None:
            raise MemoryError(f"no room for a block of {nbytes:,} bytes")
        try:
            yield Ring(self._library, block)
        finally:
            self._library.drop(ctypes.c_void_p(block))
