# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from libc.stdint cimport uint64_t

from .search cimport Key
from .tree cimport Spot, Tree

cdef enum:
    ORDINAL = 0
    COMPETITION = 1
    DENSE = 2

cdef uint64_t rank_of(Tree *tree, const Spot *spot, int style) noexcept nogil
cdef uint64_t bound(const Tree *tree, Key *key, bint right) noexcept nogil
cdef void select(const Tree *tree, uint64_t position, Spot *spot) noexcept nogil
