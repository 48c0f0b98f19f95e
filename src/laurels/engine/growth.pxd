# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from .page cimport Leaf
from .roster cimport Names
from .tree cimport Tree

cdef void tree_open(Tree *tree, const Names *names, int columns, int ordered, int words,
                    bint dense) noexcept nogil
cdef void tree_close(Tree *tree) noexcept nogil
cdef bint split_leaf(Tree *tree, Leaf *leaf, int at) noexcept nogil
cdef void thin_leaf(Tree *tree, Leaf *leaf) noexcept nogil
