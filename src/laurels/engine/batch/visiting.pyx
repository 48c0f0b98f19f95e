# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""The order in which the events of a batch are counted: as they arrived, or so that events of
neighbours in the ranking follow each other.

The branches above the leaves of a large ranking do not fit into the nearest cache, and a search
waits for several of their cache lines, one after the other, since each tells which line is needed
next. If every event is of a different member, as when members are loaded, the events do not affect
each other, so they can be counted in any order. In the order of their first values, successive new
members go to the same or the next branch, which the previous event has brought into the cache.

The events themselves are copied in that order, column by column, and their reports are copied back.
Such a copy has many reads of memory in progress at the same time, whereas the loop, which needs an
event's columns before it can continue, would wait for each of them.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from .job cimport Job, score_words

ctypedef fused item_t:
    uint8_t
    char
    int32_t
    uint32_t
    int64_t

cdef enum:
    VISITS_LEAST = 256          # the number of events from which ordering them pays off
    DIGITS = 256


cdef bint are_distinct(const uint32_t *ids, Py_ssize_t count) noexcept nogil:
    """Return whether ids ascend strictly, so that no member occurs twice. This is so for new
    members, whose ids are assigned in ascending order."""
    cdef Py_ssize_t i
    for i in range(1, count):
        if ids[i - 1] >= ids[i]:
            return False
    return True


cdef void sort_by_byte(const Visit *visits, Visit *to, Py_ssize_t count, int shift) noexcept nogil:
    """Sort visits by one byte of their keys, stably."""
    cdef Py_ssize_t starts[DIGITS]
    cdef Py_ssize_t start = 0
    cdef Py_ssize_t i, size
    memset(starts, 0, sizeof(starts))
    for i in range(count):
        starts[visits[i].key >> shift & 0xFF] += 1
    for i in range(DIGITS):
        size = starts[i]
        starts[i] = start
        start += size
    for i in range(count):
        to[starts[visits[i].key >> shift & 0xFF]] = visits[i]
        starts[visits[i].key >> shift & 0xFF] += 1


cdef const Visit *sort_visits(Visit *visits, Visit *spare, Py_ssize_t count) noexcept nogil:
    """Sort visits by their keys; return the array that has the result, `visits` or `spare`. O(n)
    for each byte in which keys differ."""
    cdef uint64_t differing = 0
    cdef Visit *swapped
    cdef Py_ssize_t i
    cdef int shift
    for i in range(count):
        differing |= visits[i].key ^ visits[0].key
    for shift in range(0, 64, 8):
        if differing >> shift & 0xFF:
            sort_by_byte(visits, spare, count, shift)
            swapped = visits
            visits = spare
            spare = swapped
    return visits


cdef bint are_members_distinct(const Job *job) noexcept nogil:
    """Return whether every event is certainly of a different member, in all windows."""
    cdef int window
    for window in range(job.windows):
        if job.ids[window] != job.ids[0]:
            return False
    return job.windows > 0 and are_distinct(job.ids[0] + job.start, job.stop - job.start)


cdef const Visit *order_visits(const Job *job, Visit *visits) noexcept nogil:
    """Return a visit of each event of a job, sorted by the events' first values. `visits` must have
    room for two visits of each event, since the sort moves them between two arrays."""
    cdef Py_ssize_t count = job.stop - job.start
    cdef Py_ssize_t i
    for i in range(count):
        visits[i].key = <uint64_t>job.values[0][job.start + i] ^ <uint64_t>1 << 63
        visits[i].event = <uint32_t>(job.start + i)
    return sort_visits(visits, visits + count, count)


cdef Py_ssize_t memory_size(const Job *job) noexcept nogil:
    """Return a number of bytes that suffices for all columns of a job and two visits of each
    event."""
    cdef Py_ssize_t columns = 6 + 3 * job.windows + 3 * job.rule.columns + 3
    return (job.stop - job.start + 1) * (columns * <Py_ssize_t>sizeof(uint64_t)
                                         + 2 * <Py_ssize_t>sizeof(Visit))


cdef void *allocate_column(Visiting *visiting, Py_ssize_t width) noexcept nogil:
    """Return memory for a column with an item for each event."""
    cdef char *column = visiting.free
    visiting.free += (width * visiting.job.stop + 7) & ~<Py_ssize_t>7
    return column


cdef const item_t *reorder(Visiting *visiting, const item_t *column) noexcept nogil:
    """Return a column (NULL: none) in the order of the visits."""
    cdef item_t *reordered
    cdef Py_ssize_t i
    if column == NULL:
        return NULL
    reordered = <item_t *>allocate_column(visiting, sizeof(item_t))
    for i in range(visiting.job.stop):
        reordered[i] = column[visiting.order[i].event]
    return reordered


cdef void scatter_report(const Visiting *visiting, const item_t *column,
                         item_t *reported) noexcept nogil:
    """Copy the report of each visit to the position of its event."""
    cdef Py_ssize_t i
    for i in range(visiting.job.stop):
        reported[visiting.order[i].event - visiting.source.start] = column[i]


cdef void reorder_columns(Visiting *visiting) noexcept nogil:
    """Set the columns of the job, in the order of the visits."""
    cdef const Job *source = visiting.source
    cdef Job *job = &visiting.job
    cdef int window, column
    job.status = <uint8_t *>reorder(visiting, <const uint8_t *>source.status)
    job.sets = reorder(visiting, source.sets)
    job.stamps = reorder(visiting, source.stamps)
    job.ats = job.stamps if source.ats == source.stamps else reorder(visiting, source.ats)
    job.ids[0] = reorder(visiting, source.ids[0])
    for column in range(source.rule.columns):
        job.values[column] = reorder(visiting, source.values[column])
    for window in range(source.windows):
        job.ids[window] = job.ids[0]
        job.routes[window].each = reorder(visiting, source.routes[window].each)
        if source.decays[window].on:
            job.decays[window].exponents = reorder(visiting, source.decays[window].exponents)
            job.decays[window].mantissas = reorder(visiting, source.decays[window].mantissas)


cdef void record_positions(Visiting *visiting) noexcept nogil:
    """Record the position of each event in the caller's columns, because traces are written to
    those columns directly."""
    cdef uint32_t *places = <uint32_t *>allocate_column(visiting, sizeof(uint32_t))
    cdef Py_ssize_t i
    for i in range(visiting.job.stop):
        places[i] = visiting.order[i].event
    visiting.job.places = places


cdef void allocate_reports(Visiting *visiting) noexcept nogil:
    """Allocate separate columns for the reports of the job; `end_visiting` copies them back."""
    cdef Job *job = &visiting.job
    cdef int column
    if job.watch < 0:
        return
    job.present_before = <char *>allocate_column(visiting, sizeof(char))
    job.present_after = <char *>allocate_column(visiting, sizeof(char))
    for column in range(score_words(job, job.watch)):
        job.before[column] = <int64_t *>allocate_column(visiting, sizeof(int64_t))
        job.after[column] = <int64_t *>allocate_column(visiting, sizeof(int64_t))


cdef bint begin_visiting(const Job *source, Visiting *visiting) noexcept nogil:
    """Reorder the events of a job so that neighbours in the ranking follow each other. Return
    False if the events should be counted in the order in which they arrived."""
    cdef Py_ssize_t count = source.stop - source.start
    if count < VISITS_LEAST or not are_members_distinct(source):
        return False
    visiting.memory = <char *>malloc(memory_size(source))
    if visiting.memory == NULL:
        return False
    visiting.source = source
    visiting.job = source[0]
    visiting.job.start = 0
    visiting.job.stop = count
    visiting.order = order_visits(source, <Visit *>visiting.memory)
    visiting.free = visiting.memory + 2 * count * <Py_ssize_t>sizeof(Visit)
    reorder_columns(visiting)
    allocate_reports(visiting)
    if visiting.job.traced:
        record_positions(visiting)
    return True


cdef void end_visiting(Visiting *visiting) noexcept nogil:
    """Copy the reports back to the order of the events, and free the memory."""
    cdef const Job *source = visiting.source
    cdef const Job *job = &visiting.job
    cdef int column
    scatter_report(visiting, <const uint8_t *>job.status, source.status + source.start)
    if job.watch >= 0:
        scatter_report(visiting, <const char *>job.present_before, source.present_before)
        scatter_report(visiting, <const char *>job.present_after, source.present_after)
        for column in range(score_words(job, job.watch)):
            scatter_report(visiting, <const int64_t *>job.before[column], source.before[column])
            scatter_report(visiting, <const int64_t *>job.after[column], source.after[column])
    free(visiting.memory)
