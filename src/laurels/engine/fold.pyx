# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""The write rule: what an event makes of a member's entries, in all windows at once.

Per event, for every window that takes it, the entry as it will be is drafted from the entry as it
is; only when every draft is within range are they written. So an event counts in all its windows
or in none, and no draft has to be taken back. All scores come signed (ascending is standing
order), so that this module knows neither directions nor scales.

The rule, per operator of a column:
- *sum*: the total and the value. An absolute event is first made a relative one: its value less the
  total in the window `all`, the same difference for every window.
- *last*: the value, unless a later one was taken: an event is taken when its exact `at` is not less
  than the greatest exact `at` so far in that window.
- *best* (all columns): the better whole tuple.

*Reached* is kept in the tie word, as tie * stamp: for sum and last the greatest stamp among the
events counted, for best the least among those equal to the best tuple. Where the tie word cannot
tell the exact `at` (ties by member, or a coarser resolution) and a `last` column needs it, a last
word, which does not order, keeps the greatest `at`.
"""
cimport cython
from cpython cimport array
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc

from .buffers cimport Borrowed, borrow, give_back, items, longs, uints
from .entries cimport (
    FAR, LARGE, NEAR, NEXT, Hint, ask_for_entry, ask_for_place, assign_at, foresee, insert, seek_near,
)
from .leaf cimport WORDS_MOST, leaf_read
from .ranked_set cimport RankedSet
from .table cimport NONE
from .tree cimport Spot, Tree

cdef extern from "Python.h":
    char *PyByteArray_AS_STRING(object array) noexcept nogil

SUM = 0
LAST = 1
BEST = 2

APPLIED = 1
UNCHANGED = 2
OUT_OF_RANGE = 3

cdef enum:
    COLUMNS_MOST = 4
    WINDOWS_MOST = 64
    MANY = 1000                 # events for which the GIL is released

cdef int64_t SANE = <int64_t>1 << 54    # no value of an event, or difference to one, is beyond
cdef array.array LONGS = array.array("q")


cdef struct Rule:
    int columns
    int words
    int tie                     # 1, -1 or 0
    bint stamped
    bint best
    bint last                   # whether any column is `last`
    int ops[COLUMNS_MOST]
    int64_t lows[COLUMNS_MOST]
    int64_t highs[COLUMNS_MOST]


cdef struct Draft:              # an entry on its way to be written
    Tree *tree
    Spot spot
    Hint hint                   # the leaf it will go to, as foreseen
    bint present
    bint write                  # whether any word differs
    bint changed                # whether the member was entered, or a column or the tie differs
    int64_t old[WORDS_MOST]
    int64_t new[WORDS_MOST]


cdef struct Foresight:          # hints for the events to come, in a ring
    Hint hints[NEXT][WINDOWS_MOST]
    bint useful


cdef struct Route:
    const int32_t *each         # NULL: every event goes to `all`
    int32_t all


cdef struct Job:
    Rule rule
    Tree **trees
    int rankings
    Route routes[WINDOWS_MOST]
    int windows
    int all_window
    int watch
    const uint32_t *ids
    const int64_t *values[COLUMNS_MOST]
    const int64_t *stamps       # NULL: stamp
    const int64_t *ats          # NULL: at
    int64_t stamp
    int64_t at
    const uint8_t *sets
    uint8_t *status
    Py_ssize_t start
    Py_ssize_t stop
    char *present_before
    char *present_after
    int64_t *before[COLUMNS_MOST]
    int64_t *after[COLUMNS_MOST]


@cython.final
cdef class Shape:
    """What the write rule must know of a board: operators, ranges, ties.

    `lows` and `highs` bound the signed words of each column; `tie` is 1 (first), -1 (last) or 0 (by
    member); `stamped` says that entries carry the exact `at` (needed for `last` columns when tie is
    0 or stamps are coarser than `at`). ValueError for a shape that cannot be.
    """

    cdef Rule rule

    def __cinit__(self, ops: object, lows: object, highs: object, int tie,
                  bint stamped = False) -> None:
        cdef int i
        if not 1 <= len(ops) <= COLUMNS_MOST or not len(ops) == len(lows) == len(highs):
            raise ValueError("a shape has 1 to 4 columns, each with an operator, a low and a high")
        if tie not in (-1, 0, 1):
            raise ValueError("tie is 1, -1 or 0")
        if BEST in ops and any([op != BEST for op in ops]):
            raise ValueError("best is all columns or none")
        self.rule.columns = len(ops)
        self.rule.words = len(ops) + (tie != 0) + stamped
        self.rule.tie = tie
        self.rule.stamped = stamped
        self.rule.best = BEST in ops
        self.rule.last = LAST in ops
        if (stamped and not self.rule.last) or (self.rule.last and tie == 0 and not stamped):
            raise ValueError("entries are stamped for last columns, and must be with tie 0")
        for i in range(self.rule.columns):
            if ops[i] not in (SUM, LAST, BEST):
                raise ValueError("an operator is SUM, LAST or BEST")
            self.rule.ops[i] = ops[i]
            self.rule.lows[i] = lows[i]
            self.rule.highs[i] = highs[i]


cdef inline bint is_within(const Rule *rule, int column, int64_t value) noexcept nogil:
    return rule.lows[column] <= value <= rule.highs[column]


cdef bint draft_best(const Rule *rule, const int64_t *values, int64_t stamp, Draft *draft) noexcept nogil:
    """Keep the better tuple; of equal ones the least stamp. False when out of range."""
    cdef int column
    cdef int order = 0 if draft.present else -1
    for column in range(rule.columns):
        if order == 0 and values[column] != draft.old[column]:
            order = -1 if values[column] < draft.old[column] else 1
        draft.new[column] = values[column]
        if not is_within(rule, column, values[column]):
            return False
    if rule.tie:
        draft.new[rule.columns] = rule.tie * stamp
        if order == 0 and stamp > rule.tie * draft.old[rule.columns]:
            draft.new[rule.columns] = draft.old[rule.columns]
    draft.changed = order < 0 or (
        order == 0 and rule.tie and draft.new[rule.columns] != draft.old[rule.columns])
    draft.write = draft.changed
    return True


cdef bint draft_running(const Rule *rule, const int64_t *values, int64_t stamp, int64_t at,
                        Draft *draft) noexcept nogil:
    """Sums and last values; the greatest stamp. False when out of range."""
    cdef int column
    cdef int tie = rule.columns
    cdef int64_t newest = at
    draft.changed = not draft.present
    if draft.present and rule.last:
        newest = draft.old[rule.words - 1] if rule.stamped else rule.tie * draft.old[tie]
    for column in range(rule.columns):
        if rule.ops[column] == 0:
            if not -SANE <= values[column] <= SANE:
                return False
            draft.new[column] = draft.old[column] + values[column]
        else:
            draft.new[column] = values[column] if at >= newest else draft.old[column]
        if not is_within(rule, column, draft.new[column]):
            return False
        draft.changed |= draft.new[column] != draft.old[column]
    if rule.tie:
        if draft.present:
            stamp = max(stamp, rule.tie * draft.old[tie])
        draft.new[tie] = rule.tie * stamp
        draft.changed |= draft.new[tie] != draft.old[tie]
    draft.write = draft.changed
    if rule.stamped:
        draft.new[rule.words - 1] = max(at, newest)
        draft.write |= draft.new[rule.words - 1] != draft.old[rule.words - 1]
    return True


cdef inline Tree *tree_for(const Job *job, int window, Py_ssize_t event) noexcept nogil:
    """The ranking that takes the event for a window, or NULL."""
    cdef const Route *route = &job.routes[window]
    cdef int32_t ranking = route.all if route.each == NULL else route.each[event]
    return NULL if ranking < 0 else job.trees[ranking]


cdef inline void read_old(Tree *tree, uint32_t member, Draft *draft) noexcept nogil:
    cdef int word
    draft.tree = tree
    draft.changed = False
    draft.write = False
    draft.present = tree != NULL and seek_near(tree, member, &draft.hint, &draft.spot)
    if draft.present:
        leaf_read(draft.spot.leaf, tree.words, draft.spot.at, draft.old)
        return
    for word in range(WORDS_MOST):
        draft.old[word] = 0


cdef void values_of(const Job *job, Py_ssize_t event, const Draft *drafts, int64_t *values) noexcept nogil:
    """The event's values; of an absolute one, for sums, the difference to the window `all`."""
    cdef int column
    cdef bint absolute = job.sets != NULL and job.sets[event] and job.all_window >= 0
    for column in range(job.rule.columns):
        values[column] = job.values[column][event]
        if absolute and job.rule.ops[column] == 0 and -SANE <= values[column] <= SANE:
            values[column] -= drafts[job.all_window].old[column]


cdef bint draft_all(const Job *job, Py_ssize_t event, Draft *drafts) noexcept nogil:
    """Draft what an event makes of the entries read; False when one is out of range."""
    cdef int64_t values[COLUMNS_MOST]
    cdef int64_t at = job.at if job.ats == NULL else job.ats[event]
    cdef int64_t stamp = job.stamp if job.stamps == NULL else job.stamps[event]
    cdef bint within
    cdef int window
    values_of(job, event, drafts, values)
    for window in range(job.windows):
        if drafts[window].tree == NULL:
            continue
        if job.rule.best:
            within = draft_best(&job.rule, values, stamp, &drafts[window])
        else:
            within = draft_running(&job.rule, values, stamp, at, &drafts[window])
        if not within:
            return False
    return True


cdef int count_event(const Job *job, Py_ssize_t event, Draft *drafts) noexcept nogil:
    """Count one event in all its windows or in none; its status, or -1 without memory."""
    cdef bint changed = False
    cdef int window
    if not draft_all(job, event, drafts):
        return 3
    for window in range(job.windows):
        if drafts[window].write and not write_draft(job.ids[event], &drafts[window]):
            return -1
        changed |= drafts[window].changed
    return 1 if changed else 2


cdef inline bint write_draft(uint32_t member, Draft *draft) noexcept nogil:
    if draft.present:
        return assign_at(draft.tree, member, draft.new, &draft.spot, &draft.hint)
    return insert(draft.tree, member, draft.new, &draft.hint)


cdef void read_all(const Job *job, Py_ssize_t event, Draft *drafts) noexcept nogil:
    """Read the member's entries in all windows that take the event."""
    cdef int window
    for window in range(job.windows):
        read_old(tree_for(job, window, event), job.ids[event], &drafts[window])


cdef inline void clear_hint(Hint *hint) noexcept nogil:
    hint.source = NONE
    hint.target = NULL


cdef void ask(const Job *job, Py_ssize_t event, bint near) noexcept nogil:
    """Ask for the places of an event's entries, or (near) for their leaves."""
    cdef Tree *tree
    cdef int window
    for window in range(job.windows):
        tree = tree_for(job, window, event)
        if tree != NULL:
            if near:
                ask_for_entry(tree, job.ids[event])
            else:
                ask_for_place(tree, job.ids[event])


cdef void look_into(const Job *job, Py_ssize_t event, Foresight *foresight, Draft *drafts) noexcept nogil:
    """Draft an event to come as things stand, to ask for the leaves its entries will go to."""
    cdef Draft *draft
    cdef Hint *hint
    cdef int window
    for window in range(job.windows):
        clear_hint(&drafts[window].hint)
    read_all(job, event, drafts)
    draft_all(job, event, drafts)
    for window in range(job.windows):
        draft = &drafts[window]
        hint = &foresight.hints[event % NEXT][window]
        clear_hint(hint)
        if draft.write:
            foresee(draft.tree, job.ids[event], draft.new,
                    &draft.spot if draft.present else NULL, hint)


cdef inline void look_ahead(const Job *job, Py_ssize_t event, Foresight *foresight,
                            Draft *drafts) noexcept nogil:
    """Ask for what the events to come will need, in three steps as each becomes known."""
    if event + FAR < job.stop:
        ask(job, event + FAR, False)
    if event + NEAR < job.stop:
        ask(job, event + NEAR, True)
    if event + NEXT < job.stop and job.status[event + NEXT] == 0:
        look_into(job, event + NEXT, foresight, drafts)


cdef inline void report(const Job *job, Py_ssize_t event, const Draft *draft, bint counted) noexcept nogil:
    """Note the watched window's entry before and after the event."""
    cdef Py_ssize_t row = event - job.start
    cdef bint written = counted and draft.write
    cdef int column
    job.present_before[row] = draft.present
    job.present_after[row] = draft.present or written
    for column in range(job.rule.columns):
        job.before[column][row] = draft.old[column]
        job.after[column][row] = draft.new[column] if written else draft.old[column]


cdef int run(const Job *job) noexcept nogil:
    """Count all events of the job in order; -1 without memory."""
    cdef Draft drafts[WINDOWS_MOST]
    cdef Foresight foresight
    cdef Py_ssize_t event
    cdef int window, status
    foresight.useful = is_large(job)
    for event in range(NEXT):
        for window in range(job.windows):
            clear_hint(&foresight.hints[event][window])
    for event in range(job.start, job.stop):
        status = job.status[event]
        for window in range(job.windows):
            drafts[window].hint = foresight.hints[event % NEXT][window]
        if status == 0:
            read_all(job, event, drafts)
            status = count_event(job, event, drafts)
            if status < 0:
                return -1
            job.status[event] = <uint8_t>status
            if job.watch >= 0:
                report(job, event, &drafts[job.watch], status == 1 or status == 2)
        elif job.watch >= 0:
            read_old(tree_for(job, job.watch, event), job.ids[event], &drafts[job.watch])
            report(job, event, &drafts[job.watch], False)
        if foresight.useful:
            look_ahead(job, event, &foresight, drafts)
    return 0


cdef bint is_large(const Job *job) noexcept nogil:
    """Whether any ranking is larger than a cache, so that looking ahead pays."""
    cdef int i
    for i in range(job.rankings):
        if job.trees[i].size > LARGE:
            return True
    return False


cdef int take_rankings(Job *job, list rankings) except -1:
    """Check that rankings and shape agree, and note their trees."""
    cdef RankedSet ranking
    cdef Py_ssize_t i
    job.rankings = <int>len(rankings)
    if len(set(map(id, rankings))) != job.rankings:
        raise ValueError("a ranking belongs to one window")
    for i in range(job.rankings):
        ranking = rankings[i]
        if ranking.tree.columns != job.rule.columns or ranking.tree.words != job.rule.words or (
                ranking.stamped != job.rule.stamped):
            raise ValueError("the rankings' words are not those of the shape")
        if ranking.tree.names != (<RankedSet>rankings[0]).tree.names:
            raise ValueError("the rankings are over different rosters")
        job.trees[i] = &ranking.tree
    return 0


cdef int check_members(const Job *job) except -1:
    cdef Py_ssize_t i
    if job.rankings:
        for i in range(job.start, job.stop):
            if job.ids[i] >= job.trees[0].names.count:
                raise IndexError(f"no member has the id {job.ids[i]}")
    return 0


cdef int take_events(Job *job, Borrowed *held, object status, object ids, object values,
                     object stamps, object ats) except -1:
    """Borrow the columns of the events."""
    cdef int column = 0
    borrow(held, status, c'B', True)
    check_length(held, job.stop)
    job.status = <uint8_t *>held.views[held.count - 1].buf
    borrow(held, ids, c'I')
    check_length(held, job.stop)
    job.ids = uints(held, held.count - 1)
    if len(values) != job.rule.columns:
        raise ValueError("one column of values for each column of the shape")
    for given in values:
        job.values[column] = take_column(job, held, given)
        column += 1
    job.stamps = NULL
    if isinstance(stamps, int):
        job.stamp = stamps
    else:
        job.stamps = take_column(job, held, stamps)
    job.ats = NULL
    if isinstance(ats, int):
        job.at = ats
    else:
        job.ats = take_column(job, held, ats)
    return 0


cdef int take_routes(Job *job, Borrowed *held, object routes, bytearray owners) except -1:
    """Note the routes; each ranking is in range and of one window only."""
    cdef Route *route
    cdef int window = 0
    cdef Py_ssize_t event
    if len(routes) > WINDOWS_MOST:
        raise ValueError(f"at most {WINDOWS_MOST} windows")
    job.windows = len(routes)
    for given in routes:
        route = &job.routes[window]
        route.each = NULL
        if isinstance(given, int):
            route.all = given
            own_ranking(owners, route.all, window)
        else:
            borrow(held, given, c'i')
            route.each = <const int32_t *>held.views[held.count - 1].buf
            check_length(held, job.stop)
            for event in range(job.start, job.stop):
                own_ranking(owners, route.each[event], window)
        window += 1
    return 0


cdef inline int own_ranking(bytearray owners, int32_t ranking, int window) except -1:
    cdef char *owner
    if ranking < 0:
        return 0
    if ranking >= len(owners):
        raise IndexError(f"there is no ranking {ranking}")
    owner = PyByteArray_AS_STRING(owners) + ranking
    if owner[0] != 0 and owner[0] != window + 1:
        raise ValueError("a ranking belongs to one window")
    owner[0] = <char>(window + 1)
    return 0


cdef inline int check_length(Borrowed *held, Py_ssize_t stop) except -1:
    if items(held, held.count - 1) < stop:
        raise ValueError("a column is shorter than the events to count")
    return 0


cdef const int64_t *take_column(Job *job, Borrowed *held, object column) except? NULL:
    borrow(held, column, c'q')
    check_length(held, job.stop)
    return longs(held, held.count - 1)


cdef tuple new_report(Py_ssize_t count, int columns, char **present, int64_t **words):
    cdef array.array column
    cdef list report = []
    cdef int i
    there = bytearray(count)
    present[0] = PyByteArray_AS_STRING(there)
    for i in range(columns):
        column = array.clone(LONGS, count, False)
        words[i] = <int64_t *>column.data.as_longlongs
        report.append(column)
    return there, report


def apply(Shape shape not None, rankings: object, routes: object, ids: object, values: object,
          stamps: object, ats: object, bytes sets, int all_window, int watch, Py_ssize_t start,
          Py_ssize_t stop, bytearray status not None) -> tuple | None:
    """Count the events from start to before stop, in order.

    Each window has a route: the ranking (a place in `rankings`) that takes every event, or one
    per event, -1 where the window does not take it. `values` are signed words, one column each;
    `stamps` and `ats` are one integer for all events or one per event; `sets` marks with 1 the
    events whose sums are absolute. Events with a status other than 0 are passed over; the others
    get APPLIED, UNCHANGED or OUT_OF_RANGE.

    With `watch` a window: (before, after), each which events' members are in the ranking that the
    window's route names, and their columns there, just before and just after the event. O(windows
    * log n) an event. ValueError and IndexError for columns that do not fit together.
    """
    cdef Job job
    cdef Borrowed held
    cdef int outcome
    cdef list taking = list(rankings)
    held.count = 0
    job.trees = <Tree **>malloc((len(taking) + 1) * sizeof(Tree *))
    if job.trees == NULL:
        raise MemoryError
    try:
        if not 0 <= start <= stop <= len(status) or (sets is not None and len(sets) < stop):
            raise ValueError("start and stop are within the columns")
        job.rule = shape.rule
        job.start = start
        job.stop = stop
        job.sets = NULL
        if sets is not None:
            job.sets = <const uint8_t *>PyBytes_AS_STRING(sets)
        take_events(&job, &held, status, ids, values, stamps, ats)
        take_routes(&job, &held, routes, bytearray(len(taking)))
        take_rankings(&job, taking)
        check_members(&job)
        if not -1 <= all_window < job.windows or not -1 <= watch < job.windows:
            raise IndexError("there is no such window")
        job.all_window = all_window
        job.watch = watch
        before = after = None
        if watch >= 0:
            before = new_report(stop - start, job.rule.columns, &job.present_before, job.before)
            after = new_report(stop - start, job.rule.columns, &job.present_after, job.after)
        if stop - start < MANY:
            outcome = run(&job)
        else:
            with nogil:
                outcome = run(&job)
        if outcome < 0:
            raise MemoryError
        return None if watch < 0 else (before, after)
    finally:
        give_back(&held)
        free(job.trees)
