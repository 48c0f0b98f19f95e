# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""The build of a deferred rolling window: its ranking is made from its tallies, in shares.

All tallies keep their members in the same hash order, so a share is a range of places: the cells in
it are added up, step by step from the oldest, into a row for each member, and the rows are entered
in `prepared`. A member is visited once, whatever the number of steps, so a build costs O(cells).
The row of a member is found by a hash table with another hash than that of the tallies: the members
of a share are close together in the tallies' hash, so they would collide. An event of a member that
the build has visited is counted in `prepared`, too (`counting.pyx`). The cell of any other event
will be added up when the build visits its member.
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

from laurels.engine.tally.cells cimport BUCKET_MOST, PLACES, Cells, next_bucket, place_of
from laurels.engine.tree.entries cimport seek
from laurels.engine.tree.leaf cimport WORDS_MOST, ids_of, leaf_read
from .recount cimport add_cell, is_entry_equal
from .ring cimport Rolling, cells_for, leaving_of
from laurels.engine.tree.tree cimport Spot
from laurels.engine.writing.write cimport Write, clear_hint, read_entry, write_entry

cdef enum:
    INITIAL_CAPACITY = 64       # the initial number of rows; capacities are powers of 2

cdef struct Row:                # the total of a member's cells
    uint32_t member
    int64_t words[WORDS_MOST]

cdef struct Sums:
    Row *rows
    uint32_t *slots             # from a member's hash to its row, counted from 1; 2 slots a row
    uint32_t size
    uint32_t capacity


cdef inline uint32_t slot_of(const Sums *sums, uint32_t member) noexcept nogil:
    """Return the slot of a member, or the free one where it belongs."""
    cdef uint32_t mixed = member
    cdef uint32_t mask = 2 * sums.capacity - 1
    mixed = (mixed ^ (mixed >> 16)) * <uint32_t>0x85EBCA6B
    mixed = (mixed ^ (mixed >> 13)) * <uint32_t>0xC2B2AE35
    mixed = (mixed ^ (mixed >> 16)) & mask
    while sums.slots[mixed] and sums.rows[sums.slots[mixed] - 1].member != member:
        mixed = (mixed + 1) & mask
    return mixed


cdef bint ensure_capacity(Sums *sums) noexcept nogil:
    """Ensure the capacity for another row; return False if out of memory."""
    cdef uint32_t capacity = 2 * sums.capacity if sums.capacity else INITIAL_CAPACITY
    cdef uint32_t i
    cdef uint32_t *slots
    cdef Row *rows
    if sums.size < sums.capacity:
        return True
    rows = <Row *>realloc(sums.rows, capacity * sizeof(Row))
    if rows == NULL:
        return False
    sums.rows = rows
    slots = <uint32_t *>calloc(2 * capacity, sizeof(uint32_t))
    if slots == NULL:
        return False
    free(sums.slots)
    sums.slots = slots
    sums.capacity = capacity
    for i in range(sums.size):
        slots[slot_of(sums, rows[i].member)] = i + 1
    return True


cdef void close_sums(Sums *sums) noexcept nogil:
    free(sums.rows)
    free(sums.slots)


cdef bint add(const Rolling *rolling, Sums *sums, uint32_t member,
              const int64_t *cell) noexcept nogil:
    """Add a cell to the row of its member; return False if out of memory."""
    cdef uint32_t slot
    if not ensure_capacity(sums):
        return False
    slot = slot_of(sums, member)
    if sums.slots[slot]:
        add_cell(&rolling.rule, sums.rows[sums.slots[slot] - 1].words, cell, False)
        return True
    sums.rows[sums.size].member = member
    add_cell(&rolling.rule, sums.rows[sums.size].words, cell, True)
    sums.size += 1
    sums.slots[slot] = sums.size
    return True


cdef uint64_t count_cells(const Rolling *rolling) noexcept nogil:
    """Return the number of cells in all steps that the window counts. O(steps)."""
    cdef uint64_t total = 0
    cdef int64_t step
    cdef Cells *cells
    for step in range(leaving_of(rolling), rolling.running + 1):
        cells = cells_for(rolling, step)
        if cells != NULL:
            total += cells.size
    return total


cdef bint add_tally(const Rolling *rolling, Sums *sums, const Cells *cells, uint64_t start,
                    uint64_t end) noexcept nogil:
    """Add the cells of a tally between two places in hash order; return False if out of memory."""
    cdef Spot spots[BUCKET_MOST]
    cdef int64_t cell[WORDS_MOST]
    cdef uint32_t member
    cdef int i, count
    while start < end:
        count = next_bucket(cells, &start, spots)
        for i in range(count):
            member = ids_of(spots[i].leaf, cells.words)[spots[i].at]
            if place_of(member) >= end:
                continue
            leaf_read(spots[i].leaf, cells.words, spots[i].at, cell)
            if not add(rolling, sums, member, cell):
                return False
    return True


cdef bint add_all(const Rolling *rolling, Sums *sums, uint64_t start, uint64_t end) noexcept nogil:
    """Add the cells of all steps between two places in hash order; return False if out of
    memory."""
    cdef int64_t step
    cdef Cells *cells
    for step in range(leaving_of(rolling), rolling.running + 1):
        cells = cells_for(rolling, step)
        if cells != NULL and cells.size and not add_tally(rolling, sums, cells, start, end):
            return False
    return True


cdef bint write_rows(Rolling *rolling, const Sums *sums) noexcept nogil:
    """Insert the members' rows into `prepared`; return False if out of memory."""
    cdef Write write
    cdef uint32_t i
    for i in range(sums.size):
        clear_hint(&write.hint)
        read_entry(rolling.prepared, sums.rows[i].member, &write)
        if not write_entry(&write, sums.rows[i].member, sums.rows[i].words, NULL):
            return False
    return True


cdef bint continue_build(Rolling *rolling, int64_t limit) noexcept nogil:
    """Prepare the members of about `limit` more cells. Return False if out of memory; another call
    then repeats the work."""
    cdef uint64_t total = count_cells(rolling)
    cdef uint64_t end = PLACES
    cdef Sums sums
    cdef bint done
    if <uint64_t>max(limit, <int64_t>1) < total:
        end = min(PLACES, rolling.built + PLACES // total * <uint64_t>max(limit, <int64_t>1))
    memset(&sums, 0, sizeof(Sums))
    done = add_all(rolling, &sums, rolling.built, end) and write_rows(rolling, &sums)
    close_sums(&sums)
    if done:
        rolling.built = end
    return done


cdef const char *check_rows(Rolling *rolling, const Sums *sums) noexcept nogil:
    cdef uint32_t i, built = 0
    cdef Spot spot
    for i in range(sums.size):
        if place_of(sums.rows[i].member) < rolling.built:
            built += 1
            if not is_entry_equal(rolling.prepared, sums.rows[i].member, sums.rows[i].words):
                return "prepared differs from the sum of the tallies"
        elif seek(rolling.prepared, sums.rows[i].member, &spot):
            return "prepared has a member that the build has not visited"
    if built != rolling.prepared.size:
        return "prepared has a member that is in no tally"
    return NULL


cdef const char *check_build(Rolling *rolling) noexcept nogil:
    """Check that `prepared` has the totals of the tallies for the members that the build has
    visited; return the first fault found, or NULL. O(cells)."""
    cdef const char *fault = "out of memory during the check"
    cdef Sums sums
    memset(&sums, 0, sizeof(Sums))
    if add_all(rolling, &sums, 0, PLACES):
        fault = check_rows(rolling, &sums)
    close_sums(&sums)
    return fault
