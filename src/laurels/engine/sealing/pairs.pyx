# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""Pairs of a member's hash and the number of the block with its entry, for the index of members.

Hashes have 63 bits. A page of the index has the hashes in one of `pages` equal intervals, and a
partition consecutive pages, so many that its pairs can be sorted in memory. `PairPartitions`
collects pairs by partition, in buffers of a fixed size; what is full is returned, to be put
elsewhere. A pair takes 12 bytes.
"""
cimport cython
from cpython cimport array
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort

from laurels.engine.buffers cimport BufferViews, acquire_buffer, release_buffers

cdef extern from *:
    ctypedef uint64_t uint128_t "unsigned __int128"

cdef packed struct Pair:
    uint64_t hash
    uint32_t block

cdef array.array LONGS = array.array("q")


cdef inline uint64_t page_at(uint64_t hashed, uint64_t pages) noexcept nogil:
    """Return the page that has a hash."""
    return <uint64_t>(<uint128_t>hashed * pages >> 63)


@cython.final
cdef class PairPartitions:
    """Buffers of pairs for the partitions of `pages` pages, `pages_together` a partition, each with
    room for `room` pairs."""

    cdef Pair *pairs
    cdef uint32_t *sizes
    cdef uint64_t pages
    cdef uint64_t together
    cdef uint32_t room
    cdef readonly uint32_t partitions

    def __cinit__(self, uint64_t pages, uint64_t pages_together, uint32_t room) -> None:
        if pages == 0 or pages_together == 0 or room == 0:
            raise ValueError("expected at least one page, one page a partition and room for a pair")
        self.pages = pages
        self.together = pages_together
        self.room = room
        self.partitions = <uint32_t>((pages + pages_together - 1) // pages_together)
        self.pairs = <Pair *>malloc(<uint64_t>self.partitions * room * sizeof(Pair))
        self.sizes = <uint32_t *>calloc(self.partitions, sizeof(uint32_t))
        if self.pairs == NULL or self.sizes == NULL:
            raise MemoryError

    def __dealloc__(self) -> None:
        free(self.pairs)
        free(self.sizes)

    def add(self, array.array hashes not None, uint32_t block) -> list[tuple[int, bytes]]:
        """Add the members of a block by their hashes (an array "Q" of at most 63 bits each). Return
        the buffers that became full, each with its partition, and empty them. O(members)."""
        cdef const uint64_t *hashed = <const uint64_t *>hashes.data.as_ulonglongs
        cdef list full = []
        cdef uint64_t partition
        cdef Pair *pair
        cdef Py_ssize_t i
        if hashes.typecode != "Q":
            raise TypeError("expected an array of format 'Q'")
        for i in range(len(hashes)):
            if hashed[i] >> 63:
                raise ValueError("expected hashes of at most 63 bits")
            partition = page_at(hashed[i], self.pages) // self.together
            pair = self.pairs + partition * self.room + self.sizes[partition]
            pair.hash = hashed[i]
            pair.block = block
            self.sizes[partition] += 1
            if self.sizes[partition] == self.room:
                full.append((partition, self.take(partition)))
        return full

    def take(self, uint32_t partition) -> bytes:
        """Return the pairs in the buffer of a partition, and empty it."""
        cdef uint32_t size
        if partition >= self.partitions:
            raise IndexError(f"no partition has the number {partition}")
        size = self.sizes[partition]
        self.sizes[partition] = 0
        return PyBytes_FromStringAndSize(
            <const char *>(self.pairs + <uint64_t>partition * self.room), size * sizeof(Pair))


cdef int compare_pairs(const void *left, const void *right) noexcept nogil:
    cdef const Pair *a = <const Pair *>left
    cdef const Pair *b = <const Pair *>right
    if a.hash != b.hash:
        return -1 if a.hash < b.hash else 1
    return (a.block > b.block) - (a.block < b.block)


def sort_pairs(pairs: bytearray) -> None:
    """Sort pairs by hash, and equal ones by block. O(n log n), without the GIL."""
    cdef BufferViews buffers
    cdef void *first
    cdef Py_ssize_t count
    buffers.count = 0
    try:
        acquire_buffer(&buffers, pairs, c'B', True)
        if buffers.views[0].len % <Py_ssize_t>sizeof(Pair):
            raise ValueError("expected whole pairs")
        first = buffers.views[0].buf
        count = buffers.views[0].len // <Py_ssize_t>sizeof(Pair)
        with nogil:
            qsort(first, count, sizeof(Pair), compare_pairs)
    finally:
        release_buffers(&buffers)


def page_pairs(pairs: bytearray, Py_ssize_t start, uint64_t pages, uint64_t page, int least_bits,
               ) -> tuple[Py_ssize_t, int, array.array, array.array]:
    """Return a page of sorted pairs, whose first pair is number `start`.

    The results are: where the next page begins, after how many bits its hashes are cut off, the cut
    hashes in ascending order, and the blocks, both as int64. The cut hashes of different members
    differ, unless all 63 bits are equal; they have at least `least_bits` bits. O(pairs of the
    page).
    """
    cdef BufferViews buffers
    cdef const Pair *first
    cdef Py_ssize_t count, stop = start, i
    cdef uint64_t nearest = <uint64_t>1 << 63
    cdef int bits = 0
    cdef array.array hashes, blocks
    buffers.count = 0
    try:
        acquire_buffer(&buffers, pairs, c'B')
        count = buffers.views[0].len // <Py_ssize_t>sizeof(Pair)
        first = <const Pair *>buffers.views[0].buf
        if start < 0 or least_bits < 1 or least_bits > 63:
            raise ValueError("expected a start of at least 0, and 1 to 63 bits")
        while stop < count and page_at(first[stop].hash, pages) == page:
            if stop > start:
                nearest = min(nearest, first[stop].hash ^ first[stop - 1].hash)
            stop += 1
        if stop - start < 2:
            nearest = 0
        while nearest >> bits:
            bits += 1
        bits = min(63, max(least_bits, 64 - bits))
        hashes = array.clone(LONGS, stop - start, False)
        blocks = array.clone(LONGS, stop - start, False)
        for i in range(stop - start):
            hashes.data.as_longlongs[i] = <int64_t>(first[start + i].hash >> 63 - bits)
            blocks.data.as_longlongs[i] = first[start + i].block
        return stop, bits, hashes, blocks
    finally:
        release_buffers(&buffers)
