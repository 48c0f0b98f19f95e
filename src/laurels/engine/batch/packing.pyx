# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""Columns of integers in few bytes, for the log and snapshots, and arenas of concatenated texts.

`pack` writes a column with as few bytes per item as possible, and `unpack` reads it; `differences`
turns times into ages, which are smaller numbers; `bounds` returns the least and greatest time of a
batch. `split_texts` splits an arena into its texts.
"""
from cpython cimport array
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint64_t

from laurels.engine.buffers cimport BufferViews, acquire_buffer, items, longs, release_buffers

cdef array.array LONGS = array.array("q")


def bounds(values: object) -> tuple[int, int]:
    """Return the least and the greatest item of a non-empty column of int64. O(n)."""
    cdef BufferViews buffers
    cdef const int64_t *column
    cdef int64_t least, most
    cdef Py_ssize_t i
    buffers.count = 0
    try:
        acquire_buffer(&buffers, values, c'q')
        if items(&buffers, 0) == 0:
            raise ValueError("expected a column with at least one item")
        column = longs(&buffers, 0)
        least = most = column[0]
        for i in range(1, items(&buffers, 0)):
            least = min(least, column[i])
            most = max(most, column[i])
        return least, most
    finally:
        release_buffers(&buffers)


def differences(int64_t start, values: object) -> array.array:
    """Return the differences `start` minus item, for a column of int64: turns times into ages, and
    ages into times. O(n)."""
    cdef BufferViews buffers
    cdef array.array column
    cdef int64_t *found
    cdef Py_ssize_t i
    buffers.count = 0
    try:
        acquire_buffer(&buffers, values, c'q')
        column = array.clone(LONGS, items(&buffers, 0), False)
        found = <int64_t *>column.data.as_longlongs
        for i in range(items(&buffers, 0)):
            found[i] = <int64_t>(<uint64_t>start - <uint64_t>longs(&buffers, 0)[i])
        return column
    finally:
        release_buffers(&buffers)


cdef inline void store(uint8_t *at, uint64_t value, const int width) noexcept nogil:
    """Write the low bytes of a value, the lowest first."""
    cdef int i
    for i in range(width):
        at[i] = <uint8_t>(value >> 8 * i)


cdef inline int64_t load(const uint8_t *at, const int width) noexcept nogil:
    """Read a signed integer, the lowest byte first."""
    cdef uint64_t value = 0
    cdef int i
    for i in range(width):
        value |= <uint64_t>at[i] << 8 * i
    return <int64_t>(value << 64 - 8 * width) >> 64 - 8 * width


cdef int width_for(const int64_t *values, Py_ssize_t count) noexcept nogil:
    """Return the fewest of 0, 1, 2, 4, 8 bytes that hold every value."""
    cdef uint64_t folded = 0
    cdef Py_ssize_t i
    for i in range(count):
        folded |= <uint64_t>(values[i] ^ values[i] >> 63)
        folded |= values[i] != 0 and values[i] ^ values[i] >> 63 == 0
    if folded == 0:
        return 0
    if folded <= 0x7F:
        return 1
    if folded <= 0x7FFF:
        return 2
    return 4 if folded <= 0x7FFFFFFF else 8


def pack(values: object) -> bytes:
    """Encode a column of int64: one byte for the width (0, 1, 2, 4 or 8), then the items, of that
    many bytes each.

    Items are signed, the lowest byte first; width 0 means that all are zero. `unpack` decodes the
    result.
    """
    cdef BufferViews buffers
    cdef const int64_t *column
    cdef Py_ssize_t i, count
    cdef uint8_t *out
    cdef int width
    cdef bytes packed
    buffers.count = 0
    try:
        acquire_buffer(&buffers, values, c'q')
        count = items(&buffers, 0)
        column = longs(&buffers, 0)
        width = width_for(column, count)
        packed = PyBytes_FromStringAndSize(NULL, 1 + width * count)
        out = <uint8_t *>PyBytes_AS_STRING(packed)
        out[0] = <uint8_t>width
        for i in range(count):
            if width == 1:
                store(out + 1 + i, <uint64_t>column[i], 1)
            elif width == 2:
                store(out + 1 + 2 * i, <uint64_t>column[i], 2)
            elif width == 4:
                store(out + 1 + 4 * i, <uint64_t>column[i], 4)
            elif width == 8:
                store(out + 1 + 8 * i, <uint64_t>column[i], 8)
        return packed
    finally:
        release_buffers(&buffers)


def unpack(bytes data not None, Py_ssize_t n) -> array.array:
    """Decode a column of n items that `pack` has encoded. Raises ValueError for invalid bytes."""
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
    cdef array.array column
    cdef int64_t *values
    cdef Py_ssize_t i
    cdef int width = start[0] if size else -1
    if width not in (0, 1, 2, 4, 8) or n < 0 or (n if width else 0) > size or (
            size - 1 != width * n):
        raise ValueError(f"{size} bytes cannot be a packed column of {n} items")
    column = array.clone(LONGS, n, False)
    values = <int64_t *>column.data.as_longlongs
    for i in range(n):
        if width == 1:
            values[i] = load(start + 1 + i, 1)
        elif width == 2:
            values[i] = load(start + 1 + 2 * i, 2)
        elif width == 4:
            values[i] = load(start + 1 + 4 * i, 4)
        elif width == 8:
            values[i] = load(start + 1 + 8 * i, 8)
        else:
            values[i] = 0
    return column


def split_texts(bytes arena not None, bytes lengths not None) -> list[bytes]:
    """Return the texts that are concatenated in an arena, by their lengths of one byte each. Raises
    ValueError if the lengths do not add up to the size of the arena. O(n)."""
    cdef const char *text = PyBytes_AS_STRING(arena)
    cdef const uint8_t *length = <const uint8_t *>PyBytes_AS_STRING(lengths)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(arena)
    cdef Py_ssize_t i, start = 0
    cdef list found = []
    for i in range(PyBytes_GET_SIZE(lengths)):
        if start + length[i] > size:
            break
        found.append(PyBytes_FromStringAndSize(text + start, length[i]))
        start += length[i]
    if start != size or len(found) != PyBytes_GET_SIZE(lengths):
        raise ValueError(f"the lengths of the texts do not add up to {size} bytes")
    return found
