# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""Faster ways to restore a snapshot: tables of a known size, and copies of whole trees.

A table that grows is rebuilt again and again; one that is made for the final number of members is
built once. And the prepared ranking of a rolling window begins as a copy of its live one: copying
the pages and the table costs a tenth of putting every entry again.
"""
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from .branch cimport Shape, branch_bytes, children_of, edges_at, edges_of
from .directory cimport map_members
from .growth cimport tree_close
from .leaf cimport leaf_bytes
from .page cimport Branch, Leaf, Page
from .ranked_set cimport RankedSet
from laurels.engine.roster.roster cimport Roster
from laurels.engine.roster.table cimport NONE, Segment, Slot, Table, table_close, table_open_for
from .tree cimport CHUNK, Tree, shape_of


cdef bint map_subtree(Tree *tree, const Page *page, int level) noexcept nogil:
    """Add the members of all leaves under a page to the table; return False if out of memory."""
    cdef int slot
    if level == 0:
        return map_members(tree, page, page.number)
    for slot in range(page.size):
        if not map_subtree(tree, children_of(page)[slot], level - 1):
            return False
    return True


cdef bint reserve_members(Tree *tree, uint64_t count) noexcept nogil:
    """Prepare the table of a tree for `count` members; return False if out of memory, with nothing
    changed."""
    cdef Table old = tree.places
    if tree.height == 0 or count <= tree.size:
        return True
    if table_open_for(&tree.places, True, count, tree.names.count) < 0:
        tree.places = old
        return False
    if not map_subtree(tree, tree.root, tree.height):
        table_close(&tree.places)
        tree.places = old
        return False
    table_close(&old)
    return True


# Copies of a tree


cdef Leaf *copy_leaf(Tree *to, const Leaf *leaf) noexcept nogil:
    cdef uint64_t size = leaf_bytes(leaf, to.words)
    cdef Leaf *copy = <Leaf *>malloc(size)
    if copy == NULL:
        return NULL
    memcpy(copy, leaf, size)
    copy.up = NULL
    if to.height:
        to.leaves[leaf.number // CHUNK][leaf.number % CHUNK] = copy
    return copy


cdef Branch *copy_branch(const Branch *branch, Shape shape) noexcept nogil:
    """Return a copy of a branch with its edges and counts, without children."""
    cdef uint64_t size = branch_bytes(branch, shape) - leaf_bytes(edges_of(branch), shape.words)
    cdef Branch *copy = <Branch *>malloc(size)
    cdef Leaf *edges = <Leaf *>malloc(leaf_bytes(edges_of(branch), shape.words))
    if copy == NULL or edges == NULL:
        free(copy)
        free(edges)
        return NULL
    memcpy(copy, branch, size)
    memcpy(edges, edges_of(branch), leaf_bytes(edges_of(branch), shape.words))
    edges_at(copy)[0] = edges
    copy.up = NULL
    copy.size = 0
    return copy


cdef Page *copy_page(Tree *to, const Page *page, int level, bint *whole) noexcept nogil:
    """Return a copy of a page and everything under it. If out of memory, return a part of the copy
    or NULL, and set `whole` to False."""
    cdef Page *copy
    cdef Page *child
    cdef int slot
    copy = copy_leaf(to, page) if level == 0 else copy_branch(page, shape_of(to))
    if copy == NULL:
        whole[0] = False
    if copy == NULL or level == 0:
        return copy
    for slot in range(page.size):
        child = copy_page(to, children_of(page)[slot], level - 1, whole)
        if child != NULL:
            children_of(copy)[slot] = child
            child.up = copy
            copy.size += 1
        if not whole[0]:
            break
    return copy


cdef bint copy_directory(Tree *to, const Tree *tree) noexcept nogil:
    """Copy the numbers of leaves, including free ones; return False if out of memory."""
    cdef uint32_t chunks = (tree.numbers + CHUNK - 1) // CHUNK
    cdef uint32_t chunk
    to.leaves = <Leaf ***>malloc(tree.chunk_capacity * sizeof(Leaf **))
    if to.leaves == NULL:
        return False
    to.chunk_capacity = tree.chunk_capacity
    to.free_number = tree.free_number
    for chunk in range(chunks):
        to.leaves[chunk] = <Leaf **>malloc(CHUNK * sizeof(Leaf *))
        if to.leaves[chunk] == NULL:
            return False
        memcpy(to.leaves[chunk], tree.leaves[chunk], CHUNK * sizeof(Leaf *))
        to.numbers = min(tree.numbers, (chunk + 1) * CHUNK)
    return True


cdef bint copy_table(Table *to, const Table *table) noexcept nogil:
    """Copy a table; return False if out of memory, with no table made."""
    cdef uint64_t i, size
    cdef Segment *segment
    to[0] = table[0]
    to.directory = <Segment **>calloc(<uint64_t>table.mask + 1, sizeof(Segment *))
    if to.directory == NULL:
        return False
    for i in range(<uint64_t>table.mask + 1):
        segment = table.directory[i]
        if i >> segment.depth:
            to.directory[i] = to.directory[i & ((<uint64_t>1 << segment.depth) - 1)]
            continue
        size = segment.capacity * (sizeof(uint32_t) if segment.dense else sizeof(Slot))
        to.directory[i] = <Segment *>malloc(sizeof(Segment) + size)
        if to.directory[i] == NULL:
            free_copied_segments(to, table, i)
            return False
        memcpy(to.directory[i], segment, sizeof(Segment) + size)
    return True


cdef void free_copied_segments(Table *to, const Table *table, uint64_t stop) noexcept nogil:
    """Free the part of a table that was copied."""
    cdef uint64_t i
    for i in range(stop):
        if i >> table.directory[i].depth == 0:
            free(to.directory[i])
    free(to.directory)
    to.directory = NULL


cdef bint tree_copy(Tree *to, const Tree *tree) noexcept nogil:
    """Copy a tree into an empty one whose entries have the same words; return False if out of
    memory, leaving it empty. O(leaves)."""
    cdef bint done = True
    if tree.root == NULL:
        return True
    to.height = tree.height
    if tree.height:
        done = copy_directory(to, tree) and copy_table(&to.places, &tree.places)
    if done:
        to.root = copy_page(to, tree.root, tree.height, &done)
    to.bytes = tree.bytes
    to.size = tree.size
    to.epoch += 1
    if not done:
        tree_close(to)
    return done


def reserve(structure: Roster | RankedSet, uint64_t count) -> None:
    """Reserve space for `count` members in an empty roster or in a ranking.

    This affects only speed. A ranking of a single leaf is left unchanged.
    """
    cdef Roster roster
    cdef Table table
    cdef RankedSet ranked
    cdef bint done
    if isinstance(structure, Roster):
        roster = structure
        if roster.registry.count:
            raise ValueError("expected an empty roster")
        if table_open_for(&table, False, min(count, <uint64_t>NONE), 0) < 0:
            raise MemoryError
        table_close(&roster.registry.table)
        roster.registry.table = table
        return
    ranked = structure
    with nogil:
        done = reserve_members(&ranked.tree, count)
    if not done:
        raise MemoryError
