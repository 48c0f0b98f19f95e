# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""The write rule: the new entry of a member in one ranking after an event.

All scores are signed so that ascending order is ranking order, so the rule knows neither directions
nor scales. The new word of a column depends on its operator:
- *sum*: the old total plus the value.
- *last*: the value, if the event's exact `at` is not less than the greatest exact `at` so far in
  that ranking; else the old word.
- *best* (then all columns are best): the old and the new score are compared as whole tuples, and
  the better one is kept.

The tie word is tie * stamp. The stamp is the time at which the score was reached: for sum and last
columns the greatest stamp of the counted events, for best columns the least stamp of the events
with the best tuple. If a `last` column needs the exact `at` and the tie word does not have it (ties
by member, or a coarser resolution), one more word, which does not affect the order, has the
greatest `at`.
"""
from libc.stdint cimport int64_t


cdef inline bint is_within(const Rule *rule, int column, int64_t value) noexcept nogil:
    return rule.lows[column] <= value <= rule.highs[column]


cdef bint draft_best(const Rule *rule, const int64_t *values, int64_t stamp,
                     Draft *draft) noexcept nogil:
    """Keep the better tuple; if they are equal, the least stamp. Return False when a value is out
    of range."""
    cdef int column, order
    for column in range(rule.columns):
        if not is_within(rule, column, values[column]):
            return False
        draft.new[column] = values[column]
    if rule.tie:
        draft.new[rule.columns] = rule.tie * stamp
    order = order_of(rule, draft.new, draft.old) if draft.present else -1
    draft.changed = order < 0 or (order == 0 and is_earlier(rule, draft.new, draft.old))
    draft.write = draft.changed
    return True


cdef bint draft_running(const Rule *rule, const int64_t *values, int64_t stamp, int64_t at,
                        Draft *draft) noexcept nogil:
    """Draft sums and last values, with the greatest stamp. Return False when a total is out of
    range."""
    cdef int column
    cdef int tie = rule.columns
    cdef int64_t newest = at
    draft.changed = not draft.present
    if draft.present and rule.last:
        newest = draft.old[rule.words - 1] if rule.stamped else rule.tie * draft.old[tie]
    for column in range(rule.columns):
        draft.new[column] = values[column]
        if rule.ops[column] == OP_SUM:
            if not -SANE <= values[column] <= SANE:
                return False
            draft.new[column] += draft.old[column]
        if not is_within(rule, column, draft.new[column]):
            return False
        if rule.ops[column] == OP_LAST and at < newest:
            draft.new[column] = draft.old[column]
        draft.changed |= draft.new[column] != draft.old[column]
    if rule.tie:
        draft.new[tie] = latest_tie(rule.tie, stamp, draft.present, draft.old[tie])
        draft.changed |= draft.new[tie] != draft.old[tie]
    draft.write = draft.changed
    if rule.stamped:
        draft.new[rule.words - 1] = max(at, newest)
        draft.write |= draft.new[rule.words - 1] != draft.old[rule.words - 1]
    return True


cdef bint draft_entry(const Rule *rule, const int64_t *values, int64_t stamp, int64_t at,
                      Draft *draft) noexcept nogil:
    """Draft the new entry after an event with these values.

    For an absent member `old` is all 0. Return False when the event is out of range and must not
    count.
    """
    if rule.best:
        return draft_best(rule, values, stamp, draft)
    return draft_running(rule, values, stamp, at, draft)
