# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from libc.stdint cimport uint32_t

from .rows cimport Rows
from .tree cimport Tree

cdef int append_leaf(Tree *tree, const uint32_t *ids, const Rows *rows, Py_ssize_t start,
                     Py_ssize_t stop) noexcept nogil
