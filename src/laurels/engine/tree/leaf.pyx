# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""A leaf: entries in order, up to 128 of them, each word as narrow as the values allow.

**Structure.** One block of memory: a header, a descriptor per word, the member ids, then one packed
array per word (struct of arrays). A word of an entry is the descriptor's `base` plus an unsigned
item of 0, 1, 2, 4 or 8 bytes. Neighbours in a ranking have similar scores and often similar stamps,
so a column and its tie take 4 to 8 bytes instead of 16, and a search uses fewer cache lines. The
base is chosen so that the range has slack on both sides; if an entry does not fit, the leaf is
packed again, which is rare. A leaf has the capacity for a few entries more than it has, so memory
follows the size.

**Search** goes word by word: within the range of positions with equal previous words, binary search
in one contiguous array of narrow items; members' bytes are compared only among entries that are
equal in every word.

**Changes** shift the tails of the arrays. A change that needs another layout (a full leaf, a value
that does not fit, too much capacity, a split) goes through a `Stage`, the same entries at full
width. A function that may change the layout returns the leaf's new address, or NULL if out of
memory, with the old leaf intact.

A tally (`cells.pyx`) also keeps its cells in leaves, unordered.

**Invariants** (`leaf_check`): 0 <= size <= capacity <= CAPACITY_MOST; the arrays follow each other,
each at a multiple of 8, as `lay_out` places them; entries of a ranking ascend strictly.
"""
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove, memset

from .page cimport Leaf
from laurels.engine.roster.roster cimport Names
from .search cimport Key, bound_members, narrow, order_to_member, packed_t
from laurels.engine.roster.table cimport NONE


cdef enum:
    CAPACITY_MOST = STAGE_MOST - 8
    GROWN_MOST = 4              # after this many growths a leaf is packed again, perhaps more narrowly


cdef struct Header:
    Leaf leaf
    Word words[WORDS_MOST]


cdef inline uint64_t largest(uint32_t width) noexcept nogil:
    """Return the greatest item that fits into a width in bytes."""
    return <uint64_t>0xFFFFFFFFFFFFFFFF if width == 8 else (<uint64_t>1 << 8 * width) - 1


cdef inline int capacity_for(int size) noexcept nogil:
    """Return the capacity of a new leaf of this size."""
    if size <= 8:
        return (size + 1) & ~1
    return (size + 3) & ~3 if size <= 32 else min((size + size // 16 + 7) & ~7, <int>CAPACITY_MOST)


cdef uint32_t lay_out(Leaf *leaf, int words) noexcept nogil:
    """Place the packed arrays by the leaf's capacity and widths; return the size of the leaf in
    bytes."""
    cdef uint32_t end = <uint32_t>(sizeof(Leaf) + words * sizeof(Word))
    cdef int word
    end += aligned(leaf.capacity * sizeof(uint32_t))
    for word in range(words):
        word_of(leaf, word).offset = end
        end += aligned(leaf.capacity * word_of(leaf, word).width)
    return end


cdef void choose_width(Word *how, const int64_t *items, int size) noexcept nogil:
    """Choose the narrowest width for the items, with a base that leaves equal slack on both
    sides."""
    cdef int64_t least = items[0] if size else 0
    cdef int64_t most = least
    cdef uint64_t span, slack
    cdef int i
    for i in range(size):
        least = min(least, items[i])
        most = max(most, items[i])
    span = <uint64_t>most - <uint64_t>least
    how.width = 0 if span == 0 else 1
    while span > largest(how.width):
        how.width *= 2
    slack = (largest(how.width) - span) >> 1
    if <uint64_t>least - <uint64_t>INT64_MIN < slack:
        how.base = INT64_MIN
    else:
        how.base = <int64_t>(<uint64_t>least - slack)


cdef void pack_items(packed_t *packed, int64_t base, const int64_t *items, int size) noexcept nogil:
    cdef int i
    for i in range(size):
        packed[i] = <packed_t>(<uint64_t>items[i] - <uint64_t>base)


cdef void unpack_items(const packed_t *packed, int64_t base, int64_t *items,
                       int size) noexcept nogil:
    cdef int i
    for i in range(size):
        items[i] = <int64_t>(<uint64_t>base + packed[i])


cdef void mark_breaks(const packed_t *packed, int size, uint8_t *marks) noexcept nogil:
    cdef int i
    for i in range(1, size):
        marks[i] |= packed[i] != packed[i - 1]


cdef void pack_word(Leaf *leaf, int word, const int64_t *items) noexcept nogil:
    cdef const Word *how = word_of(leaf, word)
    cdef char *packed = packed_of(leaf, word)
    if how.width == 8:
        pack_items(<uint64_t *>packed, how.base, items, leaf.size)
    elif how.width == 4:
        pack_items(<uint32_t *>packed, how.base, items, leaf.size)
    elif how.width == 2:
        pack_items(<uint16_t *>packed, how.base, items, leaf.size)
    elif how.width == 1:
        pack_items(<uint8_t *>packed, how.base, items, leaf.size)


cdef void leaf_unpack(const Leaf *leaf, int word, int first, int last,
                      int64_t *items) noexcept nogil:
    """Unpack one word of the entries at the positions `first` to `last - 1`."""
    cdef const Word *how = word_of(leaf, word)
    cdef char *packed = packed_of(leaf, word)
    cdef int i
    if how.width == 8:
        unpack_items(<uint64_t *>packed + first, how.base, items, last - first)
    elif how.width == 4:
        unpack_items(<uint32_t *>packed + first, how.base, items, last - first)
    elif how.width == 2:
        unpack_items(<uint16_t *>packed + first, how.base, items, last - first)
    elif how.width == 1:
        unpack_items(<uint8_t *>packed + first, how.base, items, last - first)
    else:
        for i in range(last - first):
            items[i] = how.base


cdef void leaf_breaks(const Leaf *leaf, int columns, uint8_t *marks) noexcept nogil:
    """Set the item of each entry in `marks` to 1 if the entry's columns differ from those of the
    previous entry, else to 0; the item of the first entry is 0."""
    cdef int column
    cdef char *packed
    memset(marks, 0, leaf.size)
    for column in range(columns):
        packed = packed_of(leaf, column)
        if word_of(leaf, column).width == 8:
            mark_breaks(<uint64_t *>packed, leaf.size, marks)
        elif word_of(leaf, column).width == 4:
            mark_breaks(<uint32_t *>packed, leaf.size, marks)
        elif word_of(leaf, column).width == 2:
            mark_breaks(<uint16_t *>packed, leaf.size, marks)
        elif word_of(leaf, column).width == 1:
            mark_breaks(<uint8_t *>packed, leaf.size, marks)


cdef inline void leaf_put(Leaf *leaf, int words, int at, uint32_t member,
                          const int64_t *entry) noexcept nogil:
    """Write an entry at a position; its words must fit the widths of the leaf."""
    cdef int word
    cdef const Word *how
    cdef char *packed
    cdef uint64_t over
    ids_of(leaf, words)[at] = member
    for word in range(words):
        how = word_of(leaf, word)
        packed = packed_of(leaf, word)
        over = <uint64_t>entry[word] - <uint64_t>how.base
        if how.width == 4:
            (<uint32_t *>packed)[at] = <uint32_t>over
        elif how.width == 2:
            (<uint16_t *>packed)[at] = <uint16_t>over
        elif how.width == 1:
            (<uint8_t *>packed)[at] = <uint8_t>over
        elif how.width == 8:
            (<uint64_t *>packed)[at] = over


cdef inline bint are_fitting(const Leaf *leaf, int words, const int64_t *entry) noexcept nogil:
    cdef int word
    cdef const Word *how
    for word in range(words):
        how = word_of(leaf, word)
        if entry[word] < how.base:
            return False
        if <uint64_t>entry[word] - <uint64_t>how.base > largest(how.width):
            return False
    return True


cdef inline bint narrow_word(const Leaf *leaf, int word, int64_t wanted, int *low,
                             int *high) noexcept nogil:
    cdef const Word *how = word_of(leaf, word)
    cdef char *packed = packed_of(leaf, word)
    cdef uint64_t over = <uint64_t>wanted - <uint64_t>how.base
    if wanted < how.base:
        return False
    if over > largest(how.width):
        low[0] = high[0]
        return False
    if how.width == 4:
        return narrow(<uint32_t *>packed, <uint32_t>over, low, high)
    if how.width == 2:
        return narrow(<uint16_t *>packed, <uint16_t>over, low, high)
    if how.width == 1:
        return narrow(<uint8_t *>packed, <uint8_t>over, low, high)
    if how.width == 8:
        return narrow(<uint64_t *>packed, over, low, high)
    return low[0] < high[0]


cdef int leaf_bound(const Leaf *leaf, int words, const Names *names, Key *key,
                    bint right) noexcept nogil:
    """Return the number of entries before a key. With `right`, entries equal to the key are
    counted, too."""
    cdef int low = 0
    cdef int high = leaf.size
    cdef int word
    for word in range(key.count):
        if not narrow_word(leaf, word, key.words[word], &low, &high):
            return low
    if key.named:
        return bound_members(names, ids_of(leaf, words), low, high, key, right)
    return high if right else low


cdef void stage_load(Stage *stage, const Leaf *leaf, int words) noexcept nogil:
    """Append the entries of a leaf."""
    cdef int word
    for word in range(words):
        leaf_unpack(leaf, word, 0, leaf.size, &stage.words[word][stage.size])
    memcpy(&stage.ids[stage.size], ids_of(leaf, words), leaf.size * sizeof(uint32_t))
    stage.size += leaf.size


cdef void stage_insert(Stage *stage, int words, int at, uint32_t member,
                       const int64_t *entry) noexcept nogil:
    cdef int word
    cdef int after = stage.size - at
    cdef int64_t *items
    for word in range(words):
        items = stage.words[word]
        memmove(items + at + 1, items + at, after * sizeof(int64_t))
        items[at] = entry[word]
    memmove(&stage.ids[at + 1], &stage.ids[at], after * sizeof(uint32_t))
    stage.ids[at] = member
    stage.size += 1


cdef void stage_append(Stage *stage, int words, const Leaf *leaf, int at) noexcept nogil:
    """Append one entry of a leaf."""
    cdef int word
    for word in range(words):
        stage.words[word][stage.size] = leaf_get(leaf, word, at)
    stage.ids[stage.size] = ids_of(leaf, words)[at]
    stage.size += 1


cdef void stage_remove(Stage *stage, int words, int at) noexcept nogil:
    cdef int word
    cdef int after = stage.size - at - 1
    for word in range(words):
        memmove(&stage.words[word][at], &stage.words[word][at + 1], after * sizeof(int64_t))
    memmove(&stage.ids[at], &stage.ids[at + 1], after * sizeof(uint32_t))
    stage.size -= 1


cdef Leaf *leaf_pack(const Stage *stage, int words, int first, int last) noexcept nogil:
    """Return a new leaf of the staged entries `first` to `last - 1`."""
    cdef Header header
    cdef Leaf *plan = &header.leaf
    cdef Leaf *leaf
    cdef int word
    plan.up = NULL
    plan.number = NONE
    plan.slot = 0
    plan.grown = 0
    plan.size = <uint8_t>(last - first)
    plan.capacity = <uint8_t>capacity_for(last - first)
    for word in range(words):
        choose_width(word_of(plan, word), stage.words[word] + first, last - first)
    leaf = <Leaf *>malloc(lay_out(plan, words))
    if leaf == NULL:
        return NULL
    memcpy(leaf, plan, sizeof(Leaf) + words * sizeof(Word))
    for word in range(words):
        pack_word(leaf, word, stage.words[word] + first)
    memcpy(ids_of(leaf, words), &stage.ids[first], leaf.size * sizeof(uint32_t))
    return leaf


cdef Leaf *replace(Leaf *leaf, int words, const Stage *stage) noexcept nogil:
    """Replace a leaf by a new one with the staged entries; return the new leaf, or NULL if out of
    memory."""
    cdef Leaf *new = leaf_pack(stage, words, 0, stage.size)
    if new != NULL:
        new.up = leaf.up
        new.number = leaf.number
        new.slot = leaf.slot
        free(leaf)
    return new


cdef inline void shift(Leaf *leaf, int words, int start, int to, int count) noexcept nogil:
    """Move `count` entries from position `start` to position `to`."""
    cdef int word
    cdef uint32_t width
    cdef char *packed
    memmove(ids_of(leaf, words) + to, ids_of(leaf, words) + start, count * sizeof(uint32_t))
    for word in range(words):
        width = word_of(leaf, word).width
        packed = packed_of(leaf, word)
        memmove(packed + to * width, packed + start * width, count * width)


cdef Leaf *grow(Leaf *leaf, int words) noexcept nogil:
    """Return the same leaf with a greater capacity, at the same widths, or NULL if out of
    memory."""
    cdef Header header
    cdef Leaf *wider
    cdef int word
    memcpy(&header, leaf, sizeof(Leaf) + words * sizeof(Word))
    header.leaf.capacity = <uint8_t>capacity_for(leaf.size + 1)
    header.leaf.grown += 1
    wider = <Leaf *>malloc(lay_out(&header.leaf, words))
    if wider == NULL:
        return NULL
    memcpy(wider, &header, sizeof(Leaf) + words * sizeof(Word))
    memcpy(ids_of(wider, words), ids_of(leaf, words), leaf.size * sizeof(uint32_t))
    for word in range(words):
        memcpy(packed_of(wider, word), packed_of(leaf, word),
               leaf.size * word_of(leaf, word).width)
    free(leaf)
    return wider


cdef Leaf *leaf_insert(Leaf *leaf, int words, int at, uint32_t member,
                       const int64_t *entry) noexcept nogil:
    """Insert an entry at its position into a leaf of fewer than CAPACITY_MOST entries."""
    cdef Stage stage
    cdef bint fitting = are_fitting(leaf, words, entry)
    if fitting and leaf.size == leaf.capacity and leaf.grown < GROWN_MOST:
        leaf = grow(leaf, words)
        if leaf == NULL:
            return NULL
    if fitting and leaf.size < leaf.capacity:
        shift(leaf, words, at, at + 1, leaf.size - at)
        leaf_put(leaf, words, at, member, entry)
        leaf.size += 1
        return leaf
    stage.size = 0
    stage_load(&stage, leaf, words)
    stage_insert(&stage, words, at, member, entry)
    return replace(leaf, words, &stage)


cdef Leaf *leaf_remove(Leaf *leaf, int words, int at) noexcept nogil:
    """Remove the entry at a position; never fails."""
    cdef Stage stage
    cdef Leaf *smaller
    shift(leaf, words, at + 1, at, leaf.size - at - 1)
    leaf.size -= 1
    if leaf.size == 0 or leaf.capacity - leaf.size < 4 + leaf.size // 4:
        return leaf
    stage.size = 0
    stage_load(&stage, leaf, words)
    smaller = replace(leaf, words, &stage)
    return leaf if smaller == NULL else smaller


cdef Leaf *leaf_move(Leaf *leaf, int words, int at, int to, const int64_t *entry) noexcept nogil:
    """Set the words of the entry at position `at`, and move it to `to`, where its new words
    belong."""
    cdef Stage stage
    cdef uint32_t member = ids_of(leaf, words)[at]
    if are_fitting(leaf, words, entry):
        if at < to:
            shift(leaf, words, at + 1, at, to - at)
        elif to < at:
            shift(leaf, words, to, to + 1, at - to)
        leaf_put(leaf, words, to, member, entry)
        return leaf
    stage.size = 0
    stage_load(&stage, leaf, words)
    stage_remove(&stage, words, at)
    stage_insert(&stage, words, to, member, entry)
    return replace(leaf, words, &stage)


cdef bint are_ascending(const Leaf *leaf, int words, int ordered, const Names *names,
                        int at) noexcept nogil:
    """Return whether the entry at a position sorts after the previous one."""
    cdef Key key
    cdef int word
    for word in range(ordered):
        if leaf_get(leaf, word, at - 1) != leaf_get(leaf, word, at):
            return leaf_get(leaf, word, at - 1) < leaf_get(leaf, word, at)
    key.member = ids_of(leaf, words)[at]
    key.start = NULL
    return order_to_member(names, &key, ids_of(leaf, words)[at - 1]) > 0


cdef const char *leaf_check_form(const Leaf *leaf, int words) noexcept nogil:
    """Check the layout of a leaf; return the first fault found, or NULL."""
    cdef uint32_t end = <uint32_t>(sizeof(Leaf) + words * sizeof(Word))
    cdef const Word *how
    cdef int word
    if leaf.size > leaf.capacity or leaf.capacity > CAPACITY_MOST:
        return "a leaf is fuller or larger than it may be"
    end += aligned(leaf.capacity * sizeof(uint32_t))
    for word in range(words):
        how = word_of(leaf, word)
        if how.offset != end or how.width not in (0, 1, 2, 4, 8):
            return "an array of a leaf is misplaced"
        end += aligned(leaf.capacity * how.width)
    return NULL


cdef const char *leaf_check(const Leaf *leaf, int words, int ordered,
                            const Names *names) noexcept nogil:
    """Check every invariant of a leaf of a ranking; return the first fault found, or NULL.
    O(size)."""
    cdef const char *fault = leaf_check_form(leaf, words)
    cdef int at
    for at in range(1, leaf.size):
        if fault == NULL and not are_ascending(leaf, words, ordered, names, at):
            fault = "entries of a leaf do not ascend"
    return fault
