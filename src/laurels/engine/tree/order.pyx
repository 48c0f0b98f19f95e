# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""Positions in a tree: the rank of an entry, the entry at a position, the entries before a key.

A rank is computed on the way from the entry's leaf up to the root: in each branch the counts of the
children before the path are added. The other functions walk down from the root. Each level costs
one search and one sum over an array of counts.
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t

from .branch cimport children_of, counts_of, edges_of, runs_of, slot_of, total_of
from .leaf cimport WORDS_MOST, leaf_bound, leaf_read
from .page cimport Page
from .runs cimport begins_run, inner_runs
from .search cimport Key
from laurels.engine.roster.table cimport NONE
from .tree cimport Spot, Tree, set_key


cdef uint64_t entries_before(Page *page) noexcept nogil:
    cdef uint64_t before = 0
    while page.up != NULL:
        before += total_of(counts_of(page.up), slot_of(page))
        page = page.up
    return before


cdef uint64_t runs_before(Page *page) noexcept nogil:
    cdef uint64_t before = 0
    while page.up != NULL:
        before += total_of(runs_of(page.up), slot_of(page))
        page = page.up
    return before


cdef uint64_t rank_by_columns(Tree *tree, const Spot *spot) noexcept nogil:
    """Return the number of entries whose columns sort before the columns of a given entry."""
    cdef int64_t entry[WORDS_MOST]
    cdef Key key
    cdef int at
    leaf_read(spot.leaf, tree.words, spot.at, entry)
    set_key(&key, tree, NONE, entry)
    key.count = tree.columns
    key.named = False
    at = leaf_bound(spot.leaf, tree.words, tree.names, &key, False)
    return entries_before(spot.leaf) + at if at else bound(tree, &key, False)


cdef uint64_t rank_of(Tree *tree, const Spot *spot, int style) noexcept nogil:
    """Return the rank of an entry, from 0, in a rank style. O(log n)."""
    if style == ORDINAL:
        return entries_before(spot.leaf) + spot.at
    if style == COMPETITION:
        return rank_by_columns(tree, spot)
    return runs_before(spot.leaf) + inner_runs(tree, spot.leaf, spot.at) + (
        begins_run(tree, spot.leaf)) - 1


cdef uint64_t bound(const Tree *tree, Key *key, bint right) noexcept nogil:
    """Return the number of entries before a key. With `right`, entries equal to the key are
    counted, too. O(log n)."""
    cdef Page *page = tree.root
    cdef uint64_t before = 0
    cdef int level, slot
    if page == NULL:
        return 0
    for level in range(tree.height):
        slot = leaf_bound(edges_of(page), tree.ordered, tree.names, key, right)
        before += total_of(counts_of(page), slot)
        page = children_of(page)[slot]
    return before + leaf_bound(page, tree.words, tree.names, key, right)


cdef void select(const Tree *tree, uint64_t position, Spot *spot) noexcept nogil:
    """Find the entry at an existing position. O(log n)."""
    cdef Page *page = tree.root
    cdef int level, slot
    for level in range(tree.height):
        slot = 0
        while position >= counts_of(page)[slot]:
            position -= counts_of(page)[slot]
            slot += 1
        page = children_of(page)[slot]
    spot.leaf = page
    spot.at = <int>position
