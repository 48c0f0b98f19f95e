# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""A branch: up to 240 children in order, with the data for searches and ranks.

**Structure.** Arrays of the children, of the number of entries under each and, for dense ranks, of
the number of runs under each; and the *edges* between them, one less than children. An edge is a
key (the ordered words and a member): all entries of the child before the edge are before this key,
and no entry of the child after the edge is before it. It may be the key of an entry that was
removed, since members stay in the roster for ever. Edges are stored like the entries of a leaf
(`leaf.pyx`): in narrow arrays, so the child to search in is simply the number of edges at or before
a key.

A *run* begins at an entry whose columns differ from those of the entry before it in the ranking;
the runs before an entry are its dense rank.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memmove

from .leaf cimport Leaf, Stage, leaf_bytes, leaf_pack
from .page cimport Branch, Page
from laurels.engine.roster.table cimport NONE


cdef inline uint64_t block_bytes(int capacity, Shape shape) noexcept nogil:
    cdef uint64_t child = sizeof(Page *) + sizeof(uint32_t) * (2 if shape.dense else 1)
    return sizeof(Branch) + sizeof(Leaf *) + capacity * child


cdef uint64_t branch_bytes(const Branch *branch, Shape shape) noexcept nogil:
    """Return the bytes allocated for the branch and its edges."""
    return block_bytes(branch.capacity, shape) + leaf_bytes(edges_of(branch), shape.words)


cdef Branch *branch_new(int capacity, Shape shape) noexcept nogil:
    """Return a branch without children, edges or parent, or NULL if out of memory."""
    cdef Stage stage
    cdef Leaf *edges
    cdef Branch *branch = <Branch *>malloc(block_bytes(capacity, shape))
    stage.size = 0
    edges = leaf_pack(&stage, shape.words, 0, 0)
    if branch == NULL or edges == NULL:
        free(branch)
        free(edges)
        return NULL
    branch.up = NULL
    branch.number = NONE
    branch.size = 0
    branch.capacity = <uint8_t>capacity
    branch.slot = 0
    branch.grown = 0
    edges_at(branch)[0] = edges
    return branch


cdef void branch_free(Branch *branch) noexcept nogil:
    if branch != NULL:
        free(edges_of(branch))
        free(branch)


cdef void branch_copy(Branch *to, int to_slot, const Branch *source, int slot, int count,
                      Shape shape) noexcept nogil:
    """Copy `count` children with their counts, without the edges; the ranges may overlap."""
    cdef uint64_t size = count * sizeof(uint32_t)
    memmove(children_of(to) + to_slot, children_of(source) + slot, count * sizeof(Page *))
    memmove(counts_of(to) + to_slot, counts_of(source) + slot, size)
    if shape.dense:
        memmove(runs_of(to) + to_slot, runs_of(source) + slot, size)
