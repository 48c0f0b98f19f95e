# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""Appending: entries that are put in ranking order become whole leaves after the last one.

A restored ranking is put in ranking order. If entries were put one by one, each would need a
search from the root, and its leaf would be packed again every few entries. So rows that follow the
last entry are packed into a leaf together, and the leaf is added to the tree by the same steps as
the right half of a split. Rows that are not in order, or whose member is not new, are left to be
put one by one.

The table is set for a leaf's members in the order of their entries, so each write waits for a
cache line of the table that is in no cache. Therefore the lines for a leaf are prefetched while
the previous leaf is packed.
"""
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from .branch cimport children_of, counts_of, slot_of
from .directory cimport allocate_number, register_leaf, release_number
from .growth cimport ensure_slot, lower_root, open_slot, set_child
from .leaf cimport LEAF_MOST, WORDS_MOST, Stage, ids_of, leaf_bytes, leaf_pack, leaf_read
from .page cimport Leaf, Page
from .rows cimport Rows
from .runs cimport count_runs_from
from .search cimport Key, order_to_member
from laurels.engine.roster.table cimport NONE, table_add, table_drop, table_get, table_prefetch
from .tree cimport Tree, set_key

cdef enum:
    LEAST = 16                  # the least number of rows to try to append as a leaf


cdef inline int fill_count() noexcept nogil:
    """Return how many entries to put into an appended leaf; an eighth is left free for later
    insertions."""
    return LEAF_MOST - LEAF_MOST // 8


cdef inline Leaf *last_leaf(const Tree *tree) noexcept nogil:
    cdef Page *page = tree.root
    cdef int level
    for level in range(tree.height):
        page = children_of(page)[page.size - 1]
    return page


cdef inline bint is_after(const Tree *tree, uint32_t before, const int64_t *entry, uint32_t member,
                          const Rows *rows, Py_ssize_t at) noexcept nogil:
    """Return whether a row's entry sorts after another entry."""
    cdef Key key
    cdef int word
    for word in range(tree.ordered):
        if rows.words[word][at] != entry[word]:
            return rows.words[word][at] > entry[word]
    set_key(&key, tree, member, entry)
    return order_to_member(tree.names, &key, before) > 0


cdef inline bint is_ascending(const Tree *tree, const uint32_t *ids, const Rows *rows,
                              Py_ssize_t at) noexcept nogil:
    """Return whether a row's entry sorts after the entry of the previous row."""
    cdef int64_t entry[WORDS_MOST]
    cdef int64_t this, last
    cdef int word
    for word in range(tree.ordered):
        this, last = rows.words[word][at], rows.words[word][at - 1]
        if this != last:
            return this > last
        entry[word] = last
    return is_after(tree, ids[at - 1], entry, ids[at], rows, at)


cdef bint can_append(const Tree *tree, const Leaf *last, const uint32_t *ids, const Rows *rows,
                     Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    """Return whether the entries of rows ascend, and sort after all entries of the last leaf."""
    cdef int64_t entry[WORDS_MOST]
    cdef Py_ssize_t at
    leaf_read(last, tree.words, last.size - 1, entry)
    if not is_after(tree, ids_of(last, tree.words)[last.size - 1], entry, ids[start], rows, start):
        return False
    for at in range(start + 1, stop):
        if not is_ascending(tree, ids, rows, at):
            return False
    return True


cdef bint map_new_members(Tree *tree, const Stage *stage, uint32_t number) noexcept nogil:
    """Add the members of a leaf to the table; return False, with none added, if one is there
    already or memory runs out."""
    cdef int i
    for i in range(stage.size):
        if table_get(&tree.places, stage.ids[i]) != NONE or (
                table_add(&tree.places, stage.ids[i], number) < 0):
            unmap_members(tree, stage, i)
            return False
    return True


cdef void unmap_members(Tree *tree, const Stage *stage, int count) noexcept nogil:
    cdef int i
    for i in range(count):
        table_drop(&tree.places, stage.ids[i])


cdef bint link_leaf(Tree *tree, Leaf *last, Leaf *leaf, const Stage *stage) noexcept nogil:
    """Add a new leaf to the tree after the last one; return False, with the tree unchanged, if its
    members are not new or memory runs out."""
    cdef uint32_t number = allocate_number(tree)
    cdef Page *page
    if number == NONE:
        return False
    if not map_new_members(tree, stage, number):
        release_number(tree, number)
        return False
    if not ensure_slot(tree, last) or not open_slot(tree, last, stage, 0):
        lower_root(tree)
        unmap_members(tree, stage, stage.size)
        release_number(tree, number)
        return False
    register_leaf(tree, leaf, number)
    set_child(tree, last.up, slot_of(last) + 1, leaf, leaf.size, 0)
    page = last.up
    while page.up != NULL:
        counts_of(page.up)[slot_of(page)] += leaf.size
        page = page.up
    tree.size += leaf.size
    tree.bytes += leaf_bytes(leaf, tree.words)
    count_runs_from(tree, leaf)
    return True


cdef int append_leaf(Tree *tree, const uint32_t *ids, const Rows *rows, Py_ssize_t start,
                     Py_ssize_t stop) noexcept nogil:
    """Append one leaf, made of the first rows of the slice from `start` to `stop`. Return how many
    rows it took. Return 0, and append nothing, if there are too few rows for a leaf, if they do
    not all come after the last entry in order, or if the tree is a single leaf."""
    cdef Stage stage
    cdef Leaf *last
    cdef Leaf *leaf
    cdef Py_ssize_t ahead
    cdef int word
    cdef int count = <int>min(stop - start, <Py_ssize_t>fill_count())
    if tree.height == 0 or count < min(<int>LEAST, fill_count()):
        return 0
    last = last_leaf(tree)
    if last.size == 0 or not can_append(tree, last, ids, rows, start, start + count):
        return 0
    for ahead in range(start + count, min(stop, start + 2 * count)):
        table_prefetch(&tree.places, ids[ahead])
    stage.size = count
    memcpy(stage.ids, ids + start, count * sizeof(uint32_t))
    for word in range(tree.words):
        memcpy(stage.words[word], rows.words[word] + start, count * sizeof(int64_t))
    leaf = leaf_pack(&stage, tree.words, 0, count)
    if leaf == NULL:
        return 0
    if link_leaf(tree, last, leaf, &stage):
        return count
    free(leaf)
    return 0
