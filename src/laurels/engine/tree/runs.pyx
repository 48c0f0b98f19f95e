# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""Runs, for dense ranks: the number of runs that begin in each leaf and under each branch.

A run begins at an entry whose columns differ from those of the previous entry. So a change in a
leaf affects the leaf's own runs and, if its last entry changes, the first entry of the next leaf.
Both are counted again and the difference is added to the branches above: a change costs one pass
over two leaves.
"""
from libc.stdint cimport uint8_t, uint32_t

from .branch cimport Branch, children_of, runs_of, slot_of
from .leaf cimport STAGE_MOST, leaf_breaks, leaf_get
from .page cimport Leaf, Page
from .tree cimport Tree


cdef Leaf *neighbour(Leaf *leaf, int step) noexcept nogil:
    """Return the leaf before (-1) or after (1) a leaf, or NULL. O(1) amortised over a scan."""
    cdef Page *page = leaf
    cdef int levels = 0
    cdef int slot
    while page.up != NULL:
        slot = slot_of(page) + step
        if 0 <= slot < page.up.size:
            page = children_of(page.up)[slot]
            break
        page = page.up
        levels += 1
    else:
        return NULL
    while levels > 0:
        page = children_of(page)[0 if step > 0 else page.size - 1]
        levels -= 1
    return page


cdef bint begins_run(const Tree *tree, Leaf *leaf) noexcept nogil:
    """Return whether the columns of a leaf's first entry differ from those of the previous
    entry."""
    cdef Leaf *before = neighbour(leaf, -1)
    cdef int column
    while before != NULL and before.size == 0:
        before = neighbour(before, -1)
    if before == NULL:
        return True
    for column in range(tree.columns):
        if leaf_get(leaf, column, 0) != leaf_get(before, column, before.size - 1):
            return True
    return False


cdef uint32_t inner_runs(const Tree *tree, const Leaf *leaf, int at) noexcept nogil:
    """Return the number of runs that begin at the positions from 1 to `at` of a leaf."""
    cdef uint8_t marks[STAGE_MOST]
    cdef uint32_t runs = 0
    cdef int i
    leaf_breaks(leaf, tree.columns, marks)
    for i in range(1, at + 1):
        runs += marks[i]
    return runs


cdef uint32_t runs_in(const Tree *tree, Leaf *leaf) noexcept nogil:
    """Return the number of runs that begin in a leaf."""
    if leaf.size == 0:
        return 0
    return begins_run(tree, leaf) + inner_runs(tree, leaf, leaf.size - 1)


cdef void count_runs(Tree *tree, Leaf *leaf) noexcept nogil:
    """Count the runs of a leaf again and correct all branches above it; do nothing for NULL."""
    cdef Page *page = leaf
    cdef uint32_t more
    if leaf == NULL:
        return
    more = runs_in(tree, leaf) - runs_of(leaf.up)[slot_of(leaf)]
    while more != 0 and page.up != NULL:
        runs_of(page.up)[slot_of(page)] += more
        page = page.up
