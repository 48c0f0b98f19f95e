# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""The candidates of best columns: the steps that may become a member's best when older ones leave.

**Method.** Each member has a monotonic queue, as in the well-known algorithm for the minimum of a
sliding window. The queues are kept in the tallies themselves. A step is a *candidate* of a member
when no later step of the window has a strictly better tuple; only candidates have cells. So a
member's candidates never get better from older to newer steps. The oldest candidate has the best
tuple of the window and, of all steps with an equal tuple, the least stamp, since stamps ascend with
steps. When the oldest candidate leaves, the next one has the best tuple. The newest step with an
event is always a candidate; its number is a word of the live entry, so the search for candidates
begins there.

A cell has the best tuple of its step, the least stamp with which this tuple was reached, and two
links: the number of steps back to the previous candidate and on to the next one, 0 for none. A link
back to a step that has left the window counts as none.

**Cost.** An event of the newest step drops the candidates that it beats, beginning with the newest;
each candidate is dropped once, so this is O(1) amortised. For an event of an older step in which
the member has no cell, its position among the candidates is searched from the newest candidate
back: O(newer candidates).
"""
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy

from laurels.engine.tally.cells cimport Cells, put_cell, read_cell, remove_cell
from laurels.engine.writing.journal cimport UndoLog, save_cell
from laurels.engine.tree.leaf cimport WORDS_MOST
from laurels.engine.writing.rule cimport is_earlier, order_of
from .ring cimport Rolling, cells_for, leaving_of, newest_of

cdef struct Candidate:          # a cell and its place
    bint present
    int64_t step
    int64_t row[WORDS_MOST]


cdef inline void read_candidate(const Rolling *rolling, uint32_t member, int64_t step,
                                Candidate *candidate) noexcept nogil:
    """Read the member's cell of a step into `candidate`; it is absent if the member has none there,
    or if the step is not in the window."""
    cdef Cells *cells
    candidate.step = step
    candidate.present = False
    if leaving_of(rolling) <= step <= rolling.running:
        cells = cells_for(rolling, step)
        candidate.present = cells != NULL and read_cell(cells, member, candidate.row)


cdef inline int64_t *previous_link(const Rolling *rolling, Candidate *candidate) noexcept nogil:
    """Return the link to the previous candidate."""
    return &candidate.row[rolling.rule.words]


cdef inline int64_t *next_link(const Rolling *rolling, Candidate *candidate) noexcept nogil:
    """Return the link to the next candidate."""
    return &candidate.row[rolling.rule.words + 1]


cdef inline void read_previous(const Rolling *rolling, uint32_t member, Candidate *candidate,
                               Candidate *before) noexcept nogil:
    """Read the member's candidate before `candidate` into `before`; it is absent if there is
    none."""
    cdef int64_t distance = previous_link(rolling, candidate)[0]
    before.present = False
    if distance > 0:
        read_candidate(rolling, member, candidate.step - distance, before)


cdef inline void read_next(const Rolling *rolling, uint32_t member, Candidate *candidate,
                           Candidate *after) noexcept nogil:
    """Read the member's candidate after `candidate` into `after`; it is absent if there is none."""
    cdef int64_t distance = next_link(rolling, candidate)[0]
    after.present = False
    if distance > 0:
        read_candidate(rolling, member, candidate.step + distance, after)


cdef bint write_candidate(Rolling *rolling, uint32_t member, const Candidate *candidate,
                          UndoLog *undo_log) noexcept nogil:
    """Write a cell; return False if out of memory."""
    cdef Cells *cells = cells_for(rolling, candidate.step)
    return save_cell(undo_log, cells, member) and put_cell(cells, member, candidate.row)


cdef bint drop_candidate(Rolling *rolling, uint32_t member, const Candidate *candidate,
                         UndoLog *undo_log) noexcept nogil:
    cdef Cells *cells = cells_for(rolling, candidate.step)
    if not save_cell(undo_log, cells, member):
        return False
    remove_cell(cells, member)
    return True


cdef bint prune(Rolling *rolling, uint32_t member, const int64_t *row, Candidate *last,
                UndoLog *undo_log) noexcept nogil:
    """Drop the candidates that a tuple strictly beats, from `last` backwards; return False if out
    of memory. Set `last` to the newest remaining candidate, if any.
    """
    cdef Candidate before
    while last.present and order_of(&rolling.rule, row, last.row) < 0:
        read_previous(rolling, member, last, &before)
        if not drop_candidate(rolling, member, last, undo_log):
            return False
        last[0] = before
    return True


cdef bint link(Rolling *rolling, uint32_t member, Candidate *before, Candidate *own,
               Candidate *after, UndoLog *undo_log) noexcept nogil:
    """Write the cell of the candidate `own`, and the links to it in the cells of `before` and
    `after`; return False if out of memory."""
    previous_link(rolling, own)[0] = own.step - before.step if before.present else 0
    next_link(rolling, own)[0] = after.step - own.step if after.present else 0
    if not write_candidate(rolling, member, own, undo_log):
        return False
    if before.present and next_link(rolling, before)[0] != own.step - before.step:
        next_link(rolling, before)[0] = own.step - before.step
        if not write_candidate(rolling, member, before, undo_log):
            return False
    if after.present and previous_link(rolling, after)[0] != after.step - own.step:
        previous_link(rolling, after)[0] = after.step - own.step
        return write_candidate(rolling, member, after, undo_log)
    return True


cdef int improve_candidate(Rolling *rolling, uint32_t member, const int64_t *row, Candidate *own,
                           UndoLog *undo_log) noexcept nogil:
    """Count an event in the cell of its step; return SAME, OTHER or FAILED."""
    cdef int order = order_of(&rolling.rule, row, own.row)
    cdef Candidate before, after
    if order > 0 or (order == 0 and not is_earlier(&rolling.rule, row, own.row)):
        return SAME
    memcpy(own.row, row, rolling.rule.words * sizeof(int64_t))
    if order == 0:
        return OTHER if write_candidate(rolling, member, own, undo_log) else FAILED
    read_previous(rolling, member, own, &before)
    read_next(rolling, member, own, &after)
    if not prune(rolling, member, row, &before, undo_log):
        return FAILED
    return OTHER if link(rolling, member, &before, own, &after, undo_log) else FAILED


cdef int add_candidate(Rolling *rolling, uint32_t member, const int64_t *row, int64_t step,
                       const int64_t *live, UndoLog *undo_log) noexcept nogil:
    """Count an event (tuple and tie word) of a step in the member's candidates.

    `live` is the member's entry before the event, NULL if there is none. Return SAME if the
    candidates are unchanged, OTHER if a cell was written, FAILED if out of memory.
    """
    cdef Candidate own, before, after
    read_candidate(rolling, member, step, &own)
    if own.present:
        return improve_candidate(rolling, member, row, &own, undo_log)
    after.present = False
    before.present = False
    before.step = step
    if live != NULL:
        read_candidate(rolling, member, live[newest_of(rolling)], &before)
    while before.present and before.step > step:
        after = before
        read_previous(rolling, member, &after, &before)
    if after.present and order_of(&rolling.rule, after.row, row) < 0:
        return SAME
    if not prune(rolling, member, row, &before, undo_log):
        return FAILED
    memcpy(own.row, row, rolling.rule.words * sizeof(int64_t))
    return OTHER if link(rolling, member, &before, &own, &after, undo_log) else FAILED
