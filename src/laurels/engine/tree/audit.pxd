# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from .tree cimport Tree

cdef const char *tree_check(Tree *tree) noexcept nogil
