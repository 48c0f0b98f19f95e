# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""The order in which the events of a batch are visited: as they came, or neighbours together.

The branches above the leaves of a large ranking do not fit into the nearest cache, and a search
waits for several of their cache lines, each of which is known only from the one before. If every
event is of another member, as when members are loaded, the events do not affect each other, so they
can be counted in any order. In the order of their first values, successive new members go to the
same or the next branch, which is still in the cache from the event before.

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
    """Return whether ids ascend, as those of new members do, so that none occurs twice."""
    cdef Py_ssize_t i
    for i in range(1, count):
        if ids[i - 1] >= ids[i]:
            return False
    return True


cdef void spread(const Visit *visits, Visit *to, Py_ssize_t count, int shift) noexcept nogil:
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
    """Sort visits by their keys; return where the result is. O(n) for each byte in which keys
    differ."""
    cdef uint64_t differing = 0
    cdef Visit *swapped
    cdef Py_ssize_t i
    cdef int shift
    for i in range(count):
        differing |= visits[i].key ^ visits[0].key
    for shift in range(0, 64, 8):
        if differing >> shift & 0xFF:
            spread(visits, spare, count, shift)
            swapped = visits
            visits = spare
            spare = swapped
    return visits


cdef bint are_members_distinct(const Job *job) noexcept nogil:
    """Return whether every event is certainly of another member, in all windows."""
    cdef int window
    for window in range(job.windows):
        if job.ids[window] != job.ids[0]:
            return False
    return job.windows > 0 and are_distinct(job.ids[0] + job.start, job.stop - job.start)


cdef const Visit *order_visits(const Job *job, Visit *visits) noexcept nogil:
    """Return the events of a job in the order of their first values; `visits` has room for two of
    each."""
    cdef Py_ssize_t count = job.stop - job.start
    cdef Py_ssize_t i
    for i in range(count):
        visits[i].key = <uint64_t>job.values[0][job.start + i] ^ <uint64_t>1 << 63
        visits[i].event = <uint32_t>(job.start + i)
    return sort_visits(visits, visits + count, count)


cdef Py_ssize_t room_of(const Job *job) noexcept nogil:
    """Return a number of bytes that suffices for all columns of a job and two visits of each
    event."""
    cdef Py_ssize_t columns = 6 + 3 * job.windows + 3 * job.rule.columns + 3
    return (job.stop - job.start + 1) * (columns * <Py_ssize_t>sizeof(uint64_t)
                                         + 2 * <Py_ssize_t>sizeof(Visit))


cdef void *cut(Visiting *visiting, Py_ssize_t width) noexcept nogil:
    """Return memory for a column with an item for each event."""
    cdef char *column = visiting.free
    visiting.free += (width * visiting.job.stop + 7) & ~<Py_ssize_t>7
    return column


cdef const item_t *pick(Visiting *visiting, const item_t *column) noexcept nogil:
    """Return a column (NULL: none) in the order of the visits."""
    cdef item_t *picked
    cdef Py_ssize_t i
    if column == NULL:
        return NULL
    picked = <item_t *>cut(visiting, sizeof(item_t))
    for i in range(visiting.job.stop):
        picked[i] = column[visiting.order[i].event]
    return picked


cdef void put_back(const Visiting *visiting, const item_t *column, item_t *reported) noexcept nogil:
    """Copy the report of each visit to the position of its event."""
    cdef Py_ssize_t i
    for i in range(visiting.job.stop):
        reported[visiting.order[i].event - visiting.given.start] = column[i]


cdef void pick_columns(Visiting *visiting) noexcept nogil:
    """Set the columns of the job, in the order of the visits."""
    cdef const Job *given = visiting.given
    cdef Job *job = &visiting.job
    cdef int window, column
    job.status = <uint8_t *>pick(visiting, <const uint8_t *>given.status)
    job.sets = pick(visiting, given.sets)
    job.stamps = pick(visiting, given.stamps)
    job.ats = job.stamps if given.ats == given.stamps else pick(visiting, given.ats)
    job.ids[0] = pick(visiting, given.ids[0])
    for column in range(given.rule.columns):
        job.values[column] = pick(visiting, given.values[column])
    for window in range(given.windows):
        job.ids[window] = job.ids[0]
        job.routes[window].each = pick(visiting, given.routes[window].each)
        if given.decays[window].on:
            job.decays[window].exponents = pick(visiting, given.decays[window].exponents)
            job.decays[window].mantissas = pick(visiting, given.decays[window].mantissas)


cdef void note_places(Visiting *visiting) noexcept nogil:
    """Note the position of each event in the caller's columns, since traces are written there
    directly."""
    cdef uint32_t *places = <uint32_t *>cut(visiting, sizeof(uint32_t))
    cdef Py_ssize_t i
    for i in range(visiting.job.stop):
        places[i] = visiting.order[i].event
    visiting.job.places = places


cdef void cut_reports(Visiting *visiting) noexcept nogil:
    """Set columns of the job's own for its reports."""
    cdef Job *job = &visiting.job
    cdef int column
    if job.watch < 0:
        return
    job.present_before = <char *>cut(visiting, sizeof(char))
    job.present_after = <char *>cut(visiting, sizeof(char))
    for column in range(score_words(job, job.watch)):
        job.before[column] = <int64_t *>cut(visiting, sizeof(int64_t))
        job.after[column] = <int64_t *>cut(visiting, sizeof(int64_t))


cdef bint begin_visiting(const Job *given, Visiting *visiting) noexcept nogil:
    """Put the events of a job in an order that leads from neighbour to neighbour; return False if
    they should be counted as they came."""
    cdef Py_ssize_t count = given.stop - given.start
    if count < VISITS_LEAST or not are_members_distinct(given):
        return False
    visiting.room = <char *>malloc(room_of(given))
    if visiting.room == NULL:
        return False
    visiting.given = given
    visiting.job = given[0]
    visiting.job.start = 0
    visiting.job.stop = count
    visiting.order = order_visits(given, <Visit *>visiting.room)
    visiting.free = visiting.room + 2 * count * <Py_ssize_t>sizeof(Visit)
    pick_columns(visiting)
    cut_reports(visiting)
    if visiting.job.traced:
        note_places(visiting)
    return True


cdef void end_visiting(Visiting *visiting) noexcept nogil:
    """Copy the reports back to the order of the events, and free the memory."""
    cdef const Job *given = visiting.given
    cdef const Job *job = &visiting.job
    cdef int column
    put_back(visiting, <const uint8_t *>job.status, given.status + given.start)
    if job.watch >= 0:
        put_back(visiting, <const char *>job.present_before, given.present_before)
        put_back(visiting, <const char *>job.present_after, given.present_after)
        for column in range(score_words(job, job.watch)):
            put_back(visiting, <const int64_t *>job.before[column], given.before[column])
            put_back(visiting, <const int64_t *>job.after[column], given.after[column])
    free(visiting.room)
