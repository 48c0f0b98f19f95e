# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""Columns of a sealed ranking: integers as byte planes, and the scores that entries share."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint64_t

from laurels.engine.buffers cimport BufferViews, acquire_buffer, items, longs, release_buffers

cdef enum:
    COLUMNS_MOST = 28


cdef bint is_ascending(const int64_t *values, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(1, count):
        if values[i] < values[i - 1]:
            return False
    return True


cdef int64_t least(const int64_t *values, Py_ssize_t count) noexcept nogil:
    cdef int64_t found = values[0]
    cdef Py_ssize_t i
    for i in range(1, count):
        found = min(found, values[i])
    return found


cdef inline uint64_t excess(const int64_t *values, Py_ssize_t i, bint ascends,
                            int64_t base) noexcept nogil:
    """Return what is stored for a value: the difference to the one before it, or to the base."""
    if ascends:
        return <uint64_t>values[i] - <uint64_t>values[i - 1]
    return <uint64_t>values[i] - <uint64_t>base


cdef int width_of(const int64_t *values, Py_ssize_t first, Py_ssize_t count, bint ascends,
                  int64_t base) noexcept nogil:
    """Return how many bytes the greatest of the stored numbers needs."""
    cdef uint64_t bits = 0
    cdef int width = 0
    cdef Py_ssize_t i
    for i in range(first, count):
        bits |= excess(values, i, ascends, base)
    while bits:
        bits >>= 8
        width += 1
    return width


def byte_planes(values: object) -> tuple[bool, int, int, bytes]:
    """Return the byte planes of a column of int64 with at least one item.

    The results are: whether the values ascend, the number of planes, the base, and the planes
    behind each other, the lowest bytes first. Of ascending values the base is the first, and the
    planes have the difference of each other one to the one before it; otherwise the base is the
    least value, and the planes have what each value exceeds it by. O(items), without the GIL.
    """
    cdef BufferViews buffers
    cdef const int64_t *column
    cdef Py_ssize_t count, first, size, i
    cdef uint64_t stored
    cdef int64_t base
    cdef uint8_t *out
    cdef bint ascends
    cdef int width, plane
    cdef bytes planes
    buffers.count = 0
    try:
        acquire_buffer(&buffers, values, c'q')
        count = items(&buffers, 0)
        if count == 0:
            raise ValueError("expected a column with at least one item")
        column = longs(&buffers, 0)
        with nogil:
            ascends = is_ascending(column, count)
            first = 1 if ascends else 0
            base = column[0] if ascends else least(column, count)
            width = width_of(column, first, count, ascends, base)
        size = count - first
        planes = PyBytes_FromStringAndSize(NULL, width * size)
        out = <uint8_t *>PyBytes_AS_STRING(planes)
        with nogil:
            for i in range(size):
                stored = excess(column, first + i, ascends, base)
                for plane in range(width):
                    out[plane * size + i] = <uint8_t>(stored >> 8 * plane)
        return ascends, width, base, planes
    finally:
        release_buffers(&buffers)


def score_changes(columns: object) -> tuple[int, int]:
    """Return how many rows differ from the row before them, and the last of these rows, 0 if there
    is none. `columns` has a column of int64 for each word of a score. O(rows), without the GIL."""
    cdef BufferViews buffers
    cdef const int64_t *words[COLUMNS_MOST]
    cdef Py_ssize_t count = 0, changes = 0, last = 0, i
    cdef int width = 0, word
    if len(columns) > COLUMNS_MOST:
        raise ValueError(f"expected up to {COLUMNS_MOST} columns, got {len(columns)}")
    buffers.count = 0
    try:
        for column in columns:
            acquire_buffer(&buffers, column, c'q')
            words[width] = longs(&buffers, width)
            width += 1
            count = items(&buffers, 0)
            if items(&buffers, width - 1) != count:
                raise ValueError("expected columns of one length")
        with nogil:
            for i in range(1, count):
                for word in range(width):
                    if words[word][i] != words[word][i - 1]:
                        changes += 1
                        last = i
                        break
        return changes, last
    finally:
        release_buffers(&buffers)
