# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from libc.stdint cimport uint32_t

from .leaf cimport Stage
from .page cimport Branch, Leaf, Page
from laurels.engine.roster.roster cimport Names
from .tree cimport Tree

cdef void tree_open(Tree *tree, const Names *names, int columns, int ordered, int words,
                    bint dense) noexcept nogil
cdef void tree_close(Tree *tree) noexcept nogil
cdef bint split_leaf(Tree *tree, Leaf *leaf, int at) noexcept nogil
cdef void rebalance_leaf(Tree *tree, Leaf *leaf) noexcept nogil
cdef bint ensure_slot(Tree *tree, Page *page) noexcept nogil
cdef bint open_slot(Tree *tree, Page *page, const Stage *stage, int at) noexcept nogil
cdef void set_child(Tree *tree, Branch *branch, int slot, Page *child, uint32_t count,
                    uint32_t runs) noexcept nogil
cdef void lower_root(Tree *tree) noexcept nogil
