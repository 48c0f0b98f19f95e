# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from libc.stdint cimport uint32_t

from .page cimport Leaf
from .tree cimport Tree

cdef bint open_directory(Tree *tree) noexcept nogil
cdef void close_directory(Tree *tree) noexcept nogil
cdef uint32_t allocate_number(Tree *tree) noexcept nogil
cdef void release_number(Tree *tree, uint32_t number) noexcept nogil
cdef void register_leaf(Tree *tree, Leaf *leaf, uint32_t number) noexcept nogil
cdef bint map_members(Tree *tree, const Leaf *leaf, uint32_t number) noexcept nogil
