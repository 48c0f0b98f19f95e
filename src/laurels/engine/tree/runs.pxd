# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from libc.stdint cimport uint32_t

from .page cimport Leaf, Page
from .tree cimport Tree

cdef Leaf *neighbour(Leaf *leaf, int step) noexcept nogil
cdef bint begins_run(const Tree *tree, Leaf *leaf) noexcept nogil
cdef uint32_t inner_runs(const Tree *tree, const Leaf *leaf, int at) noexcept nogil
cdef uint32_t runs_in(const Tree *tree, Leaf *leaf) noexcept nogil
cdef void count_runs(Tree *tree, Leaf *leaf) noexcept nogil

cdef inline void count_runs_from(Tree *tree, Leaf *leaf) noexcept nogil:
    """Count the runs of a changed leaf again, and the runs of the leaf after it."""
    if tree.dense and tree.height:
        count_runs(tree, leaf)
        count_runs(tree, neighbour(leaf, 1))
