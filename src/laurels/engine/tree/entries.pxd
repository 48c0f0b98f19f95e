# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from libc.stdint cimport int64_t, uint32_t

from .leaf cimport ids_of
from .page cimport Branch, Leaf
from laurels.engine.roster.table cimport NONE, prefetch, table_get, table_prefetch
from .tree cimport Spot, Tree, leaf_numbered

cdef extern from *:
    """
    #ifndef LAURELS_LARGE       /* scripts/sanitize.sh also builds with 0 */
    #define LAURELS_LARGE 65536
    #endif
    """
    const uint32_t LARGE "LAURELS_LARGE"    # the size from which prefetching pays off

cdef enum:                      # how far ahead a batch prefetches, in entries
    FAR = 24                    # to prefetch a member's slot in the table
    NEAR = 16                   # to prefetch leaves
    NEXT = 8                    # to predict writes
    LINES = 12                  # how many cache lines of a leaf to prefetch

cdef struct Hint:               # the leaves and positions that a write will probably use
    uint32_t epoch              # the epoch of the tree when the hint was set
    uint32_t source             # the number of the leaf with the entry; NONE: no entry, or unknown
    int at                      # the position of the entry in that leaf
    int slot                    # the slot of the leaf to which the entry will move
    Branch *target              # the parent of that leaf; NULL: the entry stays, or unknown

cdef inline void prefetch_leaf(const Leaf *leaf) noexcept nogil:
    """Prefetch all cache lines of a leaf of common size."""
    cdef int line
    for line in range(LINES):
        prefetch(<char *>leaf + 64 * line)

cdef inline void prefetch_place(Tree *tree, uint32_t member) noexcept nogil:
    """Prefetch a member's slot in the table, well before its entry is used."""
    if tree.height:
        table_prefetch(&tree.places, member)

cdef inline void prefetch_entry(Tree *tree, uint32_t member) noexcept nogil:
    """Prefetch a member's leaf, shortly before its entry is used."""
    cdef uint32_t number
    if tree.height:
        number = table_get(&tree.places, member)
        if number != NONE:
            prefetch_leaf(leaf_numbered(tree, number))

cdef inline bint seek_near(Tree *tree, uint32_t member, const Hint *hint,
                           Spot *spot) noexcept nogil:
    """Find a member's entry like `seek`, but look first at the hint's position."""
    cdef Leaf *leaf
    if hint.source != NONE and hint.epoch == tree.epoch and tree.height:
        leaf = leaf_numbered(tree, hint.source)
        if hint.at < leaf.size and ids_of(leaf, tree.words)[hint.at] == member:
            spot.leaf = leaf
            spot.at = hint.at
            return True
    return seek(tree, member, spot)

cdef bint seek(Tree *tree, uint32_t member, Spot *spot) noexcept nogil
cdef bint insert(Tree *tree, uint32_t member, const int64_t *entry,
                 const Hint *hint) noexcept nogil
cdef bint assign_at(Tree *tree, uint32_t member, const int64_t *entry, const Spot *spot,
                    const Hint *hint) noexcept nogil
cdef void predict_write(Tree *tree, uint32_t member, const int64_t *entry, const Spot *spot,
                        Hint *hint) noexcept nogil
cdef bint discard(Tree *tree, uint32_t member) noexcept nogil
