# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""Appending: entries that come in order become whole leaves behind the last one.

Who restores a ranking puts its entries in standing order. One by one each would be sought from the
root and pushed into a leaf that is packed anew every few entries; so rows that follow the last
entry are packed into a leaf at once, and the leaf gets its place in the tree by the same steps as
the right half of a split. Whether rows do follow, in order and each member new, is found out by
trying: rows that do not are left to be put in one by one.
"""
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport free

from .branch cimport children_of, counts_of, slot_of
from .directory cimport enter_leaf, give_number, take_number
from .growth cimport lower_root, make_room, open_slot, set_child
from .leaf cimport (
    LEAF_MOST, WORDS_MOST, Stage, leaf_bound, leaf_bytes, leaf_check, leaf_pack,
)
from .page cimport Leaf, Page
from .rows cimport Rows
from .runs cimport count_runs_from
from .search cimport Key
from .table cimport NONE, table_drop, table_get, table_set
from .tree cimport Tree, set_key

cdef enum:
    LEAST = 16                  # rows for which it pays to try


cdef inline int filling() noexcept nogil:
    """Entries of a leaf made so: an eighth is left for what comes between them."""
    return LEAF_MOST - LEAF_MOST // 8


cdef inline Leaf *last_leaf(const Tree *tree) noexcept nogil:
    cdef Page *page = tree.root
    cdef int level
    for level in range(tree.height):
        page = children_of(page)[page.size - 1]
    return page


cdef bint follow(const Tree *tree, Leaf *last, Leaf *leaf, Stage *stage) noexcept nogil:
    """Whether a new leaf's entries ascend and stand behind those of the last one."""
    cdef Key key
    cdef int64_t first[WORDS_MOST]
    cdef int word
    for word in range(tree.words):
        first[word] = stage.words[word][0]
    set_key(&key, tree, stage.ids[0], first)
    if leaf_bound(last, tree.words, tree.names, &key, True) < last.size:
        return False
    return leaf_check(leaf, tree.words, tree.ordered, tree.names) == NULL


cdef bint lead_new(Tree *tree, const Stage *stage, uint32_t number) noexcept nogil:
    """Lead members to a leaf; False, and nobody led, when one is known already or without memory."""
    cdef int i
    for i in range(stage.size):
        if table_get(&tree.places, stage.ids[i]) != NONE or (
                table_set(&tree.places, stage.ids[i], number) < 0):
            forget_led(tree, stage, i)
            return False
    return True


cdef void forget_led(Tree *tree, const Stage *stage, int count) noexcept nogil:
    cdef int i
    for i in range(count):
        table_drop(&tree.places, stage.ids[i])


cdef bint place(Tree *tree, Leaf *last, Leaf *leaf, const Stage *stage) noexcept nogil:
    """Give a new leaf its place behind the last one; False, and the tree as it was, when its
    members are not new or without memory."""
    cdef uint32_t number = take_number(tree)
    cdef Page *page
    if number == NONE:
        return False
    if not lead_new(tree, stage, number):
        give_number(tree, number)
        return False
    if not make_room(tree, last) or not open_slot(tree, last, stage, 0):
        lower_root(tree)
        forget_led(tree, stage, stage.size)
        give_number(tree, number)
        return False
    enter_leaf(tree, leaf, number)
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
    """Append as many of the rows from start to before stop as fill a leaf; how many, 0 when they
    do not follow the last entry in order, or not enough of them, or the tree is a single leaf."""
    cdef Stage stage
    cdef Leaf *last
    cdef Leaf *leaf
    cdef int word, i
    cdef int count = <int>min(stop - start, <Py_ssize_t>filling())
    if tree.height == 0 or count < min(<int>LEAST, filling()):
        return 0
    stage.size = count
    for i in range(count):
        stage.ids[i] = ids[start + i]
        for word in range(tree.words):
            stage.words[word][i] = rows.words[word][start + i]
    leaf = leaf_pack(&stage, tree.words, 0, count)
    if leaf == NULL:
        return 0
    last = last_leaf(tree)
    if follow(tree, last, leaf, &stage) and place(tree, last, leaf, &stage):
        return count
    free(leaf)
    return 0
