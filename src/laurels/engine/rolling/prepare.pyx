# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""The entries prepared for the next step, and the pass that prepares them.

`row_after` computes the entry of one member. Events and the pass both assign this entry
(`prepare`), so their order and number do not matter. The pass first visits the tally that left, and
frees the buckets that it has visited; then it visits the tally about to leave. It visits both in
hash order, and each call continues where the last one ended.
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from laurels.engine.tally.cells cimport (
    BUCKET_MOST, PLACES, Cells, drain_to, next_bucket, prefetch_cell, prefetch_slot, read_cell,
)
from laurels.engine.tree.entries cimport (
    FAR, LARGE, NEAR, NEXT, Hint, discard, predict_write, prefetch_entry, prefetch_place, seek,
)
from laurels.engine.writing.journal cimport UndoLog, save_entry
from laurels.engine.tree.leaf cimport WORDS_MOST, ids_of, leaf_get, leaf_read
from .ring cimport Rolling, cells_for, is_complete, leaving_of, newest_of
from laurels.engine.writing.rule cimport OP_SUM
from laurels.engine.tree.tree cimport Spot
from laurels.engine.writing.write cimport Write, clear_hint, read_entry, write_entry

cdef enum:
    BLOCK = 512                 # how many members the pass gathers before it visits them


cdef bint use_next_candidate(const Rolling *rolling, uint32_t member, const int64_t *cell,
                             int64_t *row) noexcept nogil:
    """Replace a leaving candidate in a member's row by the member's next candidate; return False
    if there is none."""
    cdef int64_t distance = cell[rolling.rule.words + 1]
    cdef int64_t candidate[WORDS_MOST]
    cdef Cells *cells
    if not 0 < distance < rolling.steps:
        return False
    cells = cells_for(rolling, leaving_of(rolling) + distance)
    if cells == NULL or not read_cell(cells, member, candidate):
        return False
    memcpy(row, candidate, rolling.rule.words * sizeof(int64_t))
    return True


cdef bint row_after(const Rolling *rolling, uint32_t member, const int64_t *live,
                    int64_t *row) noexcept nogil:
    """Compute the entry that a member will have after the oldest tally has left, from its entry in
    `live`; return False if it will have none."""
    cdef Cells *leaving = cells_for(rolling, leaving_of(rolling))
    cdef int64_t cell[WORDS_MOST]
    cdef int column
    if live[newest_of(rolling)] <= leaving_of(rolling):
        return False
    memcpy(row, live, rolling.live.words * sizeof(int64_t))
    if leaving == NULL or not read_cell(leaving, member, cell):
        return True
    if rolling.rule.best:
        return use_next_candidate(rolling, member, cell, row)
    for column in range(rolling.rule.columns):
        if rolling.rule.ops[column] == OP_SUM:
            row[column] -= cell[column]
    return True


cdef bint are_rows_equal(const int64_t *left, const int64_t *right, int words) noexcept nogil:
    cdef int word
    for word in range(words):
        if left[word] != right[word]:
            return False
    return True


cdef bint prepare(Rolling *rolling, uint32_t member, const int64_t *live, const Hint *hint,
                  UndoLog *undo_log) noexcept nogil:
    """Assign a member's entry in `prepared`, given its entry in `live` (NULL: none). Return False
    if out of memory."""
    cdef int64_t row[WORDS_MOST]
    cdef Write write
    write.hint = hint[0]
    read_entry(rolling.prepared, member, &write)
    if live != NULL and row_after(rolling, member, live, row):
        if write.draft.present and are_rows_equal(write.draft.old, row, write.tree.words):
            return True
        return write_entry(&write, member, row, undo_log)
    if write.draft.present:
        if not save_entry(undo_log, write.tree, member):
            return False
        discard(write.tree, member)
    return True


cdef void predict_prepared(Rolling *rolling, uint32_t member, const int64_t *live,
                           Hint *hint) noexcept nogil:
    """Prefetch the leaf to which `prepare` would move a member's entry now."""
    cdef int64_t row[WORDS_MOST]
    cdef Spot spot
    clear_hint(hint)
    if rolling.prepared.height == 0 or not row_after(rolling, member, live, row):
        return
    predict_write(rolling.prepared, member, row,
                  &spot if seek(rolling.prepared, member, &spot) else NULL, hint)


# The pass


cdef int gather(const Cells *cells, uint64_t *place, int64_t most, uint32_t *ids) noexcept nogil:
    """Gather about `most` members from a place in hash order, as whole buckets. Advance the place,
    and return the number of members."""
    cdef Spot spots[BUCKET_MOST]
    cdef int count = 0
    cdef int buckets = 0
    cdef int i, more
    while place[0] < PLACES and count < most and buckets < most:
        more = next_bucket(cells, place, spots)
        for i in range(more):
            ids[count + i] = ids_of(spots[i].leaf, cells.words)[spots[i].at]
        count += more
        buckets += 1
    return count


cdef inline void prefetch_ahead(const Rolling *rolling, const uint32_t *ids, int at,
                                int count) noexcept nogil:
    """Prefetch the memory that the next members will need, as `fold` does for events."""
    cdef Cells *leaving = cells_for(rolling, leaving_of(rolling))
    if at + FAR < count:
        prefetch_place(rolling.live, ids[at + FAR])
        prefetch_place(rolling.prepared, ids[at + FAR])
        if leaving != NULL:
            prefetch_slot(leaving, ids[at + FAR])
    if at + NEAR < count:
        prefetch_entry(rolling.live, ids[at + NEAR])
        prefetch_entry(rolling.prepared, ids[at + NEAR])
        if leaving != NULL:
            prefetch_cell(leaving, ids[at + NEAR])


cdef inline bint read_live(const Rolling *rolling, uint32_t member, int64_t *live) noexcept nogil:
    cdef Spot spot
    if not seek(rolling.live, member, &spot):
        return False
    leaf_read(spot.leaf, rolling.live.words, spot.at, live)
    return True


cdef bint visit(Rolling *rolling, const uint32_t *ids, int count) noexcept nogil:
    """Prepare members; return False if out of memory."""
    cdef int64_t live[WORDS_MOST]
    cdef Hint hints[NEXT]
    cdef bint prefetching = rolling.live.size > LARGE or rolling.prepared.size > LARGE
    cdef bint present
    cdef int i
    for i in range(NEXT):
        clear_hint(&hints[i])
    for i in range(count):
        present = read_live(rolling, ids[i], live)
        if not prepare(rolling, ids[i], live if present else NULL, &hints[i % NEXT], NULL):
            return False
        if not prefetching:
            continue
        prefetch_ahead(rolling, ids, i, count)
        clear_hint(&hints[i % NEXT])
        if i + NEXT < count and read_live(rolling, ids[i + NEXT], live):
            predict_prepared(rolling, ids[i + NEXT], live, &hints[i % NEXT])
    return True


cdef bint continue_pass(Rolling *rolling, int64_t limit) noexcept nogil:
    """Visit about `limit` of the members that the pass has not visited yet; return False if out of
    memory."""
    cdef uint32_t ids[BLOCK + BUCKET_MOST]
    cdef Cells *cells
    cdef uint64_t *place
    cdef uint64_t after
    cdef bint left
    cdef int count
    while limit > 0 and not is_complete(rolling):
        left = rolling.left_position < PLACES
        place = &rolling.left_position if left else &rolling.leaving_position
        cells = cells_for(rolling, leaving_of(rolling) - left)
        after = place[0]
        if cells == NULL or cells.size == 0:
            place[0] = PLACES
            continue
        count = gather(cells, &after, min(limit, <int64_t>BLOCK), ids)
        if not visit(rolling, ids, count):
            return False
        if left:
            drain_to(cells, place[0], after)
        place[0] = after
        limit -= count + 1
    return True
