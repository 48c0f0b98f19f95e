# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""The fold: a batch of events counted in all windows of a board.

This is the Python interface of `counting.pyx`: it checks that the arguments of a batch fit
together, so that the loop need not, and passes them as columns.
"""
from cpython cimport array
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc

from laurels.engine.buffers cimport (
    BufferViews, acquire_buffer, items, longs, release_buffers, uints,
)
from .counting cimport count_events
from .job cimport (
    ST_APPLIED, ST_OUT_OF_RANGE, ST_UNCHANGED, WINDOWS_MOST, DecayPair, Job, Route, Store,
    score_words,
)
from laurels.engine.writing.journal cimport Journal as JournalType
from laurels.engine.tree.ranked_set cimport RankedSet
from laurels.engine.rolling.ring cimport Rolling, cells_for, leaving_of
from laurels.engine.rolling.rolling cimport RollingSet
from laurels.engine.writing.rule cimport OP_SUM
from laurels.engine.tree.rows cimport check_ids, new_columns
from laurels.engine.writing.shape cimport Shape as RuledShape
from laurels.engine.tally.tally cimport Tally
from laurels.engine.tree.tree cimport Tree

from laurels.engine.writing.journal import Journal
from laurels.engine.writing.shape import BEST, LAST, SUM, Shape

cdef extern from "Python.h":
    char *PyByteArray_AS_STRING(object array) noexcept nogil

APPLIED = ST_APPLIED
UNCHANGED = ST_UNCHANGED
OUT_OF_RANGE = ST_OUT_OF_RANGE

cdef enum:
    MANY = 1000                 # the number of events from which the GIL is released


cdef int set_ranking(Job *job, Store *store, RankedSet ranking) except -1:
    """Let a `Store` (a target of events) refer to the tree of its ranking."""
    if ranking.stepped:
        raise ValueError("expected tallies for a rolling window, got one of its rankings")
    if ranking.stamped != job.rule.stamped:
        raise ValueError("the entries of a ranking do not have the words of the shape")
    store.tree = &ranking.tree
    return 0


cdef int set_rolling_set(Job *job, Store *store, object item) except -1:
    """Let a `Store` with a tally refer to the tally's rolling set `item`. For a `Store` with a
    ranking, `item` is None."""
    cdef RollingSet rolling
    store.rolling = NULL
    if item is None:
        return 0
    rolling = item
    if not rolling.serves(job.rule):
        raise ValueError("the entries of a rolling set do not have the words of the shape")
    store.rolling = &rolling.rolling
    return 0


cdef int set_stores(Job *job, list stores, list rollings) except -1:
    """Set the rankings and tallies that routes refer to."""
    cdef Store *store
    if len(set(map(id, stores))) != len(stores):
        raise ValueError("expected each ranking in the route of one window only")
    if len(rollings) != len(stores):
        raise ValueError("expected a rolling set or None for each ranking or tally")
    job.store_count = <int>len(stores)
    for i, item in enumerate(stores):
        store = &job.stores[i]
        store.tree = NULL
        store.cells = NULL
        set_rolling_set(job, store, rollings[i])
        if isinstance(item, Tally):
            store.cells = &(<Tally>item).cells
        else:
            set_ranking(job, store, item)
    return 0


cdef bint is_in_ring(const Rolling *rolling, const Store *store) noexcept:
    """Return whether a tally belongs to a step of a rolling window."""
    cdef int64_t number
    if store.cells == NULL:
        return False
    number = store.cells.number
    return leaving_of(rolling) <= number <= rolling.running and (
        cells_for(rolling, number) == store.cells)


cdef bint is_shaped(const Job *job, int window, const Tree *tree) noexcept:
    """Return whether the entries of a ranking have the words of the window."""
    cdef int columns = score_words(job, window)
    return tree.columns == columns and tree.words == job.rule.words - job.rule.columns + columns


cdef int own_store(const Job *job, bytearray owners, dict rollings, int32_t number,
                   int window) except -1:
    """Check that the ranking or tally in a window's route exists, and that no other window uses
    it."""
    cdef char *owner
    cdef const Store *store
    if number < 0:
        return 0
    if number >= job.store_count:
        raise IndexError(f"there is no ranking {number}")
    owner = PyByteArray_AS_STRING(owners) + number
    if owner[0] == <char>(window + 1):
        return 0
    if owner[0] != 0:
        raise ValueError("expected each ranking in the route of one window only")
    store = &job.stores[number]
    if store.rolling == NULL:
        if store.tree == NULL:
            raise ValueError("expected tallies only in routes of rolling windows")
        if not is_shaped(job, window, store.tree):
            raise ValueError("the entries of a ranking do not have the words of the shape")
    elif not is_in_ring(store.rolling, store):
        raise ValueError("expected tallies of the rolling window's own steps")
    elif rollings.setdefault(<size_t>store.rolling, window) != window:
        raise ValueError("expected each rolling set in the route of one window only")
    elif job.decays[window].on:
        raise ValueError("expected one sum column in a decay window that is not rolling")
    owner[0] = <char>(window + 1)
    return 0


cdef int set_routes(Job *job, BufferViews *buffers, object routes) except -1:
    """Set the route of each window: the targets of its events."""
    cdef Route *route
    cdef int window = 0
    if len(routes) > WINDOWS_MOST:
        raise ValueError(f"expected at most {WINDOWS_MOST} windows")
    job.windows = <int>len(routes)
    for item in routes:
        route = &job.routes[window]
        route.each = NULL
        if isinstance(item, int):
            route.all = item
        else:
            acquire_buffer(buffers, item, c'i')
            route.each = <const int32_t *>buffers.views[buffers.count - 1].buf
            check_length(buffers, job.stop)
        window += 1
    return 0


cdef int check_routes(const Job *job) except -1:
    """Check every ranking and tally that a route refers to."""
    cdef const Route *route
    cdef bytearray owners = bytearray(job.store_count)
    cdef dict rollings = {}
    cdef Py_ssize_t event
    cdef int window
    for window in range(job.windows):
        route = &job.routes[window]
        if route.each == NULL:
            own_store(job, owners, rollings, route.all, window)
            continue
        for event in range(job.start, job.stop):
            own_store(job, owners, rollings, route.each[event], window)
    return 0


cdef int check_roster(const Job *job) except -1:
    """Check that all rankings have the same roster, and that all ids are in it."""
    cdef const Tree *first = NULL
    cdef const Tree *tree
    cdef int i
    for i in range(job.store_count):
        tree = job.stores[i].tree
        if job.stores[i].rolling != NULL:
            tree = job.stores[i].rolling.live
        if first != NULL and tree.names != first.names:
            raise ValueError("expected rankings with the same roster")
        first = tree
    if first == NULL:
        return 0
    for i in range(job.windows):
        if i == 0 or job.ids[i] != job.ids[0]:
            check_ids(first.names.count, job.ids[i] + job.start, job.stop - job.start)
    return 0


cdef int set_members(Job *job, BufferViews *buffers, object ids) except -1:
    """Acquire the members of the events: one column for all windows, or one for each window."""
    cdef int window
    cdef list each = ids if isinstance(ids, list) else [ids]
    cdef dict taken = {}
    if len(each) not in (1, job.windows):
        raise ValueError("expected one column of members, or one for each window")
    for window in range(len(each)):
        if id(each[window]) not in taken:
            acquire_buffer(buffers, each[window], c'I')
            check_length(buffers, job.stop)
            taken[id(each[window])] = window
            job.ids[window] = uints(buffers, buffers.count - 1)
        else:
            job.ids[window] = job.ids[<int>taken[id(each[window])]]
    for window in range(<int>len(each), job.windows):
        job.ids[window] = job.ids[0]
    return 0


cdef int set_event_columns(Job *job, BufferViews *buffers, object status, object ids, object values,
                           object stamps, object ats) except -1:
    """Acquire the columns of the events."""
    cdef int column = 0
    acquire_buffer(buffers, status, c'B', True)
    check_length(buffers, job.stop)
    job.status = <uint8_t *>buffers.views[buffers.count - 1].buf
    set_members(job, buffers, ids)
    if len(values) != job.rule.columns:
        raise ValueError("expected a column of values for each column of the shape")
    for item in values:
        job.values[column] = acquire_column(job, buffers, item)
        column += 1
    job.stamps = NULL
    if isinstance(stamps, int):
        job.stamp = stamps
    else:
        job.stamps = acquire_column(job, buffers, stamps)
    job.ats = NULL
    if isinstance(ats, int):
        job.at = ats
    else:
        job.ats = acquire_column(job, buffers, ats)
    return 0


cdef int set_decays(Job *job, BufferViews *buffers, list decays) except -1:
    """Set the weights of the events in windows with decay."""
    cdef DecayPair *decay
    cdef int window
    if decays and len(decays) != job.windows:
        raise ValueError("expected a pair of weights or None for each window")
    for window in range(job.windows):
        decay = &job.decays[window]
        decay.on = len(decays) > 0 and decays[window] is not None
        if not decay.on:
            continue
        if job.rule.columns != 1 or job.rule.ops[0] != OP_SUM:
            raise ValueError("expected one sum column in a decay window that is not rolling")
        exponents, mantissas = decays[window]
        decay.exponents = decay.mantissas = NULL
        if isinstance(exponents, int):
            decay.exponent = exponents
            decay.mantissa = mantissas
        else:
            decay.exponents = acquire_column(job, buffers, exponents)
            decay.mantissas = acquire_column(job, buffers, mantissas)
    return 0


cdef inline int check_length(BufferViews *buffers, Py_ssize_t stop) except -1:
    if items(buffers, buffers.count - 1) < stop:
        raise ValueError("a column is shorter than the events to count")
    return 0


cdef const int64_t *acquire_column(Job *job, BufferViews *buffers, object column) except? NULL:
    acquire_buffer(buffers, column, c'q')
    check_length(buffers, job.stop)
    return longs(buffers, buffers.count - 1)


cdef tuple new_report(Py_ssize_t count, int columns, char **present, int64_t **words):
    there = bytearray(count)
    present[0] = PyByteArray_AS_STRING(there)
    return there, new_columns(columns, count, words)


cdef int64_t *writable_items(const Job *job, array.array column) except NULL:
    """Return the items of a column that results are written to."""
    if column.typecode != "q" or len(column) < job.stop:
        raise ValueError("a traced column is shorter than the events to count")
    return <int64_t *>column.data.as_longlongs


cdef int set_traces(Job *job, object traces, object added) except -1:
    """Set the columns for the results: the traced entries, and the differences that absolute events
    added."""
    cdef int column
    job.traced = 0
    job.places = NULL
    job.added[0] = NULL
    if len(traces) > WINDOWS_MOST:
        raise ValueError(f"expected at most {WINDOWS_MOST} windows")
    for window, columns in traces:
        if not 0 <= window < job.windows or job.decays[window].on:
            raise IndexError("expected the index of a window whose entries can be traced")
        if len(columns) != job.rule.words:
            raise ValueError("expected a traced column for each word of an entry")
        job.traces[job.traced].window = window
        for column in range(job.rule.words):
            job.traces[job.traced].words[column] = writable_items(job, columns[column])
        job.traced += 1
    if added is None:
        return 0
    if len(added) != job.rule.columns:
        raise ValueError("expected a column of additions for each column of the shape")
    for column in range(job.rule.columns):
        job.added[column] = writable_items(job, added[column])
    return 0


cdef int set_journal(Job *job, JournalType journal, list stores, list rollings) except -1:
    """Attach a journal to the job. The journal keeps references to the objects that an undo writes
    to."""
    cdef RollingSet rolling
    job.undo_log = NULL
    if journal is None:
        return 0
    job.undo_log = &journal.undo_log
    journal.owners.update(stores)
    for item in rollings:
        if item is not None:
            rolling = item
            journal.owners.update([rolling, rolling.live, rolling.prepared])
    return 0


def apply(RuledShape shape not None, stores: object, routes: object, rollings: object, ids: object,
          values: object, stamps: object, ats: object, bytes sets, int all_window, int watch,
          Py_ssize_t start, Py_ssize_t stop, bytearray status not None,
          JournalType journal = None, decays: object = (), traces: object = (),
          added: object = None) -> tuple | None:
    """Count the events at the positions `start` to `stop - 1`, in order.

    The targets of events are the items of `stores`: rankings and tallies. `rollings` is as long as
    `stores`: it has the rolling set at the index of a tally, and None at the index of a ranking.
    Each window has a route: the index of one target for all events, or an index for each event, -1
    if the window does not accept the event. `ids` are the members, one column for all windows or a
    list with one for each. `values` are signed words, one column each. `stamps` and `ats` are one
    integer for all events or one for each. In a rolling window an event of a later step must not
    have a smaller stamp or `at` than an event of an earlier step. A window with a pair in `decays`
    has decay: the pair has exponents and mantissas as returned by `decay.weights`, each one integer
    for all events or one for each. `sets` has 1 for each event whose values of sum columns are new
    totals rather than amounts to add. Events with a status other than 0 are skipped; the others get
    APPLIED, UNCHANGED or OUT_OF_RANGE.

    With a window as `watch`, return (before, after): the state of the window's ranking (of a
    rolling window, `live`) just before and just after each event. Each of the two has two items:
    whether the event's member is in the ranking, and the member's columns there. `traces` are
    pairs of a window and its columns to write to, one column for each word of an entry: they get
    the member's entry just after each counted event that the window accepted, at the position of
    the event. `added` gets the differences that absolute events added, one column for each column
    of the score. With a journal, all writes can be undone. O(windows * log n) for each event.
    Raises ValueError and IndexError for columns that do not fit together.
    """
    cdef Job job
    cdef BufferViews buffers
    cdef int outcome
    cdef list targets = list(stores)
    cdef list rolling_sets = list(rollings)
    buffers.count = 0
    job.stores = <Store *>malloc((len(targets) + 1) * sizeof(Store))
    if job.stores == NULL:
        raise MemoryError
    try:
        if not 0 <= start <= stop <= len(status) or (sets is not None and len(sets) < stop):
            raise ValueError("expected start and stop within the columns")
        job.rule = shape.rule
        job.start = start
        job.stop = stop
        job.sets = NULL
        if sets is not None:
            job.sets = <const uint8_t *>PyBytes_AS_STRING(sets)
        set_routes(&job, &buffers, routes)
        set_event_columns(&job, &buffers, status, ids, values, stamps, ats)
        set_stores(&job, targets, rolling_sets)
        set_decays(&job, &buffers, list(decays))
        set_traces(&job, traces, added)
        check_routes(&job)
        check_roster(&job)
        if not -1 <= all_window < job.windows or not -1 <= watch < job.windows:
            raise IndexError("expected the index of a window")
        job.all_window = all_window
        job.watch = watch
        before = after = None
        if watch >= 0:
            columns = score_words(&job, watch)
            before = new_report(stop - start, columns, &job.present_before, job.before)
            after = new_report(stop - start, columns, &job.present_after, job.after)
        set_journal(&job, journal, targets, rolling_sets)
        if stop - start < MANY:
            outcome = count_events(&job)
        else:
            with nogil:
                outcome = count_events(&job)
        if outcome < 0:
            raise MemoryError
        return None if watch < 0 else (before, after)
    finally:
        release_buffers(&buffers)
        free(job.stores)
