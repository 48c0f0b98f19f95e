# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""The loop of the fold: each event counts in all windows of its board, or in none.

For each event and each window that accepts it, the new entry is drafted (`rule.pyx`) from the
current one; in a rolling window the cell of the event's step is drafted, too. If every draft is
within range, all drafts are written; after them, rolling windows also write the entry that they
prepare for the next step. So an event counts in all its windows or in none, and no write has to be
undone when a draft is out of range. An absolute event is first converted to a relative one: its
value minus the total in the window `all`, which is the same difference for every window. In a
window with decay, `decay.pxd` makes the draft: a total of two words, without bounds. In a deferred
rolling window only the cell is checked against the range, and the reported entry is the one that
the last refresh has made.

**Prefetching.** Most of the cost of an event in a large ranking is waiting for memory: for the
member's slot in the table, then its leaf, then the leaf that the entry will move to. So the loop
prefetches each of these some events before it is needed. To find the leaf that the entry will move
to, the loop drafts an event twice: once ahead of time, from the current entries, and again when the
event is counted. If each event is of a different member, the events are counted in such an order
that neighbours in the ranking follow each other (`visiting.pyx`).
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from laurels.engine.rolling.candidates cimport FAILED, SAME, add_candidate
from laurels.engine.tally.cells cimport Cells, find_cell, prefetch_cell, prefetch_slot, put_cell_at
from laurels.engine.tree.entries cimport (
    FAR, LARGE, NEAR, NEXT, Hint, predict_write, prefetch_entry, prefetch_place,
)
from laurels.engine.writing.decay cimport add_decayed
from .job cimport (
    ST_APPLIED, ST_OUT_OF_RANGE, ST_UNCHANGED, WINDOWS_MOST, DecayPair, Job, Route, Store,
    score_words,
)
from laurels.engine.writing.journal cimport save_cell
from laurels.engine.tree.leaf cimport WORDS_MOST, leaf_read
from laurels.engine.rolling.prepare cimport predict_prepared, prepare
from laurels.engine.rolling.ring cimport Rolling, cells_for, leaving_of, newest_of, ranking_of
from laurels.engine.writing.rule cimport COLUMNS_MOST, OP_SUM, SANE, Draft, draft_entry, latest_tie
from laurels.engine.tree.tree cimport Spot, Tree
from .visiting cimport Visiting, begin_visiting, end_visiting
from laurels.engine.writing.write cimport Write, clear_hint, read_entry, write_entry


cdef struct Part:               # what is read and written for an event in one window
    Write entry                 # in the ranking; in a rolling window in `live`; in a deferred
                                # one in `prepared`, if the build has visited the member
    Rolling *rolling            # NULL if the window is not rolling
    Cells *cells                # in a rolling window: the tally of the event's step
    Spot cell_spot              # where the member's cell is, if its draft is present
    Draft cell
    Hint prepared               # the hint for the prepared entry


cdef struct EventHints:         # the hints for an event in one window
    Hint entry
    Hint prepared


cdef struct HintRing:           # the hints for the next events
    EventHints hints[NEXT][WINDOWS_MOST]


cdef inline Store *store_for(const Job *job, int window, Py_ssize_t event) noexcept nogil:
    """Return the target of an event in a window, or NULL if the window does not accept the
    event."""
    cdef const Route *route = &job.routes[window]
    cdef int32_t store = route.all if route.each == NULL else route.each[event]
    return NULL if store < 0 else &job.stores[store]


cdef inline void read_cell_of(Part *part, uint32_t member) noexcept nogil:
    cdef int word
    part.cell.present = find_cell(part.cells, member, &part.cell_spot)
    part.cell.write = False
    if part.cell.present:
        leaf_read(part.cell_spot.leaf, part.cells.words, part.cell_spot.at, part.cell.old)
        return
    for word in range(WORDS_MOST):
        part.cell.old[word] = 0


cdef inline void read_part(const Job *job, int window, Py_ssize_t event, Part *part) noexcept nogil:
    """Read the member's entry in a window, if the window accepts the event."""
    cdef Store *store = store_for(job, window, event)
    cdef Tree *tree = NULL
    part.rolling = NULL if store == NULL else store.rolling
    if part.rolling != NULL:
        tree = ranking_of(part.rolling, job.ids[window][event])
        part.cells = store.cells
        if not part.rolling.rule.best or part.rolling.deferred:
            read_cell_of(part, job.ids[window][event])
    elif store != NULL:
        tree = store.tree
    read_entry(tree, job.ids[window][event], &part.entry)


cdef void read_parts(const Job *job, Py_ssize_t event, Part *parts) noexcept nogil:
    """Read the member's entries in all windows that accept the event."""
    cdef int window
    for window in range(job.windows):
        read_part(job, window, event, &parts[window])


cdef inline void read_values(const Job *job, Py_ssize_t event, const Part *parts,
                             int64_t *values) noexcept nogil:
    """Read the event's values; for the sums of an absolute event, the differences to the totals in
    the window `all`."""
    cdef int column
    cdef bint absolute = job.sets != NULL and job.sets[event] and job.all_window >= 0
    for column in range(job.rule.columns):
        values[column] = job.values[column][event]
        if absolute and job.rule.ops[column] == OP_SUM and -SANE <= values[column] <= SANE:
            values[column] -= parts[job.all_window].entry.draft.old[column]


cdef inline void draft_newest(Part *part) noexcept nogil:
    """Complete the draft of a live entry with the member's newest step."""
    cdef Draft *draft = &part.entry.draft
    cdef int newest = newest_of(part.rolling)
    cdef int64_t step = part.cells.number
    if not draft.write:
        memcpy(draft.new, draft.old, part.rolling.rule.words * sizeof(int64_t))
    if draft.present and draft.old[newest] > step:
        step = draft.old[newest]
    draft.new[newest] = step
    draft.write |= step != draft.old[newest]


cdef inline void draft_decayed(const Job *job, int window, Py_ssize_t event, int64_t value,
                             int64_t stamp, Draft *draft) noexcept nogil:
    """Draft the entry of a window with decay: the new total, and the greatest stamp so far."""
    cdef const DecayPair *decay = &job.decays[window]
    cdef int tie = job.rule.tie
    add_decayed(draft.old, value,
            decay.exponent if decay.exponents == NULL else decay.exponents[event],
            decay.mantissa if decay.mantissas == NULL else decay.mantissas[event], draft.new)
    if tie:
        draft.new[2] = latest_tie(tie, stamp, draft.present, draft.old[2])
    draft.changed = not draft.present or draft.new[0] != draft.old[0] or (
        draft.new[1] != draft.old[1] or (tie != 0 and draft.new[2] != draft.old[2]))
    draft.write = draft.changed


cdef inline bint draft_deferred(const int64_t *values, int64_t stamp, int64_t at,
                                Part *part) noexcept nogil:
    """Draft an event in a deferred window: its cell, and the entry in the ranking being built.
    Return False if the cell is out of range."""
    cdef Draft *draft = &part.entry.draft
    if not draft_entry(&part.rolling.step_rule, values, stamp, at, &part.cell):
        return False
    if part.entry.tree != NULL and not draft_entry(
            &part.rolling.rule, values, stamp, at, draft):
        return False
    draft.changed = part.cell.changed
    return True


cdef bint draft_parts(const Job *job, Py_ssize_t event, Part *parts) noexcept nogil:
    """Draft the entries and cells that an event makes in all windows. `read_parts` must have read
    the current entries and cells before. Return False if a score would be out of range."""
    cdef int64_t values[COLUMNS_MOST]
    cdef int64_t at = job.at if job.ats == NULL else job.ats[event]
    cdef int64_t stamp = job.stamp if job.stamps == NULL else job.stamps[event]
    cdef int window
    cdef Part *part
    read_values(job, event, parts, values)
    for window in range(job.windows):
        part = &parts[window]
        if part.rolling != NULL and part.rolling.deferred:
            if not draft_deferred(values, stamp, at, part):
                return False
            continue
        if part.entry.tree == NULL:
            continue
        if job.decays[window].on:
            draft_decayed(job, window, event, values[0], stamp, &part.entry.draft)
            continue
        if not draft_entry(&job.rule, values, stamp, at, &part.entry.draft):
            return False
        if part.rolling == NULL:
            continue
        draft_newest(part)
        if job.rule.best:
            draft_cell(job, values, stamp, part)
        elif not draft_entry(&part.rolling.step_rule, values, stamp, at, &part.cell):
            return False
    return True


cdef inline void draft_cell(const Job *job, const int64_t *values, int64_t stamp,
                            Part *part) noexcept nogil:
    """Draft the cell that this event alone would make, if the columns have the operator best."""
    memcpy(part.cell.new, values, job.rule.columns * sizeof(int64_t))
    part.cell.new[job.rule.columns] = job.rule.tie * stamp


cdef int write_cell(const Job *job, uint32_t member, Part *part) noexcept nogil:
    """Write the cell of the event's step; return whether it changed, or FAILED if out of
    memory."""
    cdef Draft *live = &part.entry.draft
    if job.rule.best:
        return add_candidate(part.rolling, member, part.cell.new, part.cells.number,
                             live.old if live.present else NULL, job.undo_log)
    if not part.cell.write:
        return SAME
    if not save_cell(job.undo_log, part.cells, member) or not put_cell_at(
            part.cells, member, part.cell.new, &part.cell_spot, part.cell.present):
        return FAILED
    return True


cdef bint write_deferred(const Job *job, uint32_t member, Part *part) noexcept nogil:
    """Write the cell and, if it was drafted, the entry in the ranking being built; return False if
    out of memory."""
    cdef Write *entry = &part.entry
    if part.cell.write and not (save_cell(job.undo_log, part.cells, member) and put_cell_at(
            part.cells, member, part.cell.new, &part.cell_spot, part.cell.present)):
        return False
    return entry.tree == NULL or not entry.draft.write or write_entry(
        entry, member, entry.draft.new, job.undo_log)


cdef bint write_part(const Job *job, uint32_t member, Part *part) noexcept nogil:
    """Write the entry and the cell drafted for a window; return False if out of memory."""
    cdef Write *entry = &part.entry
    cdef int written = SAME
    if part.rolling != NULL and part.rolling.deferred:
        return write_deferred(job, member, part)
    if entry.tree == NULL:
        return True
    if part.rolling != NULL:
        written = write_cell(job, member, part)
        if written == FAILED:
            return False
    if entry.draft.write and not write_entry(entry, member, entry.draft.new, job.undo_log):
        return False
    if part.rolling != NULL and (written or entry.draft.write):
        return prepare(part.rolling, member, entry.draft.new, &part.prepared, job.undo_log)
    return True


cdef int count_event(const Job *job, Py_ssize_t event, Part *parts) noexcept nogil:
    """Count one event in all its windows or in none; return its status, or -1 if out of memory."""
    cdef bint changed = False
    cdef int window
    if not draft_parts(job, event, parts):
        return ST_OUT_OF_RANGE
    for window in range(job.windows):
        if not write_part(job, job.ids[window][event], &parts[window]):
            return -1
        changed |= parts[window].entry.draft.changed
    return ST_APPLIED if changed else ST_UNCHANGED


cdef inline void clear_hints(const Job *job, EventHints *hints) noexcept nogil:
    """Clear the hints of all windows. Otherwise they may be left from an earlier event, which had
    other rankings as targets."""
    cdef int window
    for window in range(job.windows):
        clear_hint(&hints[window].entry)
        clear_hint(&hints[window].prepared)


cdef inline void prefetch_rolling(Rolling *rolling, Cells *cells, uint32_t member,
                                  bint near) noexcept nogil:
    """Prefetch, like `prefetch_event`, the data that only a rolling window uses: the prepared entry
    and two cells."""
    cdef Cells *leaving = cells_for(rolling, leaving_of(rolling))
    if rolling.deferred:
        if near:
            prefetch_cell(cells, member)
        else:
            prefetch_slot(cells, member)
    elif near:
        prefetch_entry(rolling.prepared, member)
        prefetch_cell(cells, member)
        if leaving != NULL:
            prefetch_cell(leaving, member)
    else:
        prefetch_place(rolling.prepared, member)
        prefetch_slot(cells, member)
        if leaving != NULL:
            prefetch_slot(leaving, member)


cdef void prefetch_event(const Job *job, Py_ssize_t event, bint near) noexcept nogil:
    """Prefetch the memory in which an event's entries are looked up: the member's slots in the
    tables, or with `near` the leaves."""
    cdef Rolling *rolling
    cdef Store *store
    cdef Tree *tree
    cdef int window
    for window in range(job.windows):
        store = store_for(job, window, event)
        if store == NULL:
            continue
        rolling = store.rolling
        tree = store.tree
        if rolling != NULL:
            tree = ranking_of(rolling, job.ids[window][event])
        if tree != NULL and near:
            prefetch_entry(tree, job.ids[window][event])
        elif tree != NULL:
            prefetch_place(tree, job.ids[window][event])
        if rolling != NULL:
            prefetch_rolling(rolling, store.cells, job.ids[window][event], near)


cdef void hint_event(const Job *job, Py_ssize_t event, EventHints *hints,
                     Part *parts) noexcept nogil:
    """Draft a later event from the current entries, and prefetch the leaves to which its entries
    will move."""
    cdef Write *entry
    cdef int window
    clear_hints(job, hints)
    for window in range(job.windows):
        clear_hint(&parts[window].entry.hint)
    read_parts(job, event, parts)
    draft_parts(job, event, parts)
    for window in range(job.windows):
        entry = &parts[window].entry
        if not entry.draft.write:
            continue
        predict_write(entry.tree, job.ids[window][event], entry.draft.new,
                      &entry.spot if entry.draft.present else NULL, &hints[window].entry)
        if parts[window].rolling != NULL and not parts[window].rolling.deferred:
            predict_prepared(parts[window].rolling, job.ids[window][event], entry.draft.new,
                             &hints[window].prepared)


cdef inline void prefetch_ahead(const Job *job, Py_ssize_t event, HintRing *hint_ring,
                                Part *parts) noexcept nogil:
    """Prefetch memory for three later events. The prefetch for one event consists of three actions,
    each of which needs the memory that the previous one has prefetched. Each call does the first
    action for the farthest of the three events, the second for the next one, and the third for the
    nearest."""
    cdef EventHints *hints = &hint_ring.hints[event % NEXT][0]
    if event + FAR < job.stop:
        prefetch_event(job, event + FAR, False)
    if event + NEAR < job.stop:
        prefetch_event(job, event + NEAR, True)
    if event + NEXT < job.stop:
        if job.status[event + NEXT] == 0:
            hint_event(job, event + NEXT, hints, parts)
        else:
            clear_hints(job, hints)


cdef inline void report(const Job *job, Py_ssize_t event, const Draft *draft,
                        bint counted) noexcept nogil:
    """Report the member's entry, before and after the event, in the window `job.watch`."""
    cdef Py_ssize_t row = event - job.start
    cdef bint written = counted and draft.write
    cdef int column
    job.present_before[row] = draft.present
    job.present_after[row] = draft.present or written
    for column in range(score_words(job, job.watch)):
        job.before[column][row] = draft.old[column]
        job.after[column][row] = draft.new[column] if written else draft.old[column]


cdef inline void report_shown(const Job *job, Py_ssize_t event,
                              const Rolling *rolling) noexcept nogil:
    """Report the entry of a deferred window as of its last refresh: events do not change it."""
    cdef Write shown
    clear_hint(&shown.hint)
    read_entry(rolling.live, job.ids[job.watch][event], &shown)
    report(job, event, &shown.draft, False)


cdef inline void trace_event(const Job *job, Py_ssize_t event, const Part *parts) noexcept nogil:
    """After a counted event, record the member's entries in the traced windows that accepted it,
    and the differences that an absolute event added."""
    cdef Py_ssize_t row = event if job.places == NULL else job.places[event]
    cdef int64_t values[COLUMNS_MOST]
    cdef const Draft *draft
    cdef int i, word
    for i in range(job.traced):
        draft = &parts[job.traces[i].window].entry.draft
        if parts[job.traces[i].window].entry.tree == NULL:
            continue
        for word in range(job.rule.words):
            job.traces[i].words[word][row] = draft.new[word] if draft.write else draft.old[word]
    if job.added[0] != NULL:
        read_values(job, event, parts, values)
        for word in range(job.rule.columns):
            job.added[word][row] = values[word]


cdef bint is_large(const Job *job) noexcept nogil:
    """Return whether any ranking or tally is larger than a cache, so that prefetching pays off."""
    cdef int i
    for i in range(job.store_count):
        if job.stores[i].tree != NULL and job.stores[i].tree.size > LARGE:
            return True
        if job.stores[i].cells != NULL and job.stores[i].cells.size > LARGE:
            return True
        if job.stores[i].rolling != NULL and job.stores[i].rolling.live.size > LARGE:
            return True
    return False


cdef int process_event(const Job *job, Py_ssize_t event, Part *parts) noexcept nogil:
    """Count an event, unless it has a status already, and report it; return -1 if out of memory."""
    cdef int status = job.status[event]
    cdef bint passed_over = status != 0
    if not passed_over:
        read_parts(job, event, parts)
        status = count_event(job, event, parts)
        if status < 0:
            return -1
        job.status[event] = <uint8_t>status
        if job.traced and status != ST_OUT_OF_RANGE:
            trace_event(job, event, parts)
    elif job.watch >= 0:
        read_part(job, job.watch, event, &parts[job.watch])
    if job.watch < 0:
        return 0
    if parts[job.watch].rolling != NULL and parts[job.watch].rolling.deferred:
        report_shown(job, event, parts[job.watch].rolling)
    else:
        report(job, event, &parts[job.watch].entry.draft,
               not passed_over and status != ST_OUT_OF_RANGE)
    return 0


cdef int count_in_order(const Job *job, bint prefetching) noexcept nogil:
    """Count all events of the job in their order; return -1 if out of memory."""
    cdef Part parts[WINDOWS_MOST]
    cdef HintRing hint_ring
    cdef Py_ssize_t event
    cdef int window
    for event in range(NEXT):
        clear_hints(job, &hint_ring.hints[event][0])
    for event in range(job.start, job.stop):
        for window in range(job.windows):
            parts[window].entry.hint = hint_ring.hints[event % NEXT][window].entry
            parts[window].prepared = hint_ring.hints[event % NEXT][window].prepared
        if process_event(job, event, parts) < 0:
            return -1
        if prefetching:
            prefetch_ahead(job, event, &hint_ring, parts)
    return 0


cdef int count_events(const Job *job) noexcept nogil:
    """Count all events of the job, each member's events in their order; return -1 if out of
    memory."""
    cdef Visiting visiting
    cdef int outcome
    if not is_large(job):
        return count_in_order(job, False)
    if not begin_visiting(job, &visiting):
        return count_in_order(job, True)
    outcome = count_in_order(&visiting.job, True)
    end_visiting(&visiting)
    return outcome
