# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""The check of a tree: every invariant that `tree.pxd` lists, in one pass over all pages."""
from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memset

from .branch cimport branch_bytes, children_of, counts_of, edges_of, runs_of, total_of
from .leaf cimport (
    BRANCH_MOST, LEAF_MOST, WORDS_MOST, ids_of, leaf_bound, leaf_bytes, leaf_check, leaf_read,
)
from .page cimport Branch, Leaf, Page
from .runs cimport runs_in
from .search cimport Key
from laurels.engine.roster.table cimport NONE, table_check, table_get
from .tree cimport CHUNK, Tree, leaf_numbered, set_key, shape_of


cdef struct Audit:              # the totals of a check so far
    uint64_t entries
    uint64_t bytes
    uint32_t leaves


cdef int edges_at_or_before(Tree *tree, const Branch *branch, Leaf *leaf, int at) noexcept nogil:
    """Return the number of edges of a branch that are at or before an entry."""
    cdef int64_t entry[WORDS_MOST]
    cdef Key key
    leaf_read(leaf, tree.words, at, entry)
    set_key(&key, tree, ids_of(leaf, tree.words)[at], entry)
    return leaf_bound(edges_of(branch), tree.ordered, tree.names, &key, True)


cdef Leaf *outermost_leaf(Page *page, int levels, bint last) noexcept nogil:
    """Return the first or last leaf under a page."""
    while levels > 0:
        page = children_of(page)[page.size - 1 if last else 0]
        levels -= 1
    return page


cdef bint are_edges_valid(Tree *tree, Branch *branch, int slot, int level) noexcept nogil:
    """Return whether the first and the last entry under a child are between the child's edges."""
    cdef Leaf *first = outermost_leaf(children_of(branch)[slot], level - 1, False)
    cdef Leaf *last = outermost_leaf(children_of(branch)[slot], level - 1, True)
    return edges_at_or_before(tree, branch, first, 0) == slot and (
        edges_at_or_before(tree, branch, last, last.size - 1) == slot)


cdef const char *check_leaf(Tree *tree, Leaf *leaf, Audit *audit) noexcept nogil:
    cdef int i
    if not 0 < leaf.size <= LEAF_MOST:
        return "a leaf is empty or too full"
    if tree.height:
        if leaf.number >= tree.numbers or leaf_numbered(tree, leaf.number) != leaf:
            return "the directory does not map a number to its leaf"
        for i in range(leaf.size):
            if table_get(&tree.places, ids_of(leaf, tree.words)[i]) != leaf.number:
                return "the table does not map a member to its leaf"
    audit.entries += leaf.size
    audit.bytes += leaf_bytes(leaf, tree.words)
    audit.leaves += 1
    return leaf_check(leaf, tree.words, tree.ordered, tree.names)


cdef uint64_t runs_under(Tree *tree, Page *page, int level) noexcept nogil:
    return runs_in(tree, page) if level == 0 else total_of(runs_of(page), page.size)


cdef const char *check_slot(Tree *tree, Branch *branch, int slot, int level,
                            Audit *audit) noexcept nogil:
    """Check one child of a branch, and its counts in the branch."""
    cdef Page *child = children_of(branch)[slot]
    cdef uint64_t entries = audit.entries
    cdef const char *fault
    if child.up != branch:
        return "a child has a link to the wrong parent"
    if level == 1:
        fault = check_leaf(tree, child, audit)
    else:
        fault = check_branch(tree, child, level - 1, audit)
    if fault != NULL:
        return fault
    if not are_edges_valid(tree, branch, slot, level):
        return "an edge does not separate the entries beside it"
    if counts_of(branch)[slot] != audit.entries - entries:
        return "a branch's number of entries is wrong"
    if tree.dense and runs_of(branch)[slot] != runs_under(tree, child, level - 1):
        return "a branch's number of runs is wrong"
    return NULL


cdef const char *check_branch(Tree *tree, Branch *branch, int level, Audit *audit) noexcept nogil:
    cdef const char *fault
    cdef int slot
    if not 0 < branch.size <= branch.capacity <= BRANCH_MOST:
        return "a branch is empty, or fuller or larger than it may be"
    if edges_of(branch).size != branch.size - 1:
        return "the number of a branch's edges is not one less than that of its children"
    fault = leaf_check(edges_of(branch), tree.ordered, tree.ordered, tree.names)
    if fault != NULL:
        return fault
    audit.bytes += branch_bytes(branch, shape_of(tree))
    for slot in range(branch.size):
        fault = check_slot(tree, branch, slot, level, audit)
        if fault != NULL:
            return fault
    return NULL


cdef const char *check_totals(Tree *tree, Audit *audit) noexcept nogil:
    """Check the totals after all pages were visited."""
    cdef uint32_t number = tree.free_number
    if audit.entries != tree.size:
        return "the tree's number of entries is wrong"
    audit.bytes += tree.chunk_capacity * sizeof(Leaf **)
    audit.bytes += (tree.numbers + CHUNK - 1) // CHUNK * CHUNK * sizeof(Leaf *)
    if tree.bytes != audit.bytes:
        return "the tree's number of bytes is wrong"
    if tree.height == 0:
        return NULL
    while number != NONE and audit.leaves <= tree.numbers:
        audit.leaves += 1
        number = <uint32_t>(<uintptr_t>leaf_numbered(tree, number) >> 1)
    if audit.leaves != tree.numbers:
        return "some numbers of leaves are neither in use nor free"
    return table_check(&tree.places, tree.size)


cdef const char *tree_check(Tree *tree) noexcept nogil:
    """Check every invariant; return the first fault found, or NULL. O(n)."""
    cdef Audit audit
    cdef const char *fault = NULL
    memset(&audit, 0, sizeof(Audit))
    if tree.root != NULL:
        if tree.root.up != NULL:
            return "the root has a parent"
        if tree.height == 0:
            fault = check_leaf(tree, tree.root, &audit)
        elif tree.root.size < 2:
            return "the root has a single child"
        else:
            fault = check_branch(tree, tree.root, tree.height, &audit)
    return fault if fault != NULL else check_totals(tree, &audit)
