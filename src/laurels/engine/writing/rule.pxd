# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from libc.stdint cimport int64_t

from laurels.engine.tree.leaf cimport WORDS_MOST

cdef enum:
    COLUMNS_MOST = 4
    OP_SUM = 0
    OP_LAST = 1
    OP_BEST = 2

cdef extern from *:
    """
    #define LAURELS_SANE ((int64_t)1 << 54)
    """
    const int64_t SANE "LAURELS_SANE"   # a bound of the values of events, and of their differences to totals

cdef struct Rule:
    int columns
    int words
    int tie                     # 1, -1 or 0
    bint stamped
    bint best                   # whether all columns are `best`
    bint last                   # whether any column is `last`
    int ops[COLUMNS_MOST]
    int64_t lows[COLUMNS_MOST]
    int64_t highs[COLUMNS_MOST]

cdef struct Draft:              # an entry before and after an event
    bint present
    bint write                  # whether any word differs
    bint changed                # whether the member is new, or a column or the tie differs
    int64_t old[WORDS_MOST]
    int64_t new[WORDS_MOST]

cdef inline int order_of(const Rule *rule, const int64_t *left, const int64_t *right) noexcept nogil:
    """Compare two tuples: return a negative number if the first is better, a positive one if it is
    worse, else 0."""
    cdef int column
    for column in range(rule.columns):
        if left[column] != right[column]:
            return -1 if left[column] < right[column] else 1
    return 0

cdef inline bint is_earlier(const Rule *rule, const int64_t *row, const int64_t *other) noexcept nogil:
    """Return whether `row` was reached with a lesser stamp than `other`, which has the same
    columns."""
    cdef int tie = rule.columns
    return rule.tie and rule.tie * row[tie] < rule.tie * other[tie]

cdef inline int64_t latest_tie(int tie, int64_t stamp, bint present, int64_t word) noexcept nogil:
    """Return the tie word of an entry after an event. It has the greater of two stamps: the event's
    `stamp`, and the stamp in `word`, the entry's tie word before the event. If `present` is false,
    there was no entry before the event."""
    return word if present and tie * word > stamp else tie * stamp

cdef bint draft_entry(const Rule *rule, const int64_t *values, int64_t stamp, int64_t at,
                      Draft *draft) noexcept nogil
