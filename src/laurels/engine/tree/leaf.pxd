# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from .page cimport Leaf
from laurels.engine.roster.roster cimport Names
from .search cimport Key, find_id

cdef extern from *:
    """
    #ifndef LAURELS_LEAF_MOST   /* scripts/sanitize.sh also builds tiny pages, for deep trees */
    #define LAURELS_LEAF_MOST 128
    #define LAURELS_BRANCH_MOST 240
    #endif
    """
    const int LEAF_MOST "LAURELS_LEAF_MOST"         # the most entries of a ranking in a leaf
    const int BRANCH_MOST "LAURELS_BRANCH_MOST"     # the most children of a branch

cdef enum:
    STAGE_MOST = 256            # the most entries of a stage; more than a leaf or the edges of a branch
    WORDS_MOST = 7              # four columns, the tie, the stamp, the newest step

cdef struct Word:               # the layout of one word of all entries
    int64_t base
    uint32_t offset             # the start of the packed array, in bytes from the start of the leaf
    uint32_t width              # bytes per item: 0 (all equal to base), 1, 2, 4 or 8

# A leaf is a Page, followed by Word[words], uint32_t ids[capacity] and the packed arrays.

cdef struct Stage:              # entries at full width, to be packed into a leaf
    int64_t words[WORDS_MOST][STAGE_MOST]
    uint32_t ids[STAGE_MOST]
    int size

cdef inline Word *word_of(const Leaf *leaf, int word) noexcept nogil:
    return <Word *>(leaf + 1) + word

cdef inline uint32_t *ids_of(const Leaf *leaf, int words) noexcept nogil:
    return <uint32_t *>(<Word *>(leaf + 1) + words)

cdef inline char *packed_of(const Leaf *leaf, int word) noexcept nogil:
    return <char *>leaf + word_of(leaf, word).offset

cdef inline int64_t leaf_get(const Leaf *leaf, int word, int at) noexcept nogil:
    """Return one word of the entry at a position."""
    cdef const Word *how = word_of(leaf, word)
    cdef char *packed = <char *>leaf + how.offset
    cdef uint64_t over = 0
    if how.width == 4:
        over = (<uint32_t *>packed)[at]
    elif how.width == 2:
        over = (<uint16_t *>packed)[at]
    elif how.width == 1:
        over = (<uint8_t *>packed)[at]
    elif how.width == 8:
        over = (<uint64_t *>packed)[at]
    return <int64_t>(<uint64_t>how.base + over)

cdef inline uint32_t aligned(uint32_t size) noexcept nogil:
    return (size + 7) & ~<uint32_t>7

cdef inline uint64_t leaf_bytes(const Leaf *leaf, int words) noexcept nogil:
    """Return the bytes allocated for the leaf."""
    cdef const Word *last = word_of(leaf, words - 1)
    return last.offset + aligned(leaf.capacity * last.width)

cdef inline int leaf_find(const Leaf *leaf, int words, uint32_t member) noexcept nogil:
    """Return the position of a member's entry, or -1."""
    return find_id(ids_of(leaf, words), leaf.size, member)

cdef inline void leaf_read(const Leaf *leaf, int words, int at, int64_t *entry) noexcept nogil:
    """Read all words of the entry at a position."""
    cdef int word
    for word in range(words):
        entry[word] = leaf_get(leaf, word, at)

cdef int leaf_bound(const Leaf *leaf, int words, const Names *names, Key *key,
                    bint right) noexcept nogil
cdef void leaf_unpack(const Leaf *leaf, int word, int first, int last,
                      int64_t *items) noexcept nogil
cdef void leaf_breaks(const Leaf *leaf, int columns, uint8_t *marks) noexcept nogil
cdef void stage_load(Stage *stage, const Leaf *leaf, int words) noexcept nogil
cdef void stage_insert(Stage *stage, int words, int at, uint32_t member,
                       const int64_t *entry) noexcept nogil
cdef void stage_append(Stage *stage, int words, const Leaf *leaf, int at) noexcept nogil
cdef Leaf *leaf_pack(const Stage *stage, int words, int first, int last) noexcept nogil
cdef Leaf *leaf_insert(Leaf *leaf, int words, int at, uint32_t member,
                       const int64_t *entry) noexcept nogil
cdef Leaf *leaf_remove(Leaf *leaf, int words, int at) noexcept nogil
cdef Leaf *leaf_move(Leaf *leaf, int words, int at, int to, const int64_t *entry) noexcept nogil
cdef const char *leaf_check_form(const Leaf *leaf, int words) noexcept nogil
cdef const char *leaf_check(const Leaf *leaf, int words, int ordered,
                            const Names *names) noexcept nogil
