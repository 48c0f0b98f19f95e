# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from .tree cimport Tree

cdef bint tree_copy(Tree *to, const Tree *tree) noexcept nogil
