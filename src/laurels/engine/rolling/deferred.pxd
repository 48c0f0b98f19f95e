# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from libc.stdint cimport int64_t, uint64_t

from .ring cimport Rolling

cdef uint64_t count_cells(const Rolling *rolling) noexcept nogil
cdef bint continue_build(Rolling *rolling, int64_t limit) noexcept nogil
cdef const char *check_build(Rolling *rolling) noexcept nogil
