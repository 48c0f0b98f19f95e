# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The ranked set's tree: entries in order, counted, and found by member.

**Structure.** A counted B+ tree: leaves (`leaf.pyx`) have the entries, branches (`branch.pyx`) the
number of entries under each child. So a walk from a leaf up to the root finds the rank of an entry,
and a walk down from the root finds the entry at a rank. A table (`table.pyx`) maps a member to the
number of its leaf. A directory of small chunks maps the number to the leaf, so that a leaf can move
in memory without changes to the table, and a growing directory copies no more than its index of
chunks. Within the leaf the member is found among at most 128 ids. While all entries fit into one
leaf there is neither branch nor directory nor table: a small ranking is one block of memory.

**Modules.** `entries.pyx` finds and writes entries, `growth.pyx` splits and joins pages,
`directory.pyx` numbers leaves and maps members to them, `runs.pyx` maintains the counts of dense
ranks, `order.pyx` searches by rank and by key, `audit.pyx` checks.

**Memory failures.** Every allocation of a write comes before its first change, so a failure means
that the entry was not inserted. Only an entry that is moved to another leaf may be lost.

**Invariants** (`audit.pyx`): entries ascend through all leaves; all entries of the child before an
edge are before the edge, and no entry of the child after the edge is before it; counts and runs
equal those of the pages under them; parents and children refer to each other; the table maps each
member to the leaf that has its entry, and has no other members; no leaf is empty and no branch is
without children (the root has at least two).
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from .branch cimport Shape, children_of, slot_of_child
from .leaf cimport leaf_bytes
from .page cimport Leaf, Page
from laurels.engine.roster.roster cimport Names
from .search cimport Key
from laurels.engine.roster.table cimport Table

cdef enum:
    CHUNK = 32                  # the number of leaves in one allocation of the directory

cdef struct Tree:
    const Names *names
    Page *root                  # a leaf when height is 0, else a branch; NULL: no entries
    Leaf ***leaves              # by number; an odd pointer has the next free number
    Table places                # from a member id to the number of its leaf; open when height > 0
    uint64_t bytes              # of leaves, branches and the directory
    uint32_t size               # the number of entries
    uint32_t numbers            # how many numbers have ever been assigned
    uint32_t free_number        # the first free number, or NONE
    uint32_t epoch              # how often a page was freed, or a branch moved
    uint32_t chunk_capacity     # the number of chunks that fit into `leaves`
    uint8_t height              # the number of levels of branches
    uint8_t columns
    uint8_t ordered             # columns and tie: the words that order
    uint8_t words               # the number of all words of an entry
    uint8_t dense

cdef struct Spot:               # where an entry is, or belongs; valid until the next change
    Leaf *leaf
    int at

cdef inline Shape shape_of(const Tree *tree) noexcept nogil:
    cdef Shape shape
    shape.words = tree.ordered
    shape.dense = tree.dense
    return shape

cdef inline Leaf *leaf_numbered(const Tree *tree, uint32_t number) noexcept nogil:
    return tree.leaves[number // CHUNK][number % CHUNK]

cdef inline void replace_leaf(Tree *tree, Leaf *old, Leaf *leaf, uint64_t old_bytes) noexcept nogil:
    """Record a leaf's new address and size; the old memory is freed already."""
    tree.bytes += leaf_bytes(leaf, tree.words) - old_bytes
    if old == leaf:
        return
    if tree.height == 0:
        tree.root = leaf
        return
    tree.leaves[leaf.number // CHUNK][leaf.number % CHUNK] = leaf
    leaf.slot = <uint8_t>slot_of_child(leaf.up, old, leaf.slot)
    children_of(leaf.up)[leaf.slot] = leaf

cdef inline void set_key(Key *key, const Tree *tree, uint32_t member,
                         const int64_t *entry) noexcept nogil:
    """Set a key to the whole key of an entry."""
    key.words = entry
    key.count = tree.ordered
    key.named = True
    key.member = member
    key.start = NULL
    key.length = 0
