# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""Rows of words passed from and to Python, as one column per word."""
from cpython cimport array
from libc.stdint cimport int64_t, uint32_t

from laurels.engine.buffers cimport BufferViews, acquire_buffer, items, longs, release_buffers

cdef array.array IDS = array.array("I")
cdef array.array LONGS = array.array("q")


cdef int acquire_rows(BufferViews *buffers, object ids, object words, int width,
                      Rows *rows) except -1:
    """Acquire ids (the first of `buffers`) and one buffer per word, all of one length."""
    cdef int word = 0
    acquire_buffer(buffers, ids, c'I')
    if len(words) != width:
        raise ValueError(f"expected {width} words for an entry, got {len(words)}")
    for column in words:
        acquire_buffer(buffers, column, c'q')
        if items(buffers, buffers.count - 1) != items(buffers, 0):
            raise ValueError("expected columns of words and ids of the same length")
        rows.words[word] = longs(buffers, buffers.count - 1)
        word += 1
    return 0


cdef int read_bounds(BufferViews *buffers, object start, object stop, Py_ssize_t *first,
                     Py_ssize_t *last) except -1:
    """Set the range of the acquired rows that are used: the rows `start` to `stop - 1`, or all from
    `start` on if `stop` is None."""
    first[0] = start
    last[0] = items(buffers, 0) if stop is None else stop
    if not 0 <= first[0] <= last[0] <= items(buffers, 0):
        raise ValueError("expected start and stop within the columns")
    return 0


cdef array.array new_ids(Py_ssize_t count):
    return array.clone(IDS, count, False)


cdef list new_columns(int width, Py_ssize_t count, int64_t **columns):
    """Return one array per word, and set the addresses of their items."""
    cdef list words = []
    cdef array.array column
    cdef int word
    for word in range(width):
        column = array.clone(LONGS, count, False)
        columns[word] = <int64_t *>column.data.as_longlongs
        words.append(column)
    return words


cdef int check_ids(uint32_t members, const uint32_t *ids, Py_ssize_t count) except -1:
    """Raise IndexError unless all ids are less than `members`."""
    cdef uint32_t most = 0
    cdef Py_ssize_t i
    for i in range(count):
        most = max(most, ids[i])
    if count and most >= members:
        raise IndexError(f"no member has the id {most}")
    return 0


def negated(column: object) -> array.array:
    """Return the items of a column of int64 with their signs changed."""
    cdef BufferViews buffers
    cdef array.array found
    cdef Py_ssize_t i, count
    buffers.count = 0
    try:
        acquire_buffer(&buffers, column, c'q')
        count = items(&buffers, 0)
        found = array.clone(LONGS, count, False)
        for i in range(count):
            found.data.as_longlongs[i] = -longs(&buffers, 0)[i]
        return found
    finally:
        release_buffers(&buffers)
