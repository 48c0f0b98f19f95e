# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""Consecutive entries of a ranked set as columns, without a Python object for each entry."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from laurels.engine.roster.roster cimport Names, group_of, name_of
from .leaf cimport WORDS_MOST
from .ranked_set cimport RankedSet, slice_all
from .rows cimport new_columns

cdef extern from *:
    void prefetch "__builtin_prefetch" (const void *) noexcept nogil

cdef enum:
    EXPORTED_MOST = 4_096       # the most entries of a call
    AHEAD = 16                  # how many entries before it is read a name is prefetched


cdef uint64_t measure_names(const Names *names, const uint32_t *ids, uint64_t count,
                            uint8_t *lengths) noexcept nogil:
    """Set the number of bytes of each name, and return their sum."""
    cdef uint64_t total = 0, i
    cdef uint32_t length = 0
    for i in range(count):
        if i + AHEAD < count:
            prefetch(group_of(names, ids[i + AHEAD]))
        name_of(names, ids[i], &length)
        lengths[i] = <uint8_t>length
        total += length
    return total


cdef void copy_names(const Names *names, const uint32_t *ids, uint64_t count,
                     uint8_t *arena) noexcept nogil:
    cdef const uint8_t *name
    cdef uint32_t length = 0
    cdef uint64_t i
    for i in range(count):
        name = name_of(names, ids[i], &length)
        memcpy(arena, name, length)
        arena += length


def export_entries(RankedSet ranking not None, start: int,
                   stop: int) -> tuple[bytes, bytes, list[object]]:
    """Return the entries at the positions `start` to `stop - 1`, in order: their concatenated
    members, the number of bytes of each (one byte each), and one array of int64 per word.

    Positions past the end are left out. At most 4,096 entries are returned. The GIL is not
    released: callers have a lock that readers wait for, and a thread that gets the GIL only after
    others keeps them waiting. O(log n + entries).
    """
    cdef uint32_t ids[EXPORTED_MOST]
    cdef int64_t *columns[WORDS_MOST]
    cdef uint64_t first = max(0, min(start, ranking.tree.size))
    cdef uint64_t count = max(0, min(stop, ranking.tree.size) - <int64_t>first)
    cdef uint64_t size
    cdef bytes lengths, arena
    cdef uint8_t *length
    cdef uint8_t *at
    count = min(count, <uint64_t>EXPORTED_MOST)
    lengths = PyBytes_FromStringAndSize(NULL, count)
    length = <uint8_t *>PyBytes_AS_STRING(lengths)
    words = new_columns(ranking.tree.words, count, columns)
    slice_all(&ranking.tree, first, count, ids, columns)
    size = measure_names(&ranking.roster.registry, ids, count, length)
    arena = PyBytes_FromStringAndSize(NULL, size)
    at = <uint8_t *>PyBytes_AS_STRING(arena)
    copy_names(&ranking.roster.registry, ids, count, at)
    return arena, lengths, words
