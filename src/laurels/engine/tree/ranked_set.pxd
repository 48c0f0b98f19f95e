# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from libc.stdint cimport int64_t, uint32_t, uint64_t

from laurels.engine.roster.roster cimport Roster
from .tree cimport Tree

cdef class RankedSet:
    cdef Tree tree
    cdef readonly Roster roster
    cdef readonly bint stamped
    cdef readonly bint stepped

cdef void slice_all(Tree *tree, uint64_t start, uint64_t count, uint32_t *ids,
                    int64_t **columns) noexcept nogil
