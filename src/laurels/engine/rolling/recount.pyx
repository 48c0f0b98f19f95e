# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""The check of a rolling window: its rankings are counted again from its tallies.

All cells are added up, step by step from the oldest, into one row for each member. This follows the
definition of the operators, without calling the code that counts events. Then both rankings are
compared with the rows.
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from laurels.engine.tally.cells cimport BUCKET_MOST, PLACES, Cells, find_cell, next_bucket, place_of
from laurels.engine.tree.entries cimport seek
from laurels.engine.tree.leaf cimport WORDS_MOST, ids_of, leaf_read
from laurels.engine.tree.order cimport select
from laurels.engine.tree.page cimport Leaf
from .prepare cimport row_after
from .ring cimport Rolling, cells_for, leaving_of, newest_of
from laurels.engine.writing.rule cimport OP_SUM, Rule, is_earlier, latest_tie, order_of
from laurels.engine.tree.runs cimport neighbour
from laurels.engine.roster.table cimport NONE, Table, table_add, table_close, table_get, table_open
from laurels.engine.tree.tree cimport Spot, Tree

cdef struct Row:                # the total of a member's cells
    int64_t words[WORDS_MOST]   # like an entry of `live`
    int64_t last[WORDS_MOST]    # the newest cell so far

cdef struct Count:
    Table places                # from a member id to the position of its row
    Row *rows
    uint32_t size
    uint32_t capacity


cdef Row *row_of(Count *count, uint32_t member, bint *new) noexcept nogil:
    """Return the row of a member, or NULL if out of memory. If there is no row, create it and set
    `new`."""
    cdef uint32_t at = table_get(&count.places, member)
    cdef uint32_t capacity = 2 * count.capacity + 64
    cdef Row *rows
    new[0] = at == NONE
    if at != NONE:
        return &count.rows[at]
    if count.size == count.capacity:
        rows = <Row *>realloc(count.rows, capacity * sizeof(Row))
        if rows == NULL:
            return NULL
        count.rows = rows
        count.capacity = capacity
    if table_add(&count.places, member, count.size) < 0:
        return NULL
    count.size += 1
    return &count.rows[count.size - 1]


cdef inline int64_t exact_at(const Rule *rule, const int64_t *words) noexcept nogil:
    """Return the time of the event that a cell's `last` columns come from."""
    return words[rule.words - 1] if rule.stamped else rule.tie * words[rule.columns]


cdef void add_running(const Rule *rule, int64_t *words, const int64_t *cell) noexcept nogil:
    """Add a cell with sum and last columns to a member's words."""
    cdef bint newer = not rule.last or exact_at(rule, cell) >= exact_at(rule, words)
    cdef int tie = rule.columns
    cdef int column
    for column in range(rule.columns):
        if rule.ops[column] == OP_SUM:
            words[column] += cell[column]
        elif newer:
            words[column] = cell[column]
    if rule.tie:
        words[tie] = latest_tie(rule.tie, rule.tie * cell[tie], True, words[tie])
    if rule.stamped and newer:
        words[rule.words - 1] = cell[rule.words - 1]


cdef void add_best(const Rule *rule, int64_t *words, const int64_t *cell) noexcept nogil:
    """Add a cell with best columns to a member's words: keep the better tuple; if they are equal,
    the least stamp."""
    cdef int order = order_of(rule, cell, words)
    if order < 0 or (order == 0 and is_earlier(rule, cell, words)):
        memcpy(words, cell, rule.words * sizeof(int64_t))


cdef void add_cell(const Rule *rule, int64_t *words, const int64_t *cell,
                   bint first) noexcept nogil:
    """Add a cell to the words of its member; cells come from the oldest step on."""
    if first:
        memcpy(words, cell, rule.words * sizeof(int64_t))
    elif rule.best:
        add_best(rule, words, cell)
    else:
        add_running(rule, words, cell)


cdef const char *check_links(const Rolling *rolling, const Row *row, const int64_t *cell,
                             int64_t step, bint first) noexcept nogil:
    """Check the links and the score of a candidate against the member's previous candidate."""
    cdef const Rule *rule = &rolling.rule
    cdef int64_t distance = cell[rule.words]
    if first:
        if distance != 0 and step - distance >= leaving_of(rolling):
            return "a member's first candidate links to an earlier one"
        return NULL
    if distance != step - row.words[newest_of(rolling)] or (
            row.last[rule.words + 1] != distance):
        return "two successive candidates of a member do not link to each other"
    if order_of(rule, row.last, cell) > 0:
        return "a candidate has a worse score than a later one"
    return NULL


cdef const char *count_cell(const Rolling *rolling, Count *count, uint32_t member,
                            const int64_t *cell, int64_t step, int words) noexcept nogil:
    """Add one cell to the row of its member."""
    cdef const Rule *rule = &rolling.rule
    cdef const char *fault = NULL
    cdef bint first = False
    cdef Row *row = row_of(count, member, &first)
    if row == NULL:
        return "out of memory during the check"
    if rule.best:
        fault = check_links(rolling, row, cell, step, first)
    add_cell(rule, row.words, cell, first)
    row.words[newest_of(rolling)] = step
    memcpy(row.last, cell, words * sizeof(int64_t))
    return fault


cdef const char *count_tally(const Rolling *rolling, Count *count, const Cells *cells,
                             int64_t step) noexcept nogil:
    """Add each cell of a step's tally to the row of its member. Return the first fault found, or
    NULL."""
    cdef Spot spots[BUCKET_MOST]
    cdef int64_t cell[WORDS_MOST]
    cdef uint64_t place = 0
    cdef const char *fault
    cdef int i, size
    while place < PLACES:
        size = next_bucket(cells, &place, spots)
        for i in range(size):
            leaf_read(spots[i].leaf, cells.words, spots[i].at, cell)
            fault = count_cell(rolling, count, ids_of(spots[i].leaf, cells.words)[spots[i].at],
                               cell, step, cells.words)
            if fault != NULL:
                return fault
    return NULL


cdef bint is_entry_equal(Tree *tree, uint32_t member, const int64_t *expected) noexcept nogil:
    """Return whether a member's entry is as expected (NULL: none)."""
    cdef int64_t entry[WORDS_MOST]
    cdef Spot spot
    cdef int word
    if not seek(tree, member, &spot):
        return expected == NULL
    if expected == NULL:
        return False
    leaf_read(spot.leaf, tree.words, spot.at, entry)
    for word in range(tree.words):
        if entry[word] != expected[word]:
            return False
    return True


cdef inline bint is_left_to_visit(const Rolling *rolling, uint32_t member) noexcept nogil:
    """Return whether the pass will still visit a member in the tally that left."""
    cdef const Cells *left = cells_for(rolling, leaving_of(rolling) - 1)
    cdef Spot spot
    return left != NULL and rolling.left_position < PLACES and find_cell(left, member, &spot)


cdef inline bint is_to_visit(const Rolling *rolling, uint32_t member) noexcept nogil:
    """Return whether the pass still has to visit a member."""
    cdef const Cells *leaving = cells_for(rolling, leaving_of(rolling))
    cdef Spot spot
    if is_left_to_visit(rolling, member):
        return True
    return leaving != NULL and place_of(member) >= rolling.leaving_position and (
        find_cell(leaving, member, &spot))


cdef const char *check_member(Rolling *rolling, const Count *count, uint32_t member,
                              const int64_t *live) noexcept nogil:
    """Check the entries of a member in both rankings; `live` has the words of its entry in
    `rolling.live`."""
    cdef uint32_t at = table_get(<Table *>&count.places, member)
    cdef int64_t row[WORDS_MOST]
    cdef bint stays
    if at == NONE or not is_entry_equal(rolling.live, member, count.rows[at].words):
        return "live differs from the sum of the tallies"
    if rolling.rule.best and count.rows[at].last[rolling.rule.words + 1] != 0:
        return "a member's last candidate links to a later one"
    stays = row_after(rolling, member, live, row)
    if not is_to_visit(rolling, member) and not (
            is_entry_equal(rolling.prepared, member, row if stays else NULL)):
        return "prepared differs from live without the leaving tally"
    return NULL


cdef const char *check_entries(Rolling *rolling, const Count *count, Tree *tree) noexcept nogil:
    """Check the entries of one ranking. For each entry of `live`, the member's entries in both
    rankings are checked. A member that is in `prepared` alone must be one that the pass will still
    remove."""
    cdef int64_t entry[WORDS_MOST]
    cdef const char *fault = NULL
    cdef Spot spot, other
    cdef uint32_t member
    if tree.size:
        select(tree, 0, &spot)
    else:
        spot.leaf = NULL
    while spot.leaf != NULL and fault == NULL:
        for spot.at in range(spot.leaf.size):
            member = ids_of(spot.leaf, tree.words)[spot.at]
            leaf_read(spot.leaf, tree.words, spot.at, entry)
            if tree == rolling.live:
                fault = check_member(rolling, count, member, entry)
            elif not seek(rolling.live, member, &other) and not (
                    is_left_to_visit(rolling, member)):
                fault = "prepared has a member that is not in live"
            if fault != NULL:
                break
        spot.leaf = neighbour(spot.leaf, 1)
    return fault


cdef const char *count_all(Rolling *rolling, Count *count) noexcept nogil:
    cdef int64_t step = leaving_of(rolling)
    cdef const char *fault = NULL
    cdef Cells *cells
    while step <= rolling.running and fault == NULL:
        cells = cells_for(rolling, step)
        if cells != NULL:
            fault = count_tally(rolling, count, cells, step)
        step += 1
    if fault == NULL and count.size != rolling.live.size:
        fault = "live does not have as many members as the tallies"
    if fault == NULL:
        fault = check_entries(rolling, count, rolling.live)
    if fault == NULL:
        fault = check_entries(rolling, count, rolling.prepared)
    return fault


cdef const char *recount(Rolling *rolling) noexcept nogil:
    """Check that the rankings have the totals of the tallies; return the first fault found, or
    NULL.

    The structures of the rankings and tallies must have been checked before. O(cells).
    """
    cdef Count count
    cdef const char *fault
    memset(&count, 0, sizeof(Count))
    if table_open(&count.places, True) < 0:
        return "out of memory during the check"
    fault = count_all(rolling, &count)
    free(count.rows)
    table_close(&count.places)
    return fault
