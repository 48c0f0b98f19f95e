# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A job: a batch of events as columns, the windows of the board, and the events' targets in
them."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from laurels.engine.tally.cells cimport Cells
from laurels.engine.writing.journal cimport UndoLog
from laurels.engine.rolling.ring cimport Rolling
from laurels.engine.writing.rule cimport COLUMNS_MOST, Rule
from laurels.engine.tree.leaf cimport WORDS_MOST
from laurels.engine.tree.tree cimport Tree

cdef enum:
    WINDOWS_MOST = 64
    ST_APPLIED = 1
    ST_UNCHANGED = 2
    ST_OUT_OF_RANGE = 3

cdef struct Store:              # a target of events
    Tree *tree                  # a ranking, or NULL
    Cells *cells                # a tally, or NULL
    Rolling *rolling            # for a tally: the rolling set that it belongs to

cdef struct Route:
    const int32_t *each         # one for each event; NULL: all events have `all`
    int32_t all

cdef struct DecayPair:             # the weights of the events in a window
    bint on                     # whether the window has decay
    const int64_t *exponents    # one for each event; NULL: all events have `exponent`
    const int64_t *mantissas    # one for each event; NULL: all events have `mantissa`
    int64_t exponent
    int64_t mantissa

cdef struct Trace:              # the columns for the entries of a window after each event
    int window
    int64_t *words[WORDS_MOST]

cdef struct Job:
    Rule rule
    Store *stores
    int store_count
    Route routes[WINDOWS_MOST]
    DecayPair decays[WINDOWS_MOST]
    int windows
    int all_window
    int watch
    const uint32_t *ids[WINDOWS_MOST]   # the members of the events, for each window
    const int64_t *values[COLUMNS_MOST]
    const int64_t *stamps       # one for each event; NULL: all events have `stamp`
    const int64_t *ats          # one for each event; NULL: all events have `at`
    int64_t stamp
    int64_t at
    const uint8_t *sets
    uint8_t *status
    Py_ssize_t start
    Py_ssize_t stop
    UndoLog *undo_log           # the journal; NULL: none is kept
    char *present_before
    char *present_after
    int64_t *before[COLUMNS_MOST]
    int64_t *after[COLUMNS_MOST]
    int traced                  # the number of traced windows
    Trace traces[WINDOWS_MOST]
    int64_t *added[COLUMNS_MOST]        # by how much `set` changed each total, or NULL
    const uint32_t *places      # each event's position in the caller's columns; NULL: its number

cdef inline int score_words(const Job *job, int window) noexcept nogil:
    """Return the number of words that are the score of a window's entries."""
    return 2 if job.decays[window].on else job.rule.columns
