# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from .leaf cimport ids_of
from .page cimport Leaf, Page
from .roster cimport Names
from .search cimport Key
from .table cimport NONE, Table, prefetch, table_get, table_prefetch

cdef enum:
    PAGES = 32                  # pages of one allocation of pointers
    LINES = 12                  # cache lines of a leaf to ask for

cdef enum:
    ORDINAL = 0
    COMPETITION = 1
    DENSE = 2

cdef struct Tree:
    const Names *names
    Page *root                  # a leaf when height is 0, else a branch; NULL: no entries
    Page ***pages
    Table places                # member id to the page of its leaf; open when height > 0
    uint64_t bytes              # of leaves, branches and pages
    uint32_t size               # entries
    uint32_t root_page
    uint32_t page_count         # pages ever given
    uint32_t free_page          # the first page given back, or NONE
    uint32_t epoch              # how often pages were given back
    uint32_t page_room          # chunks of pages that `pages` has room for
    uint8_t height              # levels of branches
    uint8_t columns
    uint8_t ordered             # columns and tie: the words that order
    uint8_t words               # all words of an entry
    uint8_t dense

cdef struct Spot:               # where an entry is
    uint32_t page
    int at

cdef struct Hint:               # what was foreseen of a write
    Spot spot                   # where the entry is; page NONE: not there, or not known
    uint32_t page               # of the leaf it will go to; NONE: not known
    uint32_t epoch              # of the tree at that time

cdef inline Page *page_at(const Tree *tree, uint32_t page) noexcept nogil:
    return tree.pages[page // PAGES][page % PAGES]

cdef inline Leaf *leaf_at(const Tree *tree, uint32_t page) noexcept nogil:
    return page_at(tree, page) if tree.height else tree.root

cdef inline void tree_prefetch_place(Tree *tree, uint32_t member) noexcept nogil:
    """First ask, well before an entry is used: for its place."""
    if tree.height:
        table_prefetch(&tree.places, member)

cdef inline void ask_for_leaf(const Tree *tree, uint32_t page) noexcept nogil:
    """Ask for all cache lines of a leaf of common size."""
    cdef char *leaf = <char *>page_at(tree, page)
    cdef int line
    for line in range(LINES):
        prefetch(leaf + 64 * line)

cdef inline void tree_prefetch_leaf(Tree *tree, uint32_t member) noexcept nogil:
    """Second ask, shortly before: for its leaf."""
    cdef uint32_t page
    if tree.height:
        page = table_get(&tree.places, member)
        if page != NONE:
            ask_for_leaf(tree, page)

cdef void tree_open(Tree *tree, const Names *names, int columns, int ordered, int words,
                    bint dense) noexcept nogil
cdef void tree_close(Tree *tree) noexcept nogil
cdef uint64_t tree_bytes(Tree *tree) noexcept nogil
cdef bint tree_seek(Tree *tree, uint32_t member, Spot *spot) noexcept nogil

cdef inline bint tree_seek_near(Tree *tree, uint32_t member, const Hint *hint, Spot *spot) noexcept nogil:
    """As `tree_seek`, first where the hint says."""
    cdef Leaf *leaf
    if hint.spot.page != NONE and hint.epoch == tree.epoch:
        leaf = leaf_at(tree, hint.spot.page)
        if hint.spot.at < leaf.size and ids_of(leaf, tree.words)[hint.spot.at] == member:
            spot[0] = hint.spot
            return True
    return tree_seek(tree, member, spot)

cdef int tree_insert(Tree *tree, uint32_t member, const int64_t *entry,
                     const Hint *hint) noexcept nogil
cdef int tree_assign(Tree *tree, uint32_t member, const int64_t *entry,
                     const Hint *hint) noexcept nogil
cdef int tree_assign_at(Tree *tree, uint32_t member, const int64_t *entry, const Spot *spot,
                        const Hint *hint) noexcept nogil
cdef void tree_foresee(Tree *tree, uint32_t member, const int64_t *entry,
                       Hint *hint) noexcept nogil
cdef bint tree_discard(Tree *tree, uint32_t member) noexcept nogil
cdef uint64_t tree_rank(Tree *tree, const Spot *spot, int style) noexcept nogil
cdef uint64_t tree_bound(Tree *tree, Key *key, bint right) noexcept nogil
cdef void tree_select(Tree *tree, uint64_t position, Spot *spot) noexcept nogil
cdef uint32_t leaf_after(Tree *tree, uint32_t page) noexcept nogil
cdef const char *tree_check(Tree *tree) noexcept nogil
