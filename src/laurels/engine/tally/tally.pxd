# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from libc.stdint cimport int64_t, uint32_t

from .cells cimport Cells
from laurels.engine.tree.rows cimport Rows

cdef class Tally:
    cdef Cells cells

cdef Tally new_tally(int words, int64_t number)
cdef bint put_cells(Cells *cells, const uint32_t *ids, const Rows *rows, Py_ssize_t first,
                    Py_ssize_t last) noexcept nogil
