# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The order of entries, stated once: words ascending, then the member's bytes ascending.

A key may be shorter than the key of an entry: it then has the first words only, and no member. The
caller chooses whether such a key sorts before or after all entries that begin with it.
"""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from laurels.engine.roster.roster cimport Names, compare_bytes, group_of, name_of
from laurels.engine.roster.table cimport prefetch

ctypedef fused packed_t:
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    int64_t

cdef struct Key:
    const int64_t *words
    int count                   # the number of words
    bint named                  # whether it has a member (only with all ordered words)
    uint32_t member             # the id of the member, or NONE if it may be unknown to the roster
    const uint8_t *start        # the bytes of the member; NULL until looked up
    uint32_t length

cdef inline int lower(const packed_t *sorted, int low, int high, packed_t wanted) noexcept nogil:
    """Return the first position in [low, high) whose item is not less than wanted, else high.

    A binary search without branches. When at most 64 narrow items are left, those less than wanted
    are counted instead: several items are compared at once, and their cache lines are loaded
    together rather than one after another.
    """
    cdef const packed_t *base = sorted + low
    cdef int left = high - low
    cdef int most = 64 if sizeof(packed_t) < 8 else 1
    cdef packed_t less = 0
    cdef int half
    while left > most:
        half = left >> 1
        base += half if base[half - 1] < wanted else 0
        left -= half
    for half in range(left):
        less += base[half] < wanted
    return <int>(base - sorted) + <int>less

cdef inline int upper(const packed_t *sorted, int low, int high, packed_t wanted) noexcept nogil:
    """Return the first position in [low, high) whose item is greater than wanted, else high."""
    cdef int step = 1
    while low + step < high and sorted[low + step] <= wanted:
        low += step
        step *= 2
    high = min(high, low + step)
    while low < high:
        step = (low + high) >> 1
        if sorted[step] <= wanted:
            low = step + 1
        else:
            high = step
    return low

cdef inline bint narrow(const packed_t *packed, packed_t wanted, int *low,
                        int *high) noexcept nogil:
    """Narrow [low, high) to the items equal to wanted; return False when there are none."""
    low[0] = lower(packed, low[0], high[0], wanted)
    if low[0] == high[0] or packed[low[0]] != wanted:
        return False
    if low[0] + 1 < high[0] and packed[low[0] + 1] == wanted:
        high[0] = upper(packed, low[0] + 1, high[0], wanted)
    else:
        high[0] = low[0] + 1
    return True

cdef inline int order_to_member(const Names *names, Key *key, uint32_t member) noexcept nogil:
    """Compare the key's member with a member of the roster: return a negative number, 0 or a
    positive one."""
    cdef uint32_t length = 0
    cdef const uint8_t *start
    if key.member == member:
        return 0
    if key.start == NULL:
        key.start = name_of(names, key.member, &key.length)
    start = name_of(names, member, &length)
    return compare_bytes(key.start, key.length, start, length)

cdef inline int bound_members(const Names *names, const uint32_t *members, int low, int high,
                              Key *key, bint right) noexcept nogil:
    """Return how many of the first `high` members sort before the key's member. With `right` a
    member equal to the key's is counted, too.

    Each comparison waits for a member's bytes. Members are often added in the order of their names,
    so that a new one sorts after all others; therefore the last one is compared first.
    """
    cdef int middle, order
    if low < high:
        order = order_to_member(names, key, members[high - 1])
        if order > 0 or (right and order == 0):
            return high
        high -= 1
    while low < high:
        middle = (low + high) >> 1
        if high - low > 3:                      # the two members that may be compared next
            prefetch(group_of(names, members[(low + middle) >> 1]))
            prefetch(group_of(names, members[(middle + 1 + high) >> 1]))
        order = order_to_member(names, key, members[middle])
        if order > 0 or (right and order == 0):
            low = middle + 1
        else:
            high = middle
    return low

cdef extern from *:
    """
    #ifdef __SSE2__
    #include <emmintrin.h>
    /* The position of the first of `size` ids that is `id`, or -1: four of them at a time. */
    static inline int laurels_find_id(const uint32_t *ids, int size, uint32_t id) {
        const __m128i wanted = _mm_set1_epi32((int)id);
        int at = 0;
        for (; at + 16 <= size; at += 16) {
            const __m128i *four = (const __m128i *)(ids + at);
            __m128i a = _mm_cmpeq_epi32(_mm_loadu_si128(four), wanted);
            __m128i b = _mm_cmpeq_epi32(_mm_loadu_si128(four + 1), wanted);
            __m128i c = _mm_cmpeq_epi32(_mm_loadu_si128(four + 2), wanted);
            __m128i d = _mm_cmpeq_epi32(_mm_loadu_si128(four + 3), wanted);
            __m128i all = _mm_packs_epi16(_mm_packs_epi32(a, b), _mm_packs_epi32(c, d));
            int hits = _mm_movemask_epi8(all);
            if (hits) return at + __builtin_ctz((unsigned)hits);
        }
        for (; at + 4 <= size; at += 4) {
            __m128i a = _mm_cmpeq_epi32(_mm_loadu_si128((const __m128i *)(ids + at)), wanted);
            int hits = _mm_movemask_ps(_mm_castsi128_ps(a));
            if (hits) return at + __builtin_ctz((unsigned)hits);
        }
        for (; at < size; at++) if (ids[at] == id) return at;
        return -1;
    }
    #else
    static inline int laurels_find_id(const uint32_t *ids, int size, uint32_t id) {
        for (int at = 0; at < size; at++) if (ids[at] == id) return at;
        return -1;
    }
    #endif
    """
    int find_id "laurels_find_id"(const uint32_t *ids, int size, uint32_t id) noexcept nogil
