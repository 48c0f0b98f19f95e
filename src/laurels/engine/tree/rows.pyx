# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""Rows of words passed from and to Python, as one column per word."""
from cpython cimport array
from libc.stdint cimport int64_t, uint32_t

from laurels.engine.buffers cimport Borrowed, borrow, give_back, items, longs

cdef array.array IDS = array.array("I")
cdef array.array LONGS = array.array("q")


cdef int borrow_rows(Borrowed *held, object ids, object words, int width, Rows *rows) except -1:
    """Borrow ids (the first of `held`) and one buffer per word, all of one length."""
    cdef int word = 0
    borrow(held, ids, c'I')
    if len(words) != width:
        raise ValueError(f"an entry has {width} words, not {len(words)}")
    for column in words:
        borrow(held, column, c'q')
        if items(held, held.count - 1) != items(held, 0):
            raise ValueError("columns of words and ids have one length")
        rows.words[word] = longs(held, held.count - 1)
        word += 1
    return 0


cdef int take_bounds(Borrowed *held, object start, object stop, Py_ssize_t *first,
                     Py_ssize_t *last) except -1:
    """Set the range of the borrowed rows to use; with `stop` None it is to the end."""
    first[0] = start
    last[0] = items(held, 0) if stop is None else stop
    if not 0 <= first[0] <= last[0] <= items(held, 0):
        raise ValueError("start and stop are within the columns")
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
    """Return the items of a column (q) with their signs changed."""
    cdef Borrowed held
    cdef array.array found
    cdef Py_ssize_t i, count
    held.count = 0
    try:
        borrow(&held, column, c'q')
        count = items(&held, 0)
        found = array.clone(LONGS, count, False)
        for i in range(count):
            found.data.as_longlongs[i] = -longs(&held, 0)[i]
        return found
    finally:
        give_back(&held)
