# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""Read events from Python objects into columns.

`gather` reads a batch into columns. Most events are plain tuples `(member, value[, at[, id]])` of
exact str and int, possibly followed by labels: these are checked and copied here, in a few tens of
nanoseconds each. This path never refuses an event: each one that is not certainly valid, in form
and range, is passed to the caller's `parse`, which has the rules and their errors. So the rules are
written once, in Python, and a test over both paths ensures that they agree.
"""
cimport cython
from cpython cimport array
from cpython.bytes cimport (
    PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE,
)
from cpython.exc cimport PyErr_Clear
from cpython.list cimport PyList_CheckExact, PyList_GET_ITEM
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport INT64_MIN, int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from laurels.engine.roster.table cimport prefetch

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text) noexcept
    void *PyUnicode_DATA(object text) noexcept
    Py_ssize_t PyUnicode_GET_LENGTH(object text) noexcept
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) noexcept

MISSING = -(2**63)

cdef enum:
    COLUMNS_MOST = 4
    BYTES_MOST = 128            # the most bytes of a member or id on the fast path
    BYTES_A_MEMBER = 16         # the first guess for the size of the arena
    AHEAD = 16                  # how many texts ahead are prefetched

cdef array.array LONGS = array.array("q")
cdef array.array PLACES = array.array("I")


cdef struct Limits:
    int columns
    int64_t multipliers[COLUMNS_MOST]
    int64_t lows[COLUMNS_MOST]          # bounds of values before they are multiplied
    int64_t highs[COLUMNS_MOST]
    int64_t at_low
    int64_t at_high


cdef struct Row:
    const char *member
    Py_ssize_t member_size
    int64_t values[COLUMNS_MOST]
    int64_t at
    const char *id
    Py_ssize_t id_size


@cython.final
cdef class Columns:
    """A batch as columns: one item for each accepted event, in order.

    `arena` has the bytes of the members one after another, and `lengths` a byte each for their
    lengths. `values` has one column for each score column, in units. `ats` are milliseconds,
    MISSING for an event without a time (None if no event has one). `ids` are the events' own ids
    (None if no event has one). `groups` has a number for each event's labels (None if no event has
    any). The caller sets `labels` to the labels that these numbers stand for. `kept` are the
    positions of the accepted events in the input (None if all were accepted), `errors` the
    positions and errors of the others.
    """

    cdef public Py_ssize_t n
    cdef public bytes arena
    cdef public bytes lengths
    cdef public tuple values
    cdef public object ats
    cdef public object ids
    cdef public object kept
    cdef public list errors
    cdef public object groups
    cdef public object labels

    def __init__(self, n: int, arena: bytes, lengths: bytes, values: tuple, ats: object = None,
                 ids: object = None, kept: object = None, errors: object = (),
                 groups: object = None, labels: object = None) -> None:
        self.n = n
        self.arena = arena
        self.lengths = lengths
        self.values = values
        self.ats = ats
        self.ids = ids
        self.kept = kept
        self.errors = list(errors)
        self.groups = groups
        self.labels = labels


cdef inline bint read_text(object text, const char **start, Py_ssize_t *size) noexcept:
    """Read the UTF-8 bytes of an exact str of 1 to 128 bytes; return False for anything else."""
    if not PyUnicode_CheckExact(text):
        return False
    if PyUnicode_IS_COMPACT_ASCII(text):
        start[0] = <const char *>PyUnicode_DATA(text)
        size[0] = PyUnicode_GET_LENGTH(text)
    else:
        start[0] = PyUnicode_AsUTF8AndSize(text, size)
        if start[0] == NULL:
            PyErr_Clear()
            return False
    return 0 < size[0] <= BYTES_MOST


def are_plain(list texts not None) -> bool:
    """Return whether all texts are exact str of 1 to 128 ASCII characters, so certainly valid
    members."""
    cdef Py_ssize_t count = len(texts)
    cdef Py_ssize_t i
    cdef object text
    for i in range(count):
        if i + AHEAD < count:
            prefetch(<void *>PyList_GET_ITEM(texts, i + AHEAD))
        text = <object>PyList_GET_ITEM(texts, i)
        if not PyUnicode_CheckExact(text) or not PyUnicode_IS_COMPACT_ASCII(text):
            return False
        if not 0 < PyUnicode_GET_LENGTH(text) <= BYTES_MOST:
            return False
    return True


cdef inline bint read_int(object value, int64_t low, int64_t high, int64_t *found) noexcept:
    """Read an exact int from low to high; return False for anything else."""
    cdef int overflow = 0
    if not PyLong_CheckExact(value):
        return False
    found[0] = PyLong_AsLongLongAndOverflow(value, &overflow)
    return not overflow and low <= found[0] <= high


cdef inline bint read_value(object value, const Limits *limits, int column, Row *row) noexcept:
    if not read_int(value, limits.lows[column], limits.highs[column], &row.values[column]):
        return False
    row.values[column] *= limits.multipliers[column]
    return True


cdef bint read_values(object value, const Limits *limits, Row *row) noexcept:
    """Read a tuple with one exact int per column; return False for anything else."""
    cdef int column
    if not PyTuple_CheckExact(value) or PyTuple_GET_SIZE(value) != limits.columns:
        return False
    for column in range(limits.columns):
        if not read_value(<object>PyTuple_GET_ITEM(value, column), limits, column, row):
            return False
    return True


cdef bint read_event(object event, const Limits *limits, Row *row) noexcept:
    """Read an event on the fast path; return False if it is not plain or not certainly valid."""
    cdef Py_ssize_t size
    cdef object item
    if not PyTuple_CheckExact(event):
        return False
    size = PyTuple_GET_SIZE(event)
    if not 2 <= size <= 5:
        return False
    if not read_text(<object>PyTuple_GET_ITEM(event, 0), &row.member, &row.member_size):
        return False
    item = <object>PyTuple_GET_ITEM(event, 1)
    if limits.columns == 1:
        if not read_value(item, limits, 0, row):
            return False
    elif not read_values(item, limits, row):
        return False
    row.at = INT64_MIN
    row.id = NULL
    if size > 2:
        item = <object>PyTuple_GET_ITEM(event, 2)
        if item is not None and not read_int(item, limits.at_low, limits.at_high, &row.at):
            return False
    if size > 3:
        item = <object>PyTuple_GET_ITEM(event, 3)
        if item is not None and not read_text(item, &row.id, &row.id_size):
            return False
    return True


cdef class _Gathering:
    """The columns of a batch while it is being read."""

    cdef Limits limits
    cdef Py_ssize_t size                # events in the input
    cdef Py_ssize_t n                   # accepted events
    cdef char *arena
    cdef Py_ssize_t arena_size
    cdef Py_ssize_t arena_capacity
    cdef uint8_t *lengths
    cdef int64_t *columns[COLUMNS_MOST]
    cdef list values
    cdef array.array ats
    cdef list ids
    cdef array.array labels
    cdef array.array kept
    cdef list errors

    def __cinit__(self, Py_ssize_t size, multipliers: object, lows: object, highs: object,
                  int64_t at_low, int64_t at_high) -> None:
        cdef array.array column
        cdef int i
        if not 1 <= len(multipliers) <= COLUMNS_MOST:
            raise ValueError("expected 1 to 4 columns of a score")
        self.size = size
        self.limits.columns = len(multipliers)
        self.limits.at_low = at_low
        self.limits.at_high = at_high
        self.values = []
        self.errors = []
        for i in range(self.limits.columns):
            self.limits.multipliers[i] = multipliers[i]
            self.limits.lows[i] = -(-lows[i] // multipliers[i])
            self.limits.highs[i] = highs[i] // multipliers[i]
            column = array.clone(LONGS, size, False)
            self.columns[i] = <int64_t *>column.data.as_longlongs
            self.values.append(column)
        self.lengths = <uint8_t *>malloc(size + 1)
        self.arena_capacity = size * BYTES_A_MEMBER + BYTES_MOST
        self.arena = <char *>malloc(self.arena_capacity)
        if self.lengths == NULL or self.arena == NULL:
            raise MemoryError

    def __dealloc__(self) -> None:
        free(self.lengths)
        free(self.arena)

    cdef int add_member(self, const char *member, Py_ssize_t size) except -1:
        cdef char *wider
        if self.arena_capacity - self.arena_size < size:
            wider = <char *>realloc(self.arena, 2 * self.arena_capacity + size)
            if wider == NULL:
                raise MemoryError
            self.arena = wider
            self.arena_capacity = 2 * self.arena_capacity + size
        memcpy(self.arena + self.arena_size, member, size)
        self.arena_size += size
        self.lengths[self.n] = <uint8_t>size
        return 0

    cdef int add_at(self, int64_t at) except -1:
        cdef Py_ssize_t i
        if self.ats is None:
            if at == INT64_MIN:
                return 0
            self.ats = array.clone(LONGS, self.size, False)
            for i in range(self.n):
                self.ats.data.as_longlongs[i] = INT64_MIN
        self.ats.data.as_longlongs[self.n] = at
        return 0

    cdef int add_id(self, object id) except -1:
        if self.ids is None:
            if id is None:
                return 0
            self.ids = [None] * self.n
        self.ids.append(id)
        return 0

    cdef int add_labels(self, object group_number, object labels, bint always) except -1:
        """Record the labels of the next accepted event; `group_number` may refuse them."""
        cdef int64_t nothing
        cdef int64_t number
        cdef Py_ssize_t i
        if labels is None and self.labels is None and not always:
            return 0
        number = group_number(labels)
        if self.labels is None:
            nothing = group_number(None) if self.n else 0
            self.labels = array.clone(LONGS, self.size, False)
            for i in range(self.n):
                self.labels.data.as_longlongs[i] = nothing
        self.labels.data.as_longlongs[self.n] = number
        return 0

    cdef int add(self, Py_ssize_t place, const Row *row) except -1:
        """Add an event that was read on the fast path."""
        cdef int column
        self.add_member(row.member, row.member_size)
        for column in range(self.limits.columns):
            self.columns[column][self.n] = row.values[column]
        if self.ats is not None or row.at != INT64_MIN:
            self.add_at(row.at)
        if self.ids is not None or row.id != NULL:
            self.add_id(PyBytes_FromStringAndSize(row.id, row.id_size) if row.id else None)
        if self.kept is not None:
            self.kept.data.as_uints[self.n] = place
        self.n += 1
        return 0

    cdef int add_parsed(self, Py_ssize_t place, object parsed) except -1:
        """Add an event that the caller's `parse` has read."""
        cdef int column
        cdef int64_t when = INT64_MIN
        member, values, at, id = parsed[:4]
        if not PyBytes_CheckExact(member) or not 0 < len(member) <= 255:
            raise ValueError("expected parse to return a member of 1 to 255 bytes")
        if len(values) != self.limits.columns:
            raise ValueError("expected parse to return one value for each column")
        if at is not None:
            when = at
        for column in range(self.limits.columns):
            self.columns[column][self.n] = values[column]
        self.add_member(PyBytes_AS_STRING(member), PyBytes_GET_SIZE(member))
        self.add_at(when)
        self.add_id(id)
        if self.kept is not None:
            self.kept.data.as_uints[self.n] = place
        self.n += 1
        return 0

    cdef int refuse(self, Py_ssize_t place, object error) except -1:
        cdef Py_ssize_t i
        self.errors.append((place, error))
        if self.kept is None:
            self.kept = array.clone(PLACES, self.size, False)
            for i in range(self.n):
                self.kept.data.as_uints[i] = i
        return 0

    cdef Columns finish(self):
        cdef object column
        if self.n < self.size:
            for column in (*self.values, self.ats, self.labels, self.kept):
                if column is not None:
                    array.resize(column, self.n)
        return Columns(
            self.n, self.arena[:self.arena_size], (<char *>self.lengths)[:self.n],
            tuple(self.values), self.ats, self.ids, self.kept, self.errors, self.labels,
        )


def gather(events: object, *, multipliers: object, lows: object, highs: object, at_low: int,
           at_high: int, parse: object, error_type: object, group_number: object,
           always: bool = False) -> Columns:
    """Return the events of a batch as columns.

    The value of each column is multiplied by its item in `multipliers` (10^scale), and must then be
    within `lows` and `highs`; each `at` must be within `at_low` and `at_high`. `parse` checks every
    event that is not certainly valid, and returns a row that ends with its labels. `group_number`
    returns the number of an event's labels (None: no labels). If no event of the batch has labels,
    `group_number` is not called, except with `always`. Errors of the class `error_type` from these
    two functions are collected with the event's position and without traceback; any other error is
    raised.
    """
    cdef list batch = events if PyList_CheckExact(events) else list(events)
    cdef Py_ssize_t size = len(batch)
    cdef _Gathering gathering = _Gathering(size, multipliers, lows, highs, at_low, at_high)
    cdef Py_ssize_t place
    cdef object event
    cdef bint plain
    cdef Row row
    for place in range(size):
        event = batch[place]
        plain = read_event(event, &gathering.limits, &row)
        try:
            if plain:
                labels = event[4] if PyTuple_GET_SIZE(event) > 4 else None
            else:
                parsed = parse(event)
                labels = parsed[4]
            gathering.add_labels(group_number, labels, always)
        except error_type as error:
            # The error's traceback refers to this batch, which refers to the error: without this,
            # each refused event would leave a reference cycle.
            error.__traceback__ = error.__context__ = error.__cause__ = None
            gathering.refuse(place, error)
            continue
        if plain:
            gathering.add(place, &row)
        else:
            gathering.add_parsed(place, parsed)
    return gathering.finish()
