# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from cpython cimport array
from libc.stdint cimport int64_t, uint32_t

from laurels.engine.buffers cimport BufferViews
from .leaf cimport WORDS_MOST

cdef struct Rows:               # rows of words as one column per word
    const int64_t *words[WORDS_MOST]

cdef inline void read_row(const Rows *rows, int width, Py_ssize_t at,
                          int64_t *row) noexcept nogil:
    cdef int word
    for word in range(width):
        row[word] = rows.words[word][at]

cdef int acquire_rows(BufferViews *buffers, object ids, object words, int width,
                      Rows *rows) except -1
cdef int read_bounds(BufferViews *buffers, object start, object stop, Py_ssize_t *first,
                     Py_ssize_t *last) except -1
cdef array.array new_ids(Py_ssize_t count)
cdef list new_columns(int width, Py_ssize_t count, int64_t **columns)
cdef int check_ids(uint32_t members, const uint32_t *ids, Py_ssize_t count) except -1
