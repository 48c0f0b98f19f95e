# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The order in which the events of a batch are visited: as they came, or neighbours together.

The branches above the leaves of a large ranking are beyond the nearest cache, and a search in one
waits for several of their lines, each known only by the one before. Where every event is of another
member, as when members are loaded, none sees what another did, so any order counts the same. In the
order of their first values, new members come to one branch after another, which is still at hand
from the event before.
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport malloc
from libc.string cimport memset

cdef enum:
    VISITS_LEAST = 256          # events from which an order of their own pays
    DIGITS = 256

cdef struct Visit:
    uint64_t key                # the first value, as an unsigned word of the same order
    uint32_t event

cdef inline bint are_distinct(const uint32_t *ids, Py_ssize_t count) noexcept nogil:
    """Whether ids ascend, as those of new members do: then none occurs twice."""
    cdef Py_ssize_t i
    for i in range(1, count):
        if ids[i - 1] >= ids[i]:
            return False
    return True

cdef inline void spread(const Visit *visits, Visit *to, Py_ssize_t count, int shift) noexcept nogil:
    """Order visits by one byte of their keys, those alike as they were."""
    cdef Py_ssize_t starts[DIGITS]
    cdef Py_ssize_t start = 0
    cdef Py_ssize_t i, size
    memset(starts, 0, sizeof(starts))
    for i in range(count):
        starts[visits[i].key >> shift & 0xFF] += 1
    for i in range(DIGITS):
        size = starts[i]
        starts[i] = start
        start += size
    for i in range(count):
        to[starts[visits[i].key >> shift & 0xFF]] = visits[i]
        starts[visits[i].key >> shift & 0xFF] += 1

cdef inline const Visit *sort_visits(Visit *visits, Visit *spare, Py_ssize_t count) noexcept nogil:
    """Order visits by their keys; where they are then. O(n) for each byte in which keys differ."""
    cdef uint64_t differing = 0
    cdef Visit *swapped
    cdef Py_ssize_t i
    cdef int shift
    for i in range(count):
        differing |= visits[i].key ^ visits[0].key
    for shift in range(0, 64, 8):
        if differing >> shift & 0xFF:
            spread(visits, spare, count, shift)
            swapped = visits
            visits = spare
            spare = swapped
    return visits

cdef inline const Visit *order_visits(const int64_t *values, Py_ssize_t start, Py_ssize_t count,
                                      Visit **room) noexcept nogil:
    """The events of a batch in the order of their values, in room to free; NULL without memory."""
    cdef Visit *visits = <Visit *>malloc(2 * count * sizeof(Visit))
    cdef Py_ssize_t i
    room[0] = visits
    if visits == NULL:
        return NULL
    for i in range(count):
        visits[i].key = <uint64_t>values[start + i] ^ <uint64_t>1 << 63
        visits[i].event = <uint32_t>(start + i)
    return sort_visits(visits, visits + count, count)
